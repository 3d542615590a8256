"""Hearing what will be asked about an input before any of it is answered: so inputs can be asked about together."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from whence.core.types import Passes
from whence.data import Encoded
from whence.data.removal import Removal
from whence.data.vision.picture import Fill
from whence.trial.changes import Again, Anew, Change
from whence.trial.removed import Numbers, Removed
from whence.trial.trial import Trial

# Something that will be done with a trial: run a metric, or run it on random explanations.
Part = Callable[[Trial], Any]


class NotYet(Exception):
    """What was asked is not known yet. Whoever asked will ask again."""


def wanted(trial: Trial, part: Part) -> list[frozenset[int]] | None:
    """Return the holes that `part` asks about first, of those that are not known; None if it needs no more of them.

    The model is not run. A part that wants anything else first, such as an explanation made anew, needs no more here:
    what it asks then is not foretold.
    """
    heard = _Overheard(trial.removed)
    try:
        part(replace(trial, removed=heard, again=_Silent(trial.again)))
    except NotYet:
        return heard.wanted or None
    return None


class _Overheard(Removed):
    """Answers what is known already, notes down what is not, and stops whoever asked."""

    def __init__(self, removed: Removed) -> None:
        self.__dict__.update(removed.__dict__)  # what is known and what will be is the same
        self.wanted: list[frozenset[int]] = []

    def shares(self, holes: Sequence[Collection[int]]) -> Numbers:
        self.wanted = self.unknown(holes)
        if self.wanted:
            raise NotYet
        return super().shares(holes)

    def covered(
        self, item: Encoded, masks: Iterable[np.ndarray[Any, np.dtype[np.bool_]]], fill: Fill
    ) -> NoReturn:
        raise NotYet

    def by(self, how: Removal) -> NoReturn:
        raise NotYet


@dataclass(frozen=True)
class _Silent:
    """Explains nothing anew."""

    again: Again

    @property
    def stages(self) -> tuple[str, ...]:
        return self.again.stages

    @property
    def prices(self) -> list[int]:
        return self.again.prices

    @property
    def passes(self) -> Passes:
        return self.again.passes

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> Anew:
        raise NotYet
