"""The trust card: how an explanation fared when its claims were tested, in plain words and with numbers."""

from whence.trust.assess import Meter, assess
from whence.trust.card import Trust

__all__ = ["Meter", "Trust", "assess"]
