"""PredictionCache and ModelQuery (`ask`), for query methods and metrics: variants, embeddings, pass count.

`PredictionCache` keeps the logits of every variant, for all methods, metrics and random rankings of one
model. `ModelQuery` maps variants of a batch's inputs, or vectors in place of their embeddings, to the
explained scalar. `resolve_baseline` chooses the uninformative input of integrated gradients: padding, or
zero without a padding token.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from threading import get_ident
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.core.types import OutputScale
from whence.data.batches import Batch, BatchRules, VariantKey, Variants, plan_rows
from whence.data.images import IMAGE_FILLS, ImageFill, split_patches
from whence.data.removal import (
    DRAWS_PER_REMOVAL,
    Removal,
    count_passes_per_removal,
    remove_sets,
    select_replacements,
)
from whence.data.tokens import EncodedInput
from whence.models.model import InfillModel
from whence.tracing.embeddings import (
    EmbeddedInput,
    compute_mean_embedding,
    evaluate_at_embeddings,
    look_up_embeddings,
)
from whence.tracing.forward import is_comparison, open_plain_forward
from whence.tracing.infill import InfillCache
from whence.tracing.out_of_memory import RetryHalved
from whence.tracing.target import ResolvedTargets, compute_probabilities

Query = TypeVar("Query")
Report = Callable[[int], None]


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
            None
            if infiller is None
            else InfillCache(infiller, device=device, size=policy.for_variants.size)
        )
        self._runs = 0
        self._model = model
        self._pad_id = pad_id
        self._device = device
        self._policy = policy.for_variants
        # Of each known variant the number of labels, and its row among those with as many.
        self._known: dict[VariantKey, tuple[int, int]] = {}
        self._logits: dict[int, Tensor] = {}

    def without(
        self,
        items: Sequence[EncodedInput],
        owners: Sequence[int],
        sets: Sequence[Collection[int]],
        how: Removal,
        fillers: Mapping[str, int],
        progress: Report = lambda _: None,
    ) -> tuple[Tensor, Counter[int]]:
        """Return the logits of inputs without sets of their tokens, (sets, draws, labels), and the passes of each input.

        `owners` has the number of each set's input. Only the removal "draw" has several draws.
        """
        if how != "draw":
            variants = remove_sets(items, owners, sets, how, fillers)
            logits, passes = self.answer(variants, owners, progress)
            return logits[:, None], passes
        assert self.infill is not None, "without a language model, resolve refuses to draw"
        variants, drawn = self.infill(items, owners, sets, progress)
        logits, passes = self.answer(variants, variants.owners.tolist(), progress)
        return logits.reshape(len(sets), DRAWS_PER_REMOVAL, -1), passes + drawn

    def answer(
        self, variants: Variants, owners: Sequence[int], progress: Report = lambda _: None
    ) -> tuple[Tensor, Counter[int]]:
        """Return the logits of variants, (variants, labels), and the passes that each owner needs by itself.

        Equal variants are run once. Passes of an owner include cache hits.
        """
        keys, before = variants.build_keys(), self._runs
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        if new:
            self._run(variants, new, progress)
        passes = Counter(owner for owner, _ in set(zip(owners, keys, strict=True)))
        progress(passes.total() - (self._runs - before))  # cache hits
        labels = self._known[keys[0]][0]
        rows = torch.tensor([self._known[key][1] for key in keys])
        return self._logits[labels][rows.to(self._device)], passes

    def _run(self, variants: Variants, new: Mapping[VariantKey, int], progress: Report) -> None:
        """Run the model on the variants in some rows, and keep their logits by their keys."""
        names, rows, kinds = [*new], [*new.values()], variants.list_kinds(self._policy)
        lengths = variants.lengths[rows].tolist()
        batches = plan_rows([kinds[row] for row in rows], lengths, self._policy)
        order: list[int] = []
        logits: list[Tensor] = []
        # Opened once for all batches: preparing and restoring the model takes as long as a small batch.
        with open_plain_forward(self._model) as logits_of:
            work = RetryHalved(
                self._model,
                "answers",
                batches,
                lambda part: len(part) * max(lengths[i] for i in part),
            )
            for numbers in work:
                with work.retry_halved(numbers):
                    chosen = [rows[i] for i in numbers]
                    batch = variants.collate(chosen, pad_id=self._pad_id, device=self._device)
                    logits.append(logits_of(batch))
                    order += numbers
                    self._runs += len(numbers)
                    progress(len(numbers))
            labels = logits[0].shape[1]
            earlier = self._logits.get(labels, logits[0][:0])
            self._logits[labels] = torch.cat([earlier, *logits])
        for row, number in enumerate(order, start=len(earlier)):
            self._known[names[number]] = labels, row

    @property
    def forwards(self) -> int:
        """The number of inputs that the model and the language model were run on, without cache hits."""
        return self._runs + (self.infill.forwards if self.infill else 0)

    def forget(self) -> None:
        """Drop all cached logits and replacements; the count of forward passes stays."""
        self._known.clear()
        self._logits.clear()
        if self.infill:
            self.infill.forget()


Baseline = Literal["pad", "mask", "zero", "mean", "black", "blur"]


def resolve_baseline(baseline: Baseline | None, fillers: Mapping[str, int]) -> Baseline:
    """Return the requested baseline, or the default: padding, or zero without a padding token.

    The default baseline of an image is black. Raises BadParameter if the model lacks the token.
    """
    if any(fill in fillers for fill in IMAGE_FILLS):
        if baseline in ("pad", "mask"):
            raise BadParameter(
                f"baseline={baseline!r} is a token, and this is a picture. Possible here: {', '.join(IMAGE_FILLS)}."
            )
        return "black" if baseline in (None, "zero") else baseline
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
    def eps(self) -> float:
        """The relative rounding (eps) of the model's logits."""
        return torch.finfo(self._logits.dtype).eps

    def base(self, of: OutputScale | None = None) -> Tensor:
        """Return the explained scalar of the inputs as they are, (batch,): known already, no call."""
        return self._targets.value(self._logits, of)

    def without(self, holes: Sequence[Sequence[Collection[int]]], how: Removal) -> list[Tensor]:
        """Return, for each input, the target's probability with each of its sets of masked positions removed.

        With the removal "draw" it is the mean over the draws; each set takes a call of the language model.
        """
        values = [self._logits.new_empty(0)]
        masked = ((row, places) for row, sets in enumerate(holes) for places in sets)
        for owners, logits in self._answer_without(masked, how):
            draws = logits.shape[1]
            rows = torch.tensor(owners, device=self._device).repeat_interleave(draws)
            own = self._targets.at(rows).value(logits.flatten(0, 1), "probability")
            values.append(own.reshape(-1, draws).mean(1))
        return list(torch.split(torch.cat(values), [len(sets) for sets in holes]))

    def compute_probabilities_without(
        self, holes: Iterable[tuple[int, Collection[int]]], how: Removal
    ) -> Tensor:
        """Return the probabilities of all labels, (holes, labels), without each (input's number, positions)."""
        task, none = self._targets.task, self._logits.new_empty((0, self._logits.shape[1]))
        answered = self._answer_without(holes, how)
        parts = [compute_probabilities(logits.double(), task).mean(1) for _, logits in answered]
        return torch.cat([none.double(), *parts])

    def shares(self, variants: Iterable[tuple[int, EncodedInput]]) -> Tensor:
        """Return the probabilities of all labels for each (input's number, variant of it), (variants, labels)."""
        owners, items = zip(*variants, strict=True)
        logits, passes = self._answers.answer(Variants.of(items), owners, self._progress)
        self._count(passes)
        return compute_probabilities(logits.double(), self._targets.task)

    def _answer_without(
        self, masked: Iterable[tuple[int, Collection[int]]], how: Removal
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the inputs' numbers and the logits, (sets, draws, labels), without masked positions, in chunks.

        Equal variants within a chunk are run once.
        """
        items, masked = self._batch.items, iter(masked)
        longest, passes = max(map(len, items)), count_passes_per_removal(how)
        size = max(1, min(_MAX_VARIANTS, _MAX_TOKENS // max(1, longest)) // passes)
        while chunk := list(islice(masked, size)):
            owners, sets = [row for row, _ in chunk], [places for _, places in chunk]
            logits, counts = self._answers.without(
                items, owners, sets, how, self.fillers, self._progress
            )
            self._count(counts)
            yield owners, logits
            if not self._keep:
                self._answers.forget()

    def _count(self, passes: Counter[int]) -> None:
        for row, count in passes.items():
            self.forwards[row] += count

    @cached_property
    def embeddings(self) -> list[Tensor]:
        """The embeddings, or pixels, of each input, (tokens, features), in float32 at least: no call of the model."""
        pictures = [item.picture for item in self._batch.items if item.picture is not None]
        if pictures:
            return [split_patches(own.pixels, own.grid).to(self._device) for own in pictures]
        vectors = look_up_embeddings(self._model, self._batch, self._batch.inputs["input_ids"])
        answers = self._batch.inputs.get("decoder_input_ids")
        if answers is not None:
            decoded = look_up_embeddings(self._model, self._batch, answers, decoder=True)
            vectors = torch.cat([vectors, decoded], dim=1)
        return self._batch.unpad_values(vectors)

    def baselines(self, kind: Baseline, *, keep_special: bool = False) -> list[Tensor]:
        """Return the baseline of each input, of the same shape as its embeddings."""
        pictures = [item.picture for item in self._batch.items if item.picture is not None]
        if pictures:
            fill = cast(ImageFill, kind)
            patches = [split_patches(own.build_fill(fill), own.grid) for own in pictures]
            return [patch.to(self._device) for patch in patches]

        def build_vector(*, decoder: bool) -> Tensor:
            """Return the baseline embedding of one token, (features,)."""
            if kind == "zero":
                return torch.zeros_like(self.embeddings[0][0])
            if kind == "mean":
                return compute_mean_embedding(self._model, self._batch, decoder=decoder)
            filler = torch.tensor([self.fillers[kind]], device=self._device)
            return look_up_embeddings(self._model, self._batch, filler, decoder=decoder)[0]

        source = build_vector(decoder=False)
        decoder = build_vector(decoder=True) if self._batch.items[0].answer else source
        result = []
        for item, own in zip(self._batch.items, self.embeddings, strict=True):
            sources = len(item) - len(item.answer)
            vectors = torch.cat([source.expand(sources, -1), decoder.expand(len(item.answer), -1)])
            special = [token.special and keep_special for token in item.tokens]
            keep_own = torch.tensor(special, device=self._device)[:, None]
            result.append(torch.where(keep_own, own, vectors))
        return result

    def at(self, points: Iterable[EmbeddedInput], of: OutputScale | None = None) -> Tensor:
        """Return the scalar at each (input's number, vectors), in the order given."""
        values = [one for *_, one, _ in self._evaluate_points(points, of, slope=False)]
        return torch.cat([self._logits.new_empty(0), *values])

    def slopes(
        self, points: Iterable[EmbeddedInput], of: OutputScale | None = None
    ) -> Iterator[Tensor]:
        """Yield the scalar's gradient at each (input's number, vectors), (tokens, features), in the order given.

        Points are consumed one batch at a time, so that no more of them need be in memory.
        """
        for batch, *_, slopes in self._evaluate_points(points, of, slope=True):
            yield from batch.unpad_values(slopes)

    def _evaluate_points(
        self, points: Iterable[EmbeddedInput], of: OutputScale | None, *, slope: bool
    ) -> Iterator[tuple[Batch, slice, Tensor | slice, Tensor, Tensor]]:
        for chunk in self._split_into_batches(points):
            rows = [row for row, _ in chunk]
            vectors = self._batch.pad_values([vectors for _, vectors in chunk], rows)
            yield from self._evaluate(rows, vectors, of, slope=slope)

    def sum_slopes(
        self, count: int, build: Callable[[list[int], list[int]], tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Return the sum of factors times the scalar's gradients at `count` points of each input.

        `build` is given inputs' numbers and points' numbers, as many as fill a batch, and returns these points and
        the factors of their gradients, (points, places, features) both; factors may broadcast. Each point is
        built once, input by input. The sum is (batch, places, features).
        """
        sums = torch.zeros_like(self._batch.pad_values(self.embeddings))
        pairs = ((row, number) for row in range(len(self._batch)) for number in range(count))
        for chunk in self._split_into_batches(pairs):
            rows = [row for row, _ in chunk]
            vectors, factors = build(rows, [number for _, number in chunk])
            factors = factors.expand_as(vectors)
            for _, part, places, _, slopes in self._evaluate(rows, vectors, None, slope=True):
                slopes *= factors[part][:, places]
                for row, group in groupby(enumerate(rows[part]), lambda pair: pair[1]):
                    own = [place for place, _ in group]
                    sums[row, places] += slopes[own[0] : own[-1] + 1].sum(0)
        return sums

    def _evaluate(
        self, rows: list[int], vectors: Tensor, of: OutputScale | None, *, slope: bool
    ) -> Iterator[tuple[Batch, slice, Tensor | slice, Tensor, Tensor]]:
        """Yield batches of points: their part, places among the batch's own, values and gradients."""

        def count_cells(part: Sequence[int]) -> int:
            return len(part) * max(len(self._batch.items[rows[i]]) for i in part)

        kind, whole = "slopes" if slope else "points", range(len(rows))
        work = RetryHalved(self._model, kind, [whole], count_cells)
        for numbers in work:
            with work.retry_halved(numbers):
                part = slice(numbers[0], numbers[-1] + 1)
                batch, places = self._batch.select(rows[part])
                values, slopes = evaluate_at_embeddings(
                    self._model,
                    batch,
                    vectors[part][:, places],
                    self._targets.at(torch.tensor(rows[part], device=self._device)),
                    of=of,
                    slope=slope,
                    checkpoint=self._checkpoint,
                )
                for row in rows[part]:
                    self.forwards[row] += 1
                    self.backwards[row] += slope
                self._progress(len(numbers))
                yield batch, part, places, values, slopes

    def _split_into_batches(
        self, pairs: Iterable[tuple[int, Query]]
    ) -> Iterator[list[tuple[int, Query]]]:
        """Cut pairs with an input's number into batches in their order; inputs of one batch may share others."""
        chunk: list[tuple[int, Query]] = []
        longest = 0
        for pair in pairs:
            length = len(self._batch.items[pair[0]])
            longest = max(longest, length)
            if chunk and (self._policy.alone or (len(chunk) + 1) * longest > self._policy.cells):
                yield chunk
                chunk, longest = [], length
            chunk.append(pair)
        if chunk:
            yield chunk


@dataclass
class ForwardCount:
    """The number of forward passes so far; a batch of eight inputs counts as eight."""

    forward: int = 0


@contextmanager
def count_forwards(model: torch.nn.Module) -> Iterator[ForwardCount]:
    """Count the forward passes of this thread inside the `with` block."""
    runs, owner = ForwardCount(), get_ident()

    def count(module: torch.nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if get_ident() != owner or is_comparison.get():
            return
        tensors = (value for value in (*args, *named.values()) if isinstance(value, Tensor))
        runs.forward += next((len(value) for value in tensors), 1)

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield runs
    finally:
        hook.remove()
