"""The table of an evaluation for papers and programs: Markdown, LaTeX, comma separated values."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

from whence.report.latex import escaped as latex_escaped
from whence.report.latex import table as latex_table
from whence.report.markdown import escaped, table
from whence.report.spreadsheet import harmless
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

_ACROSS = 4
_MARKS = {"best": "Bold", "chance": "°"}


def markdown(payload: Mapping[str, Any]) -> str:
    """Write an evaluation in Markdown."""
    parts = [" ".join([escaped(headline(payload)) + ".", *map(escaped, data_line(payload))])]
    parts += [_markdown_grid(grid) for grid in grids(payload, _ACROSS)]
    pairs = [_markdown_grid(grid) for grid in pair_grids(payload, _ACROSS)]
    parts += pairs
    parts.append(table([COSTS, *((f"`{name}`", *facts) for name, *facts in costs(payload))]))
    legend = [line.format(**_MARKS) for line in LEGEND]
    parts.append(" ".join([*legend, *([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]))
    said = [f"Agreement by {line}." for line in agreement(payload)]
    said += [*notes(payload), *elsewhere(payload), *effort(payload)]
    parts.append("\n".join(f"- {escaped(line)}" for line in said))
    return "\n\n".join(parts) + "\n"


def _markdown_grid(grid: Grid) -> str:
    rows = [
        (_markdown_name(name), *(_marked(cell, "**{}**".format, " °") for cell in cells))
        for name, cells in grid.rows
    ]
    return table([(grid.kind, *_heads(grid)), *rows])


def _markdown_name(name: str) -> str:
    return name if name == CHANCE else " over ".join(f"`{one}`" for one in name.split(" over "))


def _heads(grid: Grid) -> list[str]:
    return [
        " ".join(part for part in (name, arrow, f"({count})" if count else "") if part)
        for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    ]


def _marked(cell: Cell, strong: Callable[[str], str], chance: str) -> str:
    """Write a cell with its marks at its own figures, not at those of random explanations."""
    own = (strong(cell.own) if cell.best else cell.own) + (chance if cell.chance else "")
    return f"{own}, {cell.null}" if cell.null else own


def latex(payload: Mapping[str, Any]) -> str:
    """Write an evaluation in LaTeX, with the rules of booktabs."""
    parts = ["% " + " ".join(line.split()) for line in (headline(payload), *data_line(payload))]
    parts.append("% \\usepackage{booktabs}")
    for grid in grids(payload, _ACROSS):
        parts += latex_table([grid.kind, *_heads(grid)], _latex_rows(grid), {CHANCE})
    pairs = list(pair_grids(payload, _ACROSS))
    for grid in pairs:
        parts += latex_table([grid.kind, *_heads(grid)], _latex_rows(grid), {CHANCE})
    cost = [
        [latex_escaped(name), *(f"{{{latex_escaped(fact)}}}" for fact in facts)]
        for name, *facts in costs(payload)
    ]
    parts += latex_table(COSTS, cost)
    said = [line.format(**_MARKS) for line in LEGEND]
    said += [*([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]
    said += [f"Agreement by {line}." for line in agreement(payload)]
    said += [*notes(payload), *elsewhere(payload), *effort(payload)]
    parts += [f"% {' '.join(line.split())}" for line in said]
    return "\n".join(parts) + "\n"


def _latex_rows(grid: Grid) -> list[list[str]]:
    return [[latex_escaped(name), *map(_latex_cell, cells)] for name, cells in grid.rows]


def _latex_cell(cell: Cell) -> str:
    # A bracket that follows a line break or a macro would be taken for its argument.
    safe = replace(cell, own=f"{{{latex_escaped(cell.own)}}}", null=latex_escaped(cell.null))
    return _marked(safe, "\\textbf{}".format, "$^\\circ$")


_DATA = ("data", "rows", "drawn", "drawn_by_seed")  # its name, all rows, those that were taken
_CELLS = (
    *("model", "remove", "unit", "seed", "method", "metric", "kind", "direction"),
    *("mean", "low", "high", "n", "random", "random_low", "random_high"),
    *("gain", "gain_low", "gain_high", "effect", "p", "beats_random", "best", "enough"),
    *("seconds", "forward", "backward", "untested"),
    *_DATA,
)
_PAIRS = (
    *("model", "remove", "unit", "seed", "metric", "a", "b"),
    *("gain", "low", "high", "n", "p", "enough"),
    *_DATA,
)


def tidy(payload: Mapping[str, Any]) -> str:
    """Write one row for each method and metric, all figures in full."""
    costs_of = {one["method"]: one for one in payload["methods"]}
    facts_of = {one["metric"]: one for one in payload["metrics"]}
    rows = []
    for cell in payload["cells"]:
        fact, own = facts_of[cell["metric"]], costs_of[cell["method"]]
        rows.append(
            [
                *_setting(payload),
                *(cell["method"], cell["metric"], fact["kind"], fact["direction"]),
                *(cell[name] for name in ("mean", "low", "high", "n")),
                *_ends(cell["null"]),
                *_ends(cell["gain"]),
                *(cell[name] for name in ("effect", "p", "beats_random", "best")),
                cell.get("enough", True),
                *(_ends(own[what])[0] for what in ("seconds", "forward", "backward")),
                sum(row["count"] for row in cell["why_not"]),
                *_data(payload),
            ]
        )
    return _separated(_CELLS, rows)


def compared(payload: Mapping[str, Any]) -> str:
    """Write one row for each two methods and metric: by how much `a` is better than `b`, and the corrected p."""
    return _separated(
        _PAIRS,
        [
            [
                *_setting(payload),
                *(pair["metric"], pair["a"], pair["b"]),
                *_ends(pair["gain"]),
                pair["gain"]["n"] if pair["gain"] else 0,
                pair["p"],
                pair.get("enough", True),
                *_data(payload),
            ]
            for pair in payload["pairs"]
        ],
    )


def _setting(payload: Mapping[str, Any]) -> list[Any]:
    setting = payload["setting"]
    return [payload["model"]["name"], setting["remove"], setting["unit"], setting["seed"]]


def _data(payload: Mapping[str, Any]) -> list[Any]:
    """Return what the data set is called, how many rows it has, how many were taken, and by which seed."""
    facts = payload.get("data") or {}
    taken = facts.get("rows") if facts.get("drawn") is None else facts["drawn"]
    return [facts.get("name"), facts.get("rows"), taken, facts.get("seed")]


def _ends(one: Mapping[str, Any] | None) -> list[Any]:
    return [None, None, None] if one is None else [one[name] for name in ("mean", "low", "high")]


def _separated(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([harmless(value) for value in row] for row in rows)
    return stream.getvalue()
