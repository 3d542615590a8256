"""Pixel accuracy: does the map, cut in two, separate what people outlined from the ground?"""

from collections.abc import Mapping

from whence.metrics import Outcome, metric, ranked, untestable
from whence.stats.segmentation import overlap
from whence.trial import Trial
from whence.trial.pixels import maps, unoutlined
from whence.trial.removed import Numbers


def _aggregate(parts: Mapping[str, Numbers]) -> float:
    """Over a data set all pixels are thrown together."""
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
    cite="Chefer, Gur & Wolf 2021, arXiv:2012.09838, with the masks of Guillaumin et al. 2014",
    formula="Σ pixels on the right side / Σ pixels with a side; a pixel is object if its map > the map's mean",
    cost="no forward",
    misleads_when="objects are small or fill the picture: calling all of it ground, or object, is then mostly right; "
    "or the model decides by something else than the whole object",
)
def segmentation_accuracy(trial: Trial) -> Outcome:
    """Cut the map in two at its mean and count the pixels that are on the side where people put them."""
    if why := unoutlined(trial):
        return untestable(trial, why)
    assert trial.mask is not None
    found = overlap(maps(trial), trial.mask)
    return ranked(
        trial, found.accuracy, parts={"correct": found.correct, "labelled": found.labelled}
    )
