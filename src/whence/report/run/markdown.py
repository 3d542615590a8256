"""A report in Markdown: for a repository, or a page of documentation."""

from collections.abc import Iterator, Mapping
from typing import Any

from whence.report.audit.export import markdown as audit_markdown
from whence.report.markdown import escaped, plain_table
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
from whence.report.table.export import markdown as table_markdown
from whence.report.text import visible


def markdown(payload: Mapping[str, Any]) -> str:
    """Write a report in Markdown; what can only be drawn is on the page alone."""
    made = document(payload)
    parts = [f"# {escaped(made.title)}"]
    for section in made.sections:
        if all(isinstance(block, Drawing) for block in section.blocks):
            continue
        parts.append(f"## {escaped(section.title)}")
        parts += [text for block in section.blocks for text in _block(block)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Line(text, tone):
            yield f"**{escaped(text)}**" if tone == "strong" else escaped(text)
        case Facts(pairs):
            yield "\n".join(f"- {escaped(name)}: {escaped(text)}" for name, text in pairs)
        case Table(_, rows, name, True):
            yield escaped(folded(name, len(rows)))
        case Table(heads, rows, name):
            yield from [f"**{escaped(name)}**"] if name else []
            yield plain_table([heads, *rows])
        case Evaluated(payload):
            yield table_markdown(payload)
        case Audited(payload):
            yield audit_markdown(payload)
        case Told(title, says, payload):
            yield f"**{escaped(title)}**"
            yield "\n".join(f"- {escaped(line)}" for line in [*says, strongest(payload)])
            yield f"> {escaped(sentence(payload))}"
        case Code(text, language):
            yield fenced(text, language)
        case Drawing():
            pass


def fenced(text: str, language: str = "") -> str:
    """Return a text between fences that are longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{visible(text).rstrip()}\n{fence}"
