"""Trust card tests: run within a budget, compared with random rankings, and written as curves and JSON.

At most 100 random rankings, or all of them where there are fewer. For a sample, chance is a p-value in
which the explanation counts as one more draw; where every ranking was tried, it is their share.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np

from whence.core.registry import Entry, resolve_parameters
from whence.core.types import PassCount
from whence.data.removal import Removal, count_passes_per_removal
from whence.metrics import (
    Outcome,
    Steps,
    Trial,
    build_null_trial,
    find_ranking_obstacle,
    metric,
    run_metric,
)
from whence.stats.intervals import percentile
from whence.trust.trust_rules import (
    MIN_RANKINGS,
    REMOVAL_STEPS,
    VERDICT_RULES,
    Measurement,
    NullSummary,
    VerdictRule,
    to_patch_wording,
)

_MAX_RANKINGS = 100
_N_SHUFFLES = 200  # shuffles need no forward pass
# What a test that was not run has none of.
_FIGURES = ("value", "null", "percentile", "interval", "beaten", "tied", "of", "chance")


def compare_with_null(
    entry: Entry, value: float, null: Outcome | None, *, exhaustive: bool, subject: str
) -> Measurement:
    """Compare a value with its null; `exhaustive`: the null holds every possible ranking."""
    fixed = entry.facts["null"]
    if null is None:
        summary = None if isinstance(fixed, str) else NullSummary(fixed, fixed, fixed)
        return Measurement(value, summary, None, None, exhaustive, subject)
    values = null.values[~np.isnan(null.values)]
    if not len(values):
        return Measurement(value, None, None, None, exhaustive, subject)
    low, high = np.quantile(values, [0.025, 0.975])
    place = percentile(value, values, entry.facts["direction"] == "higher")
    as_good = place.of - place.beaten
    if exhaustive:  # exact, so no interval; and the explanation's ranking is among them
        place, chance = replace(place, low=place.percent, high=place.percent), as_good / place.of
    else:
        chance = (as_good + 1) / (place.of + 1)
    summary = NullSummary(float(values.mean()), float(low), float(high))
    return Measurement(value, summary, place, chance, exhaustive, subject)


def _build_curve(outcome: Outcome, place: int, null: Outcome | None) -> dict[str, Any] | None:
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


class TrustTestRunner:
    """Runs the tests of one trial within one budget."""

    def __init__(
        self,
        trial: Trial,
        prices: Sequence[int],
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
        self._per_ranking = max(min(len(trial.units), REMOVAL_STEPS) - 1, 1)
        self._ways = sum(map(count_passes_per_removal, removals))
        self._possible = factorial(min(len(trial.units), 12))
        self.rankings = 0
        self._fixed = sum(
            self.count_calls(rule, how)
            for rule in VERDICT_RULES
            if rule.removes
            for how in removals
        )
        affordable = max(budget - self._fixed, 0) // 2 // (self._per_ranking * self._ways)
        rankings = min(_MAX_RANKINGS, self._possible, affordable)
        if rankings >= MIN_RANKINGS:
            self.rankings = rankings

    def count_calls(self, rule: VerdictRule, how: Removal) -> int:
        """Return an upper bound on a test's forward passes; equal queries are made only once."""
        if not rule.removes:
            return sum(self._count_repeats(rule) * price for price in self._prices)
        if rule.name == "leave_one_out":
            return count_passes_per_removal(how) * len(self._trial.units)
        # Sufficiency reuses the queries of deletion, with reversed rankings.
        rankings = len(self._prices) + self.rankings * (rule.name == "deletion")
        return count_passes_per_removal(how) * (self._per_ranking * rankings + 1)

    def run(self, rule: VerdictRule, how: Removal) -> Steps[list[dict[str, Any]]]:
        """Run one test on all explanations, as a generator of its requests."""
        trial, entry = self._trials[how], metric.get(rule.metric)
        params = resolve_parameters(entry.name, entry.parameters, rule.params)
        why_not = self._find_unaffordable(rule, trial)
        rows = [row for row in range(len(trial.names)) if row not in why_not]
        outcome = Outcome(np.empty(0))
        if rows:
            outcome = yield from run_metric(entry, trial.select_rows(rows), params)
        why_not |= {rows[place]: why for place, why in outcome.why_not.items()}
        nulls: dict[int, Outcome] = {}
        tested = [row for row in rows if row not in why_not]
        if entry.facts["null"] == "shuffles":
            for row in tested:
                null = build_null_trial(entry, trial.select_rows([row]), 0, _N_SHUFFLES)
                nulls[row] = yield from run_metric(entry, null, params)
        elif isinstance(entry.facts["null"], str) and tested:
            null = build_null_trial(entry, trial, 0, self.rankings)
            nulls = dict.fromkeys(tested, (yield from run_metric(entry, null, params)))
        facts = {"name": rule.name, "remove": how if rule.removes else None}
        facts["direction"] = entry.facts["direction"]
        exhaustive = entry.facts["null"] != "shuffles" and self.rankings == self._possible
        tests = []
        for row in range(len(trial.names)):
            test, curve, verdict, why = dict[str, Any].fromkeys(_FIGURES), None, "not tested", ""
            if row in why_not:
                why = why_not[row] if trial.item.picture is None else to_patch_wording(why_not[row])
            else:
                place = rows.index(row)
                measurement = compare_with_null(
                    entry,
                    float(outcome.values[place]),
                    nulls.get(row),
                    exhaustive=exhaustive,
                    subject=self._subject,
                )
                verdict, why = rule.judge(measurement)
                if verdict != "not tested":
                    # Without removal the bounds are on the value: a percentile among shuffles would decide nothing.
                    test = measurement.to_dict(ranked=rule.removes)
                    curve = _build_curve(outcome, place, nulls.get(row)) if rule.removes else None
            tests.append({**facts, **test, "verdict": verdict, "why": why, "curve": curve})
        return tests

    def _find_unaffordable(self, rule: VerdictRule, trial: Trial) -> dict[int, str]:
        """Return the reasons why explanations cannot be tested within the budget."""
        if rule.removes and self.rankings:
            return {}
        if rule.removes:
            return dict.fromkeys(range(len(trial.names)), self._describe_too_few(trial))
        left, why_not = self._budget - (self._spent().forward - self._start), {}
        for row, price in enumerate(self._prices):
            needed = self._count_repeats(rule) * price
            if needed > left:
                why_not[row] = (
                    f"It takes {needed} model calls to explain the input again, and the budget of {self._budget} "
                    f"leaves {max(left, 0)}."
                )
            else:
                left -= needed
        return why_not

    def _describe_too_few(self, trial: Trial) -> str:
        if why := find_ranking_obstacle(trial):
            return why
        if self._possible < MIN_RANKINGS:
            return (
                f"{len(trial.units)} tokens can be ranked in {self._possible} ways only: too few to tell it from "
                "chance."
            )
        needed = self._fixed + 2 * MIN_RANKINGS * self._per_ranking * self._ways
        return (
            f"The budget of {self._budget} model calls is too small for {MIN_RANKINGS} random rankings: it takes "
            f"{needed}."
        )

    def _count_repeats(self, rule: VerdictRule) -> int:
        """Return how often a test repeats an explanation."""
        entry = metric.get(rule.metric)
        count_repeats = entry.facts.get("again")
        if count_repeats is None:
            return 0
        params = resolve_parameters(entry.name, entry.parameters, rule.params)
        return int(count_repeats(len(self._trial.again.stages), params))
