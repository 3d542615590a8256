"""Numbers of many examples, put together for a reader: means with intervals, and what plots are drawn from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.audit.subject import Subject
from whence.stats import bootstrap

Numbers = NDArray[np.float64]
Plot = dict[str, Any]

_QUANTILES = 101  # at most, of a violin
# Jain and Wallace's: the largest weight of an example, in four bins.
_BINS = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))


def summary(values: Numbers, *key: str | int) -> dict[str, Any]:
    """Return the mean, its interval, the spread (that of a population) and n, of the values that are known."""
    # In another order they are the same data: it must not change what the bootstrap draws.
    known = np.sort(values[np.isfinite(values)])
    if not len(known):
        return {"mean": None, "interval": None, "std": None, "n": 0}
    found = bootstrap(known, ("audit", *key))
    interval = None if found.low is None else [found.low, found.high]
    return {"mean": found.mean, "interval": interval, "std": float(known.std()), "n": found.n}


def by_class(subject: Subject, values: Numbers) -> dict[str, Numbers]:
    """Return the values of the examples of each class that is predicted."""
    labels = subject.loaded.labels
    return {
        labels[label]: values[subject.predicted == label]
        for label in sorted(set(subject.predicted.tolist()))
    }


def histogram(
    title: str,
    x: str,
    series: Mapping[str, Numbers],
    *,
    low: float,
    high: float,
    bins: int = 40,
    threshold: float | None = None,
) -> Plot:
    """Return a histogram with a series for each name; what is beyond an end by rounding is in the last bin."""
    edges = np.linspace(low, high, bins + 1)
    shown = []
    for name, values in series.items():
        known = values[np.isfinite(values)]
        counts, _ = np.histogram(known.clip(low, high), edges)
        shown.append({"name": name, "counts": counts.tolist(), "n": len(known)})
    return {
        "kind": "histogram",
        "title": title,
        "x": x,
        "edges": edges.tolist(),
        "series": shown,
        "threshold": threshold,
    }


def violin(subject: Subject, title: str, y: str, values: Numbers, largest: Numbers) -> Plot:
    """Return violins of the values by the largest weight of attention, for each class that is predicted."""
    place = np.minimum((largest * len(_BINS)).astype(int), len(_BINS) - 1)
    series = []
    for label in sorted(set(subject.predicted.tolist())):
        groups = []
        for number, (low, high) in enumerate(_BINS):
            chosen = (subject.predicted == label) & (place == number) & np.isfinite(values)
            groups.append(
                {
                    "name": f"{low:g} to {high:g}",
                    "n": int(chosen.sum()),
                    "quantiles": quantiles(values[chosen]),
                }
            )
        series.append({"name": subject.loaded.labels[label], "groups": groups})
    return {"kind": "violin", "title": title, "x": "largest weight", "y": y, "series": series}


def quantiles(values: Numbers) -> list[float]:
    """Return evenly spaced quantiles from the least to the greatest: as many as there are values, or 101."""
    if not len(values):
        return []
    shares = np.linspace(0, 1, min(len(values), _QUANTILES))
    return [float(value) for value in np.quantile(values, shares)]


def matrix(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: NDArray[np.float64],
    *,
    low: float,
    high: float,
) -> Plot:
    """Return a matrix of numbers; what is not known is null."""
    cells = [[float(one) if np.isfinite(one) else None for one in row] for row in values]
    return {
        "kind": "matrix",
        "title": title,
        "rows": list(rows),
        "columns": list(columns),
        "values": cells,
        "range": [low, high],
    }
