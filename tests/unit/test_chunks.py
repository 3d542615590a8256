"""Windows and chunks of a run, and the tasks that are missing in each chunk."""

import sys

import pytest

from tests import stores
from whence.data.dataset import DatasetRow, SkippedRow, open_dataset
from whence.data.example import Example, StoredImage
from whence.runs.chunks import (
    CHUNK_CHARACTERS,
    CHUNK_EXAMPLES,
    IMAGE_CHARACTERS,
    count_characters,
    iterate_selected_rows,
    iterate_windows,
    split_into_chunks,
)
from whence.runs.observers import RunProgress
from whence.runs.plan import Execution
from whence.runs.records import build_tables
from whence.runs.run import RunSession
from whence.runs.store import Store, WindowResults
from whence.runs.task import Item, TaskResult

WHO = stores.identity(metrics=("sufficiency", "comprehensiveness"))


def entry(row, text="a fine film"):
    return DatasetRow(row, f"line {row + 1}", Example(text))


def skipped_row(row):
    return SkippedRow(row, f"line {row + 1}", "no text")


def stored_results(*records):
    """Hold some records, as if they had been read from a folder."""
    return WindowResults(build_tables(records).values())


def find_missing(found, items, retry=False):
    """Say what is missing of a window of one chunk."""
    session = RunSession(stores.plan(), None, None, None, None, retry)
    return session.find_missing(stores.Window(3, (tuple(items),)), found, WHO)


def records_of(one, *methods, error=None):
    return [record for name in methods for record in stores.records(WHO, one, name, error)]


def test_iterate_windows_counts_unreadable_rows_apart_from_examples():
    rows = [skipped_row(0), entry(1), entry(2), skipped_row(3), entry(4), skipped_row(5), entry(6)]
    found = list(iterate_windows(rows, 3))
    # Three examples each; the rows between them go with the window that is open.
    assert [[item.row for item in one.items] for one in found] == [[1, 2, 4], [6]]
    assert [[one.row for one in each.bad] for each in found] == [[0, 3], [5]]
    assert [one.number for one in found] == [0, 1]


def test_iterate_windows_limits_unreadable_rows_to_the_window_size():
    found = list(iterate_windows(map(skipped_row, range(5)), 2))
    assert [[one.row for one in each.bad] for each in found] == [[0, 1], [2, 3], [4]]
    assert [one.number for one in found] == [0, 1, 2]
    assert list(iterate_windows([])) == []


def test_split_into_chunks_groups_similar_lengths_up_to_the_limits():
    long = "x" * (CHUNK_CHARACTERS // 4)  # four of them are as much as there may be
    items = [stores.item(row, long) for row in range(6)]
    items += [stores.item(row, "ab") for row in range(6, 6 + CHUNK_EXAMPLES + 1)]
    found = split_into_chunks(items)
    assert [len(one) for one in found] == [
        CHUNK_EXAMPLES,
        4,
        3,
    ]  # the short one left over counts as a long one
    assert [item.row for item in found[0]] == list(
        range(6, 6 + CHUNK_EXAMPLES)
    )  # equals by their place
    assert [
        len(one) for one in split_into_chunks([stores.item(0, long * 9), stores.item(1, long * 9)])
    ] == [
        1,
        1,
    ]
    assert split_into_chunks([]) == ()
    seen = Item(0, "a", Example(StoredImage(b"1", "a.png")), "d", "g")
    assert count_characters(seen) == IMAGE_CHARACTERS > count_characters(stores.item(1))


def test_find_missing_asks_for_the_missing_methods_of_the_whole_chunk():
    items = [stores.item(row) for row in range(4)]
    nothing = find_missing(stored_results(), items)
    (task,) = nothing.missing
    assert (task.window, task.chunk, task.items, task.methods) == (
        3,
        0,
        tuple(items),
        ("attcat", "rollout"),
    )
    assert nothing.held == {"attcat": 0, "rollout": 0}
    # One method is there for all: the other is asked for alone, for the whole chunk.
    some = find_missing(
        stored_results(*(r for one in items for r in records_of(one, "attcat"))), items
    )
    assert [(task.items, task.methods) for task in some.missing] == [(tuple(items), ("rollout",))]
    assert some.held == {"attcat": 4, "rollout": 0}
    whole = stored_results(*(r for one in items for r in records_of(one, "attcat", "rollout")))
    assert find_missing(whole, items).missing == []
    assert find_missing(whole, items).held == {"attcat": 4, "rollout": 4}


@pytest.mark.parametrize("lost", ["explanations", "sufficiency", "comprehensiveness"])
def test_find_missing_repeats_an_example_that_lacks_one_result(lost):
    items = [stores.item(row) for row in range(3)]
    records = [r for one in items for r in records_of(one, "attcat", "rollout")]
    less = [
        r
        for r in records
        if not (r["row"] == 1 and r["method"] == "rollout" and lost == r.get("metric", r["table"]))
    ]
    assert len(less) == len(records) - 1
    (task,) = find_missing(stored_results(*less), items).missing
    assert (task.items, task.methods) == ((items[1],), ("rollout",))


def test_find_missing_treats_equal_examples_in_two_rows_as_two():
    one, copy = stores.item(0, "the same"), stores.item(1, "the same")
    (task,) = find_missing(
        stored_results(*records_of(one, "attcat", "rollout")), [one, copy]
    ).missing
    assert task.items == (copy,)


def test_find_missing_repeats_failures_only_with_retry():
    items = [stores.item(row) for row in range(2)]
    records = [
        *records_of(items[0], "attcat", "rollout"),
        *records_of(items[1], "rollout"),
        *records_of(items[1], "attcat", error="not-finite"),
    ]
    as_is, again = (find_missing(stored_results(*records), items, retry) for retry in (False, True))
    assert as_is.missing == []
    assert as_is.failed == {"attcat": 1, "rollout": 0}
    assert [(task.items, task.methods) for task in again.missing] == [((items[1],), ("attcat",))]
    assert again.failed == {"attcat": 0, "rollout": 0}  # it is not there any more, so to say


@pytest.mark.parametrize(
    ("limit", "rows"), [(2, [0, 1]), (None, [0, 1, 2]), (sys.maxsize + 1, [0, 1, 2])]
)
def test_iterate_selected_rows_takes_any_limit_even_above_maxsize(limit, rows):
    found = iterate_selected_rows([entry(row) for row in range(3)], stores.plan(limit=limit))
    assert [one.row for one in found] == rows


class HandmadeBackend:
    """Results of `stores.records`; with `split`, one for each example, as of a task that killed workers."""

    identity, size = WHO, 1

    def __init__(self, split):
        self.split = split

    def map(self, tasks):
        for task in tasks:
            for items in [[item] for item in task.items] if self.split else [task.items]:
                records = [r for item in items for r in records_of(item, *task.methods)]
                yield TaskResult(task.window, task.chunk, build_tables(records), 0.1)


def test_session_with_split_tasks_closes_its_windows_and_writes_the_same_bytes(tmp_path):
    data = tmp_path / "reviews.tsv"
    data.write_text("text\tlabel\n" + "".join(f"review {n}\tpositive\n" for n in range(200)))
    for split in (False, True):
        with Store.open_locked(tmp_path / f"split {split}") as store:
            plan, watch = stores.plan(data=str(data)), RunProgress()
            RunSession(plan, Execution(), open_dataset(str(data)), store, watch).compute(
                HandmadeBackend(split)
            )
            store.finish()
            assert store.manifest["state"] == "complete"
            assert (watch.n_new, watch.examples) == (400, (200, 200))
    assert stores.contents(tmp_path / "split True") == stores.contents(tmp_path / "split False")
