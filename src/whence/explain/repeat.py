"""Repeated explanations of inputs under a change: noise, random weights, dropout, padding, another class.

A change is the same for every input (noise belongs to a token, random weights to the model), so a repeat
that one trial of a batch asks for is computed for the whole batch in one pass.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from whence.core.errors import OutOfMemory, WhenceError
from whence.core.progress import ProgressCounter
from whence.core.types import PassCount, Target
from whence.data.batches import Batch, BatchRules, collate
from whence.data.tokens import EncodedInput
from whence.explain.pipeline import run_method
from whence.explain.request import MethodRequest
from whence.metrics._requests import (
    Beside,
    Change,
    Dropout,
    Noise,
    Numbers,
    OtherClass,
    Padded,
    Randomised,
    RepeatedExplanations,
)
from whence.models.facts import get_facts, is_offloaded
from whence.models.model import LoadedModel
from whence.tracing.alter import add_embedding_noise, apply_dropout, randomise_weights
from whence.tracing.out_of_memory import RetryHalved
from whence.tracing.structure import list_stages
from whence.tracing.target import TargetSpec, rank_labels
from whence.tracing.trace import run_traced


class _ChangeImpossible(Exception):
    """Raised if a change cannot be made to this model or input; the message is the reason."""


@dataclass(eq=False)
class InputRepeater:
    """Repeats the explanations of one input, by request; a text in its place says why one cannot be repeated."""

    batch: "BatchRepeater"
    item: EncodedInput
    requests: Mapping[str, MethodRequest | str]
    logits: Tensor  # logits of the whole input, (1, labels)
    target: Target  # the explained class: it stays the same when the prediction changes
    words: tuple[tuple[int, ...], ...] | None = None  # positions, if words are the removable units
    repeats: dict[tuple[Change, str], Numbers | str] = field(default_factory=dict)
    predicted: dict[Change, int] = field(default_factory=dict)
    passes: PassCount = field(default=PassCount(0, 0))

    @property
    def prices(self) -> list[int]:
        """The forward passes that repeating each explanation once takes."""
        tokens = len(self.item)
        pieced = sum(len(places) > 1 for places in self.words or ())
        return [
            0
            if isinstance(request, str)
            else 1 + (0 if request.reads else request.extra_forwards(tokens, pieced))
            for request in self.requests.values()
        ]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""
        return self.batch.stages

    def make(self, changes: Sequence[Change], rows: Sequence[int] | None = None) -> None:
        """Make the repeats under several changes; random weights of a stage are drawn once for the next one."""
        names = list(self.requests) if rows is None else [list(self.requests)[row] for row in rows]
        drawn: dict[object, dict[str, Tensor]] = {}
        for change in changes:
            key = type(change), change.seed if isinstance(change, Randomised) else None
            drawn = {key: drawn.get(key, {})}  # what another kind of change, or seed, drew is freed
            self.batch.make(change, self, names, drawn[key])

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        """Return the repeats of all explanations, or of those in `rows`, under `change`."""
        self.make([change], rows)
        scores, why_not = np.full((len(self.requests), len(self.item)), np.nan), dict[int, str]()
        for row, name in enumerate(self.requests):
            if rows is None or row in rows:
                repeat = self.repeats[change, name]
                if isinstance(repeat, str):
                    why_not[row] = repeat
                else:
                    scores[row] = repeat
        best = rank_labels(self.logits, self.item.rest)[0, 0]
        return RepeatedExplanations(scores, self.predicted.get(change, int(best)), why_not)


class BatchRepeater:
    """Repeats explanations of a batch of inputs; each repeat is computed once."""

    def __init__(
        self,
        loaded: LoadedModel,
        policy: BatchRules,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.stages = list_stages(loaded.model)
        self._loaded = loaded
        self._policy = policy
        self._progress = progress
        self._inputs: list[InputRepeater] = []

    def add(
        self,
        item: EncodedInput,
        requests: Mapping[str, MethodRequest | str],
        logits: Tensor,
        target: Target,
        words: tuple[tuple[int, ...], ...] | None = None,
    ) -> InputRepeater:
        """Add an input to the batch, and return its repeater."""
        self._inputs.append(InputRepeater(self, item, requests, logits, target, words))
        return self._inputs[-1]

    def make(
        self, change: Change, owner: InputRepeater, names: Sequence[str], drawn: dict[str, Tensor]
    ) -> None:
        """Compute missing repeats of this input, and of the others while the model is changed."""
        owner.repeats |= {
            (change, name): why for name in names if isinstance(why := owner.requests[name], str)
        }
        new = [name for name in names if (change, name) not in owner.repeats]
        if not new:
            return
        group = [owner]
        # Padding and neighbours change one input only; all other changes are the same for every input.
        if not isinstance(change, Padded | Beside):
            group = [
                member
                for member in self._inputs
                if all(member.requests.get(name) == owner.requests[name] for name in new)
            ]
        work = RetryHalved(
            self._loaded.model,
            ", ".join(sorted(new)),
            [group],
            lambda part: len(part) * max(len(member.item) for member in part),
        )
        for part in work:
            before = [member.passes for member in part]
            try:
                with work.retry_halved(part):
                    self._make(change, part, new, drawn)
                    before = [member.passes for member in part]
            except OutOfMemory as error:
                for name in new:
                    part[0].repeats[change, name] = str(error)
            for member, passes in zip(part, before, strict=True):
                member.passes = passes  # a part that did not fit runs again, and is counted then

    def _make(
        self,
        change: Change,
        inputs: Sequence[InputRepeater],
        names: Sequence[str],
        drawn: dict[str, Tensor],
    ) -> None:
        """Compute repeats of several inputs; where that fails, one at a time, to find the culprit."""
        requests = {name: request for name, request in inputs[0].requests.items() if name in names}
        methods = [request for request in requests.values() if isinstance(request, MethodRequest)]
        try:
            with (
                get_facts(self._loaded.model).lock,
                self._apply_change(change, inputs, drawn) as (batch, spec),
            ):
                # Dropout masks depend on how often a module ran, so checkpointing, which runs it again, is off.
                runs_again = self._loaded.checkpoint and not isinstance(change, Dropout)
                loaded = replace(self._loaded, checkpoint=runs_again)
                trace = run_traced(
                    loaded.model,
                    batch,
                    frozenset[str]().union(*(request.needs for request in methods)),
                    spec,
                    loaded.task,
                    readers=sum(request.reads for request in methods),
                    checkpoint=runs_again,
                )
                ranked = rank_labels(trace.logits, inputs[0].item.rest)
                for one, likeliest in zip(inputs, ranked[:, 0].tolist(), strict=False):
                    one.predicted[change] = likeliest
                    self._count(one, 1, max((r.backwards for r in methods), default=0))
                for request in methods:
                    adds_up = request.words == "sum"
                    by_words = inputs[0].words is not None and not adds_up
                    result = run_method(
                        loaded,
                        request,
                        trace=trace,
                        policy=self._policy,
                        counter=ProgressCounter(None),
                        words=by_words,
                    )
                    for row, one in enumerate(inputs):
                        scores = result.scores[row].astype(np.float64)
                        if by_words:
                            measured = None if result.words is None else result.words[row]
                            scores = _replace_word_scores(scores, one, measured)
                        one.repeats[change, request.name] = scores
                        self._count(one, result.extra[row].forward, result.extra[row].backward)
        except (_ChangeImpossible, WhenceError) as error:
            if len(inputs) == len(names) == 1:
                inputs[0].repeats[change, names[0]] = str(error)
                return
            for one in inputs:
                for name in names:
                    if (change, name) not in one.repeats:
                        self._make(change, [one], [name], drawn)

    def _count(self, one: InputRepeater, forward: int, backward: int) -> None:
        passes = one.passes
        one.passes = PassCount(passes.forward + forward, passes.backward + backward)
        self._progress(forward)

    @contextmanager
    def _apply_change(
        self, change: Change, inputs: Sequence[InputRepeater], drawn: dict[str, Tensor]
    ) -> Iterator[tuple[Batch, TargetSpec]]:
        """Apply the change while the block lasts; yield the batch and the target."""
        model, items = self._loaded.model, [one.item for one in inputs]
        spec = TargetSpec.from_targets([one.target for one in inputs])
        if isinstance(change, Noise | Randomised) and is_offloaded(model):
            raise _ChangeImpossible(
                "The weights are offloaded, and cannot be changed to see what follows."
            )
        match change:
            case Noise(radius, seed) if items[0].picture is not None:
                noisy = [item.picture.with_noise(radius, seed) for item in items if item.picture]
                pairs = zip(items, noisy, strict=True)
                yield self._batch([replace(item, picture=own) for item, own in pairs]), spec
            case Noise(radius, seed):
                ids = {*self._loaded.fillers.values()}.union(*(item.ids for item in items))
                with add_embedding_noise(model, ids, radius, seed, drawn):
                    yield self._batch(items), spec
            case Randomised(stage, seed):
                with randomise_weights(model, stage, seed, drawn):
                    yield self._batch(items), spec
            case Dropout(seed):
                with apply_dropout(model, seed) as places:
                    if not places:
                        raise _ChangeImpossible("The model has no dropout to switch on.")
                    yield self._batch(items), spec
            case Padded(extra):
                if not self._policy.mixed:
                    raise _ChangeImpossible("Padding changes what this model says.")
                width, longest = len(items[0]) + extra, self._loaded.max_length
                if longest is not None and width > longest:
                    raise _ChangeImpossible(
                        f"The model takes {longest} tokens at most: none can be added."
                    )
                yield self._batch(items, width), spec
            case Beside():
                beside = self._neighbours(items[0])
                targets = [inputs[0].target] * (1 + len(beside))
                yield self._batch([*items, *beside]), TargetSpec.from_targets(targets)
            case OtherClass():
                rest = items[0].rest
                outputs = 1 if self._loaded.task == "regression" else inputs[0].logits.shape[1]
                if outputs - rest < 2:
                    raise _ChangeImpossible(
                        "It is held against everything else: there is no other class."
                        if rest
                        else "The model has one output: there is no other class."
                    )
                if spec.against is not None:
                    raise _ChangeImpossible("Two classes are held against each other already.")
                others = []
                for one in inputs:  # the likeliest class that was not explained
                    best, second = rank_labels(one.logits, rest)[0, :2].tolist()
                    others.append(second if one.target.index == best else best)
                yield self._batch(items), replace(spec, main=tuple(others))

    def _batch(self, items: Sequence[EncodedInput], width: int = 0) -> Batch:
        loaded = self._loaded
        return collate(items, pad_id=loaded.pad_id, device=loaded.device, width=width)

    def _neighbours(self, item: EncodedInput) -> list[EncodedInput]:
        """Return the batch neighbours: the input itself, and half of it where lengths may mix."""
        if self._policy.alone:
            raise _ChangeImpossible("This model takes one input at a time.")
        half = len(item) // 2
        if not self._policy.mixed or not half or self._loaded.anchors:
            return [item]
        features = {name: values[:half] for name, values in item.features.items()}
        part = replace(item, features=features, tokens=item.tokens[:half], words=())
        return [item, part]


def replace_unit_scores(
    scores: Numbers, units: Sequence[Sequence[int]], values: Sequence[float]
) -> Numbers:
    """Return token scores in which each unit's tokens add up to the unit's value.

    The first token gets the whole value: shares of it would add up with rounding, and break ties.
    """
    result = scores.copy()
    for places, value in zip(units, values, strict=True):
        result[list(places)] = 0.0
        result[places[0]] = value
    return result


def _replace_word_scores(scores: Numbers, one: InputRepeater, measured: Numbers | None) -> Numbers:
    """Return token scores that add up to the word scores, where the tokens' own do not."""
    assert one.words is not None
    if measured is None:
        values = [float(scores[list(places)].mean()) for places in one.words]
    else:
        numbers = {place: i for i, word in enumerate(one.item.words) for place in word.tokens}
        values = [float(measured[numbers[places[0]]]) for places in one.words]
    return replace_unit_scores(scores, one.words, values)
