"""Requests of metrics: predictions of an input with parts removed, and explanations repeated under a change.

A metric is a function of a trial, or a generator that yields requests and is sent their answers. `run_together`
runs many of them in lock step, so that requests about all inputs of a batch are answered in full batches.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import isgenerator
from typing import Any, Protocol, TypeVar

import numpy as np

from whence.core.errors import WhenceError
from whence.core.types import PassCount, Target, Task
from whence.data.removal import Removal
from whence.stats.rank import level_ties
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
    def passes(self) -> PassCount:
        """The passes that were run so far."""
        ...

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        """Return all explanations, or those in `rows`, under `change`. The same change is made only once."""
        ...

    def make(self, changes: Sequence[Change], rows: Sequence[int] | None = None) -> None:
        """Make the repeats under several changes, which is faster than one at a time."""
        return


ROUNDINGS = 64  # units in the last place by which outputs of a deep model may be off

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Counts = Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]


T = TypeVar("T")
# A metric at work, or another step on a trial: it yields a request, or a list of them, and is sent the answers.
Steps = Generator[Any, Any, T]


class RemovalPredictions:
    """Predictions for one input with units removed; the model sees every distinct variant once."""

    def __init__(
        self,
        ask: ModelQuery,
        row: int,
        units: Sequence[tuple[int, ...]],
        how: Removal,
        target: Target,
        whole: Numbers,
        task: Task,
    ) -> None:
        """Store the model query, and the input's row in it; `whole` are its label probabilities as a whole."""
        self.how = how
        self.ask = ask
        self.row = row
        self._units = units
        self._target = target
        self.whole = whole
        self._task = task
        self._known: dict[frozenset[int], Numbers] = {frozenset(): whole}

    def shares(self, holes: Sequence[Collection[int]]) -> Numbers:
        """Return the label probabilities with the masked units of each set removed, (holes, labels)."""
        answer_removals([RemovalRequest(self, holes, np.asarray)])
        if not len(holes):
            return self.whole[None][:0]
        return np.stack([self._known[frozenset(units)] for units in holes])

    def find_unknown(self, holes: Sequence[Collection[int]]) -> list[frozenset[int]]:
        """Return the distinct sets of masked units that were not predicted yet."""
        return [units for units in dict.fromkeys(map(frozenset, holes)) if units not in self._known]

    def add(self, units: frozenset[int], shares: Numbers) -> None:
        """Store the label probabilities without some units."""
        self._known[units] = shares

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
        return self.select_label(self.shares(holes))

    def with_removal(self, how: Removal) -> "RemovalPredictions":
        """Return predictions for the same input with another way of removal."""
        return RemovalPredictions(
            self.ask, self.row, self._units, how, self._target, self.whole, self._task
        )

    @property
    def base(self) -> float:
        """The target's probability for the whole input."""
        return float(self.select_target(self.whole[None])[0])

    @property
    def loo(self) -> Numbers:
        """Leave-one-out: the fall of the target's probability when each unit is removed alone."""
        falls: Numbers = self.build_loo_request().answer()
        return falls

    def build_loo_request(self) -> "RemovalRequest":
        """Return the request of the leave-one-out falls, (units,).

        Falls that differ by no more than the rounding of the model's logits are made equal: that is no ranking.
        """

        def compute_falls(shares: Numbers) -> Numbers:
            # How far the rounding of logits of ordinary size moves a probability: less, the surer the model is.
            sure = self._task != "regression"
            move = self.whole * (1 - self.whole) if sure else np.maximum(np.abs(self.whole), 1.0)
            grain = ROUNDINGS * (self.ask.eps * float(np.abs(move).max()) + np.finfo(float).eps)
            return level_ties(self.base - self.select_target(shares), grain)

        return RemovalRequest(self, [(unit,) for unit in range(len(self._units))], compute_falls)

    @property
    def contrast(self) -> bool:
        """Whether the explained number is a difference of two labels, not a probability."""
        return self._target.against is not None

    def select_target(self, shares: Numbers) -> Numbers:
        """Select the target's probability, or contrast, from label probabilities, (variants,)."""
        value: Numbers = shares[:, self._target.index]
        other = self._target.against
        return value if other is None else value - shares[:, other.index]

    def select_label(self, shares: Numbers) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Select the likeliest label, (variants,); the rest of all outputs is no label."""
        best: np.ndarray[Any, np.dtype[np.int64]] = (
            shares[:, :-1] if self.ask.rest else shares
        ).argmax(1)
        return best


@dataclass(frozen=True, eq=False)
class RemovalRequest:
    """Request: the predictions of one input with sets of units removed, as `read` reads them."""

    removed: RemovalPredictions
    masked: Sequence[Collection[int]]
    read: Callable[[Numbers], Any]  # from label probabilities, (sets, labels)

    def answer(self) -> Any:
        """Return what is read from the predictions, which are computed where they are unknown."""
        return self.read(self.removed.shares(self.masked))


@dataclass(frozen=True, eq=False)
class RepeatRequest:
    """Request: explanations repeated under each of several changes."""

    again: ExplanationRepeater
    changes: Sequence[Change]
    rows: Sequence[int] | None

    def answer(self) -> list[RepeatedExplanations]:
        """Return the repeats by change."""
        self.again.make(self.changes, self.rows)
        return [self.again(change, self.rows) for change in self.changes]


def answer_removals(requests: Iterable[RemovalRequest]) -> None:
    """Predict all unknown variants of several requests, those of inputs of one batch together."""
    groups: dict[tuple[int, Removal], dict[tuple[int, frozenset[int]], RemovalPredictions]] = {}
    for request in requests:
        removed = request.removed
        group = groups.setdefault((id(removed.ask), removed.how), {})
        group.update(
            {(id(removed), units): removed for units in removed.find_unknown(request.masked)}
        )
    for (_, how), group in groups.items():
        if not group:
            continue
        variants = [(removed.row, removed.places(units)) for (_, units), removed in group.items()]
        ask = next(iter(group.values())).ask
        shares = ask.compute_probabilities_without(variants, how).double().cpu().numpy()
        for ((_, units), removed), row in zip(group.items(), shares, strict=True):
            removed.add(units, row)


def run_together(steps: Iterable[Any]) -> list[Any]:
    """Run generators of requests in lock step, and return what they return; other values are returned as they are.

    Requests of one round are answered together. If that fails, each is answered alone, and the error is raised
    where its answer is expected.
    """
    results = list(steps)
    waiting: dict[int, Callable[[], Any]] = {
        place: partial(next, step) for place, step in enumerate(results) if isgenerator(step)
    }
    while waiting:
        asked = {}
        for place, resume in waiting.items():
            try:
                asked[place] = resume()
            except StopIteration as end:
                results[place] = end.value
        every = [one for ask in asked.values() for one in (ask if isinstance(ask, list) else [ask])]
        with suppress(WhenceError):  # the request at fault raises it again below, alone
            answer_removals(one for one in every if isinstance(one, RemovalRequest))
        waiting = {place: _answer(ask, results[place]) for place, ask in asked.items()}
    return results


def _answer(ask: Any, step: Steps[Any]) -> Callable[[], Any]:
    """Answer a request, or a list of them; return how the step goes on: with the answer, or with the error."""
    try:
        return partial(
            step.send, [one.answer() for one in ask] if isinstance(ask, list) else ask.answer()
        )
    except WhenceError as error:
        return partial(step.throw, error)
