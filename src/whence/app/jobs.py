"""Work queue of a model: one thread per model, quick requests before long jobs, progress and cancelling.

A cancelled job ends when it next reports its progress. When one request needs two models, the model that
comes later in the list lends its thread, so that two threads never wait for each other.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import Any

from whence.app.error_responses import describe_error, log_error
from whence.app.schema import Fault, Job, JobState
from whence.core.errors import Busy, NotFound, to_exception
from whence.core.progress import Progress

Work = Callable[[Progress], Any]
END_STATES = frozenset({"done", "failed", "cancelled"})


class Cancelled(Exception):
    """The exception that ends cancelled work when it reports its progress."""


class WorkItem:
    """One quick request or long job; its future holds the result or the error, whichever comes first."""

    def __init__(self, worker: "ModelWorker", kind: str, work: Work, *, quick: bool) -> None:
        self.id = uuid.uuid4().hex
        self.worker = worker
        self.kind = kind
        self.quick = quick
        self.done = 0
        self.total = 0
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # a waiting client cannot cancel it; only this item ends it
        self._work = work
        self._began: float | None = None

    @property
    def state(self) -> JobState:
        """Whether it waits, runs, or how it ended."""
        if not self.future.done():
            return "queued" if self._began is None else "running"
        error = self.future.exception()
        if error is None:
            return "done"
        return "cancelled" if isinstance(error, Cancelled) else "failed"

    def run(self) -> None:
        """Do the work, in the thread of the model."""
        if self.future.done():
            return
        self._began = time.monotonic()
        try:
            result = self._work(self.progress)
        except BaseException as error:  # any error is the client's answer; the thread goes on
            if not isinstance(error, Cancelled):
                log_error(error, f"{self.kind} by {self.worker.model}")
            self.fail(error)
        else:
            with suppress(InvalidStateError):  # it was cancelled in the meantime
                self.future.set_result(result)

    def progress(self, done: int, total: int) -> None:
        """Store the progress; raise Cancelled if the work was cancelled."""
        if self.state == "cancelled":
            raise Cancelled
        self.done, self.total = done, total

    def fail(self, error: BaseException) -> None:
        """End the work with an error, unless it has ended."""
        with suppress(InvalidStateError):
            self.future.set_exception(to_exception(error))

    def cancel(self) -> None:
        """Cancel the work; running work ends at its next progress report."""
        self.worker.remove(self)
        self.fail(Cancelled("cancelled"))

    def describe(self, *, result: bool = True) -> Job:
        """Return the job as the API sends it, with or without its result."""
        state, remaining, error = self.state, None, None
        if state == "running" and self._began is not None and self.done:
            # An estimate from the time per unit so far.
            left = max(0, self.total - self.done)
            remaining = (time.monotonic() - self._began) * left / self.done
        if state == "failed" and (failure := self.future.exception()) is not None:
            error = Fault(**describe_error(failure))
        return Job(
            id=self.id,
            kind=self.kind,
            model=self.worker.model,
            state=state,
            position=self.worker.position(self),
            done=self.done,
            total=self.total,
            remaining=remaining,
            result=self.future.result() if result and state == "done" else None,
            error=error,
        )


class ModelWorker:
    """The thread and queue of one model, which does one piece of work at a time."""

    def __init__(self, model: str, waiting: int) -> None:
        self.model = model
        self.current: WorkItem | None = None
        self._waiting = waiting
        self._queue: list[WorkItem] = []  # quick work stands before long work
        self._changed = threading.Condition()
        self._closed = False
        self._gone: Exception | None = None  # the error of a model that could not be loaded
        self._thread: threading.Thread | None = None

    def put(self, kind: str, work: Work, *, quick: bool) -> WorkItem:
        """Queue a piece of work."""
        task = WorkItem(self, kind, work, quick=quick)
        with self._changed:
            if self._gone is not None:
                raise self._gone
            number = sum(other.quick == quick for other in self._queue)
            if self._closed or number >= self._waiting:
                raise Busy(f"The model {self.model!r} has {number} requests waiting: no more fit.")
            self._queue.append(task)
            self._queue.sort(key=lambda other: not other.quick)
            if self._thread is None:
                name = f"whence {self.model}"
                self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return task

    def position(self, task: WorkItem) -> int:
        """Return the number of items before this job; 0 when it runs or has ended."""
        with self._changed:
            if task not in self._queue:
                return 0
            return self._queue.index(task) + (self.current is not None)

    def remove(self, task: WorkItem) -> None:
        """Take a piece of work out of the queue."""
        with self._changed, suppress(ValueError):
            self._queue.remove(task)

    @contextmanager
    def lend(self, kind: str, progress: Callable[[], None]) -> Iterator[None]:
        """Context manager: block this thread while another thread uses its model.

        `progress` is called while waiting, and may raise. The lender comes later in the list of models than the
        borrower, so that two threads never wait for each other.
        """
        start, end = threading.Event(), threading.Event()

        def lend(_: Progress) -> None:
            start.set()
            end.wait()

        task = self.put(kind, lend, quick=True)
        try:
            while not start.wait(0.05):
                progress()
                if task.future.done():  # the model was removed: raise its error
                    task.future.result()
            yield
        finally:
            end.set()
            if not start.is_set():
                task.cancel()

    def close(self, gone: Exception | None = None) -> None:
        """Cancel all work, or fail it with the error `gone`; the thread ends after its current step."""
        with self._changed:
            self._closed, self._gone = True, gone
            tasks = [*self._queue, *([self.current] if self.current else [])]
            self._queue.clear()
            self._changed.notify_all()
        for task in tasks:
            task.fail(gone or Cancelled("cancelled"))

    def join(self, seconds: float) -> bool:
        """Wait for the thread, and return whether it has ended."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._queue)
                if self._closed:
                    return
                self.current = self._queue.pop(0)
            try:
                self.current.run()
            except BaseException as error:  # from a callback of the future: the thread goes on
                log_error(error, f"the end of {self.current.kind} by {self.model}")
            with self._changed:
                self.current = None


class Jobs:
    """The jobs of a server by id; the latest `kept` ended jobs stay readable."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._tasks: dict[str, WorkItem] = {}

    def begin(self, worker: ModelWorker, kind: str, work: Work) -> WorkItem:
        """Queue a job."""
        task = worker.put(kind, work, quick=False)
        self._tasks[task.id] = task
        ended = [name for name, item in self._tasks.items() if item.future.done()]
        for name in ended[: max(0, len(ended) - self._kept)]:
            del self._tasks[name]
        return task

    def get(self, name: str) -> WorkItem:
        """Return a job."""
        if name not in self._tasks:
            raise NotFound(f"There is no job {name[:40]!r}: ended jobs are kept for a while only.")
        return self._tasks[name]
