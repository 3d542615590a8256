"""Stored runs: what is in a folder now, and what each of them says; nothing is locked, and nothing is written.

A run is asked for by an id that was made here, out of the folders that are there: no path is ever made of what a
request says, and a link that leads elsewhere is not followed.
"""

import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadStore, CannotRead, NotFound, WhenceError
from whence.core.places import public_name
from whence.web.schema.runs import RunFacts

if TYPE_CHECKING:
    from whence.run.results import Run

_MOST = 500  # runs of a folder
_DEEP = 3  # folders below the one that was given
_KEPT = 8  # pages and files that were made
_OWN = ("explanations", "metrics", "index", "audits", "pending")
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Place:
    """Where a run lies, and what it is called."""

    id: str
    name: str
    folder: Path


class StoredRuns:
    """The runs under one folder."""

    def __init__(self, folder: Path | None) -> None:
        if folder is not None and not folder.is_dir():
            raise CannotRead(
                f"Cannot read {str(folder)!r}: there is no such folder. --runs takes a run, or a folder of runs."
            )
        self._given = folder
        self._facts: dict[str, tuple[str, dict[str, Any]]] = {}
        self._made: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._making = threading.Lock()  # a report takes all of a core: one at a time

    def listed(self) -> dict[str, Any]:
        """Return what is there at this moment: first what is not finished, then the rest, the latest first."""
        places = list(self._places())
        entries = [self._entry(place) for place in places[:_MOST]]
        entries.sort(key=_turn)
        folder = None if self._given is None else _sendable(public_name(str(self._given)))
        return {"folder": folder, "runs": entries, "left_out": max(0, len(places) - _MOST)}

    def run(self, key: str) -> "Run":
        """Open a run."""
        return _opened(self._place(key))

    def made(self, keys: tuple[str, ...], what: str, make: Callable[..., Any]) -> Any:
        """Make something of one run or of two, unless it was made since they were last written to."""
        places = [self._place(key) for key in keys]
        key = (what, *(part for one in places for part in (one.id, version(one.folder))))
        with self._making:
            if key not in self._made:
                with whole(" and ".join(place.name for place in places)):
                    self._made[key] = make(*map(_opened, places))
                if len(self._made) > _KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]

    def _entry(self, place: Place) -> dict[str, Any]:
        """Say what the list says of a run; what was found is used again as long as nothing was written."""
        now = version(place.folder)
        known = self._facts.get(place.id)
        if known is None or known[0] != now:
            known = self._facts[place.id] = (now, _facts(place))
        written = _written(place.folder)
        return {
            **known[1],
            "id": place.id,
            "name": place.name,
            "version": now,
            "changed": written
            and datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"),
            "quiet": written and round(max(0.0, time.time() - written), 1),
        }

    def _place(self, key: str) -> Place:
        for place in self._places():
            if place.id == key:
                return place
        raise NotFound(
            f"There is no run {key[:100]!r} in the folder that this server was started with."
        )

    def _places(self) -> Iterator[Place]:
        if self._given is None:
            return
        root = self._given.resolve()
        if (root / _MANIFEST).is_file():
            yield Place(_id(root.name), _sendable(root.name), root)
            return
        for folder in _runs_below(root, _DEEP):
            name = folder.relative_to(root).as_posix()
            yield Place(_id(name), _sendable(name), folder)


def _turn(entry: dict[str, Any]) -> tuple[bool, float]:
    """Say when it is a run's turn in the list; those that are written to keep their places, by name."""
    waits = entry["state"] != "running"
    return waits, (entry["quiet"] or 0.0) if waits else 0.0


def version(folder: Path) -> str:
    """Return a word that changes when something was written to a run: renames change the time of a folder."""
    seen = [_stat(folder / name) for name in (_MANIFEST, *_OWN)]
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _written(folder: Path) -> float | None:
    seen = [_stat(folder / name) for name in (_MANIFEST, *_OWN)]
    return max((found[0] / 1e9 for found in seen if found is not None), default=None)


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folders that hold a run, in the order of their names; links are not followed."""
    from whence.run.store.layout import Layout

    try:
        with os.scandir(folder) as found:
            below = sorted(Path(one.path) for one in found if one.is_dir(follow_symlinks=False))
    except OSError:
        return
    for path in below:
        if path.name.startswith("."):
            continue
        if (path / _MANIFEST).exists() or Layout(path).used:  # one that lost its manifest is one
            yield path
        elif depth > 1:
            yield from _runs_below(path, depth - 1)


def _id(name: str) -> str:
    """Return what a run is called in an address: its name, or a part of it and a hash where it cannot stand there."""
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")
    if short == name:
        return name
    return f"{short[:40]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"


def _sendable(name: str) -> str:
    """Return a name of a file, which may be any bytes, as text."""
    return os.fsencode(name).decode("utf-8", "replace")


def _opened(place: Place) -> "Run":
    from whence.run.results import Run

    _check_own(place)
    with whole(place.name):
        return Run(place.folder)


def _check_own(place: Place) -> None:
    """Refuse a run that has links in it: whence makes none, and they lead elsewhere."""
    for name in ("", *_OWN):
        folder = place.folder / name
        if not folder.is_dir():
            continue
        with os.scandir(folder) as found:
            linked = next((one.name for one in found if one.is_symlink()), None)
        if linked is not None:
            where = _sendable(f"{name}/{linked}".lstrip("/"))
            raise BadStore(
                f"{place.name}: {where} is a link, and whence writes none. Copy the run instead."
            )


def _facts(place: Place) -> dict[str, Any]:
    try:
        with whole(place.name):
            found = _opened(place).facts()
            if found["why"] is not None:
                raise BadStore(found["why"])
            plain = {name: found.get(name) for name in RunFacts.model_fields}
            return RunFacts.model_validate(plain).model_dump()
    except WhenceError as error:
        nothing: dict[str, Any] = {"methods": [], "metrics": [], "audit": [], "total": None}
        known = {"model": "", "data": "", "done": 0, "failed": 0, "bad": 0}
        return {**known, **nothing, "state": "damaged", "problem": str(error)}


@contextmanager
def whole(name: str) -> Iterator[None]:
    """Say of a run that cannot be read which one it is; whoever wrote it may have written anything."""
    try:
        yield
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OSError,
        RecursionError,
    ) as error:
        said = " ".join(f"{type(error).__name__} {error}".split())[:300]
        raise BadStore(
            f"{name} is not a whole run: {said}. `whence store verify` says what is damaged."
        ) from None
