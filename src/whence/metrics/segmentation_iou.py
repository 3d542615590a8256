"""Mean IoU of object and background, between the map cut at its mean and the mask; pooled over a data set."""

from collections.abc import Mapping

import numpy as np

from whence.metrics import Outcome, Trial, build_ranking_outcome, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import compute_pixel_maps, find_mask_obstacle
from whence.stats.segmentation import count_overlap, mean_iou

_SIDES = ("ground", "object")


def _aggregate(parts: Mapping[str, Numbers]) -> float:
    """Return the mean IoU over a data set, with the pixels of each side pooled before the division."""
    shared, joined = (
        np.array([parts[f"{side} {what}"].sum() for side in _SIDES])
        for what in ("shared", "joined")
    )
    return float(mean_iou(shared, joined))


@metric(
    "segmentation_iou",
    kind="plausibility",
    direction="higher",
    range=(0, 1),
    null="rankings",
    takes="picture",
    group="segmentation",
    aggregate=_aggregate,
    obstacle=find_mask_obstacle,
    cite="Chefer, Gur & Wolf 2021, arXiv:2012.09838, with the masks of Guillaumin et al. 2014",
    formula="mean over object and ground of Σ |map ∩ mask| / Σ |map ∪ mask|; a pixel is object if its map > the "
    "map's mean",
    cost="no forward",
    misleads_when="the model decides by a part of the object, a face: a true map then covers little of the outline",
)
def segmentation_iou(trial: Trial) -> Outcome:
    """Cut the map in two at its mean and divide what it shares with the mask by what either covers."""
    assert trial.mask is not None
    overlap = count_overlap(compute_pixel_maps(trial), trial.mask)
    parts = {
        f"{side} {what}": counts[:, place]
        for place, side in enumerate(_SIDES)
        for what, counts in (("shared", overlap.shared), ("joined", overlap.joined))
    }
    return build_ranking_outcome(trial, overlap.iou, parts=parts)
