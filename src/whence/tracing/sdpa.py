"""From who sees what to PyTorch's attention function, without a mask of queries x keys wherever that can be.

Where it cannot, attention is computed for a block of queries at a time, with the keys that these can see. A gradient
computes each block again, so that of all blocks only queries, keys, values and output are kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from whence.capture.attention.layer import Computed, by_head
from whence.kernels import Visible

# Bytes of a mask, or of a map that must be made, beyond which there are blocks. Narrow windows save time in blocks as
# well on a CPU, and have them sooner there.
_LARGEST = 1 << 24
_LARGEST_NARROW = 1 << 20
# Bytes of one block's mask or map, and its rows at least.
_BLOCK = {"cpu": 1 << 22}
_BLOCK_ELSEWHERE = 1 << 26
_FEWEST = 16

# Layers share what they see, and so the mask that says it.
_written: WeakKeyDictionary[Visible, tuple[int, int, Tensor]] = WeakKeyDictionary()


def attended(query: Tensor, key: Tensor, value: Tensor, layer: Computed) -> Tensor:
    """Compute a layer's attention, (batch, heads, queries, width), with these queries, keys and values."""
    own = layer.q is query and layer.k is key and layer.v is value
    if (
        not own or layer.out is not None
    ):  # and otherwise a copy would take as long as small attention
        layer = replace(layer, q=query, k=key, v=value, out=None, hidden=None, logsumexp=None)
    small = None if _needs_map(layer) else _mask(layer)
    if small is not None:
        return _sdpa(layer, *small)
    constant = [one for one in (layer.bias, layer.sink) if one is not None]
    if _bytes(layer) <= _largest(layer) or any(one.requires_grad for one in constant):
        return _at_once(layer)
    if not torch.is_grad_enabled() or not any(one.requires_grad for one in (query, key, value)):
        return torch.cat([_at_once(_part(layer, *block)) for block in _blocks(layer)], dim=2)
    result: Tensor = _InBlocks.apply(query, key, value, layer)  # type: ignore[no-untyped-call]
    return result


def _bytes(layer: Computed) -> int:
    """Return how many bytes a mask, or a map, has to have that must be made for this layer alone."""
    batch, heads, queries, _ = layer.q.shape
    per_map = queries * layer.k.shape[2] * layer.q.element_size()
    visible, bias = layer.visible, layer.bias
    if _needs_map(layer):
        return batch * heads * per_map
    padded = batch if visible.keys is not None or visible.rule is not None else 1
    return padded * per_map if bias is None else padded * heads * per_map


def _largest(layer: Computed) -> int:
    window = _window(layer.visible)
    narrow = window is not None and 8 * window <= layer.k.shape[2]
    return _LARGEST_NARROW if narrow and layer.q.device.type == "cpu" else _LARGEST


def _window(visible: Visible) -> int | None:
    """Return how many keys a query sees, where that has an end on both sides."""
    if visible.left is None or visible.right is None:
        return None
    return visible.left + visible.right + 1


def _needs_map(layer: Computed) -> bool:
    """Whether the scores must be touched on their way to the softmax, which PyTorch's function does not let us."""
    return layer.softcap is not None or layer.sink is not None


def _at_once(layer: Computed) -> Tensor:
    if _needs_map(layer):
        return by_head(layer.weights().to(layer.v.dtype), layer.v, torch.matmul)
    small = _mask(layer)
    return _sdpa(layer, *(small if small is not None else (_written_out(layer), False)))


def _sdpa(layer: Computed, mask: Tensor | None, causal: bool) -> Tensor:
    key, value, groups = layer.k, layer.v, layer.heads // layer.k.shape[1]
    if groups > 1 and mask is not None and mask.device.type != "cpu":
        # Beside a mask, no kernel of an accelerator lets heads share keys: PyTorch would make the map.
        key, value = (one.repeat_interleave(groups, dim=1) for one in (key, value))
    return F.scaled_dot_product_attention(
        layer.q,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        scale=layer.scale,
        enable_gqa=key.shape[1] < layer.heads,
    )


def _mask(layer: Computed) -> tuple[Tensor | None, bool] | None:
    """Return the mask, and whether attention is causal beside it; None: it would have to be made, queries x keys."""
    visible, square = layer.visible, layer.length == layer.k.shape[2]
    if layer.bias is not None:
        return (layer.bias, False) if visible.everything else None
    if visible.causal and square:
        return None, True
    if visible.left is not None or visible.right is not None or visible.rule is not None:
        return None
    if visible.keys is None:
        return visible.dense, False
    return (visible.keys[:, None, None], False) if visible.dense is None else None


def _written_out(layer: Computed) -> Tensor | None:
    """Return what is hidden, and what is added to the scores, queries x keys."""
    visible, queries, keys = layer.visible, layer.length, layer.k.shape[2]
    dense = visible.dense
    if layer.bias is not None or (dense is not None and dense.dtype != torch.bool):
        return layer.additive(slice(None))
    found = _written.get(visible)
    if found is not None and found[:2] == (queries, keys):
        return found[2]
    mask = visible.seen(torch.arange(queries, device=layer.q.device), keys)
    if mask is not None:
        _written[visible] = (queries, keys, mask)
    return mask


def _blocks(layer: Computed) -> Iterator[tuple[slice, slice]]:
    """Yield queries, a few at a time, and the keys that they can see."""
    batch, heads, queries, _ = layer.q.shape
    keys, visible = layer.k.shape[2], layer.visible
    per_key = batch * layer.q.element_size()
    if _needs_map(layer) or layer.bias is not None:
        per_key *= heads
    window, block = _window(visible), _BLOCK.get(layer.q.device.type, _BLOCK_ELSEWHERE)
    if window is None or 2 * window >= keys:
        size = max(_FEWEST, block // (keys * per_key))
    else:  # about as many rows as a row has keys: more would see less of what they are given
        size = max(_FEWEST, min(window, block // (2 * window * per_key)))
    for start in range(0, queries, size):
        rows = slice(start, min(start + size, queries))
        yield rows, visible.reach(rows, keys)


def _part(layer: Computed, rows: slice, keys: slice) -> Computed:
    bias = layer.bias
    if bias is not None:
        bias = bias[..., keys] if bias.shape[2] == 1 else bias[..., rows, keys]
    return replace(
        layer,
        q=layer.q[:, :, rows],
        k=layer.k[:, :, keys],
        v=layer.v[:, :, keys],
        visible=layer.visible.part(rows, keys),
        bias=bias,
    )


class _InBlocks(torch.autograd.Function):
    """Attention in blocks of queries, each of them computed once more when its gradient is asked for."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, layer: Computed) -> Tensor:
        ctx.save_for_backward(query, key, value)
        # Without the tensors of the graph, which would hold the graph that holds them.
        ctx.layer = replace(layer, q=query.detach(), k=key.detach(), v=value.detach())
        return torch.cat([_at_once(_part(layer, *block)) for block in _blocks(layer)], dim=2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[:3]
        totals = [
            torch.zeros_like(one) if wanted else None
            for one, wanted in zip(ctx.saved_tensors, needed, strict=True)
        ]
        for rows, keys in _blocks(ctx.layer):
            part = _part(ctx.layer, rows, keys)
            for one, wanted in zip((part.q, part.k, part.v), needed, strict=True):
                one.requires_grad_(wanted)
            with torch.enable_grad():
                out = _at_once(part)
            inputs = [one for one in (part.q, part.k, part.v) if one.requires_grad]
            found = iter(torch.autograd.grad(out, inputs, grad[:, :, rows]))
            for total, places in zip(totals, (rows, keys, keys), strict=True):
                if total is not None:
                    total[:, :, places] += next(found)
        return (*totals, None)
