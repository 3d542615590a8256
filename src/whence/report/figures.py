"""How a figure is written, on every surface the same: a mean with its interval, as many places as it is sure of."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

TOO_FEW = "too few for an interval"


def digits_of(intervals: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many decimals show the width of most intervals in two figures; None where that would be too many."""
    widths = sorted(one["high"] - one["low"] for one in intervals if one["low"] is not None)
    widths = [width for width in widths if width > 0]
    if not widths:
        return 3
    wanted = 1 - floor(log10(widths[len(widths) // 2]))
    return None if wanted > 5 else max(0, min(wanted, 4))


def number(value: float, digits: int | None) -> str:
    """Write one figure."""
    text = f"{value:.3g}" if digits is None else f"{value:.{digits}f}"
    return text.removeprefix("-") if not float(text) else text


def interval(one: Mapping[str, Any], digits: int | None, said: int = 0) -> str:
    """Write a mean with its interval, and n unless it is said elsewhere; of a constant no interval is needed."""
    mean = number(one["mean"], digits)
    if one["low"] is None:
        return mean if one["n"] == said else f"{mean} (n={one['n']}: {TOO_FEW})"
    n = "" if one["n"] == said else f" n={one['n']}"
    if one["low"] == one["high"]:
        return f"{mean} (always){n}"
    return f"{mean} [{number(one['low'], digits)}, {number(one['high'], digits)}]{n}"
