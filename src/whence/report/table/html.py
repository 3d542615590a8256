"""The table of an evaluation for a notebook and as a page: every piece of text escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.sheet import cell as notebook
from whence.report.sheet import provenance, sheet
from whence.report.table.grid import (
    CHANCE,
    COSTS,
    COSTS_LEGEND,
    LEGEND,
    Cell,
    Grid,
    agreement,
    costs,
    data_line,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.pairs import PAIRS_LEGEND, elsewhere, pair_grids
from whence.report.table.plot import plot

_ACROSS = 4
STYLE = """.whence td.chance, .whence tr.chance td { color: var(--dim); }
.whence .wide { overflow-x: auto; }
.whence svg { max-width: max(100%, 40rem); height: auto; }"""


def page(*payloads: dict[str, Any]) -> str:
    """Return a whole page about one evaluation, or about several that belong together."""
    return sheet("whence: methods held against each other", "".join(map(fragment, payloads)), "")


def fragment(payload: dict[str, Any], answer: str = "", plan: str = "") -> str:
    """Return a piece of HTML for a notebook cell, below an answer that stands on it and its plan, if there are."""
    above = [
        f"<p><strong>{escape(answer)}</strong></p>" if answer else "",
        f'<p class="dim">{escape(plan)}</p>' if plan else "",
        f"<h2>{escape(headline(payload))}</h2>",
        *(f'<p class="dim">{escape(line)}</p>' for line in data_line(payload)),
    ]
    inside = "\n".join([*above, body(payload), provenance(payload)])
    return notebook(f"<section>{inside}</section>", STYLE)


def body(payload: Mapping[str, Any]) -> str:
    """Return the drawing, the tables and all that is said about them, to stand below a heading."""
    legend = [line.format(best="Bold", chance="°") for line in LEGEND]
    pairs = list(pair_grids(payload, _ACROSS))
    legend += [*([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]
    said = [f"Agreement by {line}." for line in agreement(payload)]
    parts = [
        f'<div class="wide">{plot(payload, titled=False)}</div>',
        *(_table(grid) for grid in grids(payload, _ACROSS)),
        *(_table(grid) for grid in pairs),
        _rows([COSTS], costs(payload)),
        *(f'<p class="dim">{escape(line)}</p>' for line in [*legend, *said]),
        *(f"<p>{escape(line)}</p>" for line in notes(payload)),
        *(f'<p class="dim">{escape(line)}</p>' for line in [*elsewhere(payload), *effort(payload)]),
    ]
    return "\n".join(parts)


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
    return _wide(f"<tr><th>{escape(grid.kind)}</th>{heads}</tr>", rows)


def _cell(cell: Cell) -> str:
    text = escape(cell.own)
    text = f"<strong>{text}</strong>" if cell.best else text
    null = f'<br><span class="dim">{escape(cell.null)}</span>' if cell.null else ""
    return f'<td class="chance">{text} °{null}</td>' if cell.chance else f"<td>{text}{null}</td>"


def _rows(heads: Sequence[Sequence[str]], body: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(one)}</th>" for head in heads for one in head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in body)
    return _wide(f"<tr>{top}</tr>", rows)


def _wide(head: str, rows: str) -> str:
    """Return a table that scrolls by itself where the page is too narrow for it."""
    return f'<div class="wide"><table><thead>{head}</thead>{rows}</table></div>'
