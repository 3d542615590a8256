"""Explanations of a picture as maps over its pixels, and the picture with pixels taken away in their order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whence.core.seed import generator
from whence.data.vision.picture import Fill
from whence.stats.segmentation import GROUND, OBJECT
from whence.trial.removed import Numbers
from whence.trial.trial import Trial
from whence.view.heat import heatmap

TENTHS = range(1, 10)  # how much of the picture is taken away, as in the authors' code


def no_picture(trial: Trial) -> str | None:
    """Say why explanations of this input are no maps of a picture, if so."""
    if trial.item.picture is None:
        return "It is measured on the pixels of a picture, and this input is a text."
    return None


def unoutlined(trial: Trial) -> str | None:
    """Say why no map of this input can be compared with an outline, if so."""
    if why := no_picture(trial):
        return why
    if trial.mask is None:
        return "There is no mask for this picture: nobody outlined what is on it."
    if not (trial.mask == OBJECT).any():
        return "The mask marks nothing of this picture: there is nothing to find."
    if not (trial.mask == GROUND).any():
        return "The mask marks all of this picture: nothing could be wrong."
    return None


def maps(trial: Trial) -> Numbers:
    """Return each explanation spread over the picture as the model sees it, (explanations, height, width).

    Methods that give every pixel a score are taken at their word.
    """
    picture = trial.item.picture
    assert picture is not None, "asked about before"
    _, height, width = picture.pixels.shape
    fine = trial.fine or (None,) * len(trial.scores)
    return np.stack(
        [
            heatmap(row, picture.grid, (height, width)) if own is None else own.astype(np.float64)
            for row, own in zip(trial.scores, fine, strict=True)
        ]
    )


def perturbed(trial: Trial, fill: Fill, *, lowest: bool) -> Numbers:
    """Return what every label gets with more and more pixels gone, (explanations, steps, labels); none at first.

    The highest pixels of the map go first, or the lowest. An explanation that ranks nothing has NaN.
    """
    ranks = np.flatnonzero(~trial.flat)
    labels = len(trial.removed.whole)
    found = np.full((len(trial.names), 1 + len(TENTHS), labels), np.nan)
    if len(ranks):
        asked = trial.removed.covered(trial.item, _covers(trial, ranks.tolist(), lowest), fill)
        found[ranks, 1:] = asked.reshape(len(ranks), len(TENTHS), labels)
        found[ranks, 0] = trial.removed.whole
    return found


def _covers(
    trial: Trial, rows: Sequence[int], lowest: bool
) -> Iterator[np.ndarray[Any, np.dtype[np.bool_]]]:
    """Yield, for each explanation and each tenth, the pixels that are gone, (height, width).

    Equal pixels go in an order that is drawn, the same for every explanation.
    """
    every = maps(trial)
    size = every.shape[1:]
    pixels = size[0] * size[1]
    drawn = generator("pixels", trial.seed, trial.item.key).permutation(pixels)
    for row in rows:
        heights = every[row].reshape(-1)[drawn]
        order = drawn[np.argsort(heights if lowest else -heights, kind="stable")]
        for tenth in TENTHS:
            gone = np.zeros(pixels, dtype=bool)
            gone[order[: pixels * tenth // 10]] = True
            yield gone.reshape(size)
