"""Benchmark of a run's worker on a GPU: documents a second, bare passes, several workers, a whole data set.

    PYTHONPATH=src:. python -m bench.run.gpu [--out DIR] [--device D] [--seconds S] [--tiny] [--sst2 MODEL DATA]

It runs from source with torch, transformers and Triton alone. The model has BERT-base's shape and random weights; the
documents are random words, all of one length, and come in chunks as a run cuts them. Timed is `Worker.do`: from texts
to rows, tokenizing and all, after a warm-up. Beside it stand the bare forward and backward of the same chunk, and the
same documents in chunks that are larger. Each row is written as it is measured.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from bench.run.shared_device import run_together
from bench.run.synthetic import generate_documents, save_model
from bench.run.throughput import (
    FAITHFULNESS,
    explain_method_by_method,
    explain_sentence_by_sentence,
    list_readers,
)
from bench.speed.measuring import Clock, Log
from bench.speed.random_models import build_bare_pass

from whence.runs import chunks
from whence.runs.plan import Execution, Plan
from whence.runs.task import Task, TaskResult
from whence.runs.worker import Worker

ONE = ("attcat",)
FIVE = ("attcat", "generic_attention", "rollout", "grad_x_input", "attn_lrp")
TESTS = ("comprehensiveness", "sufficiency")
WORK = {
    "1 method": Plan("", "", methods=ONE),
    "5 methods": Plan("", "", methods=FIVE),
    "1 method, 2 metrics": Plan("", "", methods=ONE, metrics=TESTS),
    "5 methods, 2 metrics": Plan("", "", methods=FIVE, metrics=TESTS),
}
LENGTHS = (128, 512)
WORKERS = (1, 2, 4, 8)  # on one device
LOOPED = 48  # sentences of the loop beside it
LARGER = 4  # times as many documents in a chunk


def main() -> None:
    """Measure all sections, one row after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="the folder for run-gpu.jsonl")
    parser.add_argument("--device", help="the first CUDA device, or the CPU where there is none")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each case")
    parser.add_argument("--only", default="rates,sharing", help="one of the two")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds for all of it")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument(
        "--sst2", nargs=2, metavar=("MODEL", "DATA"), help="the data set as a whole, too"
    )
    options = parser.parse_args()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    log = Log(None if options.out is None else options.out / "run-gpu.jsonl")
    clock = Clock(torch.device(device), deadline=time.monotonic() + options.limit)
    with tempfile.TemporaryDirectory() as here:
        shape = {"layers": 2, "width": 64, "heads": 2} if options.tiny else {}
        model = save_model(Path(here) / "bert", **shape)
        for dtype in ("float32",) if device == "cpu" else ("float32", "bfloat16"):
            if "rates" in options.only:
                _run_section(
                    log,
                    "rates",
                    lambda dtype=dtype: _measure_rates(log, clock, model, dtype, options),
                )
        if "sharing" in options.only:
            _run_section(log, "sharing", lambda: _measure_sharing(log, clock, model, options))
    if options.sst2:
        _run_section(
            log, "sst2", lambda: _measure_whole_set(log, clock, *options.sst2, options.tiny)
        )


def _run_section(log: Log, name: str, work: Callable[[], None]) -> None:
    """Run a section; a failure becomes a row, and the rest goes on."""
    started = time.monotonic()
    with log.open_section(name):
        try:
            work()
        except Exception as error:  # what cannot be measured is a row that says why
            told = (str(error).splitlines() or [""])[0][:300]
            log.add("section", error=f"{type(error).__name__}: {told}")
        log.add("section", took=time.monotonic() - started)


def _measure_rates(
    log: Log, clock: Clock, model: Path, dtype: str, options: argparse.Namespace
) -> None:
    for name, work in WORK.items():
        for times in (1, LARGER) if name == "1 method" else (1,):
            manner = Execution(device=str(clock.device), batch_size=64 * times)
            worker = Worker(replace(work, model=str(model), dtype=dtype), manner)
            for tokens in _get_lengths(options):
                about = {"tokens": tokens, "dtype": dtype, "larger": times}
                if clock.left < 0:
                    log.add(name, **about, error="not measured: no time was left")
                    continue
                tasks = _build_tasks(work.methods, tokens, times)
                if name == "1 method":
                    _measure_floor(log, clock, worker, tasks[0], about)
                _measure_rate(log, clock, worker, tasks, name, about, options.seconds)
            del worker
            clock.clear()


def _get_lengths(options: argparse.Namespace) -> tuple[int, ...]:
    return (16, 32) if options.tiny else LENGTHS


def _measure_rate(
    log: Log, clock: Clock, worker: Worker, tasks: Sequence[Task], name: str, about: dict[str, Any], limit: float
) -> None:  # fmt: skip
    """Do tasks for some seconds, and log the documents a second, task by task."""
    done = worker.do(tasks[0])
    if clock.cuda:
        clock.clear()
        torch.cuda.reset_peak_memory_stats(clock.device)
    rates, count, started = list[float](), 0, time.perf_counter()
    for task in cycle(tasks):
        clock.settle()
        before = time.perf_counter()
        done = worker.do(task)
        clock.settle()
        rates.append(len(task.items) / (time.perf_counter() - before))
        count += len(task.items)
        if time.perf_counter() - started > limit:
            break
    taken = time.perf_counter() - started
    told: dict[str, Any] = {"failed": _count_failed(done)}
    if clock.cuda:
        told["peak"] = torch.cuda.max_memory_allocated(clock.device)
    middle = statistics.quantiles(rates, n=4) if len(rates) > 1 else [rates[0]] * 3
    log.add(
        name,
        **about,
        rate=count / taken,
        low=middle[0],
        high=middle[2],
        documents=count,
        chunks=len(rates),
        chunk=len(tasks[0].items),
        rows=sum(table.num_rows for table in done.tables.values()) / len(tasks[0].items),
        **told,
        **_measure_bytes(done),
    )


def _measure_floor(
    log: Log, clock: Clock, worker: Worker, task: Task, about: dict[str, Any]
) -> None:
    """Time the bare forward and backward of a chunk, from ids, in one batch."""
    explainer = worker.explainer
    texts = [item.example.texts[0] for item in task.items]
    encoded = explainer.tokenizer(texts)
    given = {name: encoded[name] for name in ("input_ids", "attention_mask")}
    timed = clock.measure_medians({"bare": build_bare_pass(explainer.model, given)}, share=2.0)[
        "bare"
    ]
    rate = {
        "rate": len(texts) / timed.seconds,
        "low": len(texts) / timed.high,
        "high": len(texts) / timed.low,
    }
    log.add("bare forward + backward", **about, **rate, chunks=timed.n, chunk=len(texts))


def _build_tasks(methods: tuple[str, ...], tokens: int, times: int) -> list[Task]:
    """Return the chunks of a window as a run cuts them, or `times` as large, without the last partial one."""
    before = chunks.CHUNK_EXAMPLES, chunks.CHUNK_CHARACTERS
    chunks.CHUNK_EXAMPLES, chunks.CHUNK_CHARACTERS = before[0] * times, before[1] * times
    try:
        (window,) = chunks.iterate_windows(generate_documents(chunks.WINDOW_EXAMPLES, tokens))
    finally:
        chunks.CHUNK_EXAMPLES, chunks.CHUNK_CHARACTERS = before
    return [Task(0, number, items, methods) for number, items in enumerate(window.chunks[:-1])]


def _measure_sharing(log: Log, clock: Clock, model: Path, options: argparse.Namespace) -> None:
    """Measure the rate of several workers on one device."""
    dtype = "float32" if clock.device.type == "cpu" else "bfloat16"
    cases = [
        (name, tokens)
        for name in ("1 method", "5 methods, 2 metrics")
        for tokens in _get_lengths(options)
    ]
    jobs = []
    for name, tokens in cases:
        work = WORK[name]
        jobs.append(
            (replace(work, model=str(model), dtype=dtype), _build_tasks(work.methods, tokens, 1))
        )
    for workers in (1, 2) if options.tiny else WORKERS:
        if clock.left < len(jobs) * options.seconds + 40:
            log.add(
                "workers on one device", workers=workers, error="not measured: no time was left"
            )
            continue
        found = run_together(jobs, workers, str(clock.device), options.seconds)
        for (name, tokens), rates in zip(cases, found, strict=True):
            about = {"tokens": tokens, "dtype": dtype, "workers": workers}
            log.add(f"{name}, workers on one device", **about, rate=sum(rates), each=rates)


def _count_failed(done: TaskResult) -> int:
    return sum(t.num_rows - t["error"].null_count for t in done.tables.values())


def _measure_bytes(done: TaskResult) -> dict[str, float]:
    """Return the bytes of a row of each table, as sent and as held until its window is complete."""
    found = {}
    for table in ("explanations", "metrics"):
        rows = done.tables[table].to_pylist()
        if rows:
            found[f"bytes_sent_{table}"] = sum(len(json.dumps(row)) for row in rows) / len(rows)
    return found


def _measure_whole_set(log: Log, clock: Clock, model: str, data: str, tiny: bool) -> None:
    """Explain and test a whole data set: all trace methods, all metrics of faithfulness."""
    from whence.data.dataset import DatasetRow, open_dataset

    plan = Plan(model, data, methods=tuple(list_readers()), metrics=FAITHFULNESS)
    worker = Worker(plan, Execution(device=str(clock.device)))
    rates: list[float] = []
    examples, failed, started = 0, 0, None
    for window in chunks.iterate_windows(open_dataset(data), tested=True):
        for number, items in enumerate(window.chunks):
            task = Task(window.number, number, items[:2] if tiny else items, plan.methods)
            if started is None:
                worker.do(replace(task, items=task.items[:2]))  # a warm-up
                started = time.perf_counter()
            if clock.left < 0 or (tiny and rates):
                break
            before = time.perf_counter()
            done = worker.do(task)
            rates.append(len(task.items) / (time.perf_counter() - before))
            examples += len(task.items)
            failed += _count_failed(done)
    if started is None:
        return
    taken = time.perf_counter() - started
    log.add(
        "SST-2 dev, all readers, all metrics of faithfulness",
        model=Path(model).name,
        methods=len(plan.methods),
        metrics=len(plan.metrics),
        examples=examples,
        chunks=len(rates),
        seconds=taken,
        rate=examples / taken,
        slowest=min(rates),
        fastest=max(rates),
        failed=failed,
    )
    texts = [one.example.texts[0] for one in open_dataset(data) if isinstance(one, DatasetRow)]
    drawn = [texts[place] for place in range(0, len(texts), max(1, len(texts) // LOOPED))]
    for name, loop, count in (
        ("one sentence at a time", explain_sentence_by_sentence, LOOPED),
        ("one method at a time", explain_method_by_method, LOOPED // 8),
    ):
        some = drawn[: 2 if tiny else count]
        loop(worker.explainer, some[:1])  # a warm-up
        before = time.perf_counter()
        loop(worker.explainer, some)
        taken = time.perf_counter() - before
        log.add(f"loop, {name}", examples=len(some), seconds=taken, rate=len(some) / taken)


if __name__ == "__main__":
    main()
