"""How much it matters in which way tokens are removed."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.evaluation.evaluation import Cell, Evaluation
from whence.evaluation.judge import plain
from whence.report.figures import digits_of, interval


def removal_matters(tables: Sequence[Evaluation]) -> str:
    """Say, by each metric of faithfulness, whose mean moves most, and which method is best under which removal."""
    ways = [str(table.payload["setting"]["remove"]) for table in tables]
    if len(tables) < 2:
        return f"There is only one way to remove tokens here: {ways[0]}."
    kinds = {one["metric"]: one["kind"] for one in tables[0].payload["metrics"]}
    lines = [
        line
        for metric, kind in kinds.items()
        if kind == "faithfulness" and (line := _line(tables, ways, metric))
    ]
    return " ".join(lines) or "No metric could be tested under several removals."


def _line(tables: Sequence[Evaluation], ways: Sequence[str], metric: str) -> str:
    cells = {
        way: {c.method: c for c in table.cells if c.metric == metric and c.value}
        for way, table in zip(ways, tables, strict=True)
    }
    cells = {way: found for way, found in cells.items() if found}
    shared = [m for m in tables[0].methods if all(m in found for found in cells.values())]
    if len(cells) < 2 or not shared:
        return ""
    moves = {m: [(_mean(cells[way][m]), way) for way in cells] for m in shared}
    name = max(shared, key=lambda m: max(moves[m])[0] - min(moves[m])[0])
    ends = [way for _, way in (min(moves[name]), max(moves[name]))]
    figures = [plain(cells[way][name].value) or {} for way in ends]
    digits = digits_of(figures)
    low, high = (
        f"{interval(one, digits)} with {way}" for one, way in zip(figures, ends, strict=True)
    )
    said = f"By {metric}, {name} moves most: {low}, {high}"
    if len(shared) == 1:
        return f"{said}."
    return f"{said}; {_who_leads(cells)}."


def _who_leads(cells: Mapping[str, Mapping[str, Cell]]) -> str:
    """Name the methods that are marked as best, by removal; where none could be, say so."""
    if not any(cell.best for found in cells.values() for cell in found.values()):
        return "the examples are too few to say which method is best"
    leaders: dict[tuple[str, ...], list[str]] = {}
    for way, found in cells.items():
        marked = tuple(m for m, cell in found.items() if cell.best)
        leaders.setdefault(marked, []).append(way)
    leading = [cell for found in cells.values() for cell in found.values() if cell.best]
    beaten = any(cell.beats_random for cell in leading)
    chance = "" if beaten else "; none of these can be told from random explanations"
    if len(leaders) == 1:
        ((best, _),) = leaders.items()
        return f"{_named(best)}, whatever the removal{chance}"
    said = [f"{_named(best)} with {' and '.join(ways)}" for best, ways in leaders.items()]
    return ", ".join(said) + chance


def _named(best: Sequence[str]) -> str:
    if not best:
        return "none is best"
    if len(best) == 1:
        return f"{best[0]} is the best"
    if len(best) > 4:
        return f"{len(best)} methods cannot be told from the best"
    return f"{' and '.join(best)} cannot be told apart as the best"


def _mean(cell: Cell) -> float:
    value: Any = cell.value
    return float(value.mean)
