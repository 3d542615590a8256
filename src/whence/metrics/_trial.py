"""One input on trial: what several explanations claim about it, and the means to test the claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np

from whence.core.seed import generator
from whence.core.types import Passes, Task
from whence.data import Encoded
from whence.trial.changes import Again, Anew, Change, Randomised
from whence.trial.removed import Numbers, Removed


@dataclass(frozen=True, eq=False)
class Trial:
    """Explanations of one input, side by side, and the model to test them on."""

    item: Encoded
    task: Task
    names: tuple[str, ...]  # of the explanations
    scores: Numbers  # (explanations, tokens)
    signed: tuple[bool, ...]  # by explanation: whether its scores can be negative
    axioms: tuple[Mapping[str, float], ...]  # by explanation: the residuals it came with
    units: tuple[tuple[int, ...], ...]  # places that come and go together; special tokens in none
    removed: Removed
    again: Again
    marked: tuple[bool, ...] | None  # by unit: whether a person called it evidence
    # Of a picture, by pixel: 1 on what a person outlined, 0 on the ground, -1 where nobody said.
    mask: np.ndarray[Any, np.dtype[np.int8]] | None = None
    truth: int | None = None  # the label that people gave the input
    # By explanation, if it is of a picture: a score for each pixel, from methods that give one.
    fine: tuple[np.ndarray[Any, Any] | None, ...] = ()
    seed: int = 0
    slope: float = 1.0  # sizes of d explained / d logits, added up: 1 for a logit, 2 for a contrast

    @cached_property
    def values(self) -> Numbers:
        """What each explanation gives to each unit, (explanations, units): the sum over its tokens."""
        return self.by_unit(self.scores)

    def by_unit(self, scores: Numbers) -> Numbers:
        """Add up the scores of each unit's tokens, (explanations, units)."""
        if all(len(unit) == 1 for unit in self.units):
            # A sum of one, to the last bit: it has no -0.0.
            return np.ascontiguousarray(scores[:, [place for (place,) in self.units]]) + 0.0
        sums = [scores[:, list(unit)].sum(1) for unit in self.units]
        return np.stack(sums, axis=1) if sums else np.empty((len(scores), 0))

    def seeds(self, count: int) -> range:
        """Return so many seeds for changes; another seed of the trial has none of them."""
        return range(self.seed * count, (self.seed + 1) * count)

    @cached_property
    def orders(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The units of each explanation from the highest score down, (explanations, units).

        Equal scores say nothing about their order, so it is drawn, the same for every explanation: the order of
        the text would favour explanations that know nothing but like the beginning.
        """
        drawn = generator("ties", self.seed, self.item.key).permutation(len(self.units))
        return drawn[np.argsort(-self.values[:, drawn], axis=1, kind="stable")]

    @cached_property
    def flat(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether an explanation gives all units the same score, so that there is nothing to rank."""
        same: np.ndarray[Any, np.dtype[np.bool_]] = (self.values == self.values[:, :1]).all(1)
        return same

    def only(self, rows: Sequence[int]) -> "Trial":
        """Return the trial of some of the explanations."""
        return replace(
            self,
            names=tuple(self.names[row] for row in rows),
            scores=self.scores[list(rows)],
            signed=tuple(self.signed[row] for row in rows),
            axioms=tuple(self.axioms[row] for row in rows),
            fine=tuple(self.fine[row] for row in rows) if self.fine else (),
            again=_Some(self.again, tuple(rows)),
        )

    def null(self, rankings: int, *, reverse: bool = False) -> "Trial":
        """Return the trial of so many random explanations of the same input: every ranking is as likely.

        Where the input has no more rankings than that, it is all of them, each once.

        With `reverse`, the same rankings upside down, as random as before. What one keeps the other removes, so
        metrics of what is kept and metrics of what is removed share their questions to the model.
        """
        units = len(self.units)
        if units < 12 and factorial(units) <= rankings:
            drawn = np.array(list(permutations(range(units))))
        else:
            draw = generator("rankings", self.seed, self.item.key)
            drawn = np.array([draw.permutation(units) for _ in range(rankings)])
        return self._instead(-drawn if reverse else drawn, "random")

    def shuffled(self, row: int, times: int) -> "Trial":
        """Return the trial of one explanation whose scores were dealt out anew, `times` times."""
        draw = generator("shuffles", self.seed, self.item.key)
        dealt = np.array([draw.permutation(self.values[row]) for _ in range(times)])
        return replace(
            self._instead(dealt, "shuffled"),
            signed=(self.signed[row],) * times,
            again=_Unrelated(dealt, self, row),
        )

    def spread(self, values: Numbers) -> Numbers:
        """Return scores that add up to the values of the units, (explanations, tokens).

        A unit's first token gets all of it: shares of it would add up to a little more or less, and break ties.
        """
        scores = np.zeros((len(values), len(self.item)))
        scores[:, [places[0] for places in self.units]] = values
        return scores

    def _instead(self, values: Numbers, name: str) -> "Trial":
        return replace(
            self,
            names=(name,) * len(values),
            scores=self.spread(values),
            signed=(True,) * len(values),
            axioms=({},) * len(values),
            fine=(),
            again=_Unrelated(values, self),
        )


@dataclass(frozen=True)
class _Some:
    """Explains some of a trial's explanations again."""

    again: Again
    chosen: tuple[int, ...]

    @property
    def stages(self) -> tuple[str, ...]:
        return self.again.stages

    @property
    def prices(self) -> list[int]:
        prices = self.again.prices
        return [prices[row] for row in self.chosen]

    @property
    def passes(self) -> Passes:
        return self.again.passes

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> Anew:
        wanted = self.chosen if rows is None else [self.chosen[row] for row in rows]
        found = self.again(change, wanted)
        own = {row: place for place, row in enumerate(self.chosen)}
        why_not = {own[row]: why for row, why in found.why_not.items()}
        return Anew(found.scores[list(self.chosen)], found.predicted, why_not)


class _Unrelated:
    """Explains anew what was not explained in the first place: the scores are dealt out once more."""

    def __init__(self, values: Numbers, trial: Trial, row: int | None = None) -> None:
        self._values = values
        self._row = row  # the explanation that they are dealt out from, if it is one
        self._trial = trial
        self.prices = [0] * len(values)
        self.passes = Passes(0, 0)

    @property
    def stages(self) -> tuple[str, ...]:
        return self._trial.again.stages

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> Anew:
        # The stages of one cascade have their lower layers in common: they are one draw, not several.
        drawn = replace(change, stage=0) if isinstance(change, Randomised) else change
        draw = generator("unrelated", repr(drawn), self._trial.seed, self._trial.item.key)
        scores = self._trial.spread(draw.permuted(self._values, axis=1))
        if self._row is None or self._trial.flat[self._row]:
            return Anew(scores, int(self._trial.removed.predicted([()])[0]), {})
        # What could not be made again, or is left out as the prediction changed, is so in the null as well.
        found = self._trial.again(change, [self._row])
        if why := found.why_not.get(self._row):
            nothing = np.full_like(scores, np.nan)
            return Anew(nothing, found.predicted, dict.fromkeys(range(len(scores)), why))
        return Anew(scores, found.predicted, {})
