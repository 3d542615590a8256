"""Cells of the tables on docs/reference/speed.md: rows selected, times, memory and slopes formatted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.speed.growth import compute_slope

MISSING = "not measured"
Row = Mapping[str, Any]
_METHODS = (
    "generic_attention", "transformer_attribution", "leave_one_out", "integrated_gradients", "raw_attention",
    "rollout", "attention_gradcam", "attcat", "grad_x_input", "attn_lrp",
)  # fmt: skip


def find_row(
    rows: Iterable[Row], section: str, what: str, kind: str, size: tuple[int, int]
) -> Row | None:
    """Return the row of one measurement, or None."""
    for row in rows:
        where = (row.get("model"), row.get("inputs"), row.get("tokens"))
        if row["section"] == section and row["what"] == what and where == (kind, *size):
            return row
    return None


def group_rows(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows grouped by some of their entries."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def format_worst(rows: Sequence[Row]) -> str:
    """Return the worst of some comparisons: off, Spearman, top."""
    off = max(row["off"] for row in rows)
    return f"{off:.0e} | {min(row['spearman'] for row in rows):.4f} | {min(row['top'] for row in rows):.2f}"


def format_reason(row: Row | None) -> str:
    """Return the reason for a missing figure, in short."""
    return MISSING if row is None else str(row["error"]).partition(":")[0]


def format_milliseconds(row: Row | None) -> str:
    """Return the median and the middle half."""
    if row is None or "seconds" not in row:
        return format_reason(row)
    middle, low, high = (_format_number(row[key] * 1e3) for key in ("seconds", "low", "high"))
    return f"{middle} ({low} to {high}, n {row['n']})"


def _format_number(number: float) -> str:
    """Return three digits, or all of those before the point."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def format_gibibytes(row: Row | None) -> str:
    """Return the peak of memory."""
    return f"{row['peak'] / 2**30:.1f} GiB" if row and row.get("peak") else ""


def format_memory_ratio(row: Row) -> str:
    """Return the peak of memory as a ratio to the floor's."""
    more = row.get("peak_ratio")
    return "" if more is None else f"{more:.2f} ({row['peak'] / 2**30:.1f} GiB)"


def format_slope(points: list[tuple[float, float]]) -> str:
    """Return the slope of growth."""
    grows = compute_slope(points)
    return "–" if grows is None else f"{grows:.2f}"


def format_code(name: str) -> str:
    """Format a method's name as code; the rest of the sentence stays text."""
    for one in _METHODS:
        if name.startswith(one) or name.endswith(f"{one} among them"):
            return name.replace(one, f"`{one}`", 1)
    return name
