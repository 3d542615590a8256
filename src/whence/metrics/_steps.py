"""Shared parts of metrics: steps of removal, pixel maps, checks for masks and rationales, areas."""

from decimal import Decimal
from math import ceil

import numpy as np

from whence.metrics._requests import Numbers
from whence.metrics._trial import Trial
from whence.render.colour import compute_heatmap
from whence.stats.segmentation import BACKGROUND, OBJECT


def find_image_obstacle(trial: Trial) -> str | None:
    """Return the reason why explanations of this input are not maps of an image; None if they are."""
    if trial.item.picture is None:
        return "It is measured on the pixels of a picture, and this input is a text."
    return None


def find_mask_obstacle(trial: Trial) -> str | None:
    """Return the reason why no map of this input can be compared with a mask; None if one can."""
    if why := find_image_obstacle(trial):
        return why
    if trial.mask is None:
        return "There is no mask for this picture: nobody outlined what is on it."
    if not (trial.mask == OBJECT).any():
        return "The mask marks nothing of this picture: there is nothing to find."
    if not (trial.mask == BACKGROUND).any():
        return "The mask marks all of this picture: nothing could be wrong."
    return None


def compute_pixel_maps(trial: Trial) -> Numbers:
    """Return each explanation spread over the picture as the model sees it, (explanations, height, width).

    Where a method gives every pixel a score, the map is that.
    """
    picture = trial.item.picture
    assert picture is not None, "asked about before"
    _, height, width = picture.pixels.shape
    fine = trial.fine or (None,) * len(trial.scores)
    return np.stack(
        [
            compute_heatmap(row, picture.grid, (height, width))
            if own is None
            else own.astype(np.float64)
            for row, own in zip(trial.scores, fine, strict=True)
        ]
    )


def find_rationale_obstacle(trial: Trial) -> str | None:
    """Return the reason why no explanation can be compared with a rationale; None if one can."""
    if trial.item.picture is not None:
        return "It compares tokens of a text with a rationale; for pictures with masks there is segmentation."
    if trial.marked is None:
        return "There is no human rationale for this input."
    if not any(trial.marked):
        return "The human rationale marks nothing of this input: there is nothing to find."
    if all(trial.marked):
        return "The human rationale marks all of this input: nothing could be wrong."
    return None


def count_units(share: Decimal, units: int) -> int:
    """Return the number of units in a share, rounded up; with decimals, 0.1 of 30 is exactly 3."""
    return ceil(share * units)


def build_even_counts(units: int, steps: int) -> list[int]:
    """Return `steps` evenly spaced counts from above 0 to all units; every count if units are few."""
    return sorted({-(-units * step // steps) for step in range(1, steps + 1)})


def compute_area(heights: Numbers, at: Numbers) -> Numbers:
    """Return the area under each row by the trapezoid rule."""
    middles: Numbers = (heights[:, 1:] + heights[:, :-1]) / 2
    return np.asarray(middles @ np.diff(at))
