"""Processes with one worker each on one GPU, and the documents a second of each, for bench.run.gpu."""

import time
from collections.abc import Sequence
from itertools import cycle
from multiprocessing import get_context
from typing import Any

import torch

from whence.runs.plan import Execution, Plan
from whence.runs.task import Task
from whence.runs.worker import Worker

Job = tuple[Plan, list[Task]]
_LONGEST = 120.0  # seconds that all workers may take to be ready


def run_together(
    jobs: Sequence[Job], workers: int, device: str, seconds: float
) -> list[list[float]]:
    """Run several workers on each job at the same time; return the documents a second of each, by job."""
    context = get_context("spawn")
    ready, found = context.Barrier(workers), context.Queue()
    family = [
        context.Process(target=_work, args=(jobs, device, seconds, ready, found), daemon=True)
        for _ in range(workers)
    ]
    for one in family:
        one.start()
    try:
        answers = [found.get(timeout=_LONGEST + len(jobs) * (seconds + 30)) for _ in family]
    finally:
        for one in family:
            one.join(5)
            one.kill()
    return [[answer[place] for answer in answers] for place in range(len(jobs))]


def _work(jobs: Sequence[Job], device: str, seconds: float, ready: Any, found: Any) -> None:
    torch.set_num_threads(1)
    rates = []
    for plan, tasks in jobs:
        worker = Worker(plan, Execution(device=device))
        worker.do(tasks[0])
        ready.wait(_LONGEST)
        count, started = 0, time.perf_counter()
        for task in cycle(tasks):
            worker.do(task)
            count += len(task.items)
            if time.perf_counter() - started > seconds:
                break
        rates.append(count / (time.perf_counter() - started))
        ready.wait(_LONGEST)  # no worker may measure a device that others have left
        del worker
    found.put(rates)
