"""A report as plain text: for a log, a pipe, or print()."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whence.report.audit.sketch import LINES, sketch
from whence.report.audit.text import plain as audit_text
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Section,
    Table,
    Told,
)
from whence.report.run.document import document
from whence.report.table.text import plain as table_text
from whence.report.text import ranked, visible

_WIDTH = 80
_TOP = 6  # words of an example


def plain(payload: Mapping[str, Any]) -> str:
    """Write a report as lines of text."""
    made = document(payload)
    parts = [made.title, *("\n".join(_section(one)) for one in made.sections)]
    return "\n\n".join(parts)


def _section(section: Section) -> list[str]:
    lines = [section.title, "-" * len(section.title)]
    for block in section.blocks:
        if lines[-1] and not isinstance(block, Line):
            lines.append("")
        lines += _block(block)
    return lines


def _block(block: Block) -> Iterator[str]:
    match block:
        case Line(text):
            yield text
        case Facts(pairs):
            yield from (f"{name}: {text}" for name, text in pairs)
        case Table(_, rows, name, True):
            yield folded(name, len(rows))
        case Table(heads, rows, name):
            yield from [name] if name else []
            yield from aligned([heads, *rows])
        case Evaluated(payload):
            yield table_text(payload)
        case Audited(payload):
            yield audit_text(payload)
        case Drawing(plot):
            yield from sketch(plot, _WIDTH, LINES)
        case Told(title, says, payload):
            yield title
            yield from (f"  {line}" for line in [*says, sentence(payload)])
            yield f"  {strongest(payload)}"
        case Code(text):
            yield from (f"    {visible(line)}" for line in text.splitlines())


def folded(name: str, rows: int) -> str:
    """Say where a table is to be found that is too long for here."""
    return f"{name}: {rows:,}, on the page (--html) and in the JSON object (--json)."


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def sentence(payload: Mapping[str, Any]) -> str:
    """Return what was explained, on one line; of a picture its name."""
    if payload.get("picture"):
        return f"the picture {' '.join(visible(str(payload['picture']['name'])).split())}"
    texts = [payload["input"]["text"], payload["input"]["pair"]]
    return " | ".join(" ".join(visible(text).split()) for text in texts if text)


def strongest(payload: Mapping[str, Any], top: int = _TOP) -> str:
    """Return the words, or patches, that count most, with their scores."""
    (explanation,) = payload["explanations"]
    words = ranked(dict(payload), explanation, top)
    return ", ".join(f"{' '.join(word.split())} {score:+.3g}" for word, score in words)
