"""From numbers to what can be said about them: means with intervals, and which differences are more than chance.

Every comparison is paired: the same example under both. Within one metric, all comparisons, of each method with
random explanations and of each two methods, are corrected together by Holm's procedure.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from whence.evaluation.measures import Measure
from whence.evaluation.notes import Notes
from whence.stats import Interval, bootstrap, holm
from whence.stats.interval import Array, Key
from whence.stats.together import bootstraps, sign_flips

LEVEL = 0.05  # a corrected p below this is a difference


def plain(interval: Interval | None) -> dict[str, Any] | None:
    """Return an interval as plain data."""
    if interval is None:
        return None
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


def judged(
    notes: Notes, measure: Measure, order: Sequence[int], seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any] | None]:
    """Return the cells of one metric, its comparisons of methods, and what random explanations get.

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
    p_values = _corrected(sign_flips(columns, key, draws))
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
                "beats_random": bool(
                    gain is not None and gain.mean > 0 and p is not None and p < LEVEL
                ),
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
        }
        for place, (a, b) in enumerate(couples)
    ]
    _mark_best(cells, pairs, measure.sign)
    return cells, pairs, plain(_chance(measure, nulls, of_nulls, key))


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


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
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


def _mark_best(cells: list[dict[str, Any]], pairs: list[dict[str, Any]], sign: float) -> None:
    """Mark the best, and all that cannot be told from it; one method alone is no best."""
    tested = [cell for cell in cells if cell["n"]]
    if len(tested) < 2:
        return
    best = max(tested, key=lambda cell: sign * cell["mean"])
    for cell in tested:
        cell["best"] = cell is best or not told_apart(pairs, best["method"], cell["method"])


def told_apart(pairs: Sequence[dict[str, Any]], one: str, other: str) -> bool:
    """Say whether two methods differ by more than chance, in the comparisons of one metric."""
    p = next((row["p"] for row in pairs if {row["a"], row["b"]} == {one, other}), None)
    return p is not None and p < LEVEL
