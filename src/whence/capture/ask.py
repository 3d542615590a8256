"""Asking the model again: counted, batched by length, each different input once."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from whence.capture.target import Targets
from whence.capture.trace import bare_logits
from whence.core.types import Of
from whence.data import Batch, Encoded, Policy, batches, collate

# How many variants are held at a time: enough to sort by length, few enough for a long text.
_AT_A_TIME = 2048


class Ask:
    """The model as a function from variants of a batch's inputs to the explained scalar."""

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
        self._model = model
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
        """Return the scalar of each (input's number, variant of it), in the order given."""
        variants = iter(variants)
        answers = [self._logits.new_empty(0)]
        while chunk := list(islice(variants, _AT_A_TIME)):
            answers.append(self._answer(chunk, of))
        return torch.cat(answers)

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
