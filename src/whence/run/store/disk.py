"""Writing to a store's folder: files that are there whole or not at all, and a kind word where the disk is full."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from whence.core import io
from whence.core.errors import CannotWrite

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def put(folder: Path, path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write a file of the store in `folder`; if lasting, it is there after a power cut, too."""
    with writing(folder, len(data)):
        io.replace(path, data, lasting=lasting)


@contextmanager
def writing(folder: Path, size: int = 0) -> Iterator[None]:
    """Turn what goes wrong while something is written into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise CannotWrite(
                f"There is no room for more results in {str(folder)!r}: {error.strerror}{_sizes(folder, size)}. All "
                "done so far is safe. Make room, and give the same command again: it goes on from there."
            ) from None
        raise CannotWrite(
            f"Cannot write to {str(error.filename or folder)!r}: {error.strerror or error}. All done so far is "
            "safe. Allow it to be written, and give the same command again: it goes on from there."
        ) from None


def _sizes(folder: Path, size: int) -> str:
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
        if free < size:
            return f" ({size:,} bytes were to be written, and {free:,} are free)"
    return ""
