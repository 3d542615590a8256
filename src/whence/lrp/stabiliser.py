"""Division that does not blow up: relevance divides by sums that may be close to zero."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from whence.kernels import pointwise

Choice = Literal["signed", "paper"]


@dataclass(frozen=True)
class Stabiliser:
    """A way to divide, and what it makes of relevance that goes through a copy of a value and back."""

    divide: Callable[[Tensor, Tensor], Tensor]  # numerator, denominator
    restored: Callable[
        [Tensor, Tensor], Tensor
    ]  # the same, and multiplied with the denominator again
    copied: Callable[[Tensor, Tensor], Tensor]  # relevance of a copy, value
    joined: Callable[[Sequence[Tensor], Tensor], Tensor]  # relevance of several copies, value
    exact: bool  # copies hand back just what they were given


STABILISERS: dict[Choice, Stabiliser] = {
    # Away from zero on the side where the denominator is, by as much as its dtype resolves; copies are exact.
    "signed": Stabiliser(
        pointwise.signed,
        pointwise.signed_restored,
        lambda relevance, value: relevance,
        pointwise.plain_sum,
        exact=True,
    ),
    # What Chefer et al. compute: 1e-9 whatever the sign (a denominator of -1e-9 blows up), also for copies.
    "paper": Stabiliser(
        pointwise.unsigned,
        pointwise.restored,
        pointwise.restored,
        pointwise.restored_sum,
        exact=False,
    ),
}
