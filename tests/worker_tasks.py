"""Helpers of worker tests: texts as numbered items, a plan, all examples as one task, records by table."""

from whence.data.dataset import compute_example_id, compute_input_id, read_dataset
from whence.runs.plan import Execution, Plan
from whence.runs.task import Item, Task
from whence.runs.worker import Worker

TEXTS = [
    "a gripping, beautifully acted film",
    "the plot is thin and the jokes are worse",
    "not a bad film at all",
    "dull, slow and far too long",
    "a warm and funny story that never tires",
    "i wanted to like it and could not",
    "good",
    "one of the best films of the year",
]


def items(given=TEXTS, first=0):
    """Number examples from `first` on."""
    return tuple(
        Item(row, str(row), one, compute_example_id(one), compute_input_id(one))
        for row, one in enumerate(read_dataset(given).examples, first)
    )


def plan(**changed):
    """Make a plan for a model that is given to the worker."""
    return Plan(
        **{
            "model": "reviews",
            "data": "some.tsv",
            "methods": ("attcat", "leave_one_out"),
            **changed,
        }
    )


def run_as_one_task(explainer, given=TEXTS, manner=Execution(), **changed):  # noqa: B008 - it cannot be changed
    """Let a worker do all examples as one task."""
    worker = Worker(plan(**changed), manner, explainer)
    some = given if given and isinstance(given[0], Item) else items(given)
    return worker.do(Task(0, 0, tuple(some), tuple(worker.identity.explained)))


def list_records(found):
    """Return all records of a result, with the table of each."""
    return [
        {"table": name, **row} for name, rows in found.tables.items() for row in rows.to_pylist()
    ]


def table(found, name):
    """Return the rows of a table, by row of the data, method and metric."""
    rows = found.tables[name].to_pylist()
    return {(row["row"], row["method"], row.get("metric")): row for row in rows}
