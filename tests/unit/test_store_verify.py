"""What only `whence store verify` sees."""

import shutil
from pathlib import Path

import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.run.store import Store
from whence.run.store.repair import repair
from whence.run.store.schema import VERSION
from whence.run.store.seal import sealed, unsealed
from whence.run.store.verify import verify

WHO = stores.identity()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Write the store of an undisturbed run, once."""
    return stores.filled(tmp_path_factory.mktemp("sound") / "out")


@pytest.fixture
def whole(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "out"))


# What only verify sees.


def edited(whole, change, table="metrics", manifest=False):
    """Write a file again with something wrong, and an index that fits it."""
    from whence.run.store import commit, rows

    path, index = whole / table / "part-000000.parquet", whole / "index/000000.json"
    changed = change(rows.read(path.read_bytes()))
    raw = rows.parquet(table, changed)
    path.write_bytes(raw)
    facts = unsealed(index.read_bytes())
    facts["tables"][table] = commit.facts_of(changed, raw)
    index.write_bytes(sealed(facts))


def _said(whole):
    return [one.what for one in verify(whole)]


def test_verify_sees_rows_that_are_there_twice(whole):
    import pyarrow as pa

    edited(whole, lambda table: pa.concat_tables([table, table.slice(11)]))
    assert "1 results are there more than once" in _said(whole)
    assert "its totals are not what the index adds up to" in _said(whole)
    repair(whole)
    assert Store.read(whole).manifest["totals"]["metrics"]["rows"] == 25


def test_verify_sees_rows_out_of_order(whole):
    edited(whole, lambda table: table.take([1, 0, *range(2, 12)]))
    assert _said(whole) == ["its rows are not sorted"]


@pytest.mark.parametrize("table", ["metrics", "explanations"])
def test_verify_sees_keys_that_are_not_theirs(whole, table):
    def other(found):
        keys = found["key"].to_pylist()
        return found.set_column(0, found.schema.field(0), [["0" * 64, *keys[1:]]])

    edited(whole, other, table)
    assert _said(whole) == ["1 rows have a key that is not theirs"]


def test_verify_sees_settings_that_nobody_knows(whole):
    path = whole / "manifest.json"
    facts = unsealed(path.read_bytes())
    lost = WHO.explained["attcat"]
    del facts["settings"][lost]
    path.write_bytes(sealed(facts))
    assert _said(whole) == [f"the manifest does not say what the setting {lost} stands for"] * 2


def test_verify_sees_settings_that_stand_for_something_else(whole):
    path = whole / "manifest.json"
    facts = unsealed(path.read_bytes())
    facts["settings"][WHO.explained["attcat"]]["method"] = "rollout"
    path.write_bytes(sealed(facts))
    assert _said(whole) == [f"the setting {WHO.explained['attcat']} stands for something else"]


def test_verify_sees_what_is_missing_and_what_is_left_over(whole):
    edited(whole, lambda table: table.slice(1))
    (whole / "pending/000000-000.arrows").write_bytes(_chunk())
    (whole / "metrics/mine.parquet").write_bytes(b"mine")
    found = {one.where: one.what for one in verify(whole)}
    assert found["index/000000.json"] == "results are missing"
    assert found["pending/000000-000.arrows"] == "it was left over: its window is complete"
    assert found["metrics/mine.parquet"] == "it is not of this store; move it elsewhere"
    repair(whole)
    assert not (whole / "pending/000000-000.arrows").exists()
    assert (whole / "metrics/mine.parquet").exists()
    # The missing row was in what was left over.
    assert Store.read(whole).manifest["state"] == "complete"


def _chunk():
    from whence.run.store import pending

    return pending.packed(stores.done(WHO, stores.window(), 0).records)


def test_verify_sees_windows_that_overlap(whole):
    for place in ("explanations/part-{}.parquet", "metrics/part-{}.parquet"):
        shutil.copy(whole / place.format("000000"), whole / place.format("000002"))
    index = unsealed((whole / "index/000000.json").read_bytes())
    (whole / "index/000002.json").write_bytes(sealed({**index, "window": 2}))
    assert "another window has these rows, too" in _said(whole)


def test_verify_sees_counts_that_do_not_fit(whole):
    index = whole / "index/000000.json"
    facts = unsealed(index.read_bytes())
    facts["tables"]["metrics"]["failed"] = 1
    index.write_bytes(sealed(facts))
    assert "its rows are not what the index says" in _said(whole)


def test_an_index_of_a_newer_whence_is_not_believed(whole):
    index = whole / "index/000000.json"
    facts = unsealed(index.read_bytes())
    index.write_bytes(sealed({**facts, "version": VERSION + 1}))
    assert f"its version is {VERSION + 1}" in _said(whole)


def test_a_folder_that_holds_no_run_is_neither_whole_nor_repaired(tmp_path):
    for act in (lambda out: list(verify(out)), repair):
        with pytest.raises(BadStore, match="holds no run"):
            act(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_json_that_is_nested_too_deeply_is_damage(whole):
    (whole / "index/000000.json").write_bytes(b"[" * 100_000)
    stores.filled(whole)
    assert any("nested" in one["why"] for one in Store.read(whole).damage())
