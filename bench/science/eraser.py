"""ERASER's protocol (DeYoung et al. 2020): agreement of methods with human rationales on movie reviews.

    python -m bench.science.eraser [--shared DIR] [--device D] [--workers N] [--limit N] [--page]

Two protocols on one data set. ERASER's soft scores: area under precision and recall, token F1, IOU F1 against what
people marked, comprehensiveness and sufficiency with words deleted, for the predicted class. And the curve of Chefer,
Gur & Wolf (2021): token F1 of the k highest words, for the class that people named; where that is the predicted one
the explanation is the same, so that only the others are explained again. Kept as bench/results/eraser-movies.json,
shown in docs/science/eraser.md. What is made is not made again (build/science). From the source: PYTHONPATH=src:.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench.science.eraser_page import PAGE, render_page
from bench.science.job_runner import (
    Job,
    list_query_methods,
    list_readers,
    order_examples,
    run_job,
    select_presets,
)
from bench.science.options import RESULTS, build_parser
from bench.science.rows import Row, build_evaluation, compute_sha256, read_rows, round_numbers

from whence.core.files import write_text
from whence.core.seed import build_generator
from whence.data.dataset import read_dataset
from whence.data.example import Example
from whence.stats.intervals import bootstrap_columns
from whence.studies.evaluation.statistics import interval_to_dict

TITLE = "ERASER movie reviews, test set, cut at 512 tokens"
MODEL, DATA = "models/minilm-movies", "data/eraser_movies/test.jsonl.gz"
RESULT = "eraser-movies.json"
METRICS = ("auprc", "token_f1", "iou_f1", "comprehensiveness", "sufficiency")
WITHOUT = ("random", "max_flow")
ASKED = 30  # documents for methods that ask the model again
TOP = tuple(range(5, 85, 5))  # words
DRAWS = 20  # random orders of the words of a document


def compute_curves(example: Example, made: Sequence[Row]) -> dict[str, Any] | None:
    """Return token F1 of the k highest words against all marked ones, for each explanation and for random orders.

    As Chefer et al. count: words are the data set's, a word gets the highest of its pieces, nothing below zero, and
    what was cut off cannot be found but counts as marked.
    """
    text = example.texts[0]
    words = [len(word) for word in text.split(" ")]
    starts = np.cumsum([0, *(length + 1 for length in words)])[:-1]
    marked = np.zeros(len(words), dtype=bool)
    for span in example.rationale or ():
        marked[(starts < span.end) & (starts + words > span.start)] = True
    if not marked.any():
        return None
    found: dict[str, Any] = {}
    seen = 0
    for row in made:
        if row["error"] is not None:
            continue
        pieces = [
            (at, score)
            for at, score in zip(row["starts"], row["scores"], strict=True)
            if at is not None
        ]
        scores = np.full(len(words), -1.0)  # beyond the cut
        for at, score in pieces:
            place = int(np.searchsorted(starts, at, side="right")) - 1
            scores[place] = max(scores[place], score, 0.0)
        seen = int((scores >= 0).sum())
        found[row["method"]] = _compute_f1(marked, np.argsort(-scores, kind="stable")[:seen])
    draw = build_generator("eraser", "random orders", text)
    drawn = [_compute_f1(marked, draw.permutation(seen)) for _ in range(DRAWS)]
    return {"f1": found, "random": np.mean(drawn, axis=0).tolist()}


def _compute_f1(marked: np.ndarray[Any, Any], order: np.ndarray[Any, Any]) -> list[float]:
    hits = np.cumsum(marked[order])
    found = []
    for k in TOP:
        count = min(k, len(order))
        found.append(float(2 * hits[count - 1] / (count + marked.sum())))
    return found


def build_jobs(options: argparse.Namespace) -> tuple[Job, Job]:
    """Return both protocols; the second is for documents that the model classifies wrongly."""
    methods: dict[str, int | None] = {
        **dict.fromkeys(list_readers(WITHOUT)),
        **dict.fromkeys(list_query_methods(WITHOUT), ASKED),
    }
    shared: dict[str, Any] = {
        "params": select_presets("chefer_bert", "chefer"),
        "remove": "delete",
        "unit": "word",
        "at_a_time": 2,
        "hook": compute_curves,
        "device": options.device,
    }
    model = str(options.shared / MODEL)
    return (
        Job("eraser", model, methods, METRICS, **shared),
        Job("eraser-gold", model, methods, target="gold", only_wrong=True, **shared),
    )


def gather_results(given: Sequence[Example], options: argparse.Namespace) -> dict[str, Any]:
    """Return one result from the rows of both protocols."""
    first, second = build_jobs(options)
    header, lines = read_rows(options.rows / f"{first.name}.jsonl")
    found = build_evaluation(first, given, header, lines)
    for one in ("version", "kind", "pairs", "agreement", "calls"):
        del found[one]
    missed = set(header["wrong"])
    again = options.rows / f"{second.name}.jsonl"
    other = read_rows(again)[1] if again.is_file() else []
    found["curve"] = summarise_curve(
        [one for one in lines if one["number"] not in missed] + other, first
    )
    found["curve"]["anew"] = len({one["number"] for one in other})
    found["right"] = {"of": len(given), "n": len(given) - len(missed)}
    found["data"] = {
        "title": TITLE,
        "file": DATA,
        "sha256": compute_sha256([options.shared / DATA]),
        "examples": len(given),
        "sample": "the first of an order drawn by seed 0",
    }
    return dict(round_numbers(found))


def summarise_curve(lines: Sequence[Row], job: Job) -> dict[str, Any]:
    """Return the mean token F1 with its interval, for each number of words, each method, and random orders."""
    numbers = sorted({line["number"] for line in lines})
    place = {number: at for at, number in enumerate(numbers)}
    names = [*job.methods, "random"]
    table = np.full((len(numbers), len(names), len(TOP)), np.nan)
    for line in lines:
        if line["more"] is None:
            continue
        at = place[line["number"]]
        table[at, -1] = line["more"]["random"]
        for name, own in line["more"]["f1"].items():
            table[at, names.index(name)] = own
    told = bootstrap_columns(table.reshape(len(numbers), -1), ("eraser", "curve"))
    each = {name: told[at * len(TOP) : (at + 1) * len(TOP)] for at, name in enumerate(names)}
    return {
        "words": list(TOP),
        "methods": {name: [interval_to_dict(one) for one in own] for name, own in each.items()},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute the result, and write the page."""
    options = build_parser(__doc__, ["movies"]).parse_args(arguments)
    if not options.page:
        given = order_examples(read_dataset(options.shared / DATA, question_first=True).examples)[
            : options.limit
        ]
        for own in () if options.gather else build_jobs(options):
            file = options.rows / f"{own.name}.jsonl"
            run_job(own, given, file, workers=options.workers, seconds=options.seconds)
        if not options.rows_only:
            options.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(
                gather_results(given, options), ensure_ascii=False, separators=(",", ":")
            )
            write_text(options.out / RESULT, text + "\n")
    if options.out == RESULTS and not options.rows_only:
        write_text(PAGE, render_page(load_results()))


def load_results(folder: Path = RESULTS) -> dict[str, Any]:
    """Return the stored result, or an empty dictionary."""
    file = folder / RESULT
    return dict(json.loads(file.read_text("utf-8"))) if file.is_file() else {}


if __name__ == "__main__":
    main()
