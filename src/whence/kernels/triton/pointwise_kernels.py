"""Triton kernels for element-wise relevance rules: stabilised division, normalised sums, splits by sign."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.kernels.triton.tile import launch_kernel

_BLOCK = 1024
_MAX_PARTIAL_SUMS = 64  # partial sums of a sample that the second kernel adds up itself


@triton.jit
def divide_stabilised(n, d, SIZE: tl.constexpr, SIGNED: tl.constexpr):
    """Divide n by d moved away from zero: to its own side if SIGNED, else up, with n / 0 = 0."""
    if SIGNED:
        quotient = n / tl.where(d < 0, d - SIZE, d + SIZE)
    else:
        moved = d + SIZE
        quotient = tl.where(d == 0, 0.0, n / tl.where(moved == 0, SIZE, moved))
    return quotient


@triton.jit
def _divide_kernel(
    first, second, third, denominator, result, total,
    PARTS: tl.constexpr, SIZE: tl.constexpr, SIGNED: tl.constexpr, BACK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    n = tl.load(first + at, mask=inside, other=0.0)
    if PARTS > 1:
        n += tl.load(second + at, mask=inside, other=0.0)
    if PARTS > 2:
        n += tl.load(third + at, mask=inside, other=0.0)
    d = tl.load(denominator + at, mask=inside, other=1.0).to(n.dtype)
    quotient = divide_stabilised(n, d, SIZE, SIGNED)
    if BACK:
        quotient = quotient * d
    tl.store(result + at, quotient, mask=inside)


@triton.jit
def _sum_kernel(
    u, v, y, relevance, partial, size, SIZE: tl.constexpr, SIGNED: tl.constexpr, LOOPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    block, sample = tl.program_id(0), tl.program_id(1).to(tl.int64)
    ups, downs, wholes = (
        tl.zeros([BLOCK], tl.float32),
        tl.zeros([BLOCK], tl.float32),
        tl.zeros([BLOCK], tl.float32),
    )
    for loop in range(LOOPS):
        inner = (block.to(tl.int64) * LOOPS + loop) * BLOCK + tl.arange(0, BLOCK)
        inside, at = inner < size, sample * size + inner
        r = tl.load(relevance + at, mask=inside, other=0.0)
        q = divide_stabilised(r, tl.load(y + at, mask=inside, other=1.0).to(r.dtype), SIZE, SIGNED)
        ups += tl.load(u + at, mask=inside, other=0.0).to(r.dtype) * q
        downs += tl.load(v + at, mask=inside, other=0.0).to(r.dtype) * q
        wholes += r
    at = (sample * tl.num_programs(0) + block) * 3
    tl.store(partial + at, tl.sum(ups, 0))
    tl.store(partial + at + 1, tl.sum(downs, 0))
    tl.store(partial + at + 2, tl.sum(wholes, 0))


@triton.jit
def _normalise_kernel(
    u, v, y, relevance, partial, to_u, to_v, size, count,
    SIZE: tl.constexpr, SIGNED: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1).to(tl.int64)
    place = tl.arange(0, MOST)
    sums, valid = partial + (sample * count + place) * 3, place < count
    a = tl.sum(tl.load(sums, mask=valid, other=0.0), 0)
    b = tl.sum(tl.load(sums + 1, mask=valid, other=0.0), 0)
    whole = tl.sum(tl.load(sums + 2, mask=valid, other=0.0), 0)
    both = tl.abs(a) + tl.abs(b)
    for_u = divide_stabilised(
        divide_stabilised(tl.abs(a), both, SIZE, SIGNED) * whole, a, SIZE, SIGNED
    )
    for_v = divide_stabilised(
        divide_stabilised(tl.abs(b), both, SIZE, SIGNED) * whole, b, SIZE, SIGNED
    )
    inner = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside, at = inner < size, sample * size + inner
    r = tl.load(relevance + at, mask=inside, other=0.0)
    q = divide_stabilised(r, tl.load(y + at, mask=inside, other=1.0).to(r.dtype), SIZE, SIGNED)
    tl.store(
        to_u + at, tl.load(u + at, mask=inside, other=0.0).to(r.dtype) * q * for_u, mask=inside
    )
    tl.store(
        to_v + at, tl.load(v + at, mask=inside, other=0.0).to(r.dtype) * q * for_v, mask=inside
    )


def divide_parts(
    parts: Sequence[Tensor], denominator: Tensor, *, signed: bool, size: float, back: bool = False
) -> Tensor:
    """Divide the sum of up to three parts; `back` multiplies with the denominator again."""
    *terms, below = align_layout(*parts, denominator)
    first, second, third = (*terms, terms[0], terms[0])[:3]
    result = torch.empty_like(first)
    total = first.numel()
    launch_kernel(
        _divide_kernel, (triton.cdiv(total, _BLOCK), 1, 1),
        (first, second, third, below, result), (total,), (len(parts), size, signed, back, _BLOCK),
    )  # fmt: skip
    return result


def share_sum_normalised(
    u: Tensor, v: Tensor, y: Tensor, relevance: Tensor, samples: int, *, signed: bool, size: float
) -> tuple[Tensor, Tensor]:
    """Share relevance of y = u + v between u and v, rescaled to absolute totals, for each sample."""
    if relevance.stride(0) * len(relevance) != relevance.numel():
        relevance = relevance.contiguous()  # so that each sample is one range of memory
    relevance, u, v, y = align_layout(relevance, u, v, y)
    elements, loops = relevance.numel() // samples, 8
    blocks = triton.cdiv(elements, _BLOCK * loops)
    partial = torch.empty(samples, blocks, 3, dtype=torch.float32, device=u.device)
    inputs = (u, v, y, relevance)
    launch_kernel(
        _sum_kernel, (blocks, samples, 1), (*inputs, partial), (elements,), (size, signed, loops, _BLOCK)
    )  # fmt: skip
    if blocks > _MAX_PARTIAL_SUMS:
        partial, blocks = partial.sum(1), 1
    to_u, to_v = torch.empty_like(relevance), torch.empty_like(relevance)
    launch_kernel(
        _normalise_kernel, (triton.cdiv(elements, _BLOCK), samples, 1), (*inputs, partial, to_u, to_v),
        (elements, blocks), (size, signed, 1 if blocks == 1 else _MAX_PARTIAL_SUMS, _BLOCK),
    )  # fmt: skip
    return to_u, to_v


def align_layout(first: Tensor, *others: Tensor) -> list[Tensor]:
    """Return tensors of one shape in one dense memory layout, so that kernels can ignore strides."""
    if not _is_dense(first):
        first = first.contiguous()
    order = first.stride()
    return [
        first,
        *(
            one if one.stride() == order else torch.empty_like(first, dtype=one.dtype).copy_(one)
            for one in others
        ),
    ]


def _is_dense(tensor: Tensor) -> bool:
    """Return whether a tensor is dense in memory, in any order of its dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


@triton.jit
def _split_signs_kernel(
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
def _split_quotient_kernel(
    relevance, total, result, width, SIZE: tl.constexpr, SIGNED: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    n = tl.load(relevance + row * width + column, mask=inside, other=0.0)
    d = tl.load(total + row * width + column, mask=inside, other=1.0)
    value = divide_stabilised(n, d, SIZE, SIGNED)
    first = value.to(result.dtype.element_ty)
    rest = (value - first.to(value.dtype)).to(result.dtype.element_ty)
    tl.store(result + row * 2 * width + column, first, mask=inside)
    tl.store(result + row * 2 * width + width + column, rest, mask=inside)


@triton.jit
def _multiply_matching_kernel(x, both, result, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    at = row * 2 * width + column
    up = tl.load(both + at, mask=inside & (value > 0), other=0.0)
    down = tl.load(both + at + width, mask=inside & (value < 0), other=0.0)
    tl.store(result + row * width + column, value * (up + down), mask=inside)


def split_by_sign(matrix: Tensor, copies: int) -> Tensor:
    """Return the positive part beside the negative part, with `copies` of that below each other."""
    rows, width = matrix.shape
    result = torch.empty(copies * rows, 2 * width, dtype=matrix.dtype, device=matrix.device)
    launch_kernel(
        _split_signs_kernel, (rows, triton.cdiv(width, _BLOCK), 1), (matrix, result),
        (rows, width, *matrix.stride()), (copies, _BLOCK),
    )  # fmt: skip
    return result


def split_quotient(
    relevance: Tensor, total: Tensor, dtype: torch.dtype, signed: bool, size: float
) -> Tensor:
    """Return a quotient in half precision beside its remainder, also in half precision."""
    relevance = relevance.contiguous()
    rows, width = relevance.shape
    result = torch.empty(rows, 2 * width, dtype=dtype, device=total.device)
    launch_kernel(
        _split_quotient_kernel, (rows, triton.cdiv(width, _BLOCK), 1), (relevance, total, result), (width,),
        (size, signed, _BLOCK),
    )  # fmt: skip
    return result


def multiply_by_matching_sign(x: Tensor, both: Tensor) -> Tensor:
    """Return x times the left half of `both` where x is positive, the right half where negative."""
    x = x.contiguous()
    width = x.shape[-1]
    result = torch.empty(x.shape, dtype=both.dtype, device=x.device)
    launch_kernel(
        _multiply_matching_kernel, (len(both), triton.cdiv(width, _BLOCK), 1), (x, both, result), (width,), (_BLOCK,)
    )  # fmt: skip
    return result
