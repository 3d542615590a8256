"""Explaining one input again under changed circumstances, for the metrics that compare."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from whence.capture import TargetSpec
from whence.capture.altered import dropped_out, noisy, randomised, stages
from whence.capture.target import ranking
from whence.core.errors import WhenceError
from whence.core.types import Passes
from whence.data import Batch, Encoded, Policy, collate
from whence.explainer.request import Request
from whence.explainer.work import Tally, scored, traced
from whence.models import Loaded
from whence.trial import (
    Anew,
    Beside,
    Change,
    Dropout,
    Noise,
    OtherClass,
    Padded,
    Randomised,
)
from whence.trial.removed import Numbers


class _Impossible(Exception):
    """This change cannot be made to this model or input, for the reason given."""


@dataclass
class Repeater:
    """Makes the explanations of one input again; what was made once is not made again."""

    loaded: Loaded
    item: Encoded
    asked: Sequence[Request | str]  # a sentence where the explanation cannot be made again
    spec: TargetSpec  # by index: it is the same class that is explained, whatever is predicted then
    logits: Tensor  # of the whole input, (1, labels)
    policy: Policy
    progress: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        self.passes = Passes(0, 0)
        self._made: dict[Change, dict[int, Numbers | str]] = {}
        self._predicted: dict[Change, int] = {}

    @property
    def prices(self) -> list[int]:
        """The forwards that making each explanation once more takes."""
        tokens = len(self.item)
        return [
            0 if isinstance(one, str) else 1 + (0 if one.reads else one.extra_forwards(tokens))
            for one in self.asked
        ]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""
        return stages(self.loaded.model)

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> Anew:
        """Return all explanations, or those in `rows`, under `change`."""
        wanted = range(len(self.asked)) if rows is None else rows
        made = self._made.setdefault(change, {})
        if new := [row for row in wanted if row not in made]:
            made.update(self._make(change, new))
        scores = np.full((len(self.asked), len(self.item)), np.nan)
        why_not = {}
        for row in wanted:
            found = made[row]
            if isinstance(found, str):
                why_not[row] = found
            else:
                scores[row] = found
        return Anew(scores, self._predicted.get(change, int(self.logits[0].argmax())), why_not)

    def _make(self, change: Change, rows: Sequence[int]) -> Mapping[int, Numbers | str]:
        """Make some explanations; those that cannot be made say why."""
        found: dict[int, Numbers | str] = {}
        requests: dict[int, Request] = {}
        for row in rows:
            one = self.asked[row]
            if isinstance(one, str):
                found[row] = one
            else:
                requests[row] = one
        try:
            with self._changed(change) as (batch, spec):
                seen = traced(self.loaded, batch, list(requests.values()), spec)
                self._predicted[change] = int(ranking(seen.logits)[0, 0])
                backward = max((request.backwards for request in requests.values()), default=0)
                self._count(1, backward)
                for row, request in requests.items():
                    try:
                        tally = Tally(None, (), ())
                        scores, _, extra = scored(self.loaded, request, seen, self.policy, tally)
                        self._count(extra[0].forward, extra[0].backward)
                        found[row] = scores[0, : len(self.item)].astype(np.float64)
                    except WhenceError as error:
                        found[row] = str(error)
        except (_Impossible, WhenceError) as error:
            found |= dict.fromkeys(requests, str(error))
        return found

    def _count(self, forward: int, backward: int) -> None:
        self.passes = Passes(self.passes.forward + forward, self.passes.backward + backward)
        self.progress(forward)

    @contextmanager
    def _changed(self, change: Change) -> Iterator[tuple[Batch, TargetSpec]]:
        """Make the change, for as long as the block lasts."""
        model, batch, spec = self.loaded.model, self._batch([self.item]), self.spec
        match change:
            case Noise(radius, seed):
                ids = {*self.item.ids, *self.loaded.fillers.values()}
                with noisy(model, ids, radius, seed):
                    yield batch, spec
            case Randomised(stage, seed):
                with randomised(model, stage, seed):
                    yield batch, spec
            case Dropout(seed):
                with dropped_out(model, seed) as places:
                    if not places:
                        raise _Impossible("The model has no dropout to switch on.")
                    yield batch, spec
            case Padded(extra):
                if not self.policy.mixed:
                    raise _Impossible("Padding changes what this model says.")
                width, longest = len(self.item) + extra, self.loaded.max_length
                if longest is not None and width > longest:
                    raise _Impossible(
                        f"The model takes {longest} tokens at most: none can be added."
                    )
                yield self._batch([self.item], width), spec
            case Beside():
                yield self._batch([self.item, *self._neighbours()]), spec
            case OtherClass():
                yield batch, self._other()

    def _batch(self, items: Sequence[Encoded], width: int = 0) -> Batch:
        loaded = self.loaded
        return collate(items, pad_id=loaded.pad_id, device=loaded.device, width=width)

    def _neighbours(self) -> list[Encoded]:
        """Return what shares the batch: the input once more, and a part of it where lengths may mix."""
        if self.policy.size < 2:
            raise _Impossible("This model takes one input at a time.")
        half = len(self.item) // 2
        if not self.policy.mixed or not half or self.loaded.anchors:
            return [self.item]
        features = {name: values[:half] for name, values in self.item.features.items()}
        part = replace(self.item, features=features, tokens=self.item.tokens[:half], words=())
        return [self.item, part]

    def _other(self) -> TargetSpec:
        if self.loaded.task == "regression" or len(self.loaded.labels) < 2:
            raise _Impossible("The model has one output: there is no other class.")
        if self.spec.against is not None:
            raise _Impossible("Two classes are held against each other already.")
        best, second = ranking(self.logits)[0, :2].tolist()
        return replace(self.spec, main=second if self.spec.main == best else best)
