"""Runs that end at any step, and disks that are full or closed: the same command goes on."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from tests import stores
from whence.core.errors import CannotRead, CannotWrite
from whence.run.store import Store
from whence.run.store.repair import repair
from whence.run.store.verify import verify

WHO = stores.identity()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Write the store of an undisturbed run, once."""
    return stores.filled(tmp_path_factory.mktemp("sound") / "out")


@pytest.fixture
def whole(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "out"))


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
