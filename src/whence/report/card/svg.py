"""A curve as a drawing on a page: axes with labels, the band of random rankings, and the explanation's line."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from whence.report.card.wording import bounds, counted, good, in_words, number, tick, value_name

_WIDTH, _HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 380, 14, 204


def curve(payload: dict[str, Any], method: dict[str, Any], test: dict[str, Any]) -> str:
    """Return one chart; a reader who does not see it gets the values in words."""
    drawn = test["curve"]
    ends = bounds([test])
    at = drawn["at"]
    high, low = drawn["null_high"], drawn["null_low"]
    across = [_across(place, at) for place in at]
    band = [*_points(across, high, ends), *reversed(_points(across, low, ends))]
    line = _points(across, drawn["values"], ends)
    name, label = f"{in_words(test['name'])}, {method['method']}", value_name(payload, ends)
    over = counted(payload, test)
    return "".join(
        [
            f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
            f"<title>{escape(f'{name}: {label} over {over}')}</title>",
            f"<desc>{escape(_description(test, over))}</desc>",
            *_axes(at, ends, label, over),
            f'<polygon class="random" points="{_path(band)}"/>',
            f'<polyline class="mean" points="{_path(_points(across, drawn["null_mean"], ends))}"/>',
            f'<polyline class="own" points="{_path(line)}"/>',
            *(f'<circle class="own" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in line),
            "</svg>",
        ]
    )


def track(test: dict[str, Any]) -> str:
    """Return a percentile as a dot on a line from 0 to 100, with its interval; the words stand beside it."""
    low, high = test["interval"] or (test["percentile"],) * 2
    return (
        '<svg class="track" viewBox="-5 0 110 12" aria-hidden="true">'
        '<line class="rail" x1="0" x2="100" y1="6" y2="6"/>'
        f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="6" y2="6"/>'
        f'<circle class="own" cx="{test["percentile"]:.1f}" cy="6" r="4"/></svg>'
    )


def key(kind: str) -> str:
    """Return the sample of one kind of line for the legend."""
    shapes = {
        "own": '<line class="own" x1="0" x2="26" y1="6" y2="6"/><circle class="own" cx="13" cy="6" r="2.6"/>',
        "random": '<rect class="random" width="26" height="12"/>',
        "mean": '<line class="mean" x1="0" x2="26" y1="6" y2="6"/>',
    }
    return f'<svg class="key" viewBox="0 0 26 12" aria-hidden="true">{shapes[kind]}</svg>'


def _axes(at: Sequence[float], ends: tuple[float, float], label: str, over: str) -> Iterable[str]:
    middle = (_TOP + _BOTTOM) / 2
    for value in (ends[0], (ends[0] + ends[1]) / 2, ends[1]):
        y = _up(value, ends)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{tick(value, ends)}</text>'
    for place in (at[0], (at[0] + at[-1]) / 2, at[-1]):
        x = _across(place, at)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_BOTTOM}" y2="{_BOTTOM + 4}"/>'
        yield f'<text x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{place:.0%}</text>'
    yield (
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(over)}</text>'
        f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(_short(label))}</text>"
    )


def _description(test: dict[str, Any], over: str) -> str:
    """Say the curve in words: its value at every place, and where random rankings lie there."""
    drawn = test["curve"]
    rows = zip(drawn["at"], drawn["values"], drawn["null_low"], drawn["null_high"], strict=True)
    told = (
        f"at {place:.0%} {number(value)}, random {number(low)} to {number(high)}"
        for place, value, low, high in rows
    )
    return f"{good(test)}. {over}: {'; '.join(told)}."


def _short(label: str, most: int = 30) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _across(place: float, at: Sequence[float]) -> float:
    width = (at[-1] - at[0]) or 1.0
    return _LEFT + (place - at[0]) / width * (_RIGHT - _LEFT)


def _up(value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)


def _points(
    across: Sequence[float], values: Sequence[float], ends: tuple[float, float]
) -> list[tuple[float, float]]:
    return [(x, _up(value, ends)) for x, value in zip(across, values, strict=True)]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
