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
