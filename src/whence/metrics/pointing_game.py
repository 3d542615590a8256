"""Pointing game: whether the highest pixel of the map lies on the outlined object, within a tolerance."""

from typing import Annotated

from whence.core.params import Range
from whence.metrics import Trial, Values, metric
from whence.metrics._steps import compute_pixel_maps, find_mask_obstacle
from whence.stats.segmentation import compute_pointing_hits


@metric(
    "pointing_game",
    kind="plausibility",
    direction="higher",
    range=(0, 1),
    null="rankings",
    takes="picture",
    presets={"zhang": {"tolerance": 15.0}},
    cite="Zhang et al. 2016, Top-down Neural Attention by Excitation Backprop, arXiv:1608.00507",
    formula="[argmax map ∈ mask]; over a data set the share of hits",
    cost="no forward",
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
