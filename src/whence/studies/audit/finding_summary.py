"""Summaries and plot data of audit experiments: means with intervals, classes, histograms, violins, matrices, bars."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from whence.stats.intervals import bootstrap
from whence.studies.audit.subject import AuditSubject, Labels, Numbers
from whence.studies.training.performance import compute_f1, count_confusion

Plot = dict[str, Any]

_MAX_QUANTILES = 101  # per violin
# The bins of the largest attention weight, as in Jain and Wallace.
_BINS = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))
_F1_DRAWS = 1000  # bootstrap draws for F1, which is no mean


def estimate(
    values: Numbers,
    *key: str | int,
    statistic: Callable[[Numbers], float] | None = None,
    draws: int = 10_000,
) -> dict[str, Any]:
    """Return mean, interval and n of the finite values, or a statistic of the finite rows (n, parts)."""
    known = values[np.isfinite(values if values.ndim > 1 else values[:, None]).all(1)]
    if not len(known):
        return {"mean": None, "interval": None, "n": 0}
    # The order of the examples must not change the draws of the bootstrap.
    ordered = np.sort(known) if known.ndim == 1 else known[np.lexsort(known.T[::-1])]
    result = bootstrap(ordered, ("audit", *key), statistic=statistic, draws=draws)
    interval = None if result.low is None else [result.low, result.high]
    return {"mean": result.mean, "interval": interval, "n": result.n}


def summarise(values: Numbers, *key: str | int) -> dict[str, Any]:
    """Return mean, interval, population standard deviation and n of the finite values."""
    figures = estimate(values, *key)
    known = np.sort(values[np.isfinite(values)])
    std = float(known.std()) if len(known) else None
    return {"mean": figures["mean"], "interval": figures["interval"], "std": std, "n": len(known)}


def summarise_f1(
    subject: AuditSubject, *predicted: Labels, label: int | None, key: Sequence[str | int]
) -> dict[str, Any]:
    """Return the F1 of one label, or the mean over all that occur; for two predictions, its fall from the first.

    Each of `predicted` is (n, draws), over which F1 is averaged.
    """
    labels = len(subject.loaded.labels)
    ends = np.cumsum([1, *(some.shape[1] for some in predicted)])

    def score(rows: Numbers) -> float:
        true, *parts, _ = np.split(rows.astype(np.int64), ends, axis=1)
        scores = [
            float(compute_f1(count_confusion(true[:, 0], part, labels), label).mean())
            for part in parts
        ]
        return scores[0] if len(scores) == 1 else scores[0] - scores[1]

    rows = np.column_stack([subject.known_truth, *predicted]).astype(np.float64)
    return estimate(rows, *key, statistic=score, draws=_F1_DRAWS)


def summarise_performance(subject: AuditSubject, predicted: Labels, *key: str) -> dict[str, Any]:
    """Return accuracy and F1 (of the second of two labels, or the mean over all that occur) with intervals."""
    right = (predicted == subject.known_truth).astype(np.float64)
    label = 1 if len(subject.loaded.labels) == 2 else None
    f1 = summarise_f1(subject, predicted[:, None], label=label, key=("f1", *key, subject.seed))
    return {"accuracy": summarise(right, "accuracy", *key, subject.seed), "f1": f1}


def describe_too_short(reach: Numbers) -> str:
    """Return the reason for no verdict: the texts are too short for attention to diverge."""
    return (
        f"The texts are too short: no attention at all can be farther from the model's than {reach.mean():.3f} in "
        "the mean."
    )


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


def build_violin(subject: AuditSubject, title: str, y: str, values: Numbers) -> Plot:
    """Return violins of values by largest attention weight, one series per predicted class."""
    place = np.minimum((subject.largest_weights * len(_BINS)).astype(int), len(_BINS) - 1)
    series = []
    for label in sorted(set(subject.predictions.tolist())):
        groups = []
        for number, (low, high) in enumerate(_BINS):
            chosen = (subject.predictions == label) & (place == number) & np.isfinite(values)
            quantiles = compute_quantiles(values[chosen])
            name = f"{low:g} to {high:g}"
            groups.append({"name": name, "n": int(chosen.sum()), "quantiles": quantiles})
        series.append({"name": subject.loaded.labels[label], "groups": groups})
    return {"kind": "violin", "title": title, "x": "largest weight", "y": y, "series": series}


def compute_quantiles(values: Numbers) -> list[float]:
    """Return evenly spaced quantiles from minimum to maximum: one per value, at most 101."""
    if not len(values):
        return []
    shares = np.linspace(0, 1, min(len(values), _MAX_QUANTILES))
    return [float(value) for value in np.quantile(values, shares)]


def build_matrix(title: str, rows: Sequence[str], columns: Sequence[str], values: Numbers) -> Plot:
    """Return a matrix plot of correlations; unknown values are null."""
    return {
        "kind": "matrix",
        "title": title,
        "rows": list(rows),
        "columns": list(columns),
        "values": list_known(values),
        "range": [-1, 1],
    }


def list_known(values: Numbers) -> list[list[float | None]]:
    """Return a matrix as JSON, with null for unknown values."""
    return [[float(value) if np.isfinite(value) else None for value in row] for row in values]


def build_bars(
    title: str,
    y: str,
    bars: Sequence[tuple[str, Mapping[str, Any]]],
    threshold: float | None = None,
) -> Plot:
    """Return bars of named means with their intervals."""
    entries = []
    for name, figures in bars:
        low, high = figures["interval"] or (None, None)
        entries.append({"name": name, "value": figures["mean"], "low": low, "high": high})
    return {"kind": "bars", "title": title, "y": y, "bars": entries, "threshold": threshold}
