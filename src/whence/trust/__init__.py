"""The trust card: tests of one explanation, verdicts in plain words, and the numbers behind them."""

from whence.trust.card import Trust, assess

__all__ = ["Trust", "assess"]
