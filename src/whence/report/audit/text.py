"""An audit as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping
from typing import Any

from whence.report.audit.sketch import LINES, sketch
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
    parts,
    remarks,
    row,
)

_WIDTH = 80


def plain(payload: Mapping[str, Any]) -> str:
    """Write an audit as lines of text."""
    lines = [f"{QUESTION} {answer(payload)}", ""]
    lines += [f"{name}: {text}" for name, text in facts(payload)]
    lines += ["", *_table(payload), "", LEGEND]
    for one in payload["experiments"]:
        lines += ["", *_experiment(one)]
    lines += ["", *left_out(payload)] if left_out(payload) else []
    return "\n".join([*lines, "", one_line(payload["conclusion"]), "", effort(payload)])


def _table(payload: Mapping[str, Any]) -> list[str]:
    if not payload["experiments"]:
        return ["No experiment was made."]
    rows = [HEADS, *(row(one) for one in payload["experiments"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]


def _experiment(one: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{one_line(one['name'])}: {one_line(one['hypothesis'])}",
        f"  measured: {one_line(one['measure'])}",
    ]
    for which, title in (("class", "by class"), ("site", "at other sites")):
        told = [f"{name} {effect} n={n}" for name, effect, n in parts(one, which)]
        lines += [f"  {title}: {'; '.join(told)}"] if told else []
    lines += [f"  {said}"] if (said := agreement(one)) else []
    lines += [f"  note: {line}" for line in remarks(one)]
    for plot in one.get("plots") or ():
        lines += [f"  {line}" for line in sketch(plot, _WIDTH - 2, LINES)]
    return lines
