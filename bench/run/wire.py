"""Bytes on the network of a cluster, and the CPU time of the driver that handles them.

    PYTHONPATH=src:. python -m bench.run.wire [--json FILE] [--documents N] [--only WORK] [--tokens N ...]

Measured is, for each document: the bytes of a task on its way to a worker and of its result on the way back (pickled,
as both backends send them), the processor's seconds that the process of the run
takes for it (cut the data into chunks, pickle and unpickle, add to the store; the middle one of five runs
over what the worker answered), and the bytes of the store.
None of it depends on the model's size, so the model is a tiny one; documents are random words, as in `bench.run.gpu`.
"""

import argparse
import json
import pickle
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.run.gpu import LENGTHS, WORK
from bench.run.synthetic import generate_documents, save_model
from bench.speed.measuring import ROOT, Log

from whence.data.dataset import open_dataset
from whence.runs.chunks import iterate_windows
from whence.runs.plan import Execution, Plan
from whence.runs.store import Store
from whence.runs.task import Identity, Task, TaskResult
from whence.runs.worker import Worker

TIMES = 5  # that a run is done; its middle one counts
RESULTS = ROOT / "bench" / "results" / "run-wire.jsonl"


def main() -> None:
    """Measure each kind of work at each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--json", type=Path, default=RESULTS, help="the file that rows are added to"
    )
    parser.add_argument("--only", choices=list(WORK), help="one kind of work")
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=LENGTHS, help="lengths of documents"
    )
    parser.add_argument("--documents", type=int, default=256, help="for each case")
    options = parser.parse_args()
    log = Log(options.json)
    with tempfile.TemporaryDirectory() as here, log.open_section("wire"):
        model = save_model(Path(here) / "bert", layers=2, width=64, heads=2)
        for tokens in options.tokens:
            texts = Path(here) / f"{tokens}.jsonl"
            with texts.open("w") as stream:
                for entry in generate_documents(options.documents, tokens):
                    stream.write(json.dumps({"text": entry.example.texts[0]}) + "\n")
            for name, work in WORK.items():
                if options.only not in (None, name):
                    continue
                plan = replace(work, model=str(model), data=str(texts))
                _measure(log, name, tokens, plan, Path(here) / f"{name} {tokens}")


def _measure(log: Log, name: str, tokens: int, plan: Plan, out: Path) -> None:
    worker = Worker(plan, Execution(device="cpu"))
    found = iterate_windows(open_dataset(plan.data), tested=bool(plan.metrics))
    tasks = [
        Task(window.number, number, items, plan.methods)
        for window in found
        for number, items in enumerate(window.chunks)
    ]
    answers = {(one.window, one.chunk): pickle.dumps(worker.do(one)) for one in tasks}
    count = sum(len(one.items) for one in tasks)
    folders = [out / str(number) for number in range(TIMES)]
    seconds = sorted(_measure_driver(plan, worker.identity, answers, one) for one in folders)
    log.add(
        name,
        tokens=tokens,
        documents=count,
        sent=sum(len(pickle.dumps(one)) for one in tasks) / count,
        received=sum(map(len, answers.values())) / count,
        driver=median(seconds) / count,
        low=seconds[0] / count,
        high=seconds[-1] / count,
        times=TIMES,
        stored=sum(one.stat().st_size for one in folders[0].rglob("*.parquet")) / count,
    )


def _measure_driver(
    plan: Plan, identity: Identity, answers: Mapping[tuple[int, int], bytes], out: Path
) -> float:
    """Return the CPU seconds of a run whose workers take no time."""
    data = open_dataset(plan.data)
    out.mkdir(parents=True)
    with Store.open_locked(out) as store:
        store.begin(plan, identity, data.facts())
        started = time.process_time()
        for window in iterate_windows(data, tested=bool(plan.metrics)):
            store.find_results(window)
            for number, items in enumerate(window.chunks):
                pickle.dumps(Task(window.number, number, items, plan.methods))
                done: TaskResult = pickle.loads(answers[window.number, number])  # noqa: S301 - made above
                store.add_result(done)
            store.close_window(window)
        seconds = time.process_time() - started
        store.finish()
    return seconds


if __name__ == "__main__":
    main()
