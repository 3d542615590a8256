"""Attention by PyTorch's scaled_dot_product_attention, in blocks of queries where a mask would be large.

Elsewhere attention is computed for a block of queries at a time, with the keys that these can see. A
gradient computes each block again, so that of all blocks only queries, keys, values and output are kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function

from whence.kernels.maps import VisibleKeys, multiply_by_head
from whence.tracing.attention_layer import ComputedAttention

# Bytes of a mask or a map above which attention is computed in blocks. On a CPU blocks also save time
# for narrow windows, so these have a lower limit.
_MAX_BYTES = 1 << 24
_MAX_NARROW_BYTES = 1 << 20
# Bytes of one block's mask or map, and its minimum number of rows.
_BLOCK_BYTES = {"cpu": 1 << 22}
_DEFAULT_BLOCK_BYTES = 1 << 26
_MIN_BLOCK_ROWS = 16

# Layers share their visible keys, and so the dense mask made from them.
_dense_masks: WeakKeyDictionary[VisibleKeys, tuple[int, int, Tensor]] = WeakKeyDictionary()


def attend(query: Tensor, key: Tensor, value: Tensor, layer: ComputedAttention) -> Tensor:
    """Compute a layer's attention with these q, k and v, (batch, heads, queries, width), if possible without its map.

    On a tape this is one operation with a rule of its own; the steps inside are not recorded.
    """
    if has_torch_function((query, key, value)):
        output: Tensor = handle_torch_function(
            attend, (query, key, value), query, key, value, layer
        )
        return output
    own = layer.q is query and layer.k is key and layer.v is value
    if not own or layer.out is not None:  # else no copy: it takes as long as small attention
        layer = replace(layer, q=query, k=key, v=value, out=None, hidden=None, logsumexp=None)
    small = _build_small_mask(layer)
    constant = [tensor for tensor in (layer.bias, layer.sink) if tensor is not None]
    if (
        small is not None
        or not _is_map_large(layer)
        or any(tensor.requires_grad for tensor in constant)
    ):
        return _attend_at_once(layer, small)
    if not torch.is_grad_enabled() or not any(one.requires_grad for one in (query, key, value)):
        return torch.cat(_attend_in_blocks(layer), dim=2)
    result: Tensor = _BlockwiseAttention.apply(query, key, value, layer)  # type: ignore[no-untyped-call]
    return result


def _attend_in_blocks(layer: ComputedAttention) -> list[Tensor]:
    """Return the output of each block of queries, without a graph of its own."""
    parts = (_slice_layer(layer, *block) for block in _iterate_blocks(layer))
    return [_attend_at_once(part, _build_small_mask(part)) for part in parts]


def _is_map_large(layer: ComputedAttention) -> bool:
    """Return whether the mask or map that must be made for this layer is too large to be made at once."""
    batch, heads, queries, _ = layer.q.shape
    visible, window = layer.visible, _compute_window(layer.visible)
    padded = layer.changes_scores or visible.keys is not None or visible.rule is not None
    maps = (batch if padded else 1) * (
        heads if layer.changes_scores or layer.bias is not None else 1
    )
    narrow = window is not None and 8 * window <= layer.k.shape[2]
    most = _MAX_NARROW_BYTES if narrow and layer.q.device.type == "cpu" else _MAX_BYTES
    return maps * queries * layer.k.shape[2] * layer.q.element_size() > most


def _compute_window(visible: VisibleKeys) -> int | None:
    """Return the number of visible keys of a query; None if it is unbounded on one side."""
    if visible.left is None or visible.right is None:
        return None
    return visible.left + visible.right + 1


_SmallMask = tuple[Tensor | None, bool]  # the mask and the causal flag of PyTorch's function


def _attend_at_once(layer: ComputedAttention, small: _SmallMask | None) -> Tensor:
    """Compute attention with this mask, or with the one of queries x keys, or the map, that it needs."""
    if small is None and layer.changes_scores:
        return multiply_by_head(layer.weights().to(layer.v.dtype), layer.v)
    mask, causal = small if small is not None else (_build_dense_mask(layer), False)
    key, value, heads = layer.k, layer.v, layer.q.shape[1]
    groups = heads // key.shape[1]
    if groups > 1 and mask is not None and mask.device.type != "cpu":
        # With a mask no accelerator kernel lets heads share keys: PyTorch would make the map.
        key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    return F.scaled_dot_product_attention(
        layer.q,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        scale=layer.scale,
        enable_gqa=key.shape[1] < heads,
    )


def _build_small_mask(layer: ComputedAttention) -> _SmallMask | None:
    """Return the mask and the causal flag; None if a mask of queries x keys, or the map, would have to be made."""
    visible = layer.visible
    if layer.softcap is not None or layer.sink is not None:
        return None
    if layer.bias is not None:
        return (layer.bias, False) if visible.is_unrestricted else None
    if visible.left is None and visible.right is None and visible.rule is None:
        if visible.keys is None:
            return visible.dense, False
        return (visible.keys[:, None, None], False) if visible.dense is None else None
    return (None, True) if visible.is_causal and layer.length == layer.k.shape[2] else None


def _build_dense_mask(layer: ComputedAttention) -> Tensor | None:
    """Return the mask of queries x keys, boolean, or additive where there is a bias."""
    visible, queries, keys = layer.visible, layer.length, layer.k.shape[2]
    dense = visible.dense
    if layer.bias is not None or (dense is not None and dense.dtype != torch.bool):
        return layer.additive(slice(None))
    entry = _dense_masks.get(visible)
    if entry is not None and entry[:2] == (queries, keys):
        return entry[2]
    mask = visible.build_mask(torch.arange(queries, device=layer.q.device), keys)
    if mask is not None:
        _dense_masks[visible] = (queries, keys, mask)
    return mask


def _iterate_blocks(layer: ComputedAttention) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of queries, each with the range of its visible keys."""
    batch, heads, queries, _ = layer.q.shape
    keys, visible = layer.k.shape[2], layer.visible
    per_key = batch * layer.q.element_size()
    if layer.changes_scores or layer.bias is not None:
        per_key *= heads
    window, block = (
        _compute_window(visible),
        _BLOCK_BYTES.get(layer.q.device.type, _DEFAULT_BLOCK_BYTES),
    )
    if window is None or 2 * window >= keys:
        size = max(_MIN_BLOCK_ROWS, block // (keys * per_key))
    else:  # about as many rows as visible keys: more rows would waste more of the block
        size = max(_MIN_BLOCK_ROWS, min(window, block // (2 * window * per_key)))
    for start in range(0, queries, size):
        rows = slice(start, min(start + size, queries))
        yield rows, visible.reach(rows, keys)


def _slice_layer(layer: ComputedAttention, rows: slice, keys: slice) -> ComputedAttention:
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


class _BlockwiseAttention(torch.autograd.Function):
    """Attention in blocks of queries; the backward pass computes each block again."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, layer: ComputedAttention
    ) -> Tensor:
        ctx.save_for_backward(query, key, value)
        # Without q, k and v: their graph would make a reference cycle, and checkpointing drops what is saved.
        fields = ("scale", "visible", "bias", "softcap", "sink")
        ctx.settings = {name: getattr(layer, name) for name in fields}
        return torch.cat(_attend_in_blocks(layer), dim=2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[:3]
        q, k, v = saved = ctx.saved_tensors
        totals = [
            torch.zeros_like(tensor) if needs_grad else None
            for tensor, needs_grad in zip(saved, needed, strict=True)
        ]
        layer = ComputedAttention(q=q.detach(), k=k.detach(), v=v.detach(), **ctx.settings)
        for rows, keys in _iterate_blocks(layer):
            part = _slice_layer(layer, rows, keys)
            for tensor, needs_grad in zip((part.q, part.k, part.v), needed, strict=True):
                tensor.requires_grad_(needs_grad)
            with torch.enable_grad():
                out = _attend_at_once(part, _build_small_mask(part))
            inputs = [tensor for tensor in (part.q, part.k, part.v) if tensor.requires_grad]
            grads = iter(torch.autograd.grad(out, inputs, grad[:, :, rows]))
            for total, places in zip(totals, (rows, keys, keys), strict=True):
                if total is not None:
                    total[:, :, places] += next(grads)
        return (*totals, None)
