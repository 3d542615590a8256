"""Store of a run: exact records, bytes independent of order and time, resumption, failures, log, warnings."""

import math
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.runs.records import COLUMNS, SCHEMAS, SORT_COLUMNS, TABLES, VERSION, build_tables
from whence.runs.store import Store, WindowResults
from whence.runs.task import TaskResult

WHO = stores.identity()


PLACES = [("row", "ascending"), ("method", "ascending")]


@pytest.fixture
def finished_folder(tmp_path):
    """Write the store of an undisturbed run."""
    return stores.write_store(tmp_path / "whole")


@pytest.fixture
def begun_store(tmp_path):
    """Begin a run."""
    with Store.open_locked(tmp_path / "out") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        yield store


def test_store_tables_give_back_written_records_to_the_bit(finished_folder):
    store = Store.open_existing(finished_folder)
    found = store.table("explanations").to_table().sort_by(PLACES).to_pylist()
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
    tests = store.table("metrics").to_table().sort_by(PLACES).to_pylist()
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
    assert store.count_results() == dict.fromkeys(WHO.settings, 12)


def test_store_files_have_sorted_records_and_state_their_schema(finished_folder):
    for name in TABLES:
        order = SORT_COLUMNS[name]
        assert list((finished_folder / name).iterdir())
        for path in (finished_folder / name).iterdir():
            table = pq.read_table(path)
            placed = list(zip(*(table[column].to_pylist() for column in order), strict=True))
            assert placed == sorted(placed)
            assert table.schema.equals(SCHEMAS[name], check_metadata=True)
            assert table.schema.metadata == {
                b"whence": f"store {name}".encode(),
                b"version": str(VERSION).encode(),
            }


def test_store_bytes_do_not_depend_on_order_chunks_or_time(finished_folder, tmp_path):
    own = stores.window(0), stores.window(1)
    with Store.open_locked(tmp_path / "other") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for one in reversed(own):
            store.find_results(one)
            for chunk in reversed(range(3)):
                for method in ("rollout", "attcat"):  # one at a time, into the same chunk
                    given = stores.make_task_result(WHO, one, chunk, [method])
                    tables = {name: table[::-1] for name, table in given.tables.items()}
                    store.add_result(replace(given, tables=tables, seconds=9.0))
            store.close_window(one)
        store.finish()
    assert stores.contents(tmp_path / "other") == stores.contents(finished_folder)


def test_filling_a_finished_store_again_changes_no_byte(finished_folder):
    before = stores.contents(finished_folder)
    stores.write_store(finished_folder)
    assert stores.contents(finished_folder) == before


@pytest.mark.parametrize("closed", [0, 1])
@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_store_of_an_interrupted_run_resumes_to_the_same_bytes(
    finished_folder, tmp_path, closed, chunks
):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), Store.open_locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for number in range(closed):
            stores.complete_window(store, WHO, stores.window(number))
        store.find_results(stores.window(closed))
        for chunk in range(chunks):
            store.add_result(stores.make_task_result(WHO, stores.window(closed), chunk))
        raise KeyboardInterrupt
    assert Store.open_existing(out).manifest["state"] == "running"
    assert sum(Store.open_existing(out).count_results().values()) == 24 * closed + 8 * chunks
    with Store.open_locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        held = store.find_results(stores.window(closed))
        assert len(held) == 8 * chunks  # 2 examples, 2 methods, an explanation and a test of each
    stores.write_store(out)
    assert stores.contents(out) == stores.contents(finished_folder)


def test_store_holds_a_record_for_each_of_two_equal_examples(begun_store):
    twins = stores.window(items=[stores.item(0, "the same"), stores.item(1, "the same")])
    first, second = twins.items
    done = stores.make_task_result(WHO, twins, 0)
    begun_store.find_results(twins)
    begun_store.add_result(replace(done, tables=build_tables(stores.records(WHO, first, "attcat"))))
    held = begun_store.find_results(twins)
    assert not stores.lacks(WHO, held, first, "attcat")
    assert stores.lacks(WHO, held, second, "attcat")
    begun_store.add_result(stores.make_task_result(WHO, twins, 0))
    begun_store.close_window(twins)
    found = begun_store.table("explanations").to_table(columns=["row", "key", "method"]).to_pylist()
    assert [(one["row"], one["method"]) for one in found] == [
        (0, "attcat"), (0, "rollout"), (1, "attcat"), (1, "rollout"),
    ]  # fmt: skip
    assert len({one["key"] for one in found}) == 2


def test_store_records_a_failure_until_a_retry_succeeds(tmp_path, finished_folder):
    out = stores.write_store(tmp_path / "out", failing=(2, 7))
    store = Store.open_existing(out)
    assert store.manifest["totals"]["explanations"] == {"rows": 24, "failed": 4}
    (row,) = [
        one for one in store.table("explanations").to_table().to_pylist()
        if one["row"] == 2 and one["method"] == "attcat"
    ]  # fmt: skip
    assert (row["error"], row["why"], row["scores"]) == ("not-finite", "It did not work.", None)
    before = stores.contents(out)
    stores.write_store(out)
    assert stores.contents(out) == before  # nobody asked for it
    with Store.open_locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        held = store.find_results(stores.window(0))
        failed = [
            one.row
            for one in stores.window(0).items
            if stores.lacks(WHO, held, one, "attcat", True)
        ]
        assert failed == [2]
        assert not any(stores.lacks(WHO, held, one, "attcat") for one in stores.window(0).items)
        for number in (0, 1):
            stores.complete_window(store, WHO, stores.window(number), retry=True)
        store.finish()
    assert stores.contents(out) == stores.contents(finished_folder)


def test_store_does_not_replace_a_result_by_a_later_failure(begun_store):
    own = stores.window()
    begun_store.find_results(own)
    begun_store.add_result(stores.make_task_result(WHO, own, 0))
    begun_store.add_result(stores.make_task_result(WHO, own, 0, failing=(0, 1)))
    begun_store.close_window(own)
    assert begun_store.table("explanations").to_table()["error"].null_count == 4


NUMBERS = (
    0.1,
    -0.0,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    1 / 3,
    1e23,
    2.0**53 + 2,
)


def test_store_returns_numbers_nulls_and_texts_exactly(begun_store):
    own = stores.window(items=[stores.item(0)])
    record, _ = stores.records(WHO, own.items[0], "attcat")
    record["scores"] = [*NUMBERS, None, math.inf]
    record["ids"] = [-(1 << 63), (1 << 63) - 1, 0]
    record["tokens"] = ["", "é\u0000\n", "🙂", "\u2028"]
    record["starts"], record["words"], record["axioms"] = [], None, []
    begun_store.find_results(own)
    begun_store.add_result(TaskResult(0, 0, build_tables([record]), 0.5))
    [row] = begun_store.table("explanations").to_table().to_pylist()
    assert {name: row[name] for name in record if name != "table"} == {
        name: value for name, value in record.items() if name != "table"
    }
    assert [str(one) for one in row["scores"]] == [
        str(one) for one in record["scores"]
    ]  # -0.0, too


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"table": "explanations", "row": 1}, "lacks 'key'"),
        ({"table": "metrics", "colour": 1}, "no column colour"),
        ({"table": "metrics", "row": "x"}, "does not fit the table metrics"),
        ({"table": "metrics", "row": 1 << 63}, "does not fit the table metrics"),
    ],
)
def test_build_tables_of_a_record_that_fits_no_table_raises_value_error(record, why):
    with pytest.raises(ValueError, match=why):
        build_tables([record])


def test_task_result_counts_examples_and_failures():
    done = stores.make_task_result(WHO, stores.window(), 0, failing=(0,))
    # Two examples, two methods; the first example failed.
    assert done.n_examples == 2
    assert done.count_explanations() == {"attcat": 2, "rollout": 2}
    assert done.count_explanations(failed=True) == {"attcat": 1, "rollout": 1}


def test_empty_window_results_need_every_result():
    assert WindowResults().needs_result(0, "k")
    assert len(WindowResults()) == 0


def test_list_bad_rows_gives_unreadable_rows_of_closed_windows(begun_store):
    begun_store.find_results(stores.window(bad=stores.BAD))
    begun_store.close_window(stores.window(bad=stores.BAD))
    assert begun_store.list_bad_rows() == [
        {"row": 3, "where": "reviews.tsv, line 4", "why": "It has no text."}
    ]


def test_store_with_missing_results_stays_running(tmp_path):
    out = tmp_path / "out"
    with Store.open_locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.find_results(stores.window())
        store.add_result(stores.make_task_result(WHO, stores.window(), 0))
        store.add_result(stores.make_task_result(WHO, stores.window(), 1, ["attcat"]))
        store.close_window(stores.window())
        store.finish()
    assert Store.open_existing(out).manifest["state"] == "running"


def test_store_replaces_a_lone_surrogate_by_a_question_mark(begun_store):
    own = stores.window(items=[stores.item(0)])
    given = stores.make_task_result(WHO, own, 0)
    records = stores.records(WHO, own.items[0], "attcat")
    records[0]["why"] = "half \ud800 of it"
    begun_store.find_results(own)
    begun_store.add_result(replace(given, tables=build_tables(records)))
    begun_store.close_window(own)
    assert begun_store.table("explanations").to_table()["why"][0].as_py() == "half ? of it"


def test_store_table_without_records_can_be_read(begun_store):
    assert begun_store.table("metrics").count_rows() == 0
    assert list(begun_store.iterate_windows("metrics")) == []
    begun_store.find_results(stores.window())
    begun_store.close_window(stores.window())
    assert list(begun_store.iterate_windows("metrics")) == []


def test_store_table_includes_the_chunks_of_open_windows(begun_store):
    own = stores.window()
    stores.complete_window(begun_store, WHO, stores.window(1))
    begun_store.find_results(own)
    begun_store.add_result(stores.make_task_result(WHO, own, 1))
    assert begun_store.table("explanations").count_rows() == 16


def test_log_records_worker_and_cost_of_tasks_and_ignores_torn_lines(finished_folder):
    first = next(Store.open_existing(finished_folder).events("task"))
    assert first["worker"] == "worker 1"
    assert (first["window"], first["chunk"], first["examples"], first["seconds"]) == (0, 0, 2, 0.5)
    assert first["costs"] == {"attcat": {"seconds": 0.25}}
    with (finished_folder / "log.jsonl").open("a") as stream:
        stream.write('{"at": "2026", "kind": "ta')  # torn
    assert len(list(Store.open_existing(finished_folder).events("task"))) == 6


def test_store_contents_hold_neither_date_nor_host_name(finished_folder):
    import socket
    from datetime import UTC, datetime

    for name, raw in stores.contents(finished_folder).items():
        assert str(datetime.now(UTC).year).encode() + b"-" not in raw, name
        assert socket.gethostname().encode() not in raw, name


def test_store_audits_returns_added_audits(begun_store, tmp_path):
    begun_store.add_audit("permutation", {"verdict": "fails", "values": [0.1, None]})
    assert Store.open_existing(tmp_path / "out").audits() == {
        "permutation": {"verdict": "fails", "values": [0.1, None]}
    }


def test_store_resumed_with_other_software_versions_warns(finished_folder):
    with Store.open_locked(finished_folder) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.log_event("start", {"software": WHO.software})
    stores.write_store(
        finished_folder, who=stores.identity(device="cuda")
    )  # a warning is an error here
    with pytest.warns(UserWarning, match=r"with torch 2.0, and the rest will be with 3\.0"):
        stores.write_store(finished_folder, who=replace(WHO, software={"torch": "3.0"}))


def test_store_resumed_with_changed_code_warns(finished_folder):
    with pytest.warns(UserWarning, match="The code that computes has changed .* is computed again"):
        stores.write_store(finished_folder, who=replace(WHO, code="other"))


def test_every_store_column_has_a_meaning():
    for columns in COLUMNS.values():
        assert columns
        assert all(column.meaning for column in columns)


def test_store_bytes_are_the_same_while_the_clock_runs_backwards(
    finished_folder, tmp_path, monkeypatch
):
    """Times are in the log alone, and nothing is decided by them."""
    from whence.runs import store as store_module

    class Backwards(store_module.datetime):
        hours = 24

        @classmethod
        def now(cls, zone=None):
            cls.hours -= 1
            return cls(2001, 1, 1 + cls.hours // 24, cls.hours % 24, tzinfo=zone)

    monkeypatch.setattr(store_module, "datetime", Backwards)
    monkeypatch.setattr("time.time", lambda: 0.0)
    stores.write_store(tmp_path / "out")
    assert stores.contents(tmp_path / "out") == stores.contents(finished_folder)


def test_reading_an_existing_store_writes_no_file(finished_folder):
    before = {path: path.stat().st_mtime_ns for path in finished_folder.rglob("*")}
    store = Store.open_existing(finished_folder)
    store.table("explanations").to_table()
    assert (store.list_bad_rows(), store.audits()) == ([], {})
    assert {path: path.stat().st_mtime_ns for path in finished_folder.rglob("*")} == before
