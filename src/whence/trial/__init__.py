"""What a metric is given: explanations of one input, side by side, and the model to test them on."""

from whence.trial.changes import (
    Again,
    Anew,
    Beside,
    Change,
    Dropout,
    Noise,
    OtherClass,
    Padded,
    Randomised,
)
from whence.trial.removed import Removed
from whence.trial.trial import Trial

__all__ = [
    "Again",
    "Anew",
    "Beside",
    "Change",
    "Dropout",
    "Noise",
    "OtherClass",
    "Padded",
    "Randomised",
    "Removed",
    "Trial",
]
