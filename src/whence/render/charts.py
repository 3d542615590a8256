"""Charts: bars, curves, bands, histograms, violins, effects and dots, as SVG and, where it helps, in characters.

A plot is a dict with a `kind` and a `title`; its fields are in docs/reference/json.md. Drawings need no network, every
text in them is escaped, and their colours are classes of the page, which may be light or dark; blue and orange differ
in every common form of colour blindness. A drawing is 320 units wide, as wide as a phone has room for. The outline of a
violin is a kernel density estimate by Silverman's rule; it needs at least 10 values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from whence.render.document import Track

PlotData = Mapping[str, Any]
Point = tuple[float, float]

WIDTH = 320
_MAX_PANELS = 6  # panels of one plot; further ones are folded away
_MIN_VIOLIN_VALUES, _DENSITY_STEPS = 10, 48
_LETTER_WIDTH = 6.4  # approximate width of a letter

PLOT_STYLE = """
.whence svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.whence svg text { font-size: 11.5px; fill: var(--dim); }
.whence svg text.name { font-weight: 600; fill: var(--ink); } .whence svg text.row { fill: var(--ink); }
.whence svg text.threshold { fill: var(--line); }
.whence svg .grid { stroke: var(--faint); stroke-width: 1; }
.whence svg line.threshold { stroke: var(--line); stroke-width: 1.6; stroke-dasharray: 5 3; }
.whence svg .chance { stroke: var(--dim); stroke-width: 1.4; stroke-dasharray: 2 2.5; }
.whence svg .column { fill: var(--bar); }
.whence svg :is(.shape, .band) { fill: var(--shape); }
.whence svg .spread { fill: var(--faint); }
.whence svg .whisker { stroke: var(--dim); stroke-width: 1; }
.whence svg .quartiles { stroke: var(--own); stroke-width: 5; }
.whence svg :is(.median, .open) { fill: var(--paper); stroke: var(--own); stroke-width: 1.6; }
.whence svg :is(polyline, line).own { fill: none; stroke: var(--own); stroke-width: 1.8; }
.whence svg polyline.mean { fill: none; stroke: var(--dim); stroke-width: 1.3; stroke-dasharray: 4 3; }
.whence svg circle.own { fill: var(--own); }
.whence svg .grey { stroke: #8a939c; stroke-width: 1.8; } .whence svg circle.grey { fill: var(--paper); }
.whence svg .reach { stroke: var(--own); stroke-width: 2.2; }
.whence svg .column ~ .reach { stroke: var(--ink); stroke-width: 1.6; }
.whence svg .holds { fill: var(--held); }
.whence svg .fails { fill: none; stroke: var(--faint); }
"""
# A drawing that is a file of its own brings the colours of a light page.
_FILE_STYLE = """.whence { --ink: #1b1f24; --dim: #5c6670; --faint: #e3e7eb; --paper: #fff; --own: #2166ac; }"""


@dataclass(frozen=True)
class AxisScale:
    """A linear map from values in [low, high] to coordinates in [start, end]; values outside are clamped."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)


def compute_axis_bounds(values: Sequence[float]) -> tuple[float, float]:
    """Return axis bounds with a margin of 6% of the range beyond the smallest and largest value."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.5 * abs(low) or 0.5
    return low - margin, high + margin


def compute_ticks(low: float, high: float, about: int = 5) -> list[tuple[float, str]]:
    """Return about `about` round tick values between `low` and `high`, each with its label."""
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= raw)
    decimals = max(0, ceil(-log10(step) - 1e-9))
    places = [step * i for i in range(ceil(low / step), floor(high / step) + 1)]
    template = "{:.1e}" if decimals > 4 or high >= 1e5 else f"{{:.{decimals}f}}"
    return [(place, template.format(place + 0.0)) for place in places]


def shorten_label(label: Any, most: int) -> str:
    """Shorten a label that is too long; the full text is in the drawing's name."""
    text = str(label)
    return text if len(text) <= most else f"{text[: most - 1]}…"


class Panel:
    """A drawing made of marks at the values of its two axes."""

    def __init__(
        self, across: tuple[float, float], up: tuple[float, float], *, left: float = 54,
        right: float = 18, top: float = 16, floor: float = 166, below: float = 44,
    ) -> None:  # fmt: skip
        self.x = AxisScale(*across, left, WIDTH - right)
        self.y = AxisScale(*up, floor, top)
        self.height = floor + below
        self.parts: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a line between two values."""
        x, y = self.x.at, self.y.at
        ends = f'x1="{x(x1):.1f}" y1="{y(y1):.1f}" x2="{x(x2):.1f}" y2="{y(y2):.1f}"'
        self.parts.append(f'<line class="{kind}" {ends}/>')

    def upright(self, value: float, kind: str) -> None:
        """Draw a line from floor to top."""
        self.line(value, self.y.low, value, self.y.high, kind)

    def reach(self, low: float, high: float, y: float, cap: float = 0.0) -> None:
        """Draw an interval along the x axis, with caps of a height."""
        self.line(low, y, high, y, "reach")
        for end in (low, high) if cap else ():
            self.line(end, y - cap, end, y + cap, "reach")

    def shape(self, points: Iterable[Point], kind: str, tag: str = "polyline") -> None:
        """Draw a line or an area through values."""
        drawn = " ".join(f"{self.x.at(x):.1f},{self.y.at(y):.1f}" for x, y in points)
        self.parts.append(f'<{tag} class="{kind}" points="{drawn}"/>')

    def rect(self, x1: float, y1: float, x2: float, y2: float, kind: str, title: str = "") -> None:
        """Draw a rectangle between two corners."""
        (left, right), (top, floor) = (
            sorted((scale.at(a), scale.at(b)))
            for scale, a, b in ((self.x, x1, x2), (self.y, y1, y2))
        )
        size = f'width="{right - left:.1f}" height="{floor - top:.1f}"'
        self.parts.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" {size}>{_format_title(title)}</rect>'
        )

    def dot(
        self, x: float, y: float, title: str = "", kind: str = "own", radius: float = 4
    ) -> None:
        """Draw a dot at a value."""
        place = f'cx="{self.x.at(x):.1f}" cy="{self.y.at(y):.1f}" r="{radius:g}"'
        self.parts.append(f'<circle class="{kind}" {place}>{_format_title(title)}</circle>')

    def text(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> None:
        """Write a text at coordinates of the drawing."""
        css = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text{css} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def x_axis(self, label: str, ticks: Iterable[tuple[float, str]] | None = None) -> None:
        """Draw ticks and label of the x axis."""
        for value, name in compute_ticks(self.x.low, self.x.high) if ticks is None else ticks:
            self.text(self.x.at(value), self.y.start + 16, name, "middle")
        middle = (self.x.start + self.x.end) / 2
        self.text(middle, self.height - 5, shorten_label(label, 40), "middle")

    def y_axis(self, label: str, ticks: Iterable[tuple[float, str]] | None = None) -> None:
        """Draw grid lines, ticks and label of the y axis."""
        for value, name in compute_ticks(self.y.low, self.y.high, 4) if ticks is None else ticks:
            self.line(self.x.low, value, self.x.high, value, "grid")
            self.text(self.x.start - 6, self.y.at(value) + 4, name, "end")
        place = f"translate(11 {(self.y.start + self.y.end) / 2:.1f}) rotate(-90)"
        text = escape(shorten_label(label, 28))
        self.parts.append(f'<text transform="{place}" text-anchor="middle">{text}</text>')

    def threshold(self, value: float | None, label: str = "") -> None:
        """Draw a threshold on the x axis, if it lies within."""
        if value is None or not self.x.low <= value <= self.x.high:
            return
        self.upright(value, "threshold")
        x = self.x.at(value)
        anchor, off = ("start", 4) if x < (self.x.start + self.x.end) / 2 else ("end", -4)
        text = label or f"threshold {value:.4g}"
        self.text(x + off, self.y.end - 4, text, anchor, "threshold")

    def svg(self, name: str, desc: str) -> str:
        """Return the drawing; screen readers read its name and description."""
        return (
            f'<svg class="plot" viewBox="0 0 {WIDTH} {self.height:g}" role="img" aria-label="{escape(name)}">'
            f"<title>{escape(name)}</title><desc>{escape(desc)}</desc>{''.join(self.parts)}</svg>"
        )


def _format_title(title: str) -> str:
    return f"<title>{escape(title)}</title>" if title else ""


def _draw_bars(plot: PlotData) -> Iterator[str]:
    """Yield a bar chart; the name of a bar stands above it, because a phone has no space beside it."""
    bars = plot["bars"]
    ends = [
        bar[end] for bar in bars for end in ("value", "low", "high") if bar.get(end) is not None
    ]
    if not ends:
        return
    ends += [0.0] if plot.get("threshold") is None else [0.0, plot["threshold"]]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    across = (min(ends) - room * (min(ends) < 0), max(ends) + room)
    panel = Panel(
        across, (len(bars), 0), left=16, right=10, top=18, floor=22 + 36 * len(bars), below=38
    )
    panel.x_axis(plot["y"])
    panel.upright(0, "grid")
    for row, bar in enumerate(bars):
        known = bar.get("value") is not None
        value = f"{bar['value']:.3g}" if known else "not known"
        panel.text(19, panel.y.at(row) + 14, f"{shorten_label(bar['name'], 30)}: {value}")
        if not known:
            continue
        panel.rect(0, row + 0.5, bar["value"], row + 0.88, "column", _describe_bar(bar))
        if bar.get("low") is not None and bar.get("high") is not None:
            panel.reach(bar["low"], bar["high"], row + 0.69, 0.11)
    panel.threshold(plot.get("threshold"))
    yield panel.svg(plot["title"], f"{plot['y']}: {'; '.join(map(_describe_bar, bars))}")


def _describe_bar(bar: PlotData) -> str:
    if bar.get("value") is None:
        return f"{bar['name']}: not known"
    text = f"{bar['name']}: {bar['value']:.3g}"
    if bar.get("low") is None or bar.get("high") is None:
        return text
    return f"{text} [{bar['low']:.3g}, {bar['high']:.3g}]"


def _draw_curve(plot: PlotData) -> Iterator[str]:
    """Yield a curve through named points; names that would overlap are in the table of points."""
    points, floor = plot["points"], plot.get("floor") or {}
    if not points:
        return
    bounds = [
        compute_axis_bounds([p[axis] for p in (*points, floor) if p.get(axis) is not None])
        for axis in ("x", "y")
    ]
    panel = Panel(bounds[0], bounds[1], left=60, floor=196)
    panel.y_axis(plot["y"])
    panel.x_axis(plot["x"])
    name = shorten_label(floor.get("name") or "floor", 34)
    if floor.get("x") is not None:
        panel.threshold(floor["x"], name)
    elif floor.get("y") is not None:
        panel.line(panel.x.low, floor["y"], panel.x.high, floor["y"], "threshold")
        panel.text(panel.x.end - 2, panel.y.at(floor["y"]) - 5, name, "end", "threshold")
    panel.shape([(p["x"], p["y"]) for p in points], "own")
    spans = list[tuple[float, float, float]]()
    for point in points:
        panel.dot(point["x"], point["y"], describe_point(point))
        x, y, text = (
            panel.x.at(point["x"]),
            panel.y.at(point["y"]),
            shorten_label(point["name"], 16),
        )
        wide = _LETTER_WIDTH * len(text)
        start = x + 7 if x + 7 + wide < WIDTH else x - 7 - wide
        free = all(abs(y - b) > 12 or start > end or start + wide < a for a, end, b in spans)
        if free and start > panel.x.start:
            spans.append((start, start + wide, y))
            panel.text(start, y - 6, text)
    desc = "; ".join(map(describe_point, points))
    yield panel.svg(plot["title"], f"{plot['y']} over {plot['x']}. {desc}")


def describe_point(point: PlotData) -> str:
    """Return the name and the values of a point of a curve."""
    return f"{point['name']}: {point['x']:.3g}, {point['y']:.3g}"


def _draw_band(plot: PlotData) -> Iterator[str]:
    """Yield a curve over the band in which chance lies; screen readers get its values."""
    low, high = ends = compute_curve_bounds(plot)
    at = plot["at"]
    panel = Panel((at[0], max(at[-1], at[0] + 1e-9)), ends, below=74)
    panel.y_axis(plot["y"], [(v, format_tick(v, ends)) for v in (low, (low + high) / 2, high)])
    panel.x_axis("", [(v, f"{v:.0%}") for v in (at[0], (at[0] + at[-1]) / 2, at[-1])])
    panel.text((panel.x.start + panel.x.end) / 2, 200, plot["x"], "middle")
    upper, lower = zip(at, plot["high"], strict=True), zip(at, plot["low"], strict=True)
    panel.shape([*upper, *reversed(list(lower))], "band", "polygon")
    panel.shape(zip(at, plot["mean"], strict=True), "mean")
    panel.shape(zip(at, plot["values"], strict=True), "own")
    for x, y in zip(at, plot["values"], strict=True):
        panel.dot(x, y, radius=2.6)
    panel.text(
        panel.x.start, 218, f"line: {shorten_label(plot['name'], 24)}; dashed: mean of the shaded"
    )
    panel.text(panel.x.start, 233, f"shaded: {plot['band']}")
    points = zip(at, plot["values"], plot["low"], plot["high"], strict=True)
    said = "; ".join(
        f"at {x:.0%} {v:.3g}, {plot['band']} {a:.3g} to {b:.3g}" for x, v, a, b in points
    )
    name = f"{plot['title']}, {plot['name']}: {plot['y']} over {plot['x']}"
    yield panel.svg(name, f"{plot['y']}. {plot['x']}: {said}.")


def compute_curve_bounds(plot: PlotData) -> tuple[float, float]:
    """Return the bounds of the value axis: 0 and 1 for probabilities, whatever their range."""
    known = [value for name in ("values", "low", "high") for value in plot[name]]
    if all(0 <= value <= 1 for value in known):
        return 0.0, 1.0
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, low + 1)


def format_tick(value: float, ends: tuple[float, float]) -> str:
    """Return the label of a tick on the value axis."""
    return f"{value:.0%}" if ends == (0.0, 1.0) else f"{value:.3g}"


def _draw_histograms(plot: PlotData) -> Iterator[str]:
    edges = plot["edges"]
    if len(edges) < 2:
        return
    totals = [sum(series["counts"]) or 1 for series in plot["series"]]
    most = max(
        (max(s["counts"], default=0) / t for s, t in zip(plot["series"], totals, strict=True)),
        default=0.0,
    )
    for series, total in zip(plot["series"], totals, strict=True):
        panel = Panel(
            (edges[0], edges[-1]), (0, 100 * most or 100), left=46, top=36, right=10, below=42
        )
        panel.y_axis("% of examples")
        panel.x_axis(plot["x"])
        said = []
        for (low, high), count in zip(pairwise(edges), series["counts"], strict=True):
            if count:
                title = f"{low:.3g} to {high:.3g}: {count} of {series['n']}"
                panel.rect(low, 0, high, 100 * count / total, "column", title)
                said.append(f"{low:.3g} to {high:.3g}: {count}")
        name = f"{series['name']}, n={series['n']}"
        panel.text(46, 13, shorten_label(name, 34), kind="name")
        panel.threshold(plot.get("threshold"))
        yield panel.svg(f"{plot['title']}: {name}", "; ".join(said) or "no examples")


def _draw_violins(plot: PlotData) -> Iterator[str]:
    values = [q for one in plot["series"] for group in one["groups"] for q in group["quantiles"]]
    if not values:
        return
    low, high = compute_axis_bounds(values)
    # Distances and shares are never negative, and the axis must not suggest otherwise.
    low = 0.0 if min(values) >= 0 else low
    for series in plot["series"]:
        groups = series["groups"]
        panel = Panel(
            (0, len(groups) or 1), (low, high), left=60, right=8, top=26, floor=172, below=58
        )
        panel.y_axis(plot["y"])
        panel.x_axis(plot["x"], ())
        for place, group in enumerate(groups):
            x = panel.x.at(place + 0.5)
            name = shorten_label(group["name"].replace(" to ", "–"), max(4, 44 // len(groups)))
            panel.text(x, 187, name, "middle")
            panel.text(x, 201, f"n={group['n']}", "middle")
            _draw_violin(panel, place + 0.5, group)
        panel.text(60, 13, shorten_label(series["name"], 34), kind="name")
        desc = "; ".join(map(_describe_group, groups)) or "no examples"
        yield panel.svg(f"{plot['title']}: {series['name']}", desc)


def _draw_violin(panel: Panel, x: float, group: PlotData) -> None:
    values = group["quantiles"]
    if not values:
        return
    low, middle, high = compute_quartiles(values)
    if group["n"] >= _MIN_VIOLIN_VALUES:
        sample = np.asarray(values, dtype=np.float64)
        spread = min(sample.std(), (high - low) / 1.34)
        # Silverman's rule; if most values are equal, the smallest width visible on the axis.
        width = max(0.9 * spread * sample.size**-0.2, (panel.y.high - panel.y.low) / 80)
        places = np.linspace(sample[0], sample[-1], _DENSITY_STEPS)
        density = np.exp(-0.5 * ((places[:, None] - sample[None, :]) / width) ** 2).sum(axis=1)
        reach = 0.44 * density / density.max()
        sides = list(zip(places.tolist(), reach.tolist(), strict=True))
        outline = [*((x + r, v) for v, r in sides), *((x - r, v) for v, r in reversed(sides))]
        panel.shape(outline, "shape", "polygon")
    panel.line(x, values[0], x, values[-1], "whisker")
    panel.line(x, low, x, high, "quartiles")
    panel.dot(x, middle, _describe_group(group), "median", 3.4)


def compute_quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return low, middle, high


def _describe_group(group: PlotData) -> str:
    if not group["quantiles"]:
        return f"{group['name']}: none"
    low, middle, high = compute_quartiles(group["quantiles"])
    return f"{group['name']}: median {middle:.3g}, half of them from {low:.3g} to {high:.3g}, n={group['n']}"


def _draw_effect(plot: PlotData) -> Iterator[str]:
    """Yield one effect with its interval against its threshold, and the sides on which it holds and fails."""
    effect, threshold, chance = plot.get("effect"), plot["threshold"], plot.get("chance")
    if effect is None or not isfinite(effect):
        return
    low, high = plot.get("interval") or (effect, effect)
    ends = [threshold, effect, low, high, *([] if chance is None else [chance])]
    # Both sides of the threshold are visible, wherever the effect is.
    room = 0.25 * (max(ends) - min(ends))
    bounds = compute_axis_bounds([*ends, threshold - room, threshold + room])
    panel = Panel(bounds, (0, 1), left=10, right=10, top=20, floor=60, below=24)
    above = plot["direction"] == "above"
    sides = (panel.x.high, panel.x.low) if above else (panel.x.low, panel.x.high)
    for side, kind in zip(sides, ("holds", "fails"), strict=True):
        panel.rect(threshold, 0, side, 1, kind)
        x, right = panel.x.at(threshold), side == panel.x.high
        if abs(panel.x.at(side) - x) > 44:
            text, off = (f"{kind} →", 5) if right else (f"← {kind}", -5)
            panel.text(x + off, 14, text, "start" if right else "end")
    panel.upright(threshold, "threshold")
    panel.x_axis("")
    if chance is not None:
        panel.upright(chance, "chance")
    panel.reach(low, high, 0.5, 0.12 if plot.get("interval") else 0.0)
    panel.dot(effect, 0.5, plot["desc"], radius=5)
    yield panel.svg(plot["title"], plot["desc"])


def draw_track(track: Track) -> str:
    """Return a value with its interval as a small drawing beside its text, which has the numbers."""
    scale = AxisScale(*track.ends, 6, 144)
    low, value, high = (f"{scale.at(x):.1f}" for x in (track.low, track.value, track.high))
    mark = ""
    if track.mark is not None:
        x = f"{scale.at(track.mark):.1f}"
        mark = f'<line class="threshold" x1="{x}" y1="0" x2="{x}" y2="14"/>'
    return (
        '<svg class="track" viewBox="0 0 150 14" aria-hidden="true">'
        f'<line class="grid" x1="6" y1="7" x2="144" y2="7"/>{mark}'
        f'<line class="reach" x1="{low}" y1="7" x2="{high}" y2="7"/>'
        f'<circle class="own" cx="{value}" cy="7" r="3.5"/></svg>'
    )


_ROW, _PANEL_WIDTH, _GAP, _HEAD, _FOOT, _ACROSS = 20, 210, 26, 40, 30, 4


def draw_dots(plot: PlotData, *, as_file: bool = False) -> str:
    """Return panels of dots with intervals over the bands of chance, a row for each name; also as a file of its own."""
    names, panels = plot["rows"], plot["panels"]
    label = 18 + 7.2 * max(map(len, names), default=0)  # width of the names in a font of size 12
    across = min(_ACROSS, len(panels)) or 1
    tall = _HEAD + _ROW * len(names) + _FOOT
    width = label + across * (_PANEL_WIDTH + _GAP) + 8
    # Letters are on average less than 0.6 of the font size wide.
    most = max(20, int((width - 16) / 7))
    head, foot = (
        [line for text in texts for line in wrap(text, most)]
        for texts in (plot.get("head", ()) if as_file else (), plot["notes"])
    )
    above = 22 + 17 * len(head) if head else 4
    panel = Panel((0, 1), (0, 1))  # for its marks
    for row, line in enumerate(head):
        panel.text(8, 24 + 17 * row, line, kind="name")
    for place, one in enumerate(panels):
        top = above + tall * (place // across)
        for row, name in enumerate(names if place % across == 0 else ()):
            panel.text(label - 10, top + _HEAD + _ROW * (row + 0.5) + 4, name, "end", "row")
        left = label + (place % across) * (_PANEL_WIDTH + _GAP)
        panel.parts += [
            f'<g transform="translate({left:.1f} {top})">',
            *_draw_dot_panel(one),
            "</g>",
        ]
    height = above + -(-len(panels) // across) * tall + 14 + 16 * len(foot)
    for row, line in enumerate(foot):
        panel.text(8, height - 16 * (len(foot) - row), line)
    own = PLOT_STYLE.replace(".whence svg ", ".whence ")
    parts = [f"<style>{_FILE_STYLE}{own}</style>", '<rect width="100%" height="100%" fill="#fff"/>']
    body = "\n".join([*(parts if as_file else ()), *panel.parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{"whence" if as_file else "dots"}" width="{width:g}" '
        f'height="{height:g}" viewBox="0 0 {width:g} {height:g}" role="img"><title>{escape(plot["title"])}</title>'
        f"{body}</svg>\n"
    )


def _draw_dot_panel(plot: PlotData) -> list[str]:
    cells = [cell for cell in plot["cells"] if cell]
    bounds = [
        row[end]
        for cell in cells
        for row in (cell, cell["null"] or {})
        for end in ("value", "mean", "low", "high")
        if row.get(end) is not None
    ]
    rows = len(plot["cells"])
    panel = Panel(
        compute_axis_bounds(bounds or [0.0]), (rows, 0), left=0, right=WIDTH - _PANEL_WIDTH, top=_HEAD,
        floor=_HEAD + _ROW * rows,
    )  # fmt: skip
    panel.parts.append(f"<title>{escape(plot['name'])}</title>")
    panel.text(0, 14, plot["name"], kind="name")
    panel.text(0, 30, plot["note"])
    for tick, text in compute_ticks(panel.x.low, panel.x.high) if cells else ():
        panel.upright(tick, "grid")
        panel.text(panel.x.at(tick), panel.y.start + 14, text, "middle")
    for row, cell in enumerate(plot["cells"]):
        if cell and (null := cell["null"]):
            if null["low"] is not None:
                panel.rect(null["low"], row, null["high"], row + 1, "spread")
            panel.line(null["mean"], row, null["mean"], row + 1, "chance")
    for row, cell in enumerate(plot["cells"]):
        if not cell:
            panel.text(0, _HEAD + _ROW * (row + 0.5) + 4, "not tested")
            continue
        kind = "grey" if cell["grey"] else "own"
        if cell["low"] is not None:
            panel.line(cell["low"], row + 0.5, cell["high"], row + 0.5, kind)
        dot = kind if cell["filled"] or cell["grey"] else "open"
        panel.dot(cell["value"], row + 0.5, cell["title"], dot)
    return panel.parts


_DRAWINGS = {
    "band": _draw_band,
    "bars": _draw_bars,
    "curve": _draw_curve,
    "effect": _draw_effect,
    "histogram": _draw_histograms,
    "violin": _draw_violins,
}


def render_plot(plot: PlotData) -> str:
    """Return a plot as an HTML figure, or an empty string if it has no data to draw."""
    if plot["kind"] == "dots":
        return f'<div class="wide">{draw_dots(plot)}</div>' if plot["panels"] else ""
    panels = list(_DRAWINGS[plot["kind"]](plot)) if plot["kind"] in _DRAWINGS else []
    if not panels:
        return ""
    first, rest = panels[:_MAX_PANELS], panels[_MAX_PANELS:]
    body = f'<div class="columns">{"".join(first)}</div>'
    if rest:
        more = f'<div class="columns">{"".join(rest)}</div>'
        body += f"<details><summary>{len(rest)} more</summary>{more}</details>"
    return f"<figure><figcaption>{escape(plot['title'])}</figcaption>{body}</figure>"


_MAX_SERIES = 4  # series of a sketch; a page has all
_MAX_SKETCH_WIDTH = 76
_SKETCH_ROWS = 9  # of a curve: odd, so that there is a middle row to label


class Pen(NamedTuple):
    """The characters of sketches."""

    levels: str = "▁▂▃▄▅▆▇█"  # from the smallest count to the largest
    whisker: str = "─"
    quartiles: str = "━"
    median: str = "●"
    mark: str = "▲"
    band: str = "░"
    # flat, upright, where a falling line leaves and arrives, where a rising one does
    line: tuple[str, ...] = (*"━┃┓┗┛┏",)
    frame: tuple[str, ...] = (*"│└─",)


ASCII_PEN = Pen("._-=+*%#", "-", "=", "o", "^", ":", (*"******",), (*"|+-",))


def sketch_plot(plot: PlotData, width: int, *, ascii_only: bool = False) -> list[str]:
    """Return a plot as lines of text at most `width` wide; empty if a sketch would not help."""
    sketches = {
        "histogram": _sketch_histogram,
        "violin": _sketch_violin,
        "bars": _sketch_bars,
        "band": _sketch_band,
    }
    if plot["kind"] not in sketches:
        return []
    pen = ASCII_PEN if ascii_only else Pen()
    lines = list(sketches[plot["kind"]](plot, min(width, _MAX_SKETCH_WIDTH), pen))
    more = len(plot.get("series", ())) - _MAX_SERIES
    lines += [f"  {more} more on the page"] if lines and more > 0 else []
    return [plot["title"], *lines] if lines else []


def _sketch_histogram(plot: PlotData, width: int, pen: Pen) -> Iterator[str]:
    edges, series = plot["edges"], plot["series"][:_MAX_SERIES]
    if len(edges) < 2 or not series:
        return
    low, high = f"{edges[0]:.3g} ", f" {edges[-1]:.3g}"
    label = _choose_label_width([row["name"] for row in series], width)
    columns = max(1, width - 4 - label - len(low) - len(high) - len(", n=12345"))
    step = -(-len(series[0]["counts"]) // columns)
    blocks = ""
    for row in series:
        counts = row["counts"]
        sums = [sum(counts[at : at + step]) for at in range(0, len(counts), step)]
        most, top = max(sums, default=0) or 1, len(pen.levels) - 1
        levels = [" " if not c else pen.levels[min(top, int(c / most * top + 0.5))] for c in sums]
        blocks = "".join(levels)
        yield from _label_sketch(row["name"], label, f"{low}{blocks}{high}, n={row['n']}")
    value = plot.get("threshold")
    if value is not None and edges[0] <= value <= edges[-1]:
        place = int(AxisScale(edges[0], edges[-1], 0, len(blocks) - 1).at(value) + 0.5)
        yield f"{' ' * (4 + label + len(low) + place)}{pen.mark} {value:.4g}"


def _sketch_violin(plot: PlotData, width: int, pen: Pen) -> Iterator[str]:
    known = [q for row in plot["series"] for group in row["groups"] for q in group["quantiles"]]
    if not known:
        return
    low, high = compute_axis_bounds(known)
    label = _choose_label_width([g["name"] for row in plot["series"] for g in row["groups"]], width)
    columns = max(8, width - 4 - label - len(" 0.0000, n=12345"))
    scale = AxisScale(0.0 if min(known) >= 0 else low, high, 0, columns - 1)
    for row in plot["series"][:_MAX_SERIES]:
        yield f"  {row['name']}"
        for group in row["groups"]:
            values = group["quantiles"]
            if not values:
                continue
            quartiles, line = compute_quartiles(values), [" "] * columns
            for start, end, sign in (
                (values[0], values[-1], pen.whisker),
                (quartiles[0], quartiles[2], pen.quartiles),
                (quartiles[1], quartiles[1], pen.median),
            ):
                for place in range(round(scale.at(start)), round(scale.at(end)) + 1):
                    line[place] = sign
            drawn = f"{''.join(line)} {quartiles[1]:.3g}, n={group['n']}"
            yield from _label_sketch(group["name"], label, drawn)


def _sketch_bars(plot: PlotData, width: int, pen: Pen) -> Iterator[str]:
    for bar in plot["bars"]:
        yield f"  {_describe_bar(bar)}"


def _sketch_band(plot: PlotData, width: int, pen: Pen) -> Iterator[str]:
    """Yield the rows of a curve over the band of chance, the highest first."""
    low, high = ends = compute_curve_bounds(plot)
    labels = [format_tick(value, ends) for value in (high, (low + high) / 2, low)]
    left = max(map(len, labels)) + 1
    columns, rows = min(width, 44) - left - 1, _SKETCH_ROWS
    canvas = [[" "] * columns for _ in range(rows)]
    levels = [
        _compute_levels(plot["at"], plot[name], ends, columns) for name in ("low", "high", "values")
    ]
    for column, (under, over, _) in enumerate(zip(*levels, strict=True)):
        for level in range(under, over + 1):
            canvas[level][column] = pen.band
    flat, upright, falls, falls_to, rises, rises_to = pen.line
    canvas[levels[2][0]][0] = flat
    for column, (before, now) in enumerate(pairwise(levels[2]), start=1):
        for level in range(min(before, now) + 1, max(before, now)):
            canvas[level][column] = upright
        canvas[before][column] = falls if now < before else rises
        canvas[now][column] = flat if now == before else falls_to if now < before else rises_to
    edge, corner, floor = pen.frame
    names = {0: labels[0], rows // 2: labels[1], rows - 1: labels[2]}
    for row, cells in enumerate(reversed(canvas)):
        yield f"{names.get(row, ''):>{left - 1}} {edge}{''.join(cells)}"
    yield " " * left + corner + floor * columns
    yield " " * left + f"0%{plot['x']:^{columns - 5}}100%"
    yield f"{flat * 2} {plot['name']}  {pen.band * 2} {plot['band']}"
    yield f"up: {plot['y']}"


def _compute_levels(
    at: Sequence[float], values: Sequence[float], ends: tuple[float, float], columns: int
) -> list[int]:
    """Return the row of each column, counted from the bottom, interpolated between the values."""
    share = (np.interp(np.linspace(at[0], at[-1], columns), at, values) - ends[0]) / (
        ends[1] - ends[0]
    )
    return [
        int(level) for level in np.clip(np.round(share * (_SKETCH_ROWS - 1)), 0, _SKETCH_ROWS - 1)
    ]


def _choose_label_width(names: Sequence[str], width: int) -> int:
    """Return the width of a column of names; 0 if they would take more than a third of the line."""
    longest = max(map(len, names), default=0)
    return longest + 2 if 3 * longest <= width else 0


def _label_sketch(name: str, label: int, drawn: str) -> Iterator[str]:
    """Return a sketch with its name before it, or above it if there is no space."""
    if not label:
        yield f"    {name}"
    yield f"    {name if label else '':<{label}}{drawn}"


def render_dots(plot: PlotData) -> list[str]:
    """Return `draw_dots` as a file, as its first and only panel; goes when nobody calls it."""
    return [draw_dots(plot, as_file=True)]
