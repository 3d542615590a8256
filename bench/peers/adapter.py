"""What the ruler asks of a library; each adapter answers in the library's own documented way.

This file and all it imports run inside the environment of a peer: the standard library, torch, transformers and
numpy are there, whence is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any


class Absent(Exception):
    """The library has no such thing. The message says so, or what it has instead."""


@dataclass
class Given:
    """Scores as a library gives them."""

    tokens: list[str]
    scores: list[float]
    segments: list[int] | None = None  # of a pair: which text a token is of, if the library says
    remark: str = ""  # what a reader should know besides


class Adapter:
    """One library and one model. What is not overridden, the library does not have."""

    causal = False  # explains the next token of a language model instead of a class
    takes_lists = False
    explains = "logit"  # or "probability": of what the scores are shares
    baseline = "padding"  # of integrated gradients: see bench/peers/plain.py
    called = ""  # how it was called, in words or one line of code
    names: dict[str, str] = {}  # the library's name for each kind of method
    metrics: dict[str, str] = {}  # name -> module:attribute of its measures of faithfulness

    def __init__(self, model: Any, tokenizer: Any, target: int) -> None:
        self.model, self.tokenizer, self.target = model, tokenizer, target

    def methods(self, text: str) -> dict[str, Callable[[], Any]]:
        """Return every method that the library documents for such a model, ready to be run."""
        raise Absent("no methods")

    def gradient(self, texts: Sequence[str]) -> list[Given]:
        """Explain by one gradient."""
        raise Absent("no gradient")

    def integrated(self, texts: Sequence[str], steps: int | None = None) -> list[Given]:
        """Explain by integrated gradients, with the library's own number of steps or another."""
        raise Absent("no integrated gradients")

    def perturbation(self, texts: Sequence[str]) -> list[Given]:
        """Explain by changed inputs, in the library's usual way."""
        raise Absent("no perturbation")

    def several(self, texts: Sequence[str]) -> Any:
        """Hand the library a list of texts at once; asked of those that have no other way to take one."""
        raise Absent("takes one text")

    def pair(self, first: str, second: str) -> Given:
        """Explain a pair of texts."""
        raise Absent("takes no pairs")

    def wrong(self, text: str) -> Any:
        """Ask for a class that the model does not have."""
        raise Absent("takes no target")

    def rise(self, text: str) -> float | None:
        """Return f(x) - f(baseline) if the library says f(baseline) itself; None to have it computed."""
        return None

    def offered(self) -> list[str]:
        """Return the names of the measures of faithfulness that are really there."""
        there = []
        for name, place in self.metrics.items():
            module, _, attribute = place.partition(":")
            getattr(import_module(module), attribute)
            there.append(name)
        return there
