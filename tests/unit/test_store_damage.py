"""A store that was damaged: what is broken is set aside and computed again, and nothing else."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.run.store import Store
from whence.run.store.repair import repair
from whence.run.store.seal import sealed, unsealed
from whence.run.store.verify import verify

WHO = stores.identity()
FILES = [
    "manifest.json",
    "index/000000.json",
    "explanations/part-000000.parquet",
    "metrics/part-000000.parquet",
    "pending/000001-001.arrows",
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Write the store of an undisturbed run, once."""
    return stores.filled(tmp_path_factory.mktemp("sound") / "out")


@pytest.fixture(scope="module")
def halfway(tmp_path_factory):
    """Write the store of a run that was interrupted in its second window, once."""
    out = tmp_path_factory.mktemp("halfway") / "out"
    with Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        stores.work(store, WHO, stores.window(0))
        store.add(stores.done(WHO, stores.window(1), 1))
    return out


@pytest.fixture
def whole(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "out"))


@pytest.fixture
def half(halfway, tmp_path):
    return Path(shutil.copytree(halfway, tmp_path / "half"))


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
def test_damage_is_set_aside_and_computed_again(half, sound, name, hurt):
    hurt(half / name)
    if not (name.startswith("pending") and hurt is missing):  # nobody can know that it was there
        assert name in [one.where for one in verify(half)]
    stores.filled(half)
    assert stores.contents(half) == stores.contents(sound)
    aside = {path.name for path in (half / "damaged").iterdir()}
    expected = name.replace("/", "-") + ".1"
    assert (expected in aside) == (hurt is not missing)
    if hurt is not missing:
        assert name in [one["file"] for one in Store.read(half).damage()]
    assert list(verify(half)) == []


@pytest.mark.parametrize("name", FILES[:-1])
@pytest.mark.parametrize("hurt", [flipped, missing])
def test_repair_then_run(whole, sound, name, hurt):
    hurt(whole / name)
    done = repair(whole)
    # Damage in a file of the run shows in its state; the manifest itself is remembered by the journal.
    assert Store.read(whole).manifest["state"] == "running"
    # Without its index, the tables of a window are what is set aside.
    told = {"manifest.json": None, "index/000000.json": "explanations/part-000000.parquet"}
    wanted = told.get(name, name) if hurt is missing else name
    assert wanted in [None, *(one.where for one in done)]
    assert list(verify(whole)) == []
    stores.filled(whole)
    assert stores.contents(whole) == stores.contents(sound)


def test_damage_in_the_same_place_twice_keeps_both(whole):
    for _ in range(2):
        flipped(whole / "metrics/part-000001.parquet")
        stores.filled(whole)
    aside = sorted(path.name for path in (whole / "damaged").iterdir())
    assert aside == ["metrics-part-000001.parquet.1", "metrics-part-000001.parquet.2"]


def test_a_damaged_window_costs_no_other(whole):
    flipped(whole / "explanations/part-000000.parquet")
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.held(0)) == 12  # the tests of it are whole
        assert len(store.held(1)) == 24


def test_a_manifest_that_nobody_remembers_is_made_again_from_the_plan(whole, sound):
    (whole / "manifest.json").unlink()
    shutil.rmtree(whole / "journal")
    assert [one.where for one in repair(whole)] == ["manifest.json"]
    with pytest.raises(BadStore, match="is missing"):
        Store.read(whole)
    stores.filled(whole)
    assert stores.contents(whole) == stores.contents(sound)


def test_a_lost_manifest_is_remembered_with_methods_that_are_not_asked_for_now(whole, sound):
    (whole / "manifest.json").unlink()
    few = stores.identity(methods=("attcat",))
    stores.filled(whole, who=few)
    assert set(Store.read(whole).manifest["settings"]) == set(WHO.settings)
    stores.filled(whole)
    assert stores.contents(whole) == stores.contents(sound)


def test_a_damaged_audit_is_forgotten(whole):
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.add_audit("permutation", {"verdict": "holds"})
        flipped(whole / "audits/permutation.json")
        assert [one.where for one in _unlocked(whole)] == ["audits/permutation.json"]
        assert Store.read(whole).audits() == {}
        assert store.audits() == {}
    assert not (whole / "audits/permutation.json").exists()


def _unlocked(out):
    """What is wrong with a folder that is open here."""
    from whence.run.store.layout import Layout
    from whence.run.store.verify import problems

    return list(problems(Layout(out)))


def test_a_torn_chunk_is_replaced(half):
    with Store.locked(half) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        truncated(half / "pending/000001-001.arrows")
        store.add(stores.done(WHO, stores.window(1), 1))
        assert len(store.held(1)) == 8


def test_streams_that_fit_no_table_are_damage(half):
    import pyarrow as pa

    from whence.run.store import pending
    from whence.run.store.schema import SCHEMAS

    metrics = SCHEMAS["metrics"].empty_table()
    bodies = [streamed(pa.table({"colour": [1]})), streamed(metrics.drop_columns(["why"])), b"stream",
              streamed(metrics)[:-9], b"\0" * 8]  # fmt: skip
    for number, body in enumerate(bodies):
        (half / f"pending/000001-10{number}.arrows").write_bytes(pending.sealed(body))
    with Store.locked(half) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.held(1)) == 8
        why = [one["why"] for one in store.damage()]
    assert len(why) == 5
    assert sum("its columns are not those of this version" in one for one in why) == 2
    assert sum("it is no Arrow stream" in one for one in why) == 3


def streamed(table):
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
def test_records_that_fit_no_table_are_not_packed(record, why):
    from whence.run.store import pending

    with pytest.raises(ValueError, match=why):
        pending.packed([record])


def claimed(whole, table="metrics"):
    """Have the index say that the file of a table is as it should be."""
    from hashlib import sha256

    index = whole / "index/000000.json"
    facts = unsealed(index.read_bytes())
    raw = (whole / table / "part-000000.parquet").read_bytes()
    facts["tables"][table]["sha256"] = sha256(raw).hexdigest()
    index.write_bytes(sealed(facts))


def no_table(path):
    path.write_bytes(b"something else")


def other_columns(path):
    pq.write_table(pq.read_table(path).drop_columns("value"), path)


@pytest.mark.parametrize(
    ("hurt", "said"), [(no_table, "no Parquet file"), (other_columns, "not those of this version")]
)
def test_files_of_another_hand_with_a_good_checksum_are_damage(whole, hurt, said):
    hurt(whole / "metrics/part-000000.parquet")
    claimed(whole)
    assert said in next(iter(verify(whole))).what
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.held(0)) == 12


def test_a_file_that_was_damaged_before_it_was_written_is_found_by_its_pages(whole, sound):
    path = whole / "metrics/part-000000.parquet"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    claimed(whole)
    assert any("no whole Parquet file" in one.what for one in verify(whole))
    repair(whole)
    stores.filled(whole)
    assert stores.contents(whole) == stores.contents(sound)


def test_rows_that_nobody_asks_for_and_nobody_remembers_are_kept(whole, sound):
    (whole / "manifest.json").unlink()
    shutil.rmtree(whole / "journal")
    stores.filled(whole, who=stores.identity(methods=("attcat",)))
    assert Store.read(whole).table("explanations").count_rows() == 24
    stores.filled(whole)
    assert stores.contents(whole)["manifest.json"] == stores.contents(sound)["manifest.json"]
