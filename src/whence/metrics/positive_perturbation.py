"""Positive perturbation: the highest pixels go first, and a good explanation makes the model fail soon."""

from whence.data.vision.picture import Fill
from whence.metrics import Outcome, metric, ranked, untestable
from whence.trial import Trial
from whence.trial.perturbation import AT, Of, curves, unperturbable
from whence.trial.steps import area


@metric(
    "positive_perturbation",
    kind="faithfulness",
    direction="lower",
    range=(-0.9, 0.9),
    null="rankings",
    takes="picture",
    group="perturbation",
    cite="Chefer, Gur & Wolf 2021, Transformer Interpretability Beyond Attention Visualization, arXiv:2012.09838",
    formula="area under [argmax p(. | x without the top share s of its pixels) = label], s = 0, 0.1 … 0.9",
    cost="9 forwards",
    misleads_when="a picture with black holes is like none that the model was trained on: it may fail for the holes, "
    "whatever was under them; or it gives the label to a black picture as well",
)
def positive_perturbation(trial: Trial, *, of: Of = "accuracy", fill: Fill = "black") -> Outcome:
    """Take the highest pixels away first, tenth by tenth, and take the area under the model's accuracy.

    Pixels are ranked in the map over the picture, not by patches. The label is the one that people gave, whichever
    class is explained; over a data set the mean is the area under its accuracy. `of` measures the target's
    probability instead. The authors print a hundred times the area.
    """
    if why := unperturbable(trial, of):
        return untestable(trial, why)
    found = curves(trial, of, fill, lowest=False)
    return ranked(trial, area(found, AT), at=AT, curves=found)
