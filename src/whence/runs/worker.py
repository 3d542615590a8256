"""Who does a task: a model that is loaded once, and explains and tests examples as `whence.evaluate` does."""

import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence

import torch

from whence.capture.asking.counted import counted
from whence.capture.memory.fitting import device_lost
from whence.core.failure import is_failure
from whence.data import Encoded
from whence.evaluation.portions import is_gold
from whence.evaluation.tested import Unreadable, tried
from whence.explainer import Explainer, Explanation, load
from whence.explainer.request import Request
from whence.explainer.sharing import INPUTS
from whence.kernels.memory import trim
from whence.run import records
from whence.run.plan import Manner, Plan
from whence.run.records import Failure, failures
from whence.run.settings import settled
from whence.run.task import Done, Identity, Item, Record, Task
from whence.run.work import Sheet, Work

__all__ = ["Worker", "device_lost", "failures"]


class Worker:
    """Does tasks of a plan."""

    def __init__(self, plan: Plan, manner: Manner, explainer: Explainer | None = None) -> None:
        """Load the model, unless an `explainer` has it, and refuse a plan that it does not fit."""
        self.explainer = explainer or load(
            plan.model,
            device=manner.device,
            dtype=plan.dtype,
            revision=plan.revision,
            mlm=plan.mlm,
            checkpoint=manner.checkpoint,
            compile=manner.compile,
        )
        self._plan = plan
        self._settled = settled(plan, self.explainer.loaded)
        self._requests = {one.name: one for one in self._settled.methods}
        self._batch_size = INPUTS if manner.batch_size is None else manner.batch_size
        # What this kind of model cannot do is found out once; by method, None where it can.
        self._cannot: dict[str, Failure | None] = {}

    @property
    def identity(self) -> Identity:
        """What the model and the code are, as far as results depend on it."""
        return self._settled.identity

    def do(self, task: Task) -> Done:
        """Explain and test all examples of a task by its methods; what fails becomes a row that says so.

        Where something fails that is no error of ours, the examples are done one at a time: rows are then equal to
        those of a batch up to rounding.
        """
        started = time.perf_counter()
        work = Work(self.explainer, self._plan, self._settled, self._batch_size)
        asked = [self._requests[name] for name in task.methods]
        self._find_out(task.items, asked)
        sheet, usable = Sheet(), []
        for one in asked:
            if (cannot := self._cannot.get(one.name)) is None:
                usable.append(one)
            else:
                sheet.explained |= {(item.row, one.name): cannot for item in task.items}
        if usable:
            with counted(self.explainer.model) as runs:
                self._attempt(work, sheet, task.items, usable)
            work.clock.forward = max(0, runs.forward - _shared(sheet))
        trim()  # a run lasts for days, and every chunk has another shape
        return Done(
            task.window,
            task.chunk,
            self._records(sheet, task),
            time.perf_counter() - started,
            {
                **{name: _took(sheet, name) for name in task.methods},
                **({"": work.clock.costs()} if self._settled.measures else {}),
            },
            f"{platform.node()} {os.getpid()}",
            _memory(self.explainer),
        )

    def _find_out(self, items: Sequence[Item], asked: Sequence[Request]) -> None:
        """Try methods that were not tried yet on one example: what this kind of model cannot do fails for all."""
        target, truncate = self._settled.target, self._plan.truncate
        if is_gold(target, self.explainer.loaded):
            target = None  # whichever class: the method can do it or not
        for request in asked:
            if request.name in self._cannot:
                continue
            for item in items:
                try:
                    error, _ = tried(self.explainer, item.example.given, request, target, truncate)
                except Unreadable:
                    continue
                except (
                    BaseException
                ) as failed:  # models are other people's code and may raise anything
                    _check_alive(failed)
                    continue
                self._cannot[request.name] = None if error is None else Failure.of(error)
                break

    def _attempt(
        self, work: Work, sheet: Sheet, items: Sequence[Item], asked: Sequence[Request]
    ) -> None:
        """Do examples together; where that fails, one at a time, and then one method at a time."""
        try:
            sheet.add(work(items, asked, self._settled.measures))
        except (
            BaseException
        ) as error:  # whatever a model raises on an example is that example's result
            work.clock.stop()
            _check_alive(error)
            if len(items) > 1:
                for item in items:
                    self._attempt(work, sheet, [item], asked)
            elif len(asked) > 1:
                for one in asked:
                    self._attempt(work, sheet, items, [one])
            else:
                self._single(work, sheet, items[0], asked[0])

    def _single(self, work: Work, sheet: Sheet, item: Item, one: Request) -> None:
        """Do one example by one method, of which something fails: the explanation, or some of the tests."""
        for measure in (None, *self._settled.measures):
            try:
                sheet.add(work([item], [one], [] if measure is None else [measure]))
            except BaseException as error:  # as above
                work.clock.stop()
                _check_alive(error)
                if measure is None:
                    sheet.explained[item.row, one.name] = Failure.of(error)
                    return
                sheet.tested[item.row, one.name, measure.name] = Failure.of(error)

    def _records(self, sheet: Sheet, task: Task) -> list[Record]:
        """Return one row for each explanation, and one for each test of it."""
        identity, anchors = self.identity, self.explainer.loaded.anchors
        found: list[Record] = []
        for item in task.items:
            seen: Encoded | None = None
            read: Record = {}
            for name in task.methods:
                # A tagger may find nothing to explain, and say nothing of it.
                own = sheet.explained.get((item.row, name), _NOTHING)
                if isinstance(own, Explanation) and own.item is not None and own.item is not seen:
                    seen, read = own.item, records.tokens(own.item, anchors)
                found.append(records.explained(identity, item, name, own, read))
                for metric in identity.tested[name]:
                    test = sheet.tested.get((item.row, name, metric))
                    if test is None:
                        test = own if isinstance(own, Failure) else _NOTHING
                    found.append(records.tested(identity, item, name, metric, test))
        return found


_NOTHING = Failure("error", "There was nothing to explain of this input.", refused=True)


def _took(sheet: Sheet, method: str) -> Mapping[str, float]:
    """Return what a method took for all examples."""
    made = [
        one
        for (_, name), one in sheet.explained.items()
        if name == method and isinstance(one, Explanation)
    ]
    return {
        "examples": len(made),
        "seconds": sum(one.seconds for one in made),
        "forward": sum(one.passes.forward for one in made),
        "backward": sum(one.passes.backward for one in made),
    }


def _shared(sheet: Sheet) -> int:
    """Count the forward passes of all explanations: one that all methods share, and what some ask beside it."""
    made: dict[int, list[int]] = {}
    for (row, _), one in sheet.explained.items():
        if isinstance(one, Explanation):
            made.setdefault(row, []).append(one.passes.forward)
    # Every method counts the passes that it shares, and no method has fewer than these.
    return sum(min(own) + sum(count - min(own) for count in own) for own in made.values())


def _check_alive(error: BaseException) -> None:
    """Raise what is no result of an example: the run is to end, or whoever has the worker must take another."""
    if device_lost(error) or not is_failure(error):
        raise error


def _memory(explainer: Explainer) -> dict[str, int]:
    """Return the bytes that this process, and its accelerator, had at most so far."""
    found = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        found["host"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if explainer.loaded.device.type == "cuda":
        found["device"] = torch.cuda.max_memory_allocated(explainer.loaded.device)
    return found
