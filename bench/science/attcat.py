"""AttCAT's own protocol (Qiang et al. 2022): AOPC and LOdds of every method, on SST-2 and on movie reviews.

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

from bench.science.attcat_page import PAGE, markdown
from bench.science.many import Job, askers, ordered, presets, readers, run
from bench.science.options import RESULTS, parser
from bench.science.rows import evaluated, read, rounded, sha256

from whence.core.io import write_text
from whence.data.sets.examples import Example, examples

WAYS = ("delete", "pad")  # `truncate_words` and `replace_words` of their code
METRICS = ("aopc", "log_odds")


class Task(NamedTuple):
    """A model, its data, and what is too dear there."""

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


def job(name: str, way: str, options: argparse.Namespace) -> Job:
    """Return the protocol with one way of removal."""
    task = TASKS[name]
    return Job(
        f"attcat-{name}-{way}",
        str(options.shared / task.model),
        {
            **dict.fromkeys(readers(task.without)),
            **dict.fromkeys(askers(task.without), task.asked),
        },
        METRICS,
        params=presets("attcat"),
        metric_params={metric: {"preset": "attcat"} for metric in METRICS},
        remove=way,
        target="gold",
        at_a_time=task.at_a_time,
        device=options.device,
    )


def gathered(name: str, given: Sequence[Example], options: argparse.Namespace) -> dict[str, Any]:
    """Make one result of the rows of both ways."""
    found: dict[str, Any] = {}
    for way in WAYS:
        own = job(name, way, options)
        file = options.rows / f"{own.name}.jsonl"
        if not file.is_file():
            continue
        table = evaluated(own, given, *read(file))
        for one in ("version", "kind", "pairs", "agreement", "calls"):
            del table[one]
        found[way] = table
    data = options.shared / TASKS[name].data
    found["data"] = {
        "title": TASKS[name].title,
        "file": TASKS[name].data,
        "sha256": sha256([data]),
        "examples": len(given),
        "sample": "the first of an order drawn by seed 0",
    }
    return dict(rounded(found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Make what is named, or both, and write the page."""
    options = parser(__doc__, list(TASKS)).parse_args(arguments)
    if unknown := [name for name in options.names if name not in TASKS]:
        sys.exit(f"no {unknown[0]!r}; there are {', '.join(TASKS)}")
    for name in () if options.page else options.names or TASKS:
        given = ordered(examples(options.shared / TASKS[name].data))[: options.limit]
        for way in () if options.gather else WAYS:
            own = job(name, way, options)
            file = options.rows / f"{own.name}.jsonl"
            run(own, given, file, workers=options.workers, seconds=options.seconds)
        if not options.rows_only:
            found = gathered(name, given, options)
            options.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"
            write_text(options.out / f"attcat-{name}.json", text)
    if options.out == RESULTS and not options.rows_only:
        write_text(PAGE, markdown(kept()))


def kept(folder: Path = RESULTS) -> dict[str, Any]:
    """Read the results that are there."""
    files = {name: folder / f"attcat-{name}.json" for name in TASKS}
    return {
        name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.is_file()
    }


if __name__ == "__main__":
    main()
