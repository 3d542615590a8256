"""A comparison as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping, Sequence
from typing import Any

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

MOST = 10
PAIRS = (("specials", "attention to"), ("segments", "attention between texts"))


def plain(payload: Mapping[str, Any]) -> str:
    """Write a comparison as lines of text."""
    lines = [title(payload), "", one_line(payload["sentence"]), ""]
    lines += [f"{name}: {text}" for name, text in facts(payload)]
    for heads, rows in layer_tables(payload):
        lines += ["", *_table(heads, rows)]
    lines += ["", *_table(HEAD_HEADS, head_rows(payload, MOST))]
    for what, head in PAIRS:
        if rows := pair_rows(payload, what):
            lines += ["", *_table((head, *PAIR_HEADS[1:]), rows)]
    lines += ["", *legend(payload), "", overlap(payload), *remarks(payload), *left_out(payload)]
    return "\n".join([*lines, "", effort(payload)])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(cells, widths, strict=True)).rstrip()
        for cells in (heads, *rows)
    ]
