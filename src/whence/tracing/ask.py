"""PredictionCache and ModelQuery (`ask`), for query methods and metrics: variants, embeddings, pass count.

`PredictionCache` keeps the logits of every variant, for all methods, metrics and random rankings of one
model. `ModelQuery` maps variants of a batch's inputs, or vectors in place of their embeddings, to the
explained scalar. `resolve_baseline` chooses the uninformative input of integrated gradients: padding, or
zero without a padding token.
"""

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import get_ident
from typing import Any, Literal, cast

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.core.types import OutputScale
from whence.data.batches import Batch, BatchRules, collate
from whence.data.images import IMAGE_FILLS, EncodedImage, ImageFill, split_patches
from whence.data.removal import DRAWS_PER_REMOVAL, Removal, remove_tokens, select_replacements
from whence.data.tokens import EncodedInput
from whence.models.model import InfillModel
from whence.tracing.embeddings import (
    EmbeddedInput,
    compute_mean_embedding,
    evaluate_at_embeddings,
    look_up_embeddings,
)
from whence.tracing.forward import is_comparing_runs, open_plain_forward
from whence.tracing.infill import InfillCache
from whence.tracing.out_of_memory import RetryHalved, build_retry_batches
from whence.tracing.target import ResolvedTargets, compute_probabilities

VariantKey = tuple[Hashable, ...]


class PredictionCache:
    """Cache of the logits of every queried variant, shared by methods, metrics and random rankings.

    A cache belongs to one state of one model; an altered model needs a cache of its own.
    """

    def __init__(
        self,
        model: Any,
        *,
        pad_id: int | None,
        device: torch.device,
        policy: BatchRules,
        infiller: InfillModel | None = None,
    ) -> None:
        # The language model's draws are cached too: equal masked positions get equal replacements.
        self.infill = (
            None if infiller is None else InfillCache(infiller, device=device, size=policy.size)
        )
        self._runs = 0
        self._model = model
        self._pad_id = pad_id
        self._device = device
        self._policy = policy
        self._known: dict[VariantKey, Tensor] = {}

    def __call__(
        self, variants: Sequence[EncodedInput], progress: Callable[[int], None] = lambda _: None
    ) -> Tensor:
        """Return the logits of each variant, (variants, labels), in the order given."""
        keys = [build_variant_key(item) for item in variants]
        new = {k: item for k, item in zip(keys, variants, strict=True) if k not in self._known}
        if new:
            self._ask(list(new), list(new.values()), progress)
        return torch.stack([self._known[k] for k in keys]).to(self._device)

    def _ask(
        self,
        names: Sequence[VariantKey],
        items: Sequence[EncodedInput],
        progress: Callable[[int], None],
    ) -> None:
        # Opened once for all batches: preparing and restoring the model takes as long as a small batch.
        with open_plain_forward(self._model) as logits_of:
            work = build_retry_batches(self._model, "answers", items, self._policy)
            for numbers in work:
                with work.retry_halved(numbers):
                    batch_items = [items[i] for i in numbers]
                    batch = collate(batch_items, pad_id=self._pad_id, device=self._device)
                    # Thousands of rows are cheaper to keep, and to stack again, on the CPU.
                    for i, row in zip(numbers, logits_of(batch).cpu(), strict=True):
                        self._known[names[i]] = row
                    self._runs += len(numbers)
                    progress(len(numbers))

    @property
    def forwards(self) -> int:
        """The number of inputs that the model and the language model were run on, without cache hits."""
        return self._runs + (self.infill.forwards if self.infill else 0)

    def forget(self) -> None:
        """Drop all cached logits and replacements; the count of forward passes stays."""
        self._known.clear()
        if self.infill:
            self.infill.forget()


def build_variant_key(item: EncodedInput) -> VariantKey:
    """Return a key that is equal for two variants exactly if the model cannot tell them apart."""
    parts: list[Hashable] = [item.reading]
    for name in sorted(item.features):
        values = item.features[name]
        plain = not values or isinstance(values[0], int)
        parts += [name, array("q", values).tobytes() if plain else values]
    if item.answer:
        parts.append(item.answer)
    if item.picture is not None:
        picture = item.picture
        parts += [picture.digest, picture.hidden, picture.blot, picture.fill]
    return tuple(parts)


Baseline = Literal["pad", "mask", "zero", "mean", "black", "blur"]


def resolve_baseline(baseline: Baseline | None, fillers: Mapping[str, int]) -> Baseline:
    """Return the requested baseline, or the default: padding, or zero without a padding token.

    The default baseline of an image is black. Raises BadParameter if the model lacks the token.
    """
    if any(fill in fillers for fill in IMAGE_FILLS):
        return _resolve_image_baseline(baseline)
    if baseline in ("black", "blur"):
        raise BadParameter(
            f"baseline={baseline!r} is for pictures, and this is a text. Use pad, mask, zero or mean."
        )
    if baseline is None:
        return "pad" if "pad" in fillers else "zero"
    if baseline in ("pad", "mask") and baseline not in fillers:
        possible = [name for name in ("pad", "mask") if name in fillers]
        raise BadParameter(
            f"baseline={baseline!r} needs a {baseline} token, and this model has none. "
            f"Possible here: {', '.join([*possible, 'zero', 'mean'])}."
        )
    return baseline


def _resolve_image_baseline(baseline: Baseline | None) -> Baseline:
    if baseline in ("pad", "mask"):
        raise BadParameter(
            f"baseline={baseline!r} is a token, and this is a picture. Possible here: {', '.join(IMAGE_FILLS)}."
        )
    return "black" if baseline in (None, "zero") else baseline


# Variants, and tokens of variants, in memory at a time: enough to sort by length, few enough for a
# long text.
_MAX_VARIANTS = 2048
_MAX_TOKENS = 1 << 24


class ModelQuery:
    """The model as a function to the explained scalar, from variants of a batch's inputs or their embeddings."""

    def __init__(
        self,
        model: Any,
        batch: Batch,
        logits: Tensor,
        targets: ResolvedTargets,
        *,
        fillers: Mapping[str, int],
        anchors: frozenset[int] = frozenset(),
        pad_id: int | None,
        policy: BatchRules,
        answers: PredictionCache | None = None,
        infiller: InfillModel | None = None,
        checkpoint: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Build the query; with `answers`, a shared cache, variants that are in it already are not run again."""
        self.fillers = select_replacements(fillers, batch.has_images)
        self.anchors = (
            anchors  # ids that cannot be removed, because the model is undefined without them
        )
        # Forward passes that each input needs, cache hits included.
        self.forwards = [0] * len(batch)
        self.backwards = [0] * len(batch)
        self._model = model
        self._batch = batch
        self._logits = logits
        self._targets = targets
        self._device = batch.real.device
        self._pad_id = pad_id
        self._policy = policy
        self._checkpoint = checkpoint
        self._keep = answers is not None
        self._answers = answers or PredictionCache(
            model, pad_id=pad_id, device=self._device, policy=policy, infiller=infiller
        )
        self._progress = progress

    @property
    def rest(self) -> bool:
        """Whether the last output stands for all unnamed ones together: no label, and never predicted."""
        return self._batch.items[0].rest

    @property
    def _chunk_size(self) -> int:
        longest = max(map(len, self._batch.items))
        return max(1, min(_MAX_VARIANTS, _MAX_TOKENS // max(1, longest)))

    @property
    def _pictures(self) -> list[EncodedImage]:
        return [item.picture for item in self._batch.items if item.picture is not None]

    @property
    def eps(self) -> float:
        """The relative rounding (eps) of the model's logits."""
        return torch.finfo(self._logits.dtype).eps

    def base(self, of: OutputScale | None = None) -> Tensor:
        """Return the explained scalar of the inputs as they are, (batch,): known already, no call."""
        return self._targets.value(self._logits, of)

    def __call__(
        self, variants: Iterable[tuple[int, EncodedInput]], of: OutputScale | None = None
    ) -> Tensor:
        """Return the scalar of each (input's number, variant of it), in the order given.

        Equal variants within a chunk, at most 2,048 in a row, are run once.
        """
        variants = iter(variants)
        values = [self._logits.new_empty(0)]
        while chunk := list(islice(variants, self._chunk_size)):
            owners = torch.tensor([owner for owner, _ in chunk], device=self._device)
            values.append(self._targets.at(owners).value(self._logits_of(chunk), of))
        return torch.cat(values)

    def without(self, holes: Sequence[Sequence[Collection[int]]], how: Removal) -> list[Tensor]:
        """Return, for each input, the target's probability with each of its sets of masked positions removed.

        With the removal "draw" it is the mean over the draws; each set takes a call of the language model.
        """
        requests = ((row, places) for row, sets in enumerate(holes) for places in sets)
        values = _average_draws(self(self._without(requests, how), of="probability"), how)
        return list(torch.split(values, [len(sets) for sets in holes]))

    def compute_probabilities_without(
        self, holes: Iterable[tuple[int, Collection[int]]], how: Removal
    ) -> Tensor:
        """Return the probabilities of all labels, (holes, labels), without each (input's number, positions)."""
        return _average_draws(self.shares(self._without(holes, how)), how)

    def shares(self, variants: Iterable[tuple[int, EncodedInput]]) -> Tensor:
        """Return the probabilities of all labels for each (input's number, variant of it), (variants, labels)."""
        variants = iter(variants)
        parts = [self._logits.new_empty((0, self._logits.shape[1])).double()]
        while chunk := list(islice(variants, self._chunk_size)):
            parts.append(compute_probabilities(self._logits_of(chunk).double(), self._targets.task))
        return torch.cat(parts)

    def _without(
        self, masked: Iterable[tuple[int, Collection[int]]], how: Removal
    ) -> Iterator[tuple[int, EncodedInput]]:
        """Yield the variants of each (input's number, masked positions): one, or one for each draw."""
        items, masked = self._batch.items, iter(masked)
        if how != "draw":
            for row, places in masked:
                yield row, remove_tokens(items[row], places, how, self.fillers)
            return
        while chunk := list(islice(masked, self._chunk_size)):
            for (row, _), variants in zip(chunk, self._infill(chunk), strict=True):
                for variant in variants:
                    yield row, variant

    def _infill(self, masked: list[tuple[int, Collection[int]]]) -> list[tuple[EncodedInput, ...]]:
        """Fill masked positions by the language model, and count the distinct requests of each input."""
        infill = self._answers.infill
        assert infill is not None, "without a language model, resolve refuses to draw"
        distinct = {(row, frozenset(at)) for row, at in masked if len(at)}
        for row, _ in distinct:
            self.forwards[row] += 1
        before = infill.forwards
        result = infill([(self._batch.items[row], at) for row, at in masked], self._progress)
        self._progress(len(distinct) - (infill.forwards - before))  # cache hits
        return result

    @cached_property
    def embeddings(self) -> list[Tensor]:
        """The embeddings, or pixels, of each input, (tokens, features), in float32 at least: no call of the model."""
        if self._batch.has_images:
            return [split_patches(own.pixels, own.grid).to(self._device) for own in self._pictures]
        vectors = look_up_embeddings(self._model, self._batch, self._batch.inputs["input_ids"])
        answers = self._batch.inputs.get("decoder_input_ids")
        if answers is not None:
            decoded = look_up_embeddings(self._model, self._batch, answers, decoder=True)
            vectors = torch.cat([vectors, decoded], dim=1)
        return [part[own] for part, own in zip(vectors, self._batch.own, strict=True)]

    def baselines(self, kind: Baseline, *, keep_special: bool = False) -> list[Tensor]:
        """Return the baseline of each input, of the same shape as its embeddings."""
        if self._batch.has_images:
            fill = cast(ImageFill, kind)
            patches = [split_patches(own.build_fill(fill), own.grid) for own in self._pictures]
            return [patch.to(self._device) for patch in patches]
        source = self._vector(kind)
        decoder = self._vector(kind, decoder=True) if self._batch.items[0].answer else source
        result = []
        for item, own in zip(self._batch.items, self.embeddings, strict=True):
            sources = len(item) - len(item.answer)
            vectors = torch.stack([source] * sources + [decoder] * len(item.answer))
            special = [token.special and keep_special for token in item.tokens]
            keep_own = torch.tensor(special, device=self._device)[:, None]
            result.append(torch.where(keep_own, own, vectors))
        return result

    def _vector(self, kind: Baseline, *, decoder: bool = False) -> Tensor:
        """Return the baseline embedding of one token, (features,)."""
        if kind == "zero":
            return torch.zeros_like(self.embeddings[0][0])
        if kind == "mean":
            return compute_mean_embedding(self._model, self._batch, decoder=decoder)
        filler = torch.tensor([self.fillers[kind]], device=self._device)
        return look_up_embeddings(self._model, self._batch, filler, decoder=decoder)[0]

    def at(self, points: Iterable[EmbeddedInput], of: OutputScale | None = None) -> Tensor:
        """Return the scalar at each (input's number, vectors), in the order given."""
        values = [value for _, value, _ in self._run(points, of, slope=False)]
        return torch.cat([self._logits.new_empty(0), *values])

    def slopes(
        self, points: Iterable[EmbeddedInput], of: OutputScale | None = None
    ) -> Iterator[Tensor]:
        """Yield the scalar's gradient at each (input's number, vectors), (tokens, features), in the order given.

        Points are consumed one batch at a time, so that no more of them need be in memory.
        """
        for chunk, _, slopes in self._run(points, of, slope=True):
            for (owner, _), slope in zip(chunk, slopes, strict=True):
                self.backwards[owner] += 1
                yield slope

    def _run(
        self, points: Iterable[EmbeddedInput], of: OutputScale | None, *, slope: bool
    ) -> Iterator[tuple[Sequence[EmbeddedInput], Tensor, list[Tensor]]]:
        kind = "slopes" if slope else "points"
        work = RetryHalved(self._model, kind, self._split_into_batches(points), _count_cells)
        for chunk in work:
            with work.retry_halved(chunk):
                values, slopes = evaluate_at_embeddings(
                    self._model,
                    self._batch.items,
                    chunk,
                    self._targets,
                    pad_id=self._pad_id,
                    of=of,
                    slope=slope,
                    checkpoint=self._checkpoint,
                )
                for owner, _ in chunk:
                    self.forwards[owner] += 1
                self._progress(len(chunk))
                yield chunk, values, slopes

    def _split_into_batches(self, points: Iterable[EmbeddedInput]) -> Iterator[list[EmbeddedInput]]:
        """Cut points into batches in their order; all inputs came in one batch, so they may share others."""
        chunk: list[EmbeddedInput] = []
        longest = 0
        for owner, vectors in points:
            longest = max(longest, len(vectors))
            cells = (len(chunk) + 1) * longest
            if chunk and (len(chunk) >= self._policy.size or cells > self._policy.cells):
                yield chunk
                chunk, longest = [], len(vectors)
            chunk.append((owner, vectors))
        if chunk:
            yield chunk

    def _logits_of(self, variants: list[tuple[int, EncodedInput]]) -> Tensor:
        """Return the logits of one chunk of variants, and count the distinct variants of each input."""
        distinct = {(owner, build_variant_key(item)) for owner, item in variants}
        for owner, _ in distinct:
            self.forwards[owner] += 1
        before = self._answers.forwards
        logits = self._answers([item for _, item in variants], self._progress)
        self._progress(len(distinct) - (self._answers.forwards - before))  # cache hits
        if not self._keep:
            self._answers.forget()
        return logits


def _count_cells(points: Sequence[EmbeddedInput]) -> int:
    return len(points) * max(len(vectors) for _, vectors in points)


def _average_draws(values: Tensor, how: Removal) -> Tensor:
    """Return the mean over the draws of each removal."""
    draws = DRAWS_PER_REMOVAL if how == "draw" else 1
    return values.reshape(len(values) // draws, draws, *values.shape[1:]).mean(1)


@dataclass
class ForwardCount:
    """The number of forward passes so far; a batch of eight inputs counts as eight."""

    forward: int = 0


@contextmanager
def count_forwards(model: torch.nn.Module) -> Iterator[ForwardCount]:
    """Count the forward passes of this thread inside the `with` block."""
    runs, owner = ForwardCount(), get_ident()

    def count(module: torch.nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if get_ident() != owner or is_comparing_runs():
            return
        tensors = (value for value in (*args, *named.values()) if isinstance(value, Tensor))
        runs.forward += next((len(value) for value in tensors), 1)

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield runs
    finally:
        hook.remove()
