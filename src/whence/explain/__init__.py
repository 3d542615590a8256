"""Explainer, Explanation and Generation: a model in, explanations out."""

from whence.explain.explainer import Explainer, load
from whence.explain.explanation import Explanation, WordScore
from whence.explain.generation import Generation
from whence.explain.inside import Inside

__all__ = ["Explainer", "Explanation", "Generation", "Inside", "WordScore", "load"]
