"""From a finding and a threshold that was stated before it to one of three words."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from whence.audit.experiments import Finding, Numbers
from whence.core.registry import Entry
from whence.stats import Interval, bootstrap

Verdict = Literal["holds", "fails", "undecided"]

# The bootstrap of few examples is too narrow, most of all where nearly all of them are alike. Of predictions of which
# a tenth changes, just as many as are asked for, the whole interval lies below that in 55 of 100 draws of 5 examples,
# in 32 of 10, in 13 of 20 and in 4 of 30 or 60, where it should be in 2 or 3; of which a fifth changes, in 33, 10, 1
# and 0 (bench/verdicts.py).
FEWEST = 20


def judged(entry: Entry, finding: Finding, seed: int) -> dict[str, Any]:
    """Return the verdict, the effect, its interval and n; a hypothesis holds or fails by a whole interval only."""
    interval = _interval(finding.values, finding, (entry.name, seed))
    verdict, why = _verdict(entry, finding, interval)
    return {
        "verdict": verdict,
        "why": why,
        **_figures(interval),
        "chance": finding.chance,
        "by_site": _each("site", finding.by_site, finding, entry.name, seed),
        "by_class": _each("class", finding.by_class, finding, entry.name, seed),
    }


def _verdict(
    entry: Entry, finding: Finding, interval: Interval | None
) -> tuple[Verdict, str | None]:
    if finding.undecided is not None:
        return "undecided", finding.undecided
    if interval is None:
        return "undecided", "No example gave a number."
    if interval.n < FEWEST or interval.low is None or interval.high is None:
        said = f"{interval.n} example{'s are' if interval.n > 1 else ' is'}"
        return "undecided", f"{said} too few: {FEWEST} are needed for a verdict."
    above = entry.facts["direction"] == "above"
    threshold = float(entry.facts["threshold"])
    if interval.low > threshold:
        return ("holds" if above else "fails"), None
    if interval.high < threshold:
        return ("fails" if above else "holds"), None
    return (
        "undecided",
        f"The interval contains the threshold {threshold:g}: more examples may decide.",
    )


def _interval(values: Numbers, finding: Finding, key: tuple[str | int, ...]) -> Interval | None:
    known = np.isfinite(values) if values.ndim == 1 else np.isfinite(values).all(1)
    if not known.any():
        return None
    # The same examples in another order are the same data: the order must not change what is drawn.
    rows = values[known]
    rows = rows[np.lexsort(rows.T[::-1])] if rows.ndim > 1 else np.sort(rows)
    return bootstrap(rows, ("audit", *key), statistic=finding.statistic)


def _figures(interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return {"effect": None, "interval": None, "n": 0}
    known = interval.low is not None
    return {
        "effect": interval.mean,
        "interval": [interval.low, interval.high] if known else None,
        "n": interval.n,
    }


def _each(
    what: str, groups: Mapping[str, Numbers], finding: Finding, name: str, seed: int
) -> list[dict[str, Any]]:
    return [
        {what: group, **_figures(_interval(values, finding, (name, group, seed)))}
        for group, values in groups.items()
    ]
