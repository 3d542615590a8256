"""A generated answer in a terminal: pieces of the prompt by parts of the answer, and their sums."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.generation.wording import (
    CHANCE,
    Row,
    effort,
    headline,
    heads,
    hundredths,
    largest,
    legend,
    notes,
    one_line,
    percent,
    rows,
    setting,
)
from whence.report.terminal import Writer, tone
from whence.report.text import visible

_PIECES = 14
_NARROWEST, _WIDEST = 5, 9  # of a column


class Sheet:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the answer out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        width = options.max_width
        yield Text.assemble(
            write(visible(payload["model"]["name"]), "dim"), "  ", write(headline(payload), "bold")
        )
        yield write(setting(payload), "dim")
        for note in notes(payload):
            yield write(note, "yellow")
        table = rows(payload, _PIECES)
        label = max(12, min(max(cell_len(row.text) for row in table), width // 3))
        for some in _bands(heads(payload), width - label - 1):
            yield Text()
            yield _matrix(payload, table, some, label, write)
        yield write(legend(payload), "dim")
        yield Text()
        yield _sums(table, label, write)
        yield write(CHANCE, "dim")
        yield write(effort(payload), "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay a generated answer out for rich."""
    return Sheet(payload)


def _bands(names: Sequence[str], width: int) -> Iterator[list[tuple[int, str, int]]]:
    """Yield as many columns at a time as there is room for: number, name and width of each."""
    band: list[tuple[int, str, int]] = []
    used = 0
    for number, name in enumerate(names):
        wide = max(_NARROWEST, min(_WIDEST, cell_len(name)))
        if band and used + wide + 1 > width:
            yield band
            band, used = [], 0
        band.append((number, name, wide))
        used += wide + 1
    yield band


def _matrix(
    payload: Mapping[str, Any],
    table: Sequence[Row],
    band: Sequence[tuple[int, str, int]],
    label: int,
    write: Writer,
) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=label, no_wrap=True)
    for _, _, wide in band:
        grid.add_column(width=wide, no_wrap=True, justify="right")
    grid.add_row("", *(write(one_line(name, wide), "bold") for _, name, wide in band))
    scale = largest(payload)
    for row in table:
        cells = [
            write(
                hundredths(row.cells[number], scale).rjust(wide),
                tone(max(-1.0, min(1.0, row.cells[number] / scale))),
            )
            for number, _, wide in band
        ]
        grid.add_row(write(one_line(row.text, label), "dim" if row.special else ""), *cells)
    return grid


def _sums(table: Sequence[Row], label: int, write: Writer) -> Table:
    """Return the sums over the answer, with what a piece would get by its length."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=label, no_wrap=True)
    for _ in range(3):
        grid.add_column(justify="right", no_wrap=True)
    grid.add_row(
        write("whole answer", "dim"), *(write(h, "dim") for h in ("score", "share", "by length"))
    )
    for row in table:
        cells = [write(f"{row.total:+.3g}"), write(percent(row.share)), write(percent(row.chance))]
        grid.add_row(write(one_line(row.text, label), "dim" if row.special else ""), *cells)
    return grid
