"""How far a run is and what it will take: counted and computed by hand, with a clock that the test sets."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace

import pytest

from whence.core.errors import BadExamples
from whence.data.sets.examples import Example, sample
from whence.data.sets.source import Bad, Entry
from whence.run.choice import chosen, elsewhere, rows_chosen
from whence.run.chunks import BYTES, windows
from whence.run.cost import Estimate, Span, estimated
from whence.run.plan import Plan
from whence.run.progress import Progress
from whence.run.task import Done, Identity, Item, Task
from whence.run.watch import Opened

IDENTITY = Identity(
    {"name": "toy"},
    "c0de",
    {"a": {"example": "given"}, "b": {"example": "given"}, "t": {"example": "all"}},
    {"attcat": "a", "leave_one_out": "b"},
    {"attcat": {"aopc": "t"}, "leave_one_out": {}},
)
PLAN = Plan("toy", "toy.tsv", ("attcat", "leave_one_out"), ("aopc",))


class Rows:
    """A data set of short texts, of which some rows cannot be read."""

    name = "toy.tsv"

    def __init__(self, count: int, bad: Iterable[int] = (), known: bool = True) -> None:
        self.rows, self.bad, self.known = count, set(bad), known

    def __iter__(self) -> Iterator[Entry | Bad]:
        for row in range(self.rows):
            if row in self.bad:
                yield Bad(row, f"line {row}", "It is not JSON.")
            else:
                yield Entry(row, str(row), Example("a" * (row % 7 + 1)))

    def count(self) -> int | None:
        return self.rows if self.known else None

    def facts(self):
        return {"name": self.name, "columns": {}, "guessed": []}


class Toy:
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
            yield Done(
                task.window,
                task.chunk,
                [],
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


def test_progress_is_counted_by_method():
    now = SimpleNamespace(time=1000.0)
    seen = Progress(clock=lambda: now.time)
    seen.start(PLAN, "toy.tsv", IDENTITY, 1)
    seen.estimate(Estimate(12, own=10))
    first = Task(0, 0, items(4), ("attcat", "leave_one_out"))
    second = Task(0, 1, items(4), ("leave_one_out",))
    held = {"attcat": 6, "leave_one_out": 2}
    seen.window(Opened(0, 10, 2, held, {"attcat": 1, "leave_one_out": 0}, [first, second]))
    assert [one.rate for one in seen.standings()] == [None, None]
    assert [one.seconds for one in seen.standings()] == [None, None]
    now.time += 8
    failed = {"table": "explanations", "row": 0, "method": "leave_one_out", "error": "not-finite"}
    untested = {"table": "metrics", "row": 0, "method": "attcat", "error": "not-finite"}
    fine = {"table": "explanations", "row": 0, "method": "attcat", "error": None}
    seen.done(Done(0, 0, [failed, untested, fine], 8.0))
    attcat, loo = seen.standings()
    # 6 + 4 of 10; 4 in 8 seconds
    assert (attcat.done, attcat.before, attcat.failed, attcat.left) == (10, 6, 1, 0)
    assert (attcat.rate, attcat.seconds) == (0.5, 0.0)
    # 2 + 4 of 10, and 4 more at 0.5 a second are 8 seconds
    assert (loo.done, loo.failed, loo.left, loo.rate, loo.seconds) == (6, 1, 4, 0.5, 8.0)
    assert seen.left() == 8.0
    assert seen.examples == (6, 10)
    assert (seen.new, seen.held, seen.failed, seen.bad, seen.tests_failed) == (8, 16, 2, 2, 1)


def test_the_rate_is_that_of_late():
    now = SimpleNamespace(time=0.0)
    seen = Progress(clock=lambda: now.time)
    seen.start(PLAN, "toy.tsv", IDENTITY, 1)
    seen.estimate(Estimate(None))
    tasks = [Task(0, number, items(1), ("attcat",)) for number in range(200)]
    seen.window(Opened(0, 200, 0, {}, {}, tasks))
    for number in range(200):
        now.time += 10.0 if number < 100 else 0.5
        seen.done(Done(0, number, [], 0.0))
    attcat, _ = seen.standings()
    assert attcat.rate == pytest.approx(2.0)
    assert (attcat.total, attcat.seconds, seen.left()) == (
        None,
        None,
        None,
    )  # nobody knows how many


def test_a_clock_that_stands_still_divides_nothing():
    seen = Progress(clock=lambda: 5.0)
    seen.start(PLAN, "toy.tsv", IDENTITY, 1)
    seen.window(Opened(0, 1, 0, {}, {}, [Task(0, 0, items(1), ("attcat",))]))
    seen.done(Done(0, 0, [], 0.0))
    assert seen.standings()[0].rate is None


def test_an_estimate_is_what_an_example_takes_times_those_that_are_left():
    workers = Toy(seconds=0.001)
    found = estimated(PLAN, Rows(102, bad=(3, 4)), workers)
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
    assert found.seconds == Span(
        pytest.approx(0.05 / 1.25), pytest.approx(0.05), pytest.approx(0.05 * 1.25)
    )
    # attcat reads 1 forward and backward; leave_one_out asks 6, the tests 10: 17 for each of 100
    assert found.calls == (1700, 100)
    assert found.memory == {"host": 164}
    assert found.to_dict()["seconds"][1] == pytest.approx(0.05)


def test_what_is_dear_is_tried_on_few():
    # The first takes 20 seconds, so four of them would take longer than anybody waits for an estimate.
    slow = Toy(seconds=10.0)
    found = estimated(PLAN, Rows(100), slow)
    assert [len(task.items) for task in slow.tasks] == [1]
    assert found.seconds.high == pytest.approx(3 * found.seconds.middle)


def test_what_is_there_is_subtracted():
    held = SimpleNamespace(counts=lambda: {"a": 10, "t": 4, "b": 10}, bad=lambda: iter(()))
    workers = Toy(0.001)
    found = estimated(PLAN, Rows(10), workers, held)
    # attcat is there for all, and tested for 4 only
    assert {name: part.left for name, part in found.parts.items()} == {
        "attcat": 6,
        "leave_one_out": 0,
        "": 6,
    }
    assert {task.methods for task in workers.tasks} == {("attcat",)}
    assert max(len(task.items) for task in workers.tasks) == 6  # no more than there are
    done = SimpleNamespace(counts=lambda: dict.fromkeys("abt", 10), bad=lambda: iter(()))
    idle = Toy()
    assert estimated(PLAN, Rows(10), idle, done).nothing_left
    assert not idle.tasks


def test_where_nobody_knows_how_many_there_are():
    found = estimated(PLAN, Rows(10, known=False), Toy(0.001))
    assert (found.rows, found.seconds, found.calls) == (None, None, None)
    assert not found.nothing_left
    assert found.to_dict()["seconds"] is None


def test_a_part_of_a_run_is_counted():
    whole = Rows(500, bad=range(10))
    own = [
        estimated(Plan("toy", "toy.tsv", shard=(part, 3)), whole, Toy(0.001)).own
        for part in (1, 2, 3)
    ]
    assert sum(own) == 490
    assert all(own)


def test_every_chunk_is_in_one_part():
    for window in range(3):
        for chunk in range(20):
            parts = [
                part
                for part in range(1, 5)
                if not elsewhere(Plan("m", "d", shard=(part, 4)), window, chunk)
            ]
            assert len(parts) == 1


def test_rows_are_chosen_as_evaluate_draws_them():
    rows = Rows(50)
    plan = Plan("toy", "toy.tsv", sample=7, seed=3)
    drawn = [one.example for one in chosen(rows, plan)]
    assert drawn == sample([one.example for one in rows], 7, 3)
    first = Plan("toy", "toy.tsv", sample=7, seed=3, limit=2)
    assert [one.example for one in chosen(rows, first)] == drawn[:2]
    assert (rows_chosen(rows, plan), rows_chosen(rows, first)) == (7, 2)
    assert rows_chosen(rows, Plan("toy", "toy.tsv", limit=80)) == 50
    assert rows_chosen(Rows(5, known=False), Plan("toy", "toy.tsv")) is None
    with pytest.raises(BadExamples, match="Nobody knows how many rows"):
        list(chosen(Rows(5, known=False), plan))


def test_a_window_of_huge_texts_is_short():
    texts = ["a" * (BYTES // 2), "b" * (BYTES // 2), "c", "d"]
    entries = [Entry(row, str(row), Example(text)) for row, text in enumerate(texts)]
    assert [[item.row for item in one.items] for one in windows(entries)] == [[0, 1, 2], [3]]
