"""Metrics: one file each, registered by one decorator.

A metric is `fn(trial, *, ...)`. It returns an `Outcome`: one value for each explanation of the trial, or a sentence
that says why that one cannot be tested. What its null is, the value that explanations which know nothing get, follows
from how it is registered; nothing about it is written into the metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np

from whence.core.errors import BadMethod, UnknownMetric
from whence.core.registry import Entry, Registry
from whence.trial import Trial
from whence.trial.removed import Numbers

KINDS = ("faithfulness", "plausibility", "robustness", "sanity", "agreement")
# rankings: random rankings of the same input; reversed: the same upside down, for metrics of what is kept;
# shuffles: the explanation's own scores, dealt out anew, where their sizes count and not their order alone.
NULLS = ("rankings", "reversed", "shuffles")

TIED = "All scores are equal: there is no ranking to test."
NOTHING = "The input has no token that can be removed."
NO_PROMISE = "It makes no such promise."
NOTHING_PROMISED = "There is nothing to miss a part of: what the scores should add up to is 0."
ALONE = "The input has only one token that can be removed: there is nothing to rank."


@dataclass(frozen=True)
class Outcome:
    """What a metric found: a value per explanation, NaN exactly where `why_not` says why."""

    values: Numbers
    why_not: Mapping[int, str] = field(default_factory=dict)
    at: Numbers | None = None  # of a curve: the shares
    curves: Numbers | None = None  # of a curve: (explanations, shares)
    parts: Mapping[str, Numbers] = field(default_factory=dict)  # what the value is made of
    pairs: Numbers | None = None  # of agreement: (explanations, explanations)
    error: str | None = None  # the code of the error, where one is why nothing could be tested


def untestable(trial: Trial, why: str) -> Outcome:
    """Return the outcome of a trial in which no explanation can be tested."""
    rows = len(trial.names)
    return Outcome(np.full(rows, np.nan), dict.fromkeys(range(rows), why))


def ranked(trial: Trial, values: Numbers, **more: Any) -> Outcome:
    """Return the outcome of a metric of rankings: an explanation that ranks nothing has no value."""
    flat = {int(row): TIED for row in np.flatnonzero(trial.flat)}
    return Outcome(np.where(trial.flat, np.nan, values), flat, **more)


def reasoned(
    values: Numbers, why_not: Mapping[int, str], otherwise: str = TIED, **more: Any
) -> Outcome:
    """Return the outcome of values of which some are NaN: each of these has a reason, or is there `otherwise`."""
    unknown = np.flatnonzero(np.isnan(values)).tolist()
    return Outcome(values, {row: why_not.get(row, otherwise) for row in unknown}, **more)


def unrankable(trial: Trial) -> str | None:
    """Say why no ranking of this input can be tested, if so."""
    if not trial.units:
        return NOTHING
    return ALONE if len(trial.units) == 1 else None


def null_of(entry: Entry, trial: Trial, row: int, draws: int) -> Trial:
    """Return the trial of explanations that know nothing, which gives a metric's null for the one in `row`."""
    kind = entry.facts["null"]
    if kind == "shuffles":
        return trial.shuffled(row, draws)
    return trial.null(draws, reverse=kind == "reversed")


def _check(entry: Entry) -> None:
    """Refuse a metric that could only fail later, and less clearly."""
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


# kind: what it tests; direction: whether more or less is better; range: between which values it lies; null: what
# explanations that know nothing get (see NULLS; a number where no explanation need be drawn to know it); cite: where
# it comes from; formula: what it computes; cost: in forwards; misleads_when: how it goes wrong.
# Optional: aggregate(parts) makes one number for a data set of what the parts of all examples are, each (examples,),
# where that is not the mean of the values; again: the number of explanations to be made anew, by stages and
# parameters; rationales: True if it needs those of people; takes: "text" or "picture" if it makes sense for one of
# them only; group: a name by which several are asked for together; aim: "reach" if the null is what a good
# explanation gets, where it is otherwise to be beaten.
metric = Registry(
    kind="metric",
    package="whence.metrics",
    check=_check,
    unknown=UnknownMetric,
    required=frozenset(
        {"kind", "direction", "range", "null", "cite", "formula", "cost", "misleads_when"}
    ),
)

__all__ = [
    "KINDS",
    "NULLS",
    "Outcome",
    "metric",
    "null_of",
    "ranked",
    "reasoned",
    "unrankable",
    "untestable",
]
