"""Files that are there whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from whence.core.errors import CannotRead, CannotWrite


def write_text(path: str | Path, text: str) -> Path:
    """Write `text` to `path` atomically: a reader sees the old file or the new one, never a part."""
    path = Path(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            temporary = Path(stream.name)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # A temporary file is private by default; the result gets the mode a plain open() would give.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotWrite(
            f"Cannot write {str(path)!r}: {reason}. Give a file in a folder that exists and that you may write to."
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return path


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


def read_json(path: str | Path) -> Any:
    """Read one JSON document."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotRead(
            f"Cannot read {str(path)!r}: {error.strerror or error}. Give the path of a saved explanation."
        ) from None
    except ValueError as error:
        raise CannotRead(
            f"{str(path)!r} is not JSON ({error}). Give a file written by Explanation.save."
        ) from None
