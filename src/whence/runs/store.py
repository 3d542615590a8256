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
