"""Metrics: one file each, registered by one decorator.

A metric is `fn(trial, *, ...)`. It returns one value for each explanation of the trial, as an array or with more in
an `Outcome`, or a sentence that says why this input cannot be tested. What it needs of the model it yields, as a request of
the trial, and is sent the answer; many metrics and trials are then answered in shared batches. Its null, the value of
random explanations, follows from its registration; the metric itself does not compute it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import isgenerator, signature
from typing import Any

import numpy as np

from whence.core.errors import BadMethod, UnknownMetric
from whence.core.registry import Entry, Registry
from whence.metrics._requests import Numbers, Steps, run_together
from whence.metrics._trial import Trial

KINDS = ("faithfulness", "plausibility", "robustness", "sanity", "agreement")
# rankings: random rankings of the same input; reversed: the same upside down, for metrics that keep tokens;
# shuffles: the explanation's own scores in random order, where their sizes count and not their ranks alone.
NULLS = ("rankings", "reversed", "shuffles")

ALL_EQUAL = "All scores are equal: there is no ranking to test."
NOTHING_REMOVABLE = "The input has no token that can be removed."
NO_PROMISE = "It makes no such promise."
NOTHING_PROMISED = "There is nothing to miss a part of: what the scores should add up to is 0."
ONE_TOKEN = "The input has only one token that can be removed: there is nothing to rank."


@dataclass(frozen=True)
class Outcome:
    """The result of a metric: a value per explanation, NaN exactly where `why_not` has a reason.

    Of a `ranking` metric, explanations with all scores equal get no value, and that as the reason.
    """

    values: Numbers
    why_not: Mapping[int, str] = field(default_factory=dict)
    at: Numbers | None = None  # of a curve: the shares
    curves: Numbers | None = None  # of a curve: (explanations, shares)
    parts: Mapping[str, Numbers] = field(default_factory=dict)  # components of the value
    pairs: Numbers | None = None  # of agreement: (explanations, explanations)
    error: str | None = None  # the code of the error that prevented the test
    ranking: bool = True


def build_untestable_outcome(trial: Trial, why: str) -> Outcome:
    """Return the outcome of a trial in which no explanation can be tested."""
    rows = len(trial.names)
    return Outcome(np.full(rows, np.nan), dict.fromkeys(range(rows), why), ranking=False)


def build_outcome(
    values: Numbers, why_not: Mapping[int, str], otherwise: str = ALL_EQUAL, **more: Any
) -> Outcome:
    """Return an outcome with a reason for each NaN: that of `why_not`, or `otherwise`."""
    unknown = np.flatnonzero(np.isnan(values)).tolist()
    reasons = {row: why_not.get(row, otherwise) for row in unknown}
    return Outcome(values, reasons, ranking=False, **more)


def find_ranking_obstacle(trial: Trial) -> str | None:
    """Return the reason why no ranking of this input can be tested; None if one can."""
    if not trial.units:
        return NOTHING_REMOVABLE
    return ONE_TOKEN if len(trial.units) == 1 else None


def run_metric(entry: Entry, trial: Trial, params: Mapping[str, Any]) -> Steps[Outcome]:
    """Run a metric as a generator of its requests, to be answered together with others."""
    steps: Steps[Outcome] = entry.fn.steps(trial, **params)  # type: ignore[attr-defined]
    return steps


# What a metric returns: values, or more than values, or the sentence that says why this input cannot be tested.
Values = Numbers | Outcome | str


def build_null_trial(entry: Entry, trial: Trial, row: int, draws: int) -> Trial:
    """Return a trial of random explanations, which gives the metric's null for the one in `row`."""
    kind = entry.facts["null"]
    if kind == "shuffles":
        return trial.with_shuffled_scores(row, draws)
    return trial.null(draws, reverse=kind == "reversed")


def _check(entry: Entry) -> None:
    """Refuse a metric with a wrong signature, kind, direction or null, at registration."""
    where = f"The metric {entry.name!r} ({entry.fn.__module__}.{entry.fn.__qualname__})"
    positional = [
        p.name for p in signature(entry.fn).parameters.values() if p.kind is not p.KEYWORD_ONLY
    ]
    if positional != ["trial"]:
        raise BadMethod(f"{where} must take (trial, *, ...). It takes {positional}.")
    low, high = entry.facts["range"]
    allowed: dict[str, Any] = {"kind": KINDS, "direction": ("higher", "lower")}
    for fact, known in allowed.items():
        if entry.facts[fact] not in known:
            raise BadMethod(f"{where} must state {fact} out of {known}. Got {entry.facts[fact]!r}.")
    null = entry.facts["null"]
    if null not in NULLS and not (isinstance(null, int | float) and low <= null <= high):
        raise BadMethod(f"{where} must state a null out of {NULLS} or a number. Got {null!r}.")


def _wrap(fn: Callable[..., Any], facts: Mapping[str, Any]) -> Callable[..., Outcome]:
    """Return a metric that may be called with a trial: what it asks is then answered at once."""

    def steps(trial: Trial, **params: Any) -> Steps[Outcome]:
        result = fn(trial, **params)
        if isgenerator(result):
            result = yield from result
        if isinstance(result, str):
            return build_untestable_outcome(trial, result)
        outcome = result if isinstance(result, Outcome) else Outcome(result)
        if not outcome.ranking or not trial.flat.any():
            return outcome
        flat = {int(row): ALL_EQUAL for row in np.flatnonzero(trial.flat)}
        return replace(outcome, values=np.where(trial.flat, np.nan, outcome.values), why_not=flat)

    @wraps(fn)
    def run(trial: Trial, **params: Any) -> Outcome:
        outcome: Outcome = run_together([steps(trial, **params)])[0]
        return outcome

    run.steps = steps  # type: ignore[attr-defined]
    return run


# The facts that a metric states:
# kind: one of KINDS.
# direction: "higher" or "lower" is better.
# range: the smallest and the largest value.
# null: the value of random explanations: one of NULLS, or a number if it is known without draws.
# cite, formula, cost (in forward passes), misleads_when (how it goes wrong): texts for its card.
# Optional facts:
# aggregate(parts): one number for a data set from the parts of all examples, each (examples,); default: the mean value.
# again: the number of repeated explanations, by stages and parameters.
# rationales: True if it needs human rationales.
# takes: "text" or "picture" if it applies to one of them only.
# group: a name that selects several metrics together.
# aim: "reach" if a good explanation reaches the null; by default it must beat the null.
metric = Registry(
    kind="metric",
    package="whence.metrics",
    check=_check,
    wrap=_wrap,
    unknown=UnknownMetric,
    required=frozenset(
        {"kind", "direction", "range", "null", "cite", "formula", "cost", "misleads_when"}
    ),
)

__all__ = [
    "KINDS",
    "NULLS",
    "Outcome",
    "Steps",
    "Trial",
    "Values",
    "build_null_trial",
    "build_outcome",
    "build_untestable_outcome",
    "find_ranking_obstacle",
    "metric",
    "run_metric",
]
