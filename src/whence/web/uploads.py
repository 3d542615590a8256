"""Data sets: those given at the start, and those that are brought in."""

import re
import tempfile
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadExamples, NotFound, TooLarge
from whence.web.settings import Settings

if TYPE_CHECKING:
    from whence.data.examples import Read

_UNPACKED = 8  # times the size that may be brought in


def plain_name(name: str) -> str:
    """Return a file's name without folders and without characters that mean something elsewhere."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w. -]", "_", last).strip(". ")[-100:] or "file"


def free_id(name: str, taken: Any) -> str:
    """Return an id that can stand in an address and that nothing has yet."""
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "file"
    found, number = short, 1
    while found in taken:
        number += 1
        found = f"{short}-{number}"
    return found


class DataSets:
    """The data sets of a server. Files that are brought in are read and removed."""

    def __init__(self, settings: Settings) -> None:
        from whence.data.examples import read

        self._settings = settings
        self._lock = threading.Lock()
        self._found: dict[str, Read] = {}
        self._brought: list[str] = []
        for path in settings.data:
            self._add(read(path))

    def get(self, name: str) -> "Read":
        """Return a data set."""
        if name not in self._found:
            raise NotFound(
                f"There is no data set {name[:100]!r}. There are {', '.join(self._found) or 'none'}."
            )
        return self._found[name]

    def bring(self, name: str, raw: bytes) -> dict[str, Any]:
        """Read a file that was brought in, and keep it; the oldest of too many goes."""
        from whence.data.examples import read

        name = plain_name(name)
        if name.endswith(".gz"):
            _check_unpacked(name, raw, self._settings.upload * _UNPACKED)
        with tempfile.TemporaryDirectory(prefix="whence-") as folder:
            path = Path(folder) / name
            path.write_bytes(raw)
            found = read(path)
        with self._lock:
            key = self._add(found)
            self._brought.append(key)
            if len(self._brought) > self._settings.kept:
                del self._found[self._brought.pop(0)]
        return _entry(key, found)

    def entries(self) -> list[dict[str, Any]]:
        """Return what the page's list says."""
        return [_entry(name, found) for name, found in list(self._found.items())]

    def _add(self, found: "Read") -> str:
        key = free_id(found.name, self._found)
        self._found[key] = found
        return key


def _entry(key: str, found: "Read") -> dict[str, Any]:
    return {
        "id": key,
        "name": found.name,
        "rows": len(found),
        "text": found.text or "text",
        "pair": found.pair,
        "label": found.label,
        "guessed": list(found.guessed),
    }


def _check_unpacked(name: str, raw: bytes, limit: int) -> None:
    """Refuse a small file that holds a very large one, before it is unpacked."""
    rest, size = raw, 0
    while rest:
        unpacking = zlib.decompressobj(wbits=31)
        try:
            size += len(unpacking.decompress(rest, limit - size + 1))
        except zlib.error as error:
            raise BadExamples(
                f"{name} is not a whole gzip file ({error}). Compress it again."
            ) from None
        if size > limit:
            raise TooLarge(f"{name} holds more than {limit:,} bytes when it is unpacked.")
        rest = unpacking.unused_data
