"""Growth of time and memory with input size: SVG drawings with slopes, and the measurement on a CPU.

    python -m bench.speed.growth            # the CPU's rows, measured here: a small shape, 64 to 4,096 tokens

What the drawings show is in bench/results/speed-gpu.jsonl and speed-cpu.jsonl; `make docs` draws them.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from whence.render.charts import AxisScale

Row = Mapping[str, Any]
Line = list[tuple[float, float]]

LINES = {
    "bare forward + backward": "#5c6670",
    "generic_attention": "#c0392b",
    "transformer_attribution": "#1f6fb2",
}
AXES = {
    "length": "tokens of one input",
    "layers": "layers",
    "heads": "heads, each 64 wide",
    "batch": "inputs in a batch",
}
_WIDE, _TALL, _GAP, _LEFT, _HEAD, _FOOT = 250, 170, 62, 58, 34, 46
_INK, _DIM, _RULE = "#1b1f24", "#5c6670", "#e3e7eb"


def collect_lines(rows: Iterable[Row], moves: str, value: str) -> dict[str, Line]:
    """Return, by case, the points (x, value) of the rows in which one variable grows."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        if row.get("moves") == moves and row.get(value) is not None and row["what"] in LINES:
            found.setdefault(row["what"], {})[row["x"]] = row[value]
    return {name: sorted(found[name].items()) for name in LINES if name in found}


def compute_slope(points: Line) -> float | None:
    """Return the slope of a line in log-log, over the last half of its points, where the fastest term dominates."""
    last = points[len(points) // 2 - (len(points) > 2) :] if len(points) > 1 else []
    if len(last) < 2:
        return None
    xs, ys = [log10(x) for x, _ in last], [log10(y) for _, y in last]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - mean_x) ** 2 for x in xs)


def render_drawing(rows: Sequence[Row], value: str, title: str, unit: str) -> str | None:
    """Return the drawing in SVG; None without rows."""
    panels = [(moves, collect_lines(rows, moves, value)) for moves in AXES]
    panels = [(moves, found) for moves, found in panels if found]
    if not panels:
        return None
    across = min(2, len(panels))
    down = ceil(len(panels) / across)
    width = _LEFT + across * (_WIDE + _GAP)
    height = 34 + down * (_HEAD + _TALL + _FOOT) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" font-size="12" role="img">'
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _render_text(10, 22, title, size=13, weight="600"),
    ]
    for place, (moves, found) in enumerate(panels):
        left = _LEFT + (place % across) * (_WIDE + _GAP)
        top = 34 + _HEAD + (place // across) * (_HEAD + _TALL + _FOOT)
        parts.append(_render_panel(moves, found, left, top, unit))
    for number, (name, colour) in enumerate(LINES.items()):
        x, y = 10 + number * 190, height - 14
        parts.append(
            f'<line x1="{x}" y1="{y - 4}" x2="{x + 18}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(_render_text(x + 24, y, name, size=11))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _render_panel(moves: str, found: Mapping[str, Line], left: float, top: float, unit: str) -> str:
    every = [point for points in found.values() for point in points]
    across = _build_log_scale([x for x, _ in every], left, left + _WIDE)
    upward = _build_log_scale([y for _, y in every], top + _TALL, top)
    parts = [
        f"<g><title>{escape(AXES[moves])}</title>",
        _render_text(left, top - 12, unit, colour=_DIM, size=11),
    ]
    for value in _compute_ticks(upward.low, upward.high):
        y = upward.at(log10(value))
        parts.append(_render_rule(left, y, left + _WIDE, y))
        parts.append(
            _render_text(left - 6, y + 4, f"{value:g}", anchor="end", colour=_DIM, size=10)
        )
    for x in sorted({x for x, _ in every}):
        at = across.at(log10(x))
        parts.append(_render_rule(at, top, at, top + _TALL))
        parts.append(
            _render_text(at, top + _TALL + 14, f"{x:,g}", anchor="middle", colour=_DIM, size=9)
        )
    parts.append(
        _render_text(left + _WIDE / 2, top + _TALL + 32, AXES[moves], anchor="middle", size=11)
    )
    for number, (name, points) in enumerate(found.items()):
        colour = LINES[name]
        places = [(across.at(log10(x)), upward.at(log10(y))) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        grows = compute_slope(points)
        told = f"{name}: slope {grows:.2f}" if grows is not None else name
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2">'
            f"<title>{escape(told)}</title></polyline>"
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]
        if grows is not None:
            at = left + 66 + 62 * number
            parts.append(_render_text(at, top - 12, f"slope {grows:.2f}", colour=colour, size=11))
    return "\n".join([*parts, "</g>"])


def _compute_ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten between two logarithms, and where these are few, twos and fives."""
    powers = range(floor(low), ceil(high) + 1)
    steps = (1, 2, 5) if high - low < 2 else (1,)
    every = [step * 10.0**power for power in powers for step in steps]
    return [value for value in every if low - 1e-9 <= log10(value) <= high + 1e-9]


def _build_log_scale(values: Sequence[float], start: float, end: float) -> AxisScale:
    low, high = log10(min(values)), log10(max(values))
    margin = 0.05 * (high - low) or 0.3
    return AxisScale(low - margin, high + margin, start, end)


def _render_rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{_RULE}"/>'


def _render_text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = _INK,
    size: int = 12,
    weight: str = "400",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def measure(file: Path, threads: int) -> None:
    """Measure growth on a CPU: BERT's shape, small; memory is the peak of tensors, without weights."""
    import torch
    from bench.speed.measuring import Clock, Log
    from bench.speed.passes import build_batch, build_reading
    from bench.speed.random_models import build_bare_pass, build_bert, build_inputs
    from tests.memory_meter import PeakMemoryMeter

    torch.set_num_threads(threads)
    clock, log = Clock(torch.device("cpu"), repeats=5), Log(file)
    with log.open_section("growth"):
        for moves, x, layers, heads, inputs, tokens in _iterate_points():
            model = build_bert(layers, 64 * heads, heads, longest=4096)
            given = build_inputs(inputs, tokens)
            batch = build_batch(model, given)
            cases: dict[str, Any] = {"bare forward + backward": build_bare_pass(model, given)}
            cases |= {
                name: build_reading(model, batch, name) for name in LINES if name not in cases
            }
            about = {"model": f"bert, {layers} layers, {64 * heads} wide", "dtype": "float32"}
            about |= {"inputs": inputs, "tokens": tokens, "threads": threads}
            for name, timed in clock.measure_medians(cases, share=3, warm=1).items():
                with PeakMemoryMeter() as meter:
                    cases[name]()
                told = {"seconds": timed.seconds, "n": timed.n, "peak": meter.peak}
                log.add(name, moves=moves, x=x, **about, **told)


def _iterate_points() -> Iterator[tuple[str, int, int, int, int, int]]:
    """Yield the variable, its value, layers, heads, inputs and tokens."""
    yield from (("length", n, 4, 4, 1, n) for n in (64, 128, 256, 512, 1024, 2048, 4096))
    yield from (("layers", n, n, 4, 1, 256) for n in (1, 2, 4, 8, 16))
    yield from (("heads", n, 4, n, 1, 256) for n in (1, 2, 4, 8, 16))
    yield from (("batch", n, 4, 4, n, 64) for n in (1, 2, 4, 8, 16, 32))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    results = Path(__file__).resolve().parents[1] / "results" / "speed-cpu.jsonl"
    parser.add_argument("--json", type=Path, default=results, help="append the rows to this file")
    options = parser.parse_args()
    measure(options.json, options.threads)
