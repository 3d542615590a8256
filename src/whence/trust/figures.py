"""The figures of a test: its place among explanations that know nothing, and the curve to draw."""

from dataclasses import replace
from typing import Any

import numpy as np

from whence.core.registry import Entry
from whence.metrics import Outcome
from whence.stats.interval import Percentile, percentile
from whence.trial.removed import Numbers
from whence.trust.rules import Found, Null, Verdict


def found_by(
    entry: Entry, value: float, null: Outcome | None, *, exhaustive: bool, subject: str
) -> Found:
    """Hold a value against its null; `exhaustive` says that the null has every ranking there is."""
    place = _place(entry, value, null)
    if place is not None and exhaustive:  # counted, not estimated
        place = replace(place, low=place.percent, high=place.percent)
    return Found(
        value, _summary(entry, null), place, _chance(place, exhaustive), exhaustive, subject
    )


def _known(null: Outcome) -> Numbers:
    values: Numbers = null.values[~np.isnan(null.values)]
    return values


def _summary(entry: Entry, null: Outcome | None) -> Null | None:
    if null is None:
        fixed = entry.facts["null"]
        return None if isinstance(fixed, str) else Null(fixed, fixed, fixed)
    values = _known(null)
    if not len(values):
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    return Null(float(values.mean()), float(low), float(high))


def _place(entry: Entry, value: float, null: Outcome | None) -> Percentile | None:
    if null is None or not len(values := _known(null)):
        return None
    return percentile(value, values, entry.facts["direction"] == "higher")


def _chance(place: Percentile | None, exhaustive: bool) -> float | None:
    """Return how often knowing nothing does as well or better.

    Of a sample that is a p-value, in which the explanation itself counts as one more draw; where every ranking was
    tried, the explanation's is among them.
    """
    if place is None:
        return None
    as_good = place.of - place.beaten
    return as_good / place.of if exhaustive else (as_good + 1) / (place.of + 1)


def curve(outcome: Outcome, place: int, null: Outcome | None) -> dict[str, Any] | None:
    """Return an explanation's curve with the band in which 95 of 100 random ones lie."""
    if outcome.curves is None or outcome.at is None or null is None or null.curves is None:
        return None
    low, high = np.quantile(null.curves, [0.025, 0.975], axis=0)
    return {
        "at": outcome.at.tolist(),
        "values": outcome.curves[place].tolist(),
        "null_low": low.tolist(),
        "null_mean": null.curves.mean(0).tolist(),
        "null_high": high.tolist(),
    }


def told(found: Found, verdict: Verdict, why: str, curve: Any) -> dict[str, Any]:
    """Return a test as the card has it."""
    place, null = found.percentile, found.null
    return {
        "value": found.value,
        "null": null and {"mean": null.mean, "low": null.low, "high": null.high},
        "percentile": place and place.percent,
        "interval": place and [place.low, place.high],
        "beaten": place and place.beaten,
        "tied": place and place.tied,
        "of": place and place.of,
        "chance": found.chance,
        "verdict": verdict,
        "why": why,
        "curve": curve,
    }


def not_tested(why: str) -> dict[str, Any]:
    """Return a test that could not be made, as the card has it."""
    blank = ("value", "null", "percentile", "interval", "beaten", "tied", "of", "chance")
    return {**dict.fromkeys(blank), "verdict": "not tested", "why": why, "curve": None}
