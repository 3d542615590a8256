"""Examples whose attention can be replaced, several at a time, each at a site of its own and in several copies."""

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.audit.site import Site
from whence.capture import probabilities
from whence.capture.changed.replay import Replay, Swap
from whence.core.errors import NotCapturable
from whence.core.types import Task
from whence.data import Batch


class Replayed:
    """A batch of (example, site), and the model's answers when their attention is another."""

    def __init__(
        self,
        replay: Replay,
        batch: Batch,
        *,
        numbers: Sequence[int],
        sites: Sequence[Site],
        copies: int,
        movable: Tensor,
        task: Task,
    ) -> None:
        """`replay` holds each row `copies` times, one after the other; `movable` is (rows, tokens)."""
        self.numbers = list(numbers)
        self.sites = list(sites)
        self.batch = batch
        self.copies = copies
        self._task = task
        self._replay = replay
        self._layers = sorted({layer for site in sites for layer in site.layers})
        first = torch.arange(0, len(numbers) * copies, copies, device=movable.device)
        self.base = self._answers(replay.logits[first])  # (rows, labels)
        self.shares = replay.rows.shares[first]  # (rows, reads)
        own = torch.stack([self._own(site, int(at)) for site, at in zip(sites, first, strict=True)])
        # In half precision two ways to the same distribution would not meet.
        self.own = own.to(_wide(own))  # (rows, channels, reads, tokens)
        reach = [self._reach(site, int(at)) for site, at in zip(sites, first, strict=True)]
        self.movable = _several(movable & torch.stack(reach))  # (rows, tokens)

    def __len__(self) -> int:
        return len(self.numbers)

    def __call__(self, weights: Tensor) -> Tensor:
        """Return the probabilities, (rows, copies, labels), with other attention.

        `weights` is (rows, copies, channels, reads, tokens): each copy of a row has its own.
        """
        flat = weights.flatten(0, 1)  # (rows x copies, channels, reads, tokens)
        swaps = {layer: self._swap(layer, flat) for layer in self._layers}
        found = self._answers(self._replay(swaps))
        return found.reshape(len(self), self.copies, found.shape[1])

    def _answers(self, logits: Tensor) -> Tensor:
        return probabilities(logits.to(_wide(logits)), self._task)

    def _reach(self, site: Site, at: int) -> Tensor:
        """Say which places all rows that are read may attend to, in all layers of a site, (tokens,)."""
        read = self._replay.rows.are_read[at]
        return torch.stack([self._replay.reach[one][at][read].all(0) for one in site.layers]).all(0)

    def _own(self, site: Site, at: int) -> Tensor:
        every = torch.cat([self._replay.own[layer][at] for layer in site.layers])
        return every if site.head is None else every[site.head, None]

    def _swap(self, layer: int, weights: Tensor) -> Swap:
        """Put the weights of one layer together, for the rows that have it among their layers."""
        own = self._replay.own[layer]
        heads = own.shape[1]
        rows = [row for row, site in enumerate(self.sites) if layer in site.layers]
        inputs = torch.tensor(
            [row * self.copies + copy for row in rows for copy in range(self.copies)],
            device=weights.device,
        )
        given = weights if len(inputs) == len(weights) else weights[inputs]
        if self.sites[0].head is None:
            start = self.sites[rows[0]].layers.index(layer) * heads
            return Swap(inputs, given[:, start : start + heads].to(own.dtype))
        chosen = torch.tensor([self.sites[row].head for row in rows], device=weights.device)
        is_it = torch.nn.functional.one_hot(chosen, heads).bool().repeat_interleave(self.copies, 0)
        full = torch.where(is_it[:, :, None, None], given.to(own.dtype), own[inputs])
        return Swap(inputs, full)


def _wide(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def _several(movable: Tensor) -> Tensor:
    """Return the places again if every row has several: one weight cannot be exchanged with itself."""
    if (movable.sum(1) > 1).all():
        return movable
    raise NotCapturable(
        "The rows that the prediction reads attend through windows that have no two tokens of a text in common, so "
        "their weights cannot be exchanged alike. Choose one layer that sees everything: site=..., --site LAYER."
    )
