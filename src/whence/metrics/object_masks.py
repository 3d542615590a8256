"""Accuracy, average precision, mean IoU and pointing game: an image's map against the mask of the object on it.

Accuracy and IoU cut the map at its mean, and pool pixels over a data set.
"""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.metrics import Outcome, Trial, Values, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import compute_pixel_maps, find_mask_obstacle
from whence.stats.segmentation import (
    compute_pointing_hits,
    count_overlap,
    mean_iou,
    two_sided_precision,
)

_FACTS = {
    "kind": "plausibility",
    "direction": "higher",
    "range": (0, 1),
    "null": "rankings",
    "takes": "picture",
    "cost": "no forward",
}
_SEGMENTATION = {
    "group": "segmentation",
    "cite": "Chefer, Gur & Wolf 2021, arXiv:2012.09838, with the masks of Guillaumin et al. 2014",
}
_SIDES = ("ground", "object")


def _pool_accuracy(parts: Mapping[str, Numbers]) -> float:
    """Return the accuracy over a data set, with the pixels of all images pooled."""
    return float(parts["correct"].sum() / parts["labelled"].sum())


@metric(
    "segmentation_accuracy",
    aggregate=_pool_accuracy,
    **_FACTS,
    **_SEGMENTATION,
    formula="Σ pixels on the right side / Σ pixels with a side; a pixel is object if its map > the map's mean",
    misleads_when="objects are small or fill the picture: calling all of it ground, or object, is then mostly right; "
    "or the model decides by something else than the whole object",
)
def segmentation_accuracy(trial: Trial) -> Values:
    """Cut the map in two at its mean and count the pixels that are on the side where people put them."""
    if why := find_mask_obstacle(trial):
        return why
    assert trial.mask is not None
    overlap = count_overlap(compute_pixel_maps(trial), trial.mask)
    return Outcome(
        overlap.accuracy, parts={"correct": overlap.correct, "labelled": overlap.labelled}
    )


@metric(
    "segmentation_ap",
    **_FACTS,
    **_SEGMENTATION,
    formula="AP of (1 - m, m) for (ground, object), m the map from 0 to 1, both channels thrown together; over a "
    "data set the mean, mAP",
    misleads_when="the map's sizes matter, not its order alone: a map that is near 0 but for one peak is sure of the "
    "ground everywhere, and gets much where the ground is large",
)
def segmentation_ap(trial: Trial) -> Values:
    """Go down from the surest pixels, of object and ground alike: the mean precision over the steps of recall."""
    if why := find_mask_obstacle(trial):
        return why
    assert trial.mask is not None
    return two_sided_precision(compute_pixel_maps(trial), trial.mask)


def _pool_iou(parts: Mapping[str, Numbers]) -> float:
    """Return the mean IoU over a data set, with the pixels of each side pooled before the division."""
    shared, joined = (
        np.array([parts[f"{side} {what}"].sum() for side in _SIDES])
        for what in ("shared", "joined")
    )
    return float(mean_iou(shared, joined))


@metric(
    "segmentation_iou",
    aggregate=_pool_iou,
    **_FACTS,
    **_SEGMENTATION,
    formula="mean over object and ground of Σ |map ∩ mask| / Σ |map ∪ mask|; a pixel is object if its map > the "
    "map's mean",
    misleads_when="the model decides by a part of the object, a face: a true map then covers little of the outline",
)
def segmentation_iou(trial: Trial) -> Values:
    """Cut the map in two at its mean and divide what it shares with the mask by what either covers."""
    if why := find_mask_obstacle(trial):
        return why
    assert trial.mask is not None
    overlap = count_overlap(compute_pixel_maps(trial), trial.mask)
    parts = {
        f"{side} {what}": counts[:, place]
        for place, side in enumerate(_SIDES)
        for what, counts in (("shared", overlap.shared), ("joined", overlap.joined))
    }
    return Outcome(overlap.iou, parts=parts)


@metric(
    "pointing_game",
    presets={"zhang": {"tolerance": 15.0}},
    cite="Zhang et al. 2016, Top-down Neural Attention by Excitation Backprop, arXiv:1608.00507",
    **_FACTS,
    formula="[argmax map ∈ mask]; over a data set the share of hits",
    misleads_when="the object fills the picture or its middle, where any pointing hits; one pixel says nothing of "
    "the rest of the map",
)
def pointing_game(trial: Trial, *, tolerance: Annotated[float, Range(0, 100)] = 0.0) -> Values:
    """See whether the highest pixel of the map lies on what people outlined, or so many pixels off it at most.

    Where several are highest, it is the share of them that do.
    """
    if why := find_mask_obstacle(trial):
        return why
    assert trial.mask is not None
    return compute_pointing_hits(compute_pixel_maps(trial), trial.mask, tolerance)
