"""The tables and drawings of docs/science/evaluation.md, made from what bench.science.evaluation found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.evaluation import Evaluation
from whence.report.table.grid import (
    CHANCE,
    COSTS,
    LEGEND,
    Cell,
    agreement,
    costs,
    effort,
    grids,
    notes,
)
from whence.report.table.plot import plot

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results"
NAMES = ("sst2", "movies")
LEFT_OUT = "left out: "  # as bench.science.evaluation begins the reason
# One panel for each kind of question; all of them together would fill a wall.
DRAWN = (
    *("comprehensiveness", "sufficiency", "loo_correlation", "auprc"),
    *("sensitivity", "class_sensitivity", "randomisation"),
)
_ACROSS = 5


def markdown(name: str) -> str:
    """Return everything that the page says about one table."""
    found = _result(name)
    if found is None:
        return f"*Not computed yet: run `python -m bench.science.evaluation {name}`.*"
    return "\n\n".join(
        [
            _headline(found),
            f"![Means with their intervals, a panel for each metric](evaluation-{name}.svg)",
            *_tables(found),
            " ".join(line.format(best="Bold", chance="°") for line in LEGEND),
            _table([COSTS, *((f"`{who}`", *facts) for who, *facts in costs(found))]),
            _list([*_left_out(found), *(f"Agreement by {line}." for line in agreement(found))]),
            _list([*notes(_without_left_out(found)), *effort(found)]),
            _provenance(name, found),
        ]
    )


def drawing(name: str) -> str | None:
    """Return the drawing of one table in SVG, if it was computed."""
    found = _result(name)
    if found is None:
        return None
    chosen = [one for wanted in DRAWN for one in found["metrics"] if one["metric"] == wanted]
    return plot({**found, "metrics": chosen})


def _result(name: str) -> dict[str, Any] | None:
    file = RESULTS / f"table-{name}.json"
    if not file.is_file():
        return None
    return Evaluation.from_dict(json.loads(file.read_text(encoding="utf-8"))).to_dict()


def _headline(found: Mapping[str, Any]) -> str:
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


def _tables(found: Mapping[str, Any]) -> list[str]:
    tables = []
    for grid in grids(found, _ACROSS):
        heads = [
            f"{metric} {arrow}{f'<br>{count}' if count else ''}"
            for metric, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
        ]
        *rows, chance = grid.rows
        body = [
            (f"*{who}*" if who == CHANCE else f"`{who}`", *map(_cell, cells))
            for who, cells in (chance, *rows)
        ]
        tables.append(_table([(grid.kind, *heads), *body]))
    return tables


def _cell(cell: Cell) -> str:
    text = cell.text.replace(" [", "<br>[").replace(f", {CHANCE}", f"<br>{CHANCE}")
    return (f"**{text}**" if cell.best else text) + (" °" if cell.chance else "")


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _left_out(found: Mapping[str, Any]) -> list[str]:
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


def _without_left_out(found: Mapping[str, Any]) -> dict[str, Any]:
    cells = [
        {**cell, "why_not": [r for r in cell["why_not"] if not r["why"].startswith(LEFT_OUT)]}
        for cell in found["cells"]
    ]
    return {**found, "cells": cells}


def _provenance(name: str, found: Mapping[str, Any]) -> str:
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
