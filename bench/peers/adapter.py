"""Base class of the peers' adapters: explaining by three kinds of method, pairs, wrong targets, metrics.

This file and all it imports run inside the environment of a peer: the standard library, torch, transformers and
numpy are there, whence is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any


class Absent(Exception):
    """Error of a feature that the library does not have; the message may name its substitute."""


@dataclass
class TokenScores:
    """Scores as a library gives them."""

    tokens: list[str]
    scores: list[float]
    segments: list[int] | None = None  # of a pair: which text a token is of, if the library says
    remark: str = ""  # what a reader should know besides


class Adapter:
    """One library and one model; the library lacks the features that are not overridden."""

    causal = False  # explains the next token of a language model instead of a class
    takes_lists = False
    explains = "logit"  # or "probability": the output that is explained
    baseline = "padding"  # of integrated gradients: see bench/peers/reference.py
    called = ""  # how it was called, in words or one line of code
    names: dict[str, str] = {}  # the library's name for each kind of method
    metrics: dict[str, str] = {}  # name -> module:attribute of its measures of faithfulness

    def __init__(self, model: Any, tokenizer: Any, target: int) -> None:
        self.model, self.tokenizer, self.target = model, tokenizer, target

    def get_explainer(self, kind: str) -> Callable[..., list[TokenScores]]:
        """Return the method that explains by a kind: gradient, integrated or perturbation."""
        explainers = {
            "gradient": self.explain_by_gradient,
            "integrated": self.integrate_gradients,
            "perturbation": self.explain_by_perturbation,
        }
        return explainers[kind]

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        """Return every method that the library documents for such a model, ready to be run."""
        raise Absent("no methods")

    def explain_by_gradient(self, texts: Sequence[str]) -> list[TokenScores]:
        """Explain by one gradient."""
        raise Absent("no gradient")

    def integrate_gradients(
        self, texts: Sequence[str], steps: int | None = None
    ) -> list[TokenScores]:
        """Explain by integrated gradients, with the library's own number of steps or another."""
        raise Absent("no integrated gradients")

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        """Explain by changed inputs, with the library's default method."""
        raise Absent("no perturbation")

    def explain_list(self, texts: Sequence[str]) -> Any:
        """Pass a list of texts to a library that documents single texts only."""
        raise Absent("takes one text")

    def explain_pair(self, first: str, second: str) -> TokenScores:
        """Explain a pair of texts."""
        raise Absent("takes no pairs")

    def explain_wrong_target(self, text: str) -> Any:
        """Explain a class that the model does not have."""
        raise Absent("takes no target")

    def compute_rise(self, text: str) -> float | None:
        """Return f(x) - f(baseline) if the library reports f(baseline); None to have it computed."""
        return None

    def list_metrics(self) -> list[str]:
        """Return the names of the library's faithfulness metrics; a missing one raises."""
        there = []
        for name, place in self.metrics.items():
            module, _, attribute = place.partition(":")
            getattr(import_module(module), attribute)
            there.append(name)
        return there
