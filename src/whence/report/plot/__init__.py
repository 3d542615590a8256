"""Drawings from plain data: SVG and tinted tables, offline, every piece of text escaped.

A plot is a dict with a `kind`; its fields are in docs/reference/json.md. Colours come from the classes of `STYLE`,
so that a page can be light or dark.
"""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from whence.report.plot.attention import attention
from whence.report.plot.bars import bars
from whence.report.plot.curve import curve
from whence.report.plot.histogram import histogram
from whence.report.plot.matrix import matrix
from whence.report.plot.style import DARK, STYLE
from whence.report.plot.violin import violin

__all__ = ["DARK", "STYLE", "draw"]

_KINDS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "attention": attention,
    "bars": bars,
    "curve": curve,
    "histogram": histogram,
    "matrix": matrix,
    "violin": violin,
}
_PANELS = 6  # drawings of one plot that are shown at once


def draw(plot: Mapping[str, Any]) -> str:
    """Return a plot as a figure; nothing where there is nothing to draw."""
    make = _KINDS.get(plot["kind"])
    drawn = make(plot) if make else []
    if not drawn:
        return ""
    wide = plot["kind"] in ("attention", "matrix")
    first, rest = (drawn, []) if wide else (drawn[:_PANELS], drawn[_PANELS:])
    shown = f'<div class="{"rows" if wide else "panels"}">{"".join(first)}</div>'
    if rest:
        shown += f'<details><summary>{len(rest)} more</summary><div class="panels">{"".join(rest)}</div></details>'
    return f"<figure><figcaption>{escape(plot['title'])}</figcaption>{shown}</figure>"
