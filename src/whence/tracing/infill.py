"""Filling holes in a text with what a masked language model finds plausible there."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.capture.forward import run_alone
from whence.capture.found import as_found
from whence.capture.memory.fitting import fitting_batches
from whence.capture.target import finite
from whence.core.errors import NoHead, TooLong
from whence.core.seed import generator
from whence.data import Batch, Encoded, Policy, collate
from whence.data.removal import DRAWS, questioned, without
from whence.models import Infiller

# Cells (inputs x longest) of a batch: each has a logit for every word of the vocabulary.
_CELLS = 1024

Hole = tuple[Encoded, Collection[int]]  # an input, and the places of the tokens that go


class Infill:
    """Fills holes, each in the same few ways whenever it is asked about, and in batches."""

    def __init__(self, infiller: Infiller, *, device: torch.device, size: int) -> None:
        self.forwards = 0  # how often the language model was really run, counted by inputs
        self._loaded = infiller.loaded
        self._mask = {"draw": infiller.mask_id}
        self._words = torch.tensor(infiller.words, device=device)
        self._device = device
        # No padding: then nothing need be known about what it does to the language model.
        self._policy = Policy(size, _CELLS, mixed=False)
        self._known: dict[Any, tuple[Encoded, ...]] = {}

    def __call__(
        self, holes: Sequence[Hole], progress: Callable[[int], None] = lambda _: None
    ) -> list[tuple[Encoded, ...]]:
        """Return each input with its hole filled, in `DRAWS` ways.

        All tokens of a hole are masked together, and each is drawn from what the language model then expects in its
        place. A hole that is empty is not asked about.
        """
        wanted = {
            _key(item, hole): (item, sorted(set(hole) - questioned(item, self._mask)))
            for item, hole in holes
        }
        for name, (item, places) in wanted.items():
            if not places:
                self._known[name] = (item,) * DRAWS
        new = [name for name in wanted if name not in self._known]
        masked = [self._masked(*wanted[name]) for name in new]
        work = fitting_batches(self._loaded.model, "infill", masked, self._policy)
        for chosen in work:
            with work.trying(chosen):
                pad_id = self._loaded.pad_id
                batch = collate([masked[i] for i in chosen], pad_id=pad_id, device=self._device)
                for i, logits in zip(chosen, self._logits(batch), strict=True):
                    item, places = wanted[new[i]]
                    self._known[new[i]] = self._filled(item, places, logits[places])
                self.forwards += len(chosen)
                progress(len(chosen))
        return [self._known[_key(item, hole)] for item, hole in holes]

    def forget(self) -> None:
        """Drop what is known; the count stays."""
        self._known.clear()

    def _masked(self, item: Encoded, places: Sequence[int]) -> Encoded:
        loaded = self._loaded
        if loaded.max_length is not None and len(item) > loaded.max_length:
            raise TooLong(
                f"The input has {len(item)} tokens, and the language model {loaded.name!r} takes at most "
                f"{loaded.max_length}. Shorten it, or remove tokens in another way than 'draw'."
            )
        found = without(item, places, "draw", self._mask)
        accepts = found.features if loaded.accepts is None else loaded.accepts
        features = {name: one for name, one in found.features.items() if name in accepts}
        return Encoded(features, (), (), item.source)

    def _logits(self, batch: Batch) -> Tensor:
        """Run the language model, (batch, tokens, vocabulary)."""
        model = self._loaded.model
        with as_found(model), torch.inference_mode():
            made = run_alone(model, batch)
            logits: Any = getattr(made, "logits", None)
        words = int(self._words.max()) + 1
        shape = logits.shape if isinstance(logits, Tensor) else ()
        if len(shape) != 3 or shape[:2] != batch.real.shape or shape[2] < words:
            raise NoHead(
                f"{self._loaded.name!r} ({type(model).__name__}) gives no logits of (inputs, tokens, vocabulary): it "
                "is no masked language model. Give a model ...ForMaskedLM as mlm."
            )
        return finite(logits, "logits of the language model")

    def _filled(self, item: Encoded, places: list[int], logits: Tensor) -> tuple[Encoded, ...]:
        """Draw by the inverse of the cumulative distribution: the number a place is given finds its word."""
        total = logits[:, self._words].softmax(-1, dtype=torch.float64).cumsum(-1)
        numbers = [generator("draw", n, item.key, places).random(len(places)) for n in range(DRAWS)]
        # Rounding may end the sum a little below or above one.
        heights = torch.from_numpy(np.stack(numbers, axis=1)).to(self._device) * total[:, -1:]
        found = torch.searchsorted(total, heights, right=True).clamp(max=len(self._words) - 1)
        return tuple(_put(item, places, words) for words in self._words[found].T.tolist())


def _put(item: Encoded, places: list[int], words: list[int]) -> Encoded:
    ids = list(item.ids)
    for place, word in zip(places, words, strict=True):
        ids[place] = word
    sources = len(item) - len(item.answer)
    features = {**item.features, "input_ids": tuple(ids[:sources])}
    return replace(item, features=features, tokens=(), words=(), answer=tuple(ids[sources:]))


def _key(item: Encoded, hole: Collection[int]) -> Any:
    return (tuple(sorted(item.features.items())), item.answer, item.reading, frozenset(hole))
