"""Faults found only by `whence store verify`: duplicate or unsorted rows, wrong keys, settings and indices."""

import shutil
from pathlib import Path

import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.runs.store import (
    VERSION,
    Store,
    decode_with_checksum,
    encode_with_checksum,
    repair_store,
    verify_store,
)

WHO = stores.identity()


@pytest.fixture(scope="module")
def sound_store(tmp_path_factory):
    """Write the store of an undisturbed run, once."""
    return stores.write_store(tmp_path_factory.mktemp("sound") / "out")


@pytest.fixture
def complete_store(sound_store, tmp_path):
    return Path(shutil.copytree(sound_store, tmp_path / "out"))


# What only verify sees.


def rewrite_table(whole, change, table="metrics", manifest=False):
    """Write a file again with something wrong, and an index that fits it."""
    from whence.runs import store

    path, index = whole / table / "part-000000.parquet", whole / "index/000000.json"
    changed = change(store.read_parquet(path.read_bytes()))
    raw = store.encode_parquet(table, changed)
    path.write_bytes(raw)
    facts = decode_with_checksum(index.read_bytes())
    facts["tables"][table] = store.describe_table(changed, raw)
    index.write_bytes(encode_with_checksum(facts))


def _list_faults(whole):
    return [one.what for one in verify_store(whole)]


def test_verify_reports_duplicate_rows_and_repair_updates_the_totals(complete_store):
    import pyarrow as pa

    rewrite_table(complete_store, lambda table: pa.concat_tables([table, table.slice(11)]))
    assert "1 results are there more than once" in _list_faults(complete_store)
    assert "its totals are not what the index adds up to" in _list_faults(complete_store)
    repair_store(complete_store)
    assert Store.open_existing(complete_store).manifest["totals"]["metrics"]["rows"] == 25


def test_verify_reports_rows_that_are_not_sorted(complete_store):
    rewrite_table(complete_store, lambda table: table.take([1, 0, *range(2, 12)]))
    assert _list_faults(complete_store) == ["its rows are not sorted"]


@pytest.mark.parametrize("table", ["metrics", "explanations"])
def test_verify_reports_rows_with_a_wrong_result_key(complete_store, table):
    def other(found):
        keys = found["key"].to_pylist()
        return found.set_column(0, found.schema.field(0), [["0" * 64, *keys[1:]]])

    rewrite_table(complete_store, other, table)
    assert _list_faults(complete_store) == ["1 rows have a key that is not theirs"]


def test_verify_reports_settings_missing_from_the_manifest(complete_store):
    path = complete_store / "manifest.json"
    facts = decode_with_checksum(path.read_bytes())
    lost = WHO.explained["attcat"]
    del facts["settings"][lost]
    path.write_bytes(encode_with_checksum(facts))
    assert (
        _list_faults(complete_store)
        == [f"the manifest does not say what the setting {lost} stands for"] * 2
    )


def test_verify_reports_settings_that_do_not_match_their_digest(complete_store):
    path = complete_store / "manifest.json"
    facts = decode_with_checksum(path.read_bytes())
    facts["settings"][WHO.explained["attcat"]]["method"] = "rollout"
    path.write_bytes(encode_with_checksum(facts))
    assert _list_faults(complete_store) == [
        f"the setting {WHO.explained['attcat']} stands for something else"
    ]


def test_verify_reports_missing_results_leftover_chunks_and_foreign_files(complete_store):
    rewrite_table(complete_store, lambda table: table.slice(1))
    (complete_store / "pending/000000-000.arrows").write_bytes(_encode_chunk())
    (complete_store / "metrics/mine.parquet").write_bytes(b"mine")
    found = {one.where: one.what for one in verify_store(complete_store)}
    assert found["index/000000.json"] == "results are missing"
    assert found["pending/000000-000.arrows"] == "it was left over: its window is complete"
    assert found["metrics/mine.parquet"] == "it is not of this store; move it elsewhere"
    repair_store(complete_store)
    assert not (complete_store / "pending/000000-000.arrows").exists()
    assert (complete_store / "metrics/mine.parquet").exists()
    # The missing row was in what was left over.
    assert Store.open_existing(complete_store).manifest["state"] == "complete"


def _encode_chunk():
    from whence.runs import store

    return store.encode_records(stores.make_task_result(WHO, stores.window(), 0).records)


def test_verify_reports_windows_that_hold_the_same_rows(complete_store):
    for place in ("explanations/part-{}.parquet", "metrics/part-{}.parquet"):
        shutil.copy(
            complete_store / place.format("000000"), complete_store / place.format("000002")
        )
    index = decode_with_checksum((complete_store / "index/000000.json").read_bytes())
    (complete_store / "index/000002.json").write_bytes(encode_with_checksum({**index, "window": 2}))
    assert "another window has these rows, too" in _list_faults(complete_store)


def test_verify_reports_an_index_with_wrong_counts(complete_store):
    index = complete_store / "index/000000.json"
    facts = decode_with_checksum(index.read_bytes())
    facts["tables"]["metrics"]["failed"] = 1
    index.write_bytes(encode_with_checksum(facts))
    assert "its rows are not what the index says" in _list_faults(complete_store)


def test_verify_reports_an_index_of_a_newer_version(complete_store):
    index = complete_store / "index/000000.json"
    facts = decode_with_checksum(index.read_bytes())
    index.write_bytes(encode_with_checksum({**facts, "version": VERSION + 1}))
    assert f"its version is {VERSION + 1}" in _list_faults(complete_store)


def test_verify_and_repair_of_a_folder_without_a_run_raise_bad_store(tmp_path):
    for act in (lambda out: list(verify_store(out)), repair_store):
        with pytest.raises(BadStore, match="holds no run"):
            act(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_deeply_nested_index_json_is_recorded_as_damage(complete_store):
    (complete_store / "index/000000.json").write_bytes(b"[" * 100_000)
    stores.write_store(complete_store)
    assert any("nested" in one["why"] for one in Store.open_existing(complete_store).list_damage())
