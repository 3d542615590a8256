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
