"""A map laid over its picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.report.picture.colour import hues, scaled, strengths
from whence.report.picture.png import Pixels
from whence.view.heat import heatmap

_GREY = np.array([0.299, 0.587, 0.114])  # how bright each channel looks
_DIMMED, _FLOOR = 0.42, 16.0  # of the picture's brightness is left, and how dark black is


def dimmed(picture: Pixels) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the picture in dark grey, so that every colour on it is the map's."""
    grey = _FLOOR + _DIMMED * (picture @ _GREY)
    return np.repeat(grey[..., None], 3, axis=-1)


def overlay(
    picture: Pixels, scores: Any, grid: Sequence[int], *, signed: bool, floor: float | None = None
) -> Pixels:
    """Return the picture in dark grey with the scores of its patches over it, the stronger the more opaque."""
    values = heatmap(scaled(scores, signed=signed, floor=floor), grid, picture.shape[:2])
    alpha = strengths(values)[..., None]
    mixed = dimmed(picture) * (1 - alpha) + hues(values, signed=signed) * alpha
    return np.clip(np.round(mixed), 0, 255).astype(np.uint8)
