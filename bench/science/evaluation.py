"""Evaluation of all methods by all metrics, on SST-2 and movie reviews: computed in parts, merged, stored.

    python -m bench.science.evaluation [sst2] [movies] [--shared DIR] [--device D] [--workers N] [--limit N]

A table has two parts, because a method that asks the model a thousand times cannot also be made anew 26 times on as
many examples; what is left out is named in the result, with the reason. Examples come in an order drawn by the seed.
Kept as bench/results/table-NAME.json, which `Evaluation.load` reads, and shown in docs/science/evaluation.md by
`make docs`. What is made is not made again (build/science). Runs from the source: PYTHONPATH=src:.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.science.job_runner import Job, order_examples, run_job
from bench.science.options import build_parser
from bench.science.rows import Facts, build_evaluation, compute_sha256, read_rows

from whence.core.files import write_text
from whence.data.dataset import read_dataset
from whence.data.example import Example
from whence.methods import method
from whence.studies.evaluation.evaluation import Evaluation

FAITHFULNESS = (
    *("comprehensiveness", "sufficiency", "deletion", "insertion", "aopc", "log_odds"),
    *("loo_correlation", "infidelity"),
)
PLAUSIBILITY = ("precision_at_k", "token_f1", "iou_f1", "auprc")
AGREEMENT = ("tau_b", "spearman", "pearson", "top_k_overlap")
AXIOMS = ("completeness", "conservation")
ANEW = ("sensitivity", "consistency", "class_sensitivity", "randomisation")
# 10 draws of noise, 5 of dropout, padded, in a batch, the other class, and 8 stages of random weights.
OFTEN = "made anew 26 times for each example, it would ask the model {} times"


@dataclass(frozen=True)
class Part:
    """Some metrics, for some methods, on some number of examples."""

    name: str
    metrics: tuple[str, ...]
    n: int
    left_out: Mapping[str, str] = field(default_factory=dict)  # method: why


@dataclass(frozen=True)
class Table:
    """A model, its data set and the parts of the table."""

    title: str
    model: str
    data: str
    at_a_time: int  # examples that are explained together, at most
    parts: tuple[Part, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # metric: why


SAMPLERS = {"kernel_shap": OFTEN.format("53,000"), "lime": OFTEN.format("26,000")}
LEAVERS = {name: OFTEN.format("13,000") for name in ("leave_one_out", "occlusion")}
WALKERS = {
    "integrated_gradients": OFTEN.format("1,350") + ", forward and backward",
    "gradient_shap": OFTEN.format("1,350") + ", forward and backward",
    "smoothgrad": OFTEN.format("675") + ", forward and backward",
}
ZEROED = {
    "value_zeroing": "made anew 26 times for each example, it would run layers 80,000 times on a text of 512 tokens"
}
FLOWS = {"max_flow": "n maximum flows take more than a minute of a CPU for a text of 512 tokens"}
TABLES = {
    "sst2": Table(
        "SST-2, development set",
        "models/minilm-sst2",
        "data/sst2_glue/dev.tsv",
        16,
        (
            Part("as they are", (*FAITHFULNESS, "flip", *AXIOMS, *AGREEMENT), 300),
            Part("made anew", ANEW, 100, SAMPLERS),
        ),
    ),
    "movies": Table(
        "ERASER movie reviews, test set, cut at 512 tokens",
        "models/minilm-movies",
        "data/eraser_movies/test.jsonl.gz",
        2,
        (
            Part("as they are", (*FAITHFULNESS, *PLAUSIBILITY, *AXIOMS, *AGREEMENT), 100, FLOWS),
            Part(
                "made anew",
                ANEW,
                50,
                {**SAMPLERS, **LEAVERS, **WALKERS, **FLOWS, **ZEROED},
            ),
        ),
        {
            "flip": "it removes token after token until the prediction flips, which takes up to 510 forward passes "
            "for each ranking, and 17,000 for each example"
        },
    ),
}


def build_job(name: str, part: Part, options: argparse.Namespace) -> Job:
    """Return one part of a table as a protocol."""
    table = TABLES[name]
    return Job(
        f"table-{name}-{part.name.replace(' ', '-')}",
        str(options.shared / table.model),
        {one: None for one in method.names() if one not in part.left_out},
        tuple(one for one in part.metrics if one not in AGREEMENT),
        agreement=tuple(one for one in part.metrics if one in AGREEMENT),
        at_a_time=table.at_a_time,
        device=options.device,
    )


def build_blank_cell(name: str, of: str, why: str, n: int) -> dict[str, Any]:
    """Return the cell of a method or metric that was left out."""
    return {
        **{"method": name, "metric": of, "mean": None, "low": None, "high": None, "n": 0},
        **dict.fromkeys(("null", "gain", "effect", "p")),
        **{"beats_random": False, "best": False},
        "why_not": [{"why": f"left out: {why}", "count": n, "examples": []}],
    }


def merge_parts(found: Sequence[tuple[Part, dict[str, Any]]]) -> dict[str, Any]:
    """Merge the parts into one evaluation: each metric is in one of them."""
    (_, first), *_ = found
    methods = [one["method"] for one in first["methods"]]
    cells = []
    for part, payload in found:
        known = {(cell["method"], cell["metric"]): cell for cell in payload["cells"]}
        for one in payload["metrics"]:
            for name in methods:
                why = part.left_out.get(name, "it was not asked for")
                instead = build_blank_cell(name, one["metric"], why, payload["examples"]["given"])
                cells.append(known.get((name, one["metric"]), instead))
    payloads = [payload for _, payload in found]
    return {
        **first,
        "metrics": [one for payload in payloads for one in payload["metrics"]],
        "cells": cells,
        "pairs": [pair for payload in payloads for pair in payload["pairs"]],
        "seconds": sum(payload["seconds"] for payload in payloads),
        "parts": [
            {
                "part": part.name,
                "metrics": [one["metric"] for one in payload["metrics"]],
                "examples": payload["examples"]["given"],
                "left_out": dict(part.left_out),
                "seconds": payload["seconds"],
            }
            for part, payload in found
        ],
    }


def gather_results(
    name: str, given: Sequence[Example], options: argparse.Namespace
) -> dict[str, Any]:
    """Return the table from the rows of its parts."""
    table = TABLES[name]
    found: list[tuple[Part, dict[str, Any]]] = []
    for part in table.parts:
        own = build_job(name, part, options)
        file = options.rows / f"{own.name}.jsonl"
        if file.is_file():
            found.append((part, build_evaluation(own, given, *read_rows(file))))
    data: Facts = {
        "title": table.title,
        "file": table.data,
        "sha256": compute_sha256([options.shared / table.data]),
        "examples": len(given),
        "sample": "the first of an order drawn by seed 0",
    }
    payload = {**merge_parts(found), "left_out": dict(table.left_out), "data": data}
    return Evaluation.from_dict(payload).to_dict()


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute the named tables, or both."""
    options = build_parser(__doc__, list(TABLES)).parse_args(arguments)
    if unknown := [name for name in options.names if name not in TABLES]:
        sys.exit(f"no {unknown[0]!r}; there are {', '.join(TABLES)}")
    for name in () if options.page else options.names or TABLES:
        table = TABLES[name]
        given = order_examples(
            read_dataset(options.shared / table.data, question_first=True).examples
        )
        for part in () if options.gather else table.parts:
            own = build_job(name, part, options)
            some = given[: min(part.n, options.limit or part.n)]
            file = options.rows / f"{own.name}.jsonl"
            run_job(own, some, file, workers=options.workers, seconds=options.seconds)
        if not options.rows_only:
            text = json.dumps(
                gather_results(name, given, options), ensure_ascii=False, separators=(",", ":")
            )
            write_text(Path(options.out) / f"table-{name}.json", text + "\n")


if __name__ == "__main__":
    main()
