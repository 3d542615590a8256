"""Markdown for reports: tables, and escaping of special characters."""

from collections.abc import Sequence


def format_markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return the lines of a Markdown table."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_markdown(text: str) -> str:
    """Escape all characters that are special in Markdown."""
    for sign in "\\`*_[]<>|$":
        text = text.replace(sign, "\\" + sign)
    return text


def format_escaped_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of plain texts, escaped."""
    # format_markdown_table escapes the cell separator itself.
    return format_markdown_table(
        [[escape_markdown(cell).replace("\\|", "|") for cell in cells] for cells in rows]
    )
