"""The table of an evaluation as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.report.table.grid import (
    COSTS,
    COSTS_LEGEND,
    LEGEND,
    Cell,
    Grid,
    agreement,
    costs,
    data_line,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.pairs import PAIRS_LEGEND, elsewhere, pair_grids

BEST, NO_BETTER = "*", "°"


def plain(payload: Mapping[str, Any], across: int = 3) -> str:
    """Write an evaluation as lines of text."""
    lines = [headline(payload), *data_line(payload), ""]
    for grid in grids(payload, across):
        lines += [*_table(grid), ""]
    pairs = [line for grid in pair_grids(payload, across) for line in [*_table(grid), ""]]
    lines += [*pairs, *_aligned([COSTS, *costs(payload)]), ""]
    lines += [line.format(best=BEST, chance=NO_BETTER) for line in LEGEND]
    lines += [PAIRS_LEGEND] if pairs else []
    lines += [COSTS_LEGEND]
    lines += [f"Agreement by {line}." for line in agreement(payload)]
    lines += [*notes(payload), *elsewhere(payload)]
    return "\n".join([*lines, *effort(payload)])


def _table(grid: Grid) -> list[str]:
    heads = [
        " ".join(part for part in parts if part)
        for parts in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    ]
    rows = [(name, *(shown(cell) for cell in cells)) for name, cells in grid.rows]
    return _aligned([(grid.kind, *heads), *rows])


def shown(cell: Cell) -> str:
    """Write a cell with its marks."""
    own = cell.own + (f" {BEST}" if cell.best else "") + (f" {NO_BETTER}" if cell.chance else "")
    return f"{own}, {cell.null}" if cell.null else own


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
