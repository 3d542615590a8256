"""The store: what goes in comes out, and the folder is the same bytes whatever happened on the way."""

import os
import subprocess
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.core.errors import BadStore, CannotWrite, StoreInUse
from whence.run.store import Held, Store, manifest
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
    assert found == [{"pair": None, **one} for one in wanted]  # floats to the bit
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


def test_more_methods_metrics_and_rows_are_welcome(whole, tmp_path):
    out = tmp_path / "out"
    few = stores.identity(methods=("attcat",), metrics=())
    stores.filled(out, stores.plan(limit=6), few, windows=(0,))
    assert not (out / "metrics").exists() or not list((out / "metrics").iterdir())
    stores.filled(out)
    assert stores.contents(out) == stores.contents(whole)


def test_fewer_methods_and_rows_lose_nothing(whole):
    before = stores.contents(whole)
    few = stores.identity(methods=("rollout",), metrics=())
    with Store.locked(whole) as store:
        store.begin(stores.plan(limit=2), few, stores.DATA)
        stores.work(store, few, stores.window(items=[stores.item(0), stores.item(1)]))
        store.finish()
    assert stores.contents(whole) == before


def test_a_shorter_run_on_an_unfinished_one_does_not_call_it_complete(tmp_path):
    out = tmp_path / "out"
    with Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        stores.work(store, WHO, stores.window(0))
    stores.filled(out, stores.plan(limit=6), windows=(0,))
    assert Store.read(out).manifest["state"] == "running"
    assert Store.read(out).manifest["plan"]["limit"] is None


def test_results_of_other_code_stay_beside_the_new_ones(whole):
    other = stores.identity()
    settings = {f"{name[:-1]}x": facts for name, facts in other.settings.items()}
    other = replace(
        other,
        settings=settings,
        explained={method: f"{name[:-1]}x" for method, name in other.explained.items()},
        tested={m: {k: f"{v[:-1]}x" for k, v in t.items()} for m, t in other.tested.items()},
    )
    stores.filled(whole, who=other)
    store = Store.read(whole)
    assert store.table("explanations").count_rows() == 48
    assert store.manifest["explained"] == other.explained
    assert set(store.manifest["settings"]) == set(WHO.settings) | set(settings)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"who": stores.identity(fingerprint="f2")}, "another model: fingerprint 'f1', .* 'f2'"),
        ({"data": {**stores.DATA, "name": "movies.tsv"}}, "another data set: name 'reviews.tsv'.*'movies.tsv'"),
        ({"data": {**stores.DATA, "columns": {"text": "body"}}}, "another choice of columns"),
        ({"asked": stores.plan(sample=5)}, "another sample: none there, sample 5 now"),
        ({"asked": stores.plan(seed=1)}, "another seed: seed 0 there, seed 1 now"),
    ],
)  # fmt: skip
def test_other_questions_are_refused(whole, changed, said):
    before = stores.contents(whole)
    with pytest.raises(BadStore, match=said):
        stores.filled(whole, **changed)
    assert stores.contents(whole) == before


def test_a_row_that_changed_is_computed_again_and_the_rest_is_kept(whole):
    items = [stores.item(row) for row in range(6)]
    items[2] = stores.item(2, "another text")
    items[3] = stores.item(3, label="negative")  # the explanation stays, its test does not
    changed = stores.window(items=items)
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        held = store.held(changed)
        lacking = [one.row for one in items if stores.lacks(WHO, held, one, "attcat")]
        assert lacking == [2, 3]
        assert not held.lacks(3, WHO.key(WHO.explained["attcat"], items[3]))
        stores.work(store, WHO, changed)
        stores.work(store, WHO, stores.window(1))
        store.finish()
        assert store.manifest["state"] == "complete"
    rows = Store.read(whole).table("explanations").to_table().to_pylist()
    assert [one["text"] for one in rows if one["row"] == 2] == ["another text"] * 2
    assert [(one["label"], one["example"]) for one in rows if one["row"] == 3] == [
        ("negative", items[3].digest)
    ] * 2
    assert len(rows) == 24


def test_a_row_that_changed_goes_even_if_nothing_new_comes(whole):
    items = [stores.item(row) for row in range(6)]
    items[2] = stores.item(2, "another text")
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.commit(stores.window(items=items))
        assert len(store.held(0)) == 20
        assert store.manifest["state"] == "running"


def test_rows_that_are_gone_from_the_data_go_from_the_store(whole, tmp_path):
    short = stores.window(items=[stores.item(row) for row in range(4)])
    for out in (whole, tmp_path / "fresh"):
        with Store.locked(out) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            stores.work(store, WHO, short)
            store.finish()
    assert stores.contents(whole) == stores.contents(tmp_path / "fresh")


def test_data_that_has_nothing_in_common_with_the_store_is_refused(whole):
    before = stores.contents(whole)
    other = stores.window(items=[stores.item(row, f"other {row}") for row in range(6)])
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        with pytest.raises(BadStore, match=r"in rows 0 to 5 of 'reviews\.tsv' no example is what"):
            store.held(other)
    assert stores.contents(whole) == before


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


def test_tests_of_an_explanation_that_is_made_anew_count_no_more():
    def stated(method, explanation, metrics):
        settings = {one: {"explanation": explanation} for one in metrics.values()}
        tested = {method: metrics}
        plan = {"methods": [method], "metrics": [*metrics], "audit": [], "limit": None}
        facts = {"plan": plan, "parts": None, "settings": settings, "tested": tested}
        return {**facts, "explained": {method: explanation}}

    old = stated("attcat", "e1", {"sufficiency": "t1"})
    again = stated("attcat", "e1", {"flip": "t2"})
    assert manifest.joined(old, again)["tested"] == {"attcat": {"sufficiency": "t1", "flip": "t2"}}
    anew = stated("attcat", "e2", {"flip": "t3"})
    assert manifest.joined(old, anew)["tested"] == {"attcat": {"flip": "t3"}}
    other = stated("rollout", "e3", {})
    assert manifest.joined(old, other)["tested"] == {"attcat": {"sufficiency": "t1"}, "rollout": {}}


def test_a_run_that_did_not_begin_leaves_no_run(tmp_path):
    with pytest.raises(ValueError, match="no such target"), Store.locked(tmp_path / "out"):
        raise ValueError("no such target")
    assert Store.reading(tmp_path / "out") is None


# The lock.


def test_a_second_run_is_refused_at_once_and_hears_who_was_first(whole):
    with Store.locked(whole), pytest.raises(StoreInUse, match=rf"\(process {os.getpid()} on "):
        Store.locked(whole).__enter__()
    with Store.locked(whole):
        pass


def test_the_lock_of_another_process_counts_and_ends_with_it(whole):
    hold = (
        "import fcntl, os, sys, time\nlock = open(sys.argv[1], 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
        'print(f\'{{"pid": {os.getpid()}, "host": "far"}}\', file=lock, flush=True)\n'
        "print('held', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", hold, str(whole / "lock")], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse, match=f"process {other.pid} on far"), Store.locked(whole):
            pass
        other.kill()
    with Store.locked(whole):  # what it left of its name is no obstacle
        pass


def test_a_child_that_outlives_its_parent_holds_no_lock(whole):
    reads, writes = os.pipe()
    with Store.locked(whole):
        child = os.fork()
        if child == 0:
            os.close(writes)
            os.read(reads, 1)  # until the parent says so
            os._exit(0)
        with pytest.raises(StoreInUse), Store.locked(whole):
            pass
    with Store.locked(whole):
        assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it is still there
    os.close(writes)
    os.waitpid(child, 0)
    os.close(reads)


def test_a_torn_note_in_the_lock_says_nothing(whole):
    with Store.locked(whole):
        (whole / "lock").write_bytes(b'{"pid": 1')
        with pytest.raises(StoreInUse, match=r"is writing to '[^']*'\. Wait"), Store.locked(whole):
            pass


def test_a_disk_without_locks_is_refused(whole, monkeypatch):
    import fcntl

    def unknown(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unknown)  # such a disk is not at hand
    with pytest.raises(CannotWrite, match="cannot be locked: Function not implemented"):
        Store.locked(whole).__enter__()


def test_the_lock_of_windows(tmp_path, monkeypatch):
    """There is no Windows here: its lock is one of this system that refuses as Windows does."""
    import fcntl
    import importlib.util
    from types import SimpleNamespace

    from whence.run.store import lock

    def locking(handle, how, size):
        assert (how, size) == (2, 1)
        assert os.lseek(handle, 0, os.SEEK_CUR) == 1 << 30  # away from what others read
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setattr(sys, "platform", "win32")
    spec = importlib.util.spec_from_file_location("lock_of_windows", lock.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with (
        module.Lock(tmp_path / "lock"),
        pytest.raises(StoreInUse, match=f"process {os.getpid()}"),
        module.Lock(tmp_path / "lock"),
    ):
        pass
    with module.Lock(tmp_path / "lock"):
        pass


# Folders.


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("my life's work")
    with pytest.raises(BadStore, match=r"holds something else \(thesis.tex\), and no run"):
        stores.filled(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_manifest_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(BadStore, match="is not of a run"):
        stores.filled(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == '{"name": "a web page"}'


def test_a_sealed_file_of_something_else_is_no_manifest(tmp_path):
    from whence.run.store.seal import sealed

    (tmp_path / "manifest.json").write_bytes(sealed({"name": "a web page"}))
    with pytest.raises(BadStore, match="is not of a run"):
        stores.filled(tmp_path)
    with pytest.raises(BadStore, match="is damaged: it is not of a run"):
        Store.read(tmp_path)


def test_files_of_the_user_stay_where_they_are(whole):
    notes = [
        whole / "notes.txt",
        whole / "explanations" / "notes.txt",
        whole / "index" / ".DS_Store",
    ]
    for path in notes:
        path.write_text("mine")
    stores.filled(whole)
    assert all(path.read_text() == "mine" for path in notes)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(CannotWrite, match="is a file"):
        stores.filled(tmp_path / "out")


def test_nothing_there_is_no_store(tmp_path):
    assert Store.reading(tmp_path / "none") is None
    with pytest.raises(BadStore, match="holds no run"):
        Store.read(tmp_path / "none")


def test_a_store_of_a_newer_whence_is_refused(whole):
    from whence.run.store.seal import sealed, unsealed

    path = whole / "manifest.json"
    path.write_bytes(sealed({**unsealed(path.read_bytes()), "version": VERSION + 1}))
    with pytest.raises(BadStore, match="newer whence: its format is 2"):
        Store.read(whole)
    with pytest.raises(BadStore, match="newer whence"):
        stores.filled(whole)


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
