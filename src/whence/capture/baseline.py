"""What an input is held against: every embedding replaced by one that says as little as possible."""

from collections.abc import Mapping
from typing import Literal

from whence.core.errors import BadParameter

Baseline = Literal["pad", "mask", "zero", "mean"]


def resolve_baseline(baseline: Baseline | None, fillers: Mapping[str, int]) -> Baseline:
    """Return the baseline: the one asked for, if this model has it; else padding, or zero without a padding token."""
    if baseline is None:
        return "pad" if "pad" in fillers else "zero"
    if baseline in ("pad", "mask") and baseline not in fillers:
        possible = [name for name in ("pad", "mask") if name in fillers]
        raise BadParameter(
            f"baseline={baseline!r} needs a {baseline} token, and this model has none. "
            f"Possible here: {', '.join([*possible, 'zero', 'mean'])}."
        )
    return baseline
