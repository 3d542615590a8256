"""Who may write to the folder of a run, and which folders are left alone."""

import os
import subprocess
import sys

import pytest

from tests import stores
from whence.core.errors import BadStore, CannotWrite, StoreInUse
from whence.run.store import Store
from whence.run.store.schema import VERSION


@pytest.fixture
def whole(tmp_path):
    """Write the store of an undisturbed run."""
    return stores.filled(tmp_path / "whole")


# The lock.


def test_a_second_run_is_refused_at_once_and_hears_who_was_first(whole):
    with Store.locked(whole), pytest.raises(StoreInUse, match=rf"\(process {os.getpid()} on "):
        Store.locked(whole).__enter__()
    with Store.locked(whole):
        pass


def test_the_lock_of_another_process_counts_and_ends_with_it(whole):
    hold = (
        "import fcntl, os, sys, time\nlock = open(sys.argv[1], 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
        'print(f\'{{"pid": {os.getpid()}, "host": "far"}}\', file=lock, flush=True)\n'
        "print('held', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", hold, str(whole / "lock")], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse, match=f"process {other.pid} on far"), Store.locked(whole):
            pass
        other.kill()
    with Store.locked(whole):  # what it left of its name is no obstacle
        pass


def test_a_child_that_outlives_its_parent_holds_no_lock(whole):
    reads, writes = os.pipe()
    ready, started = os.pipe()
    with Store.locked(whole):
        child = os.fork()
        if child == 0:
            os.close(writes)
            os.write(started, b".")  # what a fork lets go of is gone now
            os.read(reads, 1)  # until the parent says so
            os._exit(0)
        assert os.read(ready, 1) == b"."
        with pytest.raises(StoreInUse), Store.locked(whole):
            pass
    try:
        with Store.locked(whole):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it is still there
    finally:
        os.close(writes)
        os.waitpid(child, 0)
        for end in (reads, ready, started):
            os.close(end)


def test_a_torn_note_in_the_lock_says_nothing(whole):
    with Store.locked(whole):
        (whole / "lock").write_bytes(b'{"pid": 1')
        with pytest.raises(StoreInUse, match=r"is writing to '[^']*'\. Wait"), Store.locked(whole):
            pass


def test_a_disk_without_locks_is_refused(whole, monkeypatch):
    import fcntl

    def unknown(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unknown)  # such a disk is not at hand
    with pytest.raises(CannotWrite, match="cannot be locked: Function not implemented"):
        Store.locked(whole).__enter__()


def test_the_lock_of_windows(tmp_path, monkeypatch):
    """There is no Windows here: its lock is one of this system that refuses as Windows does."""
    import fcntl
    import importlib.util
    from types import SimpleNamespace

    from whence.run.store import lock

    def locking(handle, how, size):
        assert (how, size) == (2, 1)
        assert os.lseek(handle, 0, os.SEEK_CUR) == 1 << 30  # away from what others read
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setattr(sys, "platform", "win32")
    spec = importlib.util.spec_from_file_location("lock_of_windows", lock.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with (
        module.Lock(tmp_path / "lock"),
        pytest.raises(StoreInUse, match=f"process {os.getpid()}"),
        module.Lock(tmp_path / "lock"),
    ):
        pass
    with module.Lock(tmp_path / "lock"):
        pass


# Folders.


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("my life's work")
    with pytest.raises(BadStore, match=r"holds something else \(thesis.tex\), and no run"):
        stores.filled(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_manifest_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(BadStore, match="is not of a run"):
        stores.filled(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == '{"name": "a web page"}'


def test_a_sealed_file_of_something_else_is_no_manifest(tmp_path):
    from whence.run.store.seal import sealed

    (tmp_path / "manifest.json").write_bytes(sealed({"name": "a web page"}))
    with pytest.raises(BadStore, match="is not of a run"):
        stores.filled(tmp_path)
    with pytest.raises(BadStore, match="is damaged: it is not of a run"):
        Store.read(tmp_path)


def test_files_of_the_user_stay_where_they_are(whole):
    notes = [
        whole / "notes.txt",
        whole / "explanations" / "notes.txt",
        whole / "index" / ".DS_Store",
    ]
    for path in notes:
        path.write_text("mine")
    stores.filled(whole)
    assert all(path.read_text() == "mine" for path in notes)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(CannotWrite, match="is a file"):
        stores.filled(tmp_path / "out")


def test_nothing_there_is_no_store(tmp_path):
    assert Store.reading(tmp_path / "none") is None
    with pytest.raises(BadStore, match="holds no run"):
        Store.read(tmp_path / "none")


def test_a_store_of_a_newer_whence_is_refused(whole):
    from whence.run.store.seal import sealed, unsealed

    path = whole / "manifest.json"
    path.write_bytes(sealed({**unsealed(path.read_bytes()), "version": VERSION + 1}))
    with pytest.raises(BadStore, match="newer whence: its format is 3"):
        Store.read(whole)
    with pytest.raises(BadStore, match="newer whence"):
        stores.filled(whole)
