"""Atomic file writing, JSON reading, shell-quoted paths, and path names that are safe to publish.

Results are read by others, so they name a model folder or a data file
without its location on this machine.
"""

import errno
import json
import os
import re
import shlex
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
    """Write `data` to `path` atomically; see `open_atomic`."""
    with open_atomic(path) as stream:
        stream.write(data)
    return Path(path)


@contextmanager
def open_atomic(path: str | Path) -> Iterator[IO[bytes]]:
    """Open `path` to be written atomically: a reader sees the old file or the new one, never a part.

    A link stays a link, a file keeps its mode, and a pipe or device is written to, not replaced.
    """
    try:
        real = Path(path).resolve()
        is_special = real.exists() and not real.is_file()
        with real.open("wb") if is_special else open_replacement(real) as stream:
            yield stream
    except OSError as error:
        raise CannotWrite(
            f"Cannot write {str(path)!r}: {error.strerror or error}. Give a file in a folder that exists and that "
            "you may write to."
        ) from None


def write_if_path(text: str, path: str | Path | None) -> str:
    """Return `text`, and write it if a path is given."""
    if path is not None:
        write_text(path, text)
    return text


def replace_file(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Replace the content of a file atomically; if `lasting`, it survives a power cut. OSErrors pass.

    Without `lasting`, the file is not synced: a kill of the process loses nothing, a power cut the latest writes.
    """
    with open_replacement(path, lasting=lasting) as stream:
        stream.write(data)


@contextmanager
def open_replacement(path: Path, *, lasting: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` when the block ends, and is deleted if it fails."""
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
        # A temporary file is private (0600): the mode is the old file's, or the default of a plain open().
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~umask)
        temporary.replace(path)
        if lasting:
            sync_folder(path.parent)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that renames and removals in it survive a power cut."""
    if os.name != "posix":
        return  # Windows cannot open a folder, and needs no sync of one
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # no fsync of folders there
            raise
    finally:
        os.close(handle)


def check_writable(path: str | Path) -> None:
    """Raise CannotWrite before the work, not after it, if `path` cannot be written."""
    path = Path(path)
    if path.is_dir():
        why = "it is a folder. Give a file name."
    elif not path.parent.is_dir():
        why = f"there is no folder {str(path.parent)!r}. Make it first."
    elif not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        why = "no permission. Choose a place that you may write to."
    else:
        return
    raise CannotWrite(f"Cannot write {str(path)!r}: {why}")


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


def quote_path(path: str | Path) -> str:
    """Return a path quoted for the shell, and never read as an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file://")
_HUB_CACHE = re.compile(r"(?:^|[/\\])models--([^/\\]+)")  # a folder of the Hugging Face cache
# Last parts shared by many folders, such as "checkpoint-500": the part before is kept as well.
_GENERIC_NAME = re.compile(
    r"(checkpoint|epoch|step|fold|seed|run|v)?[-_]?\d*|model|final|best|last|output|outputs|out|saved",
    re.IGNORECASE,
)


def format_public_name(name: str, reserved: tuple[str, ...] = ()) -> str:
    """Return the publishable name of a model or file: the last part of an absolute path, else `name`.

    The last two parts where the last is generic ("checkpoint-500") or in `reserved`, the names of other things.
    """
    if not _ABSOLUTE.match(name):
        return name
    if cached := _HUB_CACHE.search(name):
        return cached[1].replace("--", "/")
    parts = [part for part in re.split(r"[/\\]+", name.removeprefix("file://")) if part]
    parts = [part for part in parts if part not in (".", "..", "~")]
    if not parts:
        return "folder"
    count = 2 if parts[-1] in reserved or _GENERIC_NAME.fullmatch(parts[-1]) else 1
    return "/".join(parts[-count:])


def format_public_address(address: str) -> str:
    """Return the publishable address of a data set: a path's last part, an address without keys."""
    if "://" not in address or address.startswith("file://"):
        return format_public_name(address)
    return re.sub(r"(?<=://)[^/@]*@", "", address.partition("?")[0])
