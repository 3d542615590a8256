"""Trust card tests: run within a budget, compared with random rankings, and written as curves and JSON.

At most 100 random rankings, or all of them where there are fewer. For a sample, chance is a p-value in
which the explanation counts as one more draw; where every ranking was tried, it is their share.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np

from whence.core.params import resolve_parameters
from whence.core.registry import Entry
from whence.core.types import PassCount
from whence.data.removal import Removal, count_passes_per_removal
from whence.metrics import Outcome, build_null_trial, find_ranking_obstacle, metric
from whence.metrics._trial import Numbers, Trial
from whence.stats.intervals import Percentile, percentile
from whence.trust.report import to_patch_wording
from whence.trust.trust_rules import (
    MIN_RANKINGS,
    REMOVAL_STEPS,
    VERDICT_RULES,
    Measurement,
    NullSummary,
    Verdict,
    VerdictRule,
)


def measure_against_null(
    entry: Entry, value: float, null: Outcome | None, *, exhaustive: bool, subject: str
) -> Measurement:
    """Compare a value with its null; `exhaustive`: the null holds every possible ranking."""
    place = _compute_percentile(entry, value, null)
    if place is not None and exhaustive:  # exact, so no interval
        place = replace(place, low=place.percent, high=place.percent)
    return Measurement(
        value,
        _summarise_null(entry, null),
        place,
        _compute_chance(place, exhaustive),
        exhaustive,
        subject,
    )


def _drop_nan(null: Outcome) -> Numbers:
    values: Numbers = null.values[~np.isnan(null.values)]
    return values


def _summarise_null(entry: Entry, null: Outcome | None) -> NullSummary | None:
    if null is None:
        fixed = entry.facts["null"]
        return None if isinstance(fixed, str) else NullSummary(fixed, fixed, fixed)
    values = _drop_nan(null)
    if not len(values):
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    return NullSummary(float(values.mean()), float(low), float(high))


def _compute_percentile(entry: Entry, value: float, null: Outcome | None) -> Percentile | None:
    if null is None or not len(values := _drop_nan(null)):
        return None
    return percentile(value, values, entry.facts["direction"] == "higher")


def _compute_chance(place: Percentile | None, exhaustive: bool) -> float | None:
    """Return how often random rankings do as well or better.

    For a sample it is a p-value, in which the explanation itself counts as one more draw; if every ranking was tried,
    the explanation's is among them.
    """
    if place is None:
        return None
    as_good = place.of - place.beaten
    return as_good / place.of if exhaustive else (as_good + 1) / (place.of + 1)


def build_test_curve(outcome: Outcome, place: int, null: Outcome | None) -> dict[str, Any] | None:
    """Return an explanation's curve, with the band that holds 95 of 100 random ones."""
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


def to_test_dict(test: Measurement, verdict: Verdict, why: str, curve: Any) -> dict[str, Any]:
    """Return a test as in the card's JSON object."""
    place, null = test.percentile, test.null
    return {
        "value": test.value,
        "null": null and {"mean": null.mean, "low": null.low, "high": null.high},
        "percentile": place and place.percent,
        "interval": place and [place.low, place.high],
        "beaten": place and place.beaten,
        "tied": place and place.tied,
        "of": place and place.of,
        "chance": test.chance,
        "verdict": verdict,
        "why": why,
        "curve": curve,
    }


def build_untested_dict(why: str) -> dict[str, Any]:
    """Return a test that could not be run, as in the card's JSON object."""
    blank = ("value", "null", "percentile", "interval", "beaten", "tied", "of", "chance")
    return {**dict.fromkeys(blank), "verdict": "not tested", "why": why, "curve": None}


_MAX_RANKINGS = 100
_N_SHUFFLES = 200  # shuffles need no forward pass


class TrustTestRunner:
    """Runs the tests of one trial within one budget."""

    def __init__(
        self,
        trial: Trial,
        prices: list[int],
        budget: int,
        spent: Callable[[], PassCount],
        removals: Sequence[Removal],
        subject: str,
    ) -> None:
        self._trial = trial
        self._prices = prices
        self._budget = budget
        self._spent = spent
        self._subject = subject
        self._start = spent().forward
        self._trials = {
            how: replace(trial, removed=trial.removed.with_removal(how)) for how in removals
        }
        self._trials[removals[0]] = trial
        # Every ranking queries all steps but the last, which removes everything.
        self._points = max(min(len(trial.units), REMOVAL_STEPS) - 1, 1)
        self.rankings = 0
        self._ways = sum(count_passes_per_removal(how) for how in removals)
        fixed = sum(
            self.count_calls(rule, how)
            for rule in VERDICT_RULES
            if rule.removes
            for how in removals
        )
        affordable = max(budget - fixed, 0) // 2 // (self._points * self._ways)
        self.rankings = min(_MAX_RANKINGS, _count_rankings(trial), affordable)
        if self.rankings < MIN_RANKINGS:
            self.rankings = 0

    def count_calls(self, rule: VerdictRule, how: Removal) -> int:
        """Return an upper bound on a test's forward passes; equal queries are made only once."""
        if not rule.removes:
            return sum(self._count_repeat_calls(rule, row) for row in range(len(self._prices)))
        if rule.name == "leave_one_out":
            return count_passes_per_removal(how) * len(self._trial.units)
        # Sufficiency reuses the queries of deletion, with reversed rankings.
        rankings = len(self._prices) + self.rankings * (rule.name == "deletion")
        return count_passes_per_removal(how) * (self._points * rankings + 1)

    def run(self, rule: VerdictRule, how: Removal) -> list[dict[str, Any]]:
        """Run one test on all explanations."""
        trial, entry = self._trials[how], metric.get(rule.metric)
        params = resolve_parameters(entry.name, entry.parameters, rule.params)
        left = self._budget - (self._spent().forward - self._start)
        rows, why_not = self._select_affordable(rule, trial, left)
        outcome: Outcome = (
            entry.fn(trial.select_rows(rows), **params) if rows else Outcome(np.empty(0))
        )
        why_not |= {rows[place]: why for place, why in outcome.why_not.items()}
        nulls = self._compute_nulls(
            rule, entry, params, trial, [r for r in rows if r not in why_not]
        )
        tests = []
        for row in range(len(trial.names)):
            facts = {"name": rule.name, "remove": how if rule.removes else None}
            facts["direction"] = entry.facts["direction"]
            if row in why_not:
                why = why_not[row] if trial.item.picture is None else to_patch_wording(why_not[row])
                tests.append({**facts, **build_untested_dict(why)})
                continue
            place = rows.index(row)
            value, null = float(outcome.values[place]), nulls.get(row)
            exhaustive = entry.facts["null"] != "shuffles" and self.rankings == _count_rankings(
                trial
            )
            measurement = measure_against_null(
                entry, value, null, exhaustive=exhaustive, subject=self._subject
            )
            verdict, why = rule.judge(measurement)
            if verdict == "not tested":
                tests.append({**facts, **build_untested_dict(why)})
            elif rule.removes:
                line = build_test_curve(outcome, place, null)
                tests.append({**facts, **to_test_dict(measurement, verdict, why, line)})
            else:
                # The bounds are on the value itself; a percentile among shuffles would decide nothing.
                bare = replace(measurement, percentile=None, chance=None)
                tests.append({**facts, **to_test_dict(bare, verdict, why, None)})
        return tests

    def _select_affordable(
        self, rule: VerdictRule, trial: Trial, left: int
    ) -> tuple[list[int], dict[int, str]]:
        """Return the explanations that the budget allows to test, and the reasons for the others."""
        everyone = range(len(trial.names))
        if rule.removes and not self.rankings:
            return [], dict.fromkeys(everyone, self._describe_too_few(trial))
        rows, why_not = [], {}
        for row in everyone:
            needed = self._count_repeat_calls(rule, row)
            if needed > left:
                why_not[row] = (
                    f"It takes {needed} model calls to explain the input again, and the budget of {self._budget} "
                    f"leaves {max(left, 0)}."
                )
            else:
                left -= needed
                rows.append(row)
        return rows, why_not

    def _describe_too_few(self, trial: Trial) -> str:
        if why := find_ranking_obstacle(trial):
            return why
        if (ways := _count_rankings(trial)) < MIN_RANKINGS:
            return f"{len(trial.units)} tokens can be ranked in {ways} ways only: too few to tell it from chance."
        fixed = sum(
            self.count_calls(rule, how)
            for rule in VERDICT_RULES
            if rule.removes
            for how in self._trials
        )
        needed = fixed + 2 * MIN_RANKINGS * self._points * self._ways
        return (
            f"The budget of {self._budget} model calls is too small for {MIN_RANKINGS} random rankings: it takes "
            f"{needed}."
        )

    def _count_repeat_calls(self, rule: VerdictRule, row: int) -> int:
        """Return the forward passes of repeating an explanation as often as a test needs."""
        entry = metric.get(rule.metric)
        count_repeats = entry.facts.get("again")
        if count_repeats is None:
            return 0
        params = resolve_parameters(entry.name, entry.parameters, rule.params)
        return int(count_repeats(len(self._trial.again.stages), params)) * self._prices[row]

    def _compute_nulls(
        self,
        rule: VerdictRule,
        entry: Entry,
        params: Mapping[str, Any],
        trial: Trial,
        rows: Sequence[int],
    ) -> dict[int, Outcome]:
        """Return the outcomes of random explanations for each row; rows share random rankings."""
        kind = entry.facts["null"]
        if not isinstance(kind, str) or not rows:
            return {}
        if kind == "shuffles":
            return {
                row: entry.fn(
                    build_null_trial(entry, trial.select_rows([row]), 0, _N_SHUFFLES), **params
                )
                for row in rows
            }
        shared = entry.fn(build_null_trial(entry, trial, 0, self.rankings), **params)
        return dict.fromkeys(rows, shared)


def _count_rankings(trial: Trial) -> int:
    """Return the number of possible rankings of the units, capped at 12 factorial."""
    return factorial(min(len(trial.units), 12))
