"""Data sets: those given at the start, and those that are brought in."""

import re
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadExamples, NotFound, TooLarge
from whence.web.settings import Settings

if TYPE_CHECKING:
    from whence.data.sets.examples import Read

Columns = dict[str, str | None]  # text, pair, label

_UNPACKED = 8  # times the size that may be brought in
_STEP = 2**20  # bytes that are unpacked at once


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


@dataclass(frozen=True)
class _Held:
    """A data set, and the way to read it anew by other columns."""

    read: "Read"
    anew: "Callable[..., Read]"


class DataSets:
    """The data sets of a server. Files that are brought in stay in memory, and nowhere else."""

    def __init__(self, settings: Settings) -> None:
        from whence.data.sets.examples import read

        self._settings = settings
        self._lock = threading.Lock()
        self._found: dict[str, _Held] = {}
        self._brought: list[str] = []
        for path in settings.data:
            anew = partial(read, path, most=settings.rows)
            self._add(_Held(anew(), anew))

    def get(self, name: str) -> "Read":
        """Return a data set."""
        if name not in self._found:
            raise NotFound(
                f"There is no data set {name[:100]!r}. There are {', '.join(self._found) or 'none'}."
            )
        return self._found[name].read

    def bring(self, name: str, raw: bytes, columns: Columns | None = None) -> dict[str, Any]:
        """Read a file that was brought in, and keep it; the oldest of too many goes."""
        from whence.data.sets.examples import read_bytes

        name = plain_name(name)
        _check_unpacked(name, raw, self._settings.upload * _UNPACKED)
        anew: Callable[..., Read] = partial(read_bytes, name, raw, most=self._settings.rows)
        found = anew(**(columns or {}))
        with self._lock:
            key = self._add(_Held(found, anew))
            self._brought.append(key)
            if len(self._brought) > self._settings.kept:
                del self._found[self._brought.pop(0)]
        return _entry(key, found)

    def read_anew(self, key: str, columns: Columns) -> dict[str, Any]:
        """Read a data set by other columns; it stays in its place."""
        self.get(key)
        anew = self._found[key].anew
        found = anew(**columns)
        with self._lock:
            if key in self._found:
                self._found[key] = _Held(found, anew)
        return _entry(key, found)

    def entries(self) -> list[dict[str, Any]]:
        """Return what the page's list says."""
        return [_entry(name, held.read) for name, held in list(self._found.items())]

    def _add(self, found: _Held) -> str:
        key = free_id(found.read.name, self._found)
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
        "columns": list(found.columns),
    }


def _check_unpacked(name: str, raw: bytes, limit: int) -> None:
    """Refuse a small file that holds a very large one, before it is unpacked."""
    from whence.data.sets.parquet import holds_more
    from whence.data.sets.rows import ending_of, is_packed

    ending = ending_of(name)
    plain = _gunzipped(name, raw, limit, keep=ending == ".parquet") if is_packed(name) else raw
    if plain is None or (ending == ".parquet" and holds_more(name, plain, limit)):
        raise TooLarge(f"{name} holds more than {limit:,} bytes when it is unpacked.")


def _gunzipped(name: str, raw: bytes, limit: int, keep: bool) -> bytes | None:
    """Unpack all members of a gzip file, unless they hold more bytes than that; `keep` what they hold, or nothing."""
    rest, parts, size = raw, [], 0
    while rest:
        unpacking = zlib.decompressobj(wbits=31)
        while rest and not unpacking.eof:
            try:
                part = unpacking.decompress(rest, _STEP)
            except zlib.error as error:
                raise BadExamples(
                    f"{name} is not a whole gzip file ({error}). Compress it again."
                ) from None
            size += len(part)
            if size > limit:
                return None
            if keep:
                parts.append(part)
            rest = unpacking.unconsumed_tail
        rest = unpacking.unused_data
    return b"".join(parts)
