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
