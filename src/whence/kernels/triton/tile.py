"""Starting a kernel that is compiled already, without looking it up by all that it was compiled for.

Triton binds every argument by name and asks what is special about it, each time: tens of microseconds for a kernel
that runs for a few. Here the few things that it asks for are the key, and a compiled kernel is called directly.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

Grid = tuple[int, int, int]

_INTERPRETED = bool(triton.knobs.runtime.interpret)
_compiled: dict[Any, Any] = {}


def start(
    kernel: Any,
    grid: Grid,
    tensors: Sequence[Tensor | None],
    numbers: Sequence[float],
    constants: tuple[Any, ...],
    **options: int,
) -> None:
    """Run a kernel whose parameters are tensors, then numbers, then constants, all by place."""
    device = next(one.device for one in tensors if one is not None)
    if device.index is not None and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return start(kernel, grid, tensors, numbers, constants, **options)
    key = (
        kernel,
        device,
        constants,
        tuple([None if one is None else (one.dtype, one.data_ptr() & 15 == 0) for one in tensors]),
        tuple([_special(one) for one in numbers]),
        tuple(options.values()),
    )
    ready = _compiled.get(key)
    if ready is not None:
        ready[grid](*tensors, *numbers, *constants)
        return None
    made = kernel[grid](*tensors, *numbers, *constants, **options)
    if made is not None and not _INTERPRETED:
        _compiled[key] = made
    return None


def _special(number: float) -> int:
    """Return what Triton compiles a kernel anew for: one, a multiple of sixteen, and what takes 64 bits."""
    if type(number) is float:
        return -1
    kind = 1 if number == 1 else 2 if number % 16 == 0 else 0
    return kind if -(2**31) <= number < 2**31 else kind + 4


"""What a tile of a map is made of: the pieces that the kernels share."""

import triton
import triton.language as tl

# Triton's interpreter is numpy's, whose maximum keeps a NaN; a GPU's gives the other number, and that is relied on.
_INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def not_negative(value):
    """Return the value or zero, and zero for a NaN."""
    return tl.where(value > 0, value, 0.0) if _INTERPRETED else tl.maximum(value, 0.0)


@triton.jit
def lines(
    start, place, count, stride, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr
):
    """Load lines of a matrix, widened to a block of features; what is beyond them is zero."""
    feature = tl.arange(0, BLOCK)
    at = start + place[:, None] * stride + feature[None, :]
    if MASKED:
        found = tl.load(at, (place < count)[:, None] & (feature < WIDTH)[None, :], 0.0)
    elif BLOCK != WIDTH:
        found = tl.load(at, (feature < WIDTH)[None, :], 0.0)
    else:
        found = tl.load(at)
    return found


@triton.jit
def exponents(scores, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Turn products of queries and keys into the powers of two that softmax takes."""
    if SOFTCAP is None:
        found = scores * (SCALE * LOG2_E)
    else:
        # tanh(x) = 1 - 2 / (1 + exp(2 x))
        twice = tl.exp2(scores * (2 * SCALE / SOFTCAP * LOG2_E))
        found = (1 - 2 / (1 + twice)) * (SOFTCAP * LOG2_E)
    return found


@triton.jit
def in_band(query, key, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """Say which queries reach which keys; both are numbers of places that broadcast."""
    seen = (query >= 0) & (key >= 0)
    if LEFT is not None:
        seen = seen & (key >= query - LEFT)
    if RIGHT is not None:
        seen = seen & (key <= query + RIGHT)
    return seen
