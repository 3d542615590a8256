"""AttCAT's protocol (Qiang et al. 2022): AOPC and LOdds of every method, on SST-2 and movie reviews.

    python -m bench.science.attcat [sst2] [movies] [--shared DIR] [--device D] [--workers N] [--limit N] [--page]

Their settings, for tests and for methods, are presets of whence (`attcat`). Tokens are removed in both of their ways:
deleted, and replaced by the padding token. Kept as bench/results/attcat-NAME.json, shown in docs/science/attcat.md.
What is made is not made again (build/science). Runs from the source: PYTHONPATH=src:.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.science.attcat_page import PAGE, render_page
from bench.science.job_runner import (
    Job,
    list_query_methods,
    list_readers,
    order_examples,
    run_job,
    select_presets,
)
from bench.science.options import RESULTS, build_parser
from bench.science.rows import build_evaluation, compute_sha256, read_rows, round_numbers

from whence.core.files import write_text
from whence.data.dataset import read_dataset
from whence.data.example import Example

WAYS = ("delete", "pad")  # `truncate_words` and `replace_words` of their code
METRICS = ("aopc", "log_odds")


class Task(NamedTuple):
    """A model, its data, and the methods that are left out for their cost."""

    title: str
    model: str
    data: str
    at_a_time: int
    without: tuple[str, ...]
    asked: int | None  # examples for methods that ask the model again


TASKS = {
    "sst2": Task("SST-2, development set", "models/minilm-sst2", "data/sst2_glue/dev.tsv", 16, ("random",), None),
    "movies": Task(
        "ERASER movie reviews, test set, cut at 512 tokens",
        "models/minilm-movies",
        "data/eraser_movies/test.jsonl.gz",
        4,
        ("random", "max_flow"),
        30,
    ),
}  # fmt: skip


def build_job(name: str, way: str, options: argparse.Namespace) -> Job:
    """Return the protocol with one way of removal."""
    task = TASKS[name]
    return Job(
        f"attcat-{name}-{way}",
        str(options.shared / task.model),
        {
            **dict.fromkeys(list_readers(task.without)),
            **dict.fromkeys(list_query_methods(task.without), task.asked),
        },
        METRICS,
        params=select_presets("attcat"),
        metric_params={metric: {"preset": "attcat"} for metric in METRICS},
        remove=way,
        target="gold",
        at_a_time=task.at_a_time,
        device=options.device,
    )


def gather_results(
    name: str, given: Sequence[Example], options: argparse.Namespace
) -> dict[str, Any]:
    """Return one result from the rows of both ways of removal."""
    found: dict[str, Any] = {}
    for way in WAYS:
        own = build_job(name, way, options)
        file = options.rows / f"{own.name}.jsonl"
        if not file.is_file():
            continue
        table = build_evaluation(own, given, *read_rows(file))
        for one in ("version", "kind", "pairs", "agreement", "calls"):
            del table[one]
        found[way] = table
    data = options.shared / TASKS[name].data
    found["data"] = {
        "title": TASKS[name].title,
        "file": TASKS[name].data,
        "sha256": compute_sha256([data]),
        "examples": len(given),
        "sample": "the first of an order drawn by seed 0",
    }
    return dict(round_numbers(found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named data sets, or both, and write the page."""
    options = build_parser(__doc__, list(TASKS)).parse_args(arguments)
    if unknown := [name for name in options.names if name not in TASKS]:
        sys.exit(f"no {unknown[0]!r}; there are {', '.join(TASKS)}")
    for name in () if options.page else options.names or TASKS:
        given = order_examples(
            read_dataset(options.shared / TASKS[name].data, question_first=True).examples
        )[: options.limit]
        for way in () if options.gather else WAYS:
            own = build_job(name, way, options)
            file = options.rows / f"{own.name}.jsonl"
            run_job(own, given, file, workers=options.workers, seconds=options.seconds)
        if not options.rows_only:
            found = gather_results(name, given, options)
            options.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"
            write_text(options.out / f"attcat-{name}.json", text)
    if options.out == RESULTS and not options.rows_only:
        write_text(PAGE, render_page(load_results()))


def load_results(folder: Path = RESULTS) -> dict[str, Any]:
    """Return the stored results by data set."""
    files = {name: folder / f"attcat-{name}.json" for name in TASKS}
    return {
        name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.is_file()
    }


if __name__ == "__main__":
    main()
