"""Requests of metrics: predictions of an input with parts removed, and explanations repeated under a change.

A metric is a function of a trial, or a generator that yields requests and is sent their answers. `run_together`
runs many of them in lock step, so that requests about all inputs of a batch are answered in full batches.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isgenerator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

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

    scores: NDArray[np.float64]  # (explanations, tokens)
    predicted: int  # the label that the model now predicts
    why_not: Mapping[int, str]


class ExplanationRepeater(Protocol):
    """Interface: explains the input of a trial again, under a change."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""

    @property
    def passes(self) -> PassCount:
        """The passes that were run so far."""

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        """Return all explanations, or those in `rows`, under `change`. The same change is made only once."""

    def make(self, changes: Sequence[Change], rows: Sequence[int] | None = None) -> None:
        """Make the repeats under several changes, which is faster than one at a time."""
        return


ROUNDINGS = 64  # units in the last place by which outputs of a deep model may be off

Numbers = NDArray[np.float64]
T = TypeVar("T")
# A metric at work, or another step on a trial: it yields a request, or a list of them, and is sent the answers.
Steps = Generator[Any, Any, T]


@dataclass(eq=False)
class RemovalPredictions:
    """Predictions for one input with units removed; the model sees every distinct variant once."""

    ask: ModelQuery
    row: int  # of the input in the query
    units: Sequence[tuple[int, ...]]
    how: Removal
    target: Target
    whole: Numbers  # the label probabilities of the whole input
    task: Task
    known: dict[frozenset[int], Numbers] = field(init=False)

    def __post_init__(self) -> None:
        self.known = {frozenset(): self.whole}

    def shares(self, holes: Sequence[Collection[int]]) -> Numbers:
        """Return the label probabilities with the masked units of each set removed, (holes, labels)."""
        answer_removals([RemovalRequest(self, holes, np.asarray)])
        if not len(holes):
            return self.whole[None][:0]
        return np.stack([self.known[frozenset(units)] for units in holes])

    def probability(self, holes: Sequence[Collection[int]]) -> Numbers:
        """Return the target's probability with each set of units removed, (holes,)."""
        return self.select_target(self.shares(holes))

    def with_removal(self, how: Removal) -> "RemovalPredictions":
        """Return predictions for the same input with another way of removal."""
        return replace(self, how=how)

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
            sure = self.task != "regression"
            move = self.whole * (1 - self.whole) if sure else np.maximum(np.abs(self.whole), 1.0)
            grain = ROUNDINGS * (self.ask.eps * float(np.abs(move).max()) + np.finfo(float).eps)
            return level_ties(self.base - self.select_target(shares), grain)

        return RemovalRequest(self, [(unit,) for unit in range(len(self.units))], compute_falls)

    def select_target(self, shares: Numbers) -> Numbers:
        """Select the target's probability, or contrast, from label probabilities, (variants,)."""
        value: Numbers = shares[:, self.target.index]
        other = self.target.against
        return value if other is None else value - shares[:, other.index]

    def select_label(self, shares: Numbers) -> NDArray[np.int64]:
        """Select the likeliest label, (variants,); the rest of all outputs is no label."""
        labels = shares[:, :-1] if self.ask.rest else shares
        best: NDArray[np.int64] = labels.argmax(1)
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
        for units in map(frozenset, request.masked):
            if units not in removed.known:
                group[id(removed), units] = removed
    for (_, how), group in groups.items():
        if not group:
            continue
        variants = [
            (removed.row, [place for unit in sorted(units) for place in removed.units[unit]])
            for (_, units), removed in group.items()
        ]
        ask = next(iter(group.values())).ask
        shares = ask.compute_probabilities_without(variants, how).double().cpu().numpy()
        for ((_, units), removed), row in zip(group.items(), shares, strict=True):
            removed.known[units] = row


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
