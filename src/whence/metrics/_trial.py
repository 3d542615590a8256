"""Trial, the argument of metrics: explanations of one input, side by side, and the model to test them on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.core.seed import build_generator
from whence.core.types import PassCount, Task
from whence.data.tokens import EncodedInput
from whence.metrics._requests import (
    Change,
    ExplanationRepeater,
    Numbers,
    Randomised,
    RemovalPredictions,
    RemovalRequest,
    RepeatedExplanations,
    RepeatRequest,
)


@dataclass(frozen=True, eq=False)
class Trial:
    """Explanations of one input, side by side, and the model to test them on."""

    item: EncodedInput
    task: Task
    names: tuple[str, ...]  # of the explanations
    scores: Numbers  # (explanations, tokens)
    signed: tuple[bool, ...]  # by explanation: whether its scores can be negative
    axioms: tuple[Mapping[str, float], ...]  # by explanation: the residuals it came with
    units: tuple[tuple[int, ...], ...]  # places that come and go together; special tokens in none
    removed: RemovalPredictions
    again: ExplanationRepeater
    marked: tuple[bool, ...] | None = None  # by unit: whether a person called it evidence
    # Pixel labels of a picture: 1 on the outlined object, 0 on the background, -1 where unlabelled.
    mask: NDArray[np.int8] | None = None
    truth: int | None = None  # the label that people gave the input
    # By explanation, if it is of a picture: a score for each pixel, from methods that give one.
    fine: tuple[NDArray[Any] | None, ...] = ()
    seed: int = 0
    slope: float = 1.0  # sizes of d explained / d logits, added up: 1 for a logit, 2 for a contrast
    results: tuple[Any, ...] = ()  # of the steps that the trial was made for, in their order

    @property
    def base(self) -> float:
        """The target's probability for the whole input."""
        return self.removed.base

    def without(self, holes: Sequence[Collection[int]]) -> RemovalRequest:
        """Request the target's probability with each set of units removed, (holes,)."""
        return RemovalRequest(self.removed, holes, self.removed.select_target)

    def without_each(self) -> RemovalRequest:
        """Request the fall of the target's probability when each unit is removed alone, (units,)."""
        return self.removed.build_loo_request()

    def labels_without(self, holes: Sequence[Collection[int]]) -> RemovalRequest:
        """Request the predicted label with each set of units removed, (holes,)."""
        return RemovalRequest(self.removed, holes, self.removed.select_label)

    def without_highest(self, counts: ArrayLike) -> RemovalRequest:
        """Request the target's probability with the highest units removed, (explanations, counts).

        `counts` are the same for all explanations, or a row for each; they are cut to the number of removable units.
        An explanation with all scores equal has NaN.
        """
        return self._without_first(self.orders, counts)

    def without_lowest(self, counts: ArrayLike) -> RemovalRequest:
        """Request the target's probability with the lowest units removed, (explanations, counts)."""
        return self._without_first(self.orders[:, ::-1], counts)

    def _without_first(self, orders: NDArray[np.int64], counts: ArrayLike) -> RemovalRequest:
        shape = (len(orders), np.shape(counts)[-1])
        gone = np.broadcast_to(np.minimum(counts, self.removable), shape)
        ranks = np.flatnonzero(~self.flat)
        masked = [
            order[:count]
            for order, row in zip(orders[ranks].tolist(), gone[ranks].tolist(), strict=True)
            for count in row
        ]

        def place(shares: Numbers) -> Numbers:
            probabilities = np.full(shape, np.nan)
            probabilities[ranks] = self.removed.select_target(shares).reshape(len(ranks), shape[1])
            return probabilities

        return RemovalRequest(self.removed, masked, place)

    def repeats(
        self, changes: Sequence[Change], rows: Sequence[int] | None = None
    ) -> RepeatRequest:
        """Request all explanations, or those in `rows`, repeated under each change."""
        return RepeatRequest(self.again, changes, rows)

    @property
    def removable(self) -> int:
        """How many units can be removed at once: all, unless deletion would empty the input."""
        nothing_else = sum(map(len, self.units)) == len(self.item)
        return len(self.units) - (self.removed.how == "delete" and nothing_else)

    @cached_property
    def values(self) -> Numbers:
        """The score of each unit in each explanation, (explanations, units): the sum over its tokens."""
        return self.by_unit(self.scores)

    def by_unit(self, scores: Numbers) -> Numbers:
        """Add up the scores of each unit's tokens, (explanations, units)."""
        if all(len(unit) == 1 for unit in self.units):
            # A sum of one, to the last bit: it has no -0.0.
            return np.ascontiguousarray(scores[:, [place for (place,) in self.units]]) + 0.0
        sums = [scores[:, list(unit)].sum(1) for unit in self.units]
        return np.stack(sums, axis=1) if sums else np.empty((len(scores), 0))

    def seeds(self, count: int) -> range:
        """Return `count` seeds for changes; trials with different seeds share none."""
        return range(self.seed * count, (self.seed + 1) * count)

    @cached_property
    def orders(self) -> NDArray[np.int64]:
        """The units of each explanation from the highest score down, (explanations, units).

        Equal scores say nothing about their order, so it is drawn, the same for every explanation: the order of
        the text would favour explanations that know nothing but like the beginning.
        """
        drawn = build_generator("ties", self.seed, self.item.key).permutation(len(self.units))
        return drawn[np.argsort(-self.values[:, drawn], axis=1, kind="stable")]

    @cached_property
    def flat(self) -> NDArray[np.bool_]:
        """Whether an explanation gives all units the same score, so that there is nothing to rank."""
        same: NDArray[np.bool_] = (self.values == self.values[:, :1]).all(1)
        return same

    def select_rows(self, rows: Sequence[int]) -> "Trial":
        """Return the trial of some of the explanations."""
        return replace(
            self,
            names=tuple(self.names[row] for row in rows),
            scores=self.scores[list(rows)],
            signed=tuple(self.signed[row] for row in rows),
            axioms=tuple(self.axioms[row] for row in rows),
            fine=tuple(self.fine[row] for row in rows) if self.fine else (),
            again=_SubsetRepeater(self.again, rows),
        )

    def null(self, rankings: int, *, reverse: bool = False) -> "Trial":
        """Return a trial of `rankings` random explanations of the same input, all rankings equally likely.

        If the input has no more rankings than that, each is used once.

        With `reverse`, the same rankings upside down. One removes the units that the other keeps, so metrics of
        kept units and metrics of removed units share their model queries.
        """
        units = len(self.units)
        if units < 12 and factorial(units) <= rankings:
            drawn = np.array(list(permutations(range(units))))
        else:
            draw = build_generator("rankings", self.seed, self.item.key)
            drawn = np.array([draw.permutation(units) for _ in range(rankings)])
        return self._with_values(-drawn if reverse else drawn, "random")

    def with_shuffled_scores(self, row: int, times: int) -> "Trial":
        """Return a trial of one explanation with its scores shuffled, `times` times."""
        draw = build_generator("shuffles", self.seed, self.item.key)
        dealt = np.array([draw.permutation(self.values[row]) for _ in range(times)])
        return self._with_values(dealt, "shuffled", signed=self.signed[row], row=row)

    def spread(self, values: Numbers) -> Numbers:
        """Return scores that add up to the values of the units, (explanations, tokens).

        A unit's first token gets all of it: shares of it would add up to a little more or less, and break ties.
        """
        scores = np.zeros((len(values), len(self.item)))
        scores[:, [places[0] for places in self.units]] = values
        return scores

    def _with_values(
        self, values: Numbers, name: str, *, signed: bool = True, row: int | None = None
    ) -> "Trial":
        return replace(
            self,
            names=(name,) * len(values),
            scores=self.spread(values),
            signed=(signed,) * len(values),
            axioms=({},) * len(values),
            fine=(),
            again=_RandomRepeater(values, self, row),
        )


class _DerivedRepeater(ExplanationRepeater):
    """Repeater for a trial made of another one, whose own repeater runs the model and counts."""

    passes = PassCount(0, 0)

    def __init__(self, origin: ExplanationRepeater) -> None:
        self._origin = origin

    @property
    def stages(self) -> tuple[str, ...]:
        return self._origin.stages


class _SubsetRepeater(_DerivedRepeater):
    """Repeater for a subset of a trial's explanations."""

    def __init__(self, origin: ExplanationRepeater, chosen: Sequence[int]) -> None:
        super().__init__(origin)
        self._chosen = list(chosen)

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        repeat = self._origin(change, self._select(rows))
        own = {row: place for place, row in enumerate(self._chosen)}
        why_not = {own[row]: why for row, why in repeat.why_not.items()}
        return RepeatedExplanations(repeat.scores[self._chosen], repeat.predicted, why_not)

    def make(self, changes: Sequence[Change], rows: Sequence[int] | None = None) -> None:
        self._origin.make(changes, self._select(rows))

    def _select(self, rows: Sequence[int] | None) -> list[int]:
        return self._chosen if rows is None else [self._chosen[row] for row in rows]


class _RandomRepeater(_DerivedRepeater):
    """Repeater for random explanations: the scores are shuffled once more."""

    def __init__(self, values: Numbers, trial: Trial, row: int | None) -> None:
        super().__init__(trial.again)
        self._values = values
        self._row = row  # the explanation whose scores are shuffled; None for random rankings
        self._trial = trial

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        # The stages of one cascade have their lower layers in common: they are one draw, not several.
        drawn = replace(change, stage=0) if isinstance(change, Randomised) else change
        draw = build_generator("unrelated", repr(drawn), self._trial.seed, self._trial.item.key)
        scores = self._trial.spread(draw.permuted(self._values, axis=1))
        if self._row is None or self._trial.flat[self._row]:
            return RepeatedExplanations(
                scores, int(self._trial.labels_without([()]).answer()[0]), {}
            )
        # Where the explanation has no repeat, or the prediction changed, the null has none either.
        repeat = self._origin(change, [self._row])
        why_not = {}
        if why := repeat.why_not.get(self._row):
            scores, why_not = np.full_like(scores, np.nan), dict.fromkeys(range(len(scores)), why)
        return RepeatedExplanations(scores, repeat.predicted, why_not)


# A step on a trial, such as a metric on it and on random explanations: a function, or a generator of requests.
TrialStep = Callable[[Trial], Any]
