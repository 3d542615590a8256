"""Core package: error codes and messages, seeded generators, and file writes that survive failures."""

import os
import stat

import numpy as np
import pytest

from whence.core import files
from whence.core.errors import CannotWrite, WhenceError, list_errors, suggest_name
from whence.core.seed import build_generator


def test_every_error_has_a_unique_code_and_exit_status():
    errors = list_errors()
    assert len({e.code for e in errors}) == len(errors)
    assert len({e.exit_status for e in errors}) == len(errors)
    # 0 to 2 and 126 upwards mean something to a shell.
    assert all(3 <= e.exit_status < 126 for e in errors)


def test_whence_error_message_is_joined_into_one_line():
    assert str(WhenceError("a\n  b")) == "a b"


def test_suggest_name_offers_the_nearest_name_or_nothing():
    assert suggest_name("Rolout", ["rollout", "random"]) == " Did you mean 'rollout'?"
    assert suggest_name("xyz", ["rollout"]) == ""


def test_build_generator_gives_the_same_numbers_for_the_same_key_only():
    one, two = (build_generator("a", 1, [2, 3]).standard_normal(4) for _ in range(2))
    assert (one == two).all()
    assert not np.array_equal(one, build_generator("a", 1, [2, 4]).standard_normal(4))
    assert not np.array_equal(
        build_generator("a", [1, 2]).random(3), build_generator("a", [12]).random(3)
    )


def test_write_text_that_fails_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="No space left"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_write_text_after_an_interrupt_leaves_no_partial_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_text(tmp_path / "f", "new")
    assert list(tmp_path.iterdir()) == []


def test_write_text_gives_the_mode_of_a_plain_file(tmp_path):
    files.write_text(tmp_path / "f", "x")
    (tmp_path / "g").write_text("x")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "g").stat().st_mode
    )


@pytest.mark.parametrize("path", [".", "none/f"])
def test_check_writable_refuses_a_folder_and_a_missing_parent(tmp_path, path):
    files.check_writable(tmp_path / "f")
    with pytest.raises(CannotWrite):
        files.check_writable(tmp_path / path)


def test_write_text_preserves_links_pipes_and_modes(tmp_path):
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o600)
    (tmp_path / "link").symlink_to("f")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_write_text_without_permission_raises_cannot_write(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)  # root may write anywhere; nobody may not
    try:
        with pytest.raises(CannotWrite, match="Permission denied"):
            files.write_text(tmp_path / "closed" / "f", "x")
    finally:
        os.seteuid(mine)
    assert list((tmp_path / "closed").iterdir()) == []


def test_sync_folder_ignores_unsupported_fsync_and_raises_real_errors(tmp_path, monkeypatch):
    import errno

    from whence.core import files

    def refused(reason):
        def fsync(_):
            raise OSError(reason, os.strerror(reason))

        return fsync

    monkeypatch.setattr(os, "fsync", refused(errno.EINVAL))
    files.sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", refused(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        files.sync_folder(tmp_path)
    monkeypatch.setattr(os, "name", "nt")
    files.sync_folder(tmp_path)
