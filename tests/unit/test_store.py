"""The store of a run: what goes in comes out, byte by byte, whoever wrote it and when."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.run.store import Held, Store
from whence.run.store.schema import COLUMNS, ORDER, SCHEMAS, VERSION

WHO = stores.identity()


@pytest.fixture
def whole(tmp_path):
    """Write the store of an undisturbed run."""
    return stores.filled(tmp_path / "whole")


@pytest.fixture
def begun(tmp_path):
    """Begin a run."""
    with Store.locked(tmp_path / "out") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        yield store


def test_what_goes_in_comes_out(whole):
    store = Store.read(whole)
    found = store.table("explanations").to_table().to_pylist()
    wanted = [
        {name: value for name, value in record.items() if name != "table"}
        for row in range(12)
        for method in ("attcat", "rollout")
        for record in stores.records(WHO, stores.item(row), method)[:1]
    ]
    unknown = {
        "pair": None,
        "gold": None,
        "right": None,
    }  # nobody said what the model calls the labels
    assert found == [{**unknown, **one} for one in wanted]  # floats to the bit
    tests = store.table("metrics").to_table().to_pylist()
    assert tests[0]["parts"] == [wanted[0]["probability"], None]
    assert store.windows() == [0, 1]
    assert store.manifest["state"] == "complete"
    assert store.manifest["totals"] == {
        "windows": 2,
        "examples": 12,
        "bad": 0,
        "explanations": {"rows": 24, "failed": 0},
        "metrics": {"rows": 24, "failed": 0},
    }
    assert store.counts() == dict.fromkeys(WHO.settings, 12)


def test_rows_are_sorted_and_the_schema_is_stated_in_every_file(whole):
    for name, order in ORDER.items():
        for path in (whole / name).iterdir():
            table = pq.read_table(path)
            placed = list(zip(*(table[column].to_pylist() for column in order), strict=True))
            assert placed == sorted(placed)
            assert table.schema.equals(SCHEMAS[name], check_metadata=True)
            assert table.schema.metadata == {
                b"whence": f"store {name}".encode(),
                b"version": str(VERSION).encode(),
            }


def test_neither_the_order_nor_the_chunks_nor_the_time_change_a_byte(whole, tmp_path):
    own = stores.window(0), stores.window(1)
    with Store.locked(tmp_path / "other") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for one in reversed(own):
            for chunk in reversed(range(3)):
                for method in ("rollout", "attcat"):  # one at a time, into the same chunk
                    given = stores.done(WHO, one, chunk, [method])
                    store.add(replace(given, records=given.records[::-1], seconds=9.0))
            store.commit(one)
        store.finish()
    assert stores.contents(tmp_path / "other") == stores.contents(whole)


def test_running_again_changes_nothing(whole):
    before = stores.contents(whole)
    stores.filled(whole)
    assert stores.contents(whole) == before


@pytest.mark.parametrize("committed", [0, 1])
@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_an_interrupted_run_goes_on(whole, tmp_path, committed, chunks):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for number in range(committed):
            stores.work(store, WHO, stores.window(number))
        for chunk in range(chunks):
            store.add(stores.done(WHO, stores.window(committed), chunk))
        raise KeyboardInterrupt
    assert [one["how"] for one in Store.read(out).events("end")] == ["KeyboardInterrupt"]
    assert Store.read(out).manifest["state"] == "running"
    assert sum(Store.read(out).counts().values()) == 24 * committed + 8 * chunks
    with Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        held = store.held(committed)
        assert len(held) == 8 * chunks  # 2 examples, 2 methods, an explanation and a test of each
    stores.filled(out)
    assert stores.contents(out) == stores.contents(whole)


def test_two_equal_examples_have_two_rows(begun):
    twins = stores.window(items=[stores.item(0, "the same"), stores.item(1, "the same")])
    first, second = twins.items
    begun.add(replace(stores.done(WHO, twins, 0), records=stores.records(WHO, first, "attcat")))
    held = begun.held(0)
    assert not stores.lacks(WHO, held, first, "attcat")
    assert stores.lacks(WHO, held, second, "attcat")
    begun.add(stores.done(WHO, twins, 0))
    begun.commit(twins)
    found = begun.table("explanations").to_table(columns=["row", "key", "method"]).to_pylist()
    assert [(one["row"], one["method"]) for one in found] == [
        (0, "attcat"), (0, "rollout"), (1, "attcat"), (1, "rollout"),
    ]  # fmt: skip
    assert len({one["key"] for one in found}) == 2


def test_a_failure_is_a_row_until_it_is_tried_again(tmp_path, whole):
    out = stores.filled(tmp_path / "out", failing=(2, 7))
    store = Store.read(out)
    assert store.manifest["totals"]["explanations"] == {"rows": 24, "failed": 4}
    (row,) = [
        one for one in store.table("explanations").to_table().to_pylist()
        if one["row"] == 2 and one["method"] == "attcat"
    ]  # fmt: skip
    assert (row["error"], row["why"], row["scores"]) == ("not-finite", "It did not work.", None)
    before = stores.contents(out)
    stores.filled(out)
    assert stores.contents(out) == before  # nobody asked for it
    with Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.held(0).failed) == 4  # 2 methods, an explanation and a test of each
        for number in (0, 1):
            stores.work(store, WHO, stores.window(number), retry=True)
        store.finish()
    assert stores.contents(out) == stores.contents(whole)


def test_what_worked_is_not_replaced_by_a_failure(begun):
    own = stores.window()
    begun.add(stores.done(WHO, own, 0))
    begun.add(stores.done(WHO, own, 0, failing=(0, 1)))
    assert begun.held(0).failed == set()
    begun.commit(own)
    assert begun.table("explanations").to_table()["error"].null_count == 4


def test_held_knows_rows_keys_and_failures():
    assert Held().lacks(0, "k")
    assert Held().keys == set()
    assert len(Held()) == 0


def test_unreadable_rows_are_in_the_index(begun):
    begun.commit(stores.window(bad=stores.BAD))
    assert list(begun.bad()) == [
        {"row": 3, "where": "reviews.tsv, line 4", "why": "It has no text."}
    ]


def test_a_run_that_lacks_something_is_not_complete(tmp_path):
    out = tmp_path / "out"
    with Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.add(stores.done(WHO, stores.window(), 0))
        store.commit(stores.window())
        store.finish()
    assert Store.read(out).manifest["state"] == "running"
    assert Store.read(out).lacking() == [0]


def test_half_a_character_does_no_harm(begun):
    own = stores.window(items=[stores.item(0)])
    given = stores.done(WHO, own, 0)
    given.records[0]["why"] = "half \ud800 of it"
    begun.add(given)
    begun.commit(own)
    assert begun.table("explanations").to_table()["why"][0].as_py() == "half ? of it"


def test_a_table_without_rows_can_be_read(begun):
    assert begun.table("metrics").count_rows() == 0
    assert list(begun.batches("metrics")) == []
    begun.commit(stores.window())
    assert list(begun.batches("metrics")) == []


def test_pending_rows_can_be_read_too(begun):
    own = stores.window()
    stores.work(begun, WHO, stores.window(1))
    begun.add(stores.done(WHO, own, 1))
    assert begun.table("explanations").count_rows() == 12
    assert begun.table("explanations", pending=True).count_rows() == 16


def test_the_journal_says_who_when_and_how_long(whole):
    first = next(Store.read(whole).events("task"))
    assert first["worker"] == "worker 1"
    assert (first["window"], first["chunk"], first["examples"], first["seconds"]) == (0, 0, 2, 0.5)
    assert first["costs"] == {"attcat": {"seconds": 0.25}}
    with (whole / "journal" / "000000.jsonl").open("a") as stream:
        stream.write('{"at": "2026", "ki')  # torn
    assert [one["kind"] for one in Store.read(whole).events()][-1] == "end"


def test_no_time_and_no_host_is_in_what_counts(whole):
    import socket
    from datetime import UTC, datetime

    for name, raw in stores.contents(whole).items():
        assert str(datetime.now(UTC).year).encode() + b"-" not in raw, name
        assert socket.gethostname().encode() not in raw, name


def test_audits_are_kept(begun, tmp_path):
    begun.add_audit("permutation", {"verdict": "fails", "values": [0.1, None]})
    assert Store.read(tmp_path / "out").audits() == {
        "permutation": {"verdict": "fails", "values": [0.1, None]}
    }


def test_other_versions_are_warned_of(whole):
    stores.filled(
        whole, who=stores.identity(device="cuda")
    )  # no version: no warning, which is an error here
    with pytest.warns(UserWarning, match=r"with torch 2.0, and the rest will be with 3\.0"):
        stores.filled(whole, who=replace(WHO, software={"torch": "3.0"}))


def test_other_code_is_warned_of(whole):
    with pytest.warns(UserWarning, match="The code that computes has changed .* is computed again"):
        stores.filled(whole, who=replace(WHO, code="other"))


def test_every_column_says_what_it_means():
    for columns in COLUMNS.values():
        assert all(column.meaning for column in columns)


def test_a_run_while_the_clock_jumps(whole, tmp_path, monkeypatch):
    """Times are in the journal alone, and nothing is decided by them."""
    from whence.run.store import journal

    class Backwards(journal.datetime):
        hours = 24

        @classmethod
        def now(cls, zone=None):
            cls.hours -= 1
            return cls(2001, 1, 1 + cls.hours // 24, cls.hours % 24, tzinfo=zone)

    monkeypatch.setattr(journal, "datetime", Backwards)
    monkeypatch.setattr("time.time", lambda: 0.0)
    stores.filled(tmp_path / "out")
    assert stores.contents(tmp_path / "out") == stores.contents(whole)


def test_reading_takes_no_lock_and_writes_nothing(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    store = Store.read(whole)
    store.table("explanations", pending=True).to_table()
    assert (list(store.bad()), store.audits(), store.damage()) == ([], {}, [])
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before
