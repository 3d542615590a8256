"""Progress and cost estimates of runs, by hand with a fake clock; also shards, sampled rows and windows."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import whence
from whence.core.errors import BadExamples
from whence.data.dataset import Dataset, DatasetRow, SkippedRow
from whence.data.example import Example
from whence.runs.chunks import (
    WINDOW_BYTES,
    count_selected_rows,
    is_in_other_shard,
    iterate_selected_rows,
    iterate_windows,
)
from whence.runs.observers import RunEstimate, RunProgress, ValueRange, WindowStatus, estimate_cost
from whence.runs.plan import Plan
from whence.runs.task import Identity, Item, Task, TaskResult

IDENTITY = Identity(
    {"name": "toy"},
    "c0de",
    {"a": {"example": "given"}, "b": {"example": "given"}, "t": {"example": "all"}},
    {"attcat": "a", "leave_one_out": "b"},
    {"attcat": {"aopc": "t"}, "leave_one_out": {}},
)
PLAN = Plan("toy", "toy.tsv", ("attcat", "leave_one_out"), ("aopc",))


class ToyDataset:
    """A data set of short texts, of which some rows cannot be read."""

    name = "toy.tsv"

    def __init__(self, count: int, bad: Iterable[int] = (), known: bool = True) -> None:
        self.rows, self.bad, self.known = count, set(bad), known

    def __iter__(self) -> Iterator[DatasetRow | SkippedRow]:
        for row in range(self.rows):
            if row in self.bad:
                yield SkippedRow(row, f"line {row}", "It is not JSON.")
            else:
                yield DatasetRow(row, str(row), Example("a" * (row % 7 + 1)))

    def count(self) -> int | None:
        return self.rows if self.known else None

    def facts(self):
        return {"name": self.name, "columns": {}, "guessed": []}


class TimedWorkers:
    """A worker that says what it took: a second for each example, but for the first, which takes two."""

    identity = IDENTITY
    size = 2

    def __init__(self, seconds: float = 1.0) -> None:
        self.tasks: list[Task] = []
        self.seconds = seconds

    def map(self, tasks):
        for task in tasks:
            self.tasks.append(task)
            n = len(task.items)
            yield TaskResult(
                task.window,
                task.chunk,
                {},
                (2 if len(self.tasks) == 1 else 1) * n * self.seconds,
                {
                    "attcat": {"seconds": 1.0 * n, "forward": n, "backward": n},
                    "leave_one_out": {"seconds": 2.0 * n, "forward": 6 * n, "backward": 0},
                    "": {"seconds": 1.0 * n, "forward": 10 * n},
                },
                memory={"host": 100 + n},
            )


def items(count):
    return tuple(Item(row, str(row), Example("a"), "d", "g") for row in range(count))


def explanations(methods, errors=None):
    """Return the tables of a task, with a row for each method named."""
    nothing = pa.array(errors or [None] * len(methods), pa.string())
    return {
        "explanations": pa.table({"row": [0] * len(methods), "method": methods, "error": nothing})
    }


def test_run_progress_counts_done_failed_and_remaining_by_method():
    now = SimpleNamespace(time=1000.0)
    seen = RunProgress(clock=lambda: now.time)
    seen.on_start(PLAN, "toy.tsv", IDENTITY, 1)
    seen.on_estimate(RunEstimate(12, own=10))
    first = Task(0, 0, items(4), ("attcat", "leave_one_out"))
    second = Task(0, 1, items(4), ("leave_one_out",))
    held = {"attcat": 6, "leave_one_out": 2}
    seen.on_window(WindowStatus(0, 10, 2, held, {"attcat": 1, "leave_one_out": 0}, [first, second]))
    assert [one.rate for one in seen.list_method_progress()] == [None, None]
    assert [one.seconds for one in seen.list_method_progress()] == [None, None]
    now.time += 8
    explained = explanations(["attcat", "leave_one_out"] * 4, [None, "not-finite", *[None] * 6])
    seen.on_task_done(TaskResult(0, 0, explained, 8.0))
    attcat, loo = seen.list_method_progress()
    # 6 + 4 of 10; 4 in 8 seconds
    assert (attcat.done, attcat.before, attcat.failed, attcat.left) == (10, 6, 1, 0)
    assert (attcat.rate, attcat.seconds) == (0.5, 0.0)
    # 2 + 4 of 10, and 4 more at 0.5 a second are 8 seconds
    assert (loo.done, loo.failed, loo.left, loo.rate, loo.seconds) == (6, 1, 4, 0.5, 8.0)
    assert seen.examples == (6, 10)
    assert (seen.n_new, seen.n_explanations, seen.n_failed, seen.bad) == (8, 16, 2, 2)


def test_run_progress_rate_follows_the_most_recent_tasks():
    now = SimpleNamespace(time=0.0)
    seen = RunProgress(clock=lambda: now.time)
    seen.on_start(PLAN, "toy.tsv", IDENTITY, 1)
    seen.on_estimate(RunEstimate(None))
    tasks = [Task(0, number, items(1), ("attcat",)) for number in range(200)]
    seen.on_window(WindowStatus(0, 200, 0, {}, {}, tasks))
    for number in range(200):
        now.time += 10.0 if number < 100 else 0.5
        seen.on_task_done(TaskResult(0, number, explanations(["attcat"]), 0.0))
    attcat, _ = seen.list_method_progress()
    assert attcat.rate == pytest.approx(2.0)
    assert (attcat.total, attcat.seconds) == (None, None)  # nobody knows how many


def test_run_calls_progress_with_examples_done_and_in_all(tmp_path):
    data = tmp_path / "rows.txt"
    data.write_text("a fine film\na dull film\na film\n")
    plan = {"model": "reviews", "data": str(data), "methods": ["gradient"]}
    calls = []
    whence.run(out=tmp_path / "run", progress=lambda *units: calls.append(units), **plan)
    assert calls[-1] == (3, 3)
    assert all(done <= total == 3 for done, total in calls)


def test_run_progress_with_a_stopped_clock_has_no_rate():
    seen = RunProgress(clock=lambda: 5.0)
    seen.on_start(PLAN, "toy.tsv", IDENTITY, 1)
    seen.on_window(WindowStatus(0, 1, 0, {}, {}, [Task(0, 0, items(1), ("attcat",))]))
    seen.on_task_done(TaskResult(0, 0, explanations(["attcat"]), 0.0))
    assert seen.list_method_progress()[0].rate is None


def test_estimate_cost_multiplies_cost_per_example_by_remaining_examples():
    workers = TimedWorkers(seconds=0.001)
    found = estimate_cost(PLAN, ToyDataset(102, bad=(3, 4)), workers)
    # 1, 4, 16 and 64 examples, spread over their lengths, and none of a window
    assert [len(task.items) for task in workers.tasks] == [1, 4, 16, 64]
    assert {task.window for task in workers.tasks} == {-1}
    assert (found.rows, found.own, found.sampled) == (102, 100, 85)
    # A millisecond for an example: a quarter of it attcat's, a half leave_one_out's, a quarter the tests'.
    attcat, loo, tests = (found.parts[name] for name in ("attcat", "leave_one_out", ""))
    assert attcat.seconds.middle == pytest.approx(0.00025)
    assert loo.seconds.middle == pytest.approx(0.0005)
    assert tests.left == 100
    # 100 examples by two workers: 0.05 seconds. From task to task nothing changed: a quarter to either side.
    assert found.seconds == ValueRange(
        pytest.approx(0.05 / 1.25), pytest.approx(0.05), pytest.approx(0.05 * 1.25)
    )
    # attcat reads 1 forward and backward; leave_one_out asks 6, the tests 10: 17 for each of 100
    assert found.calls == (1700, 100)
    assert found.memory == {"host": 164}
    assert found.to_dict()["seconds"][1] == pytest.approx(0.05)


def test_estimate_cost_sums_the_results_of_a_sample_task_that_killed_workers():
    class SplittingWorkers(TimedWorkers):
        """Each example has a result of its own, as after two deaths."""

        def map(self, tasks):
            for task in tasks:
                yield from super().map([replace(task, items=(item,)) for item in task.items])

    whole = estimate_cost(PLAN, ToyDataset(100), TimedWorkers(0.001))
    split = estimate_cost(PLAN, ToyDataset(100), SplittingWorkers(0.001))
    assert split.seconds.middle == pytest.approx(whole.seconds.middle)
    assert (split.calls, split.sampled) == (whole.calls, whole.sampled)


def test_estimate_cost_of_slow_examples_samples_only_one():
    # The first takes 20 seconds, so four of them would take longer than anybody waits for an estimate.
    slow = TimedWorkers(seconds=10.0)
    found = estimate_cost(PLAN, ToyDataset(100), slow)
    assert [len(task.items) for task in slow.tasks] == [1]
    assert found.seconds.high == pytest.approx(3 * found.seconds.middle)


def test_estimate_cost_tries_no_more_slow_examples_than_its_share_of_the_work():
    few = TimedWorkers(seconds=1.0)
    estimate_cost(PLAN, ToyDataset(12), few, share=0.05)
    assert [len(task.items) for task in few.tasks] == [1]
    many = TimedWorkers(seconds=1.0)
    estimate_cost(PLAN, ToyDataset(100), many, share=0.05)
    assert [len(task.items) for task in many.tasks] == [1, 4]
    quick = TimedWorkers(seconds=0.001)
    estimate_cost(PLAN, ToyDataset(12), quick, share=0.05)
    assert len(quick.tasks) > 1


def test_estimate_cost_subtracts_stored_results():
    held = SimpleNamespace(count_results=lambda: {"a": 10, "t": 4, "b": 10}, list_bad_rows=list)
    workers = TimedWorkers(0.001)
    found = estimate_cost(PLAN, ToyDataset(10), workers, held)
    # attcat is there for all, and tested for 4 only
    assert {name: part.left for name, part in found.parts.items()} == {
        "attcat": 6,
        "leave_one_out": 0,
        "": 6,
    }
    assert {task.methods for task in workers.tasks} == {("attcat",)}
    assert max(len(task.items) for task in workers.tasks) == 6  # no more than there are
    done = SimpleNamespace(count_results=lambda: dict.fromkeys("abt", 10), list_bad_rows=list)
    idle = TimedWorkers()
    assert estimate_cost(PLAN, ToyDataset(10), idle, done).is_complete
    assert not idle.tasks


def test_estimate_cost_of_data_of_unknown_length_has_no_total():
    found = estimate_cost(PLAN, ToyDataset(10, known=False), TimedWorkers(0.001))
    assert (found.rows, found.seconds, found.calls) == (None, None, None)
    assert not found.is_complete
    assert found.to_dict()["seconds"] is None


def test_estimate_cost_of_all_shards_sums_to_the_readable_rows():
    whole = ToyDataset(500, bad=range(10))
    own = [
        estimate_cost(Plan("toy", "toy.tsv", shard=(part, 3)), whole, TimedWorkers(0.001)).own
        for part in (1, 2, 3)
    ]
    assert sum(own) == 490
    assert all(own)


def test_every_chunk_belongs_to_exactly_one_shard():
    for window in range(3):
        for chunk in range(20):
            parts = [
                part
                for part in range(1, 5)
                if not is_in_other_shard(Plan("m", "d", shard=(part, 4)), window, chunk)
            ]
            assert len(parts) == 1


def test_iterate_selected_rows_draws_the_same_sample_as_dataset_draw():
    rows = ToyDataset(50)
    plan = Plan("toy", "toy.tsv", sample=7, seed=3)
    drawn = [one.example for one in iterate_selected_rows(rows, plan)]
    assert drawn == Dataset.from_examples([one.example for one in rows], "rows").draw(7, 3).examples
    first = Plan("toy", "toy.tsv", sample=7, seed=3, limit=2)
    assert [one.example for one in iterate_selected_rows(rows, first)] == drawn[:2]
    assert (count_selected_rows(rows, plan), count_selected_rows(rows, first)) == (7, 2)
    assert count_selected_rows(rows, Plan("toy", "toy.tsv", limit=80)) == 50
    assert count_selected_rows(ToyDataset(5, known=False), Plan("toy", "toy.tsv")) is None
    with pytest.raises(BadExamples, match="Nobody knows how many rows"):
        list(iterate_selected_rows(ToyDataset(5, known=False), plan))


def test_iterate_windows_ends_a_window_at_the_byte_limit():
    texts = ["a" * (WINDOW_BYTES // 2), "b" * (WINDOW_BYTES // 2), "c", "d"]
    entries = [DatasetRow(row, str(row), Example(text)) for row, text in enumerate(texts)]
    assert [[item.row for item in one.items] for one in iterate_windows(entries)] == [
        [0, 1, 2],
        [3],
    ]
