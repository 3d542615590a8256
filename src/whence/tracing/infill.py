"""Replacements for removed tokens, drawn from a masked language model, batched and cached (`InfillCache`)."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import NoHead, TooLong
from whence.core.seed import build_generator
from whence.data.batches import Array, Batch, BatchRules, VariantKey, Variants, plan_rows
from whence.data.removal import DRAWS_PER_REMOVAL, find_queried_mask, remove_sets
from whence.data.tokens import EncodedInput
from whence.models.model import InfillModel
from whence.tracing.forward import run_unobserved
from whence.tracing.out_of_memory import RetryHalved
from whence.tracing.restore import restore_on_exit
from whence.tracing.target import check_finite

# Cells (inputs x longest) of a batch: each cell has a logit for every word of the vocabulary.
_MAX_CELLS = {"cpu": 1024}
_MAX_CELLS_ELSEWHERE = 16384


class InfillCache:
    """Cache of replacements for masked positions, drawn in batches; equal requests get equal draws."""

    def __init__(self, infiller: InfillModel, *, device: torch.device, size: int) -> None:
        self.forwards = 0  # inputs that the language model was run on, without cache hits
        self._loaded = infiller.loaded
        self._mask = {"draw": infiller.mask_id}
        self._words = torch.tensor(infiller.words, device=device)
        self._device = device
        # Equal lengths only: the effect of padding on the language model is not known.
        cells = _MAX_CELLS.get(device.type, _MAX_CELLS_ELSEWHERE)
        self._policy = BatchRules(size, cells, mixed=False)
        # Of each input and its masked positions the ids that are drawn, (draws, positions).
        self._known: dict[tuple[VariantKey, tuple[int, ...]], Array] = {}

    def __call__(
        self,
        items: Sequence[EncodedInput],
        owners: Sequence[int],
        sets: Sequence[Collection[int]],
        progress: Callable[[int], None] = lambda _: None,
    ) -> tuple[Variants, Counter[int]]:
        """Return each owner (an item's number) with a set of its tokens replaced, in `DRAWS_PER_REMOVAL` draws.

        All positions of one set are masked together, and each token is drawn from the language model's
        distribution at its position. Also returned is how many passes each item needs, cache hits included; a set
        without positions needs none.
        """
        queried = [find_queried_mask(item, self._mask) for item in items]
        places = [sorted({*own} - queried[row]) for row, own in zip(owners, sets, strict=True)]
        keys = Variants.of(items).build_keys()
        names = [(keys[row], tuple(own)) for row, own in zip(owners, places, strict=True)]
        new = {name: row for row, name in enumerate(names) if name[1] and name not in self._known}
        if new:
            self._draw(items, list(owners), places, new, progress)
        drawn = Variants.of(items, [row for row in owners for _ in range(DRAWS_PER_REMOVAL)])
        ids = drawn.changed.reshape(len(names), DRAWS_PER_REMOVAL, -1)
        for rows, name in zip(ids, names, strict=True):
            if name[1]:
                rows[:, list(name[1])] = self._known[name]
        asked = {(row, frozenset(own)) for row, own in zip(owners, sets, strict=True) if len(own)}
        progress(len(asked) - len(new))  # cache hits
        return drawn, Counter(row for row, _ in asked)

    def _draw(
        self,
        items: Sequence[EncodedInput],
        owners: list[int],
        places: list[list[int]],
        new: Mapping[tuple[VariantKey, tuple[int, ...]], int],
        progress: Callable[[int], None],
    ) -> None:
        names, rows = [*new], [*new.values()]
        chosen = [owners[row] for row in rows]
        masked = remove_sets(items, chosen, [places[row] for row in rows], "draw", self._mask)
        bare = [self._prepare(item) for item in items]
        lengths = [len(bare[row]) for row in chosen]
        masked = replace(masked, items=bare, lengths=np.array(lengths))
        plan = plan_rows(masked.list_kinds(self._policy), lengths, self._policy)
        model = self._loaded.model
        work = RetryHalved(model, "infill", plan, lambda part: len(part) * lengths[part[0]])
        for numbers in work:
            with work.retry_halved(numbers):
                batch = masked.collate(numbers, pad_id=self._loaded.pad_id, device=self._device)
                for number, logits in zip(numbers, self._logits(batch), strict=True):
                    own, item = places[rows[number]], items[chosen[number]]
                    self._known[names[number]] = self._draw_words(item, own, logits[own])
                self.forwards += len(numbers)
                progress(len(numbers))

    def forget(self) -> None:
        """Drop all cached replacements; the count of forward passes stays."""
        self._known.clear()

    def _prepare(self, item: EncodedInput) -> EncodedInput:
        """Return an input as the language model takes it."""
        loaded = self._loaded
        if loaded.max_length is not None and len(item) > loaded.max_length:
            raise TooLong(
                f"The input has {len(item)} tokens, and the language model {loaded.name!r} takes at most "
                f"{loaded.max_length}. Shorten it, or remove tokens in another way than 'draw'."
            )
        accepts = item.features if loaded.forward_keywords is None else loaded.forward_keywords
        features = {name: values for name, values in item.features.items() if name in accepts}
        return EncodedInput(features, (), (), item.source)

    def _logits(self, batch: Batch) -> Tensor:
        """Return the logits of the language model, (batch, tokens, vocabulary)."""
        model = self._loaded.model
        with restore_on_exit(model), torch.inference_mode():
            output = run_unobserved(model, batch)
            logits: Any = getattr(output, "logits", None)
        words = int(self._words.max()) + 1
        shape = logits.shape if isinstance(logits, Tensor) else ()
        if len(shape) != 3 or shape[:2] != batch.real.shape or shape[2] < words:
            raise NoHead(
                f"{self._loaded.name!r} ({type(model).__name__}) gives no logits of (inputs, tokens, vocabulary): it "
                "is no masked language model. Give a model ...ForMaskedLM as mlm."
            )
        return check_finite(logits, "logits of the language model")

    def _draw_words(self, item: EncodedInput, places: list[int], logits: Tensor) -> Array:
        """Draw ids for masked positions, (draws, positions), by inverting their cumulative distributions."""
        total = logits[:, self._words].softmax(-1, dtype=torch.float64).cumsum(-1)
        numbers = [
            build_generator("draw", n, item.key, places).random(len(places))
            for n in range(DRAWS_PER_REMOVAL)
        ]
        # Rounding may end the cumulative sum slightly below or above 1.
        heights = torch.from_numpy(np.stack(numbers, axis=1)).to(self._device) * total[:, -1:]
        indices = torch.searchsorted(total, heights, right=True).clamp(max=len(self._words) - 1)
        words: Array = self._words[indices].T.cpu().numpy()
        return words
