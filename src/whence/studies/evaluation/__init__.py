"""Over a data set: how well methods explain a model, with honest statistics, and which one to use."""

from whence.evaluation.advice import Plan, Recommendation, plan, recommend
from whence.evaluation.evaluation import Cell, Evaluation
from whence.evaluation.run import evaluate

__all__ = ["Cell", "Evaluation", "Plan", "Recommendation", "evaluate", "plan", "recommend"]
