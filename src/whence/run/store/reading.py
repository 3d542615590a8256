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
