"""Workers that may die: who gets which task, and what becomes of a task whose worker is gone.

All of it happens in one thread, that of whoever takes the results. A worker has one task at hand and one more behind
it, so that it need not wait while results are written, and no more tasks are taken from the data than that. Workers
are started as there is work for them: the first when somebody asks what the model is, the others when tasks wait.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic

from whence.core.errors import WhenceError, WorkersFailed
from whence.run.backends.hands import Crew, Gone, Hand
from whence.run.backends.jobs import DEATHS, Job
from whence.run.task import Done, Identity, Task

DEPTH = 2  # tasks that a worker has at most
STARTS = 3  # that may fail one after the other
# Workers may die one after the other, with nothing done in between, as often as this and twice their number: often
# enough for a chunk with many examples that kill, not so often that a broken machine is kept busy for a day.
MOST_DEATHS = 64
COMPARED = ("code", "model", "explained", "tested", "settings")


@dataclass(eq=False)
class _Seat(Generic[Hand]):
    hand: Hand
    ready: bool = False
    jobs: deque[Job] = field(default_factory=deque)  # the first is the one it is at


class Pool(Generic[Hand]):
    """A crew, and the work that it is given."""

    def __init__(self, crew: Crew[Hand]) -> None:
        self._crew = crew
        self._most = 0
        self._seats: list[_Seat[Hand]] = []
        self._waiting: deque[Job] = deque()
        self._identity: Identity | None = None
        self._failed_starts = 0  # since one succeeded
        self._deaths = 0  # since something was done

    def __enter__(self) -> "Pool[Hand]":
        self._crew.open()
        self._most = self._crew.size
        return self

    def __exit__(self, *error: object) -> None:
        try:
            for seat in self._seats:
                self._crew.drop(seat.hand)
            self._seats.clear()
        finally:
            self._crew.close()

    @property
    def identity(self) -> Identity:
        """What the workers' model and code are; the first of them is started for it."""
        while self._identity is None:
            if not self._seats:
                self._start()
            for _ in self._heard():
                pass
        return self._identity

    @property
    def size(self) -> int:
        """How many workers there may be."""
        return self._most

    def map(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """Do the tasks, in the order in which workers are done with them."""
        _ = self.identity
        fresh = iter(tasks)
        try:
            while self._take(fresh):
                self._deal()
                yield from self._heard()
        finally:
            self._forget()

    def _take(self, fresh: Iterator[Task]) -> bool:
        """Take as many new tasks as there is room for, and say whether there is anything left to do."""
        room = sum(DEPTH - len(seat.jobs) for seat in self._ready)
        room += self._starting + self._most - len(self._seats)
        while len(self._waiting) < room and (task := next(fresh, None)) is not None:
            self._waiting.append(Job(task))
        return bool(self._waiting) or any(seat.jobs for seat in self._seats)

    def _deal(self) -> None:
        """Give out what waits: first to those who have nothing, then what those who are starting will not need."""
        idle = sum(not seat.jobs for seat in self._ready)
        while len(self._waiting) > idle + self._starting and len(self._seats) < self._most:
            self._start()
        while self._waiting and self._ready:
            seat = min(self._ready, key=lambda one: len(one.jobs))
            spare = len(self._waiting) > self._starting
            if len(seat.jobs) == DEPTH or (seat.jobs and not spare):
                return
            job = self._waiting.popleft()
            seat.jobs.append(job)
            self._crew.give(seat.hand, job.task)

    def _heard(self) -> Iterator[Done]:
        """Wait for news, act on all of them, and yield what was done.

        Whoever takes it may leave at the first: what the others said, above all who they are, is not said again.
        """
        seats = {id(seat.hand): seat for seat in self._seats}
        done: list[Done] = []
        failed: WhenceError | None = None
        for hand, said in self._crew.hear([seat.hand for seat in self._seats]):
            seat = seats[id(hand)]
            if isinstance(said, Done):
                self._deaths = 0
                done += seat.jobs.popleft().finished(said)
            elif isinstance(said, Identity):
                self._welcome(seat, said)
            elif isinstance(said, Gone):
                done += self._buried(seat, said.why)
            elif seat.ready or self._identity is None:
                failed = failed or said
            else:
                self._without(seat, said)
        yield from done
        if failed is not None:
            raise failed

    def _start(self) -> None:
        self._seats.append(_Seat(self._crew.start()))

    def _welcome(self, seat: _Seat[Hand], identity: Identity) -> None:
        seat.ready = True
        self._failed_starts = 0
        if self._identity is None:
            self._identity = identity
        elif differing := different(self._identity, identity):
            raise WorkersFailed(
                f"Two workers of this run are not the same: {differing}. Install one version of whence, and put one "
                "version of the model, wherever there is a worker; then give the same command again."
            )

    def _buried(self, seat: _Seat[Hand], why: str) -> Iterator[Done]:
        """Give the tasks of a dead worker to others; the one it was at counts as what it may have died of."""
        if not seat.ready:
            self._without(seat, WorkersFailed(f"A worker could not be started: {why}."))
            return
        self._leave(seat)
        if not seat.jobs:
            return
        self._deaths += 1
        if self._deaths > MOST_DEATHS + 2 * self._most:
            raise WorkersFailed(
                f"{self._deaths} workers died one after the other, and nothing was done in between. The last: {why}. "
                "Is there enough memory for so many of them? Try fewer (--workers, --actors) or one, in this process "
                "(--backend in-process). What was done so far is kept."
            )
        first, *rest = seat.jobs
        self._waiting.extendleft(reversed(rest))
        first.deaths += 1
        if not first.doubtful:
            self._waiting.appendleft(first)
        elif len(first.task.items) > 1:
            self._waiting.extend(first.cut())
        else:
            yield from first.finished(self._failed(first.task))

    def _failed(self, task: Task) -> Done:
        from whence.run.records import failures

        records = failures(
            self.identity,
            task,
            "worker-died",
            # How they ended is told in words of the moment, with names of processes and machines.
            f"{DEATHS} workers died while they were at this example alone. Often it is memory that ran out.",
        )
        return Done(task.window, task.chunk, records, 0.0)

    def _without(self, seat: _Seat[Hand], error: WhenceError) -> None:
        """Try another start, go on with those that there are, or give up."""
        self._leave(seat)
        self._failed_starts += 1
        if self._failed_starts < STARTS:
            return
        if not self._seats:
            raise error
        if self._most > len(self._seats):
            self._most = len(self._seats)
            warnings.warn(
                f"No more than {self._most} workers can be started; the run goes on with these. {error}",
                stacklevel=2,
            )

    def _leave(self, seat: _Seat[Hand]) -> None:
        self._seats.remove(seat)
        self._crew.drop(seat.hand)

    def _forget(self) -> None:
        """Whoever took the results went away before the end: end the workers that are still at something."""
        self._waiting.clear()
        for seat in [one for one in self._seats if one.jobs]:
            self._leave(seat)

    @property
    def _ready(self) -> list[_Seat[Hand]]:
        return [seat for seat in self._seats if seat.ready]

    @property
    def _starting(self) -> int:
        return sum(not seat.ready for seat in self._seats)


def different(one: Identity, other: Identity) -> str:
    """Say what two workers differ in, as far as results depend on it; nothing if they are the same."""
    found = []
    for name in COMPARED:
        here, there = getattr(one, name), getattr(other, name)
        if here == there:
            continue
        if isinstance(here, str):
            found.append(f"{name} is {here[:16]} here and {there[:16]} there")
            continue
        keys = [key for key in {**here, **there} if here.get(key) != there.get(key)]
        values = [
            f"{key} is {str(here.get(key))[:60]!r} here and {str(there.get(key))[:60]!r} there"
            for key in keys[:3]
        ]
        found.append(f"of {name}, {', '.join(values)}")
    return "; ".join(found)


"""Who does the work of a run: this process, several, or the actors of a Ray cluster."""

from whence.core.errors import BadPlan, WorkersFailed
from whence.run.backends.backend import Backend
from whence.run.plan import Manner, Plan

__all__ = ["Backend", "backend"]


def backend(plan: Plan, manner: Manner) -> Backend:
    """Return the workers that the manner names. None is started, and no model loaded, before it is asked for."""
    if manner.backend == "in-process":
        from whence.run.backends.in_process import InProcess

        return InProcess(plan, manner)
    if manner.backend == "processes":
        from whence.run.backends.pool import Pool
        from whence.run.backends.processes import Processes

        return Pool(Processes(plan, manner))
    if manner.backend == "ray":
        try:
            import whence.run.backends.ray as on_ray
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            raise WorkersFailed(
                "The backend 'ray' needs another package: pip install 'whence[ray]'."
            ) from None
        from whence.run.backends.pool import Pool

        return Pool(on_ray.Actors(plan, manner))
    raise BadPlan(
        f"There is no backend {manner.backend!r}; there are 'in-process', 'processes' and 'ray'."
    )


"""What a worker in another process says: what it did, or what went wrong, as plain data that can be sent."""

import os
import socket
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from whence.core.errors import WhenceError, WorkersFailed
from whence.core.failure import is_failure
from whence.run.plan import Manner, Plan
from whence.run.task import Done, Identity, Tally, Task

# A task that is done, or the error that ends the run: what concerns single examples is in the rows of the task.
Answer = Done | WhenceError


class Working(Protocol):
    """Who has the model loaded."""

    @property
    def identity(self) -> Identity:
        """What its model and code are."""
        ...

    def do(self, task: Task) -> Done:
        """Do a task."""
        ...


Factory = Callable[[Plan, Manner], Working]


def the_worker(plan: Plan, manner: Manner) -> Working:
    """Load the model of the plan. Imported late: whoever only gives work out needs no torch."""
    from whence.run.worker import Worker

    return Worker(plan, manner)


class Packing:
    """A worker elsewhere, who sends records as the store keeps them: writing them down is shared work that way."""

    def __init__(self, worker: Working) -> None:
        self._worker = worker

    @property
    def identity(self) -> Identity:
        """What its model and code are."""
        return self._worker.identity

    def do(self, task: Task) -> Done:
        """Do a task, and pack what it gave."""
        from whence.run.store import (
            pending,
        )  # the process of the run needs it at once, this one only here

        done = self._worker.do(task)
        packed = pending.packed(done.records)
        return replace(done, records=[], packed=(packed,), tally=Tally.of(done.records))


def the_packing_worker(plan: Plan, manner: Manner) -> Working:
    """Load the model of the plan for a worker elsewhere."""
    return Packing(the_worker(plan, manner))


def loaded(factory: Factory, plan: Plan, manner: Manner) -> Working | WhenceError:
    """Return a worker, or why there is none."""
    try:
        return factory(plan, manner)
    except BaseException as error:  # whatever it is, it is told where the run is
        if not is_failure(error):
            raise
        return told(error)


def attempt(worker: Working, task: Task) -> Answer:
    """Do a task, or return what was raised. Where the accelerator is lost, this process ends: another can go on."""
    try:
        return signed(worker.do(task))
    except BaseException as error:  # whatever it is, it is told where the run is
        if not is_failure(error):
            raise
        from whence.run.worker import device_lost

        if device_lost(error):
            traceback.print_exception(error)
            os._exit(WorkersFailed.exit_status)
        return told(error)


def signed(done: Done) -> Done:
    """Say who did it, for the journal."""
    return done if done.worker else replace(done, worker=f"{socket.gethostname()}:{os.getpid()}")


def told(error: BaseException) -> WhenceError:
    """Return an error of whence as it is; of any other what it says, with the way it took as a note."""
    if isinstance(error, WhenceError):
        return error
    found = WorkersFailed(
        f"A worker raised {type(error).__name__}: {str(error)[:500] or 'it says nothing more'}. This is a fault of "
        "whence, of the model's code or of a method's; what was done so far is kept, and the same command goes on."
    )
    found.add_note("".join(traceback.format_exception(error)))
    if os.environ.get("WHENCE_DEBUG"):
        traceback.print_exception(error)
    return found


"""Who does the work: in this process, in several, or on a cluster. One method each, and the same rows from all."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from whence.run.task import Done, Identity, Task


class Backend(Protocol):
    """Workers that have the model loaded. To be used in a `with` block, which starts and ends them."""

    def __enter__(self) -> "Backend": ...

    def __exit__(self, *error: object) -> None: ...

    @property
    def identity(self) -> Identity:
        """What the workers' model and code are; they are started for it, if they are not."""
        ...

    @property
    def size(self) -> int:
        """How many workers there are."""
        ...

    def map(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """Do the tasks, in any order. No more are taken from the iterator than the workers are about to need.

        A worker that dies is replaced, and what it was at is given to another; a task that workers die of again and
        again is cut into single examples, and an example that they die of becomes rows with an error.
        """
        ...


"""Workers elsewhere, as the pool that gives them work sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from whence.core.errors import WhenceError
from whence.run.task import Done, Identity, Task


@dataclass(frozen=True)
class Gone:
    """A worker that is no more, and how it ended."""

    why: str


# The first thing that a worker says is who it is, or why it cannot start; then, task by task, what it did.
Said = Identity | Done | WhenceError | Gone
Hand = TypeVar("Hand")


class Crew(Protocol[Hand]):
    """A place where workers can be started. It knows nothing of what they are given, and forgives nothing."""

    def open(self) -> None:
        """Get hold of the place."""
        ...

    def close(self) -> None:
        """Leave it; the workers are gone by then."""
        ...

    @property
    def size(self) -> int:
        """How many workers there may be."""
        ...

    def start(self) -> Hand:
        """Start a worker, and do not wait until it has loaded its model."""
        ...

    def give(self, hand: Hand, task: Task) -> None:
        """Give a worker a task, after those it has. If it is gone, `hear` will tell."""
        ...

    def hear(self, hands: Sequence[Hand]) -> list[tuple[Hand, Said]]:
        """Wait until one of them, or several, said something; at most one thing each."""
        ...

    def drop(self, hand: Hand) -> None:
        """End a worker at once, whatever it is at."""
        ...


"""The work is done here, in the process that asks for it, one task after the other."""

from collections.abc import Iterable, Iterator

from whence.run.backends.answer import Factory, Working, signed, the_worker
from whence.run.plan import Manner, Plan
from whence.run.task import Done, Identity, Task


class InProcess:
    """One worker, whose model is loaded when it is first needed."""

    def __init__(self, plan: Plan, manner: Manner, factory: Factory = the_worker) -> None:
        self._plan, self._manner, self._factory = plan, manner, factory
        self._worker: Working | None = None

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self._worker = None  # and the model with it

    @property
    def identity(self) -> Identity:
        """What the model and the code are."""
        return self._loaded().identity

    @property
    def size(self) -> int:
        """There is one."""
        return 1

    def map(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """Do one task after the other."""
        worker = self._loaded()
        for task in tasks:
            yield signed(worker.do(task))

    def _loaded(self) -> Working:
        if self._worker is None:
            self._worker = self._factory(self._plan, self._manner)
        return self._worker


"""A task on its way: how many workers died of it, and the parts that it was cut into."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from whence.run.task import Done, Tally, Task

DEATHS = 2  # of workers, before a task is cut into single examples, and before a single example counts as failed


@dataclass(eq=False)
class Job:
    """A task, and what happened to it so far."""

    task: Task
    whole: "Whole | None" = None  # that it is a part of
    deaths: int = 0

    @property
    def doubtful(self) -> bool:
        """Whether so many workers died of it that it is not given out as it is any more."""
        return self.deaths >= DEATHS

    def cut(self) -> "list[Job]":
        """Return a job for each example; what they give is put together again."""
        whole = Whole(self.task)
        return [Job(replace(self.task, items=(item,)), whole) for item in self.task.items]

    def finished(self, done: Done) -> Iterator[Done]:
        """Yield what was done, and of a part nothing before the last one is there."""
        if self.whole is None:
            yield done
            return
        self.whole.parts[self.task.items[0].row] = done
        if len(self.whole.parts) == len(self.whole.task.items):
            yield self.whole.joined()


@dataclass(eq=False)
class Whole:
    """A task that was cut into single examples."""

    task: Task
    parts: dict[int, Done] = field(default_factory=dict)  # by row

    def joined(self) -> Done:
        """Put the parts together, in the order that the examples had."""
        parts = [self.parts[item.row] for item in self.task.items]
        costs: dict[str, Counter[str]] = {}
        memory: dict[str, int] = {}
        for part in parts:
            for name, own in part.costs.items():
                costs.setdefault(name, Counter()).update(own)
            memory |= {name: max(taken, memory.get(name, 0)) for name, taken in part.memory.items()}
        return Done(
            self.task.window,
            self.task.chunk,
            [record for part in parts for record in part.records],
            sum(part.seconds for part in parts),
            {name: dict(own) for name, own in costs.items()},
            ", ".join(sorted({part.worker for part in parts if part.worker})),
            memory,
            tuple(one for part in parts for one in part.packed),
            sum((part.tally for part in parts), Tally()),
        )


"""Several processes on this machine, each with a model of its own.

They are new interpreters, neither forked (a fork of a process in which torch has threads may hang) nor by way of
`concurrent.futures` (one dead worker breaks the whole of it) or `multiprocessing` (which runs the caller's script
again). A worker and this process hold the two ends of a socket. If the worker dies, whatever of, its end is closed by
the system, and `hear` knows at once; if this process dies, the workers know and end themselves.

Cores are divided among the workers: with one for each core, the default, a worker computes in one thread. Numbers may
depend on how many threads there are, in the last bits. `OMP_NUM_THREADS`, where it is set, is what each of them gets.
With GPUs there is one worker for each, which sees no other.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path

from whence.run.backends.answer import Factory, the_packing_worker
from whence.run.backends.hands import Gone, Said
from whence.run.plan import Manner, Plan
from whence.run.task import Task

CHILD = "whence.run.backends.servant"


@dataclass(eq=False)
class Process:
    """A worker, and this end of its line."""

    process: subprocess.Popen[bytes]
    line: Connection


class Processes:
    """Workers on this machine."""

    def __init__(self, plan: Plan, manner: Manner, factory: Factory = the_packing_worker) -> None:
        self._first_words = (factory, plan, manner)
        self._cores = cores()
        self._gpus = gpus(manner)
        self._size = manner.workers or len(self._gpus) or self._cores
        self._numbers = count()

    def open(self) -> None:
        """There is nothing to get hold of."""

    def close(self) -> None:
        """There is nothing to leave."""

    @property
    def size(self) -> int:
        """As many as asked for; else one for each GPU, or where there is none, for each core."""
        return self._size

    def start(self) -> Process:
        """Start a new interpreter, in a group of its own: Ctrl-C is for this process, and it ends the workers."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", CHILD, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=self._environment(next(self._numbers)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # results go over the line; standard error stays where it is
                process_group=0,
            )
            line = Connection(ours.detach())
        hand = Process(process, line)
        _send(hand, self._first_words)
        return hand

    def give(self, hand: Process, task: Task) -> None:
        """Send a task."""
        _send(hand, task)

    def hear(self, hands: Sequence[Process]) -> list[tuple[Process, Said]]:
        """Wait until a worker sent something, or is gone."""
        ready = wait([hand.line for hand in hands])
        return [(hand, _said(hand)) for hand in hands if hand.line in ready]

    def drop(self, hand: Process) -> None:
        """End a process, if it has not ended, and leave nothing of it."""
        hand.line.close()
        hand.process.kill()
        hand.process.wait()

    def _environment(self, number: int) -> dict[str, str]:
        threads = str(max(1, self._cores // self._size))
        own = {"OMP_NUM_THREADS": threads, **os.environ}
        # What can be imported here can be imported there, also where somebody changed the path.
        own["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        if self._gpus:
            own["CUDA_VISIBLE_DEVICES"] = self._gpus[number % len(self._gpus)]
        return own


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpus(manner: Manner) -> list[str]:
    """Return the GPUs that workers may have, by the names that CUDA_VISIBLE_DEVICES knows; none on another device."""
    if manner.device not in (None, "cuda"):
        return []
    import torch

    found = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:found] if named else [str(number) for number in range(found)]


def _send(hand: Process, what: object) -> None:
    with suppress(OSError):  # it is gone, and `hear` will say so
        hand.line.send(what)


def _said(hand: Process) -> Said:
    try:
        said: Said = hand.line.recv()
    except (EOFError, OSError):
        hand.process.kill()  # it closed its end: it is dead, or as good as
        return Gone(_ended(hand.process.wait()))
    return said


def _ended(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    name = signal.Signals(-status).name
    often = (
        " (often it is the system that does so when memory runs out)" if name == "SIGKILL" else ""
    )
    return f"its process was ended by {name}{often}"
