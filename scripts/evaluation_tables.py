"""Tables and drawings of docs/science/evaluation.md, from the results of bench.science.evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.studies.evaluation.evaluation import Evaluation
from whence.studies.evaluation.report import (
    CHANCE_ROW,
    COST_HEADS,
    TABLE_LEGEND,
    MetricCell,
    build_cost_rows,
    build_metric_tables,
    list_evaluation_cost,
    list_evaluation_notes,
    list_method_agreement,
    render_evaluation_plot,
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
    return render_evaluation_plot({**found, "metrics": chosen})


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
    for grid in build_metric_tables(found, _ACROSS):
        heads = [
            f"{metric} {arrow}{f'<br>{count}' if count else ''}"
            for metric, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
        ]
        *rows, chance = grid.rows
        body = [
            (f"*{who}*" if who == CHANCE_ROW else f"`{who}`", *map(_format_cell, cells))
            for who, cells in (chance, *rows)
        ]
        tables.append(_format_table([(grid.kind, *heads), *body]))
    return tables


def _format_cell(cell: MetricCell) -> str:
    text = cell.text.replace(" [", "<br>[").replace(f", {CHANCE_ROW}", f"<br>{CHANCE_ROW}")
    return (f"**{text}**" if cell.best else text) + (" °" if cell.chance else "")


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
