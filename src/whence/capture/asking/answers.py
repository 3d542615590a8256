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
