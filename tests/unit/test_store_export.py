"""A table as one file: the same rows, in whatever form."""

import csv
import gzip
import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.core.errors import BadParameter, BadStore, CannotWrite
from whence.run.store import Store
from whence.run.store.export import export

WHO = stores.identity()


@pytest.fixture
def whole(tmp_path):
    return stores.filled(tmp_path / "out", failing=(2,))


@pytest.mark.parametrize("table", ["explanations", "metrics"])
def test_parquet(whole, tmp_path, table):
    export(whole, table, tmp_path / "all.parquet")
    assert pq.read_table(tmp_path / "all.parquet") == Store.read(whole).table(table).to_table()


@pytest.mark.parametrize("table", ["explanations", "metrics"])
def test_json_lines(whole, tmp_path, table):
    export(whole, table, tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    wanted = Store.read(whole).table(table).to_table().to_pylist()
    assert [json.loads(line) for line in lines] == wanted


def test_comma_separated_values(whole, tmp_path):
    export(whole, "explanations", tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    wanted = Store.read(whole).table("explanations").to_table().to_pylist()
    assert [json.loads(one["scores"] or "null") for one in found] == [
        one["scores"] for one in wanted
    ]
    assert [float(one["probability"]) for one in found] == [one["probability"] for one in wanted]
    assert [one["why"] for one in found] == [one["why"] or "" for one in wanted]


def test_cells_that_a_spreadsheet_would_run_get_a_quote(tmp_path):
    own = stores.window(items=[stores.item(0, '=HYPERLINK("x")'), stores.item(1, '-1,\n"two"')])
    with Store.locked(tmp_path / "out") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        stores.work(store, WHO, own)
    export(tmp_path / "out", "explanations", tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as stream:
        texts = [one["text"] for one in csv.DictReader(stream)]
    assert texts == ['\'=HYPERLINK("x")'] * 2 + ['\'-1,\n"two"'] * 2


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_packed_text_is_the_text_and_has_no_time(whole, tmp_path, ending, monkeypatch):
    plain = export(whole, "metrics", tmp_path / f"all.{ending}")
    once = export(whole, "metrics", tmp_path / f"a.{ending}.gz").read_bytes()
    monkeypatch.setattr("time.time", lambda: 0.0)
    again = export(whole, "metrics", tmp_path / f"b.{ending}.gz").read_bytes()
    assert once == again
    assert gzip.decompress(once) == plain.read_bytes()


def test_numbers_that_json_has_not_are_null(tmp_path):
    own = stores.window(items=[stores.item(0)])
    given = stores.done(WHO, own, 0)
    given.records[0]["axioms"] = [{"axiom": "completeness", "residual": float("inf")}]
    with Store.locked(tmp_path / "out") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.add(replace(given))
        store.commit(own)
    export(tmp_path / "out", "explanations", tmp_path / "all.jsonl")
    first = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[0])
    assert first["axioms"] == [{"axiom": "completeness", "residual": None}]


def test_a_damaged_file_is_named_and_nothing_is_left(whole, tmp_path):
    path = whole / "metrics/part-000001.parquet"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1  # in a page: its checksum is found out while it is read
    path.write_bytes(raw)
    with pytest.raises(BadStore, match=r"part-000001.parquet' is damaged .*store repair"):
        export(whole, "metrics", tmp_path / "all.jsonl")
    assert not (tmp_path / "all.jsonl").exists()
    assert not list(tmp_path.glob(".all*"))


def test_a_damaged_index_hides_its_rows_until_it_is_repaired(whole):
    (whole / "index/000001.json").write_bytes(b"{}")
    assert Store.read(whole).table("metrics").count_rows() == 12


def test_what_cannot_be_exported(whole, tmp_path):
    for table, to, said in (
        ("tests", tmp_path / "a.csv", "--table must be explanations or metrics. Got 'tests'"),
        ("metrics", tmp_path / "a.xlsx", "--to must end in .parquet, .csv, .jsonl"),
        ("metrics", whole / "metrics" / "a.parquet", "must be outside of the run's own folder"),
    ):
        with pytest.raises(BadParameter) as error:
            export(whole, table, to)
        assert said in str(error.value)
    with pytest.raises(CannotWrite, match="there is no folder"):
        export(whole, "metrics", tmp_path / "none" / "a.csv")
    with pytest.raises(BadStore, match="holds no run"):
        export(tmp_path, "metrics", tmp_path / "a.csv")
