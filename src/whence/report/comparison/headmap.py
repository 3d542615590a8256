"""All heads at a glance: a cell for each layer and head, tinted by one figure; who points at it reads the figure."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from whence.report.comparison.wording import figure
from whence.report.plot.frame import WIDTH, svg, text
from whence.view.shade import colour

Facts = Mapping[str, Any]

_LEFT, _TOP, _BELOW = 34, 20, 44
_GAP = 1
_TALLEST = 22
_LABELS = 16  # numbers along an edge, at most


def headmap(
    payload: Facts, name: str, told: str, of: Callable[[Facts], Facts], signed: bool
) -> str:
    """Draw one figure of every head; the deepest layer is on top, and full colour is the largest of all."""
    layers, heads = payload["setting"]["layers"], payload["setting"]["heads"]
    width = (WIDTH - _LEFT - 4) / heads
    height = min(_TALLEST, width)
    floor = _TOP + layers * height
    values = [float(of(one)["mean"]) for one in payload["heads"]]
    largest = max((abs(value) for value in values), default=0.0)
    used = payload["data"]["used"]
    body = [
        _cell(
            _LEFT + one["head"] * width,
            _TOP + (layers - 1 - one["layer"]) * height,
            (width - _GAP, height - _GAP),
            value / largest if largest else 0.0,
            f"head {one['layer']}.{one['head']}: {figure(of(one), said=used)}",
        )
        for one, value in zip(payload["heads"], values, strict=True)
    ]
    for layer in _labelled(layers):
        middle = _TOP + (layers - 0.5 - layer) * height
        body.append(text(_LEFT - 5, middle + 4, str(layer), "end"))
    for head in _labelled(heads):
        body.append(text(_LEFT + (head + 0.5) * width, floor + 12, str(head), "middle"))
    body.append(text(2, 12, "layer"))
    body.append(text(WIDTH - 4, 12, "heads below", "end"))
    body += _scale(floor + 22, largest, signed)
    return svg(WIDTH, floor + _BELOW, name, f"{told} {_summary(payload, values)}", body)


def _cell(x: float, y: float, size: tuple[float, float], share: float, told: str) -> str:
    tint = "rgb({},{},{})".format(*colour(share))
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" style="fill: {tint}">'
        f"<title>{escape(told)}</title></rect>"
    )


def _labelled(count: int) -> Sequence[int]:
    return range(0, count, max(1, -(-count // _LABELS)))


def _scale(top: float, largest: float, signed: bool) -> list[str]:
    """Draw what the tints mean, with figures at the ends."""
    if not largest:
        return [text(_LEFT, top + 10, "0 everywhere")]
    steps = [step / 10 for step in range(-10 if signed else 0, 11)]
    wide = 8.0
    left = text(_LEFT + 44, top + 10, f"{-largest:.2g}" if signed else "0", "end")
    cells = [
        _cell(_LEFT + 50 + place * wide, top, (wide, 12), step, f"{step * largest:.2g}")
        for place, step in enumerate(steps)
    ]
    end = _LEFT + 56 + len(steps) * wide
    return [left, *cells, text(end, top + 10, f"{largest:.2g}")]


def _summary(payload: Facts, values: Sequence[float]) -> str:
    """Say the ends in words, for who does not see the map; a table has all figures."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    low, high = (payload["heads"][order[end]] for end in (0, -1))
    return (
        f"From {values[order[0]]:.3g} (head {low['layer']}.{low['head']}) to {values[order[-1]]:.3g} "
        f"(head {high['layer']}.{high['head']})."
    )
