"""What a model does over a data set: its predictions, the words its classes lean on, the habits of its heads."""

from whence.survey.habits import habits
from whence.survey.predictions import predictions
from whence.survey.words import words

__all__ = ["habits", "predictions", "words"]
