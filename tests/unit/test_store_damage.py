"""Whatever happens to the files of a store, it is seen, set aside, and computed again: the same bytes in the end."""

import os
import resource
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import stores
from whence.core.errors import BadStore, CannotRead, CannotWrite
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


# Kills.


def test_temporary_files_that_a_kill_left_are_cleared(whole, sound):
    left = [
        whole / ".manifest.json.abcd_123",
        whole / "metrics/.part-000000.parquet.x1y2z3w4",
        whole / "index/.000000.next.json.x1y2z3w4",
        whole / "pending/.000000-001.arrows.x1y2z3w4",
    ]
    mine = whole / "metrics/.part.parquet.mine"
    for path in (*left, mine):
        path.write_text("torn")
    assert {one.where for one in verify(whole)} == {str(path.relative_to(whole)) for path in left}
    assert len(repair(whole)) == 4
    assert mine.exists()
    mine.unlink()
    assert stores.contents(whole) == stores.contents(sound)
    left[1].write_text("torn")
    stores.filled(whole)
    assert stores.contents(whole) == stores.contents(sound)


class Killed(BaseException):
    """Nothing catches it."""


@pytest.mark.parametrize(("call", "stride"), [("replace", 1), ("fsync", 4), ("unlink", 4)])
def test_a_run_that_ends_at_any_step_goes_on(tmp_path, monkeypatch, call, stride):
    """Steps that the disk sees, each the last one once, also those on top of an earlier run with fewer methods."""
    monkeypatch.setattr("whence.run.store.store.LONG", 0.0)  # chunks wait for the disk, too

    def work(out):
        few = stores.identity(methods=("rollout",))
        for who in (few, WHO):
            stores.filled(out, who=who, windows=(0,), size=3)

    whole = tmp_path / "whole"
    work(whole)
    real = getattr(os, call)
    for steps in range(0, 1000, stride):
        left = [steps]

        def step(*args, left=left, **kwargs):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*args, **kwargs)

        out = tmp_path / f"out{steps}"
        with monkeypatch.context() as patched:
            patched.setattr(os, call, step)
            try:
                work(out)
                break  # there are not so many steps
            except Killed:
                pass
        work(out)
        assert stores.contents(out) == stores.contents(whole), steps
        assert list(verify(out)) == []
    assert steps >= {"replace": 10, "fsync": 20, "unlink": 10}[call]


def test_a_commit_that_was_killed_before_its_last_step_is_ended_not_repeated(whole, sound):
    index = whole / "index/000000.json"
    index.rename(whole / "index/000000.next.json")
    assert [(one.where, one.what) for one in verify(whole)][:1] == [
        ("index/000000.next.json", "a commit was interrupted")
    ]
    assert repair(whole) == []
    assert stores.contents(whole) == stores.contents(sound)


# Disks.


def test_a_full_disk_is_told_kindly_and_the_same_command_goes_on(tmp_path):
    out, size = tmp_path / "out", {"windows": (0,), "size": 60}
    sound = stores.filled(tmp_path / "sound", **size)
    stores.filled(out, windows=())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12000, hard))  # a chunk fits, a table does not
    try:
        with pytest.raises(
            CannotWrite, match=r"no room for more results in .*All done so far is safe"
        ):
            stores.filled(out, **size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(out.rglob(".*"))
    assert len(list((out / "pending").iterdir())) == 30
    stores.filled(out, **size)
    assert stores.contents(out) == stores.contents(sound)


def test_how_much_room_is_missing_is_said(tmp_path):
    from whence.run.store.disk import writing

    said = r": No space left on device \(9,100,000,000,000,000 bytes were to be written, and [\d,]+ are free\)"
    with pytest.raises(CannotWrite, match=said), writing(tmp_path, 9_100_000_000_000_000):
        raise OSError(28, "No space left on device")
    said = r"no room for more results in '/nowhere/at/all': No space left on device\. All"
    with pytest.raises(CannotWrite, match=said), writing(Path("/nowhere/at/all"), 1):
        raise OSError(28, "No space left on device")


def test_another_reason_why_nothing_can_be_written(tmp_path):
    with Store.locked(tmp_path / "out") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        shutil.rmtree(tmp_path / "out/pending")
        with pytest.raises(
            CannotWrite, match=r"No such file or directory\. All done so far is safe"
        ):
            store.add(stores.done(WHO, stores.window(), 0))


def test_a_file_that_may_not_be_read_is_not_taken_for_damage(whole, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)  # root may read everything
    with pytest.raises(CannotRead, match="Permission denied"):
        Store.read(whole)


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(CannotWrite, match=r"Cannot write to the folder .*Permission denied"):
        stores.filled(tmp_path / "out")


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
    index.write_bytes(sealed({**facts, "version": 2}))
    assert "its version is 2" in _said(whole)


def test_a_folder_that_holds_no_run_is_neither_whole_nor_repaired(tmp_path):
    for act in (lambda out: list(verify(out)), repair):
        with pytest.raises(BadStore, match="holds no run"):
            act(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_json_that_is_nested_too_deeply_is_damage(whole):
    (whole / "index/000000.json").write_bytes(b"[" * 100_000)
    stores.filled(whole)
    assert any("nested" in one["why"] for one in Store.read(whole).damage())
