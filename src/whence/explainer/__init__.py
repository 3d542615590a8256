"""Explaining: a model in, explanations out."""

from whence.explainer.explainer import Explainer, load
from whence.explainer.explanation import Explanation, WordScore

__all__ = ["Explainer", "Explanation", "WordScore", "load"]
