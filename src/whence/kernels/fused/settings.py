"""How large the blocks of a kernel are, and how many warps share one: measured, not guessed."""

from typing import NamedTuple


class Setting(NamedTuple):
    """What a kernel is compiled with."""

    keys: int
    queries: int
    warps: int
    stages: int


# Bytes of a number, features of a head, whether there is a relevance: the fastest of those that were tried on an
# H200, with bfloat16 at 128 to 32,768 tokens and float32 at 512 to 2,048.
_CONTRACTING = {
    (2, 64, False): Setting(128, 64, 4, 3),
    (2, 64, True): Setting(128, 64, 4, 2),
    (2, 128, False): Setting(128, 64, 8, 3),
    (2, 128, True): Setting(128, 64, 4, 2),
    (2, 256, False): Setting(64, 64, 4, 2),
    (2, 256, True): Setting(64, 64, 4, 1),
    (4, 64, False): Setting(64, 64, 4, 2),
    (4, 64, True): Setting(64, 64, 4, 2),
    (4, 128, False): Setting(32, 64, 4, 2),
    (4, 128, True): Setting(32, 64, 4, 2),
    (4, 256, False): Setting(32, 16, 4, 2),
    (4, 256, True): Setting(16, 16, 4, 2),
}
_GATHERING = {
    (2, 64, False): Setting(64, 64, 4, 2),
    (2, 64, True): Setting(64, 64, 4, 2),
    (2, 128, False): Setting(64, 64, 4, 2),
    (2, 128, True): Setting(32, 64, 4, 2),
    (2, 256, False): Setting(64, 64, 4, 2),
    (2, 256, True): Setting(32, 64, 4, 2),
    (4, 64, False): Setting(32, 64, 4, 2),
    (4, 64, True): Setting(64, 32, 4, 2),
    (4, 128, False): Setting(64, 32, 4, 2),
    (4, 128, True): Setting(16, 64, 4, 1),
    (4, 256, False): Setting(32, 16, 4, 2),
    (4, 256, True): Setting(16, 16, 4, 1),
}
_DOUBLE = Setting(16, 16, 4, 1)


def contracting(features: int, size: int, relevance: bool) -> Setting:
    """Return the blocks for a row times a map, from the features of a head and the bytes of a number."""
    return _DOUBLE if size == 8 else _CONTRACTING[size, max(64, features), relevance]


def gathering(features: int, size: int, relevance: bool) -> Setting:
    """Return the blocks for a map times a column."""
    return _DOUBLE if size == 8 else _GATHERING[size, max(64, features), relevance]
