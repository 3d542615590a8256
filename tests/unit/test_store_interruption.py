"""Interrupted stores: a run killed at any step, or stopped by a full or closed disk, resumes to the same bytes."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from tests import stores
from whence.core.errors import CannotRead, CannotWrite
from whence.runs.store import Store, verify_store

WHO = stores.identity()


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory):
    """Write the store of an undisturbed run, once."""
    return stores.write_store(tmp_path_factory.mktemp("sound") / "out")


@pytest.fixture
def finished_copy(sound_folder, tmp_path):
    return Path(shutil.copytree(sound_folder, tmp_path / "out"))


# Kills.


def test_store_clears_temporary_files_of_a_killed_run_only(finished_copy, sound_folder):
    left = [
        finished_copy / ".manifest.json.abcd_123",
        finished_copy / "metrics/.000000-001.parquet.x1y2z3w4",
        finished_copy / "explanations/.000000-001.parquet.x1y2z3w4",
    ]
    mine = finished_copy / "metrics/.part.parquet.mine"
    for path in (*left, mine):
        path.write_text("torn")
    assert {one.where for one in verify_store(finished_copy)} == {
        str(path.relative_to(finished_copy)) for path in left
    }
    stores.write_store(finished_copy)
    assert mine.exists()
    mine.unlink()
    assert stores.contents(finished_copy) == stores.contents(sound_folder)


class Killed(BaseException):
    """Nothing catches it."""


@pytest.mark.parametrize(("call", "stride"), [("replace", 1), ("fsync", 4), ("unlink", 4)])
def test_run_killed_at_any_disk_operation_resumes_to_the_same_bytes(
    tmp_path, monkeypatch, call, stride
):
    """Steps that the disk sees, each the last one once, also those on top of an earlier run with fewer methods."""

    def work(out):
        few = stores.identity(methods=("rollout",))
        for who in (few, WHO):
            stores.write_store(out, who=who, windows=(0,), size=3)

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
        assert list(verify_store(out)) == []
    assert steps >= {"replace": 10, "fsync": 20, "unlink": 10}[call]


# Disks.


def test_store_on_a_full_disk_raises_cannot_write_and_resumes_later(tmp_path):
    out, size = tmp_path / "out", {"windows": (0,), "size": 60}
    sound = stores.write_store(tmp_path / "sound", **size)
    stores.write_store(out, windows=())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))  # the manifest fits, a table does not
    try:
        with pytest.raises(
            CannotWrite, match=r"no room for more results in .*All done so far is safe"
        ):
            stores.write_store(out, **size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(out.rglob(".*"))
    stores.write_store(out, **size)
    assert stores.contents(out) == stores.contents(sound)


def test_explain_write_errors_states_required_and_free_bytes(tmp_path):
    from whence.runs.store import explain_write_errors

    said = r": No space left on device \(9,100,000,000,000,000 bytes were to be written, and [\d,]+ are free\)"
    with (
        pytest.raises(CannotWrite, match=said),
        explain_write_errors(tmp_path, 9_100_000_000_000_000),
    ):
        raise OSError(28, "No space left on device")
    said = r"no room for more results in '/nowhere/at/all': No space left on device\. All"
    with pytest.raises(CannotWrite, match=said), explain_write_errors(Path("/nowhere/at/all"), 1):
        raise OSError(28, "No space left on device")


def test_open_existing_store_without_read_permission_raises_cannot_read(finished_copy, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)  # root may read everything
    with pytest.raises(CannotRead, match="Permission denied"):
        Store.open_existing(finished_copy)


def test_open_locked_store_without_write_permission_raises_cannot_write(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(CannotWrite, match=r"Cannot write to the folder .*Permission denied"):
        stores.write_store(tmp_path / "out")
