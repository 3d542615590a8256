"""How long each method takes to explain an example of the data at hand: measured, as calls do not tell it.

Methods that make as many calls may differ by fifty times in what they do between them.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import WhenceError
from whence.explainer import Explainer
from whence.explainer.request import Request

# What asks the model more often than this is not run to be timed: its calls are counted, at the time of one.
_MOST_CALLS = 100


@dataclass(frozen=True)
class Timed:
    """The seconds of one forward pass, of each method on one example, and the forward passes that it took to know."""

    forward: float
    methods: dict[str, float]  # without those that do not work here
    calls: int


def timed(explainer: Explainer, asked: Sequence[Request], given: Any, tokens: int) -> Timed:
    """Explain one example by each method alone, and time it: what reads a trace twice, as the first time warms up."""
    found: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # what is to be said is said when the examples are explained
        forward, calls = _second(lambda: explainer.predict(given, truncate=True)), 2
        for request in asked:
            extra = 0 if request.reads else request.extra_forwards(tokens)
            if extra > _MOST_CALLS:
                found[request.name] = forward * (1 + extra)
                continue
            explain = _explaining(explainer, request, given)
            try:
                found[request.name] = _second(explain) if request.reads else _took(explain)
            except WhenceError:  # the table will say why it cannot be tested
                continue
            finally:
                calls += 2 if request.reads else 1 + extra
    return Timed(forward, found, calls)


def _explaining(explainer: Explainer, request: Request, given: Any) -> Callable[[], Any]:
    return lambda: explainer.explain(
        given, method=request.name, params=request.params, truncate=True
    )


def _second(run: Callable[[], Any]) -> float:
    run()
    return _took(run)


def _took(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
