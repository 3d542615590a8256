"""Tables and drawings of docs/science/evaluation.md, from the results of bench.science.evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

from whence.render.document import Cell, to_cell
from whence.studies.evaluation.evaluation import Evaluation
from whence.studies.evaluation.report import (
    BEST_MARK,
    CHANCE_MARK,
    CHANCE_ROW,
    COST_HEADS,
    TABLE_LEGEND,
    build_cost_rows,
    build_metric_tables,
    list_evaluation_cost,
    list_evaluation_notes,
    list_method_agreement,
)

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results"
NAMES = ("sst2", "movies")
LEFT_OUT = "left out: "  # as bench.science.evaluation begins the reason
# One panel for each kind of question; one chart of all metrics would be too large to read.
DRAWN = (
    *("comprehensiveness", "sufficiency", "loo_correlation", "auprc"),
    *("sensitivity", "class_sensitivity", "randomisation"),
)
_ACROSS = 5


def render_section(name: str) -> str:
    """Return the section of the page on one table."""
    found = _load_result(name)
    if found is None:
        return f"*Not computed yet: run `python -m bench.science.evaluation {name}`.*"
    return "\n\n".join(
        [
            _format_headline(found),
            f"![Means with their intervals, a panel for each metric](evaluation-{name}.svg)",
            *_format_tables(found),
            " ".join(line.format(best="Bold", chance="°") for line in TABLE_LEGEND),
            _format_table(
                [COST_HEADS, *((f"`{who}`", *facts) for who, *facts in build_cost_rows(found))]
            ),
            _format_list(
                [
                    *_format_left_out(found),
                    *(f"Agreement by {line}." for line in list_method_agreement(found)),
                ]
            ),
            _format_list(
                [*list_evaluation_notes(_drop_left_out(found)), *list_evaluation_cost(found)]
            ),
            _format_provenance(name, found),
        ]
    )


def render_drawing(name: str) -> str | None:
    """Return the drawing of one table in SVG; None as long as there are no results."""
    found = _load_result(name)
    if found is None:
        return None
    chosen = [one for wanted in DRAWN for one in found["metrics"] if one["metric"] == wanted]
    return Evaluation({**found, "metrics": chosen}).plot()


def _load_result(name: str) -> dict[str, Any] | None:
    file = RESULTS / f"table-{name}.json"
    if not file.is_file():
        return None
    return Evaluation.from_dict(json.loads(file.read_text(encoding="utf-8"))).to_dict()


def _format_headline(found: Mapping[str, Any]) -> str:
    parts = [
        f"{', '.join(f'`{metric}`' for metric in part['metrics'])} on {part['examples']} examples"
        for part in found["parts"]
    ]
    setting = found["setting"]
    return (
        f"`{found['model']['name']}` on {found['data']['title']} ({found['data']['examples']} examples): "
        f"{'; '.join(parts)}. Tokens are removed by {setting['remove']}, {setting['unit']} by {setting['unit']}; "
        f"each example has {setting['rankings']} random explanations beside it. Read down a column: a figure with ° "
        "says no more than chance does, and one that is not bold is worse than the best by more than chance."
    )


def _format_tables(found: Mapping[str, Any]) -> list[str]:
    tables = []
    for table in build_metric_tables(found):
        columns = len(table.heads) - 1
        pieces = -(-columns // _ACROSS)  # of nearly equal size
        ends = [1 + -(-columns * piece // pieces) for piece in range(pieces + 1)]
        *rows, chance = table.rows
        grid = [[to_cell(cell) for cell in row] for row in (table.heads, chance, *rows)]
        for places in starmap(range, pairwise(ends)):
            (kind, *heads), *body = [[row[0], *(row[at] for at in places)] for row in grid]
            names = [f"{head.text}<br>{head.note}".removesuffix("<br>") for head in heads]
            lines = [(_format_name(who.text), *map(_format_cell, cells)) for who, *cells in body]
            tables.append(_format_table([(kind.text, *names), *lines]))
    return tables


def _format_name(who: str) -> str:
    return f"*{who}*" if who == CHANCE_ROW else f"`{who}`"


def _format_cell(cell: Cell) -> str:
    """Return a figure above its interval and that of chance; the best is bold, which they mark by a star."""
    own = cell.text.removesuffix(f" {CHANCE_MARK}")
    text = own.removesuffix(f" {BEST_MARK}")
    if cell.note:
        text += f"<br>{cell.note.strip('()')}"
    text = text.replace(" [", "<br>[")
    return (f"**{text}**" if own.endswith(BEST_MARK) else text) + cell.text.removeprefix(own)


def _format_table(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def _format_list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _format_left_out(found: Mapping[str, Any]) -> list[str]:
    lines = [f"Left out, `{metric}`: {why}." for metric, why in found["left_out"].items()]
    for part in found["parts"]:
        reasons: dict[str, list[str]] = {}
        for method, why in part["left_out"].items():
            reasons.setdefault(why, []).append(f"`{method}`")
        metrics = ", ".join(f"`{metric}`" for metric in part["metrics"])
        lines += [
            f"Left out, {', '.join(methods)} from {metrics}: {why}."
            for why, methods in reasons.items()
        ]
    return lines


def _drop_left_out(found: Mapping[str, Any]) -> dict[str, Any]:
    cells = [
        {**cell, "why_not": [r for r in cell["why_not"] if not r["why"].startswith(LEFT_OUT)]}
        for cell in found["cells"]
    ]
    return {**found, "cells": cells}


def _format_provenance(name: str, found: Mapping[str, Any]) -> str:
    made, data, model = found["provenance"], found["data"], found["model"]
    # Those without a commit were made before there was one command for all tables.
    earlier = "" if "commit" in made else "an earlier form of "
    return (
        f"Made by {earlier}`python -m bench.science.evaluation {name}`, seed {found['setting']['seed']}, with whence "
        f"{made['whence']} (source {made['source']}), torch {made['torch']}, transformers {made['transformers']}, "
        f"numpy {made['numpy']}, {made['dtype']} on {made['device']} ({made['machine']}). "
        f"Model {model['fingerprint']}; data `{data['file']}`, SHA-256 {data['sha256']}, {data['sample']}. "
        f"All figures in full: `bench/results/table-{name}.json`."
        + (f" Amended {made['amended']}." if "amended" in made else "")
    )
