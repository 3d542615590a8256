"""The table of an evaluation as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.report.table.grid import (
    COSTS,
    LEGEND,
    Cell,
    agreement,
    costs,
    effort,
    grids,
    headline,
    notes,
)

BEST, NO_BETTER = "*", "°"


def plain(payload: Mapping[str, Any], across: int = 3) -> str:
    """Write an evaluation as lines of text."""
    lines = [headline(payload), ""]
    for grid in grids(payload, across):
        heads = [
            f"{name} {arrow} {count}".rstrip()
            for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
        ]
        rows = [(name, *(shown(cell) for cell in cells)) for name, cells in grid.rows]
        lines += [*_aligned([(grid.kind, *heads), *rows]), ""]
    lines += [*_aligned([COSTS, *costs(payload)]), ""]
    lines += [line.format(best=BEST, chance=NO_BETTER) for line in LEGEND]
    lines += [f"Agreement by {line}." for line in agreement(payload)]
    lines += notes(payload)
    return "\n".join([*lines, effort(payload)])


def shown(cell: Cell) -> str:
    """Write a cell with its marks."""
    return cell.text + (f" {BEST}" if cell.best else "") + (f" {NO_BETTER}" if cell.chance else "")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
