"""A comparison in a terminal: the sentences first, then layers, heads and the rest."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
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
from whence.report.terminal import Writer, named, rowed


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
        yield named(facts(payload), write, width)
        for heads, rows in layer_tables(payload):
            yield Text()
            yield rowed(heads, rows, write, width)
        yield Text()
        yield rowed(HEAD_HEADS, head_rows(payload, MOST), write, width)
        for what, head in PAIRS:
            if rows := pair_rows(payload, what):
                yield Text()
                yield rowed((head, *PAIR_HEADS[1:]), rows, write, width)
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
