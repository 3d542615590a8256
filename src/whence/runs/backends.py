"""Backends that run tasks: in this process, or a pool of workers (processes; Ray: ray.py) that replaces dead ones.

A worker process is a `concurrent.futures` executor of one: if it dies, it is known which task it was at. It is a new
interpreter: a fork of a process in which torch has threads may hang. The pool runs in the thread of the consumer of its
results, and takes no more tasks from the data than one at hand and one queued for each worker. The tasks of a dead
worker go to others; a task that kills twice is split into single examples, and an example that kills twice becomes
records with an error.

Cores are divided among the workers, and GPUs are dealt out one to each. Numbers may depend on the number of threads in
the last bits; `OMP_NUM_THREADS`, where set, is what each worker gets.
"""

import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from whence.core.errors import WhenceError, WorkersFailed, is_failure
from whence.runs.plan import Execution, Plan
from whence.runs.task import Identity, Task, TaskResult

if TYPE_CHECKING:
    from whence.runs.worker import Worker


def create_backend(plan: Plan, execution: Execution) -> "Backend":
    """Return the backend of an execution; workers start and load the model only when needed."""
    if execution.backend == "in-process":
        return InProcessBackend(plan, execution)
    if execution.backend == "processes":
        return ProcessPool(plan, execution)
    try:
        from whence.runs.ray import ActorPool
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise WorkersFailed(
            "The backend 'ray' needs another package: pip install 'whence[ray]'."
        ) from None
    return ActorPool(plan, execution)


WorkerFactory = Callable[[Plan, Execution], "Worker"]


def load_worker(plan: Plan, execution: Execution) -> "Worker":
    """Return a worker with the plan's model. The import is local: the pool's process needs no torch."""
    from whence.runs.worker import Worker

    return Worker(plan, execution)


class InProcessBackend:
    """The backend with one worker in this process; loads the model at first use."""

    size = 1

    def __init__(
        self, plan: Plan, execution: Execution, factory: WorkerFactory = load_worker
    ) -> None:
        self._load = partial(factory, plan, execution)

    def __enter__(self) -> "InProcessBackend":
        return self

    def __exit__(self, *error: object) -> None:
        self.__dict__.pop("worker", None)  # releases the model too

    @cached_property
    def worker(self) -> "Worker":
        """The worker, with the model."""
        return self._load()

    @property
    def identity(self) -> Identity:
        """The identity of the model and code."""
        return self.worker.identity

    def map(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Yield the results of tasks, in order."""
        yield from map(self.worker.do, tasks)


# In the process of a worker. Errors are answers: an exception would lose its kind on the way.


class WorkerProgram:
    """A worker as its own process runs it: loads the model once, and answers with results or errors."""

    def __init__(self, factory: WorkerFactory, plan: Plan, execution: Execution) -> None:
        self._load = partial(factory, plan, execution)
        self._worker: Worker | None = None

    def begin(self) -> Identity | WhenceError:
        """Load the model; return its identity, or the error."""
        try:
            self._worker = self._load()
            return self._worker.identity
        except BaseException as error:  # any error is sent to the pool
            return to_whence_error(error)

    def do(self, task: Task) -> TaskResult | WhenceError:
        """Return the result of a task or its error; exit if the GPU is lost, so that the pool restarts."""
        assert self._worker is not None  # loaded by `begin`
        try:
            return self._worker.do(task)
        except BaseException as error:  # any error is sent to the pool
            answer = to_whence_error(error)
            from whence.tracing.out_of_memory import is_device_lost

            if is_device_lost(error):
                traceback.print_exception(error)
                os._exit(WorkersFailed.exit_status)
            return answer


def to_whence_error(error: BaseException) -> WhenceError:
    """Return a WhenceError as it is; wrap another in WorkersFailed with its traceback as a note; raise an interrupt."""
    if not is_failure(error):
        raise error
    if isinstance(error, WhenceError):
        return error
    wrapped = WorkersFailed(
        f"A worker raised {type(error).__name__}: {str(error)[:500] or 'it says nothing more'}. This is a fault of "
        "whence, of the model's code or of a method's; what was done so far is kept, and the same command goes on."
    )
    wrapped.add_note("".join(traceback.format_exception(error)))
    if os.environ.get("WHENCE_DEBUG"):
        traceback.print_exception(error)
    return wrapped


_program: WorkerProgram  # of this process, if it is a worker


def _start_program(*load_args: Any) -> None:
    global _program
    Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # standard output is the run's
    _program = WorkerProgram(*load_args)


def _end_with_parent() -> None:
    """Wait for the run's process to end, however that happens: without this, its workers would stay."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)


def _call_program(step: str, *args: Any) -> Any:
    return getattr(_program, step)(*args)


# In the process of the run.


class WorkerHandle(Protocol):
    """A worker elsewhere: its answers are futures, whose exceptions say that it died."""

    loaded: "Future[Identity | WhenceError]"

    def submit(self, task: Task) -> "Future[TaskResult | WhenceError]":
        """Queue a task."""

    def describe_death(self, error: BaseException) -> str | None:
        """Return why the worker died, from the exception of a future; None if it did not."""

    def kill(self) -> None:
        """Kill the worker at once."""


MAX_TASK_DEATHS = 2  # worker deaths until a task is split, or an example counts as failed


@dataclass(eq=False)
class PoolJob:
    """A task in the pool, with the number of workers that died of it."""

    task: Task
    deaths: int = 0


QUEUE_DEPTH = 2  # tasks of a worker: one at hand, one queued
MAX_FAILED_STARTS = 3  # consecutive failed starts until the pool stops trying
# The run ends after this many deaths plus twice the number of workers without a result in between: enough for a
# chunk with many examples that kill, and few enough that a broken machine is not busy for a day.
MAX_CONSECUTIVE_DEATHS = 64
IDENTITY_FIELDS = ("code", "model", "explained", "tested", "settings")


@dataclass(eq=False)
class _PoolWorker:
    """A worker of the pool, and its jobs with their answers; the first is at hand, the others are queued."""

    handle: WorkerHandle
    ready: bool = False  # whether its model is loaded
    jobs: "deque[tuple[PoolJob, Future[Any]]]" = field(default_factory=deque)

    @property
    def answer(self) -> "Future[Any] | None":
        """The answer that it is working on."""
        if not self.ready:
            return self.handle.loaded
        return self.jobs[0][1] if self.jobs else None


class WorkerPool:
    """The backend that distributes tasks over workers and replaces dead ones; subclasses start them."""

    def __init__(self) -> None:
        self.size = 0  # workers at most
        self._workers: list[_PoolWorker] = []
        self._waiting: deque[PoolJob] = deque()
        self._identity: Identity | None = None
        self._failed_starts = 0  # since the last successful start
        self._deaths = 0  # since the last result

    def start_worker(self) -> WorkerHandle:
        """Start a worker without waiting for its model to load."""
        raise NotImplementedError

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *error: object) -> None:
        while self._workers:
            self._remove_worker(self._workers[-1])

    @property
    def identity(self) -> Identity:
        """The identity of the workers' model and code; starts the first worker if needed."""
        while self._identity is None:
            if not self._workers:
                self._workers.append(_PoolWorker(self.start_worker()))
            self._handle_answers()
        return self._identity

    def map(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Yield the results of tasks in the order of completion; a task that kills workers has one for each example."""
        _ = self.identity
        fresh = iter(tasks)
        try:
            while self._assign_jobs(fresh):
                yield from self._handle_answers()
        finally:  # the consumer may stop before the end
            self._waiting.clear()
            for worker in [worker for worker in self._workers if worker.jobs]:
                self._remove_worker(worker)

    def _assign_jobs(self, fresh: Iterator[Task]) -> bool:
        """Take new tasks as far as there is room, and give jobs to workers; return whether any work is left.

        Idle workers come first, and one job is kept for each worker that is starting.
        """
        ready = [worker for worker in self._workers if worker.ready]
        room = sum(QUEUE_DEPTH - len(worker.jobs) for worker in ready) + self.size - len(ready)
        while len(self._waiting) < room and (task := next(fresh, None)) is not None:
            self._waiting.append(PoolJob(task))
        idle = sum(not worker.jobs for worker in ready)
        while len(self._waiting) > idle + self._n_starting and len(self._workers) < self.size:
            self._workers.append(_PoolWorker(self.start_worker()))
        while self._waiting and ready:
            worker = min(ready, key=lambda one: len(one.jobs))
            spare = len(self._waiting) > self._n_starting
            if len(worker.jobs) == QUEUE_DEPTH or (worker.jobs and not spare):
                break
            job = self._waiting.popleft()
            worker.jobs.append((job, worker.handle.submit(job.task)))
        return bool(self._waiting) or any(worker.jobs for worker in self._workers)

    def _handle_answers(self) -> list[TaskResult]:
        """Wait for an answer, and handle all that are there; an error is raised after the others are handled."""
        answers = {w.answer: w for w in self._workers if w.answer is not None}
        done, _ = wait(answers, return_when=FIRST_COMPLETED)
        results: list[TaskResult] = []
        failed: WhenceError | None = None
        for answer in done:
            worker = answers[answer]
            if (error := answer.exception()) is not None:
                if (why := worker.handle.describe_death(error)) is None:
                    failed = failed or to_whence_error(error)
                else:
                    results += self._handle_death(worker, why)
                continue
            found: TaskResult | Identity | WhenceError = answer.result()
            if isinstance(found, TaskResult):
                self._deaths = 0
                worker.jobs.popleft()
                results.append(found)
            elif isinstance(found, Identity):
                self._accept_worker(worker, found)
            elif worker.ready or self._identity is None:
                failed = failed or found
                self._remove_worker(worker)
            else:
                self._handle_failed_start(worker, found)
        if failed is not None:
            raise failed
        return results

    def _accept_worker(self, worker: _PoolWorker, identity: Identity) -> None:
        worker.ready = True
        self._failed_starts = 0
        if self._identity is None:
            self._identity = identity
        elif differing := describe_differences(self._identity, identity):
            raise WorkersFailed(
                f"Two workers of this run are not the same: {differing}. Install one version of whence, and put one "
                "version of the model, wherever there is a worker; then give the same command again."
            )

    def _handle_death(self, worker: _PoolWorker, why: str) -> list[TaskResult]:
        """Queue the tasks of a dead worker again; the task at hand counts as the cause of death."""
        if not worker.ready:
            error = WorkersFailed(f"A worker could not be started: {why}.")
            self._handle_failed_start(worker, error)
            return []
        self._remove_worker(worker)
        self._deaths += 1
        if self._deaths > MAX_CONSECUTIVE_DEATHS + 2 * self.size:
            raise WorkersFailed(
                f"{self._deaths} workers died one after the other, and nothing was done in between. The last: {why}. "
                "Is there enough memory for so many of them? Try fewer (--workers, --actors) or one, in this process "
                "(--backend in-process). What was done so far is kept."
            )
        first, *rest = (job for job, _ in worker.jobs)
        self._waiting.extendleft(reversed(rest))
        first.deaths += 1
        if first.deaths < MAX_TASK_DEATHS:
            self._waiting.appendleft(first)
        elif len(first.task.items) > 1:
            parts = (replace(first.task, items=(item,)) for item in first.task.items)
            self._waiting.extend(map(PoolJob, parts))
        else:
            from whence.runs.worker import build_failure_tables

            # Without the exit reason, which names processes and machines: records must be reproducible.
            died = f"{MAX_TASK_DEATHS} workers died while they were at this example alone. Often it is memory that ran out."
            tables = build_failure_tables(self.identity, first.task, "worker-died", died)
            return [TaskResult(first.task.window, first.task.chunk, tables, 0.0)]
        return []

    def _handle_failed_start(self, worker: _PoolWorker, error: WhenceError) -> None:
        """Allow another start; after 3 failures go on with the workers there are, or raise."""
        self._remove_worker(worker)
        self._failed_starts += 1
        if self._failed_starts < MAX_FAILED_STARTS:
            return
        if not self._workers:
            raise error
        if self.size > len(self._workers):
            self.size = len(self._workers)
            warnings.warn(
                f"No more than {self.size} workers can be started; the run goes on with these. {error}",
                stacklevel=2,
            )

    def _remove_worker(self, worker: _PoolWorker) -> None:
        self._workers.remove(worker)
        worker.handle.kill()

    @property
    def _n_starting(self) -> int:
        return sum(not worker.ready for worker in self._workers)


def describe_differences(identity: Identity, other: Identity) -> str:
    """Return the differences of two workers' identities as text; empty if they are equal."""
    differences = []
    for name in IDENTITY_FIELDS:
        here, there = getattr(identity, name), getattr(other, name)
        if isinstance(here, str) and here != there:
            differences.append(f"{name} is {here[:16]} here and {there[:16]} there")
        elif here != there:
            keys = [key for key in {**here, **there} if here.get(key) != there.get(key)]
            values = [
                f"{key} is {str(here.get(key))[:60]!r} here and {str(there.get(key))[:60]!r} there"
                for key in keys[:3]
            ]
            differences.append(f"of {name}, {', '.join(values)}")
    return "; ".join(differences)


Backend = InProcessBackend | WorkerPool


class ProcessPool(WorkerPool):
    """The pool of worker processes on this machine."""

    def __init__(
        self, plan: Plan, execution: Execution, factory: WorkerFactory = load_worker
    ) -> None:
        super().__init__()
        self._load_args = (factory, plan, execution)
        # The cores that this process may use.
        can_tell = hasattr(os, "sched_getaffinity")
        self._cores = len(os.sched_getaffinity(0)) if can_tell else os.cpu_count() or 1
        self._gpus = list_gpus(execution)
        self.size = self._n_requested = execution.workers or len(self._gpus) or self._cores
        self._n_started = 0

    def start_worker(self) -> "ProcessWorker":
        """Start a new interpreter."""
        self._n_started += 1
        return ProcessWorker(self._load_args, self.build_environment(self._n_started - 1))

    def build_environment(self, number: int) -> dict[str, str]:
        """Return the environment variables of a worker: its share of the cores, its GPU."""
        threads = str(max(1, self._cores // self._n_requested))
        environment = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
        if self._gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[number % len(self._gpus)]
        return environment


START_METHOD = "spawn"


class ProcessWorker:
    """A worker process: an executor of one."""

    def __init__(self, load_args: tuple[Any, ...], environment: dict[str, str]) -> None:
        context = multiprocessing.get_context(START_METHOD)
        self._executor = ProcessPoolExecutor(1, context, _start_program, load_args)
        with _prepare_start(environment):
            self.loaded = self._executor.submit(_call_program, "begin")
        (self.process,) = self._executor._processes.values()  # it has no other way to kill one

    def submit(self, task: Task) -> "Future[TaskResult | WhenceError]":
        """Queue a task."""
        try:
            return self._executor.submit(_call_program, "do", task)
        except BrokenProcessPool as error:  # it died while it had nothing to do
            answer = Future[TaskResult | WhenceError]()
            answer.set_exception(error)
            return answer

    def describe_death(self, error: BaseException) -> str | None:
        """Return how the process ended, if it did."""
        if not isinstance(error, BrokenProcessPool):
            return None
        self._executor.shutdown()  # waits for the process
        status = self.process.exitcode or 0
        if status >= 0:
            return f"its process ended with status {status}"
        name = signal.Signals(-status).name
        memory = " (often it is the system that does so when memory runs out)"
        return f"its process was ended by {name}{memory * (name == 'SIGKILL')}"

    def kill(self) -> None:
        """Kill the process and reap it."""
        self.process.kill()
        self._executor.shutdown(cancel_futures=True)


@contextmanager
def _prepare_start(environment: Mapping[str, str]) -> Iterator[None]:
    """Context manager: what is started in it gets these variables, ignores Ctrl-C, and runs no script of the caller."""
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    # Blocked signals are inherited, and wait here: Ctrl-C must reach this process alone.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if os.name == "posix" else set()  # fmt: skip
    try:
        with set_environment(environment):
            yield
    finally:
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sys.modules["__main__"] = main  # multiprocessing would have run its file again


@contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Context manager: set environment variables; what was there comes back."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def list_gpus(execution: Execution) -> list[str]:
    """Return the GPUs for workers, as CUDA_VISIBLE_DEVICES names them; empty on another device."""
    if execution.device not in (None, "cuda"):
        return []
    import torch

    n_gpus = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:n_gpus] if named else [str(number) for number in range(n_gpus)]
