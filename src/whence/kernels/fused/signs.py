"""What a linear layer's rule does between its products, in one pass over memory each."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.kernels.fused.pointwise import divided
from whence.kernels.fused.starting import start

_BLOCK = 1024


@triton.jit
def _parted_kernel(
    values, result, rows, width, by_row, by_column, COPIES: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(values + row * by_row + column.to(tl.int64) * by_column, mask=inside, other=0.0)
    zero = tl.zeros_like(value)
    up, down = tl.where(value > 0, value, zero), tl.where(value < 0, value, zero)
    for copy in tl.static_range(COPIES):
        at = (copy * rows + row) * 2 * width + column
        tl.store(result + at, up, mask=inside)
        tl.store(result + at + width, down, mask=inside)


@triton.jit
def _split_kernel(
    relevance, total, result, width, SIZE: tl.constexpr, SIGNED: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    n = tl.load(relevance + row * width + column, mask=inside, other=0.0)
    d = tl.load(total + row * width + column, mask=inside, other=1.0)
    value = divided(n, d, SIZE, SIGNED)
    first = value.to(result.dtype.element_ty)
    rest = (value - first.to(value.dtype)).to(result.dtype.element_ty)
    tl.store(result + row * 2 * width + column, first, mask=inside)
    tl.store(result + row * 2 * width + width + column, rest, mask=inside)


@triton.jit
def _chosen_kernel(x, both, result, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    at = row * 2 * width + column
    up = tl.load(both + at, mask=inside & (value > 0), other=0.0)
    down = tl.load(both + at + width, mask=inside & (value < 0), other=0.0)
    tl.store(result + row * width + column, value * (up + down), mask=inside)


def parted(matrix: Tensor, copies: int) -> Tensor:
    """Return what is positive beside what is negative, some times below each other."""
    rows, width = matrix.shape
    result = torch.empty(copies * rows, 2 * width, dtype=matrix.dtype, device=matrix.device)
    start(
        _parted_kernel, (rows, triton.cdiv(width, _BLOCK), 1), (matrix, result),
        (rows, width, *matrix.stride()), (copies, _BLOCK),
    )  # fmt: skip
    return result


def split_quotient(
    relevance: Tensor, total: Tensor, dtype: torch.dtype, signed: bool, size: float
) -> Tensor:
    """Return a quotient as two numbers of half precision, side by side."""
    relevance = relevance.contiguous()
    rows, width = relevance.shape
    result = torch.empty(rows, 2 * width, dtype=dtype, device=total.device)
    start(
        _split_kernel, (rows, triton.cdiv(width, _BLOCK), 1), (relevance, total, result), (width,),
        (size, signed, _BLOCK),
    )  # fmt: skip
    return result


def chosen(x: Tensor, both: Tensor) -> Tensor:
    """Return x times the one that goes with its sign, of two that stand side by side, as wide as these."""
    x = x.contiguous()
    width = x.shape[-1]
    result = torch.empty(x.shape, dtype=both.dtype, device=x.device)
    start(
        _chosen_kernel, (len(both), triton.cdiv(width, _BLOCK), 1), (x, both, result), (width,), (_BLOCK,)
    )  # fmt: skip
    return result
