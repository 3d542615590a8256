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
