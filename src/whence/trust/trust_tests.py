"""Running the tests of a card, as many as the budget allows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np

from whence.core.params import checked
from whence.core.registry import Entry
from whence.core.types import Passes
from whence.data.removal import Removal, calls_per_hole
from whence.metrics import Outcome, metric, null_of, unrankable
from whence.trial import Trial
from whence.trust.figures import curve, found_by, not_tested, told
from whence.trust.rules import FEWEST_RANKINGS, RULES, STEPS, Rule
from whence.trust.words import of_patches

_RANKINGS = 100
_SHUFFLES = 200  # cost no call


class Tests:
    """The tests of one trial under one budget."""

    def __init__(
        self,
        trial: Trial,
        prices: list[int],
        budget: int,
        spent: Callable[[], Passes],
        removals: Sequence[Removal],
        subject: str,
    ) -> None:
        self._trial = trial
        self._prices = prices
        self._budget = budget
        self._spent = spent
        self._subject = subject
        self._start = spent().forward
        self._trials = {how: replace(trial, removed=trial.removed.by(how)) for how in removals}
        self._trials[removals[0]] = trial
        # Every ranking asks about each step but the last, which is the same for all: nothing is left.
        self._points = max(min(len(trial.units), STEPS) - 1, 1)
        self.rankings = 0
        self._ways = sum(calls_per_hole(how) for how in removals)
        fixed = sum(self.calls(rule, how) for rule in RULES if rule.removes for how in removals)
        affordable = max(budget - fixed, 0) // 2 // (self._points * self._ways)
        self.rankings = min(_RANKINGS, _ways_to_rank(trial), affordable)
        if self.rankings < FEWEST_RANKINGS:
            self.rankings = 0

    def calls(self, rule: Rule, how: Removal) -> int:
        """Return the forwards that a test will take, or a little more: what is the same is asked once."""
        if not rule.removes:
            return sum(self._anew(rule, row) for row in range(len(self._prices)))
        if rule.name == "leave_one_out":
            return calls_per_hole(how) * len(self._trial.units)
        # The rankings of one test serve the other, upside down.
        rankings = len(self._prices) + self.rankings * (rule.name == "deletion")
        return calls_per_hole(how) * (self._points * rankings + 1)

    def run(self, rule: Rule, how: Removal) -> list[dict[str, Any]]:
        """Run one test on all explanations."""
        trial, entry = self._trials[how], metric.get(rule.metric)
        params = checked(entry.name, entry.parameters, rule.params)
        left = self._budget - (self._spent().forward - self._start)
        rows, why_not = self._affordable(rule, trial, left)
        outcome: Outcome = entry.fn(trial.only(rows), **params) if rows else Outcome(np.empty(0))
        why_not |= {rows[place]: why for place, why in outcome.why_not.items()}
        nulls = self._nulls(rule, entry, params, trial, [r for r in rows if r not in why_not])
        tests = []
        for row in range(len(trial.names)):
            facts = {"name": rule.name, "remove": how if rule.removes else None}
            facts["direction"] = entry.facts["direction"]
            if row in why_not:
                why = why_not[row] if trial.item.picture is None else of_patches(why_not[row])
                tests.append({**facts, **not_tested(why)})
                continue
            place = rows.index(row)
            value, null = float(outcome.values[place]), nulls.get(row)
            every = entry.facts["null"] != "shuffles" and self.rankings == _ways_to_rank(trial)
            found = found_by(entry, value, null, exhaustive=every, subject=self._subject)
            verdict, why = rule.judge(found)
            if verdict == "not tested":
                tests.append({**facts, **not_tested(why)})
            elif rule.removes:
                line = curve(outcome, place, null)
                tests.append({**facts, **told(found, verdict, why, line)})
            else:
                # Its bounds are on the value itself; a place among shuffles would not decide anything.
                bare = replace(found, percentile=None, chance=None)
                tests.append({**facts, **told(bare, verdict, why, None)})
        return tests

    def _affordable(self, rule: Rule, trial: Trial, left: int) -> tuple[list[int], dict[int, str]]:
        """Return the explanations that can be tested, and for the others why they cannot."""
        everyone = range(len(trial.names))
        if rule.removes and not self.rankings:
            return [], dict.fromkeys(everyone, self._too_few(trial))
        rows, why_not = [], {}
        for row in everyone:
            needed = self._anew(rule, row)
            if needed > left:
                why_not[row] = (
                    f"It takes {needed} model calls to explain the input again, and the budget of {self._budget} "
                    f"leaves {max(left, 0)}."
                )
            else:
                left -= needed
                rows.append(row)
        return rows, why_not

    def _too_few(self, trial: Trial) -> str:
        if why := unrankable(trial):
            return why
        if (ways := _ways_to_rank(trial)) < FEWEST_RANKINGS:
            return f"{len(trial.units)} tokens can be ranked in {ways} ways only: too few to tell it from chance."
        fixed = sum(self.calls(rule, how) for rule in RULES if rule.removes for how in self._trials)
        needed = fixed + 2 * FEWEST_RANKINGS * self._points * self._ways
        return (
            f"The budget of {self._budget} model calls is too small for {FEWEST_RANKINGS} random rankings: it takes "
            f"{needed}."
        )

    def _anew(self, rule: Rule, row: int) -> int:
        """Return the forwards it takes to make an explanation again as often as a test needs it."""
        entry = metric.get(rule.metric)
        again = entry.facts.get("again")
        if again is None:
            return 0
        params = checked(entry.name, entry.parameters, rule.params)
        return int(again(len(self._trial.again.stages), params)) * self._prices[row]

    def _nulls(
        self,
        rule: Rule,
        entry: Entry,
        params: Mapping[str, Any],
        trial: Trial,
        rows: Sequence[int],
    ) -> dict[int, Outcome]:
        """Return what explanations that know nothing get, for each row; random rankings are the same for all."""
        kind = entry.facts["null"]
        if not isinstance(kind, str) or not rows:
            return {}
        if kind == "shuffles":
            return {
                row: entry.fn(null_of(entry, trial.only([row]), 0, _SHUFFLES), **params)
                for row in rows
            }
        shared = entry.fn(null_of(entry, trial, 0, self.rankings), **params)
        return dict.fromkeys(rows, shared)


def _ways_to_rank(trial: Trial) -> int:
    """Return in how many ways the units can be ranked, or a number above all that is needed."""
    return factorial(min(len(trial.units), 12))


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
