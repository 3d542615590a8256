"""Griffe extension for the API reference: comments on a class's fields become their documentation."""

from __future__ import annotations

import ast
import tokenize
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Extension that takes a field's text from the comment behind it, or above it, if it has no docstring."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **kwargs: Any
    ) -> None:
        """Give the field the text of its comment."""
        fields = (
            isinstance(node, ast.AnnAssign) and attr.parent is not None and attr.parent.is_class
        )
        if attr.docstring is not None or not fields or not isinstance(attr.filepath, Path):
            return
        found = find_comment(attr.filepath, node.lineno, node.end_lineno or node.lineno)
        if found:
            attr.docstring = griffe.Docstring(found, parent=attr)


def find_comment(file: Path, first: int, last: int) -> str:
    """Return the comment on these lines, or else the one right above them."""
    alone, behind = _read_comments(file)
    said = [behind[line] for line in range(first, last + 1) if line in behind]
    if not said:
        above = list(takewhile(alone.__contains__, range(first - 1, 0, -1)))
        said = [alone[line] for line in reversed(above)]
    text = " ".join(said)
    return text[:1].upper() + text[1:]


@cache
def _read_comments(file: Path) -> tuple[dict[int, str], dict[int, str]]:
    """Return the comments of a file by line: those alone on a line, and those behind code."""
    alone: dict[int, str] = {}
    behind: dict[int, str] = {}
    with tokenize.open(file) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT:
                own = not token.line[: token.start[1]].strip()
                (alone if own else behind)[token.start[0]] = token.string.lstrip("# ")
    return alone, behind
