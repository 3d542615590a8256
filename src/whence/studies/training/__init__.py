"""Training: classifiers of words with attention as in Jain & Wallace, and Transformers, by a recipe."""

from whence.training.attention import Trained, train_attention
from whence.training.course import Epoch, Fitted
from whence.training.fit import fit
from whence.training.performance import Performance, Row, judged, performance, roc_auc
from whence.training.recipe import RECIPES, Recipe

__all__ = [
    "RECIPES",
    "Epoch",
    "Fitted",
    "Performance",
    "Recipe",
    "Row",
    "Trained",
    "fit",
    "judged",
    "performance",
    "roc_auc",
    "train_attention",
]
