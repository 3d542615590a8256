"""Markdown that says what it should, whatever signs a text has."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table, its head first."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """Return a text in which no sign means anything but itself."""
    for sign in "\\`*_[]<>|$":
        text = text.replace(sign, "\\" + sign)
    return text


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts in which no sign means anything but itself."""
    # The table escapes the sign between its cells itself.
    return table([[escaped(cell).replace("\\|", "|") for cell in cells] for cells in rows])
