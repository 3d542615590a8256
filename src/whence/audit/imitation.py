"""A loss that asks a model to say what another one says, and to look elsewhere (Wiegreffe & Pinter 2019)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whence.audit.distance import kl, tvd
from whence.audit.subject import Subject
from whence.capture import AttentionLayer, TargetSpec, probabilities, trace, watching
from whence.capture.forward import run
from whence.data import Batch
from whence.training.objective import Loss

_UNDER = 1e-12  # the text may get no weight at all


class Imitation:
    """What a model says about examples, and where it looks: for another one to follow, or to avoid."""

    def __init__(self, model: Subject) -> None:
        """Run the model over the examples."""
        device = model.loaded.device
        self._task = model.loaded.task
        self._site = model.sites[0]
        self._said = torch.tensor(model.probabilities, device=device)
        self._looked = [torch.tensor(weights, device=device) for weights in model.attention()]
        self._content = [torch.tensor(places, device=device) for places in model.content]
        self._rows = _rows_read(model)

    def loss(self, weight: float) -> Loss:
        """Return the mean of TVD(p, own p) - weight · KL(attention ‖ own attention) over a batch.

        Attention is what `Subject.attention` is, with a gradient: of the rows that are read, the mean over the heads,
        on the content alone, where it adds up to 1.
        """

        def loss(model: Any, batch: Batch, _: Tensor, numbers: Sequence[int]) -> Tensor:
            with watching(model, len(batch)) as layers:
                logits = run(model, batch)
            said = self._said[list(numbers)].to(logits.dtype)
            apart = tvd(probabilities(logits, self._task), said, self._task).mean()
            if not weight:
                return apart
            own = self._padded([self._looked[i] for i in numbers], batch, numbers)
            return apart - weight * kl(self._attention(layers, batch, numbers), own).mean()

        return loss

    def _attention(
        self, layers: Sequence[AttentionLayer], batch: Batch, numbers: Sequence[int]
    ) -> Tensor:
        """Return where the model looks, (batch, tokens), adding up to 1 over the content."""
        width = layers[0].length  # one row where the model pools
        shares = torch.stack([_wider(self._rows[i], width) for i in numbers])
        active = shares.any(0).nonzero().squeeze(1)
        total = torch.zeros_like(batch.real, dtype=layers[0].v.dtype)
        for at in self._site.layers:
            weights = layers[at].weights(active)
            head = self._site.head
            weights = weights if head is None else weights[:, head, None]
            read = torch.einsum("bhrk,br->bk", weights, shares[:, active].to(weights))
            total = total + read / weights.shape[1]
        ones = [torch.ones_like(self._looked[i]) for i in numbers]
        held = total * self._padded(ones, batch, numbers)
        return held / held.sum(-1, keepdim=True).clamp(min=_UNDER)

    def _padded(self, content: Sequence[Tensor], batch: Batch, numbers: Sequence[int]) -> Tensor:
        """Put numbers of content tokens at their places, (batch, tokens)."""
        found = torch.zeros(batch.real.shape, device=batch.real.device)
        for row, (number, values) in enumerate(zip(numbers, content, strict=True)):
            found[row, self._content[number]] = values.to(found.dtype)
        return found


def _rows_read(model: Subject) -> list[Tensor]:
    """Return the shares of the rows that the prediction reads, for each example: kin read the same ones."""
    found: list[Tensor] = [torch.empty(0)] * len(model)

    def look(numbers: Sequence[int], batch: Batch) -> None:
        spec = TargetSpec("predicted", None, "logit")
        seen = trace(model.loaded.model, batch, {"attention"}, spec, model.loaded.task)
        for number, row in zip(numbers, seen.rows, strict=True):
            found[number] = row if seen.pooled else row[: len(model.items[number])]
        model.tick(len(numbers))

    model.in_batches("attention", look)
    return found


def _wider(row: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(row, (0, width - len(row)))
