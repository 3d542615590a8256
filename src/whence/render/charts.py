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
