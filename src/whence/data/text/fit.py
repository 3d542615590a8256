"""The parts of a pair of long texts that can matter to a model: the rest is cut off before the tokenizer pairs them.

A tokenizer that cuts a pair also makes every combination of the parts that it cuts off: of two texts of 50,000
characters that is gigabytes, which a process keeps.
"""

from collections.abc import Sequence
from dataclasses import replace

from whence.core.types import Token

_SPARE = 64  # tokens


def fit_pair(tokens: Sequence[Token], given: tuple[str, str], most: int, side: str) -> list[range]:
    """Return which characters of each text can matter where both together get at most so many tokens.

    `tokens` are those of the whole texts; `side` is where the tokenizer cuts.
    """
    counts = [len(_own(tokens, segment)) for segment in (0, 1)]
    return [
        # More for the longer one: which of both is longer decides which of them gets an odd token.
        _fit(
            _own(tokens, i), len(given[i]), most + _SPARE * (1 + (counts[i] > counts[1 - i])), side
        )
        for i in (0, 1)
    ]


def move(tokens: Sequence[Token], fits: Sequence[range]) -> list[Token]:
    """Return the tokens of such parts with their places in the whole texts."""
    return [_move(token, fits[token.segment].start) for token in tokens]


def _fit(own: Sequence[Token], length: int, most: int, side: str) -> range:
    """Return the characters of so many tokens; the last of them may be others where a text ends, and are spare."""
    if len(own) <= most:
        return range(length)
    if side == "left":
        return range(min(token.start or 0 for token in own[-most:]), length)
    return range(max(token.end or 0 for token in own[:most]))


def _own(tokens: Sequence[Token], segment: int) -> list[Token]:
    return [token for token in tokens if token.segment == segment and not token.special]


def _move(token: Token, by: int) -> Token:
    if token.start is None or token.end is None:
        return token
    return replace(token, start=token.start + by, end=token.end + by)
