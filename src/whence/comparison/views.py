"""A model looked into on several inputs at once: their attention, what the edges weigh, and what is predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.capture import TargetSpec, Trace, trace
from whence.capture.target import predictions
from whence.core.types import Prediction
from whence.data import Encoded, Policy, collate
from whence.flow import NEEDS, Name, Weights, attention_weights, weights
from whence.models import Loaded

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

_INPUTS, _CELLS = (
    64,
    1024,
)  # of one batch: at most, and times the longest; more would not be quicker on a CPU
# Padding that is seen changes weights by much more, rounding by much less.
_SAME = 1e-4


@dataclass(frozen=True, eq=False)
class View:
    """One input in one model."""

    maps: Floats  # (layers, heads, tokens, tokens)
    weights: Weights
    rows: Floats  # (tokens,): weights of the rows that the decision reads
    prediction: Prediction | None
    has_head: bool

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of layers and heads."""
        return self.maps.shape[0], self.maps.shape[1]


def views(loaded: Loaded, items: Sequence[Encoded], weight: Name) -> list[View]:
    """Run the model once on all inputs together."""
    seen = _traced(loaded, items, {"attention", *NEEDS[weight]})
    has_head = loaded.classifies
    said = predictions(seen.logits, loaded.task, loaded.labels) if has_head else []
    heads = [layer.heads for layer in seen.layers]
    found = []
    for row, (item, maps) in enumerate(zip(items, _maps(seen, items), strict=True)):
        rows = seen.rows[row, : len(item)].double().cpu().numpy()
        alone = weight == "attention"
        own = attention_weights(maps, heads=heads) if alone else weights(seen, weight, row=row)
        found.append(View(maps, own, rows, said[row] if has_head else None, has_head))
    return found


def policy(models: Sequence[Loaded], inputs: Sequence[Sequence[Encoded]], weight: Name) -> Policy:
    """Say which inputs may share a batch in all models: found out by trying the shortest beside the longest.

    `inputs` are the same texts as each model takes them. Weights that follow every step of a model take it one input
    at a time.
    """
    anchors = frozenset().union(*(one.anchors for one in models))
    size, mixed = _INPUTS, True
    if weight != "attention" or len(inputs[0]) < 2:
        return Policy(1, _CELLS, False, anchors)
    for loaded, items in zip(models, inputs, strict=True):
        shortest, longest = min(items, key=len), max(items, key=len)
        try:
            mixed &= _bears(loaded, shortest, longest)
            size = size if mixed or _bears(loaded, shortest, shortest) else 1
        except (ValueError, RuntimeError, IndexError):
            size = 1
    return Policy(size, _CELLS, mixed, anchors)


def _bears(loaded: Loaded, item: Encoded, beside: Encoded) -> bool:
    """Say whether a neighbour in the batch leaves an input's attention, and what comes of it, as they are."""
    alone, together = (_traced(loaded, items, {"attention"}) for items in ([item], [item, beside]))
    size = len(item)
    # The last layer rests on all others.
    maps = (seen.layers[-1].map()[0, :, :size, :size] for seen in (alone, together))
    return _same(*maps) and _same(alone.logits[0], together.logits[0])


def _same(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= _SAME * max(1.0, float(one.abs().max()))


def _traced(loaded: Loaded, items: Sequence[Encoded], needs: set[str]) -> Trace:
    batch = collate(items, pad_id=loaded.pad_id, device=loaded.device)
    spec = TargetSpec("predicted", None, "logit")
    return trace(loaded.model, batch, needs, spec, loaded.task if loaded.classifies else "none")


def _maps(seen: Trace, items: Sequence[Encoded]) -> list[Floats]:
    """Return the attention of each input, (layers, heads, tokens, tokens).

    Heads that a layer lacks attend to nothing. A layer at a time: the maps of all layers and inputs are in memory
    once. numpy has no narrow floating point worth the name: they become float32 at least.
    """
    layers = seen.layers
    wide = torch.promote_types(seen.logits.dtype, torch.float32)
    depth, heads = len(layers), max(layer.heads for layer in layers)
    kind = np.float64 if wide == torch.float64 else np.float32
    stacks = [np.zeros((depth, heads, len(item), len(item)), dtype=kind) for item in items]
    for number, layer in enumerate(layers):
        every = layer.map().to(wide).cpu().numpy()
        for row, stack in enumerate(stacks):
            size = stack.shape[-1]
            stack[number, : layer.heads] = every[row, :, :size, :size]
    return stacks
