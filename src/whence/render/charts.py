"""Charts: bars, curves, bands, histograms, violins, effects and dots, as SVG and, where it helps, in characters.

A plot is a dict with a `kind` and a `title`; its fields are in docs/reference/json.md. Drawings need no network, every
text in them is escaped, and their colours are classes of the page, which may be light or dark; blue and orange differ
in every common form of colour blindness. A drawing is 320 units wide, as wide as a phone has room for. The outline of a
violin is a kernel density estimate by Silverman's rule; it needs at least 10 values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from textwrap import wrap
from typing import Any

import numpy as np

from whence.render import document as doc

PlotData = Mapping[str, Any]
Point = tuple[float, float]

WIDTH = 320
_MAX_PANELS = 6  # panels of one plot; further ones are folded away
_MIN_VIOLIN_VALUES, _DENSITY_STEPS = 10, 48
_QUARTILES = (0.25, 0.5, 0.75)


def read_style(name: str) -> str:
    """Return a style sheet of this folder, without its comments."""
    text = files("whence.render").joinpath(f"{name}.css").read_text(encoding="utf-8")
    return re.sub(r"/\*.*?\*/\n", "", text, flags=re.DOTALL)


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

    def shape(self, points: Iterable[Point], kind: str, tag: str = "polyline") -> None:
        """Draw a line or an area through values."""
        drawn = " ".join(f"{self.x.at(x):.1f},{self.y.at(y):.1f}" for x, y in points)
        self.parts.append(f'<{tag} class="{kind}" points="{drawn}"/>')

    def rect(self, x1: float, y1: float, x2: float, y2: float, kind: str, title: str = "") -> None:
        """Draw a rectangle between two corners."""
        left, right = sorted((self.x.at(x1), self.x.at(x2)))
        top, floor = sorted((self.y.at(y1), self.y.at(y2)))
        size = f'width="{right - left:.1f}" height="{floor - top:.1f}"'
        shown = f"<title>{escape(title)}</title>" if title else ""
        place = f'x="{left:.1f}" y="{top:.1f}"'
        self.parts.append(f'<rect class="{kind}" {place} {size}>{shown}</rect>')

    def dot(
        self, x: float, y: float, title: str = "", kind: str = "own", radius: float = 4
    ) -> None:
        """Draw a dot at a value."""
        place = f'cx="{self.x.at(x):.1f}" cy="{self.y.at(y):.1f}" r="{radius:g}"'
        shown = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(f'<circle class="{kind}" {place}>{shown}</circle>')

    def text(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> None:
        """Write a text at coordinates of the drawing."""
        css = f' class="{kind}"' if kind else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self.parts.append(f"<text{css} {place}>{escape(text)}</text>")

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


def _draw_band(plot: PlotData) -> Iterator[str]:
    """Yield a curve over the band in which chance lies; screen readers get its values."""
    low, high = ends = compute_curve_bounds(plot)
    at, values = plot["at"], plot["values"]
    panel = Panel((at[0], max(at[-1], at[0] + 1e-9)), ends, below=74)
    panel.y_axis(plot["y"], [(v, format_tick(v, ends)) for v in (low, (low + high) / 2, high)])
    panel.x_axis("", [(v, f"{v:.0%}") for v in (at[0], (at[0] + at[-1]) / 2, at[-1])])
    panel.text((panel.x.start + panel.x.end) / 2, 200, plot["x"], "middle")
    outline = [*zip(at, plot["high"], strict=True), *zip(at[::-1], plot["low"][::-1], strict=True)]
    panel.shape(outline, "band", "polygon")
    panel.shape(zip(at, plot["mean"], strict=True), "mean")
    panel.shape(zip(at, values, strict=True), "own")
    said = []
    for x, y, least, most in zip(at, values, plot["low"], plot["high"], strict=True):
        panel.dot(x, y, radius=2.6)
        said.append(f"at {x:.0%} {y:.3g}, {plot['band']} {least:.3g} to {most:.3g}")
    name = shorten_label(plot["name"], 24)
    panel.text(panel.x.start, 218, f"line: {name}; dashed: mean of the shaded")
    panel.text(panel.x.start, 233, f"shaded: {plot['band']}")
    name = f"{plot['title']}, {plot['name']}: {plot['y']} over {plot['x']}"
    yield panel.svg(name, f"{plot['y']}. {plot['x']}: {'; '.join(said)}.")


def compute_curve_bounds(plot: PlotData) -> tuple[float, float]:
    """Return the bounds of the value axis: 0 and 1 for probabilities, whatever their range."""
    known = [value for name in ("values", "low", "high") for value in plot[name]]
    low, high = min(known), max(known)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low - 1, low + 1)


def format_tick(value: float, ends: tuple[float, float]) -> str:
    """Return the label of a tick on the value axis."""
    return f"{value:.0%}" if ends == (0.0, 1.0) else f"{value:.3g}"


def _draw_histograms(plot: PlotData) -> Iterator[str]:
    edges = plot["edges"]
    if len(edges) < 2:
        return
    shares = [
        [100 * count / (sum(series["counts"]) or 1) for count in series["counts"]]
        for series in plot["series"]
    ]
    ends = (0, max((share for own in shares for share in own), default=0) or 100)
    for series, own in zip(plot["series"], shares, strict=True):
        panel = Panel((edges[0], edges[-1]), ends, left=46, top=36, right=10, below=42)
        panel.y_axis("% of examples")
        panel.x_axis(plot["x"])
        said = []
        for (low, high), count, share in zip(pairwise(edges), series["counts"], own, strict=True):
            if count:
                said.append(f"{low:.3g} to {high:.3g}: {count}")
                panel.rect(low, 0, high, share, "column", f"{said[-1]} of {series['n']}")
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
            if group["quantiles"]:
                _draw_violin(panel, place + 0.5, group)
        panel.text(60, 13, shorten_label(series["name"], 34), kind="name")
        desc = "; ".join(map(_describe_group, groups)) or "no examples"
        yield panel.svg(f"{plot['title']}: {series['name']}", desc)


def _draw_violin(panel: Panel, x: float, group: PlotData) -> None:
    values = group["quantiles"]
    low, middle, high = np.quantile(values, _QUARTILES).tolist()
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


def _describe_group(group: PlotData) -> str:
    if not group["quantiles"]:
        return f"{group['name']}: none"
    low, middle, high = np.quantile(group["quantiles"], _QUARTILES).tolist()
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
    panel.line(low, 0.5, high, 0.5, "reach")
    for end in plot.get("interval") or ():
        panel.line(end, 0.38, end, 0.62, "reach")
    panel.dot(effect, 0.5, plot["desc"], radius=5)
    yield panel.svg(plot["title"], plot["desc"])


def draw_track(track: doc.Track) -> str:
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
        place_of_panel = f'<g transform="translate({left:.1f} {top})">'
        panel.parts += [place_of_panel, *_draw_dot_panel(one), "</g>"]
    height = above + -(-len(panels) // across) * tall + 14 + 16 * len(foot)
    for row, line in enumerate(foot):
        panel.text(8, height - 16 * (len(foot) - row), line)
    own = read_style("plot").replace(".whence svg ", ".whence ")
    parts = [f"<style>{own}</style>", '<rect width="100%" height="100%" fill="#fff"/>']
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
    panel.text(0, 14, shorten_label(plot["name"], 30), kind="name")
    panel.text(0, 30, plot["note"])
    for tick, text in compute_ticks(panel.x.low, panel.x.high) if cells else ():
        panel.upright(tick, "grid")
        panel.text(panel.x.at(tick), panel.y.start + 14, text, "middle")
    for row, cell in enumerate(plot["cells"]):
        if not cell:
            panel.text(0, _HEAD + _ROW * (row + 0.5) + 4, "not tested")
            continue
        if null := cell["null"]:
            if null["low"] is not None:
                panel.rect(null["low"], row, null["high"], row + 1, "spread")
            panel.line(null["mean"], row, null["mean"], row + 1, "chance")
        kind = "grey" if cell["grey"] else "own"
        if cell["low"] is not None:
            panel.line(cell["low"], row + 0.5, cell["high"], row + 0.5, kind)
        dot = kind if cell["filled"] else f"{kind} open"
        panel.dot(cell["value"], row + 0.5, cell["title"], dot)
    return panel.parts


def _draw_curve(plot: PlotData) -> Iterator[str]:
    """Yield a curve through named points, which the table of points and their tooltips name."""
    points, floor = plot["points"], plot.get("floor") or {}
    if not points:
        return
    across, up = (
        compute_axis_bounds([p[axis] for p in (*points, floor) if p.get(axis) is not None])
        for axis in ("x", "y")
    )
    panel = Panel(across, up, left=60, floor=196)
    panel.y_axis(plot["y"])
    panel.x_axis(plot["x"])
    name = shorten_label(floor.get("name") or "floor", 34)
    if floor.get("y") is not None:
        panel.line(*across[:1], floor["y"], across[1], floor["y"], "threshold")
        panel.text(panel.x.end - 2, panel.y.at(floor["y"]) - 5, name, "end", "threshold")
    panel.threshold(floor.get("x"), name)
    panel.shape([(p["x"], p["y"]) for p in points], "own")
    said = [f"{point['name']}: {point['x']:.3g}, {point['y']:.3g}" for point in points]
    for point, text in zip(points, said, strict=True):
        panel.dot(point["x"], point["y"], text)
    yield panel.svg(plot["title"], f"{plot['y']} over {plot['x']}. {'; '.join(said)}")


_DRAWINGS = {
    "band": _draw_band,
    "curve": _draw_curve,
    "effect": _draw_effect,
    "histogram": _draw_histograms,
    "violin": _draw_violins,
}


def render_plot(plot: PlotData) -> str:
    """Return a plot as an HTML figure, or an empty string if there is nothing to draw."""
    if plot["kind"] == "dots":
        return f'<div class="wide">{draw_dots(plot)}</div>' if plot["panels"] else ""
    panels = list(_DRAWINGS[plot["kind"]](plot)) if plot["kind"] in _DRAWINGS else []
    if not panels:
        return ""
    first, more = (
        f'<div class="columns">{"".join(some)}</div>'
        for some in (panels[:_MAX_PANELS], panels[_MAX_PANELS:])
    )
    summary = f"<summary>{len(panels) - _MAX_PANELS} more</summary>"
    rest = f"<details>{summary}{more}</details>" if len(panels) > _MAX_PANELS else ""
    return f"<figure><figcaption>{escape(plot['title'])}</figcaption>{first}{rest}</figure>"


_LEVELS = "▁▂▃▄▅▆▇█"  # from the smallest count to the largest
_STRIP_WIDTH = 24  # columns of a histogram in characters
_SKETCH_ROWS, _SKETCH_WIDTH = 9, 44  # of a curve: odd rows, so that there is a middle one to label
_TOP_TOKENS = 5  # of an example of attention, where there are no shades
ATTENTION_LEGEND = "Full colour is the largest weight in any row of the example; pointing at a token shows its weight."


def sketch_plot(plot: PlotData, width: int) -> list[str]:
    """Return a band in characters, at most `width` wide; the other plots have tables (`expand_plot`)."""
    if plot["kind"] != "band":
        return []
    low, high = ends = compute_curve_bounds(plot)
    top = _SKETCH_ROWS - 1
    values = {top: high, top // 2: (low + high) / 2, 0: low}
    labels = {row: format_tick(value, ends) for row, value in values.items()}
    left = max(map(len, labels.values())) + 1
    columns = min(width, _SKETCH_WIDTH) - left - 1
    places = np.linspace(plot["at"][0], plot["at"][-1], columns)
    drawn = (np.interp(places, plot["at"], plot[name]) for name in ("low", "high", "values"))
    under, over, line = (np.round((one - low) / (high - low) * top).astype(int) for one in drawn)
    before = np.concatenate([line[:1], line[:-1]])
    rows = []
    for row in reversed(range(_SKETCH_ROWS)):
        cells = np.where((under <= row) & (row <= over), "░", " ")
        cells[(np.minimum(line, before) < row) & (row < np.maximum(line, before))] = "┃"
        cells[(line == row) & (before == row)] = "━"
        cells[(line == row) & (before < row)] = "┏"
        cells[(line == row) & (before > row)] = "┗"
        cells[(before == row) & (line < row)] = "┓"
        cells[(before == row) & (line > row)] = "┛"
        rows.append(f"{labels.get(row, ''):>{left - 1}} │{''.join(cells)}")
    return [
        plot["title"],
        *rows,
        f"{' ' * left}└{'─' * columns}",
        f"{' ' * left}0%{plot['x']:^{columns - 5}}100%",
        f"━━ {plot['name']}  ░░ {plot['band']}",
        f"up: {plot['y']}",
    ]


def expand_plot(plot: PlotData) -> list[doc.Block]:
    """Return the blocks of a plot that are text or table, and those that stand for its drawing in characters."""
    match plot["kind"]:
        case "attention":
            return list(_expand_attention(plot))
        case "matrix" if plot["rows"] and plot["columns"]:
            return _expand_matrix(plot)
        case "bars":
            return [_tabulate_bars(plot)]
        case "curve":
            points = [(p["name"], f"{p['x']:.4g}", f"{p['y']:.4g}") for p in plot["points"]]
            return [doc.Details("All points", [doc.Table(("point", plot["x"], plot["y"]), points)])]
        case "histogram" if len(plot["edges"]) > 1 and plot["series"]:
            name = f"{plot['title']}, {plot['edges'][0]:.3g} to {plot['edges'][-1]:.3g}"
            rows = [(s["name"], _draw_strip(s["counts"]), f"n={s['n']}") for s in plot["series"]]
            limit = "" if plot.get("threshold") is None else f"threshold {plot['threshold']:.4g}"
            table = doc.Table((), rows, name)
            return [doc.Details("", [], instead=[table, doc.Paragraph(limit, "dim")])]
        case "violin":
            known = [(s["name"], g) for s in plot["series"] for g in s["groups"] if g["quantiles"]]
            groups = [(name, _describe_group(group)) for name, group in known]
            return [doc.Details("", [], instead=[doc.Table((), groups, plot["title"])])]
    return []


def _draw_strip(counts: Sequence[float]) -> str:
    """Return counts as blocks; neighbouring counts are merged to fit the columns."""
    step = -(-len(counts) // _STRIP_WIDTH)
    sums = [sum(counts[at : at + step]) for at in range(0, len(counts), step)]
    most, top = max(sums, default=0) or 1, len(_LEVELS) - 1
    return "".join("·" if not c else _LEVELS[min(top, int(c / most * top + 0.5))] for c in sums)


def _tabulate_bars(plot: PlotData) -> doc.Table:
    """Return bars as a table of figures, each with a track on a page."""
    bars, limit = plot["bars"], plot.get("threshold")
    known = [b[e] for b in bars for e in ("value", "low", "high") if b.get(e) is not None]
    known += [0.0] if limit is None else [0.0, limit]
    ends = (min(known), max(known) + (max(known) == min(known)))
    rows = []
    for bar in bars:
        value, low, high = (bar.get(end) for end in ("value", "low", "high"))
        text, track = "not known", None
        if value is not None:
            low, high = (value, value) if low is None or high is None else (low, high)
            text = f"{value:.3g}" + ("" if low == high == value else f" [{low:.3g}, {high:.3g}]")
            track = doc.Track(value, low, high, ends, limit)
        rows.append((bar["name"], text, doc.Cell("", track=track)))
    note = "" if limit is None else f"threshold {limit:.4g}"
    return doc.Table(("", plot["y"], note), rows, plot["title"])


def _expand_attention(plot: PlotData) -> Iterator[doc.Block]:
    """Yield the text of each example, tinted by each row of attention, and the weights as a table."""
    examples = [one for one in plot["examples"] if one["tokens"] and one["rows"]]
    yield doc.Heading(plot["title"] if examples else "")
    # Only a page has colours to explain.
    yield doc.Details("", [doc.Paragraph(ATTENTION_LEGEND if examples else "", "dim")])
    for example in examples:
        tokens, rows = example["tokens"], example["rows"]
        largest = max((w for row in rows for w in row["weights"]), default=0.0) or 1.0
        share = example.get("probability")
        sure = "" if share is None else f" ({share:.1%})"
        yield doc.Paragraph(f"predicted {example['predicted']}{sure}", "strong")
        for row in rows:
            pairs = list(zip(row["weights"], tokens, strict=True))
            pieces = []
            for weight, token in pairs:
                tint = doc.Tint(token, min(1.0, weight / largest), f"{weight:.4g}")
                pieces += [tint, doc.Tint(" ")]
            name = f"{row['name']} {row['note']}" if row.get("note") else row["name"]
            most = sorted(pairs, key=lambda pair: -pair[0])[:_TOP_TOKENS]
            heaviest = ", ".join(f"'{token}' {weight:.2f}" for weight, token in most)
            yield doc.TintedText(pieces, name, plain=f"{name}: {heaviest}")
        heads = ["token", *(row["name"] for row in rows)]
        columns = ([doc.Cell(f"{w:.4f}", align="right") for w in row["weights"]] for row in rows)
        table = doc.Table(heads, list(zip(tokens, *columns, strict=True)))
        yield doc.Details("All weights", [table])


def _expand_matrix(plot: PlotData) -> list[doc.Block]:
    """Return a matrix as a table of tinted cells; with `brief`, pages show the colours alone."""
    low, high = plot["range"]
    # Where values may be negative, zero has no colour; else the lowest has none.
    least, reach = (0.0, max(abs(low), abs(high))) if low < 0 else (low, high - low)
    rows = []
    for name, values in zip(plot["rows"], plot["values"], strict=True):
        row = [doc.Cell(str(name))]
        for column, value in zip(plot["columns"], values, strict=True):
            cell = doc.Cell("-", "dim", align="right")
            if value is not None and isfinite(value):
                text = " " if plot.get("brief") else f"{round(value, 2) + 0.0:.2f}"
                tint = max(-1.0, min(1.0, (value - least) / (reach or 1.0)))
                title = f"{name}, {column}: {value:.4g}"
                cell = doc.Cell(text, align="right", tint=tint, title=title)
            row.append(cell)
        rows.append(row)
    table = doc.Table(("", *map(str, plot["columns"])), rows, name=plot["title"])
    # Colours alone say nothing in characters.
    return [doc.Details("", [table])] if plot.get("brief") else [table]
