"""Statistics of an evaluation: intervals, corrected comparisons, agreement and cost of methods.

Every comparison is paired by example. Within a metric all comparisons (each method with random explanations,
each two methods) are corrected together by Holm's procedure. Where no data could reach significance with so
few examples, nothing is marked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from whence.metrics._trial import Trial
from whence.stats.intervals import (
    Array,
    Interval,
    SeedKey,
    adjust_holm,
    bootstrap,
    bootstrap_columns,
    count_needed_examples,
    mean_of_known,
    sign_flip_columns,
    smallest_p_value,
)
from whence.studies.evaluation.measure import MetricRequest
from whence.studies.evaluation.scores import ReasonCounts, ScoreTables


class AgreementScores:
    """Agreement of each pair of methods on each example, by measure."""

    def __init__(
        self, measures: Sequence[MetricRequest], methods: Sequence[str], examples: int, draws: int
    ) -> None:
        """`draws` is the number of random explanations per example to compare with, too."""
        self._measures = list(measures)
        self._couples = list(combinations(methods, 2))
        # By measure: the agreement of each two methods, in the order of `combinations`, (examples, pairs).
        self.pairs = {
            measure.name: np.full((examples, len(self._couples)), np.nan) for measure in measures
        }
        self._why_not = {measure.name: ReasonCounts() for measure in measures}
        self._random = {measure.name: np.full(examples, np.nan) for measure in measures}
        self._draws = draws

    def add(self, example: int, trial: Trial) -> None:
        """Add the agreement of the explanations of one trial."""
        if not self._measures:
            return
        count = len(trial.names)
        null = trial.null(self._draws)
        both = replace(
            trial,
            names=trial.names + null.names,
            scores=np.concatenate([trial.scores, null.scores]),
            signed=trial.signed + null.signed,
            axioms=trial.axioms + null.axioms,
        )
        for measure in self._measures:
            outcome = measure.run(both)
            pairs = outcome.pairs
            if pairs is None:
                why = next(iter(outcome.why_not.values()), "")
                self._why_not[measure.name].add(why, example)
                continue
            strangers = np.asarray(pairs[:count, count:], dtype=np.float64).reshape(-1)
            self._random[measure.name][example] = mean_of_known(strangers)
            for place, (a, b) in enumerate(self._couples):
                if a in trial.names and b in trial.names:
                    value = pairs[trial.names.index(a), trial.names.index(b)]
                    self.pairs[measure.name][example, place] = value

    def matrices(self, order: Sequence[int], seed: int) -> list[dict[str, Any]]:
        """Return the mean agreement of each pair of methods with its interval, by measure."""
        key, rows = ("evaluate", "agreement", seed), []
        for measure in self._measures:
            columns = self.pairs[measure.name][order]
            random = self._random[measure.name][order][:, None]
            nulls = bootstrap_columns(np.where(np.isnan(columns), np.nan, random), key)
            means = bootstrap_columns(columns, key)
            why_not = self._why_not[measure.name].to_list()
            rows += [
                {
                    "measure": measure.name,
                    "params": dict(measure.params),
                    "a": a,
                    "b": b,
                    **(interval_to_dict(mean) or NO_INTERVAL),
                    "null": interval_to_dict(null),
                    **({"why_not": why_not} if why_not else {}),
                }
                for (a, b), mean, null in zip(self._couples, means, nulls, strict=True)
            ]
        return rows


_DRAWS = 2000  # enough for costs in two digits


def compute_costs(
    notes: ScoreTables, place: int, order: Sequence[int], seed: int
) -> dict[str, Any]:
    """Return the number of examples a method explained, and its mean costs with intervals."""
    key = ("evaluate", "cost", seed)
    costs: dict[str, Any] = dict.fromkeys(("seconds", "forward", "backward"))
    for what in costs:
        values = getattr(notes, what)[order, place]
        values = values[~np.isnan(values)]
        if not len(values):
            continue
        if what == "seconds":  # batches, not examples: the time of a batch is one observation
            _, first, examples = np.unique(values, return_index=True, return_counts=True)
            counts = examples[np.argsort(first)].astype(np.float64)
            times = values[np.sort(first)] * counts
            interval = bootstrap_seconds_per_example(times, counts, key)
        else:
            interval = bootstrap(values, key, draws=_DRAWS)
        ends = {"least": float(values.min()), "most": float(values.max())}
        costs[what] = {**asdict(interval), **ends}
    return {"explained": int((~np.isnan(notes.forward[:, place])).sum()), **costs}


def bootstrap_seconds_per_example(seconds: Array, counts: Array, key: SeedKey) -> Interval:
    """Return the seconds per example, from the times and sizes of batches."""
    return bootstrap(
        np.stack([seconds, counts], axis=1),
        key,
        statistic=lambda rows: float(rows[:, 0].sum() / rows[:, 1].sum()),
        draws=_DRAWS,
    )


LEVEL = 0.05  # a corrected p below this is significant
NO_INTERVAL: Mapping[str, Any] = {"mean": None, "low": None, "high": None, "n": 0}


def interval_to_dict(interval: Interval | None) -> dict[str, Any] | None:
    """Return an interval as a JSON object."""
    return None if interval is None else asdict(interval)


@dataclass(frozen=True)
class MetricComparison:
    """The comparison of all methods by one metric, as JSON objects."""

    cells: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    facts: dict[str, Any]  # its null, if the same for all methods; the examples that are needed


def compare_methods(
    notes: ScoreTables, measure: MetricRequest, order: Sequence[int], seed: int
) -> MetricComparison:
    """Compare the methods by one metric.

    `order` is a permutation of the examples that does not depend on their given order, so that random draws do not, either.
    """
    name, methods = measure.name, notes.methods
    values, nulls = notes.values[name][order], notes.nulls[name][order]
    known_nulls = np.where(np.isnan(values), np.nan, nulls)
    couples = list(combinations(range(len(methods)), 2))
    apart = [values[:, a] - values[:, b] for a, b in couples]
    columns = measure.sign * np.column_stack([values - known_nulls, *apart])
    key = ("evaluate", name, seed)
    # Holm multiplies the smallest p by the number of comparisons: more comparisons need more draws.
    draws = max(10_000, 100 * columns.shape[1])
    p_values = adjust_holm(sign_flip_columns(columns, key, draws))
    # Holm's procedure is monotone: the smallest possible p-values stay the smallest after correction.
    counts = (~np.isnan(columns)).sum(0)
    least = adjust_holm([smallest_p_value(int(n)) if n else None for n in counts])
    differences = [
        {"gain": interval_to_dict(gain), "p": p, "enough": best_p is not None and best_p < LEVEL}
        for gain, p, best_p in zip(bootstrap_columns(columns, key), p_values, least, strict=True)
    ]
    of_values = bootstrap_columns(values, key)
    of_nulls = bootstrap_columns(known_nulls, key)
    if measure.aggregates:
        names = notes.part_names.get(name, [])
        if name in notes.parts:
            parts = notes.parts[name][order]
            of_values = _bootstrap_aggregate(measure, parts, names, values, key)
        if name in notes.null_parts:
            parts = notes.null_parts[name][order]
            of_nulls = _bootstrap_aggregate(measure, parts, names, values, key)
    cells = [
        {
            "method": method,
            "metric": name,
            **(interval_to_dict(of_values[place]) or NO_INTERVAL),
            "null": interval_to_dict(of_nulls[place]),
            "effect": _compute_effect(columns[:, place]),
            **differences[place],
            "beats_random": None,
            "best": False,
            "why_not": notes.why_not[method, name].to_list(),
        }
        for place, method in enumerate(methods)
    ]
    for cell in cells if measure.aim == "beat" else ():
        gain, p = cell["gain"], cell["p"]
        cell["beats_random"] = bool(gain and gain["mean"] > 0 and p is not None and p < LEVEL)
    pairs = [
        {"metric": name, "a": methods[a], "b": methods[b], **difference}
        for (a, b), difference in zip(couples, differences[len(methods) :], strict=True)
    ]
    mark_best(cells, pairs)
    comparisons = sum(p is not None for p in p_values)
    facts = {
        "null": interval_to_dict(_find_shared_null(measure, nulls, of_nulls, key)),
        "comparisons": comparisons,
        "needed": count_needed_examples(max(comparisons, 1), LEVEL),
    }
    return MetricComparison(cells, pairs, facts)


def _find_shared_null(
    measure: MetricRequest, nulls: Array, by_method: Sequence[Interval | None], key: SeedKey
) -> Interval | None:
    """Return the result of random explanations, if it is the same for all methods."""
    if measure.entry.facts["null"] == "shuffles":
        return None
    if measure.aggregates:
        known = [interval for interval in by_method if interval is not None]
        return max(known, key=lambda interval: interval.n, default=None)
    # The null of an example is the same in every method that has one.
    return bootstrap_columns(np.fmax.reduce(nulls, axis=1)[:, None], key)[0]


def _compute_effect(gains: Array) -> float | None:
    """Return the mean gain over random explanations in units of its spread between examples."""
    known = gains[~np.isnan(gains)]
    if len(known) < 2:
        return None
    mean, spread = float(known.mean()), float(known.std(ddof=1))
    # Equal gains have no spread; a large finite number stands for their infinite effect.
    return mean / max(spread, 1e-9 * abs(mean)) if mean else 0.0


def _bootstrap_aggregate(
    measure: MetricRequest, parts: Array, names: Sequence[str], values: Array, key: SeedKey
) -> list[Interval | None]:
    """Return a metric's aggregate over the testable examples, for each method, with its interval.

    `parts` are (examples, methods, draws, parts): for random explanations it is the mean of the aggregates of all draws.
    """
    intervals: list[Interval | None] = []
    known: dict[bytes, Interval] = {}  # random explanations are the same for several methods

    def compute_aggregate(flat: Array) -> float:
        draws = np.moveaxis(flat.reshape(len(flat), -1, len(names)), 1, 0)
        return float(np.mean([measure.aggregate(drawn, names) for drawn in draws]))

    for place, tested in enumerate(~np.isnan(values).T):
        if not tested.any():
            intervals.append(None)
            continue
        flat = parts[tested, place].reshape(int(tested.sum()), -1)
        if flat.tobytes() not in known:
            known[flat.tobytes()] = bootstrap(flat, key, statistic=compute_aggregate, draws=2000)
        intervals.append(known[flat.tobytes()])
    return intervals


def mark_best(cells: Sequence[dict[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> None:
    """Mark every method that no other is better than by more than chance, paired by example.

    A single method is not marked, nor is one that too few examples could tell from any other.
    """
    compared, beaten = set(), set()
    for row in pairs:
        if row["enough"] and row["gain"] is not None:
            compared |= {row["a"], row["b"]}
            if row["p"] < LEVEL:
                beaten.add(row["b"] if row["gain"]["mean"] > 0 else row["a"])
    for cell in cells:
        cell["best"] = cell["method"] in compared - beaten


def describe_too_few(n: int, methods: int, needed: int) -> str:
    """Describe that `n` examples cannot show any difference, and how many could."""
    examples = "n=1 example is" if n == 1 else f"n={n} examples are"
    compared = "1 method" if methods == 1 else f"{methods} methods"
    return f"{examples} too few: with {compared} compared, differences can only show from n={needed} on."
