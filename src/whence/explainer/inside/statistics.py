"""What can be counted of every head, and what it means."""

from typing import Any, Literal

import numpy as np

Statistic = Literal["entropy", "special", "gradient", "ablation"]
STATISTICS: dict[Statistic, tuple[str, str]] = {
    "entropy": (
        "entropy",
        "How widely a head looks: the mean entropy of its rows, as a share of the largest possible. Rows that can "
        "see one token alone do not count.",
    ),
    "special": (
        "mass on special tokens",
        "How much of its attention a head rests on special tokens, in the mean over its rows.",
    ),
    "gradient": (
        "gradient importance",
        "How much the target depends on a head to first order: |sum of attention times its gradient| "
        "(Michel et al. 2019).",
    ),
    "ablation": (
        "effect of ablation",
        "How much the target (its probability, or what a regression gives) changes when a head attends to nothing; "
        "below zero: it falls.",
    ),
}


def drawn(statistic: Statistic, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return one number per layer and head, as the documented object."""
    title, meaning = STATISTICS[statistic]
    signed = statistic == "ablation"
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if signed:
        high = max(abs(low), abs(high))
        low = -high
    elif statistic != "gradient":
        low, high = 0.0, 1.0
    return {
        "kind": "heads",
        "statistic": statistic,
        "title": title,
        "meaning": meaning,
        "values": [[None if np.isnan(v) else float(v) for v in row] for row in values],
        "low": min(low, 0.0),
        "high": high,
        "signed": signed,
    }
