"""The writer of Markdown: blocks, tables, and escaping of special characters."""

from collections.abc import Iterator

from whence.render import document as doc
from whence.render.text import flatten, format_heading, sanitise_text, select_columns, to_line

_NO_LIMIT = 10**6  # a table in Markdown is as wide as it is
_PAGE_WIDTH = 110  # of tables that may be split


def write_markdown_document(document: doc.Document) -> str:
    """Return a document in Markdown."""
    parts = []
    for section in document.list_sections():
        title = _escape_line(format_heading(section.title, section.badge))
        parts += [f"## {title}"] if title else []
        parts += [text for block in flatten(section.blocks) for text in _format_block(block)]
    return "\n\n".join(parts) + "\n"


def _escape_line(text: str) -> str:
    return escape_markdown(to_line(text))


def _format_block(block: doc.Block) -> Iterator[str]:
    match block:
        case doc.Heading(text, badge):
            yield f"### {_escape_line(format_heading(text, badge))}"
        case doc.Paragraph(text, tone):
            yield f"**{_escape_line(text)}**" if tone == "strong" else _escape_line(text)
        case doc.Bullets(lines):
            yield "\n".join(f"- {_escape_line(line)}" for line in lines)
        case doc.FactList(pairs):
            yield "\n".join(
                f"- {_escape_line(name)}: {_escape_line(text)}" for name, text in pairs if text
            )
        case doc.Table(name=name, wide=wide):
            yield from [f"**{_escape_line(name)}**"] if name else []
            for heads, rows in select_columns(block, _PAGE_WIDTH if wide == "split" else _NO_LIMIT):
                cells = [[_format_cell(cell) for cell in row] for row in [heads, *rows]]
                cells.insert(1, ["---"] * len(heads))
                yield "\n".join(f"| {' | '.join(row)} |" for row in cells)
        case doc.TintedText(plain=plain):
            yield from [f"> {_escape_line(plain)}"] if plain else []
        case doc.Code(text, language):
            fence = "```"
            while fence in text:
                fence += "`"
            yield f"{fence}{language}\n{sanitise_text(text).rstrip()}\n{fence}"


def _format_cell(cell: doc.Cell) -> str:
    text = _escape_line(cell.text)
    text = f"**{text}**" if cell.tone == "strong" and text else text
    return f"{text} {_escape_line(cell.note)}".strip() if cell.note else text


def escape_markdown(text: str) -> str:
    """Escape all characters that are special in Markdown."""
    for sign in "\\`*_[]<>|$":
        text = text.replace(sign, "\\" + sign)
    return text
