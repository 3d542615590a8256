"""How values are spread within groups: the wider, the more of them lie there; median and quartiles inside."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whence.report.plot.frame import WIDTH, Frame, dot, line, path, short, svg, text
from whence.report.scale import Scale, bounds

_LEFT, _TOP, _HEIGHT, _FLOOR = 60, 26, 230, 172
_FEWEST = 10  # a shape of fewer would be invented
_STEPS = 48


def violin(plot: Mapping[str, Any]) -> list[str]:
    """Return a drawing for each series, all to the same scale."""
    known = [q for one in plot["series"] for group in one["groups"] for q in group["quantiles"]]
    if not known:
        return []
    low, high = bounds(known)
    # Distances and shares do not go below zero, and an axis that does would promise it.
    low = 0.0 if min(known) >= 0 else low
    up = Scale(low, high, _FLOOR, _TOP)
    return [_panel(plot, one, up) for one in plot["series"]]


def _panel(plot: Mapping[str, Any], one: Mapping[str, Any], up: Scale) -> str:
    groups = one["groups"]
    frame = Frame(Scale(0, len(groups) or 1, _LEFT, WIDTH - 8), up, height=_HEIGHT)
    body = [*frame.y_axis(plot["y"]), frame.x_label(plot["x"])]
    for place, group in enumerate(groups):
        x = frame.across.at(place + 0.5)
        name = short(group["name"].replace(" to ", "–"), max(4, 44 // len(groups)))
        body.append(text(x, _FLOOR + 15, name, "middle", "group"))
        body.append(text(x, _FLOOR + 29, f"n={group['n']}", "middle", "group"))
        body += _shape(group, x, 0.44 * (frame.across.at(1) - frame.across.at(0)), up)
    body.append(text(_LEFT, 13, short(one["name"], 34), kind="name"))
    told = "; ".join(_told(group) for group in groups)
    name = f"{plot['title']}: {one['name']}"
    return svg(WIDTH, _HEIGHT, name, told or "no examples", body)


def quartiles(group: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return the lower quartile, the median and the upper quartile, if there is any value."""
    if not group["quantiles"]:
        return None
    low, middle, high = np.quantile(group["quantiles"], [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def _told(group: Mapping[str, Any]) -> str:
    found = quartiles(group)
    if found is None:
        return f"{group['name']}: none"
    low, middle, high = found
    return f"{group['name']}: median {middle:.3g}, half of them from {low:.3g} to {high:.3g}, n={group['n']}"


def _shape(group: Mapping[str, Any], x: float, half: float, up: Scale) -> list[str]:
    found = quartiles(group)
    if found is None:
        return []
    values = group["quantiles"]
    low, middle, high = found
    drawn = [_outline(values, x, half, up)] if group["n"] >= _FEWEST else []
    return [
        *drawn,
        line(x, up.at(values[0]), x, up.at(values[-1]), "whisker"),
        line(x, up.at(low), x, up.at(high), "quartiles"),
        dot(x, up.at(middle), "median", _told(group), 3.4),
    ]


def _outline(values: Sequence[float], x: float, half: float, up: Scale) -> str:
    """Return the area whose width is the density of the values: a kernel estimate from their quantiles."""
    known = np.asarray(values, dtype=np.float64)
    spread = min(known.std(), (np.quantile(known, 0.75) - np.quantile(known, 0.25)) / 1.34)
    # Silverman's rule; where most values are one, what the axis can show.
    width = max(0.9 * spread * known.size**-0.2, (up.high - up.low) / 80)
    places = np.linspace(known[0], known[-1], _STEPS)
    density = np.exp(-0.5 * ((places[:, None] - known[None, :]) / width) ** 2).sum(axis=1)
    reach = half * density / density.max()
    sides = list(zip(places.tolist(), reach.tolist(), strict=True))
    right = [(x + r, up.at(v)) for v, r in sides]
    left = [(x - r, up.at(v)) for v, r in reversed(sides)]
    return f'<polygon class="shape" points="{path([*right, *left])}"/>'


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


"""An effect and its interval against the threshold that was stated before: on which side does it lie?"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from whence.report.plot.frame import WIDTH, Frame, box, dot, line, svg, text
from whence.report.scale import Scale, bounds

_LEFT, _HEIGHT, _TOP, _FLOOR = 10, 84, 20, 60


def against(one: Mapping[str, Any], name: str, told: str) -> str:
    """Return the drawing of one effect, or nothing where there is no effect."""
    if one.get("effect") is None or not isfinite(one["effect"]):
        return ""
    low, high = one.get("interval") or (one["effect"],) * 2
    chance = one.get("chance")
    known = [one["threshold"], one["effect"], low, high, *([] if chance is None else [chance])]
    # Both sides of the threshold are to be seen, wherever the effect is.
    room = 0.25 * (max(known) - min(known))
    ends = bounds([*known, one["threshold"] - room, one["threshold"] + room])
    frame = Frame(Scale(*ends, _LEFT, WIDTH - 10), Scale(0, 1, _FLOOR, _TOP), height=_HEIGHT)
    at = frame.across.at
    bar, middle = at(one["threshold"]), (_TOP + _FLOOR) / 2
    above = one["direction"] == "above"
    start, end = (bar, frame.across.end) if above else (frame.across.start, bar)
    other = frame.across.start if above else frame.across.end
    body = [
        box(start, _TOP, end - start, _FLOOR - _TOP, "holds"),
        box(min(bar, other), _TOP, abs(bar - other), _FLOOR - _TOP, "fails"),
        *_sides(bar, above, frame),
        line(bar, _TOP - 4, bar, _FLOOR, "threshold"),
        *frame.x_axis(""),
    ]
    if chance is not None:
        body += [line(at(chance), _TOP, at(chance), _FLOOR, "chance")]
    body.append(line(at(low), middle, at(high), middle, "reach"))
    if one.get("interval"):
        body += [line(at(end), middle - 5, at(end), middle + 5, "reach") for end in (low, high)]
    body.append(dot(at(one["effect"]), middle, told=told, radius=5))
    return svg(WIDTH, _HEIGHT, name, told, body)


def _sides(bar: float, above: bool, frame: Frame) -> list[str]:
    """Say on which side of the threshold the hypothesis holds, where there is room for it."""
    right, left = ("holds", "fails") if above else ("fails", "holds")
    said = []
    if frame.across.end - bar > 44:
        said.append(text(bar + 5, _TOP - 6, f"{right} →", "start", "side"))
    if bar - frame.across.start > 44:
        said.append(text(bar - 5, _TOP - 6, f"← {left}", "end", "side"))
    return said


def track(one: Mapping[str, Any], threshold: float, scale: Scale) -> str:
    """Return one effect of many as a line of a table; the figures stand beside it."""
    if one.get("effect") is None or not isfinite(one["effect"]):
        return ""
    low, high = one.get("interval") or (one["effect"],) * 2
    return "".join(
        [
            f'<svg class="track" viewBox="0 0 {scale.end + 6:g} 14" aria-hidden="true">',
            line(scale.start, 7, scale.end, 7, "grid"),
            line(scale.at(threshold), 0, scale.at(threshold), 14, "threshold"),
            line(scale.at(low), 7, scale.at(high), 7, "reach"),
            dot(scale.at(one["effect"]), 7, radius=3.5),
            "</svg>",
        ]
    )


"""Attention over the tokens of examples: one distribution below the other, each token on the shade of its weight."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.view.shade import colour

LEGEND = "Full colour is the largest weight in any row of the example; pointing at a token shows its weight."
_PALE = 0.02  # of the largest weight


def attention(plot: Mapping[str, Any]) -> list[str]:
    """Return the examples."""
    shown = [_example(one) for one in plot["examples"] if one["tokens"] and one["rows"]]
    return [f'<p class="dim">{LEGEND}</p>', *shown] if shown else []


def _example(one: Mapping[str, Any]) -> str:
    largest = max((w for row in one["rows"] for w in row["weights"]), default=0.0) or 1.0
    said = f"predicted {one['predicted']}"
    if one.get("probability") is not None:
        said += f" ({one['probability']:.1%})"
    rows = "".join(_row(one["tokens"], row, largest) for row in one["rows"])
    return f'<div class="example"><p class="dim">{escape(said)}</p>{rows}{_table(one)}</div>'


def _row(tokens: Sequence[str], row: Mapping[str, Any], largest: float) -> str:
    marks = " ".join(
        f'<mark {_tint(weight / largest)} title="{weight:.4g}">{escape(token)}</mark>'
        for token, weight in zip(tokens, row["weights"], strict=True)
    )
    note = f' <span class="dim">{escape(row["note"])}</span>' if row.get("note") else ""
    return f'<p class="who"><strong>{escape(row["name"])}</strong>{note}</p><p class="strip" dir="auto">{marks}</p>'


def _tint(share: float) -> str:
    # Next to nothing is left on the page's own paper, which may be dark.
    if share < _PALE:
        return 'class="pale"'
    return 'style="background: rgb({},{},{})"'.format(*colour(min(1.0, share)))


def heaviest(tokens: Sequence[str], weights: Sequence[float], most: int) -> list[tuple[str, float]]:
    """Return the tokens with the largest weights."""
    order = sorted(range(len(weights)), key=lambda place: -weights[place])
    return [(tokens[place], weights[place]) for place in order[:most]]


def _table(one: Mapping[str, Any]) -> str:
    head = "".join(f'<th scope="col">{escape(row["name"])}</th>' for row in one["rows"])
    columns = zip(*(row["weights"] for row in one["rows"]), strict=True)
    rows = "".join(
        f'<tr><th scope="row">{escape(token)}</th>'
        + "".join(f'<td class="n">{weight:.4f}</td>' for weight in weights)
        + "</tr>"
        for token, weights in zip(one["tokens"], columns, strict=True)
    )
    return (
        '<details><summary>All weights</summary><div class="wide"><table><thead><tr><th scope="col">token</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


"""Values beside each other as bars from zero, with their intervals."""

from collections.abc import Mapping
from typing import Any

from whence.report.plot.frame import WIDTH, Frame, box, line, short, svg, text
from whence.report.plot.histogram import threshold
from whence.report.scale import Scale

_LEFT, _TOP, _ROW, _BAR = 16, 18, 36, 14


def bars(plot: Mapping[str, Any]) -> list[str]:
    """Return the drawing: the name of a bar stands above it, so that there is room for it on a phone."""
    rows = plot["bars"]
    known = [
        one[end] for one in rows for end in ("value", "low", "high") if one.get(end) is not None
    ]
    if not known:
        return []
    known += [plot["threshold"]] if plot.get("threshold") is not None else []
    low, high = min(0.0, *known), max(0.0, *known)
    room = 0.05 * (high - low) or 1.0
    floor = _TOP + _ROW * len(rows) + 4
    frame = Frame(
        Scale(low - room * (low < 0), high + room, _LEFT, WIDTH - 10),
        Scale(0, 1, floor, _TOP),
        height=floor + 38,
    )
    body = list(frame.x_axis(plot["y"]))
    body.append(line(frame.across.at(0), _TOP, frame.across.at(0), floor, "grid"))
    for place, one in enumerate(rows):
        body += _bar(frame, one, _TOP + _ROW * place)
    body += threshold(frame, plot.get("threshold"))
    told = "; ".join(_told(one) for one in rows)
    return [svg(WIDTH, frame.height, plot["title"], f"{plot['y']}: {told}", body)]


def _bar(frame: Frame, one: Mapping[str, Any], top: float) -> list[str]:
    at, zero = frame.across.at, frame.across.at(0)
    name = short(str(one["name"]), 30)
    if one.get("value") is None:
        return [text(_LEFT + 3, top + 14, f"{name}: not known")]
    x, middle = at(one["value"]), top + 18 + _BAR / 2
    drawn = [
        box(min(zero, x), top + 18, abs(x - zero), _BAR, "column", _told(one)),
        text(_LEFT + 3, top + 14, f"{name}: {one['value']:.3g}"),
    ]
    if one.get("low") is not None and one.get("high") is not None:
        low, high = at(one["low"]), at(one["high"])
        drawn.append(line(low, middle, high, middle, "reach"))
        drawn += [line(end, middle - 4, end, middle + 4, "reach") for end in (low, high)]
    return drawn


def _told(one: Mapping[str, Any]) -> str:
    if one.get("value") is None:
        return f"{one['name']}: not known"
    said = f"{one['name']}: {one['value']:.3g}"
    if one.get("low") is None or one.get("high") is None:
        return said
    return f"{said} [{one['low']:.3g}, {one['high']:.3g}]"


"""Points along a trade-off, in their order, and the floor that they are to be compared with."""

from collections.abc import Mapping
from html import escape
from typing import Any

from whence.report.plot.frame import WIDTH, Frame, dot, line, path, short, svg, text
from whence.report.scale import Scale, bounds

_LEFT, _TOP, _HEIGHT, _FLOOR = 60, 16, 240, 196
_LETTER = 6.4  # the width of a letter, about


def curve(plot: Mapping[str, Any]) -> list[str]:
    """Return the drawing, and the points as a table."""
    points = plot["points"]
    if not points:
        return []
    floor = plot.get("floor") or {}
    ends = [bounds([p[axis] for p in points] + _known(floor, axis)) for axis in ("x", "y")]
    frame = Frame(Scale(*ends[0], _LEFT, WIDTH - 12), Scale(*ends[1], _FLOOR, _TOP), height=_HEIGHT)
    places = [(frame.across.at(p["x"]), frame.up.at(p["y"])) for p in points]
    body = [
        *frame.y_axis(plot["y"]),
        *frame.x_axis(plot["x"]),
        *_floor(frame, floor),
        f'<polyline class="own" points="{path(places)}"/>',
        *(dot(x, y, told=_told(p)) for (x, y), p in zip(places, points, strict=True)),
        *_names(plot, places),
    ]
    told = "; ".join(_told(p) for p in points)
    return [
        svg(WIDTH, _HEIGHT, plot["title"], f"{plot['y']} over {plot['x']}. {told}", body),
        _table(plot),
    ]


def _known(floor: Mapping[str, Any], axis: str) -> list[float]:
    return [floor[axis]] if floor.get(axis) is not None else []


def _told(point: Mapping[str, Any]) -> str:
    return f"{point['name']}: {point['x']:.3g}, {point['y']:.3g}"


def _floor(frame: Frame, floor: Mapping[str, Any]) -> list[str]:
    name = short(str(floor.get("name") or "floor"), 34)
    if floor.get("x") is not None:
        x = frame.across.at(floor["x"])
        left = x < (frame.across.start + frame.across.end) / 2
        anchor, off = ("start", 4) if left else ("end", -4)
        return [
            line(x, frame.up.start, x, frame.up.end, "threshold"),
            text(x + off, frame.up.end + 10, name, anchor, "threshold"),
        ]
    if floor.get("y") is not None:
        y = frame.up.at(floor["y"])
        return [
            line(frame.across.start, y, frame.across.end, y, "threshold"),
            text(frame.across.end - 2, y - 5, name, "end", "threshold"),
        ]
    return []


def _names(plot: Mapping[str, Any], places: list[tuple[float, float]]) -> list[str]:
    """Name the points, as far as the names do not run into each other or out of the frame; the table has them all."""
    named, taken = [], list[tuple[float, float, float]]()
    for (x, y), point in zip(places, plot["points"], strict=True):
        name = short(str(point["name"]), 16)
        wide = _LETTER * len(name)
        start = x + 7 if x + 7 + wide < WIDTH else x - 7 - wide
        free = all(abs(y - b) > 12 or start > end or start + wide < a for a, end, b in taken)
        if free and start > _LEFT:
            taken.append((start, start + wide, y))
            named.append(text(start, y - 6, name, kind="label"))
    return named


def _table(plot: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{escape(str(p["name"]))}</td><td class="n">{p["x"]:.4g}</td><td class="n">{p["y"]:.4g}</td></tr>'
        for p in plot["points"]
    )
    return (
        '<details><summary>All points</summary><div class="wide"><table><thead><tr><th scope="col">point</th>'
        f'<th scope="col">{escape(plot["x"])}</th><th scope="col">{escape(plot["y"])}</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


"""The frame of a drawing: its size, its axes and its words, in classes that the page's style gives colours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from whence.report.scale import Scale, ticks

WIDTH = 320  # as wide as a phone has room for, so that letters there are as large as they are drawn


@dataclass(frozen=True)
class Frame:
    """Where things go: the two scales, within a drawing of some size."""

    across: Scale
    up: Scale
    width: float = WIDTH
    height: float = 210

    def x_axis(self, label: str, about: int = 5) -> Iterable[str]:
        """Draw ticks below, and say what they count."""
        floor = self.up.start
        for place, shown in ticks(self.across.low, self.across.high, about):
            x = self.across.at(place)
            yield line(x, floor, x, floor + 4, "grid")
            yield text(x, floor + 16, shown, "middle")
        if label:
            yield self.x_label(label)

    def x_label(self, label: str) -> str:
        """Say what lies along the lower edge."""
        middle = (self.across.start + self.across.end) / 2
        return text(middle, self.height - 5, short(label, 40), "middle")

    def y_axis(self, label: str, about: int = 4) -> Iterable[str]:
        """Draw lines across, and say what they count."""
        for place, shown in ticks(self.up.low, self.up.high, about):
            y = self.up.at(place)
            yield line(self.across.start, y, self.across.end, y, "grid")
            yield text(self.across.start - 6, y + 4, shown, "end")
        middle = (self.up.start + self.up.end) / 2
        yield (
            f'<text transform="translate(11 {middle:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(short(label, 28))}</text>"
        )


def svg(width: float, height: float, name: str, told: str, body: Iterable[str]) -> str:
    """Return a drawing; who does not see it gets its name and what it shows in words."""
    return "".join(
        [
            f'<svg class="plot" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}">',
            f"<title>{escape(name)}</title><desc>{escape(told)}</desc>",
            *body,
            "</svg>",
        ]
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return words at a place."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, told: str = "") -> str:
    """Return a filled rectangle, with words for who points at it."""
    title = f"<title>{escape(told)}</title>" if told else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}">{title}</rect>'
    )


def dot(x: float, y: float, kind: str = "own", told: str = "", radius: float = 4) -> str:
    """Return a dot, with words for who points at it."""
    title = f"<title>{escape(told)}</title>" if told else ""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">{title}</circle>'


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the corners of a line or an area."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def short(label: str, most: int) -> str:
    """Cut a label that is too long; the drawing's name has the whole of it."""
    return label if len(label) <= most else f"{label[: most - 1]}…"


"""How often each size was seen: a panel for each class, all to the same scale."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from whence.report.plot.frame import WIDTH, Frame, box, line, short, svg, text
from whence.report.scale import Scale

_LEFT, _TOP, _HEIGHT, _FLOOR = 46, 36, 208, 166


def histogram(plot: Mapping[str, Any]) -> list[str]:
    """Return a drawing for each series."""
    edges = plot["edges"]
    if len(edges) < 2:
        return []
    shares = [_shares(one) for one in plot["series"]]
    most = max((share for own in shares for share in own), default=0.0) or 1.0
    frame = Frame(
        Scale(edges[0], edges[-1], _LEFT, WIDTH - 10),
        Scale(0.0, most * 100, _FLOOR, _TOP),
        height=_HEIGHT,
    )
    return [_panel(plot, one, own, frame) for one, own in zip(plot["series"], shares, strict=True)]


def _shares(one: Mapping[str, Any]) -> list[float]:
    total = sum(one["counts"])
    return [count / total if total else 0.0 for count in one["counts"]]


def _panel(
    plot: Mapping[str, Any], one: Mapping[str, Any], shares: Sequence[float], frame: Frame
) -> str:
    name = f"{one['name']}, n={one['n']}"
    bins = list(zip(pairwise(plot["edges"]), one["counts"], shares, strict=True))
    seen = [(low, high, count, share) for (low, high), count, share in bins if count]
    body = [*frame.y_axis("% of examples"), *frame.x_axis(plot["x"])]
    for low, high, count, share in seen:
        x, y = frame.across.at(low), frame.up.at(share * 100)
        width = max(frame.across.at(high) - x - 1, 1.0)
        told = f"{low:.3g} to {high:.3g}: {count} of {one['n']}"
        body.append(box(x + 0.5, y, width, _FLOOR - y, "column", told))
    body.append(text(_LEFT, 13, short(name, 34), kind="name"))
    body += threshold(frame, plot.get("threshold"))
    told = "; ".join(f"{low:.3g} to {high:.3g}: {count}" for low, high, count, _ in seen)
    return svg(WIDTH, _HEIGHT, f"{plot['title']}: {name}", told or "no examples", body)


def threshold(frame: Frame, value: float | None) -> list[str]:
    """Draw an upright line at a threshold, if there is one within the frame."""
    if value is None or not frame.across.low <= value <= frame.across.high:
        return []
    x = frame.across.at(value)
    left = x < (frame.across.start + frame.across.end) / 2
    anchor, off = ("start", 4) if left else ("end", -4)
    return [
        line(x, frame.up.start, x, frame.up.end - 12, "threshold"),
        text(x + off, frame.up.end - 4, f"threshold {value:.4g}", anchor, "threshold"),
    ]


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


"""The colours of drawings: blue and orange, which differ in every common form of colour blindness."""

STYLE = """
.whence { --own: #2166ac; --bar: #5b93c7; --shape: #c3d9ee; --line: #a8500a; --held: #eaf4ee; --faint: #e6eaee; }
.whence figure { margin: 1.1rem 0 0; }
.whence figcaption { color: var(--ink); font-weight: 600; font-size: .92rem; margin-bottom: .2rem;
  overflow-wrap: anywhere; }
.whence .panels { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; }
.whence .panels > svg { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
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

DARK = """
  .whence { --own: #8cc0f0; --bar: #4f86bd; --shape: #27445f; --line: #f0a35e; --held: #1c3327; --faint: #333c45; }
  .whence svg .median { fill: #12161b; }
"""


"""From values to places on a drawing, and the round values to write there."""

from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True)
class Scale:
    """From values between `low` and `high` to places between `start` and `end`; what is beyond stays at the edge."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)


def bounds(values: list[float]) -> tuple[float, float]:
    """Return ends that leave some room beside the least and the greatest of the values."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.5 * abs(low) or 0.5
    return low - margin, high + margin


def ticks(low: float, high: float, about: int = 5) -> list[tuple[float, str]]:
    """Return round values between two others, about so many, each with what to write there."""
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= raw)
    decimals = max(0, ceil(-log10(step) - 1e-9))
    places = [step * i for i in range(ceil(low / step), floor(high / step) + 1)]
    written = "{:.1e}" if decimals > 4 or high >= 1e5 else f"{{:.{decimals}f}}"
    return [(place, written.format(place + 0.0)) for place in places]
