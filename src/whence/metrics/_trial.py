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


"""What a metric is given: explanations of one input, side by side, and the model to test them on."""

from whence.trial.changes import (
    Again,
    Anew,
    Beside,
    Change,
    Dropout,
    Noise,
    OtherClass,
    Padded,
    Randomised,
)
from whence.trial.removed import Removed
from whence.trial.trial import Trial

__all__ = [
    "Again",
    "Anew",
    "Beside",
    "Change",
    "Dropout",
    "Noise",
    "OtherClass",
    "Padded",
    "Randomised",
    "Removed",
    "Trial",
]


"""How alike an explanation and itself are, when it is made anew under a change."""

import numpy as np

from whence.stats import spearman
from whence.trial.changes import Change
from whence.trial.removed import Numbers
from whence.trial.trial import Trial

_FLAT = "Made anew, it gives the same score to all tokens: there is no ranking to compare with."


def alike(trial: Trial, change: Change, *, sizes: bool = False) -> tuple[Numbers, dict[int, str]]:
    """Return Spearman's correlation of each explanation with itself under `change`, or why there is none.

    With `sizes`, signs do not count. An explanation that ranks nothing in the first place is not made anew: it has
    NaN, and no reason here.
    """
    own = np.abs(trial.values) if sizes else trial.values
    rows = np.flatnonzero((own != own[:, :1]).any(1)).tolist()
    anew = trial.again(change, rows)
    other = trial.by_unit(anew.scores)
    found = spearman(own, np.abs(other) if sizes else other)
    return found, {row: anew.why_not.get(row, _FLAT) for row in rows if np.isnan(found[row])}


"""Circumstances under which an input can be explained anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from whence.core.types import Passes


@dataclass(frozen=True)
class Noise:
    """Every token's embedding is moved in a random direction, by `radius` times its own length."""

    radius: float
    seed: int


@dataclass(frozen=True)
class Randomised:
    """The weights of the stages 0 to `stage`, counted from the output, are replaced by random ones."""

    stage: int
    seed: int


@dataclass(frozen=True)
class Dropout:
    """The model drops features out as it did in training."""

    seed: int


@dataclass(frozen=True)
class Padded:
    """The input is padded by so many tokens."""

    extra: int


@dataclass(frozen=True)
class Beside:
    """The input shares its batch with others."""


@dataclass(frozen=True)
class OtherClass:
    """Another class is explained: the runner-up, or the prediction if the runner-up was explained."""


Change = Noise | Randomised | Dropout | Padded | Beside | OtherClass


@dataclass(frozen=True)
class Anew:
    """The explanations made anew. A row is NaN exactly where `why_not` says why there is none."""

    scores: np.ndarray[Any, np.dtype[np.float64]]  # (explanations, tokens)
    predicted: int  # the label that the model now predicts
    why_not: Mapping[int, str]


class Again(Protocol):
    """Explains the input of a trial again."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""
        ...

    @property
    def prices(self) -> list[int]:
        """The forwards that making each explanation once more takes."""
        ...

    @property
    def passes(self) -> Passes:
        """What was run so far."""
        ...

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> Anew:
        """Return all explanations, or those in `rows`, under `change`. The same change is made only once."""
        ...


"""What an explanation's scores should add up to, from the residual that it came with."""

import numpy as np

from whence.trial.trial import Trial


def promised(trial: Trial, row: int, residual: float) -> float:
    """Return what all scores, of special tokens too, should add up to; 0 where rounding leaves no more of it."""
    scores = trial.scores[row]
    total = float(scores.sum()) - residual
    # Sums in float32 are good to about 1e-7 of the sizes of what is added; what is less than some of that is nothing.
    return total if abs(total) > 1e-6 * float(np.abs(scores).sum()) else 0.0


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
