"""The table of an evaluation in a terminal: as many metrics side by side as there is room for."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.table.grid import (
    CHANCE,
    COSTS,
    LEGEND,
    Grid,
    agreement,
    costs,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.text import BEST, NO_BETTER, shown
from whence.report.text import visible

_CELL = 27  # columns that a metric takes up, about


class Sheet:
    """A payload laid out for rich, as wide as the terminal."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the tables out."""
        payload = self._payload
        longest = max((len(one["method"]) for one in payload["methods"]), default=0)
        yield Text(headline(payload), "bold")
        for grid in grids(payload, max(1, (options.max_width - longest) // _CELL)):
            yield Text()
            yield _table(grid)
        yield Text()
        cost = Table(*COSTS, box=None, pad_edge=False, header_style="dim")
        for name, *facts in costs(payload):
            cost.add_row(Text(name, "bold"), *facts)
        yield cost
        yield Text()
        for line in LEGEND:
            yield Text(line.format(best=BEST, chance=NO_BETTER), "dim")
        for line in agreement(payload):
            yield Text(f"Agreement by {line}.", "dim")
        for line in notes(payload):
            yield Text(line, "yellow")
        yield Text(effort(payload), "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay an evaluation out for rich."""
    return Sheet(payload)


def answered(sentence: str, payload: Mapping[str, Any]) -> RenderableType:
    """Lay out an answer, with the evaluation that it stands on."""
    return Group(Text(visible(sentence), "bold"), Text(), Sheet(payload))


def _table(grid: Grid) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(Text(grid.kind, "dim"), no_wrap=True)
    for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True):
        table.add_column(Text.assemble((f"{name} {arrow}", "bold"), (f" {count}", "dim")))
    for name, cells in grid.rows:
        last = name == CHANCE
        row = [Text(name, "dim" if last else "bold")]
        for cell in cells:
            style = "dim" if last or cell.chance else "green" if cell.best else ""
            row.append(Text(shown(cell), style))
        table.add_row(*row)
    return table
