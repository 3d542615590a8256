"""The table of an evaluation for a notebook: every piece of text escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.sheet import cell as notebook
from whence.report.sheet import provenance
from whence.report.table.grid import (
    CHANCE,
    COSTS,
    LEGEND,
    Cell,
    Grid,
    agreement,
    costs,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.plot import plot

_ACROSS = 4
_STYLE = """.whence td.chance, .whence tr.chance td { color: var(--dim); }
.whence svg { max-width: 100%; height: auto; }"""


def fragment(payload: dict[str, Any], answer: str = "") -> str:
    """Return a piece of HTML for a notebook cell, below an answer that stands on it, if there is one."""
    legend = [line.format(best="Bold", chance="°") for line in LEGEND]
    said = [f"Agreement by {line}." for line in agreement(payload)]
    body = [
        "<section>",
        f"<p><strong>{escape(answer)}</strong></p>" if answer else "",
        f"<h2>{escape(headline(payload))}</h2>",
        plot(payload, titled=False),
        *(_table(grid) for grid in grids(payload, _ACROSS)),
        _rows([COSTS], costs(payload)),
        *(f'<p class="dim">{escape(line)}</p>' for line in [*legend, *said]),
        *(f"<p>{escape(line)}</p>" for line in notes(payload)),
        f'<p class="dim">{escape(effort(payload))}</p>',
        provenance(payload),
        "</section>",
    ]
    return notebook("\n".join(body), _STYLE)


def _table(grid: Grid) -> str:
    heads = "".join(
        f'<th>{escape(name)} {arrow} <span class="dim">{escape(count)}</span></th>'
        for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    )
    rows = "".join(
        f'<tr class="{"chance" if name == CHANCE else "method"}"><td>{escape(name)}</td>'
        f"{''.join(_cell(cell) for cell in cells)}</tr>"
        for name, cells in grid.rows
    )
    return f"<table><thead><tr><th>{escape(grid.kind)}</th>{heads}</tr></thead>{rows}</table>"


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    text = f"<strong>{text}</strong>" if cell.best else text
    return f'<td class="chance">{text} °</td>' if cell.chance else f"<td>{text}</td>"


def _rows(heads: Sequence[Sequence[str]], body: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(one)}</th>" for head in heads for one in head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in body)
    return f"<table><thead><tr>{top}</tr></thead>{rows}</table>"
