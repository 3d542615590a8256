"""What a run has to do: windows of the data, chunks of a window, and of each chunk what is missing."""

import sys

import pytest

from tests import stores
from whence.data.sets.examples import Example
from whence.data.sets.pictures import Stored
from whence.data.sets.source import Bad, Entry
from whence.run.choice import chosen
from whence.run.chunks import CHARACTERS, CHUNK, PICTURE, chunks, length, windows
from whence.run.run import _Work
from whence.run.store import Held
from whence.run.store.rows import LIGHT, from_records
from whence.run.task import Item

WHO = stores.identity(metrics=("sufficiency", "comprehensiveness"))


def entry(row, text="a fine film"):
    return Entry(row, f"line {row + 1}", Example(text))


def bad(row):
    return Bad(row, f"line {row + 1}", "no text")


def held(*records):
    """Hold some records, as if they had been read from a folder."""
    return Held(from_records(name, records).select(LIGHT) for name in ("explanations", "metrics"))


def opened(found, items, retry=False):
    """Say what is missing of a window of one chunk."""
    work = _Work(stores.plan(), None, None, WHO, retry, None)
    return work._opened(stores.Window(3, (tuple(items),)), found)


def of(one, *methods, error=None):
    return [record for name in methods for record in stores.records(WHO, one, name, error)]


def test_rows_that_cannot_be_read_are_no_examples_of_a_window():
    rows = [bad(0), entry(1), entry(2), bad(3), entry(4), bad(5), entry(6)]
    found = list(windows(rows, 3))
    # Three examples each; the rows between them go with the window that is open.
    assert [[item.row for item in one.items] for one in found] == [[1, 2, 4], [6]]
    assert [[one.row for one in each.bad] for each in found] == [[0, 3], [5]]
    assert [one.number for one in found] == [0, 1]


def test_no_window_has_more_bad_rows_than_examples():
    found = list(windows(map(bad, range(5)), 2))
    assert [[one.row for one in each.bad] for each in found] == [[0, 1], [2, 3], [4]]
    assert [one.number for one in found] == [0, 1, 2]
    assert list(windows([])) == []


def test_a_chunk_is_of_like_length_and_as_large_as_it_may_be():
    long = "x" * (CHARACTERS // 4)  # four of them are as much as there may be
    items = [stores.item(row, long) for row in range(6)]
    items += [stores.item(row, "ab") for row in range(6, 6 + CHUNK + 1)]
    found = chunks(items)
    assert [len(one) for one in found] == [
        CHUNK,
        4,
        3,
    ]  # the short one left over counts as a long one
    assert [item.row for item in found[0]] == list(range(6, 6 + CHUNK))  # equals by their place
    assert [len(one) for one in chunks([stores.item(0, long * 9), stores.item(1, long * 9)])] == [
        1,
        1,
    ]
    assert chunks([]) == ()
    seen = Item(0, "a", Example(Stored(b"1", "a.png")), "d", "g")
    assert length(seen) == PICTURE > length(stores.item(1))


def test_what_is_missing_is_asked_for_in_the_company_it_belongs_to():
    items = [stores.item(row) for row in range(4)]
    nothing = opened(held(), items)
    (task,) = nothing.missing
    assert (task.window, task.chunk, task.items, task.methods) == (
        3,
        0,
        tuple(items),
        ("attcat", "rollout"),
    )
    assert nothing.held == {"attcat": 0, "rollout": 0}
    # One method is there for all: the other is asked for alone, for the whole chunk.
    some = opened(held(*(r for one in items for r in of(one, "attcat"))), items)
    assert [(task.items, task.methods) for task in some.missing] == [(tuple(items), ("rollout",))]
    assert some.held == {"attcat": 4, "rollout": 0}
    whole = held(*(r for one in items for r in of(one, "attcat", "rollout")))
    assert opened(whole, items).missing == []
    assert opened(whole, items).held == {"attcat": 4, "rollout": 4}


@pytest.mark.parametrize("lost", ["explanations", "sufficiency", "comprehensiveness"])
def test_an_example_of_which_one_result_is_missing_is_done_again(lost):
    items = [stores.item(row) for row in range(3)]
    records = [r for one in items for r in of(one, "attcat", "rollout")]
    less = [
        r
        for r in records
        if not (r["row"] == 1 and r["method"] == "rollout" and lost == r.get("metric", r["table"]))
    ]
    assert len(less) == len(records) - 1
    (task,) = opened(held(*less), items).missing
    assert (task.items, task.methods) == ((items[1],), ("rollout",))


def test_equal_examples_in_two_rows_are_two_results():
    one, copy = stores.item(0, "the same"), stores.item(1, "the same")
    (task,) = opened(held(*of(one, "attcat", "rollout")), [one, copy]).missing
    assert task.items == (copy,)


def test_failures_are_tried_again_if_asked_for():
    items = [stores.item(row) for row in range(2)]
    records = [
        *of(items[0], "attcat", "rollout"),
        *of(items[1], "rollout"),
        *of(items[1], "attcat", error="not-finite"),
    ]
    as_is, again = (opened(held(*records), items, retry) for retry in (False, True))
    assert as_is.missing == []
    assert as_is.failed == {"attcat": 1, "rollout": 0}
    assert [(task.items, task.methods) for task in again.missing] == [((items[1],), ("attcat",))]
    assert again.failed == {"attcat": 0, "rollout": 0}  # it is not there any more, so to say


@pytest.mark.parametrize(
    ("limit", "rows"), [(2, [0, 1]), (None, [0, 1, 2]), (sys.maxsize + 1, [0, 1, 2])]
)
def test_a_limit_may_be_any_number(limit, rows):
    found = chosen([entry(row) for row in range(3)], stores.plan(limit=limit))
    assert [one.row for one in found] == rows
