"""Charts as SVG and tinted HTML tables: bars, curves, histograms, violins, matrices, attention rows.

A plot is a dict with a `kind`; its fields are in docs/reference/json.md. Everything works offline, and
every piece of text is escaped. Colours come from the classes of `PLOT_STYLE`, so that a page can be light
or dark; blue and orange differ in every common form of colour blindness. Drawings are 320 units wide, as
wide as a phone has room for. The outline of a violin is a kernel density estimate by Silverman's rule; it
needs at least 10 values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from whence.render.colour import POSITIVE, compute_shade_colour
from whence.render.document import Track

ATTENTION_LEGEND = "Full colour is the largest weight in any row of the example; pointing at a token shows its weight."
_MIN_TINTED_WEIGHT = 0.02  # share of the largest weight


def render_attention_examples(plot: Mapping[str, Any]) -> list[str]:
    """Return the tinted attention rows of each example as HTML, after a legend."""
    blocks = [
        _render_attention_example(example)
        for example in plot["examples"]
        if example["tokens"] and example["rows"]
    ]
    return [f'<p class="dim">{ATTENTION_LEGEND}</p>', *blocks] if blocks else []


def _render_attention_example(example: Mapping[str, Any]) -> str:
    largest = max((w for row in example["rows"] for w in row["weights"]), default=0.0) or 1.0
    caption = f"predicted {example['predicted']}"
    if example.get("probability") is not None:
        caption += f" ({example['probability']:.1%})"
    rows = "".join(
        _render_attention_row(example["tokens"], row, largest) for row in example["rows"]
    )
    return f'<div class="example"><p class="dim">{escape(caption)}</p>{rows}{_render_weight_table(example)}</div>'


def _render_attention_row(tokens: Sequence[str], row: Mapping[str, Any], largest: float) -> str:
    marks = " ".join(
        f'<mark {_format_tint(weight / largest)} title="{weight:.4g}">{escape(token)}</mark>'
        for token, weight in zip(tokens, row["weights"], strict=True)
    )
    note = f' <span class="dim">{escape(row["note"])}</span>' if row.get("note") else ""
    return f'<p class="who"><strong>{escape(row["name"])}</strong>{note}</p><p class="strip" dir="auto">{marks}</p>'


def _format_tint(share: float) -> str:
    # Negligible weights keep the background of the page, which may be dark.
    if share < _MIN_TINTED_WEIGHT:
        return 'class="pale"'
    return 'style="background: rgb({},{},{})"'.format(*compute_shade_colour(min(1.0, share)))


def select_heaviest_tokens(
    tokens: Sequence[str], weights: Sequence[float], most: int
) -> list[tuple[str, float]]:
    """Return the tokens with the largest weights."""
    order = sorted(range(len(weights)), key=lambda place: -weights[place])
    return [(tokens[place], weights[place]) for place in order[:most]]


def _render_weight_table(example: Mapping[str, Any]) -> str:
    head = "".join(f'<th scope="col">{escape(row["name"])}</th>' for row in example["rows"])
    columns = zip(*(row["weights"] for row in example["rows"]), strict=True)
    rows = "".join(
        f'<tr><th scope="row">{escape(token)}</th>'
        + "".join(f'<td class="n">{weight:.4f}</td>' for weight in weights)
        + "</tr>"
        for token, weights in zip(example["tokens"], columns, strict=True)
    )
    return (
        '<details><summary>All weights</summary><div class="wide"><table><thead><tr><th scope="col">token</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


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


def compute_axis_bounds(values: list[float]) -> tuple[float, float]:
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


PLOT_WIDTH = 320  # the width of a phone's screen, so that text there keeps its font size


@dataclass(frozen=True)
class PlotFrame:
    """The horizontal and vertical axis scales of a plot, and the size of the drawing."""

    across: AxisScale
    up: AxisScale
    width: float = PLOT_WIDTH
    height: float = 210

    def render_x_axis(self, label: str, about: int = 5) -> Iterable[str]:
        """Yield the ticks and the label of the horizontal axis."""
        floor = self.up.start
        for place, tick_label in compute_ticks(self.across.low, self.across.high, about):
            x = self.across.at(place)
            yield render_line(x, floor, x, floor + 4, "grid")
            yield render_text(x, floor + 16, tick_label, "middle")
        if label:
            yield self.render_x_label(label)

    def render_x_label(self, label: str) -> str:
        """Return the label of the horizontal axis."""
        middle = (self.across.start + self.across.end) / 2
        return render_text(middle, self.height - 5, shorten_label(label, 40), "middle")

    def render_y_axis(self, label: str, about: int = 4) -> Iterable[str]:
        """Yield the grid lines, tick labels and label of the vertical axis."""
        for place, tick_label in compute_ticks(self.up.low, self.up.high, about):
            y = self.up.at(place)
            yield render_line(self.across.start, y, self.across.end, y, "grid")
            yield render_text(self.across.start - 6, y + 4, tick_label, "end")
        yield self.render_y_label(label)

    def render_y_label(self, label: str) -> str:
        """Return the label of the vertical axis."""
        middle = (self.up.start + self.up.end) / 2
        return (
            f'<text transform="translate(11 {middle:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(shorten_label(label, 28))}</text>"
        )


def render_svg(width: float, height: float, name: str, desc: str, body: Iterable[str]) -> str:
    """Return an SVG element; screen readers read its name and description."""
    return "".join(
        [
            f'<svg class="plot" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}">',
            f"<title>{escape(name)}</title><desc>{escape(desc)}</desc>",
            *body,
            "</svg>",
        ]
    )


def render_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line as an SVG element."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def render_text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return a text at a position as an SVG element."""
    css_class = f' class="{kind}"' if kind else ""
    return f'<text{css_class} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def render_rect(
    x: float, y: float, width: float, height: float, kind: str, tooltip: str = ""
) -> str:
    """Return a filled rectangle as an SVG element, with a tooltip if given."""
    title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}">{title}</rect>'
    )


def render_dot(x: float, y: float, kind: str = "own", tooltip: str = "", radius: float = 4) -> str:
    """Return a dot as an SVG element, with a tooltip if given."""
    title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">{title}</circle>'


def format_points(points: Sequence[tuple[float, float]]) -> str:
    """Return the points of a line or polygon in SVG notation."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def shorten_label(label: str, most: int) -> str:
    """Shorten a label that is too long; the full text is in the drawing's name."""
    return label if len(label) <= most else f"{label[: most - 1]}…"


_BARS_LEFT, _BARS_TOP, _BAR_ROW_HEIGHT, _BAR_HEIGHT = 16, 18, 36, 14


def render_bars(plot: Mapping[str, Any]) -> list[str]:
    """Return a bar chart; the name of a bar stands above it, because a phone has no space beside it."""
    rows = plot["bars"]
    values = [
        bar[end] for bar in rows for end in ("value", "low", "high") if bar.get(end) is not None
    ]
    if not values:
        return []
    values += [plot["threshold"]] if plot.get("threshold") is not None else []
    low, high = min(0.0, *values), max(0.0, *values)
    room = 0.05 * (high - low) or 1.0
    floor = _BARS_TOP + _BAR_ROW_HEIGHT * len(rows) + 4
    frame = PlotFrame(
        AxisScale(low - room * (low < 0), high + room, _BARS_LEFT, PLOT_WIDTH - 10),
        AxisScale(0, 1, floor, _BARS_TOP),
        height=floor + 38,
    )
    body = list(frame.render_x_axis(plot["y"]))
    body.append(render_line(frame.across.at(0), _BARS_TOP, frame.across.at(0), floor, "grid"))
    for place, bar in enumerate(rows):
        body += _render_bar(frame, bar, _BARS_TOP + _BAR_ROW_HEIGHT * place)
    body += render_threshold(frame, plot.get("threshold"))
    desc = "; ".join(_describe_bar(bar) for bar in rows)
    return [render_svg(PLOT_WIDTH, frame.height, plot["title"], f"{plot['y']}: {desc}", body)]


def _render_bar(frame: PlotFrame, bar: Mapping[str, Any], top: float) -> list[str]:
    at, zero = frame.across.at, frame.across.at(0)
    name = shorten_label(str(bar["name"]), 30)
    if bar.get("value") is None:
        return [render_text(_BARS_LEFT + 3, top + 14, f"{name}: not known")]
    x, middle = at(bar["value"]), top + 18 + _BAR_HEIGHT / 2
    elements = [
        render_rect(
            min(zero, x), top + 18, abs(x - zero), _BAR_HEIGHT, "column", _describe_bar(bar)
        ),
        render_text(_BARS_LEFT + 3, top + 14, f"{name}: {bar['value']:.3g}"),
    ]
    if bar.get("low") is not None and bar.get("high") is not None:
        low, high = at(bar["low"]), at(bar["high"])
        elements.append(render_line(low, middle, high, middle, "reach"))
        elements += [render_line(end, middle - 4, end, middle + 4, "reach") for end in (low, high)]
    return elements


def _describe_bar(bar: Mapping[str, Any]) -> str:
    if bar.get("value") is None:
        return f"{bar['name']}: not known"
    text = f"{bar['name']}: {bar['value']:.3g}"
    if bar.get("low") is None or bar.get("high") is None:
        return text
    return f"{text} [{bar['low']:.3g}, {bar['high']:.3g}]"


_CURVE_LEFT, _CURVE_TOP, _CURVE_HEIGHT, _CURVE_FLOOR = 60, 16, 240, 196
_LETTER_WIDTH = 6.4  # approximate width of a letter


def render_curve(plot: Mapping[str, Any]) -> list[str]:
    """Return a curve chart, and its points as a table."""
    points = plot["points"]
    if not points:
        return []
    floor = plot.get("floor") or {}
    ends = [
        compute_axis_bounds([p[axis] for p in points] + _get_floor_values(floor, axis))
        for axis in ("x", "y")
    ]
    frame = PlotFrame(
        AxisScale(*ends[0], _CURVE_LEFT, PLOT_WIDTH - 12),
        AxisScale(*ends[1], _CURVE_FLOOR, _CURVE_TOP),
        height=_CURVE_HEIGHT,
    )
    places = [(frame.across.at(p["x"]), frame.up.at(p["y"])) for p in points]
    body = [
        *frame.render_y_axis(plot["y"]),
        *frame.render_x_axis(plot["x"]),
        *_render_floor(frame, floor),
        f'<polyline class="own" points="{format_points(places)}"/>',
        *(
            render_dot(x, y, tooltip=_describe_point(p))
            for (x, y), p in zip(places, points, strict=True)
        ),
        *_label_points(plot, places),
    ]
    desc = "; ".join(_describe_point(p) for p in points)
    return [
        render_svg(
            PLOT_WIDTH, _CURVE_HEIGHT, plot["title"], f"{plot['y']} over {plot['x']}. {desc}", body
        ),
        _render_point_table(plot),
    ]


def _get_floor_values(floor: Mapping[str, Any], axis: str) -> list[float]:
    return [floor[axis]] if floor.get(axis) is not None else []


def _describe_point(point: Mapping[str, Any]) -> str:
    return f"{point['name']}: {point['x']:.3g}, {point['y']:.3g}"


def _render_floor(frame: PlotFrame, floor: Mapping[str, Any]) -> list[str]:
    name = shorten_label(str(floor.get("name") or "floor"), 34)
    if floor.get("x") is not None:
        x = frame.across.at(floor["x"])
        left = x < (frame.across.start + frame.across.end) / 2
        anchor, off = ("start", 4) if left else ("end", -4)
        return [
            render_line(x, frame.up.start, x, frame.up.end, "threshold"),
            render_text(x + off, frame.up.end + 10, name, anchor, "threshold"),
        ]
    if floor.get("y") is not None:
        y = frame.up.at(floor["y"])
        return [
            render_line(frame.across.start, y, frame.across.end, y, "threshold"),
            render_text(frame.across.end - 2, y - 5, name, "end", "threshold"),
        ]
    return []


def _label_points(plot: Mapping[str, Any], places: list[tuple[float, float]]) -> list[str]:
    """Label the points whose names fit without overlap; the table names all points."""
    labels, spans = [], list[tuple[float, float, float]]()
    for (x, y), point in zip(places, plot["points"], strict=True):
        name = shorten_label(str(point["name"]), 16)
        wide = _LETTER_WIDTH * len(name)
        start = x + 7 if x + 7 + wide < PLOT_WIDTH else x - 7 - wide
        free = all(abs(y - b) > 12 or start > end or start + wide < a for a, end, b in spans)
        if free and start > _CURVE_LEFT:
            spans.append((start, start + wide, y))
            labels.append(render_text(start, y - 6, name, kind="label"))
    return labels


def _render_point_table(plot: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{escape(str(p["name"]))}</td><td class="n">{p["x"]:.4g}</td><td class="n">{p["y"]:.4g}</td></tr>'
        for p in plot["points"]
    )
    return (
        '<details><summary>All points</summary><div class="wide"><table><thead><tr><th scope="col">point</th>'
        f'<th scope="col">{escape(plot["x"])}</th><th scope="col">{escape(plot["y"])}</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


_HISTOGRAM_LEFT, _HISTOGRAM_TOP, _HISTOGRAM_HEIGHT, _HISTOGRAM_FLOOR = 46, 36, 208, 166


def render_histogram(plot: Mapping[str, Any]) -> list[str]:
    """Return one histogram per series."""
    edges = plot["edges"]
    if len(edges) < 2:
        return []
    shares = [_compute_shares(series) for series in plot["series"]]
    most = max((share for own in shares for share in own), default=0.0) or 1.0
    frame = PlotFrame(
        AxisScale(edges[0], edges[-1], _HISTOGRAM_LEFT, PLOT_WIDTH - 10),
        AxisScale(0.0, most * 100, _HISTOGRAM_FLOOR, _HISTOGRAM_TOP),
        height=_HISTOGRAM_HEIGHT,
    )
    return [
        _render_histogram_panel(plot, series, own, frame)
        for series, own in zip(plot["series"], shares, strict=True)
    ]


def _compute_shares(series: Mapping[str, Any]) -> list[float]:
    total = sum(series["counts"])
    return [count / total if total else 0.0 for count in series["counts"]]


def _render_histogram_panel(
    plot: Mapping[str, Any], series: Mapping[str, Any], shares: Sequence[float], frame: PlotFrame
) -> str:
    name = f"{series['name']}, n={series['n']}"
    bins = list(zip(pairwise(plot["edges"]), series["counts"], shares, strict=True))
    bars = [(low, high, count, share) for (low, high), count, share in bins if count]
    body = [*frame.render_y_axis("% of examples"), *frame.render_x_axis(plot["x"])]
    for low, high, count, share in bars:
        x, y = frame.across.at(low), frame.up.at(share * 100)
        width = max(frame.across.at(high) - x - 1, 1.0)
        desc = f"{low:.3g} to {high:.3g}: {count} of {series['n']}"
        body.append(render_rect(x + 0.5, y, width, _HISTOGRAM_FLOOR - y, "column", desc))
    body.append(render_text(_HISTOGRAM_LEFT, 13, shorten_label(name, 34), kind="name"))
    body += render_threshold(frame, plot.get("threshold"))
    desc = "; ".join(f"{low:.3g} to {high:.3g}: {count}" for low, high, count, _ in bars)
    return render_svg(
        PLOT_WIDTH, _HISTOGRAM_HEIGHT, f"{plot['title']}: {name}", desc or "no examples", body
    )


def render_threshold(frame: PlotFrame, value: float | None) -> list[str]:
    """Draw a vertical line at the threshold, if it lies within the frame."""
    if value is None or not frame.across.low <= value <= frame.across.high:
        return []
    x = frame.across.at(value)
    left = x < (frame.across.start + frame.across.end) / 2
    anchor, off = ("start", 4) if left else ("end", -4)
    return [
        render_line(x, frame.up.start, x, frame.up.end - 12, "threshold"),
        render_text(x + off, frame.up.end - 4, f"threshold {value:.4g}", anchor, "threshold"),
    ]


def render_matrix(plot: Mapping[str, Any]) -> list[str]:
    """Return a matrix as a tinted HTML table."""
    if not plot["rows"] or not plot["columns"]:
        return []
    low, high = plot["range"]
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in plot["columns"])
    rows = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th>{"".join(_render_matrix_cell(v, low, high) for v in values)}</tr>'
        for name, values in zip(plot["rows"], plot["values"], strict=True)
    )
    return [
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(plot["title"])}"><table class="heat">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    ]


def _render_matrix_cell(value: float | None, low: float, high: float) -> str:
    if value is None or not isfinite(value):
        return '<td class="n none">-</td>'
    # Where values may be negative, zero has no colour; else the lowest has none.
    reach = max(abs(low), abs(high)) if low < 0 else high - low
    share = (value if low < 0 else value - low) / (reach or 1.0)
    tint = "rgb({},{},{})".format(*compute_shade_colour(max(-1.0, min(1.0, share))))
    return f'<td class="n" style="background: {tint}">{round(value, 2) + 0.0:.2f}</td>'


_VIOLIN_LEFT, _VIOLIN_TOP, _VIOLIN_HEIGHT, _VIOLIN_FLOOR = 60, 26, 230, 172
_MIN_VIOLIN_VALUES = 10  # fewer values do not determine a shape
_DENSITY_STEPS = 48


def render_violin(plot: Mapping[str, Any]) -> list[str]:
    """Return one violin plot per series, all to the same scale."""
    values = [q for one in plot["series"] for group in one["groups"] for q in group["quantiles"]]
    if not values:
        return []
    low, high = compute_axis_bounds(values)
    # Distances and shares are never negative, and the axis must not suggest otherwise.
    low = 0.0 if min(values) >= 0 else low
    up = AxisScale(low, high, _VIOLIN_FLOOR, _VIOLIN_TOP)
    return [_render_violin_panel(plot, one, up) for one in plot["series"]]


def _render_violin_panel(plot: Mapping[str, Any], series: Mapping[str, Any], up: AxisScale) -> str:
    groups = series["groups"]
    frame = PlotFrame(
        AxisScale(0, len(groups) or 1, _VIOLIN_LEFT, PLOT_WIDTH - 8), up, height=_VIOLIN_HEIGHT
    )
    body = [*frame.render_y_axis(plot["y"]), frame.render_x_label(plot["x"])]
    for place, group in enumerate(groups):
        x = frame.across.at(place + 0.5)
        name = shorten_label(group["name"].replace(" to ", "–"), max(4, 44 // len(groups)))
        body.append(render_text(x, _VIOLIN_FLOOR + 15, name, "middle", "group"))
        body.append(render_text(x, _VIOLIN_FLOOR + 29, f"n={group['n']}", "middle", "group"))
        body += _render_violin_shape(group, x, 0.44 * (frame.across.at(1) - frame.across.at(0)), up)
    body.append(render_text(_VIOLIN_LEFT, 13, shorten_label(series["name"], 34), kind="name"))
    desc = "; ".join(_describe_group(group) for group in groups)
    name = f"{plot['title']}: {series['name']}"
    return render_svg(PLOT_WIDTH, _VIOLIN_HEIGHT, name, desc or "no examples", body)


def compute_quartiles(group: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return the lower quartile, the median and the upper quartile; None without values."""
    if not group["quantiles"]:
        return None
    low, middle, high = np.quantile(group["quantiles"], [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def _describe_group(group: Mapping[str, Any]) -> str:
    quartiles = compute_quartiles(group)
    if quartiles is None:
        return f"{group['name']}: none"
    low, middle, high = quartiles
    return f"{group['name']}: median {middle:.3g}, half of them from {low:.3g} to {high:.3g}, n={group['n']}"


def _render_violin_shape(
    group: Mapping[str, Any], x: float, half: float, up: AxisScale
) -> list[str]:
    quartiles = compute_quartiles(group)
    if quartiles is None:
        return []
    values = group["quantiles"]
    low, middle, high = quartiles
    outline = (
        [_render_density_outline(values, x, half, up)] if group["n"] >= _MIN_VIOLIN_VALUES else []
    )
    return [
        *outline,
        render_line(x, up.at(values[0]), x, up.at(values[-1]), "whisker"),
        render_line(x, up.at(low), x, up.at(high), "quartiles"),
        render_dot(x, up.at(middle), "median", _describe_group(group), 3.4),
    ]


def _render_density_outline(values: Sequence[float], x: float, half: float, up: AxisScale) -> str:
    """Return the outline of a violin: a kernel density estimate from the quantiles of the values."""
    sample = np.asarray(values, dtype=np.float64)
    spread = min(sample.std(), (np.quantile(sample, 0.75) - np.quantile(sample, 0.25)) / 1.34)
    # Silverman's rule; if most values are equal, the smallest width visible on the axis.
    width = max(0.9 * spread * sample.size**-0.2, (up.high - up.low) / 80)
    places = np.linspace(sample[0], sample[-1], _DENSITY_STEPS)
    density = np.exp(-0.5 * ((places[:, None] - sample[None, :]) / width) ** 2).sum(axis=1)
    reach = half * density / density.max()
    sides = list(zip(places.tolist(), reach.tolist(), strict=True))
    right = [(x + r, up.at(v)) for v, r in sides]
    left = [(x - r, up.at(v)) for v, r in reversed(sides)]
    return f'<polygon class="shape" points="{format_points([*right, *left])}"/>'


_EFFECT_LEFT, _EFFECT_HEIGHT, _EFFECT_TOP, _EFFECT_FLOOR = 10, 84, 20, 60


def render_effect(plot: Mapping[str, Any]) -> list[str]:
    """Return the plot of one effect against its threshold; `plot` has the fields of an experiment, and `desc`."""
    drawing = render_effect_plot(plot, plot["title"], plot["desc"])
    return [drawing] if drawing else []


def render_effect_plot(result: Mapping[str, Any], name: str, desc: str) -> str:
    """Return the plot of one effect against its threshold, or an empty string without an effect."""
    if result.get("effect") is None or not isfinite(result["effect"]):
        return ""
    low, high = result.get("interval") or (result["effect"],) * 2
    chance = result.get("chance")
    xs = [result["threshold"], result["effect"], low, high, *([] if chance is None else [chance])]
    # Both sides of the threshold are visible, wherever the effect is.
    room = 0.25 * (max(xs) - min(xs))
    ends = compute_axis_bounds([*xs, result["threshold"] - room, result["threshold"] + room])
    frame = PlotFrame(
        AxisScale(*ends, _EFFECT_LEFT, PLOT_WIDTH - 10),
        AxisScale(0, 1, _EFFECT_FLOOR, _EFFECT_TOP),
        height=_EFFECT_HEIGHT,
    )
    at = frame.across.at
    bar, middle = at(result["threshold"]), (_EFFECT_TOP + _EFFECT_FLOOR) / 2
    above = result["direction"] == "above"
    start, end = (bar, frame.across.end) if above else (frame.across.start, bar)
    other = frame.across.start if above else frame.across.end
    body = [
        render_rect(start, _EFFECT_TOP, end - start, _EFFECT_FLOOR - _EFFECT_TOP, "holds"),
        render_rect(
            min(bar, other), _EFFECT_TOP, abs(bar - other), _EFFECT_FLOOR - _EFFECT_TOP, "fails"
        ),
        *_label_sides(bar, above, frame),
        render_line(bar, _EFFECT_TOP - 4, bar, _EFFECT_FLOOR, "threshold"),
        *frame.render_x_axis(""),
    ]
    if chance is not None:
        body += [render_line(at(chance), _EFFECT_TOP, at(chance), _EFFECT_FLOOR, "chance")]
    body.append(render_line(at(low), middle, at(high), middle, "reach"))
    if result.get("interval"):
        body += [
            render_line(at(end), middle - 5, at(end), middle + 5, "reach") for end in (low, high)
        ]
    body.append(render_dot(at(result["effect"]), middle, tooltip=desc, radius=5))
    return render_svg(PLOT_WIDTH, _EFFECT_HEIGHT, name, desc, body)


def _label_sides(bar: float, above: bool, frame: PlotFrame) -> list[str]:
    """Label the sides of the threshold on which the hypothesis holds and fails, where space allows."""
    right, left = ("holds", "fails") if above else ("fails", "holds")
    labels = []
    if frame.across.end - bar > 44:
        labels.append(render_text(bar + 5, _EFFECT_TOP - 6, f"{right} →", "start", "side"))
    if bar - frame.across.start > 44:
        labels.append(render_text(bar - 5, _EFFECT_TOP - 6, f"← {left}", "end", "side"))
    return labels


def render_track(track: Track) -> str:
    """Return a value with its interval as a small drawing beside its text, which has the numbers."""
    scale = AxisScale(*track.ends, 6, 144)
    at = scale.at(track.mark or 0.0)
    mark = "" if track.mark is None else render_line(at, 0, at, 14, "threshold")
    return "".join(
        [
            '<svg class="track" viewBox="0 0 150 14" aria-hidden="true">',
            render_line(scale.start, 7, scale.end, 7, "grid"),
            mark,
            render_line(scale.at(track.low), 7, scale.at(track.high), 7, "reach"),
            render_dot(scale.at(track.value), 7, radius=3.5),
            "</svg>",
        ]
    )


def render_effect_line(result: Mapping[str, Any], threshold: float, scale: AxisScale) -> str:
    """Return one effect and its interval as a small plot for a table row, which has the numbers."""
    if result.get("effect") is None or not isfinite(result["effect"]):
        return ""
    low, high = result.get("interval") or (result["effect"],) * 2
    return "".join(
        [
            f'<svg class="track" viewBox="0 0 {scale.end + 6:g} 14" aria-hidden="true">',
            render_line(scale.start, 7, scale.end, 7, "grid"),
            render_line(scale.at(threshold), 0, scale.at(threshold), 14, "threshold"),
            render_line(scale.at(low), 7, scale.at(high), 7, "reach"),
            render_dot(scale.at(result["effect"]), 7, radius=3.5),
            "</svg>",
        ]
    )


PLOT_STYLE = """
.whence { --own: #2166ac; --bar: #5b93c7; --shape: #c3d9ee; --line: #a8500a; --held: #eaf4ee; --faint: #e6eaee; }
.whence figure { margin: 1.1rem 0 0; }
.whence figcaption { color: var(--ink); font-weight: 600; font-size: .92rem; margin-bottom: .2rem;
  overflow-wrap: anywhere; }
.whence .panels { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; }
.whence .panels > :is(svg, div) { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
.whence .panels > details { flex: 1 1 100%; min-width: 0; margin-top: 0; }
.whence .plot { display: block; width: 100%; height: auto; }
.whence .plot text { font-size: 11.5px; fill: var(--dim); }
.whence .plot text.name { font-weight: 600; fill: var(--ink); }
.whence .plot text.threshold { fill: var(--line); }
.whence .plot text.label { paint-order: stroke; stroke: var(--paper, #fff); stroke-width: 3px; }
.whence .plot text.group { font-size: 10.5px; }
.whence .plot text.side { font-size: 11px; }
.whence svg .grid { stroke: var(--faint); stroke-width: 1; }
.whence svg line.threshold { stroke: var(--line); stroke-width: 1.6; stroke-dasharray: 5 3; }
.whence svg .band { fill: var(--shape); fill-opacity: .6; }
.whence svg .mean { fill: none; stroke: var(--dim); stroke-width: 1.3; stroke-dasharray: 4 3; }
.whence svg .chance { stroke: var(--dim); stroke-width: 1.4; stroke-dasharray: 1.5 2.5; }
.whence svg .column { fill: var(--bar); }
.whence svg .shape { fill: var(--shape); stroke: var(--bar); stroke-width: 1; }
.whence svg .whisker { stroke: var(--dim); stroke-width: 1; }
.whence svg .quartiles { stroke: var(--own); stroke-width: 5; }
.whence svg .median { fill: #fff; stroke: var(--own); stroke-width: 1.6; }
.whence svg polyline.own { fill: none; stroke: var(--own); stroke-width: 1.8; }
.whence svg circle.own { fill: var(--own); }
.whence svg .reach { stroke: var(--own); stroke-width: 2.2; }
.whence svg .column ~ .reach { stroke: var(--ink); stroke-width: 1.6; }
.whence svg .holds { fill: var(--held); }
.whence svg .fails { fill: none; stroke: var(--faint); }
.whence .track { width: 150px; height: 14px; vertical-align: middle; }
.whence .heat { border-collapse: separate; border-spacing: 2px; }
.whence .heat td.n { padding: .22rem .45rem; border-radius: 3px; text-align: right; color: #000; }
.whence .heat td.none { color: var(--dim); }
.whence .heat th { font-weight: 500; border: 0; padding: .15rem .5rem .15rem 0; font-size: .82rem; }
.whence .heat thead th { vertical-align: bottom; min-width: 3.4rem; }
.whence .example { border-left: 3px solid var(--rule); padding-left: .8rem; margin: .8rem 0 1.2rem; }
.whence .example .who { margin-top: .5rem; font-size: .9rem; overflow-wrap: anywhere; }
.whence .example .strip { font-size: 1rem; line-height: 1.85; margin: 0; }
.whence .strip mark.pale { background: none; color: inherit; }
.whence mark, .whence .heat td { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
"""

PLOT_STYLE_DARK = """
  .whence { --own: #8cc0f0; --bar: #4f86bd; --shape: #27445f; --line: #f0a35e; --held: #1c3327; --faint: #333c45; }
  .whence svg .median { fill: #12161b; }
"""


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


def sketch_plot(plot: Mapping[str, Any], width: int, *, ascii_only: bool = False) -> list[str]:
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


def _sketch_histogram(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
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


def _sketch_violin(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
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
            quartiles = compute_quartiles(group)
            if quartiles is None:
                continue
            line, values = [" "] * columns, group["quantiles"]
            for start, end, sign in (
                (values[0], values[-1], pen.whisker),
                (quartiles[0], quartiles[2], pen.quartiles),
                (quartiles[1], quartiles[1], pen.median),
            ):
                for place in range(round(scale.at(start)), round(scale.at(end)) + 1):
                    line[place] = sign
            drawn = f"{''.join(line)} {quartiles[1]:.3g}, n={group['n']}"
            yield from _label_sketch(group["name"], label, drawn)


def _sketch_bars(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
    for bar in plot["bars"]:
        yield f"  {_describe_bar(bar)}"


def _sketch_band(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
    """Yield the rows of a curve over the band of chance, the highest first."""
    low, high = ends = compute_curve_bounds([plot])
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


def compute_curve_bounds(curves: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the bounds of the value axis: 0 and 1 for probabilities, whatever their range."""
    known = [v for curve in curves for name in ("values", "low", "high") for v in curve[name]]
    if all(0 <= value <= 1 for value in known):
        return 0.0, 1.0
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, low + 1)


def format_tick(value: float, ends: tuple[float, float]) -> str:
    """Return the label of a tick on the value axis."""
    return f"{value:.0%}" if ends == (0.0, 1.0) else f"{value:.3g}"


def _choose_label_width(names: Sequence[str], width: int) -> int:
    """Return the width of a column of names; 0 if they would take more than a third of the line."""
    longest = max(map(len, names), default=0)
    return longest + 2 if 3 * longest <= width else 0


def _label_sketch(name: str, label: int, drawn: str) -> Iterator[str]:
    """Return a sketch with its name before it, or above it if there is no space."""
    if not label:
        yield f"    {name}"
    yield f"    {name if label else '':<{label}}{drawn}"


def render_band(plot: Mapping[str, Any]) -> list[str]:
    """Return a curve over the band in which chance lies; screen readers get its values."""
    low, high = ends = compute_curve_bounds([plot])
    at = plot["at"]
    frame = PlotFrame(
        AxisScale(at[0], max(at[-1], at[0] + 1e-9), 54, PLOT_WIDTH - 12),
        AxisScale(low, high, 166, 14),
    )

    def place(name: str) -> list[tuple[float, float]]:
        return [(frame.across.at(x), frame.up.at(y)) for x, y in zip(at, plot[name], strict=True)]

    body = []
    for value in (low, (low + high) / 2, high):
        y = frame.up.at(value)
        body.append(render_line(frame.across.start, y, frame.across.end, y, "grid"))
        body.append(render_text(frame.across.start - 6, y + 4, format_tick(value, ends), "end"))
    for value in (at[0], (at[0] + at[-1]) / 2, at[-1]):
        body.append(render_text(frame.across.at(value), 184, f"{value:.0%}", "middle"))
    body += [
        frame.render_x_label(plot["x"]),
        frame.render_y_label(plot["y"]),
        f'<polygon class="band" points="{format_points([*place("high"), *reversed(place("low"))])}"/>',
        f'<polyline class="mean" points="{format_points(place("mean"))}"/>',
        f'<polyline class="own" points="{format_points(place("values"))}"/>',
        *(render_dot(x, y, radius=2.6) for x, y in place("values")),
    ]
    points = zip(at, plot["values"], plot["low"], plot["high"], strict=True)
    told = "; ".join(
        f"at {x:.0%} {v:.3g}, {plot['band']} {a:.3g} to {b:.3g}" for x, v, a, b in points
    )
    name = f"{plot['title']}, {plot['name']}: {plot['y']} over {plot['x']}"
    drawing = render_svg(PLOT_WIDTH, frame.height, name, f"{plot['y']}. {plot['x']}: {told}.", body)
    legend = f"line: {plot['name']}; shaded: {plot['band']}; dashed: their mean"
    return [f'<div>{drawing}<p class="dim">{escape(legend)}</p></div>']


_ROW_HEIGHT, _DOTS_WIDTH, _DOTS_GAP, _DOTS_HEAD, _DOTS_FOOT, _DOTS_ACROSS = 20, 210, 26, 40, 30, 4
# A drawing of dots is a file, too, so it brings its own colours.
_INK, _DIM, _RULE, _BAND, _GREY = "#1b1f24", "#5c6670", "#e3e7eb", "#e9ecef", "#8a939c"
_BLUE = "#{:02x}{:02x}{:02x}".format(*POSITIVE)


def render_dots(plot: Mapping[str, Any]) -> list[str]:
    """Return panels of dots with intervals over the bands of chance, a row for each name; also a file of its own."""
    names, panels = plot["rows"], plot["panels"]
    label = 18 + 7.2 * max(map(len, names), default=0)  # width of the names in a font of size 12
    across = min(_DOTS_ACROSS, len(panels)) or 1
    tall = _DOTS_HEAD + _ROW_HEIGHT * len(names) + _DOTS_FOOT
    width = label + across * (_DOTS_WIDTH + _DOTS_GAP) + 8
    # Letters are on average less than 0.6 of the font size wide.
    title, foot = (
        [line for text in texts for line in wrap(text, max(20, int((width - 16) / (0.6 * size))))]
        for texts, size in ((plot.get("head", ()), 13), (plot["notes"], 11))
    )
    above = 22 + 17 * len(title) if title else 4
    height = above + -(-len(panels) // across) * tall + 14 + 16 * len(foot)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" font-size="12" '
        f'role="img"><title>{escape(plot["title"])}</title>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
        *(_render_words(8, 24 + 17 * n, line, size=13, weight=600) for n, line in enumerate(title)),
    ]
    for place, panel in enumerate(panels):
        top = above + tall * (place // across)
        if place % across == 0:
            rows = (top + _DOTS_HEAD + _ROW_HEIGHT * (row + 0.5) + 4 for row in range(len(names)))
            parts += [
                _render_words(label - 10, y, n, "end") for y, n in zip(rows, names, strict=True)
            ]
        left = label + (place % across) * (_DOTS_WIDTH + _DOTS_GAP)
        parts += ["<g>", *_render_dot_panel(panel, len(names), left, top), "</g>"]
    bottom = height - 16 * len(foot)
    parts += [
        _render_words(8, bottom + 16 * n, line, ink=_DIM, size=11) for n, line in enumerate(foot)
    ]
    return ["\n".join([*parts, "</svg>"]) + "\n"]


def _render_dot_panel(
    panel: Mapping[str, Any], rows: int, left: float, top: float
) -> Iterator[str]:
    first = top + _DOTS_HEAD
    yield f"<title>{escape(panel['name'])}</title>"
    yield _render_words(left, top + 14, panel["name"], weight=600)
    yield _render_words(left, top + 30, panel["note"], ink=_DIM, size=11)
    cells = [cell for cell in panel["cells"] if cell]
    if not cells:
        yield _render_words(left, first + 14, "not tested", ink=_DIM)
        return
    bounds = [
        row[end]
        for cell in cells
        for row, ends in (
            (cell, ("value", "low", "high")),
            (cell["null"] or {}, ("mean", "low", "high")),
        )
        for end in ends
        if row.get(end) is not None
    ]
    scale = AxisScale(*compute_axis_bounds(bounds), left, left + _DOTS_WIDTH)
    for tick, text in compute_ticks(scale.low, scale.high):
        x, floor = scale.at(tick), first + _ROW_HEIGHT * rows
        yield _render_stroke(x, first, x, floor, _RULE)
        yield _render_words(x, floor + 14, text, "middle", _DIM, 10)
    for row, cell in enumerate(panel["cells"]):
        if cell and cell["null"]:
            yield from _render_chance(scale, cell["null"], first + _ROW_HEIGHT * row)
    for row, cell in enumerate(panel["cells"]):
        y = first + _ROW_HEIGHT * (row + 0.5)
        if not cell:
            yield _render_words(left, y + 4, "not tested", ink=_DIM, size=10)
            continue
        colour, x = _GREY if cell["grey"] else _BLUE, scale.at(cell["value"])
        yield f"<g><title>{escape(cell['title'])}</title>"
        if cell["low"] is not None:
            yield _render_stroke(scale.at(cell["low"]), y, scale.at(cell["high"]), y, colour, 2)
        fill = colour if cell["filled"] else "#fff"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/></g>'


def _render_chance(scale: AxisScale, null: Mapping[str, Any], y: float) -> Iterator[str]:
    """Yield the interval of random explanations behind one row of a panel."""
    x = scale.at(null["mean"])
    if null["low"] is not None:
        low, high = scale.at(null["low"]), scale.at(null["high"])
        yield f'<rect x="{low:.1f}" y="{y:.1f}" width="{high - low:.1f}" height="{_ROW_HEIGHT}" fill="{_BAND}"/>'
    yield _render_stroke(x, y, x, y + _ROW_HEIGHT, _DIM, extra=' stroke-dasharray="4 3"')


def _render_stroke(
    x1: float, y1: float, x2: float, y2: float, ink: str, width: float = 1, extra: str = ""
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{ink}" '
        f'stroke-width="{width}"{extra}/>'
    )


def _render_words(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    ink: str = _INK,
    size: int = 12,
    weight: int = 400,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


_PLOT_RENDERERS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "attention": render_attention_examples,
    "band": render_band,
    "bars": render_bars,
    "curve": render_curve,
    "dots": render_dots,
    "effect": render_effect,
    "histogram": render_histogram,
    "matrix": render_matrix,
    "violin": render_violin,
}
_MAX_PANELS = 6  # panels of one plot; further ones are folded away


def render_plot(plot: Mapping[str, Any]) -> str:
    """Return a plot as an HTML figure, or an empty string if it has no data to draw."""
    renderer = _PLOT_RENDERERS.get(plot["kind"])
    panels = renderer(plot) if renderer else []
    if not panels:
        return ""
    if plot["kind"] == "dots":
        return f'<div class="wide">{panels[0]}</div>'
    wide = plot["kind"] in ("attention", "matrix")
    first, rest = (panels, []) if wide else (panels[:_MAX_PANELS], panels[_MAX_PANELS:])
    body = f'<div class="{"rows" if wide else "panels"}">{"".join(first)}</div>'
    if rest:
        body += f'<details><summary>{len(rest)} more</summary><div class="panels">{"".join(rest)}</div></details>'
    return f"<figure><figcaption>{escape(plot['title'])}</figcaption>{body}</figure>"
