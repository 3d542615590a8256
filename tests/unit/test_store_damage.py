"""Damaged stores: broken files are set aside and recomputed, and sound files are left alone."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.runs.store import (
    Store,
    decode_with_checksum,
    encode_with_checksum,
    repair_store,
    verify_store,
)

WHO = stores.identity()
FILES = [
    "manifest.json",
    "index/000000.json",
    "explanations/part-000000.parquet",
    "metrics/part-000000.parquet",
    "pending/000001-001.arrows",
]


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory):
    """Write the store of an undisturbed run, once."""
    return stores.write_store(tmp_path_factory.mktemp("sound") / "out")


@pytest.fixture(scope="module")
def interrupted_folder(tmp_path_factory):
    """Write the store of a run that was interrupted in its second window, once."""
    out = tmp_path_factory.mktemp("halfway") / "out"
    with Store.open_locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        stores.complete_window(store, WHO, stores.window(0))
        store.add_result(stores.make_task_result(WHO, stores.window(1), 1))
    return out


@pytest.fixture
def finished_copy(sound_folder, tmp_path):
    return Path(shutil.copytree(sound_folder, tmp_path / "out"))


@pytest.fixture
def interrupted_copy(interrupted_folder, tmp_path):
    return Path(shutil.copytree(interrupted_folder, tmp_path / "half"))


def flipped(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def emptied(path):
    path.write_bytes(b"")


def missing(path):
    path.unlink()


def foreign(path):
    path.write_bytes(b'{"something": "else"}\n')


def folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("hurt", [flipped, truncated, emptied, missing, foreign, folder])
def test_damaged_file_of_an_interrupted_run_is_set_aside_and_recomputed(
    interrupted_copy, sound_folder, name, hurt
):
    hurt(interrupted_copy / name)
    if not (name.startswith("pending") and hurt is missing):  # nobody can know that it was there
        assert name in [one.where for one in verify_store(interrupted_copy)]
    stores.write_store(interrupted_copy)
    assert stores.contents(interrupted_copy) == stores.contents(sound_folder)
    aside = {path.name for path in (interrupted_copy / "damaged").iterdir()}
    expected = name.replace("/", "-") + ".1"
    assert (expected in aside) == (hurt is not missing)
    if hurt is not missing:
        assert name in [one["file"] for one in Store.open_existing(interrupted_copy).list_damage()]
    assert list(verify_store(interrupted_copy)) == []


@pytest.mark.parametrize("name", FILES[:-1])
@pytest.mark.parametrize("hurt", [flipped, missing])
def test_repair_store_and_a_new_run_restore_the_same_bytes(finished_copy, sound_folder, name, hurt):
    hurt(finished_copy / name)
    done = repair_store(finished_copy)
    # Damage in a file of the run shows in its state; the manifest itself is remembered by the journal.
    assert Store.open_existing(finished_copy).manifest["state"] == "running"
    # Without its index, the tables of a window are what is set aside.
    told = {"manifest.json": None, "index/000000.json": "explanations/part-000000.parquet"}
    wanted = told.get(name, name) if hurt is missing else name
    assert wanted in [None, *(one.where for one in done)]
    assert list(verify_store(finished_copy)) == []
    stores.write_store(finished_copy)
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


def test_two_damaged_versions_of_one_file_are_both_set_aside(finished_copy):
    for _ in range(2):
        flipped(finished_copy / "metrics/part-000001.parquet")
        stores.write_store(finished_copy)
    aside = sorted(path.name for path in (finished_copy / "damaged").iterdir())
    assert aside == ["metrics-part-000001.parquet.1", "metrics-part-000001.parquet.2"]


def test_damaged_explanations_file_loses_no_results_of_other_files(finished_copy):
    flipped(finished_copy / "explanations/part-000000.parquet")
    with Store.open_locked(finished_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.find_results(0)) == 12  # the tests of it are whole
        assert len(store.find_results(1)) == 24


def test_lost_manifest_without_a_journal_is_rebuilt_by_the_next_run(finished_copy, sound_folder):
    (finished_copy / "manifest.json").unlink()
    shutil.rmtree(finished_copy / "journal")
    assert [one.where for one in repair_store(finished_copy)] == ["manifest.json"]
    with pytest.raises(BadStore, match="is missing"):
        Store.open_existing(finished_copy)
    stores.write_store(finished_copy)
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


def test_lost_manifest_is_restored_with_settings_of_methods_not_requested_now(
    finished_copy, sound_folder
):
    (finished_copy / "manifest.json").unlink()
    few = stores.identity(methods=("attcat",))
    stores.write_store(finished_copy, who=few)
    assert set(Store.open_existing(finished_copy).manifest["settings"]) == set(WHO.settings)
    stores.write_store(finished_copy)
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


def test_damaged_audit_file_is_reported_and_removed(finished_copy):
    with Store.open_locked(finished_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.add_audit("permutation", {"verdict": "holds"})
        flipped(finished_copy / "audits/permutation.json")
        assert [one.where for one in _find_problems_unlocked(finished_copy)] == [
            "audits/permutation.json"
        ]
        assert Store.open_existing(finished_copy).audits() == {}
        assert store.audits() == {}
    assert not (finished_copy / "audits/permutation.json").exists()


def _find_problems_unlocked(out):
    """What is wrong with a folder that is open here."""
    from whence.runs.store import Layout, find_problems

    return list(find_problems(Layout(out)))


def test_add_result_replaces_a_torn_pending_chunk(interrupted_copy):
    with Store.open_locked(interrupted_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        truncated(interrupted_copy / "pending/000001-001.arrows")
        store.add_result(stores.make_task_result(WHO, stores.window(1), 1))
        assert len(store.find_results(1)) == 8


def test_pending_files_with_wrong_columns_or_no_arrow_stream_are_listed_as_damage(interrupted_copy):
    import pyarrow as pa

    from whence.runs import store as store_module
    from whence.runs.store import SCHEMAS

    metrics = SCHEMAS["metrics"].empty_table()
    bodies = [write_arrow_stream(pa.table({"colour": [1]})), write_arrow_stream(metrics.drop_columns(["why"])), b"stream",
              write_arrow_stream(metrics)[:-9], b"\0" * 8]  # fmt: skip
    for number, body in enumerate(bodies):
        (interrupted_copy / f"pending/000001-10{number}.arrows").write_bytes(
            store_module.append_checksum(body)
        )
    with Store.open_locked(interrupted_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.find_results(1)) == 8
        why = [one["why"] for one in store.list_damage()]
    assert len(why) == 5
    assert sum("its columns are not those of this version" in one for one in why) == 2
    assert sum("it is no Arrow stream" in one for one in why) == 3


def write_arrow_stream(table):
    """Write a table as an Arrow stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"table": "explanations", "row": 1}, "lacks 'key'"),
        ({"table": "metrics", "colour": 1}, "no column colour"),
        ({"table": "metrics", "row": "x"}, "does not fit the table metrics"),
        ({"table": "metrics", "row": 1 << 63}, "does not fit the table metrics"),
    ],
)
def test_encode_records_of_a_record_that_fits_no_table_raises_value_error(record, why):
    from whence.runs import store as store_module

    with pytest.raises(ValueError, match=why):
        store_module.encode_records([record])


def update_index_checksum(whole, table="metrics"):
    """Have the index say that the file of a table is as it should be."""
    from hashlib import sha256

    index = whole / "index/000000.json"
    facts = decode_with_checksum(index.read_bytes())
    raw = (whole / table / "part-000000.parquet").read_bytes()
    facts["tables"][table]["sha256"] = sha256(raw).hexdigest()
    index.write_bytes(encode_with_checksum(facts))


def no_table(path):
    path.write_bytes(b"something else")


def other_columns(path):
    pq.write_table(pq.read_table(path).drop_columns("value"), path)


@pytest.mark.parametrize(
    ("hurt", "said"), [(no_table, "no Parquet file"), (other_columns, "not those of this version")]
)
def test_foreign_parquet_file_with_a_matching_checksum_is_damage(finished_copy, hurt, said):
    hurt(finished_copy / "metrics/part-000000.parquet")
    update_index_checksum(finished_copy)
    assert said in next(iter(verify_store(finished_copy))).what
    with Store.open_locked(finished_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.find_results(0)) == 12


def test_damaged_parquet_page_with_a_matching_checksum_is_found_and_recomputed(
    finished_copy, sound_folder
):
    path = finished_copy / "metrics/part-000000.parquet"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    update_index_checksum(finished_copy)
    assert any("no whole Parquet file" in one.what for one in verify_store(finished_copy))
    repair_store(finished_copy)
    stores.write_store(finished_copy)
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


def test_records_of_methods_not_requested_survive_a_lost_manifest_and_journal(
    finished_copy, sound_folder
):
    (finished_copy / "manifest.json").unlink()
    shutil.rmtree(finished_copy / "journal")
    stores.write_store(finished_copy, who=stores.identity(methods=("attcat",)))
    assert Store.open_existing(finished_copy).table("explanations").count_rows() == 24
    stores.write_store(finished_copy)
    assert (
        stores.contents(finished_copy)["manifest.json"]
        == stores.contents(sound_folder)["manifest.json"]
    )
