"""Errors, files, seeds."""

import os
import stat

import numpy as np
import pytest

from whence.core import io
from whence.core.errors import CannotWrite, WhenceError, all_errors, did_you_mean
from whence.core.seed import generator


def test_every_error_has_a_code_and_a_status_of_its_own():
    errors = all_errors()
    assert len({e.code for e in errors}) == len(errors)
    assert len({e.exit_status for e in errors}) == len(errors)
    # 0 to 2 and 126 upwards mean something to a shell.
    assert all(3 <= e.exit_status < 126 for e in errors)


def test_the_tree_in_the_docstring_is_the_tree():
    from whence.core import errors

    for error in all_errors():
        line = next(x for x in errors.__doc__.splitlines() if f" {error.__name__} " in x)
        assert str(error.exit_status) in line.split()


def test_a_message_is_one_line():
    assert str(WhenceError("a\n  b")) == "a b"


def test_did_you_mean():
    assert did_you_mean("Rolout", ["rollout", "random"]) == " Did you mean 'rollout'?"
    assert did_you_mean("xyz", ["rollout"]) == ""


def test_the_same_key_gives_the_same_numbers():
    one, two = (generator("a", 1, [2, 3]).standard_normal(4) for _ in range(2))
    assert (one == two).all()
    assert not np.array_equal(one, generator("a", 1, [2, 4]).standard_normal(4))
    assert not np.array_equal(generator("a", [1, 2]).random(3), generator("a", [12]).random(3))


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="No space left"):
        io.write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_an_interrupt_leaves_no_part_behind(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        io.write_text(tmp_path / "f", "new")
    assert list(tmp_path.iterdir()) == []


def test_the_mode_is_that_of_a_plain_file(tmp_path):
    io.write_text(tmp_path / "f", "x")
    (tmp_path / "g").write_text("x")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "g").stat().st_mode
    )


@pytest.mark.parametrize("path", [".", "none/f"])
def test_check_writable(tmp_path, path):
    io.check_writable(tmp_path / "f")
    with pytest.raises(CannotWrite):
        io.check_writable(tmp_path / path)


def test_links_pipes_and_modes_are_kept(tmp_path):
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o600)
    (tmp_path / "link").symlink_to("f")
    io.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    io.write_text(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_no_permission(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)  # root may write anywhere; nobody may not
    try:
        with pytest.raises(CannotWrite, match="Permission denied"):
            io.write_text(tmp_path / "closed" / "f", "x")
    finally:
        os.seteuid(mine)
    assert list((tmp_path / "closed").iterdir()) == []


def test_a_folder_that_cannot_be_brought_to_the_disk_is_no_error_where_that_is_unknown(
    tmp_path, monkeypatch
):
    import errno

    from whence.core import io

    def refused(reason):
        def fsync(_):
            raise OSError(reason, os.strerror(reason))

        return fsync

    monkeypatch.setattr(os, "fsync", refused(errno.EINVAL))
    io.settle(tmp_path)
    monkeypatch.setattr(os, "fsync", refused(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        io.settle(tmp_path)
    monkeypatch.setattr(os, "name", "nt")
    io.settle(tmp_path)
