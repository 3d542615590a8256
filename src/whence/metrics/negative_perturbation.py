"""Negative perturbation: area under the accuracy as an image's lowest pixels go first; higher is better."""

from whence.data.images import ImageFill
from whence.metrics import Outcome, build_ranking_outcome, build_untestable_outcome, metric
from whence.metrics._steps import (
    PERTURBED_SHARES,
    PerturbationMeasure,
    compute_area,
    compute_perturbation_curves,
    find_perturbation_obstacle,
)
from whence.metrics._trial import Trial


@metric(
    "negative_perturbation",
    kind="faithfulness",
    direction="higher",
    range=(-0.9, 0.9),
    null="reversed",
    takes="picture",
    group="perturbation",
    cite="Chefer, Gur & Wolf 2021, Transformer Interpretability Beyond Attention Visualization, arXiv:2012.09838",
    formula="area under [argmax p(. | x without the bottom share s of its pixels) = label], s = 0, 0.1 … 0.9",
    cost="9 forwards",
    misleads_when="a picture with black holes is like none that the model was trained on: it may fail for the holes, "
    "whatever was under them; or it gives the label to a black picture as well",
)
def negative_perturbation(
    trial: Trial, *, of: PerturbationMeasure = "accuracy", fill: ImageFill = "black"
) -> Outcome:
    """Take the lowest pixels away first, tenth by tenth, and take the area under the model's accuracy.

    Pixels are ranked in the map over the picture, not by patches. The label is the one that people gave, whichever
    class is explained; over a data set the mean is the area under its accuracy. `of` measures the target's
    probability instead. The authors print a hundred times the area.
    """
    if why := find_perturbation_obstacle(trial, of):
        return build_untestable_outcome(trial, why)
    curves = compute_perturbation_curves(trial, of, fill, lowest=True)
    return build_ranking_outcome(
        trial, compute_area(curves, PERTURBED_SHARES), at=PERTURBED_SHARES, curves=curves
    )
