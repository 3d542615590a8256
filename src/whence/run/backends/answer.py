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
