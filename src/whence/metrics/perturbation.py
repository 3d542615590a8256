"""Positive and negative perturbation: area under the accuracy as an image's highest, or lowest, pixels go first.

As in the code of Chefer, Gur & Wolf 2021, in tenths of the picture.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whence.core.seed import build_generator
from whence.data.images import ImageFill
from whence.metrics import Outcome, Trial, Values, metric
from whence.metrics._requests import Numbers
from whence.metrics._steps import compute_area, compute_pixel_maps, find_image_obstacle

PerturbationMeasure = Literal["accuracy", "probability"]

_TENTHS = range(1, 10)  # tenths of the picture that are removed
_SHARES = np.array([0, *_TENTHS]) / 10
_FACTS = {
    "kind": "faithfulness",
    "range": (-0.9, 0.9),
    "takes": "picture",
    "group": "perturbation",
    "cite": "Chefer, Gur & Wolf 2021, Transformer Interpretability Beyond Attention Visualization, arXiv:2012.09838",
    "cost": "9 forwards",
    "misleads_when": "a picture with black holes is like none that the model was trained on: it may fail for the holes, whatever was "
    "under them; or it gives the label to a black picture as well",
}


@metric(
    "positive_perturbation",
    direction="lower",
    null="rankings",
    **_FACTS,
    formula="area under [argmax p(. | x without the top share s of its pixels) = label], s = 0, 0.1 … 0.9",
)
def positive_perturbation(
    trial: Trial, *, of: PerturbationMeasure = "accuracy", fill: ImageFill = "black"
) -> Values:
    """Take the highest pixels away first, tenth by tenth, and take the area under the model's accuracy.

    Pixels are ranked in the map over the picture, not by patches. The label is the one that people gave, whichever
    class is explained; over a data set the mean is the area under its accuracy. `of` measures the target's
    probability instead. The authors print a hundred times the area.
    """
    return _compute_outcome(trial, of, fill, lowest=False)


@metric(
    "negative_perturbation",
    direction="higher",
    null="reversed",
    **_FACTS,
    formula="area under [argmax p(. | x without the bottom share s of its pixels) = label], s = 0, 0.1 … 0.9",
)
def negative_perturbation(
    trial: Trial, *, of: PerturbationMeasure = "accuracy", fill: ImageFill = "black"
) -> Values:
    """Take the lowest pixels away first, tenth by tenth, and take the area under the model's accuracy.

    Pixels are ranked in the map over the picture, not by patches. The label is the one that people gave, whichever
    class is explained; over a data set the mean is the area under its accuracy. `of` measures the target's
    probability instead. The authors print a hundred times the area.
    """
    return _compute_outcome(trial, of, fill, lowest=True)


def _compute_outcome(
    trial: Trial, of: PerturbationMeasure, fill: ImageFill, *, lowest: bool
) -> Values:
    """Return the area under correctness, or the target's probability, as pixels go."""
    if why := find_image_obstacle(trial):
        return why
    if of == "accuracy" and trial.task != "single_label":
        return "Accuracy is that of a single label. Measure of=probability instead."
    if of == "accuracy" and trial.truth is None:
        return "The picture has no label, so nothing can be right or wrong. Give labels, or measure of=probability."
    ranks = np.flatnonzero(~trial.flat)
    whole = trial.removed.whole
    shares = np.full((len(trial.names), len(_SHARES), len(whole)), np.nan)
    if len(ranks):
        picture, removed = trial.item.picture, trial.removed
        assert picture is not None, "asked about before"
        bare = replace(trial.item, tokens=(), words=())
        covered = (
            (removed.row, replace(bare, picture=picture.without_pixels(mask, fill)))
            for mask in _build_pixel_masks(trial, ranks.tolist(), lowest)
        )
        predictions = removed.ask.shares(covered).double().cpu().numpy()
        shares[ranks, 0] = whole
        shares[ranks, 1:] = predictions.reshape(len(ranks), len(_TENTHS), -1)
    if of == "probability":
        target = trial.removed.select_target(shares.reshape(-1, len(whole)))
        curves = target.reshape(-1, len(_SHARES))
    else:
        right = (shares.argmax(2) == trial.truth).astype(np.float64)
        curves = np.asarray(np.where(trial.flat[:, None], np.nan, right))
    return Outcome(compute_area(curves, _SHARES), at=_SHARES, curves=curves)


def _build_pixel_masks(
    trial: Trial, rows: Sequence[int], lowest: bool
) -> Iterator[NDArray[np.bool_]]:
    """Yield, for each explanation and each tenth, the mask of removed pixels, (height, width).

    Equal pixels go in an order that is drawn, the same for every explanation.
    """
    maps: Numbers = compute_pixel_maps(trial)
    size = maps.shape[1:]
    pixels = size[0] * size[1]
    drawn = build_generator("pixels", trial.seed, trial.item.key).permutation(pixels)
    for row in rows:
        heights = maps[row].reshape(-1)[drawn]
        order = drawn[np.argsort(heights if lowest else -heights, kind="stable")]
        for tenth in _TENTHS:
            gone = np.zeros(pixels, dtype=bool)
            gone[order[: pixels * tenth // 10]] = True
            yield gone.reshape(size)
