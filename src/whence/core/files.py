"""Files that are there whole or not at all."""

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from whence.core.errors import CannotRead, CannotWrite


def write_text(path: str | Path, text: str) -> Path:
    """Write `text` to `path` as UTF-8; see `write_bytes`."""
    return write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write `data` to `path` atomically; see `writing`."""
    with writing(path) as stream:
        stream.write(data)
    return Path(path)


@contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open `path` to be written atomically: a reader sees the old file or the new one, never a part.

    A link stays a link, a file keeps its mode, and a pipe or device is written to, not replaced.
    """
    try:
        real = Path(path).resolve()
        if real.exists() and not real.is_file():
            with real.open("wb") as stream:
                yield stream
        else:
            with replacing(real) as stream:
                yield stream
    except OSError as error:
        raise CannotWrite(
            f"Cannot write {str(path)!r}: {error.strerror or error}. Give a file in a folder that exists and that "
            "you may write to."
        ) from None


def written(text: str, path: str | Path | None) -> str:
    """Return `text`, and write it if a path is given."""
    if path is not None:
        write_text(path, text)
    return text


def replace(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Put a file in the place of another, so that it is there even after a power cut. OSErrors are the caller's.

    If it need not be lasting, the disk may take its time: a kill loses nothing, a power cut what was written lately.
    """
    with replacing(path, lasting=lasting) as stream:
        stream.write(data)


@contextmanager
def replacing(path: Path, *, lasting: bool = True) -> Iterator[IO[bytes]]:
    """Open a file beside `path` that takes its place when the block ends, and vanishes if it ends in an error."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name[:100]}.", delete=False
        ) as stream:
            temporary = Path(stream.name)
            yield cast(IO[bytes], stream)
            stream.flush()
            if lasting:
                os.fsync(stream.fileno())
        temporary.chmod(_mode(path))
        temporary.replace(path)
        if lasting:
            settle(path.parent)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def settle(folder: Path) -> None:
    """Have the disk keep what was renamed or removed in a folder."""
    if os.name != "posix":
        return  # a folder cannot be opened there, and need not be
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems know no such thing
            raise
    finally:
        os.close(handle)


def _mode(path: Path) -> int:
    """A temporary file is private; the result gets the old file's mode, or what a plain open() would give."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def check_writable(path: str | Path) -> None:
    """Find out before the work, not after it, that `path` cannot be written."""
    path = Path(path)
    if path.is_dir():
        raise CannotWrite(f"Cannot write {str(path)!r}: it is a folder. Give a file name.")
    if not path.parent.is_dir():
        raise CannotWrite(
            f"Cannot write {str(path)!r}: there is no folder {str(path.parent)!r}. Make it first."
        )
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise CannotWrite(
            f"Cannot write {str(path)!r}: no permission. Choose a place that you may write to."
        )


def read_json(path: str | Path, what: str = "explanation") -> Any:
    """Read one JSON document, which should be a saved `what`."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotRead(
            f"Cannot read {str(path)!r}: {error.strerror or error}. Give the path of a saved {what}."
        ) from None
    except ValueError as error:
        raise CannotRead(
            f"{str(path)!r} is not JSON ({error}). Give a file that save() wrote."
        ) from None


"""What folders and files are called in results, which others read: nothing of where they lie on this machine."""

import re

_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file://")
_CACHED = re.compile(r"(?:^|[/\\])models--([^/\\]+)")  # of the Hugging Face cache
# Last parts that many folders have: with the one before they say more.
_COMMON = re.compile(
    r"(checkpoint|epoch|step|fold|seed|run|v)?[-_]?\d*|model|final|best|last|output|outputs|out|saved",
    re.IGNORECASE,
)


def public_name(given: str, taken: tuple[str, ...] = ()) -> str:
    """Return what a model or a file is called: of an absolute path its last part, else what was given.

    Of a last part that says little, or that is the name of something else (`taken`), the one before it is kept, too.
    """
    cached = _CACHED.search(given)
    if cached and _ABSOLUTE.match(given):
        return cached[1].replace("--", "/")
    if not _ABSOLUTE.match(given):
        return given
    parts = [part for part in re.split(r"[/\\]+", given.removeprefix("file://")) if part]
    parts = [part for part in parts if part not in (".", "..", "~")]
    if not parts:
        return "folder"
    few = 2 if parts[-1] in taken or _COMMON.fullmatch(parts[-1]) else 1
    return "/".join(parts[-few:])


def public_address(given: str) -> str:
    """Return the address of data as results have it: a path by its last part, an address without keys."""
    if "://" not in given or given.startswith("file://"):
        return public_name(given)
    return re.sub(r"(?<=://)[^/@]*@", "", given.partition("?")[0])


"""Paths in commands that people are told to type."""

import shlex
from pathlib import Path


def typed(path: str | Path) -> str:
    """Return a path as it is typed after a command: quoted if needed, and never taken for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
