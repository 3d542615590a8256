"""Traces built from given attention maps and gradients, without a model, for tests of flow and query rows."""

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.data.batches import Batch
from whence.tracing.attention_layer import StoredAttention
from whence.tracing.target import ResolvedTargets, TargetSpec
from whence.tracing.trace import Trace


def trace_of(
    maps: Sequence[Tensor],  # for each layer (batch, heads, tokens, tokens)
    rows: Tensor,
    *,
    grads: Sequence[Tensor] | None = None,
    lengths: Sequence[int] | None = None,
) -> Trace:
    """Return a trace of these maps and their gradients, whose prediction reads these rows."""
    batch, tokens = rows.shape
    real = torch.arange(tokens) < torch.tensor(lengths or [tokens] * batch)[:, None]
    # With values that are the identity, the gradient of the output is the gradient of the map.
    layers = [
        StoredAttention(probabilities=one, v=torch.eye(tokens, dtype=one.dtype).expand(one.shape))
        for one in maps
    ]
    for layer, grad in zip(layers, grads or [], strict=grads is not None):
        layer.out_grad = grad
    target = ResolvedTargets(
        torch.zeros(batch, dtype=torch.long), None, TargetSpec(0, None, "logit"), "single_label"
    )
    return Trace(
        Batch((), {}, real), rows.new_zeros(batch, 1), target, list(layers), None, rows, None, None
    )
