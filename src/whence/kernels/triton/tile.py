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
