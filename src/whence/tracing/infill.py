"""Replacements for removed tokens, drawn from a masked language model, batched and cached (`InfillCache`)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import NoHead, TooLong
from whence.core.seed import build_generator
from whence.data.batches import Batch, BatchRules, collate
from whence.data.removal import DRAWS_PER_REMOVAL, find_queried_mask, remove_tokens
from whence.data.tokens import EncodedInput
from whence.models.model import InfillModel
from whence.tracing.forward import run_unobserved
from whence.tracing.out_of_memory import build_retry_batches
from whence.tracing.restore import restore_on_exit
from whence.tracing.target import check_finite

# Cells (inputs x longest) of a batch: each cell has a logit for every word of the vocabulary.
_MAX_CELLS = 1024

# an input, and the positions of its masked tokens
MaskedPositions = tuple[EncodedInput, Collection[int]]


class InfillCache:
    """Cache of replacements for masked positions, drawn in batches; equal requests get equal draws."""

    def __init__(self, infiller: InfillModel, *, device: torch.device, size: int) -> None:
        self.forwards = 0  # inputs that the language model was run on, without cache hits
        self._loaded = infiller.loaded
        self._mask = {"draw": infiller.mask_id}
        self._words = torch.tensor(infiller.words, device=device)
        self._device = device
        # Equal lengths only: the effect of padding on the language model is not known.
        self._policy = BatchRules(size, _MAX_CELLS, mixed=False)
        self._known: dict[Any, tuple[EncodedInput, ...]] = {}

    def __call__(
        self, requests: Sequence[MaskedPositions], progress: Callable[[int], None] = lambda _: None
    ) -> list[tuple[EncodedInput, ...]]:
        """Return each input with its masked positions replaced, in `DRAWS_PER_REMOVAL` draws.

        All positions of one request are masked together, and each token is drawn from the language
        model's distribution at its position. A request without positions needs no forward pass.
        """
        distinct = {
            _build_infill_key(item, positions): (
                item,
                sorted(set(positions) - find_queried_mask(item, self._mask)),
            )
            for item, positions in requests
        }
        for name, (item, places) in distinct.items():
            if not places:
                self._known[name] = (item,) * DRAWS_PER_REMOVAL
        new = [name for name in distinct if name not in self._known]
        masked = [self._mask_positions(*distinct[name]) for name in new]
        work = build_retry_batches(self._loaded.model, "infill", masked, self._policy)
        for numbers in work:
            with work.retry_halved(numbers):
                pad_id = self._loaded.pad_id
                batch = collate([masked[i] for i in numbers], pad_id=pad_id, device=self._device)
                for i, logits in zip(numbers, self._logits(batch), strict=True):
                    item, places = distinct[new[i]]
                    self._known[new[i]] = self._draw_replacements(item, places, logits[places])
                self.forwards += len(numbers)
                progress(len(numbers))
        return [self._known[_build_infill_key(item, positions)] for item, positions in requests]

    def forget(self) -> None:
        """Drop all cached replacements; the count of forward passes stays."""
        self._known.clear()

    def _mask_positions(self, item: EncodedInput, places: Sequence[int]) -> EncodedInput:
        loaded = self._loaded
        if loaded.max_length is not None and len(item) > loaded.max_length:
            raise TooLong(
                f"The input has {len(item)} tokens, and the language model {loaded.name!r} takes at most "
                f"{loaded.max_length}. Shorten it, or remove tokens in another way than 'draw'."
            )
        masked = remove_tokens(item, places, "draw", self._mask)
        accepts = masked.features if loaded.forward_keywords is None else loaded.forward_keywords
        features = {name: values for name, values in masked.features.items() if name in accepts}
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

    def _draw_replacements(
        self, item: EncodedInput, places: list[int], logits: Tensor
    ) -> tuple[EncodedInput, ...]:
        """Draw replacement tokens by inverting the cumulative distribution at each masked position."""
        total = logits[:, self._words].softmax(-1, dtype=torch.float64).cumsum(-1)
        numbers = [
            build_generator("draw", n, item.key, places).random(len(places))
            for n in range(DRAWS_PER_REMOVAL)
        ]
        # Rounding may end the cumulative sum slightly below or above 1.
        heights = torch.from_numpy(np.stack(numbers, axis=1)).to(self._device) * total[:, -1:]
        indices = torch.searchsorted(total, heights, right=True).clamp(max=len(self._words) - 1)
        return tuple(
            _replace_tokens(item, places, words) for words in self._words[indices].T.tolist()
        )


def _replace_tokens(item: EncodedInput, places: list[int], words: list[int]) -> EncodedInput:
    ids = list(item.ids)
    for place, word in zip(places, words, strict=True):
        ids[place] = word
    sources = len(item) - len(item.answer)
    features = {**item.features, "input_ids": tuple(ids[:sources])}
    return replace(item, features=features, tokens=(), words=(), answer=tuple(ids[sources:]))


def _build_infill_key(item: EncodedInput, positions: Collection[int]) -> Any:
    return (tuple(sorted(item.features.items())), item.answer, item.reading, frozenset(positions))
