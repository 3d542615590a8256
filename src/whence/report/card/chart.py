"""A curve drawn in characters: the line of an explanation against the band of random rankings."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

Kind = Literal["blank", "band", "line"]


class Cell(NamedTuple):
    """One character of a chart, and what it belongs to."""

    kind: Kind
    glyph: str


class Pen(NamedTuple):
    """The characters to draw with."""

    band: str
    flat: str
    upright: str
    falls: tuple[str, str]  # where a falling line leaves its row, and where it arrives
    rises: tuple[str, str]
    frame: tuple[str, str, str]  # the left edge, the corner, the lower edge


LINES = Pen("░", "━", "┃", ("┓", "┗"), ("┛", "┏"), ("│", "└", "─"))
ASCII = Pen(":", "*", "*", ("*", "*"), ("*", "*"), ("|", "+", "-"))


def chart(
    curve: dict[str, Any], ends: tuple[float, float], columns: int, rows: int, pen: Pen
) -> list[list[Cell]]:
    """Return the rows of the chart, top first."""
    canvas = [[Cell("blank", " ")] * columns for _ in range(rows)]
    spread = [
        _levels(curve["at"], curve[n], ends, columns, rows) for n in ("null_low", "null_high")
    ]
    for column, (low, high) in enumerate(zip(*spread, strict=True)):
        for level in range(low, high + 1):
            canvas[level][column] = Cell("band", pen.band)
    line = _levels(curve["at"], curve["values"], ends, columns, rows)
    canvas[line[0]][0] = Cell("line", pen.flat)
    for column, (before, now) in enumerate(pairwise(line), start=1):
        for level, glyph in _step(before, now, pen):
            canvas[level][column] = Cell("line", glyph)
    return canvas[::-1]


def _step(before: int, now: int, pen: Pen) -> list[tuple[int, str]]:
    """Return what a line puts into one column on its way from one level to another."""
    if before == now:
        return [(now, pen.flat)]
    leaves, arrives = pen.falls if now < before else pen.rises
    between = range(min(before, now) + 1, max(before, now))
    return [(before, leaves), *((level, pen.upright) for level in between), (now, arrives)]


def _levels(
    at: Sequence[float], values: Sequence[float], ends: tuple[float, float], columns: int, rows: int
) -> list[int]:
    """Return the row of each column, counted from the bottom, with straight lines between the values."""
    low, high = ends
    places = np.linspace(at[0], at[-1], columns)
    share = (np.interp(places, at, values) - low) / (high - low)
    return [int(level) for level in np.clip(np.round(share * (rows - 1)), 0, rows - 1)]
