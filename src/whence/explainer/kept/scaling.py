"""The scale of an explanation's colours, from what its method states of its scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.methods import unit_of
from whence.view.scale import Scale, scale_of


def scale_for(
    name: str,
    params: Mapping[str, Any],
    scores: Sequence[float],
    *,
    of: str,
    is_value: bool,
    part: str = "word",
    count: int | None = None,
) -> Scale:
    """Return the scale of scores that a method gave, special tokens left out.

    `of` is what they measure; `is_value` says that the output is no probability, as a regression's.
    """
    return scale_of(
        scores,
        unit_of(name, params),
        of=of,
        is_value=is_value,
        part=part,
        count=count,
    )
