"""Export of a store table to Parquet, JSON lines, CSV or gzip: equal records, safe CSV cells, and refusals."""

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.core.errors import BadParameter, BadStore, CannotWrite
from whence.runs.records import build_tables
from whence.runs.store import Store, export_table
from whence.runs.task import TaskResult

WHO = stores.identity()


@pytest.fixture
def store_with_failures(tmp_path):
    return stores.write_store(tmp_path / "out", failing=(2,))


def list_records(folder, table):
    """Return the records of a table in the order of the data."""
    windows = Store.open_existing(folder).iterate_windows(table)
    return [record for window in windows for record in window.to_pylist()]


@pytest.mark.parametrize("table", ["explanations", "metrics"])
def test_export_table_to_parquet_equals_the_store_table(store_with_failures, tmp_path, table):
    export_table(store_with_failures, table, tmp_path / "all.parquet")
    found = pq.read_table(tmp_path / "all.parquet")
    windows = Store.open_existing(store_with_failures).iterate_windows(table)
    assert found == pa.concat_tables(windows)
    assert found["row"].to_pylist() == sorted(found["row"].to_pylist())


@pytest.mark.parametrize("table", ["explanations", "metrics"])
def test_export_table_to_jsonl_equals_the_store_records(store_with_failures, tmp_path, table):
    export_table(store_with_failures, table, tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    wanted = list_records(store_with_failures, table)
    assert [json.loads(line) for line in lines] == wanted


def test_export_table_to_csv_holds_scores_probabilities_and_reasons(store_with_failures, tmp_path):
    export_table(store_with_failures, "explanations", tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    wanted = list_records(store_with_failures, "explanations")
    assert [json.loads(one["scores"] or "null") for one in found] == [
        one["scores"] for one in wanted
    ]
    assert [float(one["probability"]) for one in found] == [one["probability"] for one in wanted]
    assert [one["why"] for one in found] == [one["why"] or "" for one in wanted]


def test_export_table_to_csv_quotes_cells_that_a_spreadsheet_would_run(tmp_path):
    own = stores.window(items=[stores.item(0, '=HYPERLINK("x")'), stores.item(1, '-1,\n"two"')])
    with Store.open_locked(tmp_path / "out") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        stores.complete_window(store, WHO, own)
    export_table(tmp_path / "out", "explanations", tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as stream:
        texts = [one["text"] for one in csv.DictReader(stream)]
    assert texts == ['\'=HYPERLINK("x")'] * 2 + ['\'-1,\n"two"'] * 2


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_export_table_to_gzip_equals_the_plain_text_and_has_no_timestamp(
    store_with_failures, tmp_path, ending, monkeypatch
):
    plain = export_table(store_with_failures, "metrics", tmp_path / f"all.{ending}")
    once = export_table(store_with_failures, "metrics", tmp_path / f"a.{ending}.gz").read_bytes()
    monkeypatch.setattr("time.time", lambda: 0.0)
    again = export_table(store_with_failures, "metrics", tmp_path / f"b.{ending}.gz").read_bytes()
    assert once == again
    assert gzip.decompress(once) == plain.read_bytes()


def test_export_table_to_jsonl_writes_infinity_as_null(tmp_path):
    own = stores.window(items=[stores.item(0)])
    records = stores.records(WHO, own.items[0], "attcat")
    records[0]["axioms"] = [{"axiom": "completeness", "residual": float("inf")}]
    with Store.open_locked(tmp_path / "out") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.find_results(own)
        store.add_result(TaskResult(0, 0, build_tables(records), 0.5))
    export_table(tmp_path / "out", "explanations", tmp_path / "all.jsonl")
    first = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[0])
    assert first["axioms"] == [{"axiom": "completeness", "residual": None}]


def test_export_table_of_a_damaged_store_names_the_file_and_leaves_no_output(
    store_with_failures, tmp_path
):
    path = store_with_failures / "metrics/000001-001.parquet"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1  # in a page: its checksum is found out while it is read
    path.write_bytes(raw)
    with pytest.raises(BadStore, match=r"000001-001.parquet' is damaged: .*computes it again"):
        export_table(store_with_failures, "metrics", tmp_path / "all.jsonl")
    assert not (tmp_path / "all.jsonl").exists()
    assert not list(tmp_path.glob(".all*"))


def test_export_table_refuses_bad_table_ending_or_destination(store_with_failures, tmp_path):
    for table, to, said in (
        ("tests", tmp_path / "a.csv", "--table must be explanations or metrics. Got 'tests'"),
        ("metrics", tmp_path / "a.xlsx", "--to must end in .parquet, .csv, .jsonl"),
        (
            "metrics",
            store_with_failures / "metrics" / "a.parquet",
            "must be outside of the run's own folder",
        ),
    ):
        with pytest.raises(BadParameter) as error:
            export_table(store_with_failures, table, to)
        assert said in str(error.value)
    with pytest.raises(CannotWrite, match="there is no folder"):
        export_table(store_with_failures, "metrics", tmp_path / "none" / "a.csv")
    with pytest.raises(BadStore, match="holds no run"):
        export_table(tmp_path, "metrics", tmp_path / "a.csv")
