"""Backends that run tasks: in this process, or WorkerPool (processes; Ray: ray.py), which replaces dead workers.

Worker processes are new interpreters: a fork of a process in which torch has threads may hang, one dead
worker breaks all of `concurrent.futures`, and `multiprocessing` runs the caller's script again. A worker
and the pool hold the two ends of a nameless socket pair; if either dies, the other notices at once.
Messages are pickled and come only from the process at the other end.

The pool runs in one thread, that of the consumer of its results. A worker has one task at hand and one
queued, and no more tasks are taken from the data than that. The tasks of a dead worker go to others; a task
that kills repeatedly is split into single examples, and an example that kills becomes records with an
error.

Cores are divided among the workers: with one worker per core, the default, each computes in one thread.
Numbers may depend on the number of threads in the last bits. `OMP_NUM_THREADS`, where set, is what each
worker gets. With GPUs there is one worker for each, which sees no other.
"""

import os
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from whence.core.errors import BadPlan, WhenceError, WorkersFailed, is_failure
from whence.runs.plan import Execution, Plan
from whence.runs.task import Identity, RecordCounts, Task, TaskResult


class Backend(Protocol):
    """The interface of a backend: a context manager whose workers do tasks."""

    def __enter__(self) -> "Backend": ...

    def __exit__(self, *error: object) -> None: ...

    @property
    def identity(self) -> Identity:
        """The identity of the workers' model and code; starts a worker if none is loaded."""
        ...

    @property
    def size(self) -> int:
        """The number of workers."""
        ...

    def map(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Yield the results of tasks in any order; tasks are taken as workers need them.

        A dead worker is replaced, and its tasks go to others. A task that kills repeatedly is split into single
        examples; an example that kills becomes records with an error.
        """
        ...


def create_backend(plan: Plan, execution: Execution) -> Backend:
    """Return the backend of an execution; workers start and load the model only when needed."""
    if execution.backend == "in-process":
        return InProcessBackend(plan, execution)
    if execution.backend == "processes":
        return WorkerPool(ProcessGroup(plan, execution))
    if execution.backend == "ray":
        try:
            import whence.runs.ray as on_ray
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            raise WorkersFailed(
                "The backend 'ray' needs another package: pip install 'whence[ray]'."
            ) from None

        return WorkerPool(on_ray.ActorGroup(plan, execution))
    raise BadPlan(
        f"There is no backend {execution.backend!r}; there are 'in-process', 'processes' and 'ray'."
    )


# The result of a task, or an error that ends the run; errors of single examples are records of the result.
TaskAnswer = TaskResult | WhenceError


class LoadedWorker(Protocol):
    """The interface of a worker with a loaded model."""

    @property
    def identity(self) -> Identity:
        """The identity of the model and code."""
        ...

    def do(self, task: Task) -> TaskResult:
        """Return the result of a task."""
        ...


WorkerFactory = Callable[[Plan, Execution], LoadedWorker]


def load_worker(plan: Plan, execution: Execution) -> LoadedWorker:
    """Return a worker with the plan's model. The import is local: the pool's process needs no torch."""
    from whence.runs.worker import Worker

    return Worker(plan, execution)


class PackingWorker:
    """A worker that encodes its records for the store, which spares the pool's process that work."""

    def __init__(self, worker: LoadedWorker) -> None:
        self._worker = worker

    @property
    def identity(self) -> Identity:
        """The identity of the model and code."""
        return self._worker.identity

    def do(self, task: Task) -> TaskResult:
        """Return the result of a task with encoded records and their counts."""
        from whence.runs import store

        result = self._worker.do(task)
        packed = store.encode_records(result.records)
        return replace(
            result, records=[], packed=(packed,), tally=RecordCounts.from_records(result.records)
        )


def load_packing_worker(plan: Plan, execution: Execution) -> LoadedWorker:
    """Return a worker with the plan's model that encodes its records, for another process."""
    return PackingWorker(load_worker(plan, execution))


def try_load_worker(
    factory: WorkerFactory, plan: Plan, execution: Execution
) -> LoadedWorker | WhenceError:
    """Return a loaded worker, or the error of loading it."""
    try:
        return factory(plan, execution)
    except BaseException as error:  # any error is sent to the pool
        if not is_failure(error):
            raise
        return to_whence_error(error)


def try_task(worker: LoadedWorker, task: Task) -> TaskAnswer:
    """Return the result of a task or its error; exit if the GPU is lost, so that the pool restarts."""
    try:
        return with_worker_name(worker.do(task))
    except BaseException as error:  # any error is sent to the pool
        if not is_failure(error):
            raise
        from whence.tracing.out_of_memory import is_device_lost

        if is_device_lost(error):
            traceback.print_exception(error)
            os._exit(WorkersFailed.exit_status)
        return to_whence_error(error)


def with_worker_name(result: TaskResult) -> TaskResult:
    """Return the result with the host and process id of its worker, for the journal."""
    return (
        result if result.worker else replace(result, worker=f"{socket.gethostname()}:{os.getpid()}")
    )


def to_whence_error(error: BaseException) -> WhenceError:
    """Return a WhenceError as it is; wrap another in WorkersFailed with its traceback as a note."""
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


@dataclass(frozen=True)
class WorkerDeath:
    """The message that a worker died, with the reason."""

    why: str


# A worker's first message is its identity, or the error of its start; then one result per task.
WorkerMessage = Identity | TaskResult | WhenceError | WorkerDeath
WorkerHandle = TypeVar("WorkerHandle")


class WorkerGroup(Protocol[WorkerHandle]):
    """The interface that starts, feeds and kills workers; retries are the pool's work."""

    def open(self) -> None:
        """Prepare for workers, such as by joining a cluster."""
        ...

    def close(self) -> None:
        """Release all resources; the workers are dead by then."""
        ...

    @property
    def size(self) -> int:
        """The maximal number of workers."""
        ...

    def start(self) -> WorkerHandle:
        """Start a worker without waiting for its model to load."""
        ...

    def send(self, worker: WorkerHandle, task: Task) -> None:
        """Queue a task for a worker; `receive` reports a dead one."""
        ...

    def receive(self, workers: Sequence[WorkerHandle]) -> list[tuple[WorkerHandle, WorkerMessage]]:
        """Wait for messages of the workers; return at most one of each."""
        ...

    def kill(self, worker: WorkerHandle) -> None:
        """Kill a worker at once."""
        ...


class InProcessBackend:
    """The backend with one worker in this process; loads the model at first use."""

    def __init__(
        self, plan: Plan, execution: Execution, factory: WorkerFactory = load_worker
    ) -> None:
        self._plan, self._execution, self._factory = plan, execution, factory
        self._worker: LoadedWorker | None = None

    def __enter__(self) -> "InProcessBackend":
        return self

    def __exit__(self, *error: object) -> None:
        self._worker = None  # releases the model too

    @property
    def identity(self) -> Identity:
        """The identity of the model and code."""
        return self._load().identity

    @property
    def size(self) -> int:
        """The number of workers, always 1."""
        return 1

    def map(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Yield the results of tasks, in order."""
        worker = self._load()
        for task in tasks:
            yield with_worker_name(worker.do(task))

    def _load(self) -> LoadedWorker:
        if self._worker is None:
            self._worker = self._factory(self._plan, self._execution)
        return self._worker


MAX_TASK_DEATHS = 2  # worker deaths until a task is split, or an example counts as failed


@dataclass(eq=False)
class PoolJob:
    """A task in the pool, with the number of workers that died of it."""

    task: Task
    whole: "SplitTask | None" = None  # the split task it is a part of
    deaths: int = 0

    @property
    def has_killed_too_often(self) -> bool:
        """Whether too many workers died of this task to assign it again."""
        return self.deaths >= MAX_TASK_DEATHS

    def split(self) -> "list[PoolJob]":
        """Return one job per example; their results are merged again."""
        whole = SplitTask(self.task)
        return [PoolJob(replace(self.task, items=(item,)), whole) for item in self.task.items]

    def finish(self, result: TaskResult) -> Iterator[TaskResult]:
        """Yield the result; of a split task, one merged result after its last part."""
        if self.whole is None:
            yield result
            return
        self.whole.parts[self.task.items[0].row] = result
        if len(self.whole.parts) == len(self.whole.task.items):
            yield self.whole.merge_results()


@dataclass(eq=False)
class SplitTask:
    """A task split into single examples, with their results so far."""

    task: Task
    parts: dict[int, TaskResult] = field(default_factory=dict)  # by row

    def merge_results(self) -> TaskResult:
        """Return the merged result of all parts, in the order of the examples."""
        parts = [self.parts[item.row] for item in self.task.items]
        costs: dict[str, Counter[str]] = {}
        memory: dict[str, int] = {}
        for part in parts:
            for name, own in part.costs.items():
                costs.setdefault(name, Counter()).update(own)
            memory |= {name: max(peak, memory.get(name, 0)) for name, peak in part.memory.items()}
        return TaskResult(
            self.task.window,
            self.task.chunk,
            [record for part in parts for record in part.records],
            sum(part.seconds for part in parts),
            {name: dict(own) for name, own in costs.items()},
            ", ".join(sorted({part.worker for part in parts if part.worker})),
            memory,
            tuple(raw for part in parts for raw in part.packed),
            sum((part.tally for part in parts), RecordCounts()),
        )


QUEUE_DEPTH = 2  # tasks of a worker: one at hand, one queued
MAX_FAILED_STARTS = 3  # consecutive failed starts until the pool stops trying
# The run ends after this many deaths plus twice the number of workers without a result in between: enough for a
# chunk with many examples that kill, and few enough that a broken machine is not busy for a day.
MAX_CONSECUTIVE_DEATHS = 64
IDENTITY_FIELDS = ("code", "model", "explained", "tested", "settings")


@dataclass(eq=False)
class _PoolWorker(Generic[WorkerHandle]):
    """A worker of the pool: its handle, whether its model is loaded, and its jobs."""

    handle: WorkerHandle
    ready: bool = False
    jobs: deque[PoolJob] = field(
        default_factory=deque
    )  # the first is at hand, the others are queued


class WorkerPool(Generic[WorkerHandle]):
    """The backend that distributes tasks over a group of workers and replaces dead ones."""

    def __init__(self, group: WorkerGroup[WorkerHandle]) -> None:
        self._group = group
        self._most = 0
        self._workers: list[_PoolWorker[WorkerHandle]] = []
        self._waiting: deque[PoolJob] = deque()
        self._identity: Identity | None = None
        self._failed_starts = 0  # since the last successful start
        self._deaths = 0  # since the last result

    def __enter__(self) -> "WorkerPool[WorkerHandle]":
        self._group.open()
        self._most = self._group.size
        return self

    def __exit__(self, *error: object) -> None:
        try:
            for worker in self._workers:
                self._group.kill(worker.handle)
            self._workers.clear()
        finally:
            self._group.close()

    @property
    def identity(self) -> Identity:
        """The identity of the workers' model and code; starts the first worker if needed."""
        while self._identity is None:
            if not self._workers:
                self._start_worker()
            for _ in self._handle_messages():
                pass
        return self._identity

    @property
    def size(self) -> int:
        """The maximal number of workers."""
        return self._most

    def map(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Yield the results of tasks in the order of completion."""
        _ = self.identity
        fresh = iter(tasks)
        try:
            while self._queue_tasks(fresh):
                self._assign_jobs()
                yield from self._handle_messages()
        finally:
            self._cancel()

    def _queue_tasks(self, fresh: Iterator[Task]) -> bool:
        """Take new tasks as far as there is room; return whether any work is left."""
        room = sum(QUEUE_DEPTH - len(worker.jobs) for worker in self._ready_workers)
        room += self._n_starting + self._most - len(self._workers)
        while len(self._waiting) < room and (task := next(fresh, None)) is not None:
            self._waiting.append(PoolJob(task))
        return bool(self._waiting) or any(worker.jobs for worker in self._workers)

    def _assign_jobs(self) -> None:
        """Send waiting jobs to idle workers first, and keep one for each worker that is starting."""
        idle = sum(not worker.jobs for worker in self._ready_workers)
        while len(self._waiting) > idle + self._n_starting and len(self._workers) < self._most:
            self._start_worker()
        while self._waiting and self._ready_workers:
            worker = min(self._ready_workers, key=lambda one: len(one.jobs))
            spare = len(self._waiting) > self._n_starting
            if len(worker.jobs) == QUEUE_DEPTH or (worker.jobs and not spare):
                return
            job = self._waiting.popleft()
            worker.jobs.append(job)
            self._group.send(worker.handle, job.task)

    def _handle_messages(self) -> Iterator[TaskResult]:
        """Wait for messages, handle all of them, and then yield the results.

        The consumer may stop at the first result, and messages are not repeated: none may stay unhandled.
        """
        workers = {id(worker.handle): worker for worker in self._workers}
        results: list[TaskResult] = []
        failed: WhenceError | None = None
        for handle, message in self._group.receive([worker.handle for worker in self._workers]):
            worker = workers[id(handle)]
            if isinstance(message, TaskResult):
                self._deaths = 0
                results += worker.jobs.popleft().finish(message)
            elif isinstance(message, Identity):
                self._accept_worker(worker, message)
            elif isinstance(message, WorkerDeath):
                results += self._handle_death(worker, message.why)
            elif worker.ready or self._identity is None:
                failed = failed or message
            else:
                self._handle_failed_start(worker, message)
        yield from results
        if failed is not None:
            raise failed

    def _start_worker(self) -> None:
        self._workers.append(_PoolWorker(self._group.start()))

    def _accept_worker(self, worker: _PoolWorker[WorkerHandle], identity: Identity) -> None:
        worker.ready = True
        self._failed_starts = 0
        if self._identity is None:
            self._identity = identity
        elif differing := describe_differences(self._identity, identity):
            raise WorkersFailed(
                f"Two workers of this run are not the same: {differing}. Install one version of whence, and put one "
                "version of the model, wherever there is a worker; then give the same command again."
            )

    def _handle_death(self, worker: _PoolWorker[WorkerHandle], why: str) -> Iterator[TaskResult]:
        """Queue the tasks of a dead worker again; the task at hand counts as the cause of death."""
        if not worker.ready:
            self._handle_failed_start(
                worker, WorkersFailed(f"A worker could not be started: {why}.")
            )
            return
        self._remove_worker(worker)
        if not worker.jobs:
            return
        self._deaths += 1
        if self._deaths > MAX_CONSECUTIVE_DEATHS + 2 * self._most:
            raise WorkersFailed(
                f"{self._deaths} workers died one after the other, and nothing was done in between. The last: {why}. "
                "Is there enough memory for so many of them? Try fewer (--workers, --actors) or one, in this process "
                "(--backend in-process). What was done so far is kept."
            )
        first, *rest = worker.jobs
        self._waiting.extendleft(reversed(rest))
        first.deaths += 1
        if not first.has_killed_too_often:
            self._waiting.appendleft(first)
        elif len(first.task.items) > 1:
            self._waiting.extend(first.split())
        else:
            yield from first.finish(self._build_failed_result(first.task))

    def _build_failed_result(self, task: Task) -> TaskResult:
        from whence.runs.worker import build_failure_records

        records = build_failure_records(
            self.identity,
            task,
            "worker-died",
            # Without the exit reason, which names processes and machines: records must be reproducible.
            f"{MAX_TASK_DEATHS} workers died while they were at this example alone. Often it is memory that ran out.",
        )
        return TaskResult(task.window, task.chunk, records, 0.0)

    def _handle_failed_start(self, worker: _PoolWorker[WorkerHandle], error: WhenceError) -> None:
        """Allow another start; after 3 failures go on with the workers there are, or raise."""
        self._remove_worker(worker)
        self._failed_starts += 1
        if self._failed_starts < MAX_FAILED_STARTS:
            return
        if not self._workers:
            raise error
        if self._most > len(self._workers):
            self._most = len(self._workers)
            warnings.warn(
                f"No more than {self._most} workers can be started; the run goes on with these. {error}",
                stacklevel=2,
            )

    def _remove_worker(self, worker: _PoolWorker[WorkerHandle]) -> None:
        self._workers.remove(worker)
        self._group.kill(worker.handle)

    def _cancel(self) -> None:
        """Drop waiting jobs and kill busy workers: the consumer stopped before the end."""
        self._waiting.clear()
        for worker in [worker for worker in self._workers if worker.jobs]:
            self._remove_worker(worker)

    @property
    def _ready_workers(self) -> list[_PoolWorker[WorkerHandle]]:
        return [worker for worker in self._workers if worker.ready]

    @property
    def _n_starting(self) -> int:
        return sum(not worker.ready for worker in self._workers)


def describe_differences(identity: Identity, other: Identity) -> str:
    """Return the differences of two workers' identities as text; empty if they are equal."""
    differences = []
    for name in IDENTITY_FIELDS:
        here, there = getattr(identity, name), getattr(other, name)
        if here == there:
            continue
        if isinstance(here, str):
            differences.append(f"{name} is {here[:16]} here and {there[:16]} there")
            continue
        keys = [key for key in {**here, **there} if here.get(key) != there.get(key)]
        values = [
            f"{key} is {str(here.get(key))[:60]!r} here and {str(there.get(key))[:60]!r} there"
            for key in keys[:3]
        ]
        differences.append(f"of {name}, {', '.join(values)}")
    return "; ".join(differences)


CHILD_MODULE = "whence.runs.worker_process"


@dataclass(eq=False)
class WorkerProcess:
    """A worker process and the pool's end of its connection."""

    process: subprocess.Popen[bytes]
    line: Connection


class ProcessGroup:
    """The group of worker processes on this machine."""

    def __init__(
        self, plan: Plan, execution: Execution, factory: WorkerFactory = load_packing_worker
    ) -> None:
        self._worker_args = (factory, plan, execution)
        self._cores = count_cores()
        self._gpus = list_gpus(execution)
        self._size = execution.workers or len(self._gpus) or self._cores
        self._numbers = count()

    def open(self) -> None:
        """Do nothing: processes need no preparation."""

    def close(self) -> None:
        """Do nothing: the pool has killed the processes."""

    @property
    def size(self) -> int:
        """The number of workers: as requested, else one per GPU, else one per core."""
        return self._size

    def start(self) -> WorkerProcess:
        """Start a new interpreter in its own process group: Ctrl-C must reach this process only."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", CHILD_MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=self._build_environment(next(self._numbers)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # results go over the socket; standard error is inherited
                process_group=0,
            )
            line = Connection(ours.detach())
        worker = WorkerProcess(process, line)
        _send_if_alive(worker, self._worker_args)
        return worker

    def send(self, worker: WorkerProcess, task: Task) -> None:
        """Send a task to a worker."""
        _send_if_alive(worker, task)

    def receive(
        self, workers: Sequence[WorkerProcess]
    ) -> list[tuple[WorkerProcess, WorkerMessage]]:
        """Wait for messages of the workers or their deaths."""
        ready = wait([worker.line for worker in workers])
        return [(worker, _receive_message(worker)) for worker in workers if worker.line in ready]

    def kill(self, worker: WorkerProcess) -> None:
        """Close the connection, kill the process and reap it."""
        worker.line.close()
        worker.process.kill()
        worker.process.wait()

    def _build_environment(self, number: int) -> dict[str, str]:
        threads = str(max(1, self._cores // self._size))
        environment = {"OMP_NUM_THREADS": threads, **os.environ}
        # The child gets this process's sys.path, which a script may have changed.
        environment["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        if self._gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[number % len(self._gpus)]
        return environment


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def list_gpus(execution: Execution) -> list[str]:
    """Return the GPUs for workers, as CUDA_VISIBLE_DEVICES names them; empty on another device."""
    if execution.device not in (None, "cuda"):
        return []
    import torch

    n_gpus = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:n_gpus] if named else [str(number) for number in range(n_gpus)]


def _send_if_alive(worker: WorkerProcess, message: object) -> None:
    with suppress(OSError):  # a dead worker; `receive` reports it
        worker.line.send(message)


def _receive_message(worker: WorkerProcess) -> WorkerMessage:
    try:
        message: WorkerMessage = worker.line.recv()
    except (EOFError, OSError):
        worker.process.kill()  # it closed its end: dead, or about to die
        return WorkerDeath(_describe_exit(worker.process.wait()))
    return message


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    name = signal.Signals(-status).name
    often = (
        " (often it is the system that does so when memory runs out)" if name == "SIGKILL" else ""
    )
    return f"its process was ended by {name}{often}"
