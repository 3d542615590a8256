"""Audits of attention in two fine-tuned Transformers by Jain & Wallace's measures; results, page written.

    python -m bench.science.transformers [sst2] [movies] [--shared DIR] [--device D] [--site SITE] [--limit N]
        [--out DIR] [--page]

Each audit is kept as bench/results/audit-NAME.json, without the texts of the examples; --page audits nothing and only
writes docs/science/transformers.md from what is there. Runs from the source: PYTHONPATH=src:.
"""

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

import whence
from whence.core.files import write_text
from whence.explain.explainer import Explainer

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WHENCE_SHARED", ROOT.parent / "shared"))
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "science" / "transformers.md"
INTRO = """# The same for Transformers

The experiments of [Jain & Wallace](jain_wallace.md) on fine-tuned Transformers: attention of the last layer, in the
row that the prediction reads, over the tokens of the text (what special tokens get stays as it is). Leave-one-out
puts the mask token in the place of a token. Written by `make science` from `bench/results/audit-*.json`.
"""


class Task(NamedTuple):
    """A model and its data."""

    title: str
    model: str
    data: str


TASKS = {
    "sst2": Task("SST-2, development set", "models/minilm-sst2", "data/sst2_glue/dev.tsv"),
    "movies": Task(
        "ERASER movie reviews, test set, cut at 512 tokens",
        "models/minilm-movies",
        "data/eraser_movies/test.jsonl.gz",
    ),
}


def run_audit(task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """Audit a task; texts and local folders, which may not be published, are dropped from the result."""
    # The checkpoints are in half precision.
    loaded = whence.load(options.shared / task.model, device=options.device, dtype="float32").loaded
    explainer = Explainer(replace(loaded, name=Path(task.model).name))
    started, said = time.monotonic(), 0.0

    def report_progress(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic() - started
        if now - said > 20:
            said = now
            print(f"{now:5.0f} s  {done / max(total, 1):4.0%}", flush=True)

    found = whence.audit(
        explainer,
        options.shared / task.data,
        site=options.site,
        limit=options.limit,
        progress=report_progress,
    ).to_dict()
    for one in found["experiments"]:
        one["plots"] = [plot for plot in one["plots"] if plot["kind"] != "attention"]
    found["data"] = {
        **found["data"],
        "name": task.data,
        "title": task.title,
        "sha256": hashlib.sha256((options.shared / task.data).read_bytes()).hexdigest(),
    }
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    found["provenance"] = {**found["provenance"], "machine": f"{on}, {os.cpu_count()} cores"}
    return found


def round_numbers(given: Any) -> Any:
    """Round every number to six digits: the others are rounding of this run, and make the file long."""
    if isinstance(given, float):
        return float(f"{given:.6g}")
    if isinstance(given, Mapping):
        return {key: round_numbers(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [round_numbers(value) for value in given]
    return given


def iterate_figures(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table: measure and value."""
    experiments = {one["name"]: one for one in found["experiments"]}
    performance = found["performance"]
    yield "examples", f"{found['data']['used']:,} of {found['data']['given']:,}"
    yield "accuracy", f"{performance['accuracy']:.3f}"
    yield "F1", f"{performance['f1']:.3f}"
    if "correlation" in experiments:
        for pair in experiments["correlation"]["detail"]["pairs"]:
            name = f"τ({format_method(pair['one'])}, {format_method(pair['other'])})"
            yield name, f"{pair['mean']:.3f} ± {pair['std']:.3f}"
            yield f"{name}, share p ≤ 0.05", f"{pair['significant']:.2f}"
    if "permutation" in experiments:
        yield from iterate_violins(experiments["permutation"], "permutation, median TVD")
    if "adversarial" in experiments:
        one = experiments["adversarial"]
        yield "adversarial JSD, mean", f"{one['effect']:.3f}"
        for row in one["by_class"]:
            yield f"adversarial JSD, mean, {row['class']}", f"{row['effect']:.3f}"
        yield "adversarial JSD, median", f"{one['detail']['median']:.3f}"
        yield "adversarial JSD, share ≥ 0.6", f"{one['detail']['at_least_0.6']:.2f}"


def iterate_violins(one: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """Yield medians by class and by the largest weight, from the quantiles of a violin plot."""
    for plot in one["plots"]:
        for series in plot["series"] if plot["kind"] == "violin" else ():
            for group in series["groups"]:
                if group["n"]:
                    values = sorted(group["quantiles"])
                    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
                    yield (
                        f"{name}, {series['name']}, largest weight {group['name']}",
                        f"{(low + high) / 2:.3f} (n = {group['n']})",
                    )


def format_method(name: str) -> str:
    """Format a method's name in words."""
    return name.replace("leave_one_out", "leave-one-out").replace("_", " ")


def format_number(value: float | None) -> str:
    """Format a number, or a dash."""
    return "–" if value is None else f"{value:.3f}"


def render_page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page: the figures side by side, the verdicts, and the conclusions."""
    if not found:
        return f"{INTRO}\nNo results yet.\n"
    rows = {name: dict(iterate_figures(one)) for name, one in found.items()}
    measures = list(dict.fromkeys(measure for one in rows.values() for measure in one))
    heads = [f"{one['model']['name']}, {one['data']['title']}" for one in found.values()]
    lines = [INTRO, f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for measure in measures:
        lines.append(f"| {measure} | {' | '.join(one.get(measure, '–') for one in rows.values())} |")  # fmt: skip
    for one in found.values():
        lines += ["", f"## {one['model']['name']}, {one['data']['title']}", "", one["conclusion"], ""]  # fmt: skip
        lines += [
            "| experiment | holds if the effect is | effect | interval | n | verdict |",
            "|---|---|---|---|---|---|",
        ]
        for row in one["experiments"]:
            interval = (
                "–" if row["interval"] is None else " to ".join(map(format_number, row["interval"]))
            )
            lines.append(
                f"| {row['name']} | {row['direction']} {row['threshold']:g} | {format_number(row['effect'])} | {interval} "
                f"| {row['n']:,} | {row['verdict']} |"
            )
        open_ = [row for row in one["experiments"] if row["verdict"] == "undecided"]
        lines += (
            ["", *(f"- {row['name']} is undecided: {row['why']}" for row in open_)] if open_ else []
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Audit the named tasks, or both, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TASKS))
    parser.add_argument("--shared", type=Path, default=SHARED, help="the folder of models and data")
    parser.add_argument("--device")
    parser.add_argument("--site", default="last")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="write the page, and audit nothing")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in TASKS]:
        sys.exit(f"no {unknown[0]!r}; there are {', '.join(TASKS)}")
    for name in () if options.page else options.names or TASKS:
        if not (options.shared / TASKS[name].data).is_file():
            sys.exit(f"{TASKS[name].data} is not in {options.shared}; name the folder by --shared")
        found = round_numbers(run_audit(TASKS[name], options))
        options.out.mkdir(parents=True, exist_ok=True)
        file = options.out / f"audit-{name}.json"
        write_text(file, json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")
        print(f"{file.name}: {found['answer']}, {found['seconds']:.0f} s")
    if options.out == RESULTS:
        files = {name: RESULTS / f"audit-{name}.json" for name in TASKS}
        kept = {n: json.loads(f.read_text("utf-8")) for n, f in files.items() if f.is_file()}
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        write_text(PAGE, render_page(kept))


if __name__ == "__main__":
    main()
