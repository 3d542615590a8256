"""Toy workers without a model: a task's text makes them wait, raise or die; others fail on load; toy tasks."""

import faulthandler
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from whence.core.errors import UnknownModel
from whence.data.example import Example
from whence.runs.plan import Execution, Plan
from whence.runs.records import build_tables
from whence.runs.task import Identity, Item, Task, TaskResult

SETTING = "0123456789abcdef"


def identity(code: str = "c0de") -> Identity:
    """Return who the workers here are."""
    return Identity(
        model={"name": "toy", "fingerprint": "f00d"},
        code=code,
        settings={SETTING: {"method": "toy"}},
        explained={"toy": SETTING},
        tested={"toy": {}},
    )


class ToyWorker:
    """Does what the first word of a text says; any other word is done at once."""

    def __init__(self, plan: Plan, manner: Execution) -> None:
        self.identity = identity()

    def do(self, task: Task) -> TaskResult:
        """Do what the texts say, one after the other."""
        records = []
        for item in task.items:
            word, _, rest = item.example.texts[0].partition(" ")
            if word == "die" or (word == "once" and not Path(rest).exists()):
                Path(rest or os.devnull).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if word == "lost" and not Path(rest).exists():
                Path(rest).touch()
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            if word == "raise":
                raise ValueError("as it was told")
            time.sleep({"slow": 0.1, "forever": 600}.get(word, 0))
            facts = {
                "alone": len(task.items) == 1,
                "pid": os.getpid(),
                "threads": os.environ.get("OMP_NUM_THREADS"),
            }
            names = dict.fromkeys(("key", "example"), item.digest) | {"id": json.dumps(facts)}
            what = {"table": "explanations", "setting": SETTING, "method": "toy"}
            records.append({"row": item.row, **names, **what})
        costs = {"toy": {"seconds": 1.0, "forward": float(len(task.items))}}
        return TaskResult(
            task.window,
            task.chunk,
            build_tables(records),
            1.0,
            costs,
            f"toy {os.getpid()}",
            {"host": 7, "device": 0},
        )


def read_records(result: TaskResult) -> list[dict[str, Any]]:
    """Return the records of a result, with what a toy worker says of itself; one that killed says nothing."""
    records: list[dict[str, Any]] = result.tables["explanations"].to_pylist()
    return [{**one, **({} if one["error"] else json.loads(one["id"]))} for one in records]


def unloadable(plan: Plan, manner: Execution) -> ToyWorker:
    """Find no model."""
    raise UnknownModel(f"There is no model {plan.model!r}.")


def failing_on_load(plan: Plan, manner: Execution) -> ToyWorker:
    """Raise what nobody expected."""
    raise ZeroDivisionError("division by zero")


def dying_on_load(plan: Plan, manner: Execution) -> ToyWorker:
    """Die while the model is loaded."""
    faulthandler.disable()  # pytest's, which would tell where
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


class OtherCodeWorker(ToyWorker):
    """Every worker but the first has other code: a file named by the plan says who is the first."""

    def __init__(self, plan: Plan, manner: Execution) -> None:
        first = not Path(plan.model).exists()
        Path(plan.model).touch()
        self.identity = identity("c0de" if first else "0ther")


class OnlyFirstWorker(ToyWorker):
    """No worker but the first can be started: a file named by the plan says who is the first."""

    def __init__(self, plan: Plan, manner: Execution) -> None:
        if Path(plan.model).exists():
            raise UnknownModel("There is no memory for a second one.")
        Path(plan.model).touch()
        super().__init__(plan, manner)


def tasks(*texts: str, size: int = 1) -> list[Task]:
    """Make tasks of `size` texts each."""
    items = [
        Item(row, f"row {row}", Example(text), f"{row:064}", "") for row, text in enumerate(texts)
    ]
    return [
        Task(0, number, tuple(items[start : start + size]), ("toy",))
        for number, start in enumerate(range(0, len(items), size))
    ]
