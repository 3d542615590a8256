"""How many examples a second a run explains and tests, beside loops that do the same without it.

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
from whence.data.sets.examples import Example, examples, sample
from whence.evaluation.measures import measures
from whence.evaluation.run import RANKINGS, default_methods
from whence.run.plan import Manner, Plan

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


def readers() -> list[str]:
    """Name all readers but `random`."""
    return default_methods()


def one_method_at_a_time(explainer: Any, texts: Sequence[str]) -> None:
    """Explain each text by each method, and test that explanation."""
    wanted = measures(FAITHFULNESS)
    for text in texts:
        for name in readers():
            for _, trial, _ in explainer.trials([text], method=name):
                for measure in wanted:
                    measure.of(trial)
                    measure.nulls(trial, RANKINGS)


def one_sentence_at_a_time(explainer: Any, texts: Sequence[str]) -> None:
    """Explain each text by all methods at once, and test all explanations of it together."""
    wanted = measures(FAITHFULNESS)
    for text in texts:
        for _, trial, _ in explainer.trials([text], method=readers()):
            for measure in wanted:
                measure.of(trial)
                measure.nulls(trial, RANKINGS)


def evaluated(explainer: Any, given: Sequence[Example]) -> None:
    """Let `whence.evaluate` do it."""
    whence.evaluate(explainer, list(given), readers(), list(FAITHFULNESS))


def ran(data: Path, manner: Manner) -> None:
    """Let a run do it, into a folder of its own."""
    from whence.run.run import run  # here: where no pyarrow is, the rest works

    plan = Plan(str(MODEL), str(data), methods=tuple(readers()), metrics=FAITHFULNESS)
    with tempfile.TemporaryDirectory() as out:
        run(plan, Path(out) / "run", manner)


def cases(options: argparse.Namespace, here: Path) -> dict[str, tuple[int, Callable[[], None]]]:
    """Return what is timed, by name, and on how many sentences."""
    given = sample(examples(DATA), options.sentences, SEED)
    data = here / "sentences.jsonl"
    data.write_text(
        "".join(json.dumps({"text": one.given, "label": one.label}) + "\n" for one in given)
    )
    texts = [one.texts[0] for one in given]
    few = min(options.few, len(texts))
    fewer = here / "few.jsonl"
    fewer.write_text("".join(data.read_text().splitlines(keepends=True)[:few]))
    explainer = whence.load(MODEL)
    # What is imported and found out once is not counted.
    one_sentence_at_a_time(explainer, texts[:1])
    import_module("whence.run.run")
    every: dict[str, tuple[int, Callable[[], None]]] = {
        "run, in-process": (len(texts), lambda: ran(data, Manner())),
        "run over a few, in-process": (few, lambda: ran(fewer, Manner())),
        "run, processes": (len(texts), lambda: ran(data, Manner(backend="processes", workers=2))),
        "evaluate": (len(texts), lambda: evaluated(explainer, given)),
        "loop, one sentence at a time": (
            len(texts),
            lambda: one_sentence_at_a_time(explainer, texts),
        ),
        f"{FEW}one sentence at a time": (
            few,
            lambda: one_sentence_at_a_time(explainer, texts[:few]),
        ),
        f"{FEW}one method at a time": (few, lambda: one_method_at_a_time(explainer, texts[:few])),
    }
    return {name: every[name] for name in options.only.split(";")} if options.only else every


def busy() -> float:
    """Return the processor's seconds so far, of this process and of those it waited for."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def summed_up(log: Log, about: dict[str, Any]) -> None:
    """Add, for each case, what its repeats come to."""
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
    """Measure, and keep one row for each case and repeat, then those that sum up. Ctrl-C leaves the rest out."""
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
        "methods": len(readers()),
        "metrics": len(FAITHFULNESS),
    }
    about["threads"] = options.threads
    with tempfile.TemporaryDirectory() as here, log.named("throughput"):
        every = cases(options, Path(here))
        with suppress(KeyboardInterrupt):
            for repeat in range(options.repeats):
                for name, (count, case) in every.items():
                    if repeat and name == f"{FEW}one method at a time":
                        continue  # it takes as long as all others together
                    clock, work = time.perf_counter(), busy()
                    case()
                    took = {"seconds": time.perf_counter() - clock, "busy": busy() - work}
                    log.add(name, **about, sentences=count, repeat=repeat, **took)
        summed_up(log, about)


if __name__ == "__main__":
    main()
