"""Damaged stores: broken files are set aside and recomputed, and sound files are left alone."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.runs.records import read_sound_table
from whence.runs.store import Store, verify_store

WHO = stores.identity()
FILES = ["manifest.json", "explanations/000000-000.parquet", "metrics/000001-001.parquet"]
pytestmark = pytest.mark.filterwarnings("ignore:.* is damaged")


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
        store.find_results(stores.window(1))
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
def test_damaged_file_is_named_set_aside_and_recomputed(interrupted_copy, sound_folder, name, hurt):
    hurt(interrupted_copy / name)
    # What is missing of an unfinished run is not yet done, whatever the reason.
    if hurt is not missing or name == "manifest.json":
        assert name in [one.where for one in verify_store(interrupted_copy)]
    stores.write_store(interrupted_copy)
    assert stores.contents(interrupted_copy) == stores.contents(sound_folder)
    aside = {path.name for path in interrupted_copy.glob("damaged/*")}
    expected = f"{(interrupted_copy / name).parent.name}-{Path(name).name}.1"
    assert aside == (set() if hurt is missing else {expected})
    assert list(verify_store(interrupted_copy)) == []


@pytest.mark.parametrize("table", ["explanations", "metrics"])
def test_any_changed_bit_of_a_table_is_found(sound_folder, tmp_path, table):
    """Page checksums do not cover headers and footers; each bit of these is checked, too."""
    raw = (sound_folder / table / "000000-000.parquet").read_bytes()
    path = tmp_path / "000000-000.parquet"
    for place in range(0, len(raw), 53):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << place % 8]) + raw[place + 1 :])
        with pytest.raises(ValueError, match=r"it is|its bytes|its columns"):
            read_sound_table(path, table)


def test_file_that_another_version_of_pyarrow_wrote_is_sound(sound_folder, tmp_path, monkeypatch):
    raw = (sound_folder / "metrics" / "000000-000.parquet").read_bytes()
    path = tmp_path / "000000-000.parquet"
    path.write_bytes(raw)
    monkeypatch.setattr("pyarrow.__version__", "99.0.0")
    monkeypatch.setattr("whence.runs.records.encode_parquet", lambda *_: b"otherwise")
    assert read_sound_table(path, "metrics").num_rows == 4


def test_two_damaged_versions_of_one_file_are_both_set_aside(finished_copy):
    for _ in range(2):
        flipped(finished_copy / "metrics/000001-001.parquet")
        stores.write_store(finished_copy)
    aside = sorted(path.name for path in (finished_copy / "damaged").iterdir())
    assert aside == ["metrics-000001-001.parquet.1", "metrics-000001-001.parquet.2"]


def test_damaged_explanations_file_loses_no_results_of_other_files(finished_copy):
    flipped(finished_copy / "explanations/000000-000.parquet")
    with Store.open_locked(finished_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.find_results(stores.window(0))) == 20  # the tests of it are whole
        assert len(store.find_results(stores.window(1))) == 24


def test_lost_manifest_is_rebuilt_by_the_next_run(finished_copy, sound_folder):
    (finished_copy / "manifest.json").unlink()
    with pytest.raises(BadStore, match=r"is missing\. The same command as before makes it again"):
        Store.open_existing(finished_copy)
    stores.write_store(finished_copy)
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


def test_rows_of_methods_not_requested_survive_a_lost_manifest(finished_copy, sound_folder):
    (finished_copy / "manifest.json").unlink()
    stores.write_store(finished_copy, who=stores.identity(methods=("attcat",)))
    assert Store.open_existing(finished_copy).table("explanations").count_rows() == 24
    stores.write_store(finished_copy)
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


def test_damaged_audit_file_is_reported_and_set_aside(finished_copy):
    with Store.open_locked(finished_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.add_audit("permutation", {"verdict": "holds"})
        flipped(finished_copy / "audits/permutation.json")
    assert "audits/permutation.json" in [one.where for one in verify_store(finished_copy)]
    assert Store.open_existing(finished_copy).audits() == {}
    with Store.open_locked(finished_copy) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert store.audits() == {}
    assert not (finished_copy / "audits/permutation.json").exists()


def test_parquet_file_with_other_columns_is_damage(finished_copy, sound_folder):
    path = finished_copy / "metrics/000000-000.parquet"
    pq.write_table(pq.read_table(path).drop_columns("value"), path)
    assert (
        next(iter(verify_store(finished_copy))).what == "its columns are not those of this version"
    )
    stores.write_store(finished_copy)
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


def test_damaged_page_is_found_by_its_checksum_when_it_is_read(finished_copy):
    path = finished_copy / "metrics/000000-000.parquet"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    damage = {}
    store = Store.open_existing(finished_copy)
    assert store.read("metrics", damage=damage).num_rows == 20
    assert "it is no whole Parquet file" in damage["metrics/000000-000.parquet"]
    assert path.exists()  # who reads leaves it where it is
