"""Sets of players, all different: every set where the budget allows, else a sample spread over the sizes."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Stratum:
    """All sets of one size, or those of them that hold player 0. `mass` is what they weigh together."""

    players: int
    size: int
    mass: float
    with_first: bool = False

    @property
    def count(self) -> int:
        """How many sets there are."""
        return comb(self.players - self.with_first, self.size - self.with_first)

    def all(self) -> Iterator[tuple[int, ...]]:
        """Every set, once."""
        head = (0,) * self.with_first
        others = range(self.with_first, self.players)
        for rest in combinations(others, self.size - self.with_first):
            yield head + rest

    def some(self, number: int, draw: np.random.Generator) -> list[tuple[int, ...]]:
        """So many different sets, each as likely as any other."""
        if self.count <= 4 * number:
            every = list(self.all())
            return [every[i] for i in draw.choice(len(every), number, replace=False)]
        head = (0,) * self.with_first
        found: dict[tuple[int, ...], None] = {}
        while len(found) < number:  # a draw is new three times out of four, or more often
            rest = draw.choice(
                self.players - self.with_first, self.size - self.with_first, replace=False
            )
            found[head + tuple(sorted(int(i) + self.with_first for i in rest))] = None
        return list(found)


def spread(
    strata: Sequence[Stratum], budget: int, draw: np.random.Generator
) -> list[tuple[tuple[int, ...], float]]:
    """Return `budget` different sets, or all if there are no more, each with its part of the mass.

    A stratum that has no more sets than its mass would get of the budget is taken whole, and what it leaves goes
    to the others; from those, sets are drawn in proportion to the mass. A weighted sum over the result has the
    expectation of as many independent draws and less variance, and no set comes twice.
    """
    chosen: list[tuple[tuple[int, ...], float]] = []
    rest, left = list(strata), budget
    while rest:
        mass = sum(stratum.mass for stratum in rest)
        whole = [s for s in rest if s.count <= left * s.mass / mass + 1e-9]
        if not whole:
            break
        for stratum in whole:
            chosen += [(one, stratum.mass / stratum.count) for one in stratum.all()]
            left -= stratum.count
        rest = [stratum for stratum in rest if stratum not in whole]
    if not rest or not left:
        return chosen
    # One random offset, then even steps through the mass: a stratum gets its fair number, rounded up or down.
    edges = np.cumsum([stratum.mass for stratum in rest]) / mass * left
    owners = np.searchsorted(edges[:-1], np.arange(left) + draw.random(), side="right")
    for stratum, number in zip(rest, np.bincount(owners, minlength=len(rest)), strict=True):
        chosen += [(one, mass / left) for one in stratum.some(int(number), draw)]
    return chosen


def presence(
    players: int, absent: Sequence[Collection[int]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a row for each set of absent players: 0 for them, 1 for the others."""
    rows = np.ones((len(absent), players))
    for row, gone in zip(rows, absent, strict=True):
        row[list(gone)] = 0
    return rows
