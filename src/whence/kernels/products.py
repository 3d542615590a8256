"""z+ in half precision that loses no digits: what a linear layer's rule of relevance multiplies.

Inputs and weights of a model in bfloat16 are what they are, so the matrix units multiply them exactly and add up in
float32. Relevance is not: it is split into a part that bfloat16 holds and what is left over, 16 bits of mantissa
together, which is more than the model's own values have by far.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from whence.kernels import pointwise
from whence.kernels.able import fuses_pointwise


def narrow(x: Tensor, weight: Tensor) -> bool:
    """Say whether a layer's products can run in half precision: bfloat16 on CUDA.

    float16 cannot hold relevance over sums, which may be large.
    """
    return x.is_cuda and x.dtype == weight.dtype == torch.bfloat16


class Lately:
    """The input that was taken apart last: queries, keys and values are made of one input. One walk has one of these.

    It is told by identity, so that nobody may write into it meanwhile; the values of a tape stay as they are.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._of: Tensor | None = None
        self._parted: Tensor | None = None

    def parted(self, x: Tensor) -> Tensor:
        """Return what is positive beside what is negative, (rows, twice the features)."""
        if self._of is not x or self._parted is None:
            self._of = self._parted = None  # first, so that there are never two
            self._of, self._parted = x, _parted(x.flatten(0, -2))
        return self._parted


def agreeing(
    relevance: Tensor, x: Tensor, weight: Tensor, *, signed: bool, lately: Lately | None = None
) -> Tensor:
    """Return x⁺ ∘ (S w⁺ᵀ) + x⁻ ∘ (S w⁻ᵀ) with S = R / (x⁺w⁺ + x⁻w⁻), (..., inputs), for weights (inputs, outputs).

    Positive and negative weights stand side by side, and so do both parts of a quotient: two products of twice the
    depth stand for six, and what is added up in them is never written.
    """
    outputs = weight.shape[1]
    signs = _parted(weight.T, copies=2)
    agreed = _wide_product((lately or Lately()).parted(x), signs[:outputs].T)
    split = _split_quotient(relevance.reshape(agreed.shape), agreed, x.dtype, signed=signed)
    return _chosen(x, _wide_product(split, signs))


def back(quotient: Tensor, weight: Tensor) -> Tensor:
    """Return S wᵀ for a quotient in float32 or wider and weights (inputs, outputs): (..., inputs)."""
    half = quotient.is_cuda and weight.dtype == torch.bfloat16
    if not half or quotient.dtype != torch.float32:
        return quotient @ weight.to(quotient.dtype).T
    flat = quotient.flatten(0, -2)
    first = flat.to(weight.dtype)
    split = torch.cat([first, (flat - first).to(weight.dtype)], 1)
    made = _wide_product(split, torch.cat([weight.T, weight.T]))
    return made.reshape(*quotient.shape[:-1], -1)


def _wide_product(left: Tensor, right: Tensor) -> Tensor:
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def _parted(matrix: Tensor, copies: int = 1) -> Tensor:
    """Return what is positive beside what is negative, as often as it is asked for below each other."""
    if fuses_pointwise(matrix):
        made: Tensor = _fused().parted(matrix, copies)
        return made
    return torch.cat([matrix.clamp(min=0), matrix.clamp(max=0)], 1).repeat(copies, 1)


def _split_quotient(
    relevance: Tensor, total: Tensor, dtype: torch.dtype, *, signed: bool
) -> Tensor:
    """Return a quotient as two numbers of half precision, the second what the first leaves over, side by side."""
    if fuses_pointwise(relevance, total):
        by = pointwise.size(signed, total)
        made: Tensor = _fused().split_quotient(relevance, total, dtype, signed, by)
        return made
    quotient = (pointwise.signed if signed else pointwise.unsigned)(relevance, total)
    first = quotient.to(dtype)
    return torch.cat([first, (quotient - first).to(dtype)], 1)


def _chosen(x: Tensor, both: Tensor) -> Tensor:
    """Return x times the one that goes with its sign, of two that stand side by side."""
    if fuses_pointwise(x):
        made: Tensor = _fused().chosen(x, both)
        return made
    up, down = both.chunk(2, 1)
    return torch.where(x > 0, up.reshape(x.shape), down.reshape(x.shape)) * x


@cache
def _fused() -> Any:
    from whence.kernels.fused import signs

    return signs
