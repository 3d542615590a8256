"""An evaluation drawn: a panel for each metric, in it a dot with its interval for each method."""

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

from whence.report.figures import TOO_FEW
from whence.report.scale import Scale, bounds, ticks
from whence.report.table.grid import ARROWS, data_line, headline, notes_of_size
from whence.view.shade import POSITIVE

_ROW = 20  # height of a method
_PANEL = 210
_GAP = 26
_HEAD = 40
_FOOT = 30
_ACROSS = 4
_INK, _DIM, _RULE, _BAND = "#1b1f24", "#5c6670", "#e3e7eb", "#e9ecef"
_LEGEND = (
    "Dot: mean; line: 95% bootstrap interval. Dashed, with its interval as a band: random explanations of the same "
    "examples.",
    "Filled: no other method is better by more than chance. Grey: cannot be told from random explanations, or is "
    "worse.",
)
_DOT = "#{:02x}{:02x}{:02x}".format(*POSITIVE)


def plot(payload: Mapping[str, Any], *, titled: bool = True) -> str:
    """Return the drawing in SVG. Methods stand in the order of their means by the first metric, best first."""
    methods = _ordered(payload)
    metrics = payload["metrics"]
    label = 18 + 7.2 * max(len(name) for name in methods)  # of the names, in a font of 12
    across = min(_ACROSS, len(metrics)) or 1
    tall = _HEAD + _ROW * len(methods) + _FOOT
    down = -(-len(metrics) // across)
    width = label + across * (_PANEL + _GAP) + 8
    title = _lines(headline(payload), width, 13) if titled else []
    below = (*data_line(payload), *_LEGEND, *notes_of_size(payload))
    foot = [line for said in below for line in _lines(said, width, 11)]
    above = 22 + 17 * len(title) if titled else 4
    height = above + down * tall + 14 + 16 * len(foot)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" font-size="12" '
        f'role="img"><title>{escape(headline(payload))}</title>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
        *(_text(8, 24 + 17 * row, line, size=13, weight="600") for row, line in enumerate(title)),
    ]
    for place, metric in enumerate(metrics):
        top = above + tall * (place // across)
        left = label + (place % across) * (_PANEL + _GAP)
        if place % across == 0:
            parts += [
                _text(label - 10, top + _HEAD + _ROW * (row + 0.5) + 4, name, anchor="end")
                for row, name in enumerate(methods)
            ]
        parts.append(_panel(payload, metric, methods, left, top))
    bottom = height - 16 * len(foot)
    parts += [
        _text(8, bottom + 16 * row, line, colour=_DIM, size=11) for row, line in enumerate(foot)
    ]
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _lines(text: str, width: float, size: int) -> list[str]:
    """Break a text into lines that fit; the letters are less than 0.6 of their size wide, on average."""
    return wrap(text, max(20, int((width - 16) / (0.6 * size))))


def _ordered(payload: Mapping[str, Any]) -> list[str]:
    names = [one["method"] for one in payload["methods"]]
    if not payload["metrics"]:
        return names
    first = payload["metrics"][0]
    sign = 1 if first["direction"] == "higher" else -1
    means = {
        cell["method"]: cell["mean"]
        for cell in payload["cells"]
        if cell["metric"] == first["metric"] and cell["n"]
    }
    return sorted(names, key=lambda name: -sign * means[name] if name in means else float("inf"))


def _panel(
    payload: Mapping[str, Any],
    metric: Mapping[str, Any],
    methods: Sequence[str],
    left: float,
    top: float,
) -> str:
    cells = {
        cell["method"]: cell for cell in payload["cells"] if cell["metric"] == metric["metric"]
    }
    tested = [cells[name] for name in methods if cells[name]["n"]]
    first, last = top + _HEAD, top + _HEAD + _ROW * len(methods)
    better = "more is better" if metric["direction"] == "higher" else "less is better"
    counts = sorted({cell["n"] for cell in tested})
    n = (
        ""
        if not counts
        else f", n={counts[0]}"
        if len(counts) == 1
        else f", n={counts[0]}–{counts[-1]}"
    )
    parts = [
        f"<g><title>{escape(metric['metric'])}</title>",
        _text(left, top + 14, f"{metric['metric']} {ARROWS[metric['direction']]}", weight="600"),
        _text(left, top + 30, better + n, colour=_DIM, size=11),
    ]
    if not tested:
        parts.append(_text(left, first + 14, "not tested", colour=_DIM))
        return "\n".join([*parts, "</g>"])
    scale = _scale(tested, left)
    for tick, shown in ticks(scale.low, scale.high):
        x = scale.at(tick)
        parts.append(_line(x, first, x, last, _RULE))
        parts.append(_text(x, last + 14, shown, anchor="middle", colour=_DIM, size=10))
    for row, name in enumerate(methods):
        cell, y = cells[name], first + _ROW * row
        if cell["n"] and cell["null"]:
            parts.append(_random(scale, cell["null"], y))
    for row, name in enumerate(methods):
        cell, y = cells[name], first + _ROW * (row + 0.5)
        parts.append(
            _dot(scale, cell, y)
            if cell["n"]
            else _text(left, y + 4, "not tested", colour=_DIM, size=10)
        )
    return "\n".join([*parts, "</g>"])


def _random(scale: Scale, null: Mapping[str, Any], y: float) -> str:
    """Draw random explanations behind one method; where all have the same, it is one line down the panel."""
    x = scale.at(null["mean"])
    dashed = f'stroke="{_DIM}" stroke-dasharray="4 3"'
    line = f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y + _ROW:.1f}" {dashed}/>'
    if null["low"] is None:
        return line
    low, high = scale.at(null["low"]), scale.at(null["high"])
    band = (
        f'<rect x="{low:.1f}" y="{y:.1f}" width="{high - low:.1f}" height="{_ROW}" fill="{_BAND}"/>'
    )
    return band + line


def _dot(scale: Scale, cell: Mapping[str, Any], y: float) -> str:
    x = scale.at(cell["mean"])
    # Where nothing could have been told apart, nothing is greyed out either.
    grey = cell["beats_random"] is False and cell.get("enough", True)
    colour = "#8a939c" if grey else _DOT
    fill = colour if cell["best"] else "#fff"
    told = f"{cell['method']}: {cell['mean']:.4g}"
    line = ""
    if cell["low"] is not None:
        told += f" [{cell['low']:.4g}, {cell['high']:.4g}], n={cell['n']}"
        line = _line(scale.at(cell["low"]), y, scale.at(cell["high"]), y, colour, 2)
    else:
        told += f", n={cell['n']}: {TOO_FEW}"
    return (
        f"<g><title>{escape(told)}</title>{line}"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/></g>'
    )


def _scale(cells: Sequence[Mapping[str, Any]], left: float) -> Scale:
    """Return a scale that shows all intervals."""
    ends = [
        one[end]
        for cell in cells
        for one in (cell, cell["null"] or cell)
        for end in ("mean", "low", "high")
        if one[end] is not None
    ]
    return Scale(*bounds(ends), left, left + _PANEL)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = _INK,
    size: int = 12,
    weight: str = "400",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
