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
