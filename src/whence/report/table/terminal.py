"""The table of an evaluation in a terminal: as many metrics side by side as there is room for."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.table.grid import (
    CHANCE,
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
from whence.report.table.text import BEST, NO_BETTER
from whence.report.terminal import Writer
from whence.report.text import visible

_CELL = 27  # columns that a metric takes up, about
_PAIR = 34  # the same of a difference with its p
_OVER = " over "


class Sheet:
    """A payload laid out for rich, as wide as the terminal."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the tables out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        longest = max((len(one["method"]) for one in payload["methods"]), default=0)
        room = options.max_width - longest
        yield write(headline(payload), "bold")
        yield from (write(line, "dim") for line in data_line(payload))
        for grid in grids(payload, max(1, room // _CELL)):
            yield Text()
            yield _table(grid, write)
        pairs = list(pair_grids(payload, max(1, (room - longest - len(_OVER)) // _PAIR)))
        # Where there is no room for two names side by side, the second goes below.
        between = _OVER if room - longest - len(_OVER) >= _PAIR else f"{_OVER.rstrip()}\n"
        for grid in pairs:
            yield Text()
            yield _table(grid, write, between)
        yield Text()
        yield _costs(payload, write, options.max_width)
        yield Text()
        legend = [line.format(best=BEST, chance=NO_BETTER) for line in LEGEND]
        for line in [*legend, *([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]:
            yield write(line, "dim")
        for line in agreement(payload):
            yield write(f"Agreement by {line}.", "dim")
        for line in notes(payload):
            yield write(line, "yellow")
        for line in [*elsewhere(payload), *effort(payload)]:
            yield write(line, "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay an evaluation out for rich."""
    return Sheet(payload)


def answered(sentence: str, payload: Mapping[str, Any], plan: str = "") -> RenderableType:
    """Lay out an answer, with the plan and the evaluation that it stands on."""
    return Group(_Answer(sentence, plan), Text(), Sheet(payload))


class _Answer:
    """A sentence and what was planned for it."""

    def __init__(self, sentence: str, plan: str) -> None:
        self._sentence, self._plan = sentence, plan

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        write = Writer(ascii_only=options.ascii_only)
        yield write(visible(self._sentence), "bold")
        if self._plan:
            yield write(visible(self._plan), "dim")


def _table(grid: Grid, write: Writer, between: str = _OVER) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(Text(grid.kind, "dim"), no_wrap=True)
    for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True):
        head = f"{name} {arrow}" if arrow else name
        both = Text.assemble(write(head, "bold"), " ", write(count, "dim"))
        table.add_column(both, overflow="fold")
    for name, cells in grid.rows:
        last = name == CHANCE
        table.add_row(
            Text(name.replace(_OVER, between), "dim" if last else "bold"),
            *(_cell(cell, last, write) for cell in cells),
        )
    return table


def _cell(cell: Cell, last: bool, write: Writer) -> Text:
    style = "dim" if last or cell.chance else "green" if cell.best else ""
    marks = (f" {BEST}" if cell.best else "") + (f" {NO_BETTER}" if cell.chance else "")
    text = write(cell.own + marks, style)
    return Text.assemble(text, "\n", write(cell.null, "dim")) if cell.null else text


def _costs(payload: Mapping[str, Any], write: Writer, width: int) -> RenderableType:
    """Lay the costs out side by side, or where a word would have to be broken for that, one below the other."""
    rows = [COSTS, *costs(payload)]
    words = [
        max(len(word) for text in column for word in text.split())
        for column in zip(*rows, strict=True)
    ]
    if sum(words) + 2 * (len(words) - 1) > width:
        lines = [
            Text.assemble(
                Text(name, "bold"),
                *(
                    write(f"\n  {head}: {fact}")
                    for head, fact in zip(COSTS[1:], facts, strict=True)
                ),
            )
            for name, *facts in rows[1:]
        ]
        return Group(*lines)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in COSTS:
        table.add_column(head, no_wrap=head == COSTS[0], overflow="fold")
    for name, *facts in rows[1:]:
        table.add_row(Text(name, "bold"), *(write(fact) for fact in facts))
    return table
