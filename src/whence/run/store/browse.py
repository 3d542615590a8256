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
