"""A map without colours: one figure for each patch, 9 for the strongest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.report.picture.colour import scaled
from whence.report.text import visible
from whence.view.scale import scale_in
from whence.view.shade import target_name

_CELL = 2  # a sign, or room between figures, and the figure


def figures(payload: dict[str, Any], explanation: dict[str, Any], width: int) -> list[str]:
    """Return the map as lines of text no wider than `width`, and under them what the figures mean."""
    rows, columns = payload["picture"]["grid"]
    patches = np.asarray(explanation["scores"], dtype=np.float64).reshape(rows, columns)
    side = _joined((rows, columns), width)
    floor = scale_in(explanation, "patch")["floor"]
    values = scaled(_means(patches, side), signed=explanation["signed"], floor=floor)
    lines = ["".join(map(_figure, row)).rstrip() for row in values]
    return [*lines, *_key(payload, explanation, side)]


def _figure(value: float) -> str:
    level = round(9 * abs(value))
    return " ." if not level else f"{'-' if value < 0 else ' '}{level}"


def _joined(grid: Sequence[int], width: int) -> int:
    """Return how many patches a side share a figure, so that a row of them fits."""
    return max(1, -(-grid[1] * _CELL // max(width, _CELL)))


def _means(patches: np.ndarray[Any, Any], side: int) -> np.ndarray[Any, Any]:
    """Return the means of squares of patches; those at the right and lower edge may be cut."""
    if side == 1:
        return patches
    down, across = (range(0, size, side) for size in patches.shape)
    return np.array([[patches[y : y + side, x : x + side].mean() for x in across] for y in down])


def _key(payload: dict[str, Any], explanation: dict[str, Any], side: int) -> list[str]:
    target, scale = visible(target_name(payload["target"])), scale_in(explanation, "patch")
    own = "a patch" if side == 1 else f"the mean of {side} x {side} patches"
    if explanation["signed"]:
        said = f"Each figure is {own}, 9 the largest |score|, - speaks against {target}"
    else:
        said = (
            f"Each figure is {own}, from . for the smallest score to 9 for the largest; this method has no sign: "
            f"it may count for {target} or against"
        )
    meant = scale["legend"].replace("full colour:", "9 is")
    return [f"{said}; {meant}.", *([scale["note"]] if scale["note"] else [])]
