"""Summaries and plot data of audit experiments: means with intervals, classes, histograms, violins, matrices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.stats.intervals import bootstrap
from whence.studies.audit.subject import AuditSubject

Numbers = NDArray[np.float64]
Plot = dict[str, Any]

_MAX_QUANTILES = 101  # per violin
# The bins of the largest attention weight, as in Jain and Wallace.
_BINS = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))


def summarise(values: Numbers, *key: str | int) -> dict[str, Any]:
    """Return mean, interval, population standard deviation and n of the finite values."""
    # The order of the examples must not change the draws of the bootstrap.
    known = np.sort(values[np.isfinite(values)])
    if not len(known):
        return {"mean": None, "interval": None, "std": None, "n": 0}
    estimate = bootstrap(known, ("audit", *key))
    interval = None if estimate.low is None else [estimate.low, estimate.high]
    return {"mean": estimate.mean, "interval": interval, "std": float(known.std()), "n": estimate.n}


def group_by_class(subject: AuditSubject, values: Numbers) -> dict[str, Numbers]:
    """Group the values of examples by predicted class."""
    labels = subject.loaded.labels
    return {
        labels[label]: values[subject.predictions == label]
        for label in sorted(set(subject.predictions.tolist()))
    }


def build_histogram(
    title: str,
    x: str,
    series: Mapping[str, Numbers],
    *,
    low: float,
    high: float,
    bins: int = 40,
    threshold: float | None = None,
) -> Plot:
    """Return a histogram with one series per name; the outermost bins take values beyond the ends."""
    edges = np.linspace(low, high, bins + 1)
    entries = []
    for name, values in series.items():
        known = values[np.isfinite(values)]
        counts, _ = np.histogram(known.clip(low, high), edges)
        entries.append({"name": name, "counts": counts.tolist(), "n": len(known)})
    return {
        "kind": "histogram",
        "title": title,
        "x": x,
        "edges": edges.tolist(),
        "series": entries,
        "threshold": threshold,
    }


def build_violin(
    subject: AuditSubject, title: str, y: str, values: Numbers, largest: Numbers
) -> Plot:
    """Return violins of values by largest attention weight, one series per predicted class."""
    place = np.minimum((largest * len(_BINS)).astype(int), len(_BINS) - 1)
    series = []
    for label in sorted(set(subject.predictions.tolist())):
        groups = []
        for number, (low, high) in enumerate(_BINS):
            chosen = (subject.predictions == label) & (place == number) & np.isfinite(values)
            groups.append(
                {
                    "name": f"{low:g} to {high:g}",
                    "n": int(chosen.sum()),
                    "quantiles": compute_quantiles(values[chosen]),
                }
            )
        series.append({"name": subject.loaded.labels[label], "groups": groups})
    return {"kind": "violin", "title": title, "x": "largest weight", "y": y, "series": series}


def compute_quantiles(values: Numbers) -> list[float]:
    """Return evenly spaced quantiles from minimum to maximum: one per value, at most 101."""
    if not len(values):
        return []
    shares = np.linspace(0, 1, min(len(values), _MAX_QUANTILES))
    return [float(value) for value in np.quantile(values, shares)]


def build_matrix(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: NDArray[np.float64],
    *,
    low: float,
    high: float,
) -> Plot:
    """Return a matrix plot; unknown values are null."""
    cells = [[float(value) if np.isfinite(value) else None for value in row] for row in values]
    return {
        "kind": "matrix",
        "title": title,
        "rows": list(rows),
        "columns": list(columns),
        "values": cells,
        "range": [low, high],
    }
