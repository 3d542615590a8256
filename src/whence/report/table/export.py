"""The table of an evaluation for papers and programs: Markdown, LaTeX, comma separated values."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from whence.report.table.grid import (
    CHANCE,
    COSTS,
    LEGEND,
    agreement,
    costs,
    effort,
    grids,
    headline,
    notes,
)

_ACROSS = 4
_MARKS = {"best": "Bold", "chance": "°"}


def markdown(payload: Mapping[str, Any]) -> str:
    """Write an evaluation in Markdown."""
    parts = [_escaped(headline(payload)) + "."]
    for grid in grids(payload, _ACROSS):
        heads = [
            f"{name} {arrow}{f' ({count})' if count else ''}"
            for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
        ]
        rows = [
            (
                name if name == CHANCE else f"`{name}`",
                *(
                    (f"**{cell.text}**" if cell.best else cell.text) + (" °" if cell.chance else "")
                    for cell in cells
                ),
            )
            for name, cells in grid.rows
        ]
        parts.append(_markdown_table([(grid.kind, *heads), *rows]))
    parts.append(
        _markdown_table([COSTS, *((f"`{name}`", *facts) for name, *facts in costs(payload))])
    )
    parts.append(" ".join(line.format(**_MARKS) for line in LEGEND))
    said = [f"Agreement by {line}." for line in agreement(payload)] + notes(payload)
    parts.append("\n".join(f"- {_escaped(line)}" for line in [*said, effort(payload)]))
    return "\n\n".join(parts) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, "\\" + sign)
    return text


def latex(payload: Mapping[str, Any]) -> str:
    """Write an evaluation in LaTeX, with the rules of booktabs."""
    parts = ["% " + " ".join(headline(payload).split()), "% \\usepackage{booktabs}"]
    for grid in grids(payload, _ACROSS):
        heads = [
            f"{_latex(name)} {_latex(arrow)}{f' ({_latex(count)})' if count else ''}"
            for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
        ]
        *rows, last = [
            [_latex(name), *(_latex_cell(cell.text, cell.best, cell.chance) for cell in cells)]
            for name, cells in grid.rows
        ]
        parts += [
            f"\\begin{{tabular}}{{l{'l' * len(heads)}}}",
            "\\toprule",
            _latex_row([_latex(grid.kind), *heads]),
            "\\midrule",
            *(_latex_row(row) for row in rows),
            "\\midrule",
            _latex_row(last),
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    marks = {"best": "Bold", "chance": "°"}
    parts += [f"% {line.format(**marks)}" for line in LEGEND]
    parts += [f"% {' '.join(line.split())}" for line in (*notes(payload), effort(payload))]
    return "\n".join(parts) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + " \\\\"


def _latex_cell(text: str, best: bool, chance: bool) -> str:
    # A bracket that follows a line break or a macro would be taken for its argument.
    body = f"{{{_latex(text)}}}"
    return (f"\\textbf{body}" if best else body) + ("$^\\circ$" if chance else "")


_LATEX = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "↑": "$\\uparrow$",
    "↓": "$\\downarrow$",
    "°": "$^\\circ$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def _latex(text: str) -> str:
    """Escape what LaTeX would read as something else; a minus becomes a real one."""
    return "".join(
        "$-$" if sign == "-" and text[i + 1 : i + 2].isdigit() else _LATEX.get(sign, sign)
        for i, sign in enumerate(text)
    )


_COLUMNS = (
    *("model", "remove", "unit", "seed", "method", "metric", "kind", "direction"),
    *("mean", "low", "high", "n", "random", "random_low", "random_high"),
    *("gain", "gain_low", "gain_high", "effect", "p", "beats_random", "best"),
    *("seconds", "forward", "backward", "untested"),
)


def tidy(payload: Mapping[str, Any]) -> str:
    """Write one row for each method and metric, all figures in full."""
    costs_of = {one["method"]: one for one in payload["methods"]}
    facts_of = {one["metric"]: one for one in payload["metrics"]}
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    setting = payload["setting"]
    for cell in payload["cells"]:
        fact, own = facts_of[cell["metric"]], costs_of[cell["method"]]
        writer.writerow(
            [
                *(payload["model"]["name"], setting["remove"], setting["unit"], setting["seed"]),
                *(cell["method"], cell["metric"], fact["kind"], fact["direction"]),
                *(cell[name] for name in ("mean", "low", "high", "n")),
                *_ends(cell["null"]),
                *_ends(cell["gain"]),
                *(cell[name] for name in ("effect", "p", "beats_random", "best")),
                *(_ends(own[what])[0] for what in ("seconds", "forward", "backward")),
                sum(row["count"] for row in cell["why_not"]),
            ]
        )
    return stream.getvalue()


def _ends(one: Mapping[str, Any] | None) -> list[Any]:
    return [None, None, None] if one is None else [one[name] for name in ("mean", "low", "high")]
