"""Stored results: what whence wrote as JSON, in files given at the start or brought in, and the page of each."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whence.core.errors import CannotRead, NotFound, WhenceError
from whence.core.io import read_json
from whence.web.kinds import KINDS, NoResult, kind_of
from whence.web.settings import Settings
from whence.web.uploads import free_id, plain_name

_FILES = 500  # of a folder


@dataclass(frozen=True)
class Stored:
    """One stored result."""

    name: str
    payload: dict[str, Any]
    changed: str | None

    def entry(self, key: str) -> dict[str, Any]:
        """Return what the page's list says of it."""
        kind = kind_of(self.payload)
        return {
            "id": key,
            "kind": kind,
            "name": self.name,
            "model": KINDS[kind].model(self.payload),
            "summary": KINDS[kind].summary(self.payload),
            "changed": self.changed,
        }


class StoredResults:
    """The results of a server: in files and folders given at the start, and brought in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._found: dict[str, Stored] = {}
        self._brought: list[str] = []
        self._problems: list[str] = []
        strangers: list[str] = []
        for path in _files(settings.results):
            self._read(path, strangers)
        if strangers:
            self._problems.append(_passed_over(strangers))

    def listed(self) -> dict[str, Any]:
        """Return the list, and what could not be read."""
        return {
            "results": [one.entry(key) for key, one in list(self._found.items())],
            "problems": list(self._problems),
        }

    def get(self, key: str) -> dict[str, Any]:
        """Return a result as it was written."""
        if key not in self._found:
            raise NotFound(f"There is no stored result {key[:100]!r}.")
        return self._found[key].payload

    def page(self, key: str) -> str:
        """Return whence's own page of a result."""
        payload = self.get(key)
        return _page(self._found[key].name, payload)

    def bring(self, name: str, raw: bytes) -> dict[str, Any]:
        """Take a result that was brought in; the oldest of too many goes."""
        name = plain_name(name)
        try:
            payload = json.loads(raw)
        except (ValueError, RecursionError):
            raise CannotRead(f"{name} is not JSON. Give a file that whence wrote.") from None
        stored = Stored(name, _checked(name, payload), None)
        _page(name, stored.payload)  # better refused now than when somebody wants to see it
        with self._lock:
            key = self._add(stored)
            self._brought.append(key)
            if len(self._brought) > self._settings.kept:
                del self._found[self._brought.pop(0)]
        return stored.entry(key)

    def _read(self, path: Path, strangers: list[str]) -> None:
        try:
            payload = _checked(path.name, read_json(path, "result"))
        except _NotOurs:
            strangers.append(path.name)
            return
        except WhenceError as error:
            self._problems.append(str(error))
            return
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        self._add(Stored(path.name, payload, written.isoformat(timespec="seconds")))

    def _add(self, stored: Stored) -> str:
        key = free_id(stored.name.removesuffix(".json"), self._found)
        self._found[key] = stored
        return key


class _NotOurs(CannotRead):
    """A file that is no result of whence."""


def _passed_over(names: list[str]) -> str:
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    files = "1 file is" if len(names) == 1 else f"{len(names)} files are"
    return f"{files} no result of whence, and passed over: {some}."


def _checked(name: str, payload: Any) -> dict[str, Any]:
    """Refuse what is not a result, or only a part of one."""
    _check_sendable(name, payload)
    with _whole(name):
        Stored(name, payload, None).entry("")
    found: dict[str, Any] = payload
    return found


def _check_sendable(name: str, payload: Any) -> None:
    """Refuse what JSON has no way to say, although Python reads it: NaN, infinity, halves of characters."""
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        what = (
            "half a character" if isinstance(error, UnicodeEncodeError) else "a number that is none"
        )
        raise CannotRead(
            f"{name} holds {what}, which no result of whence does. Give the file as whence wrote it."
        ) from None


def _page(name: str, payload: dict[str, Any]) -> str:
    with _whole(name):
        return KINDS[kind_of(payload)].page(payload)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    try:
        yield
    except NoResult as error:
        raise _NotOurs(f"{name}: {error}") from None
    except WhenceError as error:
        raise CannotRead(f"{name}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CannotRead(
            f"{name} is not a whole result: {type(error).__name__} {error}. Give a file that whence wrote."
        ) from None


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.rglob("*.json"))[:_FILES]
        elif path.exists():
            found.append(path)
        else:
            raise CannotRead(
                f"Cannot read {str(path)!r}: there is no such file or folder. --results takes what whence wrote."
            )
    return list(dict.fromkeys(found))
