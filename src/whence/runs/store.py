"""A folder of results that survives whatever happens to the run that writes it."""

import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from whence.core.errors import BadStore, CannotWrite
from whence.run.chunks import Window
from whence.run.plan import Plan
from whence.run.store import commit, manifest, pending, rows
from whence.run.store.disk import put, writing
from whence.run.store.held import Held
from whence.run.store.layout import FOLDERS, Layout
from whence.run.store.lock import Lock
from whence.run.store.opened import Opened, content, opened
from whence.run.store.reading import Reading
from whence.run.store.schema import TABLES
from whence.run.store.seal import sealed
from whence.run.task import Done, Identity

# Seconds of work that it pays to wait for the disk for. Of less, a kill loses nothing either, and a power cut what
# was done in the last moments: a chunk that is torn or missing then is computed again. A window always waits.
LONG = 10.0
_SOFTWARE = ("torch", "transformers")  # whose versions change numbers


class Store(Reading):
    """The results of a run. Opened by `locked`, to write, or by `read`."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._was_complete = False
        self._covers = False  # whether this run does all that the manifest asks for
        self._shorter = False  # whether an earlier run went further than this one will
        self._last: int | None = None  # window that was committed
        self._aside = 0  # files that were set aside
        self._holed = False  # whether one was that had been counted as there

    @classmethod
    @contextmanager
    def locked(cls, out: str | Path) -> Iterator[Self]:
        """Take the folder for this run alone; it is made if there is none."""
        layout = Layout(out)
        check_usable(layout)
        with Lock(layout.lock):
            with writing(layout.folder):
                for name in FOLDERS:
                    (layout.folder / name).mkdir(exist_ok=True)
            store = cls(layout)
            how = "done"
            try:
                yield store
            except BaseException as error:  # whatever ended the run, the journal says so
                how = type(error).__name__
                raise
            finally:
                if (
                    store._manifest is not None
                ):  # else nothing was begun, and the folder holds no run
                    with suppress(CannotWrite):  # a full disk has been told of already
                        store.journal("end", {"how": how})

    def begin(self, plan: Plan, identity: Identity, data: Mapping[str, Any]) -> None:
        """Say what will be done; what is there must be of the same model, data, sample and seed."""
        self.tidy()
        asked = manifest.stated(plan, identity, data)
        there = self.recalled()
        if there is not None:
            manifest.check_same(there, asked, str(self.folder))
            self._compare_code(there["code"], identity.code)
            self._compare_versions(identity.software)
        wanted = asked if there is None else manifest.joined(there, asked)
        self._covers = manifest.covers(asked, wanted)
        self._shorter = asked["plan"]["limit"] != wanted["plan"]["limit"]
        self._was_complete = there is not None and there["state"] == "complete"
        if there is not None and self._was_complete and manifest.same_question(wanted, there):
            self._manifest = there  # all of it is there: not a byte changes, unless something comes
        else:
            self.state(wanted)
        self.journal("begin", {"software": dict(identity.software), "manifest": self.manifest})

    def held(self, window: int | Window) -> Held:
        """Return which results of a window are there and whole; what is damaged is set aside and forgotten.

        Given the window itself, and not only its number, results of other data under the same name are refused.
        """
        number = window if isinstance(window, int) else window.number
        found = self.mended(number)
        if isinstance(window, Window):
            self._check_data(found, window)
        return Held(table for name in TABLES for table in found.light(name))

    def add(self, done: Done) -> None:
        """Keep what a task gave, until its window is complete."""
        self._running()
        path = self.layout.pending(done.window, done.chunk)
        own = [pending.packed(done.records)] if done.records else []
        self.keep(path, *done.packed, *own, lasting=done.seconds >= LONG)
        facts = {"window": done.window, "chunk": done.chunk, "seconds": done.seconds}
        more = {"examples": done.counted.examples, "costs": done.costs, "worker": done.worker}
        self.journal("task", {**facts, **more, "memory": done.memory})

    def commit(self, window: Window) -> None:
        """Bring the results of a window to their final place. Doing it again changes nothing."""
        before = self._aside
        found = self.mended(window.number)
        self._holed = self._holed or self._aside > before
        self._last = max(window.number, -1 if self._last is None else self._last)
        gold = (self.manifest["data"].get("labels") or {}).get("names")
        now = commit.Now(window, self.manifest["settings"], self._shorter, gold)
        bounds = commit.bounds_of(window)
        if self._shorter and found.index is not None:
            bounds = commit.further(bounds, found.index, now.end)
        if found.whole and commit.up_to_date(found, bounds, now):
            return
        self._running()
        tables = {
            name: now.current(name, rows.gathered(name, list(found.tables(name))))
            for name in TABLES
        }
        self.place(found, bounds, tables)

    def place(self, found: Opened, bounds: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
        """Make these tables those of a window."""
        with writing(self.folder):
            commit.place(self.layout, found, bounds, tables)
        self.journal("commit", {"window": bounds["window"]})

    def finish(self) -> None:
        """Say that all is done that was asked for, and what that came to."""
        if self._last is not None and not self._shorter:
            self._cut(self._last)
        self.settled((self._covers or self._was_complete) and not self._holed)
        self.journal("finish", {"state": self.manifest["state"]})

    def journal(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Note what happened; the time is added."""
        with writing(self.folder):
            self._journal.add(kind, facts)

    def add_audit(self, name: str, found: Mapping[str, Any]) -> None:
        """Keep what an experiment found."""
        self._running()
        path = self.folder / "audits" / f"{name}.json"
        put(self.folder, path, sealed({"experiment": name, "found": found}))

    # What repairing and merging need, too.

    def keep(self, path: Path, *packed: bytes, lasting: bool = True) -> None:
        """Write a pending chunk, behind what an earlier run, which asked for something else, left of it."""
        if (old := content(path)) is not None:
            try:
                packed = (pending.joined([old]), *packed)
            except ValueError as error:
                self._damaged(path, str(error))
        whole = packed[0] if len(packed) == 1 else pending.joined(packed)
        put(self.folder, path, whole, lasting=lasting)

    def tidy(self) -> list[Path]:
        """Remove what was being written when a run was killed, and return what it was."""
        left = list(self.layout.temporary())
        with writing(self.folder):
            commit.forget(left)
        return left

    def recalled(self) -> manifest.Manifest | None:
        """Return the manifest that is there; where it is lost or damaged, what the journal remembers of it."""
        raw = content(self.layout.manifest)
        if raw is not None:
            try:
                return manifest.read(raw, str(self.folder))
            except ValueError as error:
                own = b"whence run" in raw or any(self.layout.windows(name) for name in TABLES)
                if not own:
                    raise BadStore(
                        f"{str(self.layout.manifest)!r} is not of a run. Give another folder."
                    ) from None
                self._damaged(self.layout.manifest, str(error))
        return manifest.remembered(self._begun())

    def state(self, stated: manifest.Manifest) -> None:
        """Write the manifest."""
        put(self.folder, self.layout.manifest, sealed(stated))
        self._manifest = stated

    def mended(self, window: int, thorough: bool = False) -> Opened:
        """Open a window, set aside what is damaged, and end a commit that was killed at its end."""
        found = opened(self.layout, window, thorough)
        for path, why in found.damage:
            self._damaged(path, why)
        with writing(self.folder):
            if found.coming is not None and found.arrived(found.coming):
                commit.arrive(self.layout, window, found.coming)
                found.index, found.coming = found.coming, None
            elif found.damage and found.index is not None and found.coming is None:
                left = {
                    name: facts
                    for name, facts in found.index["tables"].items()
                    if name in found.parts
                }
                found.index = {**found.index, "tables": left}
                put(self.folder, self.layout.index(window), sealed(found.index))
        found.damage.clear()
        return found

    def settled(self, complete: bool) -> None:
        """Say in the manifest whether all is there, and if so what it comes to."""
        complete = complete and not self.lacking()
        totals = commit.totals(self.indices()) if complete else None
        self.state(
            {**self.manifest, "state": "complete" if complete else "running", "totals": totals}
        )

    def _cut(self, last: int) -> None:
        """Remove windows behind the last: the data has become shorter."""
        with writing(self.folder):
            behind = [path for path in self.layout.chunks() if self.layout.numbers(path)[0] > last]
            for window in (one for one in self.layout.windows() if one > last):
                behind += [self.layout.index(window), self.layout.coming(window)]
                behind += [self.layout.part(name, window) for name in TABLES]
            commit.forget(behind)

    def _check_data(self, found: Opened, window: Window) -> None:
        """Refuse data that has nothing in common with what was explained: what is there would be lost."""
        now = commit.Now(window, self.manifest["settings"], self._shorter)
        if found.index is not None and window.items and not commit.any_current(found, now):
            raise BadStore(
                f"{str(self.folder)!r} holds results of other data: in rows {found.index['first']} to "
                f"{found.index['last']} of {self.manifest['data'].get('name')!r} no example is what it was. Give "
                "another folder."
            )

    def _running(self) -> None:
        if self.manifest["state"] != "running":
            self.state({**self.manifest, "state": "running", "totals": None})

    def _compare_code(self, old: str, new: str) -> None:
        if old != new:
            warnings.warn(
                f"The code that computes has changed since {str(self.folder)!r} was last written to: all that is "
                "asked for is computed again, and what was there of it counts no more.",
                stacklevel=3,
            )

    def _compare_versions(self, software: Mapping[str, str]) -> None:
        old = self._begun().get("software", {})
        for name in _SOFTWARE:
            if name in old and name in software and old[name] != software[name]:
                warnings.warn(
                    f"The results in {str(self.folder)!r} were computed with {name} {old[name]}, and the rest will "
                    f"be with {software[name]}: they may differ by more than rounding.",
                    stacklevel=3,
                )

    def _begun(self) -> dict[str, Any]:
        """Return what the journal noted when the last run began; nothing where there was none."""
        last = deque(self.events("begin"), maxlen=1)
        return last[0] if last else {}

    def _damaged(self, path: Path, why: str) -> None:
        """Set a file aside: it may be looked at, and is not believed."""
        name = "-".join(path.relative_to(self.folder).parts)
        aside = self.folder / "damaged"
        number = 1 + sum(one.name.startswith(f"{name}.") for one in aside.iterdir())
        with writing(self.folder), suppress(FileNotFoundError):
            path.replace(aside / f"{name}.{number}")
        self.journal("damaged", {"file": str(path.relative_to(self.folder)), "why": why})
        self._aside += 1
        if self._manifest is not None:
            self._running()


def check_usable(layout: Layout) -> None:
    """Refuse a folder that holds something else, before anything is written to it."""
    folder = layout.folder
    if folder.exists() and not folder.is_dir():
        raise CannotWrite(f"{str(folder)!r} is a file. Give the name of a folder.")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    strange = sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in (*FOLDERS, "lock", "manifest.json") and not path.name.startswith(".")
    )
    if strange and not layout.used:
        raise BadStore(
            f"{str(folder)!r} holds something else ({', '.join(strange[:3])}), and no run. Give an empty folder, or "
            "the name of a new one."
        )


"""The results of a run on disk: Parquet tables, an index of checksums, a manifest (docs/reference/store.md)."""

from whence.run.store.held import Held
from whence.run.store.store import Store

__all__ = ["Held", "Store"]


"""Rows of a run a page at a time, for whoever looks at it, also while it is being written.

No lock is taken and nothing is changed. One window is read after the other, and of each only the columns that are
needed. What cannot be read is passed over, and named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.run.store import rows as stored
from whence.run.store.layout import Layout
from whence.run.store.opened import content, opened
from whence.run.store.schema import SINCE_2
from whence.run.store.seal import unsealed

_CHOSEN = ("row", "method", "setting", "error")  # by which rows are chosen
_SHOWN = (
    *("row", "id", "method", "text", "pair", "label", "gold", "target", "predicted", "probability"),
    *("error", "why"),
)  # fmt: skip
_TESTED = ("row", "method", "metric", "setting", "value", "null", "why")


@dataclass(frozen=True)
class Wanted:
    """Which rows, and in which order."""

    method: str | None = None
    failed: bool | None = None
    search: str = ""  # stands in the text, whatever the case of its letters
    metric: str | None = None  # its value stands beside each row
    falling: bool | None = None  # by that value, the largest first; None: in the order of the data
    settings: frozenset[str] | None = None  # of explanations and tests; None: all


@dataclass(frozen=True)
class Sheet:
    """Some rows of those that were wanted."""

    records: list[dict[str, Any]]
    found: int
    unread: list[str] = field(default_factory=list)  # files that could not be read, and why


@dataclass(frozen=True)
class _Part:
    """What is wanted of one window: places in its file, and the metric's values there."""

    window: int
    places: Any  # int64
    values: Any  # float64, NaN where there is none


def sheet(folder: Path, wanted: Wanted, first: int, most: int) -> Sheet:
    """Return the rows from number `first` on, at most so many, and how many there are in all."""
    unread: list[str] = []
    parts = _parts(folder, wanted, unread)
    if wanted.falling is None:
        chosen, found = _in_order(parts, first, most)
    else:
        chosen, found = _sorted(list(parts), wanted.falling, first, most)
    return Sheet(_records(folder, chosen, unread), found, unread)


def of_row(
    folder: Path, row: int, settings: frozenset[str] | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what is known of one row of the data: its explanations, and their tests."""
    for window in _windows(folder):
        if _is_elsewhere(folder, window, row):
            continue
        own = _of(_read(folder, "explanations", window, (*_SHOWN, "setting")), row, settings)
        if own:
            tested = _read(folder, "metrics", window, _TESTED)
            return own, _of(tested, row, settings)
    return [], []


def finite(value: float | None) -> float | None:
    """Return a number that can be shown, or none."""
    return float(value) if value is not None and np.isfinite(value) else None


def _windows(folder: Path) -> list[int]:
    """Return the windows of which something is there."""
    layout = Layout(folder)
    return sorted({*layout.windows(), *layout.windows("pending")})


def _is_elsewhere(folder: Path, window: int, row: int) -> bool:
    """Say whether a window's index tells that it does not hold a row; without one, nobody knows."""
    try:
        index = unsealed(content(Layout(folder).index(window)) or b"")
        return not index["first"] <= row <= index["last"]
    except (ValueError, KeyError, TypeError):
        return False


def _of(table: Any, row: int, settings: frozenset[str] | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.filter(pc.equal(table["row"], row)).to_pylist()
    return [one for one in found if settings is None or one["setting"] in settings]


def _parts(folder: Path, wanted: Wanted, unread: list[str]) -> Iterator[_Part]:
    for window in _windows(folder):
        try:
            part = _part(folder, window, wanted)
        except OSError as error:
            unread.append(_why(window, error))
            continue
        if len(part.places):
            yield part


def _part(folder: Path, window: int, wanted: Wanted) -> _Part:
    columns = (*_CHOSEN, "text", "pair") if wanted.search else _CHOSEN
    table = _read(folder, "explanations", window, columns)
    keep = _set(table, wanted.settings)
    if wanted.method is not None:
        keep &= _mask(pc.equal(table["method"], wanted.method))
    if wanted.failed is not None:
        keep &= _mask(pc.is_valid(table["error"])) == wanted.failed
    if wanted.search:
        keep &= _holds(table["text"], wanted.search) | _holds(table["pair"], wanted.search)
    places = np.flatnonzero(keep)
    if wanted.metric is None or not len(places):
        return _Part(window, places, np.full(len(places), np.nan))
    tested = _read(folder, "metrics", window, ("row", "method", "metric", "setting", "value"))
    own = _mask(pc.equal(tested["metric"], wanted.metric)) & _set(tested, wanted.settings)
    return _Part(window, places, _values(table.take(places), tested.filter(own)))


def _set(table: Any, settings: frozenset[str] | None) -> Any:
    """Say which rows are of these settings."""
    if settings is None:
        return np.ones(table.num_rows, dtype=bool)
    known = pa.array(sorted(settings), pa.string())
    return _mask(pc.is_in(table["setting"], value_set=known))


def _holds(texts: Any, search: str) -> Any:
    return _mask(pc.match_substring(texts, search, ignore_case=True))


def _values(rows: Any, tested: Any) -> Any:
    """Return a metric's value for each row, by its number and its method."""
    methods = pc.unique(rows["method"])
    wanted = _numbers(rows, methods)
    given = _numbers(tested, methods)
    if not len(given):
        return np.full(len(wanted), np.nan)
    order = np.argsort(given, kind="stable")
    at = np.minimum(np.searchsorted(given[order], wanted), len(given) - 1)
    values = pc.fill_null(tested["value"], float("nan")).to_numpy()[order]
    return np.where(given[order][at] == wanted, values[at], np.nan)


def _numbers(table: Any, methods: Any) -> Any:
    """Return one number for a row and its method; methods that are not among these come after all that are."""
    codes = pc.fill_null(pc.index_in(table["method"], value_set=methods), len(methods)).to_numpy()
    return table["row"].to_numpy() * (len(methods) + 1) + codes


def _in_order(parts: Iterator[_Part], first: int, most: int) -> tuple[list[_Part], int]:
    chosen, found = [], 0
    for part in parts:
        here = slice(max(0, first - found), max(0, first + most - found))
        found += len(part.places)
        if len(part.places[here]):
            chosen.append(_Part(part.window, part.places[here], part.values[here]))
    return chosen, found


def _sorted(parts: list[_Part], falling: bool, first: int, most: int) -> tuple[list[_Part], int]:
    """Sort by value; rows without one come last either way, and equals stay in the order of the data."""
    if not parts:
        return [], 0
    values = np.concatenate([part.values for part in parts])
    order = np.argsort(-values if falling else values, kind="stable")
    ends = np.cumsum([len(part.places) for part in parts])
    chosen = []
    for number in order[first : first + most]:
        which = int(np.searchsorted(ends, number, side="right"))
        at = number - (ends[which - 1] if which else 0)
        part = parts[which]
        chosen.append(_Part(part.window, part.places[at : at + 1], part.values[at : at + 1]))
    return chosen, len(values)


def _records(folder: Path, chosen: Sequence[_Part], unread: list[str]) -> list[dict[str, Any]]:
    """Read the rows themselves, each file once."""
    by_window: dict[int, list[tuple[int, _Part]]] = {}
    for number, part in enumerate(chosen):
        by_window.setdefault(part.window, []).append((number, part))
    found: dict[int, list[dict[str, Any]]] = {}
    for window, own in by_window.items():
        try:
            table = _read(folder, "explanations", window, _SHOWN)
        except OSError as error:
            unread.append(_why(window, error))
            continue
        for number, part in own:
            found[number] = _shown(table, part)
    return [record for number in sorted(found) for record in found[number]]


def _shown(table: Any, part: _Part) -> list[dict[str, Any]]:
    # A window may have been committed anew since its places were found.
    inside = part.places < table.num_rows
    records = table.take(part.places[inside]).to_pylist()
    return [
        {**record, "value": finite(value)}
        for record, value in zip(records, part.values[inside], strict=True)
    ]


def _read(folder: Path, table: str, window: int, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a window's table, with the chunks that are done while the window is not."""
    layout = Layout(folder)
    if layout.chunks(window):
        return stored.gathered(table, list(opened(layout, window).tables(table))).select(columns)
    path = layout.part(table, window)
    if not path.exists():  # there are no such rows
        return stored.gathered(table, []).select(columns)
    try:
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            if missing := set(columns) - {*file.schema_arrow.names, *SINCE_2}:
                raise OSError(f"{path.name} has no column {min(missing)!r}")
            return stored.widened(file.read(list(columns)), columns)
    except pa.ArrowException as error:
        raise OSError(f"{path.name}: {error}") from None


def _mask(column: Any) -> Any:
    """Return a column of truths; what is not known is not true."""
    return pc.fill_null(column, False).combine_chunks().to_numpy(zero_copy_only=False).astype(bool)


def _why(window: int, error: OSError) -> str:
    said = " ".join(str(error.strerror or error).split())[:200]
    return f"Window {window:06d} cannot be read: {said}. `whence store verify` says more."


"""A window's results in their final place. Safe at any kill: all that is there has a checksum or is still pending.

First a file says what the window's files are about to become, then they are replaced one by one, then that file takes
the place of the index, and only then are the chunks removed that the rows came from. A run that finds the work half
done believes each file that fits the old index or the new one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from whence.core.io import settle
from whence.run.chunks import Window
from whence.run.keys import key_for
from whence.run.store import rows
from whence.run.store.disk import put
from whence.run.store.layout import Layout
from whence.run.store.opened import Index, Opened
from whence.run.store.schema import SCHEMAS, TABLES, VERSION
from whence.run.store.seal import sealed

RESULT = ("row", "key", "setting", "example")
NAMES = ("example", "id", "label")
Settings = Mapping[str, Mapping[str, Any]]


def bounds_of(window: Window) -> Index:
    """Say what a window is: of which rows of the data, and which of them cannot be read."""
    own = [item.row for item in window.items]
    bad = [{"row": one.row, "where": one.where, "why": one.why} for one in window.bad]
    return {
        "version": VERSION,
        "window": window.number,
        "examples": len(own),
        "first": min(own, default=None),
        "last": max(own, default=None),
        "bad": bad,
        "tables": {},
    }


def further(index: Index, other: Index, behind: int = -1) -> Index:
    """Widen what a window is by what it was in a run that went further, or that did another part of it."""
    rows_there = [one for one in (index["first"], other["first"]) if one is not None]
    last = [one for one in (index["last"], other["last"]) if one is not None]
    bad = {one["row"]: one for one in other["bad"] if one["row"] > behind}
    bad.update((one["row"], one) for one in index["bad"])
    return {
        **index,
        "examples": max(index["examples"], other["examples"]),
        "first": min(rows_there, default=None),
        "last": max(last, default=None),
        "bad": [bad[row] for row in sorted(bad)],
    }


class Now:
    """What the data has now: which rows of a window are results of it, and what they are called."""

    def __init__(
        self,
        window: Window,
        settings: Settings,
        further_rows: bool,
        gold: Mapping[str, str] | None = None,
    ) -> None:
        self._gold = gold or {}  # what the model calls the labels of the data
        self._items = {item.row: item for item in window.items}
        self._settings = settings
        # Rows behind the last are left as they are, where an earlier run went further than this one.
        self.end = max(self._items, default=-1)
        self._further = further_rows

    def has(self, row: int, key: str, setting: str, example: str) -> bool:
        """Say whether a row is a result of the example that stands there now."""
        item = self._items.get(row)
        if item is None:
            return self._further and row > self.end
        if setting in self._settings:
            return key == key_for(setting, self._settings[setting], item)
        return example == item.digest  # a result of something that the manifest has lost

    def names(self, row: int, old: Sequence[Any]) -> tuple[Any, ...]:
        """Return a row's example, id and label: an explanation does not depend on its label, which may change."""
        item = self._items.get(row)
        return tuple(old) if item is None else (item.digest, item.id, item.example.label)

    def fits(self, name: str, table: pa.Table) -> bool:
        """Say whether nothing about a table is out of date."""
        if not all(map(self.has, *_lists(table, RESULT))):
            return False
        return name != "explanations" or all(
            self.names(row, old) == old
            for row, *rest in zip(*_lists(table, ("row", *NAMES)), strict=True)
            for old in [tuple(rest)]
        )

    def current(self, name: str, table: pa.Table) -> pa.Table:
        """Leave out what is not a result of the data as it is now, and name the rest as the data does."""
        fits = list(map(self.has, *_lists(table, RESULT)))
        kept = table if all(fits) else table.filter(pa.array(fits, type=pa.bool_()))
        return self._judged(self._named(kept)) if name == "explanations" else kept

    def _judged(self, table: pa.Table) -> pa.Table:
        """Say of every row what the model calls its true label, and whether it predicts that."""
        labels, said = _lists(table, ("label", "predicted"))
        gold = [self._gold.get(label) for label in labels]
        right = [
            None if one is None or own is None else one == own
            for one, own in zip(gold, said, strict=True)
        ]
        for column, values in (("gold", gold), ("right", right)):
            field = SCHEMAS["explanations"].field(column)
            place = table.schema.get_field_index(column)
            table = table.set_column(place, field, pa.array(values, type=field.type))
        return table

    def _named(self, table: pa.Table) -> pa.Table:
        known = list(zip(*_lists(table, ("row", *NAMES)), strict=True))
        named = [self.names(row, old) for row, *old in known]
        if named == [tuple(old) for _, *old in known]:
            return table
        for number, column in enumerate(NAMES):
            field = SCHEMAS["explanations"].field(column)
            values = pa.array([one[number] for one in named], type=field.type)
            table = table.set_column(table.schema.get_field_index(column), field, values)
        return table


def up_to_date(found: Opened, bounds: Index, now: Now) -> bool:
    """Say whether a window that is whole would stay as it is."""
    if found.index is None or {**found.index, "tables": {}} != bounds:
        return False
    return all(
        now.fits(name, rows.read(raw, [*RESULT, *(NAMES if name == "explanations" else ())]))
        for name, raw in found.parts.items()
    )


def any_current(found: Opened, now: Now) -> bool:
    """Say whether any committed row is a result of the data as it is now, or whether there is none at all."""
    tables = [rows.read(raw, RESULT) for raw in found.parts.values()]
    return not tables or any(any(map(now.has, *_lists(table, RESULT))) for table in tables)


def count(index: Index, setting: str) -> int:
    """Return how many results of a setting a window has."""
    return sum(int(facts["settings"].get(setting, 0)) for facts in index["tables"].values())


def totals(indices: Iterable[Index]) -> dict[str, Any]:
    """Add up what windows hold."""
    added: dict[str, Any] = {"windows": 0, "examples": 0, "bad": 0}
    tables = {name: {"rows": 0, "failed": 0} for name in TABLES}
    for index in indices:
        added["windows"] += 1
        added["examples"] += index["examples"]
        added["bad"] += len(index["bad"])
        for name, facts in index["tables"].items():
            for what in tables[name]:
                tables[name][what] += facts[what]
    return {**added, **tables}


def _lists(table: pa.Table, columns: Sequence[str]) -> list[list[Any]]:
    return [table[column].to_pylist() for column in columns]


def facts_of(table: pa.Table, raw: bytes) -> dict[str, Any]:
    """Say what a table's file must be."""
    return {
        "rows": table.num_rows,
        "failed": table.num_rows - table["error"].null_count,
        "settings": dict(sorted(Counter(table["setting"].to_pylist()).items())),
        "bytes": len(raw),
        "sha256": sha256(raw).hexdigest(),
    }


def place(
    layout: Layout, found: Opened, bounds: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> None:
    """Make these tables the window's; one without rows has no file."""
    window = bounds["window"]
    files = {name: rows.parquet(name, table) for name, table in tables.items() if table.num_rows}
    index = {**bounds, "tables": {name: facts_of(tables[name], raw) for name, raw in files.items()}}
    put(layout.folder, layout.coming(window), sealed(index))
    for name, raw in files.items():
        if found.parts.get(name) != raw:
            put(layout.folder, layout.part(name, window), raw)
    arrive(layout, window, index)
    forget([path for path, _ in found.chunks])


def arrive(layout: Layout, window: int, index: Index) -> None:
    """End a commit: all files that it tells of are there."""
    layout.coming(window).replace(layout.index(window))
    settle(layout.index(window).parent)
    forget([layout.part(name, window) for name in TABLES if name not in index["tables"]])


def forget(paths: Sequence[Path]) -> None:
    """Remove files that are not needed any more."""
    for path in paths:
        path.unlink(missing_ok=True)


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


"""A table as one file, for programs that do not read a folder."""

import csv
import gzip
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from whence.core.errors import BadParameter
from whence.core.io import check_writable, writing
from whence.report.spreadsheet import harmless
from whence.run.store import rows
from whence.run.store.reading import Reading
from whence.run.store.schema import COLUMNS, TABLES

Write = Callable[[Reading, str, IO[bytes]], None]


def export(folder: str | Path, table: str, to: str | Path) -> Path:
    """Write a table to a .parquet, .csv or .jsonl file, the last two also as .gz; some rows at a time."""
    if table not in TABLES:
        raise BadParameter(f"--table must be {' or '.join(TABLES)}. Got {table!r}.")
    to = Path(to)
    write = next((one for ending, one in _FORMATS.items() if to.name.endswith(ending)), None)
    if write is None:
        raise BadParameter(f"--to must end in {', '.join(_FORMATS)}. Got {to.name!r}.")
    store = Reading.read(folder)
    if store.folder.resolve() in to.resolve().parents:
        raise BadParameter(f"--to must be outside of the run's own folder. Got {str(to)!r}.")
    check_writable(to)
    with writing(to) as stream:
        write(store, table, stream)
    return to


def _parquet(store: Reading, table: str, stream: IO[bytes]) -> None:
    with rows.writer(table, stream) as file:
        for batch in store.batches(table, rows.GROUP):
            file.write_batch(batch)


def _jsonl(store: Reading, table: str, stream: IO[bytes]) -> None:
    for batch in store.batches(table):
        for record in batch.to_pylist():
            stream.write(_json(record).encode() + b"\n")


def _csv(store: Reading, table: str, stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in COLUMNS[table]])
    for batch in store.batches(table):
        writer.writerows([_cell(value) for value in one.values()] for one in batch.to_pylist())
    text.detach()


def _cell(value: Any) -> Any:
    return _json(value) if isinstance(value, list) else harmless(value)


def _json(value: Any) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """Put null in the place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _packed(write: Write) -> Write:
    def packed(store: Reading, table: str, stream: IO[bytes]) -> None:
        # Neither a name nor a time goes into the file: the same rows are the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as inner:
            write(store, table, cast(IO[bytes], inner))

    return packed


_FORMATS: dict[str, Write] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".csv.gz": _packed(_csv),
    ".jsonl.gz": _packed(_jsonl),
}


"""Which results of a window there are already."""

from collections.abc import Iterable

import pyarrow as pa


class Held:
    """The results of a window, by the row of the example and the key."""

    def __init__(self, tables: Iterable[pa.Table] = ()) -> None:
        self._done: dict[int, set[str]] = {}
        self._failed: dict[int, set[str]] = {}
        for table in tables:
            errors = table["error"].is_valid().to_pylist()
            for row, key, error in zip(
                table["row"].to_pylist(), table["key"].to_pylist(), errors, strict=True
            ):
                (self._failed if error else self._done).setdefault(row, set()).add(key)
        for row, keys in self._failed.items():
            keys -= self._done.get(row, set())  # tried again, and it worked

    def lacks(self, row: int, key: str, retry_failed: bool = False) -> bool:
        """Say whether a result is to be computed: it is not there, or it failed and is to be tried again."""
        if key in self._done.get(row, ()):
            return False
        return retry_failed or key not in self._failed.get(row, ())

    @property
    def keys(self) -> set[str]:
        """The keys of all results, failures included; equal examples in several rows have one."""
        return set().union(*self._done.values(), *self._failed.values())

    @property
    def failed(self) -> set[str]:
        """The keys of the failures."""
        return set().union(*self._failed.values())

    def __len__(self) -> int:
        return sum(map(len, self._done.values())) + sum(map(len, self._failed.values()))


"""What happened, when, and on which machine. No result, and nothing that a result depends on."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from whence.run.store.layout import Layout


class Journal:
    """Lines that are only ever added: one file for each time that somebody writes to the store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._number: int | None = None

    def add(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Write a line. OSErrors are the caller's."""
        folder = self._layout.folder / "journal"
        if self._number is None:
            folder.mkdir(exist_ok=True)
            self._number = max(self._layout.windows("journal"), default=-1) + 1
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": now, "kind": kind, **facts}, default=str)
        with (folder / f"{self._number:06d}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def events(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Go through all lines that can be read, in the order they were written."""
        for path in self._layout.own("journal"):
            with path.open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    if kind is not None and f'"kind": "{kind}"' not in line:
                        continue
                    try:
                        event = json.loads(line)
                    except ValueError:
                        continue  # torn by a kill or a full disk
                    if isinstance(event, dict) and kind in (None, event.get("kind")):
                        yield event


"""Where things stand in a store's folder, and by what name they are known as its own."""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("explanations", "metrics", "index", "pending", "audits", "journal", "damaged")
_OWN = {
    "explanations": r"part-(\d{6,})\.parquet",
    "metrics": r"part-(\d{6,})\.parquet",
    "index": r"(\d{6,})(?:\.next)?\.json",
    "pending": r"(\d{6,})-(\d{3,})\.arrows",
    "audits": r"([a-z0-9_]+)\.json",
    "journal": r"(\d{6,})\.jsonl",
    ".": r"(manifest)\.json",
}
_TEMPORARY = r"\.%s\.[a-z0-9_]{8}"  # how whence.core.io calls a file that is not whole yet


class Layout:
    """The names of a store's files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = self.folder / "manifest.json"
        self.lock = self.folder / "lock"

    def part(self, table: str, window: int) -> Path:
        """Return the file of a table that holds a window."""
        return self.folder / table / f"part-{window:06d}.parquet"

    def index(self, window: int) -> Path:
        """Return the file that says what a window's files must be."""
        return self.folder / "index" / f"{window:06d}.json"

    def coming(self, window: int) -> Path:
        """Return the file that says what they are about to become, while they are replaced."""
        return self.folder / "index" / f"{window:06d}.next.json"

    def pending(self, window: int, chunk: int) -> Path:
        """Return the file of a chunk that is done while its window is not."""
        return self.folder / "pending" / f"{window:06d}-{chunk:03d}.arrows"

    def chunks(self, window: int | None = None) -> list[Path]:
        """Return the files of all such chunks, or those of a window, in order."""
        found = ((self.numbers(path), path) for path in self.own("pending"))
        return [path for numbers, path in sorted(found) if window in (None, numbers[0])]

    def own(self, folder: str) -> Iterator[Path]:
        """Go through the files of a folder that are the store's own by their names."""
        return self._called(folder, _OWN[folder])

    def temporary(self) -> Iterator[Path]:
        """Go through the files that were being written when a run was killed."""
        for folder, name in _OWN.items():
            yield from self._called(folder, _TEMPORARY % name)

    def _called(self, folder: str, name: str) -> Iterator[Path]:
        known = re.compile(name)
        place = self.folder / folder
        if place.is_dir():
            yield from sorted(path for path in place.iterdir() if known.fullmatch(path.name))

    def windows(self, folder: str = "index") -> list[int]:
        """Return the numbers of the windows that a folder has a file of."""
        return sorted({self.numbers(path)[0] for path in self.own(folder)})

    @staticmethod
    def numbers(path: Path) -> tuple[int, ...]:
        """Return the numbers in a file's name: of the window, and of the chunk."""
        return tuple(map(int, re.findall(r"\d+", path.name)))

    @property
    def used(self) -> bool:
        """Whether the folder holds anything of a store."""
        return any(next(self.own(folder), None) is not None for folder in _OWN)


"""One run at a time: a lock that the system lets go of when its holder ends, however that happens. No clocks."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from whence.core.errors import CannotWrite, StoreInUse

_FAR = 1 << 30  # Windows keeps others from reading what is locked: a byte that is not there


_HELD: set["Lock"] = set()  # by this process


class Lock:
    """The right to write to a folder, for as long as a `with` block lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def __enter__(self) -> "Lock":
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise CannotWrite(
                f"Cannot write to the folder {str(self._path.parent)!r}: {error.strerror}. Choose a folder that "
                "you may write to."
            ) from None
        try:
            _take(handle)
        except (BlockingIOError, PermissionError):
            holder = _holder(os.read(handle, 1000))
            os.close(handle)
            raise StoreInUse(
                f"Another run is writing to {str(self._path.parent)!r}{holder}. Wait until it ends, or give another "
                "folder; results of two folders are brought together by `whence store merge`."
            ) from None
        except OSError as error:
            os.close(handle)
            raise CannotWrite(
                f"The folder {str(self._path.parent)!r} cannot be locked: {error.strerror}. Choose one on a disk "
                "that has locks."
            ) from None
        # For whoever finds it taken. It may be torn or old: only the lock itself counts.
        who = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
        os.truncate(self._path, 0)
        os.write(handle, who.encode())
        self._handle = handle
        _HELD.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Close the file, which ends the lock where nobody else has it open."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            _HELD.discard(self)


@contextmanager
def at_rest(folder: Path) -> Iterator[None]:
    """Read a folder while nobody writes to it; where its lock may not be touched, nobody does."""
    with ExitStack() as stack:
        lock = folder / "lock"
        if os.access(lock, os.W_OK):
            stack.enter_context(Lock(lock))
        yield


def _holder(content: bytes) -> str:
    try:
        who = json.loads(content)
        return f" (process {int(who['pid'])} on {who['host']})"
    except (ValueError, KeyError, TypeError):
        return ""


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
else:
    import fcntl

    def _born() -> None:
        """A child process has its parent's files open, and must not hold a lock when its parent is gone."""
        for lock in [*_HELD]:
            lock.let_go()

    os.register_at_fork(after_in_child=_born)

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


"""The manifest: what a store's results are results of. The same for all who run the plan, so no times, no hosts."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.core.errors import BadStore
from whence.core.places import public_address, public_name
from whence.run.keys import setting_digest
from whence.run.plan import Plan
from whence.run.store.schema import VERSION
from whence.run.store.seal import unsealed
from whence.run.task import Identity

FORMAT = "whence run"
Manifest = dict[str, Any]
# What all explanations of a folder have in common, and all tests: methods stand side by side in one table.
_ALIKE = {
    "explanation": ("target", "truncate", "dtype"),
    "test": ("remove", "mlm", "unit", "rankings"),
}


def stated(plan: Plan, identity: Identity, data: Mapping[str, Any]) -> Manifest:
    """Say what a run will find out; folders and files by their names, as it is the same on every machine."""
    asked = {name: _plain(value) for name, value in vars(plan).items() if name != "shard"}
    asked |= {"model": public_name(plan.model), "data": public_address(plan.data)}
    asked["mlm"] = None if plan.mlm is None else public_name(plan.mlm)
    asked["methods"] = list(identity.explained)
    asked["metrics"] = _together(*([*tested] for tested in identity.tested.values()))
    return {
        "format": FORMAT,
        "version": VERSION,
        "plan": asked,
        "parts": None if plan.shard is None else [list(plan.shard)],
        "data": _plain(data),
        "model": _plain(identity.model),
        "code": identity.code,
        "settings": _plain(identity.settings),
        "explained": _plain(identity.explained),
        "tested": _plain(identity.tested),
        "state": "running",
        "totals": None,
    }


def read(raw: bytes, where: str) -> Manifest:
    """Read a manifest: a ValueError where it is damaged, BadStore where it is of a whence that is not known yet."""
    found = unsealed(raw)
    if found.get("format") != FORMAT:
        raise ValueError("it is not of a run")
    if found["version"] > VERSION:
        raise BadStore(
            f"{where!r} was written by a newer whence: its format is {found['version']}, and this one knows formats "
            f"up to {VERSION}. Update whence."
        )
    return found


def check_same(old: Manifest, new: Manifest, where: str) -> None:
    """Refuse to mix the results of two models, data sets, samples or seeds, or methods that cannot be compared."""
    for what, of, names in (
        ("model", "model", ("fingerprint", "name")),
        ("data set", "data", ("name", "kind")),
        ("choice of columns", "data", ("columns",)),
        ("sample", "plan", ("sample",)),
        ("seed", "plan", ("seed",)),
    ):
        have, want = ([side[of].get(name) for name in names] for side in (old, new))
        if what == "model" and have[0] is not None and have[0] == want[0]:
            continue  # by another name, or from another place
        if have != want:
            raise _other(where, what, names, have, want)
    for kind, facts in _ALIKE.items():
        there, now = (_first(side, kind) for side in (old, new))
        for name in facts if there and now else ():
            if there.get(name) != now.get(name):
                raise _other(where, name, [name], [there.get(name)], [now.get(name)])


def _first(side: Manifest, kind: str) -> Mapping[str, Any]:
    """Return what one of the settings that are asked for now says; nothing where there is none of that kind."""
    known = (side["settings"].get(one, {}) for one in settings_of(side))
    return next((facts for facts in known if facts.get("kind") == kind), {})


def _other(
    where: str, what: str, names: Sequence[str], have: Sequence[Any], want: Sequence[Any]
) -> BadStore:
    return BadStore(
        f"{where!r} holds results of another {what}: {_named(names, have)} there, {_named(names, want)} now. "
        "Give another folder, or ask for what is there."
    )


def joined(old: Manifest, new: Manifest) -> Manifest:
    """Say what there is when what is new comes to what is there."""
    plan = {**old["plan"], **new["plan"]}
    for names in ("methods", "metrics", "audit"):
        plan[names] = _together(old["plan"][names], new["plan"][names])
    limits = (old["plan"]["limit"], new["plan"]["limit"])
    plan["limit"] = None if None in limits else max(limits)
    settings = {**old["settings"], **new["settings"]}
    explained = {**old["explained"], **new["explained"]}
    # Of an explanation that is made anew, by other code or parameters, the tests of the old one say nothing; and by a
    # metric that has other parameters now, nobody could compare what is old with what is new.
    params = {
        metric: settings[digest].get("params")
        for own in new["tested"].values()
        for metric, digest in own.items()
    }
    kept = {
        method: {
            metric: digest
            for metric, digest in own.items()
            if (facts := settings.get(digest, {})).get("explanation", explained[method])
            == explained[method]
            and facts.get("params") == params.get(metric, facts.get("params"))
        }
        for method, own in old["tested"].items()
    }
    tested = {
        method: {**kept.get(method, {}), **new["tested"].get(method, {})}
        for method in {**kept, **new["tested"]}
    }
    return {
        **new,
        "plan": plan,
        "parts": _parts(old["parts"], new["parts"]),
        "settings": settings,
        "explained": explained,
        "tested": tested,
    }


def same_question(one: Manifest, other: Manifest) -> bool:
    """Say whether two manifests differ in nothing but how far the work is."""
    return {**one, "state": "", "totals": None} == {**other, "state": "", "totals": None}


def covers(asked: Manifest, wanted: Manifest) -> bool:
    """Say whether who does what is asked has done all that is wanted."""
    same = ("parts", "explained", "tested")
    return all(asked[one] == wanted[one] for one in same) and all(
        asked["plan"][one] == wanted["plan"][one] for one in ("limit", "audit")
    )


def remembered(begun: Mapping[str, Any]) -> Manifest | None:
    """Return the manifest that the journal noted, where it did; its settings only as far as their hashes fit."""
    noted = begun.get("manifest")
    if not isinstance(noted, dict) or noted.get("format") != FORMAT or noted["version"] > VERSION:
        return None
    known = {
        name: facts for name, facts in noted["settings"].items() if setting_digest(facts) == name
    }
    return {**noted, "settings": known, "state": "running", "totals": None}


def settings_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the settings that results are asked for now; those of earlier code or parameters are left out."""
    tests = (digest for tested in manifest["tested"].values() for digest in tested.values())
    return [*manifest["explained"].values(), *tests]


def _parts(old: list[list[int]] | None, new: list[list[int]] | None) -> list[list[int]] | None:
    """Join the parts of a run that was dealt out; None is all of it."""
    if old is None or new is None:
        return None
    parts = sorted({(of, part) for part, of in (*old, *new)})
    for of in {of for of, _ in parts}:
        if sum(one == of for one, _ in parts) == of:
            return None
    return [[part, of] for of, part in parts]


def _together(*lists: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for names in lists for name in names))


def _plain(value: Any) -> Any:
    """Return plain data as JSON gives it back."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _named(names: Sequence[str], values: Sequence[Any]) -> str:
    stated = [
        f"{name} {value!r}" for name, value in zip(names, values, strict=True) if value is not None
    ]
    return ", ".join(stated) or "none"


"""Results of several folders in one: the parts of a run that was dealt out, or runs of other methods."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from whence.core.errors import BadStore
from whence.core.typed import typed
from whence.run.store import commit, manifest, rows
from whence.run.store.lock import at_rest
from whence.run.store.opened import Opened, opened
from whence.run.store.reading import Reading
from whence.run.store.schema import TABLES
from whence.run.store.store import Store
from whence.run.store.verify import windows_of


def merge(into: str | Path, sources: Sequence[str | Path]) -> Store:
    """Take the results of other folders into one, which may not exist yet; the others stay as they are."""
    others = [Reading.read(one) for one in sources]
    for one in others:
        if one.folder.resolve() == Path(into).resolve():
            raise BadStore(f"{str(into)!r} cannot be merged into itself. Give other folders.")
        manifest.check_same(others[0].manifest, one.manifest, str(others[0].folder))
    with ExitStack() as stack:
        for one in others:
            stack.enter_context(at_rest(one.folder))
        store = stack.enter_context(Store.locked(into))
        store.tidy()
        there, brought = store.recalled(), others[0].manifest
        for one in others[1:]:
            brought = manifest.joined(brought, one.manifest)
        if there is not None:
            manifest.check_same(there, brought, str(store.folder))
        known = brought if there is None else manifest.joined(there, brought)
        # What is there may be a merge that was killed: the others have all of it, if they have all that is asked for.
        whole = all(one.manifest["state"] == "complete" for one in others) and (
            there is None or there["state"] == "complete" or manifest.covers(brought, known)
        )
        store.state({**known, "state": "running", "totals": None})
        for window in sorted({window for one in others for window in windows_of(one.layout)}):
            _window(store, others, window)
        for one in others:
            _rest(store, one)
        tested_alike = len({frozenset(tested) for tested in known["tested"].values()}) <= 1
        store.settled(whole and tested_alike)
        store.journal("merge", {"from": [one.folder.name for one in others]})
    return store


def _window(store: Store, others: Sequence[Reading], window: int) -> None:
    """Take the committed rows of a window; what is pending stays so, for the next run to complete."""
    own = store.mended(window)
    committed = Opened(index=own.index, parts=own.parts)
    parts = [committed]
    for one in others:
        found = opened(one.layout, window, thorough=True)
        if found.damage or found.coming is not None:
            path, why = (
                found.damage[0] if found.damage else (one.layout.coming(window), "unfinished")
            )
            raise BadStore(
                f"{str(path)!r} is damaged: {why}. First make it whole: `whence store repair {typed(one.folder)}`."
            )
        for path, _ in found.chunks:
            store.keep(store.folder / "pending" / path.name, path.read_bytes())
        parts.append(found)
    bounds = [found.index for found in parts if found.index is not None]
    if bounds:
        widest = bounds[0]
        for more in bounds[1:]:
            widest = commit.further(widest, more)
        tables = {
            name: rows.gathered(
                name, [rows.read(one.parts[name]) for one in parts if name in one.parts]
            )
            for name in TABLES
        }
        store.place(committed, widest, tables)


def _rest(store: Store, one: Reading) -> None:
    """Take audits that are not there yet or failed, and what the journal says that the work took."""
    there = store.audits()
    for name, found in one.audits().items():
        if name not in there or (there[name].get("error") and not found.get("error")):
            store.add_audit(name, found)
    known = {(event["at"], event["window"], event["chunk"]) for event in store.events("task")}
    for event in one.events("task"):
        if (event["at"], event["window"], event["chunk"]) not in known:
            store.journal("task", event)


"""All that a store holds of a window: what is whole, and what is not. Nothing is changed by looking."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from whence.core.errors import CannotRead
from whence.run.store import pending, rows
from whence.run.store.layout import Layout
from whence.run.store.schema import TABLES, VERSION
from whence.run.store.seal import unsealed

Index = dict[str, Any]


@dataclass
class Opened:
    """A window as it was found."""

    index: Index | None = None  # its commit
    coming: Index | None = None  # a commit that was under way when a run was killed
    parts: dict[str, bytes] = field(
        default_factory=dict
    )  # by table: a file that is what a commit says
    chunks: list[tuple[Path, dict[str, pa.Table]]] = field(default_factory=list)
    damage: list[tuple[Path, str]] = field(default_factory=list)

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Go through the rows of a table: those that are committed, then those of each chunk."""
        if name in self.parts:
            yield rows.read(self.parts[name])
        yield from (tables[name] for _, tables in self.chunks)

    def light(self, name: str) -> Iterator[pa.Table]:
        """The same, less all columns that do not tell which results there are."""
        if name in self.parts:
            yield rows.read(self.parts[name], rows.LIGHT)
        yield from (tables[name].select(rows.LIGHT) for _, tables in self.chunks)

    @property
    def whole(self) -> bool:
        """Whether the window is committed, and nothing else is there."""
        return self.index is not None and not (self.coming or self.chunks or self.damage)

    def arrived(self, coming: Index) -> bool:
        """Say whether all files of the commit that was under way are in their places."""
        found = {name: sha256(raw).hexdigest() for name, raw in self.parts.items()}
        return found == {name: facts["sha256"] for name, facts in coming["tables"].items()}


def opened(layout: Layout, window: int, thorough: bool = False) -> Opened:
    """Read all files of a window, and hold each against its checksum; if thorough, every page of it, too."""
    found = Opened()
    found.index = _index(found, layout.index(window))
    found.coming = _index(found, layout.coming(window))
    for name in TABLES:
        _part(found, name, layout.part(name, window), thorough)
    for path in layout.chunks(window):
        try:
            found.chunks.append((path, pending.tables_of(content(path) or b"")))
        except ValueError as error:
            found.damage.append((path, str(error)))
    return found


def content(path: Path) -> bytes | None:
    """Read a file: None where there is none, nothing where the disk does not give it back."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise CannotRead(
            f"Cannot read {str(path)!r}: {error.strerror}. Allow it to be read."
        ) from None
    except OSError:
        return b""  # a folder of that name, or a bad place on the disk: damage like any other


def _index(found: Opened, path: Path) -> Index | None:
    raw = content(path)
    if raw is None:
        return None
    try:
        index = unsealed(raw)
        if index["version"] > VERSION:
            raise ValueError(f"its version is {index['version']}")
        return index
    except (ValueError, KeyError, TypeError) as error:
        found.damage.append((path, str(error)))
        return None


def _part(found: Opened, name: str, path: Path, thorough: bool) -> None:
    raw = content(path)
    commits = [one["tables"] for one in (found.index, found.coming) if one is not None]
    wanted = [one[name]["sha256"] for one in commits if name in one]
    if raw is None:
        # Where the commit under way takes a file away, or is the first to bring it, there may be none.
        if found.index is not None and name in found.index["tables"] and found.coming is None:
            found.damage.append((path, "it is missing"))
        return
    if sha256(raw).hexdigest() not in wanted:
        why = "its checksum does not fit" if wanted else "no index tells of it"
        found.damage.append((path, why))
        return
    try:
        rows.check(name, raw)
        if thorough:
            rows.read(raw)
        found.parts[name] = raw
    except ValueError as error:  # written by something else, index and all
        found.damage.append((path, str(error)))


"""A chunk that is done while its window is not: the rows of each table as an Arrow stream, and a seal behind them.

Whoever made the rows packs them, and nobody reads them before their window is complete. A stream's schema says which
table it is of; there may be several of one, where parts of a chunk were done apart.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256

import pyarrow as pa

from whence.run.store import rows
from whence.run.store.schema import EARLIER, SCHEMAS
from whence.run.task import Record

_SEAL = b"\nsha256 %s\n"
_LENGTH = len(_SEAL % (b"0" * 64))
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")  # methods on one example repeat most of a row


def packed(records: Sequence[Record]) -> bytes:
    """Write records as the content of a file; a ValueError where one fits no table. Numbers stay what they are."""
    sink = pa.BufferOutputStream()
    for name in SCHEMAS:
        table = _table(name, records)
        if table.num_rows:
            with pa.ipc.new_stream(sink, table.schema, options=_QUICK) as stream:
                stream.write_table(table)
    return sealed(sink.getvalue().to_pybytes())


def sealed(body: bytes) -> bytes:
    """Put a checksum behind streams."""
    return body + _SEAL % sha256(body).hexdigest().encode()


def joined(files: Iterable[bytes]) -> bytes:
    """Make one file of several; a ValueError where one is torn or changed."""
    return sealed(b"".join(map(_body, files)))


def tables_of(raw: bytes) -> dict[str, pa.Table]:
    """Read the tables again; a ValueError where the file is torn or changed."""
    found: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    stream = pa.BufferReader(_body(raw))
    try:
        while stream.tell() < stream.size():
            table = pa.ipc.open_stream(stream).read_all()
            table.validate(full=True)
            found[_name(table.schema)].append(table)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no Arrow stream ({error})") from None
    return {name: rows.together(name, parts) for name, parts in found.items()}


def _body(raw: bytes) -> memoryview:
    body = memoryview(raw)[:-_LENGTH]
    if raw[-_LENGTH:] != _SEAL % sha256(body).hexdigest().encode():
        raise ValueError("its checksum does not fit")
    return body


def _name(schema: pa.Schema) -> str:
    """Return of which table a stream is."""
    for name in SCHEMAS:
        if any(schema.equals(one[name], check_metadata=True) for one in (SCHEMAS, EARLIER)):
            return name
    raise ValueError("its columns are not those of this version")


def _table(name: str, records: Sequence[Record]) -> pa.Table:
    try:
        return rows.from_records(name, records)
    except UnicodeEncodeError:  # half a surrogate pair, which no file can hold, becomes "?"
        plain = json.dumps(records, ensure_ascii=False).encode("utf-8", "replace")
        return rows.from_records(name, json.loads(plain))


"""What a store holds, for whoever reads it, also while a run is writing."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds

from whence.core.errors import BadStore
from whence.core.typed import typed
from whence.run.store import commit, manifest, rows
from whence.run.store.journal import Journal
from whence.run.store.layout import Layout
from whence.run.store.opened import Index, content, opened
from whence.run.store.schema import SCHEMAS, TABLES
from whence.run.store.seal import unsealed


class Reading:
    """A store that is read. Nothing in the folder is changed, and no lock is taken."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._journal = Journal(layout)
        self._manifest: manifest.Manifest | None = None

    @classmethod
    def reading(cls, folder: str | Path) -> Self | None:
        """Open a folder to read what is there: None where nothing is."""
        layout = Layout(folder)
        return cls.read(folder) if layout.used else None

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Open a folder to read what is there; BadStore where it is no store, or lost its manifest."""
        store = cls(Layout(folder))
        where = str(folder)
        raw = content(store.layout.manifest)
        if raw is None:
            check_used(store.layout)
            raise BadStore(
                f"The manifest of {where!r} is missing. The same command as before makes it again, and so does "
                f"`whence store repair {typed(where)}`."
            )
        try:
            store._manifest = manifest.read(raw, where)
        except ValueError as error:
            raise BadStore(
                f"The manifest of {where!r} is damaged: {error}. The same command as before makes it again, and "
                f"so does `whence store repair {typed(where)}`."
            ) from None
        return store

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.layout.folder

    @property
    def manifest(self) -> manifest.Manifest:
        """What the results are results of, and how far the run is."""
        assert self._manifest is not None, "begin() comes first"
        return self._manifest

    def windows(self) -> list[int]:
        """Return the numbers of the windows that are committed."""
        return [window for window in self.layout.windows() if self.layout.index(window).exists()]

    def indices(self) -> Iterator[Index]:
        """Go through the commits of the windows, in order; damaged ones are left out."""
        for window in self.windows():
            try:
                yield unsealed(content(self.layout.index(window)) or b"")
            except ValueError:
                continue  # its rows are not known, until a run mends it

    def table(self, name: str, *, pending: bool = False) -> ds.Dataset:
        """Return a table, of which nothing is read yet; with what windows hold that are not complete, if asked."""
        open_windows = self._open_windows() if pending else []
        files = [
            str(self.layout.part(name, index["window"]))
            for index in self.indices()
            if name in index["tables"] and index["window"] not in open_windows
        ]
        parts = [ds.dataset(files, schema=SCHEMAS[name], format="parquet")] if files else []
        for window in open_windows:
            found = opened(self.layout, window)
            parts.append(ds.dataset(rows.gathered(name, list(found.tables(name)))))
        return ds.dataset(parts or [ds.dataset(SCHEMAS[name].empty_table())])

    def batches(self, name: str, size: int = 256) -> Iterator[pa.RecordBatch]:
        """Go through the committed rows of a table in their order, some at a time; BadStore where one is damaged."""
        for index in self.indices():
            if name not in index["tables"]:
                continue
            path = self.layout.part(name, index["window"])
            try:
                with pa.OSFile(str(path)) as file:
                    yield from rows.batches(name, file, size)
            except (pa.ArrowException, OSError) as error:
                why = " ".join(str(error).split())[:120]
                raise BadStore(
                    f"{str(path)!r} is damaged ({why}). `whence store repair {typed(self.folder)}` sets it aside, "
                    "and the next run computes it again."
                ) from None

    def bad(self) -> Iterator[dict[str, Any]]:
        """Go through the rows of the data that could not be read: row, where, why."""
        for index in self.indices():
            yield from index["bad"]

    def counts(self) -> dict[str, int]:
        """Return how many results of each setting there are, failures included."""
        found: Counter[str] = Counter()
        for index in self.indices():
            for facts in index["tables"].values():
                found.update(facts["settings"])
        for window in self._open_windows():
            there = opened(self.layout, window)
            for name in TABLES:
                for _, tables in there.chunks:
                    found.update(tables[name]["setting"].to_pylist())
        return dict(found)

    def pending(self) -> dict[str, int]:
        """Return how many rows of each table stand in windows that are not complete yet, and are kept."""
        found = dict.fromkeys(TABLES, 0)
        for window in self._open_windows():
            for _, tables in opened(self.layout, window).chunks:
                for name in TABLES:
                    found[name] += tables[name].num_rows
        return found

    def lacking(self) -> list[int]:
        """Return the windows that lack results; of a part of a run nobody knows what it should have."""
        if self.manifest["parts"] is not None:
            return []
        wanted = manifest.settings_of(self.manifest)
        return [
            index["window"]
            for index in self.indices()
            if any(commit.count(index, setting) < index["examples"] for setting in wanted)
        ]

    def audits(self) -> dict[str, Any]:
        """Return what was found about attention, by experiment."""
        found = {}
        for path in self.layout.own("audits"):
            try:
                found[path.stem] = unsealed(content(path) or b"")["found"]
            except (ValueError, KeyError) as error:
                self._damaged(path, str(error))
        return found

    def events(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Go through the journal: what happened, in order."""
        return self._journal.events(kind)

    def damage(self) -> list[dict[str, Any]]:
        """Return what was set aside so far: file, why, and when."""
        return list(self.events("damaged"))

    def _open_windows(self) -> list[int]:
        return sorted({self.layout.numbers(path)[0] for path in self.layout.chunks()})

    def _damaged(self, path: Path, why: str) -> None:
        """Who only reads leaves it where it is."""


def check_used(layout: Layout) -> None:
    """Refuse a folder that holds nothing of a run."""
    if not layout.used:
        raise BadStore(
            f"{str(layout.folder)!r} holds no run. Give the folder that `whence run --out` wrote to."
        )


"""Make a store whole again: what is damaged is set aside, and the next run fills the holes."""

from pathlib import Path

from whence.run.store import rows
from whence.run.store.layout import Layout
from whence.run.store.reading import check_used
from whence.run.store.schema import TABLES
from whence.run.store.store import Store
from whence.run.store.verify import Problem, windows_of


def repair(folder: str | Path) -> list[Problem]:
    """Repair a store, and return what was done to which file."""
    check_used(Layout(folder))
    with Store.locked(folder) as store:
        before = len(store.damage())
        done = [
            Problem(
                path.relative_to(store.folder).as_posix(), "removed: a run was killed writing it"
            )
            for path in store.tidy()
        ]
        known = store.recalled()
        if known is None:
            done.append(
                Problem("manifest.json", "lost: the same `whence run` as before makes it again")
            )
        else:
            store.state(known)
        for window in windows_of(store.layout):
            found = store.mended(window, thorough=True)
            if known is not None and known["state"] == "complete" and found.index and found.chunks:
                tables = {name: rows.gathered(name, list(found.tables(name))) for name in TABLES}
                store.place(found, found.index, tables)
        store.audits()
        aside = store.damage()[before:]
        if known is not None:
            store.settled(known["state"] == "complete" and not aside)
    return [*done, *(Problem(one["file"], f"set aside: {one['why']}") for one in aside)]


"""Rows as Arrow tables, and as Parquet files: the same bytes for the same rows, in whatever order they came."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.run.store.schema import COLUMNS, EARLIER, ORDER, SCHEMAS, SINCE_2
from whence.run.task import Record

LIGHT = ("row", "key", "setting", "error")  # what tells which results there are, and which failed
GROUP = 4096  # rows that a reader must take at once


def from_records(name: str, records: Iterable[Record]) -> pa.Table:
    """Make a table of those records that belong to it; a ValueError where one does not fit."""
    known = {column.name for column in COLUMNS[name]} | {"table"}
    own = [record for record in records if record["table"] == name]
    if strange := {column for record in own for column in record} - known:
        raise ValueError(f"the table {name} has no column {', '.join(sorted(strange))}")
    try:
        table = pa.Table.from_pylist(own, schema=SCHEMAS[name])
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"a record does not fit the table {name} ({error})") from None
    for column in COLUMNS[name]:
        if not column.nullable and table[column.name].null_count:
            raise ValueError(f"a record of the table {name} lacks {column.name!r}")
    return table


def gathered(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Put rows together, sorted, each result once: the first that worked, or else the last failure."""
    # In one piece: rows of several are taken slowly, and a page of the file ends where a piece does.
    found = together(name, parts).combine_chunks()
    known = list(zip(found["row"].to_pylist(), found["key"].to_pylist(), strict=True))
    if len(set(known)) < len(known):
        found = found.take(pa.array(_chosen(known, found["error"].is_valid().to_pylist())))
    order = [(column, "ascending") for column in ORDER[name]]
    return found.take(pc.sort_indices(found.select(ORDER[name]), sort_keys=order))


def together(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Put tables one behind the other, also those that an earlier version wrote."""
    own = [widened(part, SCHEMAS[name].names) for part in parts]
    return pa.concat_tables([SCHEMAS[name].empty_table(), *own])


def _chosen(known: Sequence[tuple[int, str]], failed: Sequence[bool]) -> list[int]:
    """Return the place of each result once."""
    chosen: dict[tuple[int, str], int] = {}
    for place, one in enumerate(known):
        if one not in chosen or failed[chosen[one]]:
            chosen[one] = place
    return list(chosen.values())


def parquet(name: str, table: pa.Table) -> bytes:
    """Write a table as the bytes of a Parquet file. Nothing in it depends on when or where it is written."""
    sink = pa.BufferOutputStream()
    with writer(name, sink) as file:
        file.write_table(table, row_group_size=GROUP)
    return bytes(sink.getvalue())


def writer(name: str, sink: Any) -> pq.ParquetWriter:
    """Open a Parquet file of a table's schema for writing, with the one set of options that the store has."""
    repeated = [
        one.name
        for one in COLUMNS[name]
        if one.type == pa.string() and one.name not in ("key", "id")
    ]
    return pq.ParquetWriter(
        sink,
        SCHEMAS[name],
        version="2.6",
        compression="zstd",
        compression_level=3,
        use_dictionary=[*repeated, "tokens.list.element", "part_names.list.element"],
        write_page_checksum=True,
        write_batch_size=1024,
    )


def check(name: str, raw: bytes) -> None:
    """Raise a ValueError where the bytes are no Parquet file of a table."""
    try:
        with pq.ParquetFile(pa.BufferReader(raw)) as file:
            found = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no Parquet file ({_why(error)})") from None
    if not any(found.equals(one[name], check_metadata=True) for one in (SCHEMAS, EARLIER)):
        raise ValueError("its columns are not those of this version")


def read(raw: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the bytes of a Parquet file, or some columns of it; a ValueError where it is none."""
    try:
        with pq.ParquetFile(pa.BufferReader(raw), page_checksum_verification=True) as file:
            found = file.read(columns=None if columns is None else list(columns))
            return found if columns is None else widened(found, columns)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no whole Parquet file ({_why(error)})") from None


def _why(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def batches(name: str, file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Go through the rows of a Parquet file of a table, `size` at a time."""
    with pq.ParquetFile(file, page_checksum_verification=True) as opened:
        for batch in opened.iter_batches(batch_size=size):
            found = widened(pa.Table.from_batches([batch]), SCHEMAS[name].names)
            yield from found.cast(SCHEMAS[name]).to_batches()


def widened(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return a table with these columns; those that its version did not have yet are null."""
    missing = [one for one in SINCE_2 if one in columns and one not in table.schema.names]
    for column in missing:
        field = SCHEMAS["explanations"].field(column)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(list(dict.fromkeys(columns))) if missing else table


"""The tables of a store: their columns, what they mean, and how rows are sorted. A contract with whoever reads them.

A column that is added, goes, or changes its type or meaning makes a new version; a store of a version that is not
known is refused. Version 2 added `gold` and `right`: of files of version 1 they are read as null.
"""

from typing import NamedTuple

import pyarrow as pa

VERSION = 2
SINCE_2 = ("gold", "right")


class Column(NamedTuple):
    """A column of a table: its type, whether it may be null, and what stands in it."""

    name: str
    type: pa.DataType
    nullable: bool
    meaning: str


_TEXT, _WHOLE = pa.string(), pa.int32()


def _list(of: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", of))  # as Parquet calls it


_AXIOM = pa.struct([pa.field("axiom", _TEXT), pa.field("residual", pa.float64())])

COLUMNS: dict[str, tuple[Column, ...]] = {
    "explanations": (
        Column("key", _TEXT, False, "the hash of everything that determines this result"),
        Column("setting", _TEXT, False, "all of it but the example; the manifest says what"),
        Column("row", pa.int64(), False, "the example's place in the data, counted from 0"),
        Column("example", _TEXT, False, "the hash of the example: text or picture, label, marks"),
        Column("id", _TEXT, False, "the example's own name, or what its place is called"),
        Column("label", _TEXT, True, "its true label, where the data has one"),
        Column("text", _TEXT, True, "its text; null of a picture"),
        Column("pair", _TEXT, True, "its second text, where there are two"),
        Column("method", _TEXT, False, "what explained it"),
        Column("gold", _TEXT, True, "its true label as the model calls it; null: not one of its"),
        Column("right", pa.bool_(), True, "whether the model predicts that; null: nobody can say"),
        Column("target", _TEXT, True, "the class that is explained"),
        Column("predicted", _TEXT, True, "the class that the model predicts"),
        Column("probability", pa.float64(), True, "what the model gives that class"),
        Column("tokens", _list(_TEXT), True, "what has a score: tokens, or patches by name"),
        Column("special", _list(pa.bool_()), True, "whether a token is the model's own"),
        Column("starts", _list(_WHOLE), True, "where a token begins in its text; null: nowhere"),
        Column("ends", _list(_WHOLE), True, "where it ends, one character behind the last"),
        Column("segments", _list(pa.int8()), True, "of which text it is: 0, or 1 of a pair"),
        Column("ids", _list(pa.int64()), True, "its number in the model's vocabulary"),
        Column("words", _list(_WHOLE), True, "its word's number; -1: in none; null: never removed"),
        Column("scores", _list(pa.float64()), True, "the explanation, a score for each token"),
        Column("axioms", _list(_AXIOM), True, "how far a law is missed that scores should obey"),
        Column("forward", _WHOLE, True, "forward passes that this took"),
        Column("backward", _WHOLE, True, "backward passes"),
        Column("dropped", _WHOLE, True, "tokens that were cut off, because the text is too long"),
        Column("refused", pa.bool_(), True, "whether the model cannot take the input at all"),
        Column("error", _TEXT, True, "of a failure: the code of its error; scores are null"),
        Column("why", _TEXT, True, "of a failure: a sentence"),
    ),
    "metrics": (
        Column("key", _TEXT, False, "the hash of everything that determines this result"),
        Column("setting", _TEXT, False, "all of it but the example; the manifest says what"),
        Column("row", pa.int64(), False, "the example's place in the data, counted from 0"),
        Column("example", _TEXT, False, "the hash of the example: text or picture, label, marks"),
        Column("method", _TEXT, False, "whose explanation was tested"),
        Column("metric", _TEXT, False, "what tested it"),
        Column("value", pa.float64(), True, "what it measured"),
        Column("null", pa.float64(), True, "the same of random rankings, their mean"),
        Column("part_names", _list(_TEXT), True, "what a value is made of, where it has parts"),
        Column("parts", _list(pa.float64()), True, "the parts of the value, in this order"),
        Column("null_parts", _list(pa.float64()), True, "those of each random ranking in turn"),
        Column("error", _TEXT, True, "why there is no value: the code of an error"),
        Column("why", _TEXT, True, "why there is no value: a sentence"),
    ),
}

# How the rows of a file are sorted.
ORDER = {
    "explanations": ("row", "method", "setting"),
    "metrics": ("row", "method", "metric", "setting"),
}


def _schema(name: str, version: int = VERSION) -> pa.Schema:
    stated = {"whence": f"store {name}", "version": str(version)}
    left_out = SINCE_2 if version < 2 else ()
    fields = [
        pa.field(one.name, one.type, nullable=one.nullable)
        for one in COLUMNS[name]
        if one.name not in left_out
    ]
    return pa.schema(fields, metadata=stated)


SCHEMAS: dict[str, pa.Schema] = {name: _schema(name) for name in COLUMNS}
# Of stores that an earlier whence wrote.
EARLIER: dict[str, pa.Schema] = {name: _schema(name, 1) for name in COLUMNS}
TABLES: tuple[str, ...] = tuple(COLUMNS)


"""Plain data in a file that knows whether it is whole: any flipped bit shows."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any


def sealed(facts: Mapping[str, Any]) -> bytes:
    """Write plain data as JSON that ends with its own checksum; equal data gives equal bytes."""
    plain = {name: value for name, value in facts.items() if name != "sha256"}
    body = _written(plain)
    # The checksum stands last, whatever else there is: "{...}" becomes "{..., sha256}".
    seal = json.dumps(sha256(body.encode()).hexdigest())
    head = body[: -len("\n}")]
    return f'{head}{"," if plain else ""}\n "sha256": {seal}\n}}\n'.encode()


def unsealed(raw: bytes) -> dict[str, Any]:
    """Read it again; a ValueError where it is not what was written."""
    try:
        facts = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(facts, dict) or sealed(facts) != raw:
        raise ValueError("its checksum does not fit")
    del facts["sha256"]
    return facts


def _written(plain: Mapping[str, Any]) -> str:
    return json.dumps(plain, sort_keys=True, indent=1, ensure_ascii=True) if plain else "{\n}"


"""Is a store what it should be? Everything is read, nothing is changed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from whence.core.errors import BadStore
from whence.data.sets.examples import Example
from whence.run.keys import digest, given_digest, key, setting_digest
from whence.run.store import commit, rows
from whence.run.store.layout import Layout
from whence.run.store.lock import at_rest
from whence.run.store.opened import Opened, content, opened
from whence.run.store.reading import Reading, check_used
from whence.run.store.schema import ORDER, TABLES
from whence.run.store.seal import unsealed


class Problem(NamedTuple):
    """Something that is wrong: with which file, and what."""

    where: str
    what: str


def verify(folder: str | Path) -> Iterator[Problem]:
    """Go through all that is wrong with a store. BadStore where the folder is none at all."""
    layout = Layout(folder)
    check_used(layout)
    with at_rest(layout.folder):
        yield from problems(layout)


def problems(layout: Layout) -> Iterator[Problem]:
    """The same, while the folder is held by who asks."""
    store = None
    try:
        store = Reading.read(layout.folder)
    except BadStore as error:
        yield Problem("manifest.json", str(error))
    settings = None if store is None else store.manifest["settings"]
    for setting, facts in (settings or {}).items():
        if setting_digest(facts) != setting:
            yield Problem("manifest.json", f"the setting {setting} stands for something else")
    yield from _leftovers(layout)
    last = -1
    for window in windows_of(layout):
        found = opened(layout, window, thorough=True)
        yield from (Problem(_local(layout, path), why) for path, why in found.damage)
        if _orphaned(layout, window):
            yield Problem(_local(layout, layout.index(window)), "it is missing")
        if found.coming is not None:
            yield Problem(_local(layout, layout.coming(window)), "a commit was interrupted")
        if found.index is not None:
            if found.index["first"] is not None and found.index["first"] <= last:
                yield Problem(
                    _local(layout, layout.index(window)), "another window has these rows, too"
                )
            last = max(last, -1 if found.index["last"] is None else found.index["last"])
        for name in found.parts:
            for what in _table(found, name, settings):
                yield Problem(_local(layout, layout.part(name, window)), what)
        for path, tables in found.chunks:
            for name in TABLES:
                for what in _keys(name, tables[name], settings):
                    yield Problem(_local(layout, path), what)
    if store is not None:
        yield from _complete(store)


def _complete(store: Reading) -> Iterator[Problem]:
    """Hold what the manifest says against what is there, if it says that all is."""
    if store.manifest["state"] != "complete":
        return
    if store.manifest["totals"] != commit.totals(store.indices()):
        yield Problem("manifest.json", "its totals are not what the index adds up to")
    for window in store.lacking():
        yield Problem(_local(store.layout, store.layout.index(window)), "results are missing")
    for path in store.layout.chunks():
        yield Problem(_local(store.layout, path), "it was left over: its window is complete")


def _leftovers(layout: Layout) -> Iterator[Problem]:
    """Find files that a kill left, and those that are not of this store but would be read with it."""
    for path in layout.temporary():
        yield Problem(_local(layout, path), "it was being written when a run was killed")
    for name in TABLES:
        own = set(layout.own(name))
        for path in sorted((layout.folder / name).glob("*.parquet")):
            if path not in own:
                yield Problem(_local(layout, path), "it is not of this store; move it elsewhere")
    for path in layout.own("audits"):
        try:
            unsealed(content(path) or b"")
        except ValueError as error:
            yield Problem(_local(layout, path), str(error))


def _table(found: Opened, name: str, settings: Any) -> Iterator[str]:
    """Find what is wrong with the rows of a file that is what its index says."""
    raw = found.parts[name]
    table = rows.read(raw)
    stated = commit.facts_of(table, raw)
    commits = [one["tables"].get(name) for one in (found.index, found.coming) if one is not None]
    if stated not in commits:
        yield "its rows are not what the index says"
    placed = list(zip(*(table[column].to_pylist() for column in ORDER[name]), strict=True))
    if placed != sorted(placed):
        yield "its rows are not sorted"
    yield from _keys(name, table, settings)


def _keys(name: str, table: pa.Table, settings: Any) -> Iterator[str]:
    """Find rows that are there twice or that nobody asked for: of a file, or of a chunk that is still pending."""
    known = zip(table["row"].to_pylist(), table["key"].to_pylist(), strict=True)
    if twice := sum(number > 1 for number in Counter(known).values()):
        yield f"{twice:,} results are there more than once"
    if settings is None:
        return
    if strange := sorted(set(table["setting"].to_pylist()) - set(settings)):
        yield f"the manifest does not say what the setting {', '.join(strange)} stands for"
    if wrong := sum(
        1 for one in _keyed(name, table, settings) if one["key"] != _key(one, settings)
    ):
        yield f"{wrong:,} rows have a key that is not theirs"


def _keyed(name: str, table: pa.Table, settings: Any) -> Iterator[dict[str, Any]]:
    """Go through the rows whose keys can be computed again: not those of explained pictures."""
    named = [
        "key",
        "setting",
        "example",
        *(("text", "pair", "label") if name == "explanations" else ()),
    ]
    for one in table.select(named).to_pylist():
        facts = settings.get(one["setting"])
        if facts is not None and (
            facts.get("example", "all") == "all" or one.get("text") is not None
        ):
            yield one


def _key(one: dict[str, Any], settings: Any) -> str:
    part = settings[one["setting"]].get("example", "all")
    if part == "all":
        return key(one["setting"], one["example"])
    text, pair = one["text"], one["pair"]
    given = given_digest(Example(text if pair is None else (text, pair)))
    return key(one["setting"], given if part == "given" else digest([given, one["label"]]))


def _orphaned(layout: Layout, window: int) -> bool:
    """Say whether a window has tables and nothing that tells of them."""
    told = layout.index(window).exists() or layout.coming(window).exists()
    return not told and any(layout.part(name, window).exists() for name in TABLES)


def windows_of(layout: Layout) -> list[int]:
    """Return the numbers of all windows that anything is there of."""
    folders = ("index", *TABLES)
    chunks = {layout.numbers(path)[0] for path in layout.chunks()}
    return sorted(chunks.union(*(layout.windows(name) for name in folders)))


def _local(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.folder).as_posix()
