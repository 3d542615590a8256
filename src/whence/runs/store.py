"""Store of a run: tables, manifest, journal, lock; to read, page, commit, export, merge, verify and repair.

Format: docs/reference/store.md. A column that is added, removed or changed makes a new version; version 2
added `gold` and `right`, which are read as null from files of version 1. Unknown versions are refused.

Commit of a window, safe at any kill: first the next index is written, then the tables are replaced one by
one, then the next index replaces the index, then the pending chunks are removed. A run that finds a commit
half done accepts each file that fits the old index or the new one. The same rows give the same bytes, in
whatever order they came. The manifest has no times and no hosts; these stand in the journal, and no result
depends on the journal. The lock is released by the system when its holder ends, however that happens.
"""

import csv
import errno
import gzip
import io
import json
import math
import os
import re
import shutil
import socket
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from whence.core import files as files_module
from whence.core.errors import BadParameter, BadStore, CannotRead, CannotWrite, StoreInUse
from whence.core.files import (
    check_writable,
    format_public_address,
    format_public_name,
    open_atomic,
    quote_path,
    sync_folder,
)
from whence.data.dataset import compute_input_id, hash_json
from whence.data.example import Example
from whence.render.text import escape_formula
from whence.runs.chunks import Window
from whence.runs.keys import compute_example_key, compute_result_key, compute_setting_digest
from whence.runs.plan import Plan
from whence.runs.task import Identity, Record, TaskResult

_FILTER_COLUMNS = ("row", "method", "setting", "error")  # columns that row filters read
_PAGE_COLUMNS = (
    *("row", "id", "method", "text", "pair", "label", "gold", "target", "predicted", "probability"),
    *("error", "why"),
)  # fmt: skip
_PAGE_METRIC_COLUMNS = ("row", "method", "metric", "setting", "value", "null", "why")


@dataclass(frozen=True)
class RowFilter:
    """A filter and sort order of explanation rows, for a page of a table."""

    method: str | None = None
    failed: bool | None = None
    search: str = ""  # substring of the text or its pair, in any case
    metric: str | None = None  # adds its value to each row
    falling: bool | None = None  # descending or ascending by that value; None: in data order
    settings: frozenset[str] | None = None  # setting digests of explanations and metrics; None: all


@dataclass(frozen=True)
class RowPage:
    """A page of rows, and the count of all rows that match the filter."""

    records: list[dict[str, Any]]
    found: int
    unread: list[str] = field(default_factory=list)  # files that could not be read, and why


@dataclass(frozen=True)
class _WindowSelection:
    """The selected rows of one window: their indices in its file, and their metric values."""

    window: int
    places: Any  # int64 row indices
    values: Any  # float64, NaN without a value


def read_page(folder: Path, row_filter: RowFilter, first: int, most: int) -> RowPage:
    """Return at most `most` matching rows from number `first` on, and the count of all matches."""
    unread: list[str] = []
    parts = _iterate_selections(folder, row_filter, unread)
    if row_filter.falling is None:
        chosen, total = _slice_in_order(parts, first, most)
    else:
        chosen, total = _slice_by_value(list(parts), row_filter.falling, first, most)
    return RowPage(_read_records(folder, chosen, unread), total, unread)


def read_row(
    folder: Path, row: int, settings: frozenset[str] | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the explanation rows and the metric rows of one example of the data."""
    for window in _list_windows(folder):
        if _is_outside_window(folder, window, row):
            continue
        own = _filter_row(
            _read_columns(folder, "explanations", window, (*_PAGE_COLUMNS, "setting")),
            row,
            settings,
        )
        if own:
            tested = _read_columns(folder, "metrics", window, _PAGE_METRIC_COLUMNS)
            return own, _filter_row(tested, row, settings)
    return [], []


def to_finite(value: float | None) -> float | None:
    """Return a finite number as a float; None for null, NaN and infinity."""
    return float(value) if value is not None and np.isfinite(value) else None


def _list_windows(folder: Path) -> list[int]:
    """Return the numbers of the windows with an index or pending chunks."""
    layout = Layout(folder)
    return sorted({*layout.windows(), *layout.windows("pending")})


def _is_outside_window(folder: Path, window: int, row: int) -> bool:
    """Return whether a window's index excludes a row; False without a readable index."""
    try:
        index = decode_with_checksum(read_bytes_if_present(Layout(folder).index(window)) or b"")
        return not index["first"] <= row <= index["last"]
    except (ValueError, KeyError, TypeError):
        return False


def _filter_row(table: Any, row: int, settings: frozenset[str] | None) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = table.filter(pc.equal(table["row"], row)).to_pylist()
    return [record for record in records if settings is None or record["setting"] in settings]


def _iterate_selections(
    folder: Path, row_filter: RowFilter, unread: list[str]
) -> Iterator[_WindowSelection]:
    for window in _list_windows(folder):
        try:
            part = _select_in_window(folder, window, row_filter)
        except OSError as error:
            unread.append(_format_read_error(window, error))
            continue
        if len(part.places):
            yield part


def _select_in_window(folder: Path, window: int, row_filter: RowFilter) -> _WindowSelection:
    columns = (*_FILTER_COLUMNS, "text", "pair") if row_filter.search else _FILTER_COLUMNS
    table = _read_columns(folder, "explanations", window, columns)
    keep = _mask_settings(table, row_filter.settings)
    if row_filter.method is not None:
        keep &= _to_boolean_mask(pc.equal(table["method"], row_filter.method))
    if row_filter.failed is not None:
        keep &= _to_boolean_mask(pc.is_valid(table["error"])) == row_filter.failed
    if row_filter.search:
        keep &= _mask_substring(table["text"], row_filter.search) | _mask_substring(
            table["pair"], row_filter.search
        )
    places = np.flatnonzero(keep)
    if row_filter.metric is None or not len(places):
        return _WindowSelection(window, places, np.full(len(places), np.nan))
    tested = _read_columns(
        folder, "metrics", window, ("row", "method", "metric", "setting", "value")
    )
    own = _to_boolean_mask(pc.equal(tested["metric"], row_filter.metric)) & _mask_settings(
        tested, row_filter.settings
    )
    return _WindowSelection(
        window, places, _match_metric_values(table.take(places), tested.filter(own))
    )


def _mask_settings(table: Any, settings: frozenset[str] | None) -> Any:
    """Return a boolean mask of the rows whose setting is among `settings`."""
    if settings is None:
        return np.ones(table.num_rows, dtype=bool)
    known = pa.array(sorted(settings), pa.string())
    return _to_boolean_mask(pc.is_in(table["setting"], value_set=known))


def _mask_substring(texts: Any, search: str) -> Any:
    return _to_boolean_mask(pc.match_substring(texts, search, ignore_case=True))


def _match_metric_values(rows: Any, tested: Any) -> Any:
    """Return the metric value of each row, matched by row number and method."""
    methods = pc.unique(rows["method"])
    row_numbers = _number_rows(rows, methods)
    tested_numbers = _number_rows(tested, methods)
    if not len(tested_numbers):
        return np.full(len(row_numbers), np.nan)
    order = np.argsort(tested_numbers, kind="stable")
    at = np.minimum(np.searchsorted(tested_numbers[order], row_numbers), len(tested_numbers) - 1)
    values = pc.fill_null(tested["value"], float("nan")).to_numpy()[order]
    return np.where(tested_numbers[order][at] == row_numbers, values[at], np.nan)


def _number_rows(table: Any, methods: Any) -> Any:
    """Return one number per (row, method) pair; methods not in `methods` share the last code."""
    codes = pc.fill_null(pc.index_in(table["method"], value_set=methods), len(methods)).to_numpy()
    return table["row"].to_numpy() * (len(methods) + 1) + codes


def _slice_in_order(
    parts: Iterator[_WindowSelection], first: int, most: int
) -> tuple[list[_WindowSelection], int]:
    chosen, total = [], 0
    for part in parts:
        here = slice(max(0, first - total), max(0, first + most - total))
        total += len(part.places)
        if len(part.places[here]):
            chosen.append(_WindowSelection(part.window, part.places[here], part.values[here]))
    return chosen, total


def _slice_by_value(
    parts: list[_WindowSelection], falling: bool, first: int, most: int
) -> tuple[list[_WindowSelection], int]:
    """Return a page of rows sorted by value; NaN comes last, ties keep the order of the data."""
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
        chosen.append(
            _WindowSelection(part.window, part.places[at : at + 1], part.values[at : at + 1])
        )
    return chosen, len(values)


def _read_records(
    folder: Path, chosen: Sequence[_WindowSelection], unread: list[str]
) -> list[dict[str, Any]]:
    """Return the records of the selected rows; each file is read once."""
    by_window: dict[int, list[tuple[int, _WindowSelection]]] = {}
    for number, part in enumerate(chosen):
        by_window.setdefault(part.window, []).append((number, part))
    records: dict[int, list[dict[str, Any]]] = {}
    for window, own in by_window.items():
        try:
            table = _read_columns(folder, "explanations", window, _PAGE_COLUMNS)
        except OSError as error:
            unread.append(_format_read_error(window, error))
            continue
        for number, part in own:
            records[number] = _build_page_records(table, part)
    return [record for number in sorted(records) for record in records[number]]


def _build_page_records(table: Any, part: _WindowSelection) -> list[dict[str, Any]]:
    # The window may have been committed again since its row indices were found.
    inside = part.places < table.num_rows
    records = table.take(part.places[inside]).to_pylist()
    return [
        {**record, "value": to_finite(value)}
        for record, value in zip(records, part.values[inside], strict=True)
    ]


def _read_columns(folder: Path, table: str, window: int, columns: Sequence[str]) -> pa.Table:
    """Return some columns of a window's table, pending chunks included."""
    layout = Layout(folder)
    if layout.chunks(window):
        return merge_rows(table, list(read_window_files(layout, window).tables(table))).select(
            columns
        )
    path = layout.part(table, window)
    if not path.exists():  # a table without rows has no file
        return merge_rows(table, []).select(columns)
    try:
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            if missing := set(columns) - {*file.schema_arrow.names, *VERSION_2_COLUMNS}:
                raise OSError(f"{path.name} has no column {min(missing)!r}")
            return add_missing_columns(file.read(list(columns)), columns)
    except pa.ArrowException as error:
        raise OSError(f"{path.name}: {error}") from None


def _to_boolean_mask(column: Any) -> Any:
    """Return a Boolean column as a numpy mask; null counts as False."""
    return pc.fill_null(column, False).combine_chunks().to_numpy(zero_copy_only=False).astype(bool)


def _format_read_error(window: int, error: OSError) -> str:
    reason = " ".join(str(error.strerror or error).split())[:200]
    return f"Window {window:06d} cannot be read: {reason}. `whence store verify` says more."


FOLDERS = ("explanations", "metrics", "index", "pending", "audits", "journal", "damaged")
_FILE_NAMES = {
    "explanations": r"part-(\d{6,})\.parquet",
    "metrics": r"part-(\d{6,})\.parquet",
    "index": r"(\d{6,})(?:\.next)?\.json",
    "pending": r"(\d{6,})-(\d{3,})\.arrows",
    "audits": r"([a-z0-9_]+)\.json",
    "journal": r"(\d{6,})\.jsonl",
    ".": r"(manifest)\.json",
}
_TEMPORARY_NAME = r"\.%s\.[a-z0-9_]{8}"  # name of a file while whence.core.files writes it


class Layout:
    """The paths of a store's files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = self.folder / "manifest.json"
        self.lock = self.folder / "lock"

    def part(self, table: str, window: int) -> Path:
        """Return the path of a window's Parquet file of a table."""
        return self.folder / table / f"part-{window:06d}.parquet"

    def index(self, window: int) -> Path:
        """Return the path of a window's index: checksums and row counts of its tables."""
        return self.folder / "index" / f"{window:06d}.json"

    def next_index(self, window: int) -> Path:
        """Return the path of the next index, which exists while a commit replaces the tables."""
        return self.folder / "index" / f"{window:06d}.next.json"

    def pending(self, window: int, chunk: int) -> Path:
        """Return the path of a pending chunk: finished, in a window that is not."""
        return self.folder / "pending" / f"{window:06d}-{chunk:03d}.arrows"

    def chunks(self, window: int | None = None) -> list[Path]:
        """Return the paths of all pending chunks, or of one window's, in order."""
        numbered = ((self.parse_numbers(path), path) for path in self.iterate_own_files("pending"))
        return [path for numbers, path in sorted(numbered) if window in (None, numbers[0])]

    def iterate_own_files(self, folder: str) -> Iterator[Path]:
        """Yield the files of a subfolder whose names are those of a store."""
        return self._match_files(folder, _FILE_NAMES[folder])

    def iterate_temporary_files(self) -> Iterator[Path]:
        """Yield the temporary files that a killed run left."""
        for folder, name in _FILE_NAMES.items():
            yield from self._match_files(folder, _TEMPORARY_NAME % name)

    def _match_files(self, folder: str, name: str) -> Iterator[Path]:
        known = re.compile(name)
        place = self.folder / folder
        if place.is_dir():
            yield from sorted(path for path in place.iterdir() if known.fullmatch(path.name))

    def windows(self, folder: str = "index") -> list[int]:
        """Return the numbers of the windows that have a file in a subfolder."""
        return sorted({self.parse_numbers(path)[0] for path in self.iterate_own_files(folder)})

    @staticmethod
    def parse_numbers(path: Path) -> tuple[int, ...]:
        """Return the numbers in a file's name: the window's, then the chunk's."""
        return tuple(map(int, re.findall(r"\d+", path.name)))

    @property
    def is_used(self) -> bool:
        """Whether the folder holds any file of a store."""
        return any(next(self.iterate_own_files(folder), None) is not None for folder in _FILE_NAMES)


WindowIndex = dict[str, Any]


@dataclass
class WindowFiles:
    """The files of a window as read from disk, each checked against its checksum."""

    index: WindowIndex | None = None  # the last finished commit
    coming: WindowIndex | None = None  # next index of a commit that a kill interrupted
    parts: dict[str, bytes] = field(
        default_factory=dict
    )  # by table: file content whose checksum is in an index
    chunks: list[tuple[Path, dict[str, pa.Table]]] = field(default_factory=list)
    damage: list[tuple[Path, str]] = field(default_factory=list)

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Yield the committed rows of a table, then the rows of each pending chunk."""
        if name in self.parts:
            yield read_parquet(self.parts[name])
        yield from (tables[name] for _, tables in self.chunks)

    def iterate_key_tables(self, name: str) -> Iterator[pa.Table]:
        """Yield the same rows with only the columns that identify a result."""
        if name in self.parts:
            yield read_parquet(self.parts[name], KEY_COLUMNS)
        yield from (tables[name].select(KEY_COLUMNS) for _, tables in self.chunks)

    @property
    def is_whole(self) -> bool:
        """Whether the window is committed, without pending chunks, next index or damage."""
        return self.index is not None and not (self.coming or self.chunks or self.damage)

    def has_finished_commit(self, coming: WindowIndex) -> bool:
        """Return whether all tables of an interrupted commit are already written."""
        digests = {name: sha256(raw).hexdigest() for name, raw in self.parts.items()}
        return digests == {name: facts["sha256"] for name, facts in coming["tables"].items()}


def read_window_files(layout: Layout, window: int, thorough: bool = False) -> WindowFiles:
    """Read all files of a window and verify their checksums; if thorough, also every Parquet page."""
    files = WindowFiles()
    files.index = _read_index(files, layout.index(window))
    files.coming = _read_index(files, layout.next_index(window))
    for name in TABLES:
        _read_part(files, name, layout.part(name, window), thorough)
    for path in layout.chunks(window):
        try:
            files.chunks.append((path, decode_tables(read_bytes_if_present(path) or b"")))
        except ValueError as error:
            files.damage.append((path, str(error)))
    return files


def read_bytes_if_present(path: Path) -> bytes | None:
    """Return the bytes of a file: None if it is missing, b"" if the disk cannot read it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise CannotRead(
            f"Cannot read {str(path)!r}: {error.strerror}. Allow it to be read."
        ) from None
    except OSError:
        return b""  # a folder of that name, or a bad sector: handled as damage


def _read_index(files: WindowFiles, path: Path) -> WindowIndex | None:
    raw = read_bytes_if_present(path)
    if raw is None:
        return None
    try:
        index = decode_with_checksum(raw)
        if index["version"] > VERSION:
            raise ValueError(f"its version is {index['version']}")
        return index
    except (ValueError, KeyError, TypeError) as error:
        files.damage.append((path, str(error)))
        return None


def _read_part(files: WindowFiles, name: str, path: Path, thorough: bool) -> None:
    raw = read_bytes_if_present(path)
    commits = [index["tables"] for index in (files.index, files.coming) if index is not None]
    checksums = [tables[name]["sha256"] for tables in commits if name in tables]
    if raw is None:
        # An interrupted commit may be about to remove this file, or to write it for the first time.
        if files.index is not None and name in files.index["tables"] and files.coming is None:
            files.damage.append((path, "it is missing"))
        return
    if sha256(raw).hexdigest() not in checksums:
        why = "its checksum does not fit" if checksums else "no index tells of it"
        files.damage.append((path, why))
        return
    try:
        check_parquet(name, raw)
        if thorough:
            read_parquet(raw)
        files.parts[name] = raw
    except ValueError as error:  # the checksum fits: another program wrote both file and index
        files.damage.append((path, str(error)))


RESULT_COLUMNS = ("row", "key", "setting", "example")
NAME_COLUMNS = ("example", "id", "label")
Settings = Mapping[str, Mapping[str, Any]]


def describe_window(window: Window) -> WindowIndex:
    """Return the index of a window without its tables: row range, example count, unreadable rows."""
    rows = [item.row for item in window.items]
    bad = [{"row": row.row, "where": row.where, "why": row.why} for row in window.bad]
    return {
        "version": VERSION,
        "window": window.number,
        "examples": len(rows),
        "first": min(rows, default=None),
        "last": max(rows, default=None),
        "bad": bad,
        "tables": {},
    }


def widen_bounds(index: WindowIndex, other: WindowIndex, behind: int = -1) -> WindowIndex:
    """Return an index whose row range and unreadable rows include another index's.

    The other index is of a run with a higher limit, or of another shard of the run.
    """
    first = [number for number in (index["first"], other["first"]) if number is not None]
    last = [number for number in (index["last"], other["last"]) if number is not None]
    bad = {row["row"]: row for row in other["bad"] if row["row"] > behind}
    bad.update((row["row"], row) for row in index["bad"])
    return {
        **index,
        "examples": max(index["examples"], other["examples"]),
        "first": min(first, default=None),
        "last": max(last, default=None),
        "bad": [bad[row] for row in sorted(bad)],
    }


class CurrentData:
    """The data as it is now: which stored rows still belong to it, with current ids and labels."""

    def __init__(
        self,
        window: Window,
        settings: Settings,
        further_rows: bool,
        gold: Mapping[str, str] | None = None,
    ) -> None:
        self._gold = gold or {}  # label of the data -> label of the model
        self._items = {item.row: item for item in window.items}
        self._settings = settings
        # Rows after the last are kept if an earlier run had a higher limit.
        self.end = max(self._items, default=-1)
        self._further = further_rows

    def is_current(self, row: int, key: str, setting: str, example: str) -> bool:
        """Return whether a stored row is a result of the current example in that row."""
        item = self._items.get(row)
        if item is None:
            return self._further and row > self.end
        if setting in self._settings:
            return key == compute_example_key(setting, self._settings[setting], item)
        return example == item.digest  # the manifest lost this setting: compare examples only

    def find_names(self, row: int, old: Sequence[Any]) -> tuple[Any, ...]:
        """Return the current example digest, id and label of a row.

        No explanation depends on the label unless it is the target, so a label may change.
        """
        item = self._items.get(row)
        return tuple(old) if item is None else (item.digest, item.id, item.example.label)

    def is_up_to_date(self, name: str, table: pa.Table) -> bool:
        """Return whether all rows of a table, and their names, are current."""
        if not all(map(self.is_current, *_columns_to_lists(table, RESULT_COLUMNS))):
            return False
        return name != "explanations" or all(
            self.find_names(row, old) == old
            for row, *rest in zip(*_columns_to_lists(table, ("row", *NAME_COLUMNS)), strict=True)
            for old in [tuple(rest)]
        )

    def keep_current(self, name: str, table: pa.Table) -> pa.Table:
        """Return the current rows of a table, with the ids and labels of the data."""
        fits = list(map(self.is_current, *_columns_to_lists(table, RESULT_COLUMNS)))
        current = table if all(fits) else table.filter(pa.array(fits, type=pa.bool_()))
        return (
            self._with_gold_labels(self._with_current_names(current))
            if name == "explanations"
            else current
        )

    def _with_gold_labels(self, table: pa.Table) -> pa.Table:
        """Fill the columns `gold` and `right`: the true label in the model's words, and correctness."""
        labels, predicted = _columns_to_lists(table, ("label", "predicted"))
        gold = [self._gold.get(label) for label in labels]
        right = [
            None if truth is None or prediction is None else truth == prediction
            for truth, prediction in zip(gold, predicted, strict=True)
        ]
        for column, values in (("gold", gold), ("right", right)):
            field = SCHEMAS["explanations"].field(column)
            place = table.schema.get_field_index(column)
            table = table.set_column(place, field, pa.array(values, type=field.type))
        return table

    def _with_current_names(self, table: pa.Table) -> pa.Table:
        known = list(zip(*_columns_to_lists(table, ("row", *NAME_COLUMNS)), strict=True))
        named = [self.find_names(row, old) for row, *old in known]
        if named == [tuple(old) for _, *old in known]:
            return table
        for number, column in enumerate(NAME_COLUMNS):
            field = SCHEMAS["explanations"].field(column)
            values = pa.array([names[number] for names in named], type=field.type)
            table = table.set_column(table.schema.get_field_index(column), field, values)
        return table


def is_window_up_to_date(files: WindowFiles, bounds: WindowIndex, now: CurrentData) -> bool:
    """Return whether a commit would leave a whole window unchanged."""
    if files.index is None or {**files.index, "tables": {}} != bounds:
        return False
    return all(
        now.is_up_to_date(
            name,
            read_parquet(raw, [*RESULT_COLUMNS, *(NAME_COLUMNS if name == "explanations" else ())]),
        )
        for name, raw in files.parts.items()
    )


def has_current_row(files: WindowFiles, now: CurrentData) -> bool:
    """Return whether any committed row belongs to the current data; True without committed rows."""
    tables = [read_parquet(raw, RESULT_COLUMNS) for raw in files.parts.values()]
    return not tables or any(
        any(map(now.is_current, *_columns_to_lists(table, RESULT_COLUMNS))) for table in tables
    )


def count_setting_results(index: WindowIndex, setting: str) -> int:
    """Return the number of results of a setting in a window."""
    return sum(int(facts["settings"].get(setting, 0)) for facts in index["tables"].values())


def sum_totals(indices: Iterable[WindowIndex]) -> dict[str, Any]:
    """Return the totals of windows: examples, unreadable rows, rows and failures by table."""
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


def _columns_to_lists(table: pa.Table, columns: Sequence[str]) -> list[list[Any]]:
    return [table[column].to_pylist() for column in columns]


def describe_table(table: pa.Table, raw: bytes) -> dict[str, Any]:
    """Return the index entry of a table's file: rows, failures, settings, bytes, checksum."""
    return {
        "rows": table.num_rows,
        "failed": table.num_rows - table["error"].null_count,
        "settings": dict(sorted(Counter(table["setting"].to_pylist()).items())),
        "bytes": len(raw),
        "sha256": sha256(raw).hexdigest(),
    }


def write_window(
    layout: Layout, old: WindowFiles, bounds: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> None:
    """Commit tables as a window's; a table without rows has no file."""
    window = bounds["window"]
    files = {name: encode_parquet(name, table) for name, table in tables.items() if table.num_rows}
    index = {
        **bounds,
        "tables": {name: describe_table(tables[name], raw) for name, raw in files.items()},
    }
    write_store_file(layout.folder, layout.next_index(window), encode_with_checksum(index))
    for name, raw in files.items():
        if old.parts.get(name) != raw:
            write_store_file(layout.folder, layout.part(name, window), raw)
    finish_commit(layout, window, index)
    remove_files([path for path, _ in old.chunks])


def finish_commit(layout: Layout, window: int, index: WindowIndex) -> None:
    """Finish a commit whose tables are written: replace the index, remove unlisted tables."""
    layout.next_index(window).replace(layout.index(window))
    sync_folder(layout.index(window).parent)
    remove_files([layout.part(name, window) for name in TABLES if name not in index["tables"]])


def remove_files(paths: Sequence[Path]) -> None:
    """Remove files, if they exist."""
    for path in paths:
        path.unlink(missing_ok=True)


_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_store_file(folder: Path, path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write a file of the store in `folder`; if lasting, synced to survive a power cut."""
    with explain_write_errors(folder, len(data)):
        files_module.replace_file(path, data, lasting=lasting)


@contextmanager
def explain_write_errors(folder: Path, size: int = 0) -> Iterator[None]:
    """Context manager: turn an OSError into a CannotWrite that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL_ERRORS:
            raise CannotWrite(
                f"There is no room for more results in {str(folder)!r}: {error.strerror}{_describe_free_space(folder, size)}. All "
                "done so far is safe. Make room, and give the same command again: it goes on from there."
            ) from None
        raise CannotWrite(
            f"Cannot write to {str(error.filename or folder)!r}: {error.strerror or error}. All done so far is "
            "safe. Allow it to be written, and give the same command again: it goes on from there."
        ) from None


def _describe_free_space(folder: Path, size: int) -> str:
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
        if free < size:
            return f" ({size:,} bytes were to be written, and {free:,} are free)"
    return ""


FORMAT = "whence run"
Manifest = dict[str, Any]
# Setting fields that must be equal in a folder, since its methods are compared in one table.
_SHARED_SETTINGS = {
    "explanation": ("target", "truncate", "dtype"),
    "test": ("remove", "mlm", "unit", "rankings"),
}


def build_manifest(plan: Plan, identity: Identity, data: Mapping[str, Any]) -> Manifest:
    """Return the manifest of a run; files by name, not path: it must be equal on every machine."""
    fields = {name: _to_json_data(value) for name, value in vars(plan).items() if name != "shard"}
    fields |= {"model": format_public_name(plan.model), "data": format_public_address(plan.data)}
    fields["mlm"] = None if plan.mlm is None else format_public_name(plan.mlm)
    fields["methods"] = list(identity.explained)
    fields["metrics"] = _merge_names(*([*tested] for tested in identity.tested.values()))
    return {
        "format": FORMAT,
        "version": VERSION,
        "plan": fields,
        "parts": None if plan.shard is None else [list(plan.shard)],
        "data": _to_json_data(data),
        "model": _to_json_data(identity.model),
        "code": identity.code,
        "settings": _to_json_data(identity.settings),
        "explained": _to_json_data(identity.explained),
        "tested": _to_json_data(identity.tested),
        "state": "running",
        "totals": None,
    }


def read_manifest(raw: bytes, where: str) -> Manifest:
    """Return a manifest from its bytes; ValueError if damaged, BadStore if of a newer format."""
    manifest = decode_with_checksum(raw)
    if manifest.get("format") != FORMAT:
        raise ValueError("it is not of a run")
    if manifest["version"] > VERSION:
        raise BadStore(
            f"{where!r} was written by a newer whence: its format is {manifest['version']}, and this one knows formats "
            f"up to {VERSION}. Update whence."
        )
    return manifest


def check_compatible(old: Manifest, new: Manifest, where: str) -> None:
    """Raise BadStore if two manifests differ in model, data, sample, seed or a shared setting."""
    for what, of, names in (
        ("model", "model", ("fingerprint", "name")),
        ("data set", "data", ("name", "kind")),
        ("choice of columns", "data", ("columns",)),
        ("sample", "plan", ("sample",)),
        ("seed", "plan", ("seed",)),
    ):
        have, want = ([side[of].get(name) for name in names] for side in (old, new))
        if what == "model" and have[0] is not None and have[0] == want[0]:
            continue  # the same weights under another name or path
        if have != want:
            raise _mismatch_error(where, what, names, have, want)
    for kind, facts in _SHARED_SETTINGS.items():
        there, now = (_find_setting(side, kind) for side in (old, new))
        for name in facts if there and now else ():
            if there.get(name) != now.get(name):
                raise _mismatch_error(where, name, [name], [there.get(name)], [now.get(name)])


def _find_setting(side: Manifest, kind: str) -> Mapping[str, Any]:
    """Return the first current setting of a kind (explanation, test); empty without one."""
    known = (side["settings"].get(digest, {}) for digest in list_current_settings(side))
    return next((facts for facts in known if facts.get("kind") == kind), {})


def _mismatch_error(
    where: str, what: str, names: Sequence[str], have: Sequence[Any], want: Sequence[Any]
) -> BadStore:
    return BadStore(
        f"{where!r} holds results of another {what}: {_format_values(names, have)} there, {_format_values(names, want)} now. "
        "Give another folder, or ask for what is there."
    )


def merge_manifests(old: Manifest, new: Manifest) -> Manifest:
    """Return the union of two manifests; `new` wins where both define a method or a metric."""
    plan = {**old["plan"], **new["plan"]}
    for names in ("methods", "metrics", "audit"):
        plan[names] = _merge_names(old["plan"][names], new["plan"][names])
    limits = (old["plan"]["limit"], new["plan"]["limit"])
    plan["limit"] = None if None in limits else max(limits)
    settings = {**old["settings"], **new["settings"]}
    explained = {**old["explained"], **new["explained"]}
    # Old metric results are dropped if their explanation is computed again (other code or parameters), or if the
    # metric has other parameters now: old and new values could not be compared.
    params = {
        metric: settings[digest].get("params")
        for own in new["tested"].values()
        for metric, digest in own.items()
    }
    old_tested = {
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
        method: {**old_tested.get(method, {}), **new["tested"].get(method, {})}
        for method in {**old_tested, **new["tested"]}
    }
    return {
        **new,
        "plan": plan,
        "parts": _merge_shards(old["parts"], new["parts"]),
        "settings": settings,
        "explained": explained,
        "tested": tested,
    }


def has_same_plan(manifest: Manifest, other: Manifest) -> bool:
    """Return whether two manifests are equal but for state and totals."""
    return {**manifest, "state": "", "totals": None} == {**other, "state": "", "totals": None}


def covers_plan(requested: Manifest, merged: Manifest) -> bool:
    """Return whether the run of `requested` completes all results that `merged` lists."""
    same = ("parts", "explained", "tested")
    return all(requested[key] == merged[key] for key in same) and all(
        requested["plan"][key] == merged["plan"][key] for key in ("limit", "audit")
    )


def recover_manifest(begun: Mapping[str, Any]) -> Manifest | None:
    """Return the manifest logged in a "begin" event, or None; settings with wrong hashes are dropped."""
    manifest = begun.get("manifest")
    if (
        not isinstance(manifest, dict)
        or manifest.get("format") != FORMAT
        or manifest["version"] > VERSION
    ):
        return None
    known = {
        name: facts
        for name, facts in manifest["settings"].items()
        if compute_setting_digest(facts) == name
    }
    return {**manifest, "settings": known, "state": "running", "totals": None}


def list_current_settings(manifest: Mapping[str, Any]) -> list[str]:
    """Return the digests of the current settings, without those of earlier code or parameters."""
    tests = (digest for tested in manifest["tested"].values() for digest in tested.values())
    return [*manifest["explained"].values(), *tests]


def _merge_shards(
    old: list[list[int]] | None, new: list[list[int]] | None
) -> list[list[int]] | None:
    """Return the union of two lists of shards, [part, of]; None means the whole run."""
    if old is None or new is None:
        return None
    parts = sorted({(of, part) for part, of in (*old, *new)})
    for of in {of for of, _ in parts}:
        if sum(one == of for one, _ in parts) == of:
            return None
    return [[part, of] for of, part in parts]


def _merge_names(*lists: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for names in lists for name in names))


def _to_json_data(value: Any) -> Any:
    """Return a value as it reads back from JSON: lists for tuples, strings for other objects."""
    if isinstance(value, Mapping):
        return {str(name): _to_json_data(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_data(item) for item in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _format_values(names: Sequence[str], values: Sequence[Any]) -> str:
    parts = [
        f"{name} {value!r}" for name, value in zip(names, values, strict=True) if value is not None
    ]
    return ", ".join(parts) or "none"


class StoreReader:
    """A store opened for reading. It changes nothing in the folder and takes no lock."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._journal = Journal(layout)
        self._manifest: Manifest | None = None

    @classmethod
    def open_if_present(cls, folder: str | Path) -> Self | None:
        """Open a folder for reading; None if it holds no store."""
        layout = Layout(folder)
        return cls.open_existing(folder) if layout.is_used else None

    @classmethod
    def open_existing(cls, folder: str | Path) -> Self:
        """Open a folder for reading; BadStore if it holds no store or lost its manifest."""
        store = cls(Layout(folder))
        where = str(folder)
        raw = read_bytes_if_present(store.layout.manifest)
        if raw is None:
            check_is_store(store.layout)
            raise BadStore(
                f"The manifest of {where!r} is missing. The same command as before makes it again, and so does "
                f"`whence store repair {quote_path(where)}`."
            )
        try:
            store._manifest = read_manifest(raw, where)
        except ValueError as error:
            raise BadStore(
                f"The manifest of {where!r} is damaged: {error}. The same command as before makes it again, and "
                f"so does `whence store repair {quote_path(where)}`."
            ) from None
        return store

    @property
    def folder(self) -> Path:
        """The path of the folder."""
        return self.layout.folder

    @property
    def manifest(self) -> Manifest:
        """The manifest: plan, model, data, settings, and the state of the run."""
        assert self._manifest is not None, "begin() comes first"
        return self._manifest

    def windows(self) -> list[int]:
        """Return the numbers of the committed windows."""
        return [window for window in self.layout.windows() if self.layout.index(window).exists()]

    def indices(self) -> Iterator[WindowIndex]:
        """Yield the indices of the committed windows, in order; damaged ones are skipped."""
        for window in self.windows():
            try:
                yield decode_with_checksum(read_bytes_if_present(self.layout.index(window)) or b"")
            except ValueError:
                continue  # its rows are unknown until a run repairs it

    def table(self, name: str, *, pending: bool = False) -> ds.Dataset:
        """Return a table as a lazy dataset; with `pending`, the rows of incomplete windows too."""
        open_windows = self._open_windows() if pending else []
        files = [
            str(self.layout.part(name, index["window"]))
            for index in self.indices()
            if name in index["tables"] and index["window"] not in open_windows
        ]
        parts = [ds.dataset(files, schema=SCHEMAS[name], format="parquet")] if files else []
        for window in open_windows:
            window_files = read_window_files(self.layout, window)
            parts.append(ds.dataset(merge_rows(name, list(window_files.tables(name)))))
        return ds.dataset(parts or [ds.dataset(SCHEMAS[name].empty_table())])

    def batches(self, name: str, size: int = 256) -> Iterator[pa.RecordBatch]:
        """Yield the committed rows of a table in order, `size` at a time; BadStore if a file is damaged."""
        for index in self.indices():
            if name not in index["tables"]:
                continue
            path = self.layout.part(name, index["window"])
            try:
                with pa.OSFile(str(path)) as file:
                    yield from iterate_parquet_batches(name, file, size)
            except (pa.ArrowException, OSError) as error:
                why = " ".join(str(error).split())[:120]
                raise BadStore(
                    f"{str(path)!r} is damaged ({why}). `whence store repair {quote_path(self.folder)}` sets it aside, "
                    "and the next run computes it again."
                ) from None

    def iterate_bad_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the unreadable rows of the data: row, where, why."""
        for index in self.indices():
            yield from index["bad"]

    def count_results(self) -> dict[str, int]:
        """Return the number of results by setting, failures and pending chunks included."""
        counts: Counter[str] = Counter()
        for index in self.indices():
            for facts in index["tables"].values():
                counts.update(facts["settings"])
        for window in self._open_windows():
            files = read_window_files(self.layout, window)
            for name in TABLES:
                for _, tables in files.chunks:
                    counts.update(tables[name]["setting"].to_pylist())
        return dict(counts)

    def count_pending_rows(self) -> dict[str, int]:
        """Return the number of pending rows by table."""
        counts = dict.fromkeys(TABLES, 0)
        for window in self._open_windows():
            for _, tables in read_window_files(self.layout, window).chunks:
                for name in TABLES:
                    counts[name] += tables[name].num_rows
        return counts

    def list_incomplete_windows(self) -> list[int]:
        """Return the windows that lack results; none for a shard, whose expected rows are unknown."""
        if self.manifest["parts"] is not None:
            return []
        digests = list_current_settings(self.manifest)
        return [
            index["window"]
            for index in self.indices()
            if any(count_setting_results(index, setting) < index["examples"] for setting in digests)
        ]

    def audits(self) -> dict[str, Any]:
        """Return the results of the audit's experiments on attention, by name."""
        facts = {}
        for path in self.layout.iterate_own_files("audits"):
            try:
                facts[path.stem] = decode_with_checksum(read_bytes_if_present(path) or b"")["found"]
            except (ValueError, KeyError) as error:
                self._set_aside(path, str(error))
        return facts

    def events(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of the journal in order, or those of one kind."""
        return self._journal.events(kind)

    def list_damage(self) -> list[dict[str, Any]]:
        """Return the "damaged" events of the journal: file, reason and time."""
        return list(self.events("damaged"))

    def _open_windows(self) -> list[int]:
        return sorted({self.layout.parse_numbers(path)[0] for path in self.layout.chunks()})

    def _set_aside(self, path: Path, why: str) -> None:
        """Leave a damaged file in place: a reader changes nothing."""


def check_is_store(layout: Layout) -> None:
    """Raise BadStore if a folder holds no file of a run."""
    if not layout.is_used:
        raise BadStore(
            f"{str(layout.folder)!r} holds no run. Give the folder that `whence run --out` wrote to."
        )


TableWriter = Callable[[StoreReader, str, IO[bytes]], None]


def export_table(folder: str | Path, table: str, to: str | Path) -> Path:
    """Write a table to a .parquet, .csv or .jsonl file, the last two also .gz, in bounded memory."""
    if table not in TABLES:
        raise BadParameter(f"--table must be {' or '.join(TABLES)}. Got {table!r}.")
    to = Path(to)
    write = next((one for ending, one in _WRITERS.items() if to.name.endswith(ending)), None)
    if write is None:
        raise BadParameter(f"--to must end in {', '.join(_WRITERS)}. Got {to.name!r}.")
    store = StoreReader.open_existing(folder)
    if store.folder.resolve() in to.resolve().parents:
        raise BadParameter(f"--to must be outside of the run's own folder. Got {str(to)!r}.")
    check_writable(to)
    with open_atomic(to) as stream:
        write(store, table, stream)
    return to


def _write_parquet(store: StoreReader, table: str, stream: IO[bytes]) -> None:
    with open_parquet_writer(table, stream) as file:
        for batch in store.batches(table, ROW_GROUP_SIZE):
            file.write_batch(batch)


def _write_jsonl(store: StoreReader, table: str, stream: IO[bytes]) -> None:
    for batch in store.batches(table):
        for record in batch.to_pylist():
            stream.write(_format_json(record).encode() + b"\n")


def _write_csv(store: StoreReader, table: str, stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in COLUMNS[table]])
    for batch in store.batches(table):
        writer.writerows(
            [_format_cell(value) for value in record.values()] for record in batch.to_pylist()
        )
    text.detach()


def _format_cell(value: Any) -> Any:
    return _format_json(value) if isinstance(value, list) else escape_formula(value)


def _format_json(value: Any) -> str:
    return json.dumps(_replace_non_finite(value), ensure_ascii=False, allow_nan=False)


def _replace_non_finite(value: Any) -> Any:
    """Return a value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _replace_non_finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_replace_non_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _gzip_writer(write: TableWriter) -> TableWriter:
    def write_gzip(store: StoreReader, table: str, stream: IO[bytes]) -> None:
        # No file name and no time in the header: equal rows give equal bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as inner:
            write(store, table, cast(IO[bytes], inner))

    return write_gzip


_WRITERS: dict[str, TableWriter] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".csv.gz": _gzip_writer(_write_csv),
    ".jsonl.gz": _gzip_writer(_write_jsonl),
}


class WindowResults:
    """The keys of a window's results and failures, by row."""

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
            keys -= self._done.get(row, set())  # a retry succeeded

    def needs_result(self, row: int, key: str, retry_failed: bool = False) -> bool:
        """Return whether a result must be computed: it is missing, or it failed and is retried."""
        if key in self._done.get(row, ()):
            return False
        return retry_failed or key not in self._failed.get(row, ())

    @property
    def keys(self) -> set[str]:
        """The keys of all results, failures included; equal examples share a key."""
        return set().union(*self._done.values(), *self._failed.values())

    @property
    def failure_keys(self) -> set[str]:
        """The keys of the failures."""
        return set().union(*self._failed.values())

    def __len__(self) -> int:
        return sum(map(len, self._done.values())) + sum(map(len, self._failed.values()))


class Journal:
    """The append-only log of a store: one JSONL file per process that writes to it."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._number: int | None = None

    def add(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Append an event with the time; the caller handles OSErrors."""
        folder = self._layout.folder / "journal"
        if self._number is None:
            folder.mkdir(exist_ok=True)
            self._number = max(self._layout.windows("journal"), default=-1) + 1
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": now, "kind": kind, **facts}, default=str)
        with (folder / f"{self._number:06d}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def events(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the readable events of all files, oldest first, or those of one kind."""
        for path in self._layout.iterate_own_files("journal"):
            with path.open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    if kind is not None and f'"kind": "{kind}"' not in line:
                        continue
                    try:
                        event = json.loads(line)
                    except ValueError:
                        continue  # cut short by a kill or a full disk
                    if isinstance(event, dict) and kind in (None, event.get("kind")):
                        yield event


_LOCK_OFFSET = 1 << 30  # a byte beyond the end: Windows blocks reading of locked bytes


_LOCKS_OF_PROCESS: set["Lock"] = set()  # held by this process


class Lock:
    """The exclusive lock of a store's folder, held for a `with` block."""

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
            _lock_file(handle)
        except (BlockingIOError, PermissionError):
            holder = _describe_holder(os.read(handle, 1000))
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
        # Process and host for the error message of a second run; may be stale, only the lock counts.
        who = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
        os.truncate(self._path, 0)
        os.write(handle, who.encode())
        self._handle = handle
        _LOCKS_OF_PROCESS.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Close the lock file, which releases the lock unless a fork has it open."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            _LOCKS_OF_PROCESS.discard(self)


@contextmanager
def lock_for_reading(folder: Path) -> Iterator[None]:
    """Context manager: lock a folder while it is read; no lock in a read-only folder."""
    with ExitStack() as stack:
        lock = folder / "lock"
        if os.access(lock, os.W_OK):
            stack.enter_context(Lock(lock))
        yield


def _describe_holder(content: bytes) -> str:
    try:
        who = json.loads(content)
        return f" (process {int(who['pid'])} on {who['host']})"
    except (ValueError, KeyError, TypeError):
        return ""


if sys.platform == "win32":
    import msvcrt

    def _lock_file(handle: int) -> None:
        os.lseek(handle, _LOCK_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
else:
    import fcntl

    def _release_after_fork() -> None:
        """Release inherited locks in a forked child, which would hold them after its parent's end."""
        for lock in [*_LOCKS_OF_PROCESS]:
            lock.release()

    os.register_at_fork(after_in_child=_release_after_fork)

    def _lock_file(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


# A chunk that took at least this many seconds is synced to disk. A shorter one survives a kill too, but not a power
# cut in the next moments: it is then computed again. The commit of a window always syncs.
SYNC_AFTER_SECONDS = 10.0
_COMPARED_PACKAGES = ("torch", "transformers")  # packages whose versions change results


class Store(StoreReader):
    """The results of a run, opened for writing by `open_locked` or for reading by `open_existing`."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._was_complete = False
        self._covers = False  # whether this run completes the manifest
        self._shorter = False  # whether an earlier run had a higher limit
        self._last: int | None = None  # last committed window
        self._n_set_aside = 0  # number of files moved to damaged/
        self._has_lost_results = False  # whether committed results were among them

    @classmethod
    @contextmanager
    def open_locked(cls, out: str | Path) -> Iterator[Self]:
        """Context manager: create the folder if needed, lock it, and log how the run ended."""
        layout = Layout(out)
        check_usable(layout)
        with Lock(layout.lock):
            with explain_write_errors(layout.folder):
                for name in FOLDERS:
                    (layout.folder / name).mkdir(exist_ok=True)
            store = cls(layout)
            how = "done"
            try:
                yield store
            except BaseException as error:  # the journal logs every kind of end
                how = type(error).__name__
                raise
            finally:
                if store._manifest is not None:  # else `begin` was not reached: no run to log
                    with suppress(CannotWrite):  # a full disk was already reported
                        store.log_event("end", {"how": how})

    def begin(self, plan: Plan, identity: Identity, data: Mapping[str, Any]) -> None:
        """Write the manifest of this run; BadStore if the folder has another model, data, sample or seed."""
        self.remove_temporary_files()
        requested = build_manifest(plan, identity, data)
        stored = self.recover_manifest()
        if stored is not None:
            check_compatible(stored, requested, str(self.folder))
            self._compare_code(stored["code"], identity.code)
            self._compare_versions(identity.software)
        merged = requested if stored is None else merge_manifests(stored, requested)
        self._covers = covers_plan(requested, merged)
        self._shorter = requested["plan"]["limit"] != merged["plan"]["limit"]
        self._was_complete = stored is not None and stored["state"] == "complete"
        if stored is not None and self._was_complete and has_same_plan(merged, stored):
            self._manifest = stored  # complete and unchanged: keep the file as it is
        else:
            self.write_manifest(merged)
        self.log_event("begin", {"software": dict(identity.software), "manifest": self.manifest})

    def find_results(self, window: int | Window) -> WindowResults:
        """Return the keys of a window's intact results; damaged files are set aside.

        Given the window itself, not only its number, results of other data are refused.
        """
        number = window if isinstance(window, int) else window.number
        files = self.repair_window(number)
        if isinstance(window, Window):
            self._check_data(files, window)
        return WindowResults(table for name in TABLES for table in files.iterate_key_tables(name))

    def add_result(self, result: TaskResult) -> None:
        """Write the result of a task as a pending chunk of its window."""
        self._mark_running()
        path = self.layout.pending(result.window, result.chunk)
        own = [encode_records(result.records)] if result.records else []
        self.write_chunk(path, *result.packed, *own, lasting=result.seconds >= SYNC_AFTER_SECONDS)
        facts = {"window": result.window, "chunk": result.chunk, "seconds": result.seconds}
        more = {"examples": result.counts.examples, "costs": result.costs, "worker": result.worker}
        self.log_event("task", {**facts, **more, "memory": result.memory})

    def commit_window(self, window: Window) -> None:
        """Merge a window's pending chunks into its tables and commit them; idempotent."""
        before = self._n_set_aside
        files = self.repair_window(window.number)
        self._has_lost_results = self._has_lost_results or self._n_set_aside > before
        self._last = max(window.number, -1 if self._last is None else self._last)
        gold = (self.manifest["data"].get("labels") or {}).get("names")
        now = CurrentData(window, self.manifest["settings"], self._shorter, gold)
        bounds = describe_window(window)
        if self._shorter and files.index is not None:
            bounds = widen_bounds(bounds, files.index, now.end)
        if files.is_whole and is_window_up_to_date(files, bounds, now):
            return
        self._mark_running()
        tables = {
            name: now.keep_current(name, merge_rows(name, list(files.tables(name))))
            for name in TABLES
        }
        self.write_window_tables(files, bounds, tables)

    def write_window_tables(
        self, files: WindowFiles, bounds: Mapping[str, Any], tables: Mapping[str, Any]
    ) -> None:
        """Commit tables as a window's, and log it."""
        with explain_write_errors(self.folder):
            write_window(self.layout, files, bounds, tables)
        self.log_event("commit", {"window": bounds["window"]})

    def finish(self) -> None:
        """Set the final state and totals; remove windows after the end of the data."""
        if self._last is not None and not self._shorter:
            self._remove_windows_after(self._last)
        self.update_state((self._covers or self._was_complete) and not self._has_lost_results)
        self.log_event("finish", {"state": self.manifest["state"]})

    def log_event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Append an event to the journal, with the time."""
        with explain_write_errors(self.folder):
            self._journal.add(kind, facts)

    def add_audit(self, name: str, result: Mapping[str, Any]) -> None:
        """Write the result of an audit experiment."""
        self._mark_running()
        path = self.folder / "audits" / f"{name}.json"
        write_store_file(
            self.folder, path, encode_with_checksum({"experiment": name, "found": result})
        )

    # Also used by `repair_store` and `merge_stores`.

    def write_chunk(self, path: Path, *packed: bytes, lasting: bool = True) -> None:
        """Write a pending chunk, appended to the rows of an earlier run with another plan."""
        if (old := read_bytes_if_present(path)) is not None:
            try:
                packed = (merge_chunk_files([old]), *packed)
            except ValueError as error:
                self._set_aside(path, str(error))
        whole = packed[0] if len(packed) == 1 else merge_chunk_files(packed)
        write_store_file(self.folder, path, whole, lasting=lasting)

    def remove_temporary_files(self) -> list[Path]:
        """Remove the temporary files that a killed run left, and return their paths."""
        left = list(self.layout.iterate_temporary_files())
        with explain_write_errors(self.folder):
            remove_files(left)
        return left

    def recover_manifest(self) -> Manifest | None:
        """Return the manifest; if it is lost or damaged, the one in the journal, or None."""
        raw = read_bytes_if_present(self.layout.manifest)
        if raw is not None:
            try:
                return read_manifest(raw, str(self.folder))
            except ValueError as error:
                own = b"whence run" in raw or any(self.layout.windows(name) for name in TABLES)
                if not own:
                    raise BadStore(
                        f"{str(self.layout.manifest)!r} is not of a run. Give another folder."
                    ) from None
                self._set_aside(self.layout.manifest, str(error))
        return recover_manifest(self._find_last_begin())

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest."""
        write_store_file(self.folder, self.layout.manifest, encode_with_checksum(manifest))
        self._manifest = manifest

    def repair_window(self, window: int, thorough: bool = False) -> WindowFiles:
        """Return a window's files; damaged ones are set aside, a nearly finished commit is finished."""
        files = read_window_files(self.layout, window, thorough)
        for path, why in files.damage:
            self._set_aside(path, why)
        with explain_write_errors(self.folder):
            if files.coming is not None and files.has_finished_commit(files.coming):
                finish_commit(self.layout, window, files.coming)
                files.index, files.coming = files.coming, None
            elif files.damage and files.index is not None and files.coming is None:
                left = {
                    name: facts
                    for name, facts in files.index["tables"].items()
                    if name in files.parts
                }
                files.index = {**files.index, "tables": left}
                write_store_file(
                    self.folder, self.layout.index(window), encode_with_checksum(files.index)
                )
        files.damage.clear()
        return files

    def update_state(self, complete: bool) -> None:
        """Write the state to the manifest: complete with totals, or running."""
        complete = complete and not self.list_incomplete_windows()
        totals = sum_totals(self.indices()) if complete else None
        self.write_manifest(
            {**self.manifest, "state": "complete" if complete else "running", "totals": totals}
        )

    def _remove_windows_after(self, last: int) -> None:
        """Remove the windows after the last: the data has become shorter."""
        with explain_write_errors(self.folder):
            behind = [
                path for path in self.layout.chunks() if self.layout.parse_numbers(path)[0] > last
            ]
            for window in (number for number in self.layout.windows() if number > last):
                behind += [self.layout.index(window), self.layout.next_index(window)]
                behind += [self.layout.part(name, window) for name in TABLES]
            remove_files(behind)

    def _check_data(self, files: WindowFiles, window: Window) -> None:
        """Raise BadStore if no stored row belongs to the current data: all of them would be lost."""
        now = CurrentData(window, self.manifest["settings"], self._shorter)
        if files.index is not None and window.items and not has_current_row(files, now):
            raise BadStore(
                f"{str(self.folder)!r} holds results of other data: in rows {files.index['first']} to "
                f"{files.index['last']} of {self.manifest['data'].get('name')!r} no example is what it was. Give "
                "another folder."
            )

    def _mark_running(self) -> None:
        if self.manifest["state"] != "running":
            self.write_manifest({**self.manifest, "state": "running", "totals": None})

    def _compare_code(self, old: str, new: str) -> None:
        if old != new:
            warnings.warn(
                f"The code that computes has changed since {str(self.folder)!r} was last written to: all that is "
                "asked for is computed again, and what was there of it counts no more.",
                stacklevel=3,
            )

    def _compare_versions(self, software: Mapping[str, str]) -> None:
        old = self._find_last_begin().get("software", {})
        for name in _COMPARED_PACKAGES:
            if name in old and name in software and old[name] != software[name]:
                warnings.warn(
                    f"The results in {str(self.folder)!r} were computed with {name} {old[name]}, and the rest will "
                    f"be with {software[name]}: they may differ by more than rounding.",
                    stacklevel=3,
                )

    def _find_last_begin(self) -> dict[str, Any]:
        """Return the last "begin" event of the journal; empty without one."""
        last = deque(self.events("begin"), maxlen=1)
        return last[0] if last else {}

    def _set_aside(self, path: Path, why: str) -> None:
        """Move a damaged file to damaged/, and log the reason."""
        name = "-".join(path.relative_to(self.folder).parts)
        aside = self.folder / "damaged"
        number = 1 + sum(file.name.startswith(f"{name}.") for file in aside.iterdir())
        with explain_write_errors(self.folder), suppress(FileNotFoundError):
            path.replace(aside / f"{name}.{number}")
        self.log_event("damaged", {"file": str(path.relative_to(self.folder)), "why": why})
        self._n_set_aside += 1
        if self._manifest is not None:
            self._mark_running()


def check_usable(layout: Layout) -> None:
    """Create the folder; raise if it is a file, or holds other files and no run."""
    folder = layout.folder
    if folder.exists() and not folder.is_dir():
        raise CannotWrite(f"{str(folder)!r} is a file. Give the name of a folder.")
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    strange = sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in (*FOLDERS, "lock", "manifest.json") and not path.name.startswith(".")
    )
    if strange and not layout.is_used:
        raise BadStore(
            f"{str(folder)!r} holds something else ({', '.join(strange[:3])}), and no run. Give an empty folder, or "
            "the name of a new one."
        )


def merge_stores(into: str | Path, sources: Sequence[str | Path]) -> Store:
    """Merge the results of other folders into one, created if needed; the others stay unchanged."""
    others = [StoreReader.open_existing(source) for source in sources]
    for other in others:
        if other.folder.resolve() == Path(into).resolve():
            raise BadStore(f"{str(into)!r} cannot be merged into itself. Give other folders.")
        check_compatible(others[0].manifest, other.manifest, str(others[0].folder))
    with ExitStack() as stack:
        for other in others:
            stack.enter_context(lock_for_reading(other.folder))
        store = stack.enter_context(Store.open_locked(into))
        store.remove_temporary_files()
        stored, combined = store.recover_manifest(), others[0].manifest
        for other in others[1:]:
            combined = merge_manifests(combined, other.manifest)
        if stored is not None:
            check_compatible(stored, combined, str(store.folder))
        known = combined if stored is None else merge_manifests(stored, combined)
        # An incomplete target may be a killed merge: the sources complete it if they cover its plan.
        whole = all(other.manifest["state"] == "complete" for other in others) and (
            stored is None or stored["state"] == "complete" or covers_plan(combined, known)
        )
        store.write_manifest({**known, "state": "running", "totals": None})
        for window in sorted({window for one in others for window in list_all_windows(one.layout)}):
            _merge_window(store, others, window)
        for other in others:
            _merge_audits_and_journal(store, other)
        tested_alike = len({frozenset(tested) for tested in known["tested"].values()}) <= 1
        store.update_state(whole and tested_alike)
        store.log_event("merge", {"from": [other.folder.name for other in others]})
    return store


def _merge_window(store: Store, others: Sequence[StoreReader], window: int) -> None:
    """Merge the committed rows of a window; pending chunks are copied, for the next run."""
    own = store.repair_window(window)
    committed = WindowFiles(index=own.index, parts=own.parts)
    parts = [committed]
    for other in others:
        files = read_window_files(other.layout, window, thorough=True)
        if files.damage or files.coming is not None:
            path, why = (
                files.damage[0] if files.damage else (other.layout.next_index(window), "unfinished")
            )
            raise BadStore(
                f"{str(path)!r} is damaged: {why}. First make it whole: `whence store repair {quote_path(other.folder)}`."
            )
        for path, _ in files.chunks:
            store.write_chunk(store.folder / "pending" / path.name, path.read_bytes())
        parts.append(files)
    bounds = [files.index for files in parts if files.index is not None]
    if bounds:
        widest = bounds[0]
        for more in bounds[1:]:
            widest = widen_bounds(widest, more)
        tables = {
            name: merge_rows(
                name, [read_parquet(files.parts[name]) for files in parts if name in files.parts]
            )
            for name in TABLES
        }
        store.write_window_tables(committed, widest, tables)


def _merge_audits_and_journal(store: Store, other: StoreReader) -> None:
    """Copy audits that are missing or failed here, and the journal's task events (costs)."""
    stored = store.audits()
    for name, result in other.audits().items():
        if name not in stored or (stored[name].get("error") and not result.get("error")):
            store.add_audit(name, result)
    known = {(event["at"], event["window"], event["chunk"]) for event in store.events("task")}
    for event in other.events("task"):
        if (event["at"], event["window"], event["chunk"]) not in known:
            store.log_event("task", event)


_CHECKSUM_LINE = b"\nsha256 %s\n"
_CHECKSUM_LENGTH = len(_CHECKSUM_LINE % (b"0" * 64))
_LZ4_OPTIONS = pa.ipc.IpcWriteOptions(
    compression="lz4"
)  # rows of one example's methods are mostly equal


def encode_records(records: Sequence[Record]) -> bytes:
    """Return records as Arrow streams with a checksum, lossless; ValueError if one fits no table."""
    sink = pa.BufferOutputStream()
    for name in SCHEMAS:
        table = _build_table(name, records)
        if table.num_rows:
            with pa.ipc.new_stream(sink, table.schema, options=_LZ4_OPTIONS) as stream:
                stream.write_table(table)
    return append_checksum(sink.getvalue().to_pybytes())


def append_checksum(body: bytes) -> bytes:
    """Return the bytes followed by their checksum line."""
    return body + _CHECKSUM_LINE % sha256(body).hexdigest().encode()


def merge_chunk_files(files: Iterable[bytes]) -> bytes:
    """Return the content of several chunk files as one; ValueError if a checksum is wrong."""
    return append_checksum(b"".join(map(_strip_checksum, files)))


def decode_tables(raw: bytes) -> dict[str, pa.Table]:
    """Return the tables of a chunk file; ValueError if it is cut short or changed."""
    tables: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    stream = pa.BufferReader(_strip_checksum(raw))
    try:
        while stream.tell() < stream.size():
            table = pa.ipc.open_stream(stream).read_all()
            table.validate(full=True)
            tables[_find_table_name(table.schema)].append(table)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no Arrow stream ({error})") from None
    return {name: concatenate_tables(name, parts) for name, parts in tables.items()}


def _strip_checksum(raw: bytes) -> memoryview:
    body = memoryview(raw)[:-_CHECKSUM_LENGTH]
    if raw[-_CHECKSUM_LENGTH:] != _CHECKSUM_LINE % sha256(body).hexdigest().encode():
        raise ValueError("its checksum does not fit")
    return body


def _find_table_name(schema: pa.Schema) -> str:
    """Return the name of the table with this schema, of version 1 or 2."""
    for name in SCHEMAS:
        if any(
            schema.equals(one[name], check_metadata=True) for one in (SCHEMAS, VERSION_1_SCHEMAS)
        ):
            return name
    raise ValueError("its columns are not those of this version")


def _build_table(name: str, records: Sequence[Record]) -> pa.Table:
    try:
        return build_table_from_records(name, records)
    except UnicodeEncodeError:  # half a surrogate pair has no UTF-8 form: replaced by "?"
        plain = json.dumps(records, ensure_ascii=False).encode("utf-8", "replace")
        return build_table_from_records(name, json.loads(plain))


class Problem(NamedTuple):
    """A fault of a store: file and description."""

    where: str
    what: str


def verify_store(folder: str | Path) -> Iterator[Problem]:
    """Yield the problems of a store, under its lock; BadStore if the folder holds none."""
    layout = Layout(folder)
    check_is_store(layout)
    with lock_for_reading(layout.folder):
        yield from find_problems(layout)


def find_problems(layout: Layout) -> Iterator[Problem]:
    """Yield the problems of a store; the caller holds the lock."""
    store = None
    try:
        store = StoreReader.open_existing(layout.folder)
    except BadStore as error:
        yield Problem("manifest.json", str(error))
    settings = None if store is None else store.manifest["settings"]
    for setting, facts in (settings or {}).items():
        if compute_setting_digest(facts) != setting:
            yield Problem("manifest.json", f"the setting {setting} stands for something else")
    yield from _find_leftovers(layout)
    last = -1
    for window in list_all_windows(layout):
        files = read_window_files(layout, window, thorough=True)
        yield from (Problem(_relative_name(layout, path), why) for path, why in files.damage)
        if _is_orphan(layout, window):
            yield Problem(_relative_name(layout, layout.index(window)), "it is missing")
        if files.coming is not None:
            yield Problem(
                _relative_name(layout, layout.next_index(window)), "a commit was interrupted"
            )
        if files.index is not None:
            if files.index["first"] is not None and files.index["first"] <= last:
                yield Problem(
                    _relative_name(layout, layout.index(window)),
                    "another window has these rows, too",
                )
            last = max(last, -1 if files.index["last"] is None else files.index["last"])
        for name in files.parts:
            for what in _check_table(files, name, settings):
                yield Problem(_relative_name(layout, layout.part(name, window)), what)
        for path, tables in files.chunks:
            for name in TABLES:
                for what in _check_keys(name, tables[name], settings):
                    yield Problem(_relative_name(layout, path), what)
    if store is not None:
        yield from _check_totals(store)


def _check_totals(store: StoreReader) -> Iterator[Problem]:
    """Yield problems of a complete store: wrong totals, missing results, leftover chunks."""
    if store.manifest["state"] != "complete":
        return
    if store.manifest["totals"] != sum_totals(store.indices()):
        yield Problem("manifest.json", "its totals are not what the index adds up to")
    for window in store.list_incomplete_windows():
        yield Problem(
            _relative_name(store.layout, store.layout.index(window)), "results are missing"
        )
    for path in store.layout.chunks():
        yield Problem(
            _relative_name(store.layout, path), "it was left over: its window is complete"
        )


def _find_leftovers(layout: Layout) -> Iterator[Problem]:
    """Yield temporary files, foreign Parquet files in the tables' folders, and damaged audits."""
    for path in layout.iterate_temporary_files():
        yield Problem(_relative_name(layout, path), "it was being written when a run was killed")
    for name in TABLES:
        own = set(layout.iterate_own_files(name))
        for path in sorted((layout.folder / name).glob("*.parquet")):
            if path not in own:
                yield Problem(
                    _relative_name(layout, path), "it is not of this store; move it elsewhere"
                )
    for path in layout.iterate_own_files("audits"):
        try:
            decode_with_checksum(read_bytes_if_present(path) or b"")
        except ValueError as error:
            yield Problem(_relative_name(layout, path), str(error))


def _check_table(files: WindowFiles, name: str, settings: Any) -> Iterator[str]:
    """Yield faults of the rows in a file whose checksum fits: index facts, order, keys."""
    raw = files.parts[name]
    table = read_parquet(raw)
    actual = describe_table(table, raw)
    commits = [one["tables"].get(name) for one in (files.index, files.coming) if one is not None]
    if actual not in commits:
        yield "its rows are not what the index says"
    placed = list(zip(*(table[column].to_pylist() for column in SORT_COLUMNS[name]), strict=True))
    if placed != sorted(placed):
        yield "its rows are not sorted"
    yield from _check_keys(name, table, settings)


def _check_keys(name: str, table: pa.Table, settings: Any) -> Iterator[str]:
    """Yield faults of the keys in a table: duplicates, unknown settings, wrong keys."""
    known = zip(table["row"].to_pylist(), table["key"].to_pylist(), strict=True)
    if twice := sum(number > 1 for number in Counter(known).values()):
        yield f"{twice:,} results are there more than once"
    if settings is None:
        return
    if strange := sorted(set(table["setting"].to_pylist()) - set(settings)):
        yield f"the manifest does not say what the setting {', '.join(strange)} stands for"
    if wrong := sum(
        1
        for row in _iterate_checkable_rows(name, table, settings)
        if row["key"] != _recompute_key(row, settings)
    ):
        yield f"{wrong:,} rows have a key that is not theirs"


def _iterate_checkable_rows(name: str, table: pa.Table, settings: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows whose keys can be recomputed: not explanations of pictures (no pixels kept)."""
    named = [
        "key",
        "setting",
        "example",
        *(("text", "pair", "label") if name == "explanations" else ()),
    ]
    for row in table.select(named).to_pylist():
        facts = settings.get(row["setting"])
        if facts is not None and (
            facts.get("example", "all") == "all" or row.get("text") is not None
        ):
            yield row


def _recompute_key(row: dict[str, Any], settings: Any) -> str:
    part = settings[row["setting"]].get("example", "all")
    if part == "all":
        return compute_result_key(row["setting"], row["example"])
    text, pair = row["text"], row["pair"]
    input_id = compute_input_id(Example(text if pair is None else (text, pair)))
    return compute_result_key(
        row["setting"], input_id if part == "given" else hash_json([input_id, row["label"]])
    )


def _is_orphan(layout: Layout, window: int) -> bool:
    """Return whether a window has tables but no index."""
    has_index = layout.index(window).exists() or layout.next_index(window).exists()
    return not has_index and any(layout.part(name, window).exists() for name in TABLES)


def list_all_windows(layout: Layout) -> list[int]:
    """Return the numbers of all windows with any file."""
    folders = ("index", *TABLES)
    chunks = {layout.parse_numbers(path)[0] for path in layout.chunks()}
    return sorted(chunks.union(*(layout.windows(name) for name in folders)))


def _relative_name(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.folder).as_posix()


def repair_store(folder: str | Path) -> list[Problem]:
    """Repair a store, and return the action taken on each file."""
    check_is_store(Layout(folder))
    with Store.open_locked(folder) as store:
        before = len(store.list_damage())
        actions = [
            Problem(
                path.relative_to(store.folder).as_posix(), "removed: a run was killed writing it"
            )
            for path in store.remove_temporary_files()
        ]
        known = store.recover_manifest()
        if known is None:
            actions.append(
                Problem("manifest.json", "lost: the same `whence run` as before makes it again")
            )
        else:
            store.write_manifest(known)
        for window in list_all_windows(store.layout):
            files = store.repair_window(window, thorough=True)
            if known is not None and known["state"] == "complete" and files.index and files.chunks:
                tables = {name: merge_rows(name, list(files.tables(name))) for name in TABLES}
                store.write_window_tables(files, files.index, tables)
        store.audits()
        aside = store.list_damage()[before:]
        if known is not None:
            store.update_state(known["state"] == "complete" and not aside)
    return [*actions, *(Problem(event["file"], f"set aside: {event['why']}") for event in aside)]


KEY_COLUMNS = (
    "row",
    "key",
    "setting",
    "error",
)  # columns that identify a result, and whether it failed
ROW_GROUP_SIZE = 4096  # rows in a Parquet row group, the least that can be read


def build_table_from_records(name: str, records: Iterable[Record]) -> pa.Table:
    """Return the records of one table as an Arrow table; ValueError if one does not fit."""
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


def merge_rows(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return rows sorted and without duplicates: the first success, or else the last failure."""
    # One chunk: `take` is slow over several, and Parquet ends a page at each chunk's end.
    table = concatenate_tables(name, parts).combine_chunks()
    known = list(zip(table["row"].to_pylist(), table["key"].to_pylist(), strict=True))
    if len(set(known)) < len(known):
        table = table.take(pa.array(_select_unique(known, table["error"].is_valid().to_pylist())))
    order = [(column, "ascending") for column in SORT_COLUMNS[name]]
    return table.take(pc.sort_indices(table.select(SORT_COLUMNS[name]), sort_keys=order))


def concatenate_tables(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return tables concatenated; columns missing in version 1 are null."""
    own = [add_missing_columns(part, SCHEMAS[name].names) for part in parts]
    return pa.concat_tables([SCHEMAS[name].empty_table(), *own])


def _select_unique(keys: Sequence[tuple[int, str]], failed: Sequence[bool]) -> list[int]:
    """Return one index per result: its first success, or else its last failure."""
    chosen: dict[tuple[int, str], int] = {}
    for place, key in enumerate(keys):
        if key not in chosen or failed[chosen[key]]:
            chosen[key] = place
    return list(chosen.values())


def encode_parquet(name: str, table: pa.Table) -> bytes:
    """Return a table as Parquet bytes, which depend on neither time nor machine."""
    sink = pa.BufferOutputStream()
    with open_parquet_writer(name, sink) as file:
        file.write_table(table, row_group_size=ROW_GROUP_SIZE)
    return bytes(sink.getvalue())


def open_parquet_writer(name: str, sink: Any) -> pq.ParquetWriter:
    """Return a Parquet writer for a table, with the options used throughout the store."""
    repeated = [
        column.name
        for column in COLUMNS[name]
        if column.type == pa.string() and column.name not in ("key", "id")
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


def check_parquet(name: str, raw: bytes) -> None:
    """Raise ValueError if the bytes are no Parquet file with the table's schema."""
    try:
        with pq.ParquetFile(pa.BufferReader(raw)) as file:
            schema = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no Parquet file ({_shorten_error(error)})") from None
    if not any(
        schema.equals(one[name], check_metadata=True) for one in (SCHEMAS, VERSION_1_SCHEMAS)
    ):
        raise ValueError("its columns are not those of this version")


def read_parquet(raw: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table in Parquet bytes, or some of its columns; ValueError if damaged."""
    try:
        with pq.ParquetFile(pa.BufferReader(raw), page_checksum_verification=True) as file:
            table = file.read(columns=None if columns is None else list(columns))
            return table if columns is None else add_missing_columns(table, columns)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no whole Parquet file ({_shorten_error(error)})") from None


def _shorten_error(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def iterate_parquet_batches(name: str, file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table's Parquet file, `size` at a time."""
    with pq.ParquetFile(file, page_checksum_verification=True) as opened:
        for batch in opened.iter_batches(batch_size=size):
            table = add_missing_columns(pa.Table.from_batches([batch]), SCHEMAS[name].names)
            yield from table.cast(SCHEMAS[name]).to_batches()


def add_missing_columns(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return a table with the version 2 columns added as null where they are missing."""
    missing = [one for one in VERSION_2_COLUMNS if one in columns and one not in table.schema.names]
    for column in missing:
        field = SCHEMAS["explanations"].field(column)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(list(dict.fromkeys(columns))) if missing else table


VERSION = 2
VERSION_2_COLUMNS = ("gold", "right")


class Column(NamedTuple):
    """A column of a table: name, type, nullability and meaning."""

    name: str
    type: pa.DataType
    nullable: bool
    meaning: str


_STRING_TYPE, _INTEGER_TYPE = pa.string(), pa.int32()


def _list_type(of: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", of))  # the element name of Parquet


_AXIOM_TYPE = pa.struct([pa.field("axiom", _STRING_TYPE), pa.field("residual", pa.float64())])

COLUMNS: dict[str, tuple[Column, ...]] = {
    "explanations": (
        Column("key", _STRING_TYPE, False, "the hash of everything that determines this result"),
        Column("setting", _STRING_TYPE, False, "all of it but the example; the manifest says what"),
        Column("row", pa.int64(), False, "the example's place in the data, counted from 0"),
        Column(
            "example", _STRING_TYPE, False, "the hash of the example: text or picture, label, marks"
        ),
        Column("id", _STRING_TYPE, False, "the example's own name, or what its place is called"),
        Column("label", _STRING_TYPE, True, "its true label, where the data has one"),
        Column("text", _STRING_TYPE, True, "its text; null of a picture"),
        Column("pair", _STRING_TYPE, True, "its second text, where there are two"),
        Column("method", _STRING_TYPE, False, "what explained it"),
        Column(
            "gold", _STRING_TYPE, True, "its true label as the model calls it; null: not one of its"
        ),
        Column("right", pa.bool_(), True, "whether the model predicts that; null: nobody can say"),
        Column("target", _STRING_TYPE, True, "the class that is explained"),
        Column("predicted", _STRING_TYPE, True, "the class that the model predicts"),
        Column("probability", pa.float64(), True, "what the model gives that class"),
        Column(
            "tokens", _list_type(_STRING_TYPE), True, "what has a score: tokens, or patches by name"
        ),
        Column("special", _list_type(pa.bool_()), True, "whether a token is the model's own"),
        Column(
            "starts",
            _list_type(_INTEGER_TYPE),
            True,
            "where a token begins in its text; null: nowhere",
        ),
        Column(
            "ends", _list_type(_INTEGER_TYPE), True, "where it ends, one character behind the last"
        ),
        Column("segments", _list_type(pa.int8()), True, "of which text it is: 0, or 1 of a pair"),
        Column("ids", _list_type(pa.int64()), True, "its number in the model's vocabulary"),
        Column(
            "words",
            _list_type(_INTEGER_TYPE),
            True,
            "its word's number; -1: in none; null: never removed",
        ),
        Column("scores", _list_type(pa.float64()), True, "the explanation, a score for each token"),
        Column(
            "axioms",
            _list_type(_AXIOM_TYPE),
            True,
            "how far a law is missed that scores should obey",
        ),
        Column("forward", _INTEGER_TYPE, True, "forward passes that this took"),
        Column("backward", _INTEGER_TYPE, True, "backward passes"),
        Column(
            "dropped", _INTEGER_TYPE, True, "tokens that were cut off, because the text is too long"
        ),
        Column("refused", pa.bool_(), True, "whether the model cannot take the input at all"),
        Column("error", _STRING_TYPE, True, "of a failure: the code of its error; scores are null"),
        Column("why", _STRING_TYPE, True, "of a failure: a sentence"),
    ),
    "metrics": (
        Column("key", _STRING_TYPE, False, "the hash of everything that determines this result"),
        Column("setting", _STRING_TYPE, False, "all of it but the example; the manifest says what"),
        Column("row", pa.int64(), False, "the example's place in the data, counted from 0"),
        Column(
            "example", _STRING_TYPE, False, "the hash of the example: text or picture, label, marks"
        ),
        Column("method", _STRING_TYPE, False, "whose explanation was tested"),
        Column("metric", _STRING_TYPE, False, "what tested it"),
        Column("value", pa.float64(), True, "what it measured"),
        Column("null", pa.float64(), True, "the same of random rankings, their mean"),
        Column(
            "part_names",
            _list_type(_STRING_TYPE),
            True,
            "what a value is made of, where it has parts",
        ),
        Column("parts", _list_type(pa.float64()), True, "the parts of the value, in this order"),
        Column(
            "null_parts", _list_type(pa.float64()), True, "those of each random ranking in turn"
        ),
        Column("error", _STRING_TYPE, True, "why there is no value: the code of an error"),
        Column("why", _STRING_TYPE, True, "why there is no value: a sentence"),
    ),
}

# Sort keys of the rows in a file.
SORT_COLUMNS = {
    "explanations": ("row", "method", "setting"),
    "metrics": ("row", "method", "metric", "setting"),
}


def _build_schema(name: str, version: int = VERSION) -> pa.Schema:
    metadata = {"whence": f"store {name}", "version": str(version)}
    left_out = VERSION_2_COLUMNS if version < 2 else ()
    fields = [
        pa.field(column.name, column.type, nullable=column.nullable)
        for column in COLUMNS[name]
        if column.name not in left_out
    ]
    return pa.schema(fields, metadata=metadata)


SCHEMAS: dict[str, pa.Schema] = {name: _build_schema(name) for name in COLUMNS}
# Schemas of stores written by earlier versions of whence.
VERSION_1_SCHEMAS: dict[str, pa.Schema] = {name: _build_schema(name, 1) for name in COLUMNS}
TABLES: tuple[str, ...] = tuple(COLUMNS)


def encode_with_checksum(facts: Mapping[str, Any]) -> bytes:
    """Return data as JSON bytes that end with their checksum; equal data gives equal bytes."""
    plain = {name: value for name, value in facts.items() if name != "sha256"}
    body = _format_sorted_json(plain)
    # The checksum goes last, not in key order: "{...}" becomes "{..., sha256}".
    seal = json.dumps(sha256(body.encode()).hexdigest())
    head = body[: -len("\n}")]
    return f'{head}{"," if plain else ""}\n "sha256": {seal}\n}}\n'.encode()


def decode_with_checksum(raw: bytes) -> dict[str, Any]:
    """Return the data in checksummed JSON bytes; ValueError if they were changed."""
    try:
        facts = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(facts, dict) or encode_with_checksum(facts) != raw:
        raise ValueError("its checksum does not fit")
    del facts["sha256"]
    return facts


def _format_sorted_json(plain: Mapping[str, Any]) -> str:
    return json.dumps(plain, sort_keys=True, indent=1, ensure_ascii=True) if plain else "{\n}"
