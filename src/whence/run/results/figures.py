"""What the report says of a run beside its evaluation: predictions, drawings, sessions."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.run.results.extremes import deciding, gains_of
from whence.run.results.noted import Noted
from whence.stats import proportion

if TYPE_CHECKING:
    from whence.run.results import Run

_BINS = 24


def predictions(noted: Noted) -> dict[str, Any]:
    """Return how often each class was predicted, and how often rightly, where the data has the model's labels."""
    known = [one for one in noted.predicted if one is not None]
    found = {"classes": dict(Counter(known)), "accuracy": None, "majority": None}
    right = correct(noted)
    if right is None:
        return found
    both = zip(noted.labels, noted.predicted, strict=True)
    truths = [label for label, said in both if label is not None and said is not None]
    most = Counter(truths).most_common(1)[0][1]
    return {**found, "accuracy": share_of(right), "majority": most / len(truths)}


def share_of(flags: Any) -> dict[str, Any] | None:
    """Return the share of ones among zeros and ones, with its exact interval; what is NaN does not count."""
    known = flags[~np.isnan(flags)]
    if not len(known):
        return None
    low, high = proportion(int(known.sum()), len(known))
    return {"mean": float(known.mean()), "low": low, "high": high, "n": len(known)}


def correct(noted: Noted) -> Any | None:
    """Return 1 for each example that was predicted rightly, 0 for others, NaN without a label; None without any."""
    right = [
        np.nan if said is None or (gold := noted.gold_of(number)) is None else float(said == gold)
        for number, said in enumerate(noted.predicted)
    ]
    found = np.array(right, dtype=np.float64)
    return found if len(found) and not np.isnan(found).all() else None


def plots(noted: Noted, evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return drawings: how gains over random explanations are spread, and how much methods agree."""
    found = []
    measure = deciding(noted)
    if measure is not None:
        gains = gains_of(noted, measure)
        known = gains[~np.isnan(gains)]
        if len(known) and known.min() < known.max():
            edges = np.histogram_bin_edges(known, _BINS)
            series = [
                {"name": name, "counts": np.histogram(own, edges)[0].tolist(), "n": len(own)}
                for place, name in enumerate(noted.notes.methods)
                if len(own := gains[~np.isnan(gains[:, place]), place])
            ]
            found.append(
                {
                    "kind": "histogram",
                    "title": f"Gain over random explanations by {measure.name}, example by example",
                    "x": "gain",
                    "edges": edges.tolist(),
                    "threshold": 0.0,
                    "series": series,
                }
            )
    return [*found, *_matrices(noted.notes.methods, evaluation["agreement"])]


def _matrices(methods: list[str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for measure in dict.fromkeys(row["measure"] for row in rows):
        own = {(row["a"], row["b"]): row for row in rows if row["measure"] == measure}
        counts = {row["n"] for row in own.values() if row["n"]}
        if not counts or len(methods) < 3:
            continue
        either = {**own, **{(b, a): row for (a, b), row in own.items()}}
        n = f"n={min(counts)}" if len(counts) == 1 else f"n={min(counts)} to {max(counts)}"
        found.append(
            {
                "kind": "matrix",
                "title": f"Agreement of each two methods by {measure.replace('_', ' ')}, {n}",
                "rows": methods,
                "columns": methods,
                "values": [
                    [1.0 if a == b else either[a, b]["mean"] for b in methods] for a in methods
                ],
                "range": [-1, 1],
            }
        )
    return found


def sessions(run: "Run") -> list[dict[str, Any]]:
    """Return every time that somebody worked on the run, as the journal tells it."""
    found: list[dict[str, Any]] = []
    for event in run.store.events():
        kind, at = event.get("kind"), event.get("at")
        if kind == "begin" or not found:
            found.append({"began": at, "ended": at, "workers": None, "tasks": 0, "with": {}})
        own = found[-1]
        own["ended"] = at or own["ended"]
        own["tasks"] += kind == "task"
        if kind == "begin":
            own["with"] |= event.get("software") or {}
        if kind == "start":
            facts = {name: event.get(name) for name in ("backend", "device", "batch_size")}
            own["with"] |= {name: value for name, value in facts.items() if value is not None}
            own["workers"] = event.get("workers")
    return [{**one, "seconds": _between(one["began"], one["ended"])} for one in found]


def _between(began: Any, ended: Any) -> float | None:
    """Return the seconds between two times; None where they are none, or the clock was set back."""
    try:
        spent = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except (TypeError, ValueError):
        return None
    return spent if spent >= 0 else None
