"""Explaining: a model in, explanations out."""

from whence.explainer.explainer import Explainer
from whence.explainer.explanation import Explanation, WordScore
from whence.explainer.generation.generation import Generation
from whence.explainer.inside.inside import Inside
from whence.explainer.loading import load

__all__ = ["Explainer", "Explanation", "Generation", "Inside", "WordScore", "load"]
