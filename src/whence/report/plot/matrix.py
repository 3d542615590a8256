"""A table whose cells are tinted by their values: every figure can be read, and what is large is seen at once."""

from collections.abc import Mapping
from html import escape
from math import isfinite
from typing import Any

from whence.view.shade import colour


def matrix(plot: Mapping[str, Any]) -> list[str]:
    """Return the table."""
    if not plot["rows"] or not plot["columns"]:
        return []
    low, high = plot["range"]
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in plot["columns"])
    rows = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th>{"".join(_cell(v, low, high) for v in values)}</tr>'
        for name, values in zip(plot["rows"], plot["values"], strict=True)
    )
    return [
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(plot["title"])}"><table class="heat">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    ]


def _cell(value: float | None, low: float, high: float) -> str:
    if value is None or not isfinite(value):
        return '<td class="n none">-</td>'
    # Where values may be negative, zero has no colour; else the lowest has none.
    reach = max(abs(low), abs(high)) if low < 0 else high - low
    share = (value if low < 0 else value - low) / (reach or 1.0)
    tint = "rgb({},{},{})".format(*colour(max(-1.0, min(1.0, share))))
    return f'<td class="n" style="background: {tint}">{round(value, 2) + 0.0:.2f}</td>'
