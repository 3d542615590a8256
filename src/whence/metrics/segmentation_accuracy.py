"""Pixel accuracy of the map, cut at its mean, against the object's mask; pixels pooled over a data set."""

from collections.abc import Mapping

from whence.metrics import Outcome, Trial, build_ranking_outcome, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import compute_pixel_maps, find_mask_obstacle
from whence.stats.segmentation import count_overlap


def _aggregate(parts: Mapping[str, Numbers]) -> float:
    """Return the accuracy over a data set, with the pixels of all images pooled."""
    return float(parts["correct"].sum() / parts["labelled"].sum())


@metric(
    "segmentation_accuracy",
    kind="plausibility",
    direction="higher",
    range=(0, 1),
    null="rankings",
    takes="picture",
    group="segmentation",
    aggregate=_aggregate,
    obstacle=find_mask_obstacle,
    cite="Chefer, Gur & Wolf 2021, arXiv:2012.09838, with the masks of Guillaumin et al. 2014",
    formula="Σ pixels on the right side / Σ pixels with a side; a pixel is object if its map > the map's mean",
    cost="no forward",
    misleads_when="objects are small or fill the picture: calling all of it ground, or object, is then mostly right; "
    "or the model decides by something else than the whole object",
)
def segmentation_accuracy(trial: Trial) -> Outcome:
    """Cut the map in two at its mean and count the pixels that are on the side where people put them."""
    assert trial.mask is not None
    overlap = count_overlap(compute_pixel_maps(trial), trial.mask)
    return build_ranking_outcome(
        trial, overlap.accuracy, parts={"correct": overlap.correct, "labelled": overlap.labelled}
    )
