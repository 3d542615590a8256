"""Division that does not blow up, number by number: in as few passes over memory as the device allows.

What is divided by may be of half precision; the result is as wide as what is divided.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from whence.kernels.able import fuses_pointwise

PAPER = 1e-9  # what Chefer et al. add to whatever they divide by


def size(is_signed: bool, like: Tensor) -> float:
    """Return by how much a denominator is moved."""
    # Below eight units of its own rounding a sum of terms around one is noise.
    return 8 * torch.finfo(like.dtype).eps if is_signed else PAPER


def signed(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide by a denominator that is moved away from zero, on the side where it is, by what its dtype resolves."""
    if fuses_pointwise(numerator, denominator):
        return _fused([numerator], denominator, is_signed=True)
    by, denominator = size(True, numerator), denominator.to(numerator.dtype)
    return numerator / torch.where(denominator < 0, denominator - by, denominator + by)


def signed_restored(numerator: Tensor, value: Tensor) -> Tensor:
    """Divide in that way, and multiply with what was divided by again."""
    if fuses_pointwise(numerator, value):
        return _fused([numerator], value, is_signed=True, back=True)
    return signed(numerator, value) * value


def unsigned(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide as Chefer et al. do: 1e-9 is added whatever the sign, and over zero is zero."""
    if fuses_pointwise(numerator, denominator):
        return _fused([numerator], denominator, is_signed=False)
    denominator = denominator.to(numerator.dtype)
    moved = denominator + PAPER
    if all_beyond(denominator, 2 * PAPER):
        return numerator / moved
    moved.masked_fill_(moved == 0, PAPER)
    return (numerator / moved).masked_fill_(denominator == 0, 0)


def restored(numerator: Tensor, value: Tensor) -> Tensor:
    """Divide by a value as Chefer et al. do, and multiply with it again: nearly what was there."""
    if fuses_pointwise(numerator, value):
        return _fused([numerator], value, is_signed=False, back=True)
    return unsigned(numerator, value) * value


def restored_sum(parts: Sequence[Tensor], value: Tensor) -> Tensor:
    """Add up what several copies of a value hand back, and do that with the sum."""
    if len(parts) in (2, 3) and fuses_pointwise(*parts, value):
        return _fused(parts, value, is_signed=False, back=True)
    return restored(plain_sum(parts), value)


def plain_sum(parts: Sequence[Tensor], value: Tensor | None = None) -> Tensor:
    """Add up two or more tensors; the value that they belong to does not matter."""
    total = parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total


def normalised(
    u: Tensor, v: Tensor, y: Tensor, relevance: Tensor, samples: int, *, is_signed: bool
) -> tuple[Tensor, Tensor] | None:
    """Share relevance of y = u + v between both, rescaled to totals that are positive, for each sample.

    None where no kernel does it in two passes.
    """
    if relevance.dtype != torch.float32 or not fuses_pointwise(relevance, u, v, y):
        return None
    by = size(is_signed, relevance)
    made: tuple[Tensor, Tensor] = _kernels().normalised(
        u, v, y, relevance, samples, signed=is_signed, size=by
    )
    return made


def all_beyond(tensor: Tensor, least: float) -> bool:
    """Say whether all of a tensor is farther from zero than that; on a device that would be waited for: no.

    Comparing number by number takes a CPU ten times as long as dividing does; the smallest of all is found at once.
    """
    if tensor.device.type != "cpu" or not tensor.numel():
        return False
    return bool(tensor.abs().min() > least)


def _fused(
    parts: Sequence[Tensor], denominator: Tensor, *, is_signed: bool, back: bool = False
) -> Tensor:
    by = size(is_signed, parts[0])
    made: Tensor = _kernels().divide(parts, denominator, signed=is_signed, size=by, back=back)
    return made


@cache
def _kernels() -> Any:
    from whence.kernels.fused import pointwise

    return pointwise
