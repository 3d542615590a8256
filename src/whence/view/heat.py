"""The scores of a picture's patches: the strongest of them, and a map over the picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Map = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch with its score; rows and columns count from 1, from the top left."""

    row: int
    column: int
    score: float

    def __str__(self) -> str:
        return f"row {self.row}, column {self.column}"


def strongest(scores: Sequence[float], grid: Sequence[int], top: int) -> list[Patch]:
    """Return the patches that count most, by the size of their scores; of equals the first."""
    order = sorted(range(len(scores)), key=lambda place: -abs(scores[place]))[:top]
    width = grid[1]
    return [Patch(place // width + 1, place % width + 1, scores[place]) for place in order]


def heatmap(scores: Any, grid: Sequence[int], size: Sequence[int]) -> Map:
    """Spread the scores of patches, row by row, over a picture of `size` (height, width).

    Between the centres of patches it is bilinear, beyond the outermost flat: what torch's
    `interpolate(mode="bilinear", align_corners=False)` does.
    """
    rows, columns = grid
    patches = np.asarray(scores, dtype=np.float64).reshape(rows, columns)
    height, width = size
    return _between(rows, height) @ patches @ _between(columns, width).T


def _between(patches: int, pixels: int) -> Map:
    """Return how much each pixel along one side takes from each patch."""
    places = (np.arange(pixels) + 0.5) * patches / pixels - 0.5
    places = np.clip(places, 0, patches - 1)
    before = np.minimum(places.astype(int), patches - 1)
    after = np.minimum(before + 1, patches - 1)
    share = places - before
    weights = np.zeros((pixels, patches))
    weights[np.arange(pixels), before] += 1 - share
    weights[np.arange(pixels), after] += share
    return weights
