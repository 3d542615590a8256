"""An audit in a terminal: what was audited, one line for each experiment, sketches, and the conclusion last."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.report.audit.sketch import ASCII, LINES, Pen, sketch
from whence.report.audit.wording import (
    HEADS,
    LEGEND,
    QUESTION,
    agreement,
    answer,
    effort,
    facts,
    left_out,
    one_line,
    remarks,
    row,
)
from whence.report.terminal import Writer

_TONES = {"holds": "green", "fails": "red", "undecided": "yellow"}
_ANSWER_TONES = {"yes": "green", "no": "red", "undecided": "yellow"}


class Sheet:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the audit out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        pen = ASCII if options.ascii_only else LINES
        yield _facts(payload, write, options.max_width)
        yield Text()
        yield _table(payload, write, options.max_width)
        yield Text()
        yield write(LEGEND, "dim")
        for one in payload["experiments"]:
            yield Text()
            yield from _experiment(one, write, options.max_width, pen)
        if lines := left_out(payload):
            yield Text()
            for line in lines:
                yield write(line, "yellow")
        yield Text()
        tone = _ANSWER_TONES.get(payload["answer"], "")
        yield Text.assemble(
            write(QUESTION, "bold"), " ", write(answer(payload), f"bold {tone}".strip())
        )
        yield write(one_line(payload["conclusion"]))
        yield Text()
        yield write(effort(payload), "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay an audit out for rich."""
    return Sheet(payload)


def _facts(payload: Mapping[str, Any], write: Writer, width: int) -> RenderableType:
    told = facts(payload)
    if width < 50:
        return Group(*(Text.assemble(write(f"{n}: ", "dim"), write(t)) for n, t in told))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in told:
        table.add_row(write(name, "dim"), write(text, "bold" if name == "model" else ""))
    return table


def _table(payload: Mapping[str, Any], write: Writer, width: int) -> RenderableType:
    """Lay the experiments out one a line, or where there is no room for that, one below the other."""
    rows = [(one["verdict"], row(one)) for one in payload["experiments"]]
    if not rows:
        return write("No experiment was made.")
    needed = [max(map(len, column)) for column in zip(HEADS, *(r for _, r in rows), strict=True)]
    if sum(needed) + 2 * (len(needed) - 1) > width:
        return Group(*(_stacked(verdict, cells, write) for verdict, cells in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in HEADS:
        table.add_column(head, overflow="fold", justify="right" if head == "n" else "left")
    for verdict, (name, *cells, said) in rows:
        tone = _TONES.get(verdict, "")
        table.add_row(write(name, "bold"), *map(write, cells), write(said, tone))
    return table


def _stacked(verdict: str, cells: tuple[str, ...], write: Writer) -> RenderableType:
    name, *found, said = cells
    told = "; ".join(f"{head} {text}" for head, text in zip(HEADS[1:-1], found, strict=True))
    head = Text.assemble(write(name, "bold"), "  ", write(said, _TONES.get(verdict, "")))
    return Group(head, _indented(write(told)))


def _experiment(
    one: Mapping[str, Any], write: Writer, width: int, pen: Pen
) -> Iterator[RenderableType]:
    yield Text.assemble(
        write(one_line(one["name"]), "bold"), "  ", write(one_line(one["hypothesis"]))
    )
    yield _indented(write(f"measured: {one_line(one['measure'])}", "dim"))
    if said := agreement(one):
        yield _indented(write(said))
    for line in remarks(one):
        yield _indented(write(line, "yellow"))
    for line in _sketches(one, width - 2, pen):
        yield _indented(write(line))


def _sketches(one: Mapping[str, Any], width: int, pen: Pen) -> list[str]:
    """Return the first drawing that characters can show, and examples; a page has all of them."""
    plots = one.get("plots") or ()
    drawn = [sketch(plot, width, pen) for plot in plots if plot["kind"] != "attention"]
    shown = [sketch(plot, width, pen) for plot in plots if plot["kind"] == "attention"]
    return [line for lines in [*[d for d in drawn if d][:1], *shown] for line in lines]


def _indented(line: Text) -> RenderableType:
    line.overflow = "fold"
    return Padding.indent(line, 2)
