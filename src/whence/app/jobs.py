"""Work for a model: one thread each, quick questions before long jobs, and all of it can be watched and cancelled."""

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal

from whence.core.errors import Busy, NotFound
from whence.core.failure import as_exception
from whence.web.errors import fault, note

State = Literal["queued", "running", "done", "failed", "cancelled"]
Progress = Callable[[int, int], None]
Work = Callable[[Progress], Any]
ENDED = frozenset({"done", "failed", "cancelled"})


class Cancelled(Exception):
    """Nobody wants the work any more."""


class Task:
    """One piece of work, quick or long: where it stands, and what came of it."""

    def __init__(self, kind: str, model: str, work: Work) -> None:
        self.id = uuid.uuid4().hex
        self.kind = kind
        self.model = model
        self.state: State = "queued"
        self.done = 0
        self.total = 0
        self.result: Any = None
        self.error: dict[str, str] | None = None
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # who waits may go; only this task ends it
        self._work = work
        self._began = 0.0
        self._lock = threading.Lock()

    def run(self) -> None:
        """Do it, in the thread of the model."""
        if not self._turn("running"):
            return
        self._began = time.monotonic()
        try:
            result = self._work(self.progress)
        except Cancelled as error:
            self._end("cancelled", error=error)
        except (
            BaseException
        ) as error:  # whatever it is, the thread lives on and the asker hears of it
            note(error, f"{self.kind} by {self.model}")
            self._end("failed", error=as_exception(error))
        else:
            self._end("done", result)

    def progress(self, done: int, total: int) -> None:
        """Note how far it is; this is also where cancelled work ends."""
        if self.state == "cancelled":
            raise Cancelled
        self.done, self.total = done, total

    def cancel(self) -> None:
        """Say that nobody wants it; what is running ends when it next says how far it is."""
        self._end("cancelled", error=Cancelled("cancelled"))

    def fail(self, error: BaseException) -> None:
        """Say that it cannot be done any more."""
        self._end("failed", error=as_exception(error))

    def remaining(self) -> float | None:
        """Estimate the seconds that are left, from those that it took so far."""
        if self.state != "running" or not self.done:
            return None
        return (time.monotonic() - self._began) * max(0, self.total - self.done) / self.done

    def told(self, position: int, *, result: bool) -> dict[str, Any]:
        """Return what a page hears of it, with the result or without."""
        return {
            "id": self.id,
            "kind": self.kind,
            "model": self.model,
            "state": self.state,
            "position": position,
            "done": self.done,
            "total": self.total,
            "remaining": self.remaining(),
            "result": self.result if result else None,
            "error": self.error,
        }

    def _turn(self, state: State) -> bool:
        with self._lock:
            if self.state in ENDED:
                return False
            self.state = state
            return True

    def _end(self, state: State, result: Any = None, error: Exception | None = None) -> None:
        with self._lock:
            if self.state in ENDED:
                return
            self.result = result
            self.error = fault(error) if state == "failed" and error is not None else None
            self.state = state  # last: who sees that it ended must see how
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class Worker:
    """The thread of one model. Whatever asks the model asks it here, one thing at a time."""

    def __init__(self, model: str, waiting: int) -> None:
        self.model = model
        self.current: Task | None = None
        self._waiting = waiting
        self._quick: deque[Task] = deque()
        self._long: deque[Task] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._gone: Exception | None = None  # why there is no model to ask
        self._thread: threading.Thread | None = None

    def put(self, kind: str, work: Work, *, quick: bool) -> Task:
        """Queue a piece of work."""
        task = Task(kind, self.model, work)
        with self._changed:
            if self._gone is not None:
                raise self._gone
            queue = self._quick if quick else self._long
            if self._closed or len(queue) >= self._waiting:
                raise Busy(
                    f"The model {self.model!r} has {len(queue)} requests waiting: no more fit."
                )
            queue.append(task)
            if self._thread is None:
                name = f"whence {self.model}"
                self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return task

    def position(self, task: Task) -> int:
        """How many pieces of work come before this job; 0 when it runs or has ended."""
        with self._changed:
            if task.state != "queued" or task not in self._long:
                return 0
            running = self.current is not None
            return self._long.index(task) + len(self._quick) + running

    def cancel(self, task: Task) -> None:
        """Cancel a piece of work, queued or running."""
        with self._changed:
            for queue in (self._quick, self._long):
                if task in queue:
                    queue.remove(task)
        task.cancel()

    @contextmanager
    def lent(self, kind: str, progress: Callable[[], None]) -> Iterator[None]:
        """Keep this thread from its model for as long as another thread uses it.

        `progress` is called while waiting, and may raise. So that two threads never wait for each other, the one that
        lends comes later in the list of models than the one that borrows.
        """
        taken, back = threading.Event(), threading.Event()

        def lend(_: Progress) -> None:
            taken.set()
            back.wait()

        task = self.put(kind, lend, quick=True)
        try:
            while not taken.wait(0.05):
                progress()
                if task.state in ENDED:  # the model is gone: nobody will lend it
                    task.future.result()
            yield
        finally:
            back.set()
            if not taken.is_set():
                self.cancel(task)

    def close(self, gone: Exception | None = None) -> None:
        """Cancel everything, or let it fail if the model is gone; the thread ends as soon as the model lets go."""
        with self._changed:
            self._closed, self._gone = True, gone
            tasks = [*self._quick, *self._long, *([self.current] if self.current else [])]
            self._quick.clear()
            self._long.clear()
            self._changed.notify_all()
        for task in tasks:
            if gone is None:
                task.cancel()
            else:
                task.fail(gone)

    def join(self, seconds: float) -> bool:
        """Wait for the thread to end, and say whether it did."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._quick or self._long)
                if self._closed:
                    return
                self.current = (self._quick or self._long).popleft()
            try:
                self.current.run()
            except (
                BaseException
            ) as error:  # of what is told of its end: the next one is done all the same
                note(error, f"the end of {self.current.kind} by {self.model}")
                self.current.fail(error)
            with self._changed:
                self.current = None


class Jobs:
    """The long work that was begun; of what has ended, the latest is kept."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._tasks: dict[str, tuple[Task, Worker]] = {}

    def begin(self, worker: Worker, kind: str, work: Work) -> Task:
        """Queue a job."""
        task = worker.put(kind, work, quick=False)
        self._tasks[task.id] = (task, worker)
        ended = [name for name, (one, _) in self._tasks.items() if one.state in ENDED]
        for name in ended[: max(0, len(ended) - self._kept)]:
            del self._tasks[name]
        return task

    def told(self, name: str, *, result: bool = True) -> dict[str, Any]:
        """Say where a job stands."""
        task, worker = self._get(name)
        return task.told(worker.position(task), result=result)

    def cancel(self, name: str) -> dict[str, Any]:
        """Cancel a job; one that has ended stays as it is."""
        task, worker = self._get(name)
        worker.cancel(task)
        return self.told(name)

    def _get(self, name: str) -> tuple[Task, Worker]:
        if name not in self._tasks:
            raise NotFound(f"There is no job {name[:40]!r}: ended jobs are kept for a while only.")
        return self._tasks[name]
