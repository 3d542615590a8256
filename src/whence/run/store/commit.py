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
