"""Trial, the argument of metrics: explanations of one input, removal predictions, repeats, and dry runs.

A dry run of a metric collects its model queries, so that queries of many inputs share a batch.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import factorial
from typing import Any, NoReturn, Protocol

import numpy as np

from whence.core.seed import build_generator
from whence.core.types import PassCount, Target, Task
from whence.data.images import ImageFill
from whence.data.removal import Removal
from whence.data.tokens import EncodedInput
from whence.stats.rank import level_ties, spearman
from whence.tracing.ask import ModelQuery


@dataclass(frozen=True)
class Noise:
    """Change: each token's embedding is moved in a random direction, by `radius` times its own length."""

    radius: float
    seed: int


@dataclass(frozen=True)
class Randomised:
    """Change: the weights of the stages 0 to `stage`, from the output, are replaced by random ones."""

    stage: int
    seed: int


@dataclass(frozen=True)
class Dropout:
    """Change: the model runs with dropout, as in training."""

    seed: int


@dataclass(frozen=True)
class Padded:
    """Change: the input is padded by `extra` tokens."""

    extra: int


@dataclass(frozen=True)
class Beside:
    """Change: the input shares its batch with other inputs."""


@dataclass(frozen=True)
class OtherClass:
    """Change: the runner-up is explained, or the prediction if the runner-up was explained before."""


Change = Noise | Randomised | Dropout | Padded | Beside | OtherClass


@dataclass(frozen=True)
class RepeatedExplanations:
    """Explanations repeated under a change. A row is NaN exactly where `why_not` has a reason."""

    scores: np.ndarray[Any, np.dtype[np.float64]]  # (explanations, tokens)
    predicted: int  # the label that the model now predicts
    why_not: Mapping[int, str]


class ExplanationRepeater(Protocol):
    """Interface: explains the input of a trial again, under a change."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""
        ...

    @property
    def prices(self) -> list[int]:
        """The forward passes that repeating each explanation once takes."""
        ...

    @property
    def passes(self) -> PassCount:
        """The passes that were run so far."""
        ...

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        """Return all explanations, or those in `rows`, under `change`. The same change is made only once."""
        ...


ROUNDINGS = 64  # units in the last place by which outputs of a deep model may be off

Numbers = np.ndarray[Any, np.dtype[np.float64]]


class RemovalPredictions:
    """Predictions for one input with units removed; the model sees every distinct variant once."""

    def __init__(
        self,
        ask: ModelQuery,
        units: Sequence[tuple[int, ...]],
        how: Removal,
        target: Target,
        shares: Numbers,
        task: Task,
    ) -> None:
        """Store the model query; `shares` are the label probabilities of the whole input."""
        self.how = how
        self._ask = ask
        self._units = units
        self._target = target
        self._whole = shares
        self._task = task
        self._known: dict[frozenset[int], Numbers] = {frozenset(): shares}

    def shares(self, holes: Sequence[Collection[int]]) -> Numbers:
        """Return the label probabilities with the masked units of each set removed, (holes, labels)."""
        if new := self.unknown(holes):
            places = [self.places(units) for units in new]
            masked = [(0, own) for own in places]
            predictions = (
                self._ask.compute_probabilities_without(masked, self.how).double().cpu().numpy()
            )
            self._known.update(zip(new, predictions, strict=True))
        if not len(holes):
            return self._whole[None][:0]
        return np.stack([self._known[frozenset(units)] for units in holes])

    def unknown(self, holes: Sequence[Collection[int]]) -> list[frozenset[int]]:
        """Return the distinct sets of masked units that were not predicted yet."""
        return [units for units in dict.fromkeys(map(frozenset, holes)) if units not in self._known]

    def places(self, hole: Collection[int]) -> list[int]:
        """Return the token positions of a set of masked units."""
        return [place for unit in sorted(hole) for place in self._units[unit]]

    def probability(self, holes: Sequence[Collection[int]]) -> Numbers:
        """Return the target's probability with each set of units removed, (holes,)."""
        return self.select_target(self.shares(holes))

    def predict_labels(
        self, holes: Sequence[Collection[int]]
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the predicted label with each set of units removed, (holes,)."""
        shares = self.shares(holes)
        best: np.ndarray[Any, np.dtype[np.int64]] = (
            shares[:, :-1] if self._ask.rest else shares
        ).argmax(1)
        return best

    def predict_covered(
        self,
        item: EncodedInput,
        masks: Iterable[np.ndarray[Any, np.dtype[np.bool_]]],
        fill: ImageFill,
    ) -> Numbers:
        """Return the label probabilities with masked pixels of an image covered, (masks, labels)."""
        picture = item.picture
        assert picture is not None, "only pictures have pixels"
        bare = replace(item, tokens=(), words=())
        variants = (
            (0, replace(bare, picture=picture.without_pixels(mask, fill))) for mask in masks
        )
        probabilities: Numbers = self._ask.shares(variants).double().cpu().numpy()
        return probabilities

    @property
    def whole(self) -> Numbers:
        """The label probabilities of the whole input."""
        return self._whole

    def with_removal(self, how: Removal) -> "RemovalPredictions":
        """Return predictions for the same input with another way of removal."""
        return RemovalPredictions(
            self._ask, self._units, how, self._target, self._whole, self._task
        )

    @property
    def base(self) -> float:
        """The target's probability for the whole input."""
        return float(self.select_target(self._whole[None])[0])

    @cached_property
    def loo(self) -> Numbers:
        """Leave-one-out: the fall of the target's probability when each unit is removed alone.

        Falls that differ by no more than the rounding of the model's logits are made equal: that is no ranking.
        """
        falls = self.base - self.probability([(unit,) for unit in range(len(self._units))])
        # How far the rounding of logits of ordinary size moves a probability: less, the surer the model is.
        sure = self._task != "regression"
        move = self._whole * (1 - self._whole) if sure else np.maximum(np.abs(self._whole), 1.0)
        grain = ROUNDINGS * (self._ask.eps * float(np.abs(move).max()) + np.finfo(float).eps)
        return level_ties(falls, grain)

    @property
    def contrast(self) -> bool:
        """Whether the explained number is a difference of two labels, not a probability."""
        return self._target.against is not None

    def select_target(self, shares: Numbers) -> Numbers:
        """Select the target's probability, or contrast, from label probabilities, (variants,)."""
        value: Numbers = shares[:, self._target.index]
        other = self._target.against
        return value if other is None else value - shares[:, other.index]


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
    marked: tuple[bool, ...] | None  # by unit: whether a person called it evidence
    # Pixel labels of a picture: 1 on the outlined object, 0 on the background, -1 where unlabelled.
    mask: np.ndarray[Any, np.dtype[np.int8]] | None = None
    truth: int | None = None  # the label that people gave the input
    # By explanation, if it is of a picture: a score for each pixel, from methods that give one.
    fine: tuple[np.ndarray[Any, Any] | None, ...] = ()
    seed: int = 0
    slope: float = 1.0  # sizes of d explained / d logits, added up: 1 for a logit, 2 for a contrast

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
    def orders(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The units of each explanation from the highest score down, (explanations, units).

        Equal scores say nothing about their order, so it is drawn, the same for every explanation: the order of
        the text would favour explanations that know nothing but like the beginning.
        """
        drawn = build_generator("ties", self.seed, self.item.key).permutation(len(self.units))
        return drawn[np.argsort(-self.values[:, drawn], axis=1, kind="stable")]

    @cached_property
    def flat(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether an explanation gives all units the same score, so that there is nothing to rank."""
        same: np.ndarray[Any, np.dtype[np.bool_]] = (self.values == self.values[:, :1]).all(1)
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
            again=_SubsetRepeater(self.again, tuple(rows)),
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
        return replace(
            self._with_values(dealt, "shuffled"),
            signed=(self.signed[row],) * times,
            again=_RandomRepeater(dealt, self, row),
        )

    def spread(self, values: Numbers) -> Numbers:
        """Return scores that add up to the values of the units, (explanations, tokens).

        A unit's first token gets all of it: shares of it would add up to a little more or less, and break ties.
        """
        scores = np.zeros((len(values), len(self.item)))
        scores[:, [places[0] for places in self.units]] = values
        return scores

    def _with_values(self, values: Numbers, name: str) -> "Trial":
        return replace(
            self,
            names=(name,) * len(values),
            scores=self.spread(values),
            signed=(True,) * len(values),
            axioms=({},) * len(values),
            fine=(),
            again=_RandomRepeater(values, self),
        )


@dataclass(frozen=True)
class _SubsetRepeater:
    """Repeater for a subset of a trial's explanations."""

    repeater: ExplanationRepeater
    chosen: tuple[int, ...]

    @property
    def stages(self) -> tuple[str, ...]:
        return self.repeater.stages

    @property
    def prices(self) -> list[int]:
        prices = self.repeater.prices
        return [prices[row] for row in self.chosen]

    @property
    def passes(self) -> PassCount:
        return self.repeater.passes

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        requested = self.chosen if rows is None else [self.chosen[row] for row in rows]
        repeat = self.repeater(change, requested)
        own = {row: place for place, row in enumerate(self.chosen)}
        why_not = {own[row]: why for row, why in repeat.why_not.items()}
        return RepeatedExplanations(repeat.scores[list(self.chosen)], repeat.predicted, why_not)


class _RandomRepeater:
    """Repeater for random explanations: the scores are shuffled once more."""

    def __init__(self, values: Numbers, trial: Trial, row: int | None = None) -> None:
        self._values = values
        self._row = row  # the explanation whose scores are shuffled; None for random rankings
        self._trial = trial
        self.prices = [0] * len(values)
        self.passes = PassCount(0, 0)

    @property
    def stages(self) -> tuple[str, ...]:
        return self._trial.again.stages

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        # The stages of one cascade have their lower layers in common: they are one draw, not several.
        drawn = replace(change, stage=0) if isinstance(change, Randomised) else change
        draw = build_generator("unrelated", repr(drawn), self._trial.seed, self._trial.item.key)
        scores = self._trial.spread(draw.permuted(self._values, axis=1))
        if self._row is None or self._trial.flat[self._row]:
            return RepeatedExplanations(
                scores, int(self._trial.removed.predict_labels([()])[0]), {}
            )
        # Where the explanation has no repeat, or the prediction changed, the null has none either.
        repeat = self._trial.again(change, [self._row])
        if why := repeat.why_not.get(self._row):
            nothing = np.full_like(scores, np.nan)
            return RepeatedExplanations(
                nothing, repeat.predicted, dict.fromkeys(range(len(scores)), why)
            )
        return RepeatedExplanations(scores, repeat.predicted, {})


_FLAT_REPEAT = (
    "Made anew, it gives the same score to all tokens: there is no ranking to compare with."
)


def compute_repeat_correlation(
    trial: Trial, change: Change, *, sizes: bool = False
) -> tuple[Numbers, dict[int, str]]:
    """Return Spearman's correlation of each explanation with its repeat under `change`, and reasons.

    With `sizes`, signs do not count. An explanation with all scores equal is not repeated: it has
    NaN, and no reason here.
    """
    own = np.abs(trial.values) if sizes else trial.values
    rows = np.flatnonzero((own != own[:, :1]).any(1)).tolist()
    repeat = trial.again(change, rows)
    other = trial.by_unit(repeat.scores)
    rho = spearman(own, np.abs(other) if sizes else other)
    return rho, {row: repeat.why_not.get(row, _FLAT_REPEAT) for row in rows if np.isnan(rho[row])}


def compute_promised_total(trial: Trial, row: int, residual: float) -> float:
    """Return the total that all scores should add up to; 0 if it is within float32 rounding."""
    scores = trial.scores[row]
    total = float(scores.sum()) - residual
    # Sums in float32 are good to about 1e-7 of the summed sizes; a total below 1e-6 of them counts as 0.
    return total if abs(total) > 1e-6 * float(np.abs(scores).sum()) else 0.0


# One step on a trial: a run of a metric, on the explanations or on random ones.
TrialStep = Callable[[Trial], Any]


class AnswerPending(Exception):
    """Raised in a dry run when a prediction is not known yet; the metric is run again later."""


def find_pending_queries(trial: Trial, part: TrialStep) -> list[frozenset[int]] | None:
    """Dry-run `part`; return the unknown sets of units it queries first, None if it needs none.

    The model is not run. Where a part needs something else first, such as a repeated explanation, None is returned:
    its later queries cannot be predicted.
    """
    recorder = _RecordingRemovals(trial.removed)
    try:
        part(replace(trial, removed=recorder, again=_NoRepeater(trial.again)))
    except AnswerPending:
        return recorder.pending or None
    return None


class _RecordingRemovals(RemovalPredictions):
    """Removal predictions of a dry run: answer known queries; record unknown ones and stop the metric."""

    def __init__(self, removed: RemovalPredictions) -> None:
        self.__dict__.update(removed.__dict__)  # shares the dictionary of known predictions
        self.pending: list[frozenset[int]] = []

    def shares(self, holes: Sequence[Collection[int]]) -> Numbers:
        self.pending = self.unknown(holes)
        if self.pending:
            raise AnswerPending
        return super().shares(holes)

    def predict_covered(
        self,
        item: EncodedInput,
        masks: Iterable[np.ndarray[Any, np.dtype[np.bool_]]],
        fill: ImageFill,
    ) -> NoReturn:
        raise AnswerPending

    def with_removal(self, how: Removal) -> NoReturn:
        raise AnswerPending


@dataclass(frozen=True)
class _NoRepeater:
    """Repeater of a dry run: stops the metric instead of explaining again."""

    repeater: ExplanationRepeater

    @property
    def stages(self) -> tuple[str, ...]:
        return self.repeater.stages

    @property
    def prices(self) -> list[int]:
        return self.repeater.prices

    @property
    def passes(self) -> PassCount:
        return self.repeater.passes

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        raise AnswerPending
