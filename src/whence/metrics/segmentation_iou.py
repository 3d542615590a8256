"""Mean IoU: how well does the map, cut in two, cover what people outlined, and the ground?"""

from collections.abc import Mapping

import numpy as np

from whence.metrics import Outcome, metric, ranked, untestable
from whence.stats.segmentation import mean_iou, overlap
from whence.trial import Trial
from whence.trial.pixels import maps, unoutlined
from whence.trial.removed import Numbers

_SIDES = ("ground", "object")


def _aggregate(parts: Mapping[str, Numbers]) -> float:
    """Over a data set the pixels of each side are thrown together before they are divided."""
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
    cite="Chefer, Gur & Wolf 2021, arXiv:2012.09838, with the masks of Guillaumin et al. 2014",
    formula="mean over object and ground of Σ |map ∩ mask| / Σ |map ∪ mask|; a pixel is object if its map > the "
    "map's mean",
    cost="no forward",
    misleads_when="the model decides by a part of the object, a face: a true map then covers little of the outline",
)
def segmentation_iou(trial: Trial) -> Outcome:
    """Cut the map in two at its mean and divide what it shares with the mask by what either covers."""
    if why := unoutlined(trial):
        return untestable(trial, why)
    assert trial.mask is not None
    found = overlap(maps(trial), trial.mask)
    parts = {
        f"{side} {what}": counts[:, place]
        for place, side in enumerate(_SIDES)
        for what, counts in (("shared", found.shared), ("joined", found.joined))
    }
    return ranked(trial, found.iou, parts=parts)
