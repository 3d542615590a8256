"""Files that are there whole or not at all."""

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from whence.core.errors import CannotRead, CannotWrite


def write_text(path: str | Path, text: str) -> Path:
    """Write `text` to `path` as UTF-8; see `write_bytes`."""
    return write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write `data` to `path` atomically: a reader sees the old file or the new one, never a part.

    A link stays a link, a file keeps its mode, and a pipe or device is written to, not replaced.
    """
    path = Path(path)
    try:
        real = path.resolve()
        if real.exists() and not real.is_file():
            real.write_bytes(data)
        else:
            _replace(real, data)
    except OSError as error:
        raise CannotWrite(
            f"Cannot write {str(path)!r}: {error.strerror or error}. Give a file in a folder that exists and that "
            "you may write to."
        ) from None
    return path


def written(text: str, path: str | Path | None) -> str:
    """Return `text`, and write it if a path is given."""
    if path is not None:
        write_text(path, text)
    return text


def _replace(path: Path, data: bytes) -> None:
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name[:100]}.", delete=False
        ) as stream:
            temporary = Path(stream.name)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(path))
        temporary.replace(path)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


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
