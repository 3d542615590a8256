"""What the fused kernels can do, and when they are worth it."""

import torch
from torch import Tensor

from whence.kernels.maps import Combination, Maps, has_parts

# Features of a head, at most.
_WIDEST = {torch.float16: 256, torch.bfloat16: 256, torch.float32: 256, torch.float64: 128}
_WIDE = 128
_FARTHEST = 2**31  # numbers from the first token of a head to its last, as a kernel counts them


def takes(layer: Maps, row: Tensor) -> bool:
    """Say whether a kernel can contract a layer with a row, or with columns: one at a time."""
    if not has_parts(layer):
        return False
    q, k, v, grad = layer.q, layer.k, layer.v, layer.out_grad
    # Gradients of a float16 model may be held in float32 because they are too small for it.
    small = grad is not None and v.dtype == torch.float16 and grad.dtype != v.dtype
    return (
        layer.bias is None
        and layer.visible.banded
        and q.dtype in _WIDEST
        and q.dtype == k.dtype == v.dtype
        and not small
        and max(q.shape[-1], v.shape[-1]) <= _WIDEST[q.dtype]
        and min(q.numel(), k.numel()) > 0
        and max(one.shape[2] * one.stride(2) for one in (q, k, v)) < _FARTHEST
        and (row.ndim == 2 or row.shape[2] == 1)
    )


def pays(layer: Maps, row: Tensor, combination: Combination) -> bool:
    """Say whether a kernel was measured to be faster than tiles.

    On an H200 it was at all sizes tried, 32 to 2,048 tokens: 2 to 5 times at 128, where launches are all that counts,
    and 4 to 36 times at 2,048. Not tried against tiles: relevance of float32 heads wider than 128, whose tiles spill
    out of the registers; those are left to PyTorch.
    """
    wide = max(layer.v.shape[-1], layer.q.shape[-1] if has_parts(layer) else 0) > _WIDE
    return not (wide and "relevance" in combination and layer.v.dtype != torch.bfloat16)
