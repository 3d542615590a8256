"""Faults found only by `whence store verify`: doubles, wrong keys, unknown settings, foreign and half-written files."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.runs.records import encode_parquet, read_table
from whence.runs.store import Store, decode_json, encode_json, verify_store

WHO = stores.identity()


@pytest.fixture(scope="module")
def sound_store(tmp_path_factory):
    """Write the store of an undisturbed run, once."""
    return stores.write_store(tmp_path_factory.mktemp("sound") / "out")


@pytest.fixture
def complete_store(sound_store, tmp_path):
    return Path(shutil.copytree(sound_store, tmp_path / "out"))


def rewrite_table(whole, change, table="metrics"):
    """Write a file again with something wrong in its rows."""
    path = whole / table / "000000-000.parquet"
    path.write_bytes(encode_parquet(table, change(read_table(path, table))))


def _list_faults(whole):
    return [one.what for one in verify_store(whole)]


TOTALS = "its totals are not what the files add up to"


def test_verify_reports_rows_that_are_there_twice(complete_store):
    rewrite_table(complete_store, lambda table: pa.concat_tables([table, table.slice(3)]))
    assert _list_faults(complete_store) == ["1 results are there more than once", TOTALS]


def test_verify_reports_rows_that_another_file_has_too(complete_store):
    folder = complete_store / "explanations"
    shutil.copy(folder / "000000-000.parquet", folder / "000002-000.parquet")
    assert _list_faults(complete_store) == ["4 results are there more than once", TOTALS]


@pytest.mark.parametrize("table", ["metrics", "explanations"])
def test_verify_reports_rows_with_a_wrong_result_key(complete_store, table):
    def other(found):
        keys = found["key"].to_pylist()
        return found.set_column(0, found.schema.field(0), [["0" * 64, *keys[1:]]])

    rewrite_table(complete_store, other, table)
    assert _list_faults(complete_store) == ["1 rows have a key that is not theirs"]


def change_manifest(whole, change):
    path = whole / "manifest.json"
    facts = decode_json(path.read_bytes())
    change(facts["settings"])
    path.write_bytes(encode_json(facts))


def test_verify_reports_settings_missing_from_the_manifest(complete_store):
    lost = WHO.explained["attcat"]
    change_manifest(complete_store, lambda settings: settings.pop(lost))
    why = f"the manifest does not say what the setting {lost} stands for"
    assert _list_faults(complete_store) == [why] * 6  # chunks


def test_verify_reports_settings_that_do_not_match_their_digest(complete_store):
    own = WHO.explained["attcat"]
    change_manifest(complete_store, lambda settings: settings[own].update(method="rollout"))
    assert f"the setting {own} stands for something else" in _list_faults(complete_store)


def test_verify_reports_missing_results_and_foreign_files(complete_store):
    (complete_store / "metrics/000001-002.parquet").unlink()
    (complete_store / "metrics/mine.parquet").write_bytes(b"mine")
    found = {one.where: one.what for one in verify_store(complete_store)}
    assert found == {
        "metrics/mine.parquet": "it is not of this store; move it elsewhere",
        "manifest.json": TOTALS,
    }
    stores.write_store(complete_store)
    assert (complete_store / "metrics/mine.parquet").exists()
    assert Store.open_existing(complete_store).manifest["state"] == "complete"


def test_verify_of_a_folder_without_a_run_raises_bad_store(tmp_path):
    with pytest.raises(BadStore, match="holds no run"):
        list(verify_store(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_deeply_nested_manifest_json_is_damage(complete_store):
    (complete_store / "manifest.json").write_bytes(b"[" * 100_000)
    with pytest.warns(UserWarning, match=r"manifest.json is damaged \(it is no JSON object"):
        stores.write_store(complete_store)
