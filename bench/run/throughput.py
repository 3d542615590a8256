"""Throughput of a run, in examples explained and tested a second, beside loops that do the same.

    PYTHONPATH=src:. python -m bench.run.throughput [--sentences N] [--repeats N] [--threads N] [--json FILE]

SST-2's development set and minilm-sst2: all readers, all metrics of faithfulness, five random rankings. Everything
starts from texts and ends with one value for each sentence, method and metric, and what random rankings get.

  loop, one method at a time   each sentence by each method, then every metric on that one; of a few sentences
  loop, one sentence at a time all methods of a sentence at once, then every metric on all; of these few, too
  evaluate                     `whence.evaluate` on the list, statistics included
  run, in-process              `whence.run` into an empty folder, model loading and estimate included;
                               the few too, so that what it takes once can be told from what a sentence takes
  run, processes               the same with two workers of one thread each

Sentences are drawn by a seed, the same for all; the first loop, which is slow, has the first few of them. Cases run
in turn, all of them again for each repeat. Seconds of the processor, of all processes, stand beside those of the
clock, because machines are shared.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from bench.speed.measuring import ROOT, Log

import whence
from whence.data.dataset import read_dataset
from whence.data.example import Example
from whence.runs.plan import Execution, Plan
from whence.studies.evaluation.evaluate import RANKINGS, list_default_methods
from whence.studies.evaluation.measure import resolve_metrics

SHARED = Path(os.environ.get("WHENCE_SHARED", ROOT.parent / "shared"))
MODEL = SHARED / "models" / "minilm-sst2"
DATA = SHARED / "data" / "sst2_glue" / "dev.tsv"
RESULTS = ROOT / "bench" / "results" / "run-cpu.jsonl"
# Those of a classifier of texts: the others are of pictures, or of answers within a text.
FAITHFULNESS = (
    "aopc", "comprehensiveness", "deletion", "flip", "infidelity", "insertion", "log_odds", "loo_correlation",
    "sufficiency",
)  # fmt: skip
SEED = 0
FEW = "loop over a few, "


def list_readers() -> list[str]:
    """Return the names of all trace methods but `random`."""
    return list_default_methods()


def explain_method_by_method(explainer: Any, texts: Sequence[str]) -> None:
    """Explain each text by each method, and test that explanation."""
    wanted = resolve_metrics(FAITHFULNESS)
    for text in texts:
        for name in list_readers():
            for _, trial, _ in explainer.trials([text], method=name):
                for measure in wanted:
                    measure.run(trial)
                    for null in measure.build_null_trials(trial, RANKINGS):
                        measure.run(null)


def explain_sentence_by_sentence(explainer: Any, texts: Sequence[str]) -> None:
    """Explain each text by all methods at once, and test all explanations of it together."""
    wanted = resolve_metrics(FAITHFULNESS)
    for text in texts:
        for _, trial, _ in explainer.trials([text], method=list_readers()):
            for measure in wanted:
                measure.run(trial)
                for null in measure.build_null_trials(trial, RANKINGS):
                    measure.run(null)


def run_evaluation(explainer: Any, given: Sequence[Example]) -> None:
    """Explain and test all examples by `whence.evaluate`."""
    whence.evaluate(explainer, list(given), list_readers(), list(FAITHFULNESS))


def execute_run(data: Path, manner: Execution) -> None:
    """Explain and test all examples by a run, into a folder of its own."""
    from whence.runs.run import execute_plan  # here: where no pyarrow is, the rest works

    plan = Plan(str(MODEL), str(data), methods=tuple(list_readers()), metrics=FAITHFULNESS)
    with tempfile.TemporaryDirectory() as out:
        execute_plan(plan, Path(out) / "run", manner)


def build_cases(
    options: argparse.Namespace, here: Path
) -> dict[str, tuple[int, Callable[[], None]]]:
    """Return the timed cases by name, with their number of sentences."""
    given = read_dataset(DATA).draw(options.sentences, SEED).examples
    data = here / "sentences.jsonl"
    data.write_text(
        "".join(json.dumps({"text": one.given, "label": one.label}) + "\n" for one in given)
    )
    texts = [one.texts[0] for one in given]
    few = min(options.few, len(texts))
    fewer = here / "few.jsonl"
    fewer.write_text("".join(data.read_text().splitlines(keepends=True)[:few]))
    explainer = whence.load(MODEL)
    # Imports and one-time probes are not timed.
    explain_sentence_by_sentence(explainer, texts[:1])
    import_module("whence.runs.run")
    every: dict[str, tuple[int, Callable[[], None]]] = {
        "run, in-process": (len(texts), lambda: execute_run(data, Execution())),
        "run over a few, in-process": (few, lambda: execute_run(fewer, Execution())),
        "run, processes": (
            len(texts),
            lambda: execute_run(data, Execution(backend="processes", workers=2)),
        ),
        "evaluate": (len(texts), lambda: run_evaluation(explainer, given)),
        "loop, one sentence at a time": (
            len(texts),
            lambda: explain_sentence_by_sentence(explainer, texts),
        ),
        f"{FEW}one sentence at a time": (
            few,
            lambda: explain_sentence_by_sentence(explainer, texts[:few]),
        ),
        f"{FEW}one method at a time": (
            few,
            lambda: explain_method_by_method(explainer, texts[:few]),
        ),
    }
    return {name: every[name] for name in options.only.split(";")} if options.only else every


def measure_busy_time() -> float:
    """Return the CPU seconds so far, of this process and of its finished children."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def add_summaries(log: Log, about: dict[str, Any]) -> None:
    """Log a summary of the repeats of each case."""
    seen: dict[str, list[dict[str, Any]]] = {}
    for row in [one for one in log.rows if "repeat" in one]:
        seen.setdefault(row["what"], []).append(row)
    for name, rows in seen.items():
        by_clock = [row["sentences"] / row["seconds"] for row in rows]
        by_work = [row["sentences"] / row["busy"] for row in rows]
        log.add(
            f"{name}: all repeats", **about, sentences=rows[0]["sentences"], n=len(rows),
            rate=statistics.median(by_clock), low=min(by_clock), high=max(by_clock),
            rate_busy=statistics.median(by_work), low_busy=min(by_work), high_busy=max(by_work),
        )  # fmt: skip


def main() -> None:
    """Measure, and store a row for each case and repeat, then the summaries. Ctrl-C skips the rest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=24)
    parser.add_argument("--few", type=int, default=4, help="sentences of the slowest loop")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="cases, by name; several with ; between them")
    parser.add_argument("--json", type=Path, help="append the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    log = Log(options.json)
    about = {
        "model": MODEL.name,
        "data": "sst2 dev",
        "methods": len(list_readers()),
        "metrics": len(FAITHFULNESS),
    }
    about["threads"] = options.threads
    with tempfile.TemporaryDirectory() as here, log.open_section("throughput"):
        every = build_cases(options, Path(here))
        with suppress(KeyboardInterrupt):
            for repeat in range(options.repeats):
                for name, (count, case) in every.items():
                    if repeat and name == f"{FEW}one method at a time":
                        continue  # it takes as long as all others together
                    clock, work = time.perf_counter(), measure_busy_time()
                    case()
                    took = {
                        "seconds": time.perf_counter() - clock,
                        "busy": measure_busy_time() - work,
                    }
                    log.add(name, **about, sentences=count, repeat=repeat, **took)
        add_summaries(log, about)


if __name__ == "__main__":
    main()
