"""Average precision of the map against the mask, over pixels of object and background alike."""

from whence.metrics import Trial, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import compute_pixel_maps, find_mask_obstacle
from whence.stats.segmentation import two_sided_precision


@metric(
    "segmentation_ap",
    kind="plausibility",
    direction="higher",
    range=(0, 1),
    null="rankings",
    takes="picture",
    group="segmentation",
    obstacle=find_mask_obstacle,
    cite="Chefer, Gur & Wolf 2021, arXiv:2012.09838, with the masks of Guillaumin et al. 2014",
    formula="AP of (1 - m, m) for (ground, object), m the map from 0 to 1, both channels thrown together; over a "
    "data set the mean, mAP",
    cost="no forward",
    misleads_when="the map's sizes matter, not its order alone: a map that is near 0 but for one peak is sure of the "
    "ground everywhere, and gets much where the ground is large",
)
def segmentation_ap(trial: Trial) -> Numbers:
    """Go down from the surest pixels, of object and ground alike: the mean precision over the steps of recall."""
    assert trial.mask is not None
    return two_sided_precision(compute_pixel_maps(trial), trial.mask)
