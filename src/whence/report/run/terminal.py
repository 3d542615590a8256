"""A report in a terminal: the same blocks as everywhere, as wide as the terminal and with the characters it has."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from whence.report.audit.sketch import ASCII, LINES, sketch
from whence.report.audit.terminal import render as audit
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Table,
    Told,
)
from whence.report.run.document import document
from whence.report.run.text import folded, sentence, strongest
from whence.report.table.terminal import render as evaluation
from whence.report.terminal import Writer, indented, named, rowed, tinted
from whence.report.text import visible
from whence.view.shade import shades

_TONES = {"": "", "strong": "bold", "dim": "dim", "warning": "yellow"}


class Sheet:
    """A payload laid out for rich."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the report out."""
        made, write = document(self._payload), Writer(ascii_only=options.ascii_only)
        yield write(made.title, "bold")
        for section in made.sections:
            yield Text()
            yield write(section.title, "bold underline")
            for block in section.blocks:
                if not isinstance(block, Line):
                    yield Text()
                yield from _block(block, write, options)


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay a report out for rich."""
    return Sheet(payload)


def _block(block: Block, write: Writer, options: ConsoleOptions) -> Iterator[RenderableType]:
    match block:
        case Line(text, tone):
            yield write(text, _TONES[tone])
        case Facts(pairs):
            yield named(pairs, write, options.max_width)
        case Table(_, rows, name, True):
            yield write(folded(name, len(rows)), "dim")
        case Table(heads, rows, name):
            yield from [write(name, "bold")] if name else []
            yield rowed(heads, rows, write, options.max_width)
        case Evaluated(payload):
            yield evaluation(payload)
        case Audited(payload):
            yield audit(payload)
        case Drawing(plot):
            pen = ASCII if options.ascii_only else LINES
            yield from (write(line) for line in sketch(plot, options.max_width, pen))
        case Told(title, says, payload):
            yield write(title, "bold")
            yield from (indented(write(line, "dim")) for line in says)
            yield indented(_words(payload, write))
            yield from (indented(write(line, "dim")) for line in _legend(payload))
            yield indented(write(strongest(payload)))
        case Code(text):
            yield from (indented(write(visible(line))) for line in text.splitlines())


def _legend(payload: Mapping[str, Any]) -> list[str]:
    """Say what the colours of the words mean; patches of a picture are named and not coloured."""
    (explanation,) = payload["explanations"]
    return [] if payload.get("picture") else [visible(shades(dict(payload), explanation).legend)]


def _words(payload: Mapping[str, Any], write: Writer) -> Text:
    if payload.get("picture"):
        return write(sentence(payload))
    (explanation,) = payload["explanations"]
    line = tinted(dict(payload), shades(dict(payload), explanation).words)
    return Text(" ").join(line.split())  # a text of many lines takes up one
