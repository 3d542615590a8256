"""Division that does not blow up: relevance divides by sums that may be close to zero."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Choice = Literal["signed", "paper"]


@dataclass(frozen=True)
class Stabiliser:
    """A way to divide, and what it makes of relevance that goes through a copy of a value and back."""

    divide: Callable[[Tensor, Tensor], Tensor]  # numerator, denominator
    copied: Callable[[Tensor, Tensor], Tensor]  # relevance of the copies, value
    exact: bool  # copies hand back just what they were given


def _signed(numerator: Tensor, denominator: Tensor) -> Tensor:
    # Below eight units of its own rounding a sum of terms around one is noise.
    size = 8 * torch.finfo(denominator.dtype).eps
    return numerator / torch.where(denominator < 0, denominator - size, denominator + size)


def _unsigned(numerator: Tensor, denominator: Tensor) -> Tensor:
    moved = denominator + 1e-9
    moved.masked_fill_(moved == 0, 1e-9)
    return (numerator / moved).masked_fill_(denominator == 0, 0)


STABILISERS: dict[Choice, Stabiliser] = {
    # Away from zero on the side where the denominator is, by as much as its dtype resolves; copies are exact.
    "signed": Stabiliser(_signed, lambda relevance, value: relevance, exact=True),
    # What Chefer et al. compute: 1e-9 whatever the sign (a denominator of -1e-9 blows up), also for copies.
    "paper": Stabiliser(_unsigned, lambda r, value: value * _unsigned(r, value), exact=False),
}
