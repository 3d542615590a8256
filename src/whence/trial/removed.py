"""The model's answers about one input with parts of it removed."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from whence.capture import Ask
from whence.core.types import Target, Task
from whence.data import Encoded
from whence.data.removal import Removal
from whence.data.vision.picture import Fill
from whence.stats.rank import levelled

ROUNDINGS = 64  # units of rounding that the numbers of a deep model may be off by

Numbers = np.ndarray[Any, np.dtype[np.float64]]


class Removed:
    """One input without some of its units; every distinct variant is asked about once, whoever wants it."""

    def __init__(
        self,
        ask: Ask,
        units: Sequence[tuple[int, ...]],
        how: Removal,
        target: Target,
        shares: Numbers,
        task: Task,
    ) -> None:
        """`shares` is what every label gets from the whole input: nothing need be asked for that."""
        self.how = how
        self._ask = ask
        self._units = units
        self._target = target
        self._whole = shares
        self._task = task
        self._known: dict[frozenset[int], Numbers] = {frozenset(): shares}

    def shares(self, holes: Sequence[Collection[int]]) -> Numbers:
        """Return what every label gets with the units in each hole removed, (holes, labels)."""
        if new := self.unknown(holes):
            places = [self.places(hole) for hole in new]
            found = self._ask.shares_without(0, places, self.how).double().cpu().numpy()
            self._known.update(zip(new, found, strict=True))
        if not len(holes):
            return self._whole[None][:0]
        return np.stack([self._known[frozenset(hole)] for hole in holes])

    def unknown(self, holes: Sequence[Collection[int]]) -> list[frozenset[int]]:
        """Return the different holes that the model must be asked about."""
        return [one for one in dict.fromkeys(map(frozenset, holes)) if one not in self._known]

    def places(self, hole: Collection[int]) -> list[int]:
        """Return the tokens of the units in a hole."""
        return [place for unit in sorted(hole) for place in self._units[unit]]

    def probability(self, holes: Sequence[Collection[int]]) -> Numbers:
        """Return the target's probability with the units in each hole removed, (holes,)."""
        return self.explained(self.shares(holes))

    def predicted(self, holes: Sequence[Collection[int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the label that is predicted with the units in each hole removed, (holes,)."""
        shares = self.shares(holes)
        best: np.ndarray[Any, np.dtype[np.int64]] = (
            shares[:, :-1] if self._ask.rest else shares
        ).argmax(1)
        return best

    def covered(
        self, item: Encoded, masks: Iterable[np.ndarray[Any, np.dtype[np.bool_]]], fill: Fill
    ) -> Numbers:
        """Return what every label gets with pixels of a picture covered, (masks, labels); masks: (height, width)."""
        picture = item.picture
        assert picture is not None, "only pictures have pixels"
        bare = replace(item, tokens=(), words=())
        variants = ((0, replace(bare, picture=picture.covered(mask, fill))) for mask in masks)
        found: Numbers = self._ask.shares(variants).double().cpu().numpy()
        return found

    @property
    def whole(self) -> Numbers:
        """What every label gets from the whole input."""
        return self._whole

    def by(self, how: Removal) -> "Removed":
        """Return the same input with units removed in another way."""
        return Removed(self._ask, self._units, how, self._target, self._whole, self._task)

    @property
    def base(self) -> float:
        """The target's probability, from the whole input."""
        return float(self.explained(self._whole[None])[0])

    @cached_property
    def loo(self) -> Numbers:
        """The fall of the target's probability when one unit is removed, for each of them.

        What differs by no more than the rounding of the model's logits is made equal: it is no order of units.
        """
        falls = self.base - self.probability([(unit,) for unit in range(len(self._units))])
        # How far the rounding of logits of ordinary size moves a probability: less, the surer the model is.
        sure = self._task != "regression"
        move = self._whole * (1 - self._whole) if sure else np.maximum(np.abs(self._whole), 1.0)
        grain = ROUNDINGS * (self._ask.eps * float(np.abs(move).max()) + np.finfo(float).eps)
        return levelled(falls, grain)

    @property
    def contrast(self) -> bool:
        """Whether the explained number is a difference of two labels, not a probability."""
        return self._target.against is not None

    def explained(self, shares: Numbers) -> Numbers:
        """Return the target's probability out of what every label gets, (variants,)."""
        value: Numbers = shares[:, self._target.index]
        other = self._target.against
        return value if other is None else value - shares[:, other.index]
