"""Parts shared by the Triton kernels: loads, exponents and bands of a tile, and a fast launcher.

Triton binds every argument by name and specialises on it at each launch: tens of microseconds for a kernel
that runs for a few. `launch_kernel` keys compiled kernels by the few properties that matter and calls them
directly.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LaunchGrid = tuple[int, int, int]

_INTERPRETED = bool(triton.knobs.runtime.interpret)
_compiled_kernels: dict[Any, Any] = {}


def launch_kernel(
    kernel: Any,
    grid: LaunchGrid,
    tensors: Sequence[Tensor | None],
    numbers: Sequence[float],
    constants: tuple[Any, ...],
    **options: int,
) -> None:
    """Run a kernel with positional parameters: tensors, then numbers, then constants."""
    device = next(tensor.device for tensor in tensors if tensor is not None)
    if device.index is not None and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch_kernel(kernel, grid, tensors, numbers, constants, **options)
    key = (
        kernel,
        device,
        constants,
        tuple([None if one is None else (one.dtype, one.data_ptr() & 15 == 0) for one in tensors]),
        _classify_numbers(kernel, tuple(numbers)),
        tuple(options.values()),
    )
    known_kernel = _compiled_kernels.get(key)
    if known_kernel is not None:
        known_kernel[grid](*tensors, *numbers, *constants)
        return None
    new_kernel = kernel[grid](*tensors, *numbers, *constants, **options)
    if new_kernel is not None and not _INTERPRETED:
        _compiled_kernels[key] = new_kernel
    return None


@lru_cache(1024)
def _classify_numbers(kernel: Any, numbers: tuple[float, ...]) -> tuple[int, ...]:
    """Return the classes of a kernel's numbers for which Triton specialises: 1, multiples of 16, 64-bit, floats.

    The layers of a model have the same numbers. Of each number a kernel knows whether it is a float.
    """
    return tuple(
        -1
        if type(number) is float
        else (1 if number == 1 else 2 if number % 16 == 0 else 0)
        + (0 if -(2**31) <= number < 2**31 else 4)
        for number in numbers
    )


# The interpreter uses numpy, whose maximum keeps a NaN; a GPU's maximum drops it, which we rely on.
_ON_INTERPRETER = tl.constexpr(bool(triton.knobs.runtime.interpret))
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def clamp_negative(value):
    """Return the maximum of value and zero; zero for a NaN."""
    return tl.where(value > 0, value, 0.0) if _ON_INTERPRETER else tl.maximum(value, 0.0)


@triton.jit
def load_rows(
    start, place, count, stride, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr
):
    """Load rows of a matrix, padded with zeros to a block of features."""
    feature = tl.arange(0, BLOCK)
    at = start + place[:, None] * stride + feature[None, :]
    if MASKED:
        rows = tl.load(at, (place < count)[:, None] & (feature < WIDTH)[None, :], 0.0)
    elif BLOCK != WIDTH:
        rows = tl.load(at, (feature < WIDTH)[None, :], 0.0)
    else:
        rows = tl.load(at)
    return rows


@triton.jit
def compute_exponents(scores, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Turn products of queries and keys into exponents of 2 for the softmax."""
    if SOFTCAP is None:
        exponents = scores * (SCALE * LOG2_E)
    else:
        # tanh(x) = 1 - 2 / (1 + exp(2 x))
        twice = tl.exp2(scores * (2 * SCALE / SOFTCAP * LOG2_E))
        exponents = (1 - 2 / (1 + twice)) * (SOFTCAP * LOG2_E)
    return exponents


@triton.jit
def is_in_band(query, key, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """Return which keys are in the band of which queries; both are positions that broadcast."""
    inside = (query >= 0) & (key >= 0)
    if LEFT is not None:
        inside = inside & (key >= query - LEFT)
    if RIGHT is not None:
        inside = inside & (key <= query + RIGHT)
    return inside
