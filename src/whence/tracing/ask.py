"""Asking the model again: about other inputs or at other embeddings, counted and in batches."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, cast

import torch
from torch import Tensor

from whence.capture.asking.answers import Answers, key
from whence.capture.asking.baseline import Baseline
from whence.capture.asking.slopes import Embedded, at_embeddings, looked_up, mean_embedding
from whence.capture.memory.fitting import Fitting
from whence.capture.target import Targets, probabilities
from whence.core.types import Of
from whence.data import Batch, Encoded, Policy
from whence.data.removal import DRAWS, Removal, suited, without
from whence.data.vision.picture import Fill, Picture, as_patches
from whence.models import Infiller

# How many variants are held at a time, and tokens of theirs: enough to sort by length, few enough for a long text.
_AT_A_TIME = 2048
_TOKENS_AT_A_TIME = 1 << 24


class Ask:
    """The model as a function to the explained scalar, from variants of a batch's inputs or their embeddings."""

    def __init__(
        self,
        model: Any,
        batch: Batch,
        logits: Tensor,
        targets: Targets,
        *,
        fillers: Mapping[str, int],
        anchors: frozenset[int] = frozenset(),
        pad_id: int | None,
        policy: Policy,
        answers: Answers | None = None,
        infiller: Infiller | None = None,
        checkpoint: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """With `answers`, what others have asked is not asked again, and what is asked here is kept for them."""
        self.fillers = suited(fillers, batch.pictures)
        self.anchors = anchors  # ids that cannot be removed: the model is undefined without them
        # How often each input needs the model, whether or not somebody has asked the same before.
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
        self._answers = answers or Answers(
            model, pad_id=pad_id, device=self._device, policy=policy, infiller=infiller
        )
        self._progress = progress

    @property
    def rest(self) -> bool:
        """Whether the last output is all that was not named: no label, and never predicted."""
        return self._batch.items[0].rest

    @property
    def _few(self) -> int:
        longest = max(map(len, self._batch.items))
        return max(1, min(_AT_A_TIME, _TOKENS_AT_A_TIME // max(1, longest)))

    @property
    def _pictures(self) -> list[Picture]:
        return [item.picture for item in self._batch.items if item.picture is not None]

    @property
    def eps(self) -> float:
        """The rounding of the model's logits, in parts of their size."""
        return torch.finfo(self._logits.dtype).eps

    def base(self, of: Of | None = None) -> Tensor:
        """Return the explained scalar of the inputs as they are, (batch,): known already, no call."""
        return self._targets.value(self._logits, of)

    def __call__(self, variants: Iterable[tuple[int, Encoded]], of: Of | None = None) -> Tensor:
        """Return the scalar of each (input's number, variant of it), in the order given.

        Variants that are the same, among a few thousand that follow each other, are asked about once.
        """
        variants = iter(variants)
        found = [self._logits.new_empty(0)]
        while chunk := list(islice(variants, self._few)):
            owners = torch.tensor([owner for owner, _ in chunk], device=self._device)
            found.append(self._targets.at(owners).value(self._logits_of(chunk), of))
        return torch.cat(found)

    def without(self, holes: Sequence[Sequence[Collection[int]]], how: Removal) -> list[Tensor]:
        """Return, for each input, the target's probability with the tokens in each of its holes removed.

        Where holes are filled by draws it is the mean over them, and every hole takes a call of the language model.
        """
        every = ((row, hole) for row, own in enumerate(holes) for hole in own)
        values = _averaged(self(self._without(every, how), of="probability"), how)
        return list(torch.split(values, [len(own) for own in holes]))

    def shares_without(self, row: int, holes: Sequence[Collection[int]], how: Removal) -> Tensor:
        """Return what every label gets with the tokens in each hole of one input removed, (holes, labels)."""
        variants = self._without(((row, hole) for hole in holes), how)
        return _averaged(self.shares(variants), how)

    def shares(self, variants: Iterable[tuple[int, Encoded]]) -> Tensor:
        """Return what every label gets from each (input's number, variant of it), (variants, labels)."""
        variants = iter(variants)
        found = [self._logits.new_empty((0, self._logits.shape[1])).double()]
        while chunk := list(islice(variants, self._few)):
            found.append(probabilities(self._logits_of(chunk).double(), self._targets.task))
        return torch.cat(found)

    def _without(
        self, holes: Iterable[tuple[int, Collection[int]]], how: Removal
    ) -> Iterator[tuple[int, Encoded]]:
        """Yield the variants to ask about: one for each (input's number, hole), or as many as there are draws."""
        items, holes = self._batch.items, iter(holes)
        if how != "draw":
            for row, hole in holes:
                yield row, without(items[row], hole, how, self.fillers)
            return
        while chunk := list(islice(holes, self._few)):
            for (row, _), fillings in zip(chunk, self._fillings(chunk), strict=True):
                for filled in fillings:
                    yield row, filled

    def _fillings(self, holes: list[tuple[int, Collection[int]]]) -> list[tuple[Encoded, ...]]:
        """Let the language model fill some holes, and count the different ones of each input."""
        infill = self._answers.infill
        assert infill is not None, "without a language model, resolve refuses to draw"
        different = {(row, frozenset(hole)) for row, hole in holes if len(hole)}
        for row, _ in different:
            self.forwards[row] += 1
        before = infill.forwards
        found = infill([(self._batch.items[row], hole) for row, hole in holes], self._progress)
        self._progress(len(different) - (infill.forwards - before))  # known already
        return found

    @cached_property
    def embeddings(self) -> list[Tensor]:
        """The embeddings of each input, (tokens, features), in float32 at least: no call. Of pictures, the pixels."""
        if self._batch.pictures:
            return [as_patches(own.pixels, own.grid).to(self._device) for own in self._pictures]
        found = looked_up(self._model, self._batch, self._batch.inputs["input_ids"])
        answers = self._batch.inputs.get("decoder_input_ids")
        if answers is not None:
            decoded = looked_up(self._model, self._batch, answers, decoder=True)
            found = torch.cat([found, decoded], dim=1)
        return [part[own] for part, own in zip(found, self._batch.own, strict=True)]

    def baselines(self, kind: Baseline, *, keep_special: bool = False) -> list[Tensor]:
        """Return what to hold each input's embeddings against, of the same shapes."""
        if self._batch.pictures:
            fill = cast(Fill, kind)
            instead = [as_patches(own.instead(fill), own.grid) for own in self._pictures]
            return [one.to(self._device) for one in instead]
        source = self._vector(kind)
        decoder = self._vector(kind, decoder=True) if self._batch.items[0].answer else source
        result = []
        for item, own in zip(self._batch.items, self.embeddings, strict=True):
            sources = len(item) - len(item.answer)
            vectors = torch.stack([source] * sources + [decoder] * len(item.answer))
            special = [token.special and keep_special for token in item.tokens]
            kept = torch.tensor(special, device=self._device)[:, None]
            result.append(torch.where(kept, own, vectors))
        return result

    def _vector(self, kind: Baseline, *, decoder: bool = False) -> Tensor:
        """Return what stands for no token, (features,)."""
        if kind == "zero":
            return torch.zeros_like(self.embeddings[0][0])
        if kind == "mean":
            return mean_embedding(self._model, self._batch, decoder=decoder)
        filler = torch.tensor([self.fillers[kind]], device=self._device)
        return looked_up(self._model, self._batch, filler, decoder=decoder)[0]

    def at(self, points: Iterable[Embedded], of: Of | None = None) -> Tensor:
        """Return the scalar at each (input's number, vectors), in the order given."""
        values = [value for _, value, _ in self._run(points, of, slope=False)]
        return torch.cat([self._logits.new_empty(0), *values])

    def slopes(self, points: Iterable[Embedded], of: Of | None = None) -> Iterator[Tensor]:
        """Yield the scalar's slope at each (input's number, vectors), (tokens, features), in the order given.

        Points are taken, and slopes given, a batch at a time: no more of them need be in memory at once.
        """
        for chunk, _, slopes in self._run(points, of, slope=True):
            for (owner, _), slope in zip(chunk, slopes, strict=True):
                self.backwards[owner] += 1
                yield slope

    def _run(
        self, points: Iterable[Embedded], of: Of | None, *, slope: bool
    ) -> Iterator[tuple[Sequence[Embedded], Tensor, list[Tensor]]]:
        kind = "slopes" if slope else "points"
        work = Fitting(self._model, kind, self._chunks(points), _cells)
        for chunk in work:
            with work.trying(chunk):
                values, slopes = at_embeddings(
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

    def _chunks(self, points: Iterable[Embedded]) -> Iterator[list[Embedded]]:
        """Cut into batches as they come: the inputs of one batch are of one kind and may share another."""
        chunk: list[Embedded] = []
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

    def _logits_of(self, variants: list[tuple[int, Encoded]]) -> Tensor:
        """Ask about a few thousand variants, and count the different ones of each input."""
        different = {(owner, key(item)) for owner, item in variants}
        for owner, _ in different:
            self.forwards[owner] += 1
        before = self._answers.forwards
        found = self._answers([item for _, item in variants], self._progress)
        self._progress(len(different) - (self._answers.forwards - before))  # known already
        if not self._keep:
            self._answers.forget()
        return found


def _cells(points: Sequence[Embedded]) -> int:
    return len(points) * max(len(vectors) for _, vectors in points)


def _averaged(values: Tensor, how: Removal) -> Tensor:
    """Return the mean over the variants of each hole."""
    each = DRAWS if how == "draw" else 1
    return values.reshape(len(values) // each, each, *values.shape[1:]).mean(1)


"""Asking the model again, counted and in batches."""


"""What the model says about variants of inputs: in batches of like length, and each distinct variant once."""

from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from whence.capture.asking.infill import Infill
from whence.capture.forward import bare
from whence.capture.memory.fitting import fitting_batches
from whence.data import Encoded, Policy, collate
from whence.models import Infiller

Key = tuple[Hashable, ...]


class Answers:
    """The logits of every variant that was ever asked about, whoever asked: a method, a metric, a random ranking.

    It belongs to one model as it is; while the model is altered, another one is needed.
    """

    def __init__(
        self,
        model: Any,
        *,
        pad_id: int | None,
        device: torch.device,
        policy: Policy,
        infiller: Infiller | None = None,
    ) -> None:
        # What the language model drew is kept here too: whoever asks about the same hole gets the same fillings.
        self.infill = (
            None if infiller is None else Infill(infiller, device=device, size=policy.size)
        )
        self._runs = 0
        self._model = model
        self._pad_id = pad_id
        self._device = device
        self._policy = policy
        self._known: dict[Key, Tensor] = {}

    def __call__(
        self, variants: Sequence[Encoded], progress: Callable[[int], None] = lambda _: None
    ) -> Tensor:
        """Return the logits of each variant, (variants, labels), in the order given."""
        keys = [key(item) for item in variants]
        new = {k: item for k, item in zip(keys, variants, strict=True) if k not in self._known}
        if new:
            self._ask(list(new), list(new.values()), progress)
        return torch.stack([self._known[k] for k in keys]).to(self._device)

    def _ask(
        self, names: Sequence[Key], items: Sequence[Encoded], progress: Callable[[int], None]
    ) -> None:
        # One door for all batches: making a model ready and putting it back takes as long as a small batch.
        with bare(self._model) as logits_of:
            work = fitting_batches(self._model, "answers", items, self._policy)
            for chosen in work:
                with work.trying(chosen):
                    some = [items[i] for i in chosen]
                    batch = collate(some, pad_id=self._pad_id, device=self._device)
                    # Rows by the thousand are cheaper to keep, and to put together again, on the CPU.
                    for i, row in zip(chosen, logits_of(batch).cpu(), strict=True):
                        self._known[names[i]] = row
                    self._runs += len(chosen)
                    progress(len(chosen))

    @property
    def forwards(self) -> int:
        """How often the model, and the language model beside it, was really run, counted by inputs."""
        return self._runs + (self.infill.forwards if self.infill else 0)

    def forget(self) -> None:
        """Drop what is known; the count stays."""
        self._known.clear()
        if self.infill:
            self.infill.forget()


def key(item: Encoded) -> Key:
    """Return what two variants share exactly if they are the same to the model."""
    parts: list[Hashable] = [item.reading]
    for name in sorted(item.features):
        values = item.features[name]
        plain = not values or isinstance(values[0], int)
        parts += [name, array("q", values).tobytes() if plain else values]
    if item.answer:
        parts.append(item.answer)
    if item.picture is not None:
        seen = item.picture
        parts += [seen.digest, seen.hidden, seen.blot, seen.fill]
    return tuple(parts)


"""What an input is held against: every embedding replaced by one that says as little as possible."""

from collections.abc import Mapping
from typing import Literal

from whence.core.errors import BadParameter
from whence.data.vision.picture import FILLS

Baseline = Literal["pad", "mask", "zero", "mean", "black", "blur"]


def resolve_baseline(baseline: Baseline | None, fillers: Mapping[str, int]) -> Baseline:
    """Return the baseline: the one asked for, if this model has it; else padding, or zero without a padding token.

    Of a picture, nothing is black.
    """
    if any(fill in fillers for fill in FILLS):
        return _of_pictures(baseline)
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


def _of_pictures(baseline: Baseline | None) -> Baseline:
    if baseline in ("pad", "mask"):
        raise BadParameter(
            f"baseline={baseline!r} is a token, and this is a picture. Possible here: {', '.join(FILLS)}."
        )
    return "black" if baseline in (None, "zero") else baseline


"""Counting how often a model is really run, whoever runs it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from whence.capture.fidelity import is_checking


@dataclass
class Runs:
    """Forward passes so far; a batch of eight inputs counts as eight."""

    forward: int = 0


@contextmanager
def counted(model: torch.nn.Module) -> Iterator[Runs]:
    """Count the forward passes that this thread makes for as long as the block lasts."""
    runs, owner = Runs(), get_ident()

    def count(module: torch.nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if get_ident() != owner or is_checking():
            return
        given = (value for value in (*args, *named.values()) if isinstance(value, Tensor))
        runs.forward += next((len(value) for value in given), 1)

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield runs
    finally:
        hook.remove()
