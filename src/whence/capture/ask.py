"""Asking the model again: about other inputs or at other embeddings, counted and in batches."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from whence.capture.baseline import Baseline
from whence.capture.forward import bare_logits
from whence.capture.slopes import Embedded, at_embeddings, looked_up, mean_embedding
from whence.capture.target import Targets
from whence.core.types import Of
from whence.data import Batch, Encoded, Policy, batches, collate
from whence.data.removal import Removal, without

# How many variants are held at a time: enough to sort by length, few enough for a long text.
_AT_A_TIME = 2048


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
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.fillers = fillers
        self.anchors = anchors  # ids that cannot be removed: the model is undefined without them
        self.forwards = [0] * len(batch)  # how often the model was asked, per input
        self.backwards = [0] * len(batch)
        self._model = model
        self._batch = batch
        self._logits = logits
        self._targets = targets
        self._device = batch.real.device
        self._pad_id = pad_id
        self._policy = policy
        self._progress = progress

    def base(self, of: Of | None = None) -> Tensor:
        """Return the explained scalar of the inputs as they are, (batch,): known already, no call."""
        return self._targets.value(self._logits, of)

    def __call__(self, variants: Iterable[tuple[int, Encoded]], of: Of | None = None) -> Tensor:
        """Return the scalar of each (input's number, variant of it), in the order given.

        Variants that are the same, among a few thousand that follow each other, are asked about once.
        """
        variants = iter(variants)
        answers = [self._logits.new_empty(0)]
        while chunk := list(islice(variants, _AT_A_TIME)):
            answers.append(self._answer(chunk, of))
        return torch.cat(answers)

    def without(self, holes: Sequence[Sequence[Collection[int]]], how: Removal) -> list[Tensor]:
        """Return, for each input, the target's probability with the tokens in each of its holes removed."""
        variants = (
            (row, without(item, hole, how, self.fillers))
            for row, (item, own) in enumerate(zip(self._batch.items, holes, strict=True))
            for hole in own
        )
        return list(torch.split(self(variants, of="probability"), [len(own) for own in holes]))

    @cached_property
    def embeddings(self) -> list[Tensor]:
        """The embeddings of each input, (tokens, features), in float32 at least: no call."""
        found = looked_up(self._model, self._batch, self._batch.inputs["input_ids"])
        return [found[row, : len(item)] for row, item in enumerate(self._batch.items)]

    def baselines(self, kind: Baseline, *, keep_special: bool = False) -> list[Tensor]:
        """Return what to hold each input's embeddings against, of the same shapes."""
        vector = torch.zeros_like(self.embeddings[0][0])
        if kind == "mean":
            vector = mean_embedding(self._model, self._batch)
        elif kind != "zero":
            filler = torch.tensor([self.fillers[kind]], device=self._device)
            vector = looked_up(self._model, self._batch, filler)[0]
        result = []
        for item, own in zip(self._batch.items, self.embeddings, strict=True):
            special = [token.special and keep_special for token in item.tokens]
            kept = torch.tensor(special, device=self._device)[:, None]
            result.append(torch.where(kept, own, vector))
        return result

    def at(self, points: Iterable[Embedded], of: Of | None = None) -> Tensor:
        """Return the scalar at each (input's number, vectors), in the order given."""
        values = [value for _, value, _ in self._run(points, of, slope=False)]
        return torch.cat([self._logits.new_empty(0), *values])

    def slopes(self, points: Iterable[Embedded], of: Of | None = None) -> Iterator[Tensor]:
        """Yield the scalar's slope at each (input's number, vectors), (tokens, features), in the order given.

        Points are taken, and slopes given, a batch at a time: no more of them need be in memory at once.
        """
        for chunk, _, slopes in self._run(points, of, slope=True):
            for (owner, vectors), slope in zip(chunk, slopes, strict=True):
                self.backwards[owner] += 1
                yield slope[: len(vectors)]

    def _run(
        self, points: Iterable[Embedded], of: Of | None, *, slope: bool
    ) -> Iterator[tuple[list[Embedded], Tensor, Tensor]]:
        for chunk in self._chunks(points):
            values, slopes = at_embeddings(
                self._model,
                self._batch.items,
                chunk,
                self._targets,
                pad_id=self._pad_id,
                of=of,
                slope=slope,
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

    def _answer(self, variants: list[tuple[int, Encoded]], of: Of | None) -> Tensor:
        keys = [(owner, tuple(sorted(item.features.items()))) for owner, item in variants]
        places = {key: place for place, key in reversed(list(enumerate(keys)))}
        distinct = [variants[place] for place in sorted(places.values())]
        result = torch.empty(len(distinct), dtype=self._logits.dtype, device=self._device)
        items = [item for _, item in distinct]
        for chosen in batches(items, self._policy):
            batch = collate([items[i] for i in chosen], pad_id=self._pad_id, device=self._device)
            owners = torch.tensor([distinct[i][0] for i in chosen], device=self._device)
            values = self._targets.at(owners).value(bare_logits(self._model, batch), of)
            result[torch.tensor(chosen, device=self._device)] = values
            for i in chosen:
                self.forwards[distinct[i][0]] += 1
            self._progress(len(chosen))
        order = {keys_place: i for i, keys_place in enumerate(sorted(places.values()))}
        return result[[order[places[key]] for key in keys]]
