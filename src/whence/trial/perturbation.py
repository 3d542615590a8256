"""How a model fares as a picture's pixels go, in the order of an explanation (Chefer, Gur & Wolf 2021)."""

from typing import Literal

import numpy as np

from whence.data.vision.picture import Fill
from whence.trial.pixels import TENTHS, no_picture, perturbed
from whence.trial.removed import Numbers
from whence.trial.trial import Trial

Of = Literal["accuracy", "probability"]
AT = np.array([0, *TENTHS]) / 10  # the shares of the picture that are gone


def unperturbable(trial: Trial, of: Of) -> str | None:
    """Say why this cannot be measured on an input, if so."""
    if why := no_picture(trial):
        return why
    if of == "probability":
        return None
    if trial.task != "single_label":
        return "Accuracy is that of a single label. Measure of=probability instead."
    if trial.truth is None:
        return "The picture has no label, so nothing can be right or wrong. Give labels, or measure of=probability."
    return None


def curves(trial: Trial, of: Of, fill: Fill, *, lowest: bool) -> Numbers:
    """Return whether the model is right, or the target's probability, at each share, (explanations, shares)."""
    shares = perturbed(trial, fill, lowest=lowest)
    rows, steps, labels = shares.shape
    if of == "probability":
        flat = shares.reshape(rows * steps, labels)
        return trial.removed.explained(flat).reshape(rows, steps)
    right = (shares.argmax(2) == trial.truth).astype(np.float64)
    return np.asarray(np.where(trial.flat[:, None], np.nan, right))
