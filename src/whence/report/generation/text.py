"""A generated answer as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping
from typing import Any

from whence.report.generation.wording import (
    effort,
    headline,
    heads,
    notes,
    one_line,
    percent,
    rows,
    scale_in_generation,
    setting,
)
from whence.report.text import share, unit_words, visible

_PIECES, _WIDE, _STRONGEST = 12, 48, 3


def plain(payload: Mapping[str, Any]) -> str:
    """Write a payload as lines of text."""
    scale = scale_in_generation(payload)
    lines = [
        f"{visible(payload['model']['name'])}: {headline(payload)}",
        setting(payload),
        *notes(payload),
        f"the prompt, over the whole answer (score{unit_words(payload)}, share, share by length):",
    ]
    table = rows(payload, _PIECES)
    width = max(len(one_line(row.text, _WIDE)) for row in table)
    lines += [
        f"  {one_line(row.text, _WIDE):<{width}}  {row.total:+9.3g}  {percent(row.share):>6}  "
        f"{percent(row.chance):>6}".rstrip()
        for row in table
    ]
    lines.append("token by token:" if payload["granularity"] != "word" else "word by word:")
    every = rows(payload)
    for number, (head, output) in enumerate(zip(heads(payload), payload["outputs"], strict=True)):
        best = sorted(every, key=lambda row: -abs(row.cells[number]))[:_STRONGEST]
        told = ", ".join(f"{one_line(row.text, 24)} {row.cells[number]:+.3g}" for row in best)
        lines.append(f"  {head} ({share(output['probability'])}): {told}")
    lines += [scale["note"]] if scale["note"] else []
    return "\n".join([*lines, effort(payload)])
