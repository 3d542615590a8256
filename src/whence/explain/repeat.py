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
from whence.core.types import OutputScale, PassCount
from whence.data.batches import Batch, BatchRules, collate
from whence.data.tokens import EncodedInput
from whence.explain.pipeline import run_method, trace_batch
from whence.explain.request import MethodRequest
from whence.metrics._trial import (
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
from whence.models.model import LoadedModel, is_offloaded
from whence.tracing.alter import add_embedding_noise, apply_dropout, randomise_weights
from whence.tracing.out_of_memory import RetryHalved
from whence.tracing.restore import get_model_lock
from whence.tracing.structure import list_stages
from whence.tracing.target import TargetSpec, rank_labels


class _ChangeImpossible(Exception):
    """Raised if a change cannot be made to this model or input; the message is the reason."""


@dataclass
class ExplainedInput:
    """One explained input, with the request of each method, or the reason why it cannot be repeated."""

    item: EncodedInput
    requests: Mapping[str, MethodRequest | str]
    logits: Tensor  # logits of the whole input, (1, labels)
    # The explained class by index: it stays the same when the prediction changes.
    main: int
    against: int | None
    of: OutputScale
    words: tuple[tuple[int, ...], ...] | None = (
        None  # token positions of each word, if words are the removable units
    )
    repeats: dict[tuple[Change, str], Numbers | str] = field(default_factory=dict)
    predicted: dict[Change, int] = field(default_factory=dict)
    passes: PassCount = field(default=PassCount(0, 0))

    def other_class(self, outputs: int) -> int:
        """Return the class to explain instead: the likeliest class that was not explained."""
        if outputs < 2 and self.item.rest:
            raise _ChangeImpossible("It is held against everything else: there is no other class.")
        if outputs < 2:
            raise _ChangeImpossible("The model has one output: there is no other class.")
        if self.against is not None:
            raise _ChangeImpossible("Two classes are held against each other already.")
        best, second = rank_labels(self.logits, self.item.rest)[0, :2].tolist()
        return int(second if self.main == best else best)


class InputRepeater:
    """Repeats the explanations of one input."""

    def __init__(self, remaker: "BatchRepeater", claim: ExplainedInput) -> None:
        self._remaker = remaker
        self._claim = claim

    @property
    def passes(self) -> PassCount:
        """The passes that were run so far for this input."""
        return self._claim.passes

    @property
    def prices(self) -> list[int]:
        """The forward passes that repeating each explanation once takes."""
        tokens = len(self._claim.item)
        pieced = sum(len(places) > 1 for places in self._claim.words or ())
        return [
            0
            if isinstance(request, str)
            else 1 + (0 if request.reads else request.extra_forwards(tokens, pieced))
            for request in self._claim.requests.values()
        ]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""
        return self._remaker.stages

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> RepeatedExplanations:
        """Return the repeats of all explanations, or of those in `rows`, under `change`."""
        claim, names = self._claim, list(self._claim.requests)
        selected = range(len(names)) if rows is None else rows
        self._remaker.make(change, claim, [names[row] for row in selected])
        scores = np.full((len(names), len(claim.item)), np.nan)
        why_not = {}
        for row in selected:
            repeat = claim.repeats[change, names[row]]
            if isinstance(repeat, str):
                why_not[row] = repeat
            else:
                scores[row] = repeat
        predicted = claim.predicted.get(
            change, int(rank_labels(claim.logits, claim.item.rest)[0, 0])
        )
        return RepeatedExplanations(scores, predicted, why_not)


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
        self._claims: list[ExplainedInput] = []

    def add(self, claim: ExplainedInput) -> InputRepeater:
        """Add an input to the batch, and return its repeater."""
        self._claims.append(claim)
        return InputRepeater(self, claim)

    def make(self, change: Change, claim: ExplainedInput, names: Sequence[str]) -> None:
        """Compute missing repeats of this input, and of the others while the model is changed."""
        for name in names:
            if isinstance(why := claim.requests[name], str):
                claim.repeats[change, name] = why
        new = [name for name in names if (change, name) not in claim.repeats]
        if not new:
            return
        group = [claim]
        # Padding and neighbours change one input only; all other changes are the same for every input.
        if not isinstance(change, Padded | Beside):
            group = [member for member in self._claims if _has_same_requests(member, claim, new)]
        model = self._loaded.model
        work = RetryHalved(model, ", ".join(sorted(new)), [group], _count_cells)
        for part in work:
            before = [member.passes for member in part]
            try:
                with work.retry_halved(part):
                    self._make(change, part, new)
                    before = [member.passes for member in part]
            except OutOfMemory as error:
                for name in new:
                    part[0].repeats[change, name] = str(error)
            for member, passes in zip(part, before, strict=True):
                member.passes = passes  # a part that did not fit runs again, and is counted then

    def _make(self, change: Change, claims: Sequence[ExplainedInput], names: Sequence[str]) -> None:
        """Compute repeats of several inputs; where that fails, one at a time, to find the culprit."""
        requests = {name: request for name, request in claims[0].requests.items() if name in names}
        methods = [request for request in requests.values() if isinstance(request, MethodRequest)]
        try:
            with (
                get_model_lock(self._loaded.model),
                self._apply_change(change, claims) as (batch, spec),
            ):
                # Dropout masks depend on how often a module ran, so checkpointing, which runs it again, is off.
                runs_again = self._loaded.checkpoint and not isinstance(change, Dropout)
                loaded = replace(self._loaded, checkpoint=runs_again)
                trace = trace_batch(loaded, batch, methods, spec)
                ranked = rank_labels(trace.logits, claims[0].item.rest)
                for claim, best in zip(claims, ranked[:, 0].tolist(), strict=False):
                    claim.predicted[change] = int(best)
                    self._count(claim, 1, max((r.backwards for r in methods), default=0))
                for request in methods:
                    adds_up = request.words_by(measured=False) == "sum"
                    by_words = claims[0].words is not None and not adds_up
                    result = run_method(
                        loaded,
                        request,
                        trace=trace,
                        policy=self._policy,
                        counter=ProgressCounter(None),
                        words=by_words,
                    )
                    for row, claim in enumerate(claims):
                        token_scores = result.scores[row].astype(np.float64)
                        if by_words:
                            token_scores = _replace_word_scores(
                                token_scores,
                                claim,
                                None if result.words is None else result.words[row],
                            )
                        claim.repeats[change, request.name] = token_scores
                        self._count(claim, result.extra[row].forward, result.extra[row].backward)
        except (_ChangeImpossible, WhenceError) as error:
            if len(claims) == len(names) == 1:
                claims[0].repeats[change, names[0]] = str(error)
                return
            for claim in claims:
                for name in names:
                    if (change, name) not in claim.repeats:
                        self._make(change, [claim], [name])

    def _count(self, claim: ExplainedInput, forward: int, backward: int) -> None:
        passes = claim.passes
        claim.passes = PassCount(passes.forward + forward, passes.backward + backward)
        self._progress(forward)

    @contextmanager
    def _apply_change(
        self, change: Change, claims: Sequence[ExplainedInput]
    ) -> Iterator[tuple[Batch, TargetSpec]]:
        """Apply the change while the block lasts; yield the batch and the target."""
        model, items = self._loaded.model, [claim.item for claim in claims]
        spec = _build_target_spec(claims)
        if isinstance(change, Noise | Randomised) and is_offloaded(model):
            raise _ChangeImpossible(
                "The weights are offloaded, and cannot be changed to see what follows."
            )
        match change:
            case Noise(radius, seed) if items[0].picture is not None:
                yield self._batch([_add_pixel_noise(item, radius, seed) for item in items]), spec
            case Noise(radius, seed):
                ids = {*self._loaded.fillers.values()}.union(*(item.ids for item in items))
                with add_embedding_noise(model, ids, radius, seed):
                    yield self._batch(items), spec
            case Randomised(stage, seed):
                with randomise_weights(model, stage, seed):
                    yield self._batch(items), spec
            case Dropout(seed):
                with apply_dropout(model, seed) as places:
                    if not places:
                        raise _ChangeImpossible("The model has no dropout to switch on.")
                    yield self._batch(items), spec
            case Padded(extra):
                yield self._batch(items, self._compute_padded_width(items[0], extra)), spec
            case Beside():
                beside = self._neighbours(items[0])
                yield (
                    self._batch([*items, *beside]),
                    _build_target_spec([claims[0]] * (1 + len(beside))),
                )
            case OtherClass():
                outputs = 1 if self._loaded.task == "regression" else claims[0].logits.shape[1]
                outputs -= claims[0].item.rest
                others = tuple(claim.other_class(outputs) for claim in claims)
                yield self._batch(items), replace(spec, main=others)

    def _batch(self, items: Sequence[EncodedInput], width: int = 0) -> Batch:
        loaded = self._loaded
        return collate(items, pad_id=loaded.pad_id, device=loaded.device, width=width)

    def _compute_padded_width(self, item: EncodedInput, extra: int) -> int:
        if not self._policy.mixed:
            raise _ChangeImpossible("Padding changes what this model says.")
        width, longest = len(item) + extra, self._loaded.max_length
        if longest is not None and width > longest:
            raise _ChangeImpossible(f"The model takes {longest} tokens at most: none can be added.")
        return width

    def _neighbours(self, item: EncodedInput) -> list[EncodedInput]:
        """Return the batch neighbours: the input itself, and half of it where lengths may mix."""
        if self._policy.size < 2:
            raise _ChangeImpossible("This model takes one input at a time.")
        half = len(item) // 2
        if not self._policy.mixed or not half or self._loaded.anchors:
            return [item]
        features = {name: values[:half] for name, values in item.features.items()}
        part = replace(item, features=features, tokens=item.tokens[:half], words=())
        return [item, part]


def _add_pixel_noise(item: EncodedInput, radius: float, seed: int) -> EncodedInput:
    assert item.picture is not None
    return replace(item, picture=item.picture.with_noise(radius, seed))


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


def _replace_word_scores(
    scores: Numbers, claim: ExplainedInput, measured: Numbers | None
) -> Numbers:
    """Return token scores that add up to the word scores, where the tokens' own do not."""
    assert claim.words is not None
    if measured is None:
        values = [float(scores[list(places)].mean()) for places in claim.words]
    else:
        numbers = {place: i for i, word in enumerate(claim.item.words) for place in word.tokens}
        values = [float(measured[numbers[places[0]]]) for places in claim.words]
    return replace_unit_scores(scores, claim.words, values)


def _count_cells(claims: Sequence[ExplainedInput]) -> int:
    return len(claims) * max(len(claim.item) for claim in claims)


def _has_same_requests(first: ExplainedInput, second: ExplainedInput, names: Sequence[str]) -> bool:
    """Return whether two inputs were explained by the same methods with the same parameters."""
    return all(first.requests.get(name) == second.requests[name] for name in names)


def _build_target_spec(claims: Sequence[ExplainedInput]) -> TargetSpec:
    """Return one target for a batch, with a class for each input."""
    others = tuple(claim.against for claim in claims if claim.against is not None)
    return TargetSpec(tuple(claim.main for claim in claims), others or None, claims[0].of)
