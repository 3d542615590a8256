"""What an input is held against: every embedding replaced by one that says as little as possible."""

from collections.abc import Mapping
from typing import Literal

from whence.core.errors import BadParameter
from whence.data.vision.picture import FILLS

Baseline = Literal["pad", "mask", "zero", "mean", "black", "blur"]


def resolve_baseline(baseline: Baseline | None, fillers: Mapping[str, int]) -> Baseline:
    """Return the baseline: the one asked for, if this model has it; else padding, or zero without a padding token.

    Of a picture, nothing is black.
    """
    if any(fill in fillers for fill in FILLS):
        return _of_pictures(baseline)
    if baseline in ("black", "blur"):
        raise BadParameter(
            f"baseline={baseline!r} is for pictures, and this is a text. Use pad, mask, zero or mean."
        )
    if baseline is None:
        return "pad" if "pad" in fillers else "zero"
    if baseline in ("pad", "mask") and baseline not in fillers:
        possible = [name for name in ("pad", "mask") if name in fillers]
        raise BadParameter(
            f"baseline={baseline!r} needs a {baseline} token, and this model has none. "
            f"Possible here: {', '.join([*possible, 'zero', 'mean'])}."
        )
    return baseline


def _of_pictures(baseline: Baseline | None) -> Baseline:
    if baseline in ("pad", "mask"):
        raise BadParameter(
            f"baseline={baseline!r} is a token, and this is a picture. Possible here: {', '.join(FILLS)}."
        )
    return "black" if baseline in (None, "zero") else baseline
