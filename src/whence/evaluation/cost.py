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
