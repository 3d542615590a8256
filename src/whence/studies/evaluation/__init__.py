"""Evaluation of methods by metrics over a data set, and the recommendation of a method."""

from whence.studies.evaluation.evaluate import evaluate
from whence.studies.evaluation.evaluation import Cell, Evaluation
from whence.studies.evaluation.recommend import (
    Recommendation,
    RecommendationPlan,
    plan_recommendation,
    recommend,
)

__all__ = [
    "Cell",
    "Evaluation",
    "Recommendation",
    "RecommendationPlan",
    "evaluate",
    "plan_recommendation",
    "recommend",
]
