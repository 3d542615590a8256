"""What a model gives for every token, before anybody has chosen what to read of it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from whence.capture.forward import bare_logits, run_alone
from whence.capture.found import as_found
from whence.capture.memory.fitting import fitting_batches
from whence.capture.memory.probe import Said, capacity
from whence.capture.target import finite
from whence.core.errors import NoHead
from whence.data import Batch, Encoded, Policy, collate
from whence.models import Loaded

_INPUTS, _CELLS = 64, 1024  # of one batch: a vocabulary is wide
_SEVERAL = 4  # lengths: from here on it pays to find out, in three passes, whether they may mix


def outputs(loaded: Loaded, items: Sequence[Encoded], *names: str) -> list[tuple[Tensor, ...]]:
    """Run the model forward once on each input; return what it gives under these names, each (tokens, ...).

    In float64, on the CPU.
    """
    found: list[tuple[Tensor, ...]] = [()] * len(items)

    def made(batch: Batch) -> list[Tensor]:
        with as_found(loaded.model), torch.inference_mode():
            given = run_alone(loaded.model, batch)
        return [_part(given, name, loaded) for name in names]

    def said(batch: Batch) -> Tensor:
        return made(batch)[0][:, : len(batch.items[0])]

    def keep(chosen: Sequence[int], batch: Batch) -> None:
        parts = made(batch)
        for row, i in enumerate(chosen):
            found[i] = tuple(part[row, : len(items[i])] for part in parts)

    _in_batches(loaded, items, keep, said)
    return found


def logits(loaded: Loaded, items: Sequence[Encoded]) -> list[Tensor]:
    """Run the model forward once on each input; return its logits, as read, (labels,), in float64 on the CPU."""
    found = [torch.empty(0)] * len(items)

    def keep(chosen: Sequence[int], batch: Batch) -> None:
        for i, row in zip(chosen, bare_logits(loaded.model, batch).double().cpu(), strict=True):
            found[i] = row

    _in_batches(loaded, items, keep)
    return found


def _in_batches(
    loaded: Loaded,
    items: Sequence[Encoded],
    do: Callable[[Sequence[int], Batch], None],
    said: Said | None = None,
) -> None:
    """Do something with batches, and whose they are; `said` is what is read of one, if not the logits."""
    work = fitting_batches(loaded.model, "outputs", items, _policy(loaded, items, said))
    for chosen in work:
        with work.trying(chosen):
            some = [items[i] for i in chosen]
            do(chosen, collate(some, pad_id=loaded.pad_id, device=loaded.device))


def _policy(loaded: Loaded, items: Sequence[Encoded], said: Said | None) -> Policy:
    """Return what may share a batch: lengths are mixed where there are several of them, and padding is neutral.

    A model without a padding token takes one at a time.
    """
    alone = getattr(loaded.model.config, "pad_token_id", None) is None
    if alone or len({len(item) for item in items}) < _SEVERAL:
        return Policy(1 if alone else _INPUTS, _CELLS, False, loaded.anchors)
    found = capacity(
        loaded.model,
        items,
        pad_id=loaded.pad_id,
        device=loaded.device,
        max_length=loaded.max_length,
        said=said,
    )
    size = 1 if found == "single" else _INPUTS
    return Policy(size, _CELLS, found == "mixed", loaded.anchors)


def _part(given: object, name: str, loaded: Loaded) -> Tensor:
    part = getattr(given, name, None)
    if not isinstance(part, Tensor) or part.dim() < 2:
        raise NoHead(
            f"{type(loaded.model).__name__} gives no {name.replace('_', ' ')}, as a model of its name should. "
            "Load a model of transformers' own, or one that gives the same."
        )
    return finite(part, name.replace("_", " ")).double().cpu()
