"""From numbers to what can be said about them: means with intervals, and which differences are more than chance.

Every comparison is paired: the same example under both. Within one metric, all comparisons, of each method with
random explanations and of each two methods, are corrected together by Holm's procedure. Where there are so few
examples that no data could pass, nothing is marked: that nothing was found is then no finding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from whence.evaluation.measures import Measure
from whence.evaluation.notes import Notes
from whence.stats import Interval, bootstrap, holm, least_p, needed
from whence.stats.interval import Array, Key
from whence.stats.together import bootstraps, sign_flips

LEVEL = 0.05  # a corrected p below this is a difference


def plain(interval: Interval | None) -> dict[str, Any] | None:
    """Return an interval as plain data."""
    if interval is None:
        return None
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


@dataclass(frozen=True)
class Judgement:
    """What can be said by one metric, as plain data."""

    cells: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    null: (
        dict[str, Any] | None
    )  # what random explanations get, where that is the same for all methods
    comparisons: int
    needed: int  # examples from which on a difference can show

    def facts(self) -> dict[str, Any]:
        """Return what belongs to the metric itself."""
        return {"null": self.null, "comparisons": self.comparisons, "needed": self.needed}


def judged(notes: Notes, measure: Measure, order: Sequence[int], seed: int) -> Judgement:
    """Judge the methods by one metric.

    `order` is an order of the examples that does not depend on how they were given, so that draws do not, either.
    """
    name = measure.name
    values, nulls = notes.values[name][order], notes.nulls[name][order]
    seen_nulls = np.where(np.isnan(values), np.nan, nulls)
    gains = measure.sign * (values - seen_nulls)
    couples = list(combinations(range(len(notes.methods)), 2))
    apart = [measure.sign * (values[:, a] - values[:, b]) for a, b in couples]
    columns = np.column_stack([gains, *apart])
    key = ("evaluate", name, seed)
    # Holm multiplies the smallest p by their number: there must be draws enough for that to leave anything.
    draws = max(10_000, 100 * columns.shape[1])
    p_values = corrected(sign_flips(columns, key, draws))
    # Holm's procedure is monotone: of the least p values it makes the least corrected ones that any data can have.
    counts = (~np.isnan(columns)).sum(0)
    least = corrected([least_p(int(n)) if n else None for n in counts])
    enough = [p is not None and p < LEVEL for p in least]
    differences = bootstraps(columns, key)
    of_values = bootstraps(values, key)
    of_nulls = bootstraps(seen_nulls, key)
    if measure.aggregates:
        of_values = _aggregated(notes.parts, notes, measure, values, order, key)
        if name in notes.null_parts:
            of_nulls = _aggregated(notes.null_parts, notes, measure, values, order, key)
    cells = []
    for place, method in enumerate(notes.methods):
        own = of_values[place]
        gain, p = differences[place], p_values[place]
        cells.append(
            {
                "method": method,
                "metric": name,
                **(plain(own) or {"mean": None, "low": None, "high": None, "n": 0}),
                "null": plain(of_nulls[place]),
                "gain": plain(gain),
                "effect": _effect(gains[:, place]),
                "p": p,
                "beats_random": _beats(gain, p) if measure.aim == "beat" else None,
                "enough": enough[place],
                "best": False,
                "why_not": notes.why_not[method, name].listed(),
            }
        )
    count = len(notes.methods)
    pairs = [
        {
            "metric": name,
            "a": notes.methods[a],
            "b": notes.methods[b],
            "gain": plain(differences[count + place]),
            "p": p_values[count + place],
            "enough": enough[count + place],
        }
        for place, (a, b) in enumerate(couples)
    ]
    mark_best(cells, pairs)
    comparisons = sum(p is not None for p in p_values)
    return Judgement(
        cells,
        pairs,
        plain(_chance(measure, nulls, of_nulls, key)),
        comparisons,
        needed(max(comparisons, 1), LEVEL),
    )


def _beats(gain: Interval | None, p: float | None) -> bool:
    return gain is not None and gain.mean > 0 and p is not None and p < LEVEL


def _chance(
    measure: Measure, nulls: Array, by_method: Sequence[Interval | None], key: Key
) -> Interval | None:
    """Return what random explanations get, where that is the same for all methods."""
    if not measure.shared:
        return None
    if measure.aggregates:
        known = [interval for interval in by_method if interval is not None]
        return max(known, key=lambda interval: interval.n, default=None)
    # Any method that has the null of an example has the one that all have.
    return bootstraps(np.fmax.reduce(nulls, axis=1)[:, None], key)[0]


def corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p values by Holm's procedure; those that are not known stay so, and do not count."""
    known = [place for place, p in enumerate(p_values) if p is not None]
    found: list[float | None] = [None] * len(p_values)
    for place, p in zip(known, holm([p for p in p_values if p is not None]), strict=True):
        found[place] = p
    return found


def _effect(gains: Array) -> float | None:
    """Return the mean gain over random explanations in units of its spread between examples."""
    known = gains[~np.isnan(gains)]
    if len(known) < 2:
        return None
    mean, spread = float(known.mean()), float(known.std(ddof=1))
    # Gains that are all the same are as sure as can be; a number stands for that, not an infinity.
    return mean / max(spread, 1e-9 * abs(mean)) if mean else 0.0


def _aggregated(
    kept: dict[str, Array],
    notes: Notes,
    measure: Measure,
    values: Array,
    order: Sequence[int],
    key: Key,
) -> list[Interval | None]:
    """Return a metric's own figure for a data set, for each method, over the examples that could be tested.

    Of random explanations it is the mean of the figures of all draws.
    """
    found: list[Interval | None] = []
    names = notes.part_names.get(measure.name, [])
    known: dict[bytes, Interval] = {}
    for place in range(len(notes.methods)):
        tested = ~np.isnan(values[:, place])
        if not tested.any():
            found.append(None)
            continue
        rows = kept[measure.name][order][tested, place]  # (examples, draws, parts)
        draws, parts = rows.shape[1:]

        def figure(some: Array, draws: int = draws, parts: int = parts) -> float:
            each = some.reshape(len(some), draws, parts)
            return float(
                np.mean([measure.aggregated(each[:, draw], names) for draw in range(draws)])
            )

        flat = rows.reshape(len(rows), -1)
        if flat.tobytes() not in known:
            known[flat.tobytes()] = bootstrap(flat, key, statistic=figure, draws=2000)
        found.append(known[flat.tobytes()])
    return found


def mark_best(cells: Sequence[dict[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> None:
    """Mark every method that no other is better than by more than chance, example by example.

    One method alone is no best, nor is one that could not have been told from any other.
    """
    compared, beaten = set(), set()
    for row in pairs:
        if row["enough"] and row["gain"] is not None:
            compared |= {row["a"], row["b"]}
            if row["p"] < LEVEL:
                beaten.add(row["b"] if row["gain"]["mean"] > 0 else row["a"])
    for cell in cells:
        cell["best"] = cell["method"] in compared - beaten


"""How much the methods agree with each other, over a data set."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from whence.evaluation.judge import plain
from whence.evaluation.measures import Measure
from whence.evaluation.reasons import Reasons
from whence.stats.known import mean_of_known
from whence.stats.together import bootstraps
from whence.trial import Trial


class Alike:
    """For each measure of agreement, a number for each two methods and each example."""

    def __init__(
        self, measures: Sequence[Measure], methods: Sequence[str], examples: int, draws: int
    ) -> None:
        """`draws` is how many random explanations of an example the methods are compared with, too."""
        self._measures = list(measures)
        self._methods = list(methods)
        self._couples = list(combinations(methods, 2))
        self._found = {
            measure.name: np.full((examples, len(self._couples)), np.nan) for measure in measures
        }
        self._why_not = {measure.name: Reasons() for measure in measures}
        self._random = {measure.name: np.full(examples, np.nan) for measure in measures}
        self._draws = draws

    def add(self, example: int, trial: Trial) -> None:
        """Compare the explanations of one trial with each other."""
        if not self._measures:
            return
        count = len(trial.names)
        both = _beside(trial, trial.null(self._draws))
        for measure in self._measures:
            outcome = measure.of(both)
            pairs = outcome.pairs
            if pairs is None:
                why = next(iter(outcome.why_not.values()), "")
                self._why_not[measure.name].add(why, example)
                continue
            strangers = np.asarray(pairs[:count, count:], dtype=np.float64).reshape(-1)
            self._random[measure.name][example] = mean_of_known(strangers)
            for place, (a, b) in enumerate(self._couples):
                if a in trial.names and b in trial.names:
                    found = pairs[trial.names.index(a), trial.names.index(b)]
                    self._found[measure.name][example, place] = found

    def matrices(self, order: Sequence[int], seed: int) -> list[dict[str, Any]]:
        """Return the mean agreement of each two methods with its interval, measure by measure."""
        return [
            {
                **{"measure": measure.name, "params": dict(measure.params), "a": a, "b": b, **row},
                **({"why_not": why} if (why := self._why_not[measure.name].listed()) else {}),
            }
            for measure in self._measures
            for (a, b), row in zip(self._couples, self._rows(measure, order, seed), strict=True)
        ]

    def _rows(self, measure: Measure, order: Sequence[int], seed: int) -> list[dict[str, Any]]:
        nothing = {"mean": None, "low": None, "high": None, "n": 0}
        columns, key = self._found[measure.name][order], ("evaluate", "agreement", seed)
        random = self._random[measure.name][order][:, None]
        nulls = bootstraps(np.where(np.isnan(columns), np.nan, random), key)
        return [
            {**(plain(own) or nothing), "null": plain(null)}
            for own, null in zip(bootstraps(columns, key), nulls, strict=True)
        ]


def _beside(trial: Trial, other: Trial) -> Trial:
    """Return the explanations of both trials in one, to be compared as they are."""
    return replace(
        trial,
        names=trial.names + other.names,
        scores=np.concatenate([trial.scores, other.scores]),
        signed=trial.signed + other.signed,
        axioms=trial.axioms + other.axioms,
    )


"""What a method took per example: seconds, forward and backward passes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.evaluation.judge import plain
from whence.evaluation.notes import Notes
from whence.stats import Interval, bootstrap
from whence.stats.interval import Array, Key

_DRAWS = 2000  # costs are told in two figures


def costs(notes: Notes, place: int, order: Sequence[int], seed: int) -> dict[str, Any]:
    """Return how many examples the method in one place explained, and the mean costs with their intervals."""
    seconds, forward, backward = (
        table[order, place] for table in (notes.seconds, notes.forward, notes.backward)
    )
    known, timed = ~np.isnan(forward), ~np.isnan(seconds)
    key = ("evaluate", "cost", seed)
    return {
        "explained": int(known.sum()),
        "seconds": _told(seconds[timed], _timed(seconds[timed], key)),
        "forward": _told(forward[known], _counted(forward[known], key)),
        "backward": _told(backward[known], _counted(backward[known], key)),
    }


def _counted(values: Array, key: Key) -> Interval | None:
    return bootstrap(values, key, draws=_DRAWS) if len(values) else None


def _timed(seconds: Array, key: Key) -> Interval | None:
    """Draw batches, not examples: those of a batch share its time evenly, which is one observation."""
    if not len(seconds):
        return None
    _, first, examples = np.unique(seconds, return_index=True, return_counts=True)
    order = np.argsort(first)
    times, counts = seconds[np.sort(first)], examples[order].astype(np.float64)
    return timed(times * counts, counts, key)


def timed(seconds: Array, counts: Array, key: Key) -> Interval:
    """Return the seconds per example of batches that took so long, of so many examples each."""
    return bootstrap(
        np.stack([seconds, counts], axis=1),
        key,
        statistic=lambda rows: float(rows[:, 0].sum() / rows[:, 1].sum()),
        draws=_DRAWS,
    )


def _told(values: Array, interval: Interval | None) -> dict[str, Any] | None:
    found = plain(interval)
    return found and {**found, "least": float(values.min()), "most": float(values.max())}
