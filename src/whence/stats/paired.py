"""Are two methods different? Tests on the differences of the same examples, and their correction for being many."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from whence.core.seed import generator
from whence.stats.interval import SAME, Key

_TILE = 2**20  # signs at once; part of what a key means


def sign_flip(differences: ArrayLike, key: Key, draws: int = 10_000) -> float:
    """Return the two-sided p value of the paired permutation test: are the differences centred on zero?

    If they are, each could as well have had the other sign. p is the share of the ways to set the signs in which the
    sum is as far from zero as it was seen, or farther. All ways are gone through if there are no more than `draws`;
    else so many are drawn with the key's own generator, and what was seen counts as one of them, which keeps p from
    being too small. Differences of zero have no sign and change nothing; where there are no others p is 1.
    """
    given = np.asarray(differences, dtype=np.float64)
    given = given[given != 0]
    n = len(given)
    # Sums of the same terms in another order are the same sum.
    seen = abs(float(given.sum())) - SAME * float(np.abs(given).sum())
    if 2**n <= draws:
        ways = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return float((np.abs((1 - 2 * ways) @ given) >= seen).mean())
    draw = generator("sign_flip", *key)
    each = max(1, _TILE // n)
    as_far = 0
    for start in range(0, draws, each):
        ways = draw.integers(2, size=(min(each, draws - start), n), dtype=np.int8)
        as_far += int((np.abs((1.0 - 2.0 * ways) @ given) >= seen).sum())
    return (1 + as_far) / (1 + draws)


def least_p(n: int) -> float:
    """Return the smallest p value that `sign_flip` can give to n differences, whatever they are."""
    return min(1.0, 2.0 ** (1 - n))


def needed(comparisons: int, level: float) -> int:
    """Return from how many examples on one of so many p values, corrected by `holm`, can be below the level."""
    n = 1
    while comparisons * least_p(n) >= level:
        n += 1
    return n


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm's step-down procedure, in the order they came in.

    The i-th smallest of m is multiplied by m - i + 1, is no smaller than the one before it, and at most 1.
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps))
    return [float(p) for p in adjusted]
