"""Training of classifiers: RNNs with attention as in Jain & Wallace, and Transformers."""

from whence.studies.training.fit import Epoch, FitResult, fit
from whence.studies.training.performance import (
    LabelledInput,
    Performance,
    compute_performance,
    measure_performance,
    roc_auc,
)
from whence.studies.training.recipe import RECIPES, Recipe
from whence.studies.training.train import TrainingResult, train_attention

__all__ = [
    "RECIPES",
    "Epoch",
    "FitResult",
    "LabelledInput",
    "Performance",
    "Recipe",
    "TrainingResult",
    "compute_performance",
    "fit",
    "measure_performance",
    "roc_auc",
    "train_attention",
]
