"""A comparison in a terminal: the sentences first, then layers, heads and the rest."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.report.comparison.text import MOST, PAIRS
from whence.report.comparison.wording import (
    HEAD_HEADS,
    PAIR_HEADS,
    effort,
    facts,
    head_rows,
    layer_tables,
    left_out,
    legend,
    one_line,
    overlap,
    pair_rows,
    remarks,
    title,
)
from whence.report.terminal import Writer

_NARROW = 50


class Sheet:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the comparison out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        width = options.max_width
        yield write(title(payload), "bold")
        yield write(one_line(payload["sentence"]))
        yield Text()
        yield _facts(payload, write, width)
        for heads, rows in layer_tables(payload):
            yield Text()
            yield _table(heads, rows, write, width)
        yield Text()
        yield _table(HEAD_HEADS, head_rows(payload, MOST), write, width)
        for what, head in PAIRS:
            if rows := pair_rows(payload, what):
                yield Text()
                yield _table((head, *PAIR_HEADS[1:]), rows, write, width)
        yield Text()
        for line in legend(payload):
            yield write(line, "dim")
        yield Text()
        for line in [overlap(payload), *remarks(payload)]:
            yield write(line)
        for line in left_out(payload):
            yield write(line, "yellow")
        yield write(effort(payload), "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay a comparison out for rich."""
    return Sheet(payload)


def _facts(payload: Mapping[str, Any], write: Writer, width: int) -> RenderableType:
    told = facts(payload)
    if width < _NARROW:
        return Group(*(Text.assemble(write(f"{n}: ", "dim"), write(t)) for n, t in told))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in told:
        table.add_row(write(name, "dim"), write(text))
    return table


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], write: Writer, width: int
) -> RenderableType:
    """Lay rows out one a line, or where there is no room for that, one below the other."""
    needed = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if sum(needed) + 2 * (len(needed) - 1) > width:
        return Group(*(_stacked(heads, cells, write) for cells in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    for name, *cells in rows:
        table.add_row(write(name, "bold"), *map(write, cells))
    return table


def _stacked(heads: Sequence[str], cells: Sequence[str], write: Writer) -> RenderableType:
    name, *found = cells
    told = write("; ".join(f"{head} {text}" for head, text in zip(heads[1:], found, strict=True)))
    told.overflow = "fold"
    return Group(
        Text.assemble(write(f"{heads[0]} ", "dim"), write(name, "bold")), Padding.indent(told, 2)
    )
