"""Store lock: one writer at a time, and refusal of folders that hold something other than a run."""

import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest

from tests import stores
from whence.core.errors import BadStore, CannotWrite, StoreInUse
from whence.runs.records import VERSION
from whence.runs.store import Store, is_store, verify_store


@pytest.fixture
def complete_store(tmp_path):
    """Write the store of an undisturbed run."""
    return stores.write_store(tmp_path / "whole")


# The lock.


def test_open_locked_while_locked_raises_store_in_use_with_the_process_of_the_holder(
    complete_store,
):
    with (
        Store.open_locked(complete_store),
        pytest.raises(StoreInUse, match=rf"\(process {os.getpid()} on "),
    ):
        Store.open_locked(complete_store).__enter__()
    with Store.open_locked(complete_store):
        pass


def test_open_locked_is_refused_while_another_process_locks_and_works_after_its_death(
    complete_store,
):
    hold = (
        "import fcntl, os, sys, time\nlock = open(sys.argv[1], 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
        'print(f\'{{"pid": {os.getpid()}, "host": "far"}}\', file=lock, flush=True)\n'
        "print('held', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", hold, str(complete_store / "lock")], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(StoreInUse, match=f"process {other.pid} on far"),
            Store.open_locked(complete_store),
        ):
            pass
        other.kill()
    with Store.open_locked(complete_store):  # what it left of its name is no obstacle
        pass


def test_lock_is_released_by_the_parent_while_a_forked_child_still_lives(complete_store):
    reads, writes = os.pipe()
    ready, started = os.pipe()
    with Store.open_locked(complete_store):
        child = os.fork()
        if child == 0:
            os.close(writes)
            os.write(started, b".")  # what a fork lets go of is gone now
            os.read(reads, 1)  # until the parent says so
            os._exit(0)
        assert os.read(ready, 1) == b"."
        with pytest.raises(StoreInUse), Store.open_locked(complete_store):
            pass
    try:
        with Store.open_locked(complete_store):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it is still there
    finally:
        os.close(writes)
        os.waitpid(child, 0)
        for end in (reads, ready, started):
            os.close(end)


def test_store_in_use_error_names_no_process_when_the_lock_file_is_torn(complete_store):
    with Store.open_locked(complete_store):
        (complete_store / "lock").write_bytes(b'{"pid": 1')
        with (
            pytest.raises(StoreInUse, match=r"is writing to '[^']*'\. Wait"),
            Store.open_locked(complete_store),
        ):
            pass


def test_open_locked_on_a_disk_without_locks_raises_cannot_write(complete_store, monkeypatch):
    import fcntl

    def unknown(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unknown)  # such a disk is not at hand
    with pytest.raises(CannotWrite, match="cannot be locked: Function not implemented"):
        Store.open_locked(complete_store).__enter__()


# Folders.


def test_store_in_a_folder_of_foreign_files_raises_bad_store_and_writes_nothing(tmp_path):
    (tmp_path / "thesis.tex").write_text("my life's work")
    with pytest.raises(BadStore, match=r"holds something else \(thesis.tex\), and no run"):
        stores.write_store(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]


def test_store_over_a_foreign_manifest_raises_bad_store_and_leaves_the_manifest(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(BadStore, match="is not of a run"):
        stores.write_store(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == '{"name": "a web page"}'


def test_foreign_manifest_with_a_valid_checksum_raises_bad_store(tmp_path):
    from whence.runs.store import encode_json

    (tmp_path / "manifest.json").write_bytes(encode_json({"name": "a web page"}))
    with pytest.raises(BadStore, match="is not of a run"):
        stores.write_store(tmp_path)
    with pytest.raises(BadStore, match="is damaged: it is not of a run"):
        Store.open_existing(tmp_path)


def test_rerun_into_a_store_leaves_files_of_the_user_unchanged(complete_store):
    notes = [
        complete_store / "notes.txt",
        complete_store / "explanations" / "notes.txt",
        complete_store / "metrics" / ".DS_Store",
    ]
    for path in notes:
        path.write_text("mine")
    stores.write_store(complete_store)
    assert all(path.read_text() == "mine" for path in notes)


def test_store_at_the_path_of_a_file_raises_cannot_write(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(CannotWrite, match="is a file"):
        stores.write_store(tmp_path / "out")


def test_open_existing_raises_without_a_store(tmp_path):
    assert not is_store(tmp_path / "none")
    with pytest.raises(BadStore, match="holds no run"):
        Store.open_existing(tmp_path / "none")


def test_a_store_of_a_newer_whence_is_refused(complete_store):
    from whence.runs.store import decode_json, encode_json

    path = complete_store / "manifest.json"
    path.write_bytes(encode_json({**decode_json(path.read_bytes()), "version": VERSION + 1}))
    with pytest.raises(BadStore, match="newer whence: its format is 4"):
        Store.open_existing(complete_store)
    with pytest.raises(BadStore, match="newer whence"):
        stores.write_store(complete_store)


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_older_whence_is_refused_with_what_to_do(tmp_path, version):
    # As they were sealed: the checksum last, over the text before it.
    body = json.dumps(
        {"format": "whence run", "version": version, "plan": {}}, sort_keys=True, indent=1
    )
    seal = sha256(body.encode()).hexdigest()
    (tmp_path / "manifest.json").write_text(f'{body[:-2]},\n "sha256": "{seal}"\n}}\n')
    (tmp_path / "index").mkdir()
    (tmp_path / "explanations").mkdir()
    (tmp_path / "explanations" / "part-000000.parquet").write_bytes(b"PAR1")
    before = stores.contents(tmp_path)
    for act in (Store.open_existing, stores.write_store):
        with pytest.raises(
            BadStore, match=rf"format is {version}.*new folder \(--out\).*store export"
        ):
            act(tmp_path)
    assert stores.contents(tmp_path) == before
    assert f"format is {version}" in next(verify_store(tmp_path)).what
