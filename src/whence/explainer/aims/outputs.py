"""What a model gives for every token, before anybody has chosen what to read of it."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from whence.capture.forward import forward, run
from whence.capture.found import as_found
from whence.capture.target import finite
from whence.core.errors import NoHead
from whence.data import Batch, Encoded, Policy, batches, collate
from whence.models import Loaded

_INPUTS, _CELLS = 64, 1024  # of one batch: a vocabulary is wide


def outputs(loaded: Loaded, items: Sequence[Encoded], *names: str) -> list[tuple[Tensor, ...]]:
    """Run the model forward once on each input; return what it gives under these names, each (tokens, ...).

    In float64, on the CPU.
    """
    found: list[tuple[Tensor, ...]] = [()] * len(items)
    for chosen, batch in _batches(loaded, items):
        given = forward(loaded.model, batch)
        parts = [_part(given, name, loaded) for name in names]
        for row, i in enumerate(chosen):
            found[i] = tuple(part[row, : len(items[i])] for part in parts)
    return found


def logits(loaded: Loaded, items: Sequence[Encoded]) -> list[Tensor]:
    """Run the model forward once on each input; return its logits, as read, (labels,), in float64 on the CPU."""
    found = [torch.empty(0)] * len(items)
    for chosen, batch in _batches(loaded, items):
        for i, row in zip(chosen, run(loaded.model, batch).double().cpu(), strict=True):
            found[i] = row
    return found


def _batches(loaded: Loaded, items: Sequence[Encoded]) -> Iterator[tuple[list[int], Batch]]:
    """Yield batches to be run forward, and whose they are.

    Only inputs of equal length share one: so padding, which is not neutral to every model, need not be tried first.
    A model without a padding token takes one at a time.
    """
    alone = loaded.model.config.pad_token_id is None
    policy = Policy(1 if alone else _INPUTS, _CELLS, False, loaded.anchors)
    with as_found(loaded.model), torch.inference_mode():
        for chosen in batches(items, policy):
            some = [items[i] for i in chosen]
            yield chosen, collate(some, pad_id=loaded.pad_id, device=loaded.device)


def _part(given: object, name: str, loaded: Loaded) -> Tensor:
    part = getattr(given, name, None)
    if not isinstance(part, Tensor) or part.dim() < 2:
        raise NoHead(
            f"{type(loaded.model).__name__} gives no {name.replace('_', ' ')}, as a model of its name should. "
            "Load a model of transformers' own, or one that gives the same."
        )
    return finite(part, name.replace("_", " ")).double().cpu()
