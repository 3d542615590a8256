"""Store of a run: a folder of Parquet files, one for each table and chunk, with a manifest that says what they hold.

Format: docs/reference/store.md. A file is written under a temporary name, flushed and renamed, so a file that is
there is whole; chunks are deterministic, so a file that is there need not be made again. Nothing else says what is
done: a kill at any moment, a full disk or a torn file costs the chunks at hand. The manifest has no times and no
hosts; these stand in the log, and no result depends on the log.
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
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from filelock import FileLock, Timeout

from whence.core.errors import BadParameter, BadStore, CannotWrite, StoreInUse
from whence.core.files import (
    check_writable,
    format_public_address,
    format_public_name,
    open_atomic,
    replace_file,
)
from whence.data.dataset import compute_input_id, hash_json
from whence.data.example import Example
from whence.render.text import escape_formula
from whence.runs.chunks import Window
from whence.runs.plan import Plan
from whence.runs.records import (
    ROW_GROUP_SIZE,
    SCHEMAS,
    SORT_COLUMNS,
    TABLES,
    UNREADABLE,
    VERSION,
    Record,
    encode_parquet,
    explain_damage,
    merge_rows,
    open_parquet_writer,
    read_sound_table,
    read_table,
    select_unique,
)
from whence.runs.task import (
    Identity,
    TaskResult,
    compute_example_key,
    compute_result_key,
    compute_setting_digest,
    to_json_data,
)

# The manifest.

FORMAT = "whence run"
Manifest = dict[str, Any]
# Fields of settings that must be equal in a folder, since its methods are compared in one table.
_SHARED_SETTINGS = {
    "explanation": ("target", "truncate", "dtype"),
    "test": ("remove", "mlm", "unit", "rankings"),
}


def build_manifest(plan: Plan, identity: Identity, data: Mapping[str, Any]) -> Manifest:
    """Return the manifest of a run; files by name, not path: it must be equal on every machine."""
    fields = {name: value for name, value in vars(plan).items() if name != "shard"}
    fields |= {"model": format_public_name(plan.model), "data": format_public_address(plan.data)}
    fields["mlm"] = None if plan.mlm is None else format_public_name(plan.mlm)
    fields["methods"] = list(identity.explained)
    fields["metrics"] = _merge_names(*identity.tested.values())
    manifest: Manifest = to_json_data(
        {
            "format": FORMAT,
            "version": VERSION,
            "plan": fields,
            "parts": None if plan.shard is None else [list(plan.shard)],
            "data": data,
            "model": identity.model,
            "code": identity.code,
            "settings": identity.settings,
            "explained": identity.explained,
            "tested": identity.tested,
            "state": "running",
            "totals": None,
        }
    )
    return manifest


def read_manifest(raw: bytes, where: str) -> Manifest:
    """Return a manifest from its bytes; ValueError if damaged, BadStore if of another version."""
    manifest = decode_json(raw)
    if manifest.get("format") != FORMAT:
        raise ValueError("it is not of a run")
    version = manifest.get("version", 0)
    if version == VERSION:
        return manifest
    older = version < VERSION
    advice = (
        "Give a new folder (--out), or take the tables out with the version that wrote it: `whence store export`."
        if older
        else "Update whence."
    )
    raise BadStore(
        f"{where!r} was written by {'an older' if older else 'a newer'} whence: its format is {version}, and this one "
        f"reads format {VERSION}. {advice}"
    )


def check_compatible(old: Manifest, new: Manifest, where: str) -> None:
    """Raise BadStore if two manifests differ in model, data, sample, seed or a shared setting."""

    def compare(what: str, there: Mapping[str, Any], now: Mapping[str, Any], *names: str) -> None:
        sides = [{n: side[n] for n in names if side.get(n) is not None} for side in (there, now)]
        if sides[0] == sides[1]:
            return
        have, want = (", ".join(f"{n} {v!r}" for n, v in one.items()) or "none" for one in sides)
        raise BadStore(
            f"{where!r} holds results of another {what}: {have} there, {want} now. Give another folder, or ask for what is "
            "there."
        )

    if old["model"].get("fingerprint", "") != new["model"].get("fingerprint"):
        compare("model", old["model"], new["model"], "fingerprint", "name")
    compare("data set", old["data"], new["data"], "name", "kind")
    compare("choice of columns", old["data"], new["data"], "columns")
    for name in ("sample", "seed"):
        compare(name, old["plan"], new["plan"], name)
    for kind, shared in _SHARED_SETTINGS.items():
        there, now = (find_setting(side, kind) for side in (old, new))
        for name in shared if there and now else ():
            compare(name, there, now, name)


def find_setting(side: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the first current setting of a kind (explanation, test); empty without one."""
    known = (side["settings"].get(digest, {}) for digest in list_current_settings(side))
    return next((facts for facts in known if facts.get("kind") == kind), {})


def merge_manifests(old: Manifest, new: Manifest) -> Manifest:
    """Return the union of two manifests; `new` wins where both define a method or a metric."""
    plan = {**old["plan"], **new["plan"]}
    for names in ("methods", "metrics", "audit"):
        plan[names] = _merge_names(old["plan"][names], new["plan"][names])
    limits = (old["plan"]["limit"], new["plan"]["limit"])
    plan["limit"] = None if None in limits else max(limits)
    settings = {**old["settings"], **new["settings"]}
    explained = {**old["explained"], **new["explained"]}
    params = {
        metric: settings[digest].get("params")
        for own in new["tested"].values()
        for metric, digest in own.items()
    }
    tested: dict[str, dict[str, str]] = {}
    for method in explained:
        tested[method] = {}
        for metric, digest in old["tested"].get(method, {}).items():
            # An old test counts no more if its explanation is computed again, or the metric has other parameters now.
            facts = settings.get(digest, {})
            own = facts.get("params")
            same = facts.get("explanation", explained[method]) == explained[method]
            if same and own == params.get(metric, own):
                tested[method][metric] = digest
        tested[method] |= new["tested"].get(method, {})
    return {
        **new,
        "plan": plan,
        "parts": _merge_shards(old["parts"], new["parts"]),
        "settings": settings,
        "explained": explained,
        "tested": tested,
    }


def covers_plan(requested: Manifest, merged: Manifest) -> bool:
    """Return whether the run of `requested` completes all results that `merged` lists."""
    return all(
        requested[name] == merged[name] for name in ("parts", "explained", "tested")
    ) and all(requested["plan"][name] == merged["plan"][name] for name in ("limit", "audit"))


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
    of = Counter(of for of, _ in parts)
    return None if any(count == n for n, count in of.items()) else [[p, n] for n, p in parts]


def _merge_names(*lists: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for names in lists for name in names))


def encode_json(facts: Mapping[str, Any]) -> bytes:
    """Return data as JSON bytes with their checksum; equal data gives equal bytes."""
    body = json.dumps(facts, sort_keys=True)
    seal = {"sha256": sha256(body.encode()).hexdigest()}
    return f"{json.dumps({**facts, **seal}, sort_keys=True, indent=1)}\n".encode()


def decode_json(raw: bytes) -> dict[str, Any]:
    """Return the data in JSON bytes; ValueError if they were changed."""
    try:
        facts = json.loads(raw)
        plain = {name: value for name, value in facts.items() if name != "sha256"}
    except (RecursionError, AttributeError):
        raise ValueError("it is no JSON object of whence") from None
    if encode_json(plain) != raw:
        if facts.get("format") == FORMAT and facts.get("version", VERSION) < VERSION:
            return plain  # older versions sealed their files otherwise, and are refused by name
        raise ValueError("its checksum does not fit")
    return plain


# The lock.

_LACKS_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)  # of a disk


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Context manager: hold the lock of a store's folder; the system releases it when its holder ends."""
    folder = str(path.parent)

    def sign(handle: int) -> None:
        """Name the holder, for the error message of a second run; it may be stale, only the lock counts."""
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())

    lock = FileLock(
        path, blocking=False, fallback_to_soft=False, preserve_lock_file=True, on_acquired=sign
    )
    try:
        lock.acquire()
    except Timeout:
        raise StoreInUse(
            f"Another run is writing to {folder!r}{_describe_holder(path)}. Wait until it ends, or give another folder; "
            "results of two folders are brought together by `whence store merge`."
        ) from None
    except OSError as error:
        raise CannotWrite(
            f"The folder {folder!r} cannot be locked: {error.strerror}. Choose one on a disk that has locks."
            if error.errno in _LACKS_LOCKS
            else f"Cannot write to the folder {folder!r}: {error.strerror}. Choose a folder that you may write to."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _describe_holder(path: Path) -> str:
    try:
        who = json.loads(path.read_bytes())
        return f" (process {int(who['pid'])} on {who['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


# Reading.

_CHUNK_NAME = r"\d{6,}-\d{3,}\.parquet"
_FILE_NAMES = {
    "explanations": _CHUNK_NAME,
    "metrics": _CHUNK_NAME,
    UNREADABLE: r"\d{6,}\.parquet",
    "audits": r"[a-z0-9_]+\.json",
    ".": r"manifest\.json",
}
_TEMPORARY_NAME = r"\.%s\.[a-z0-9_]{8}"  # name of a file while whence.core.files writes it
_OWN_NAMES = (*_FILE_NAMES, "damaged", "lock", "manifest.json", "log.jsonl")


def list_files(folder: Path, name: str, pattern: str = "%s") -> list[Path]:
    """Return the store's own files in a subfolder, sorted by name; other files are somebody else's."""
    place = folder / name
    known = re.compile(pattern % _FILE_NAMES[name])
    return sorted(p for p in place.iterdir() if known.fullmatch(p.name)) if place.is_dir() else []


def is_store(folder: Path) -> bool:
    """Return whether a folder holds any file of a store."""
    return any(list_files(folder, name) for name in _FILE_NAMES)


def _no_store_error(folder: Path) -> BadStore:
    return BadStore(
        f"{str(folder)!r} holds no run. Give the folder that `whence run --out` wrote to."
    )


class StoreReader:
    """A store opened for reading. It changes nothing in the folder and takes no lock."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._manifest: Manifest | None = None

    @classmethod
    def open_existing(cls, folder: str | Path) -> Self:
        """Open a folder for reading; BadStore if it holds no store or lost its manifest."""
        store, where = cls(folder), str(folder)
        if not is_store(store.folder):
            raise _no_store_error(store.folder)
        again = "The same command as before makes it again."
        try:
            store._manifest = read_manifest(_read_bytes(store.folder / "manifest.json"), where)
        except FileNotFoundError:
            raise BadStore(f"The manifest of {where!r} is missing. {again}") from None
        except ValueError as error:
            raise BadStore(f"The manifest of {where!r} is damaged: {error}. {again}") from None
        return store

    @property
    def manifest(self) -> Manifest:
        """The manifest: plan, model, data, settings, and the state of the run."""
        assert self._manifest is not None, "begin() comes first"
        return self._manifest

    def files(self, name: str, window: int | None = None) -> list[Path]:
        """Return the files of a table, or of one window."""
        files = list_files(self.folder, name)
        return [path for path in files if window in (None, window_of(path))]

    def windows(self) -> list[int]:
        """Return the numbers of the windows that have any file."""
        return sorted({window_of(p) for name in (*TABLES, UNREADABLE) for p in self.files(name)})

    def table(self, name: str) -> ds.Dataset:
        """Return a table as a lazy dataset."""
        files = [str(path) for path in self.files(name)]
        if not files:
            return ds.dataset(SCHEMAS[name].empty_table())
        return ds.dataset(files, schema=SCHEMAS[name], format="parquet")

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        window: int | None = None,
        damage: dict[str, str] | None = None,
        rows: set[int] | None = None,
    ) -> pa.Table:
        """Return a table, of one window, of some rows of the data; damaged files are noted, or raise BadStore."""
        parts = [SCHEMAS[name].empty_table().select(columns or SCHEMAS[name].names)]
        for path in self.files(name, window):
            try:
                parts.append(read_table(path, name, columns, rows))
            except FileNotFoundError:
                continue  # a run is writing, and its last row went
            except ValueError as error:
                if damage is None:
                    raise _damage_error(path, str(error)) from None
                damage[_relative_name(path)] = str(error)
        return pa.concat_tables(parts)

    def read_current(
        self,
        name: str,
        columns: Iterable[str],
        damage: dict[str, str],
        *,
        window: int | None = None,
        rows: set[int] | None = None,
    ) -> pa.Table:
        """Return the rows of current settings, without those of earlier code or parameters, in the order of the data."""
        own = list(dict.fromkeys([*columns, *SORT_COLUMNS[name]]))
        table = self.read(name, own, window, damage, rows)
        known = pa.array(sorted(list_current_settings(self.manifest)), pa.string())
        table = table.filter(pc.is_in(table["setting"], value_set=known))
        return table.sort_by([(column, "ascending") for column in SORT_COLUMNS[name]])

    def iterate_windows(self, name: str) -> Iterator[pa.Table]:
        """Yield the rows of a table window by window, in order; BadStore if a file is damaged."""
        for window in sorted({window_of(path) for path in self.files(name)}):
            yield merge_rows(name, [self.read(name, window=window)])

    def list_bad_rows(self) -> list[dict[str, Any]]:
        """Return the unreadable rows of the data: row, where, why."""
        rows: list[dict[str, Any]] = self.read(UNREADABLE, damage={}).to_pylist()
        return rows

    def count_results(self) -> dict[str, int]:
        """Return the number of results by setting, failures included."""
        counts: Counter[str] = Counter()
        for name in TABLES:
            counts.update(self.read(name, ["setting"], damage={})["setting"].to_pylist())
        return dict(counts)

    def totals(self) -> dict[str, Any]:
        """Return the totals: windows, examples, unreadable rows, rows and failures by table."""
        if self._manifest is not None and self._manifest["totals"] is not None:
            return dict(self._manifest["totals"])
        totals: dict[str, Any] = {
            "windows": len(self.windows()),
            "examples": 0,
            "bad": len(self.list_bad_rows()),
        }
        for name in TABLES:
            rows = self.read(name, ["row", "error"], damage={})
            failed = rows.num_rows - rows["error"].null_count
            totals[name] = {"rows": rows.num_rows, "failed": failed}
            if name == "explanations":
                totals["examples"] = len(rows["row"].unique())
        return totals

    def audits(self) -> dict[str, Any]:
        """Return the results of the audit's experiments on attention, by name."""
        facts = {}
        for path in list_files(self.folder, "audits"):
            try:
                facts[path.stem] = decode_json(_read_bytes(path))["found"]
            except (ValueError, KeyError) as error:
                self._set_aside(path, str(error))
        return facts

    def events(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """Yield the events of some kinds in the log, oldest first."""
        with suppress(FileNotFoundError), (self.folder / "log.jsonl").open(errors="replace") as log:
            for line in log:
                with suppress(ValueError):  # cut short by a kill or a full disk
                    event = json.loads(line)
                    if isinstance(event, dict) and event.get("kind") in kinds:
                        yield event

    def sum_up_log(self) -> dict[str, Any]:
        """Return what the log last said of sessions: software, examples, rows; empty without any."""
        events = self.events("start")
        return {key: value for event in events for key, value in event.items() if value is not None}

    def _set_aside(self, path: Path, why: str) -> None:
        """Leave a damaged file in place: a reader changes nothing."""


def window_of(path: Path) -> int:
    """Return the number of a file's window."""
    return int(path.stem.partition("-")[0])


def _read_bytes(path: Path) -> bytes:
    with explain_damage(path, "it cannot be read"):
        return path.read_bytes()


def _relative_name(path: Path) -> str:
    return path.name if path.name == "manifest.json" else f"{path.parent.name}/{path.name}"


def _damage_error(path: Path, why: str) -> BadStore:
    return BadStore(
        f"{str(path)!r} is damaged: {why}. The same `whence run` as before computes it again."
    )


# Pages of rows, for the app.

PAGE_COLUMNS = (
    *("row", "id", "method", "text", "pair", "label", "gold", "target", "predicted", "probability"),
    *("error", "why", "setting"),
)  # fmt: skip


@dataclass(frozen=True)
class RowFilter:
    """A filter and sort order of explanation rows, for a page of a table."""

    method: str | None = None
    failed: bool | None = None
    search: str = ""  # substring of the text or its pair, in any case
    metric: str | None = None  # adds its value to each row
    falling: bool | None = None  # descending or ascending by that value; None: in data order


@dataclass(frozen=True)
class RowPage:
    """A page of rows, and the count of all rows that match the filter."""

    records: list[dict[str, Any]]
    found: int
    unread: list[str] = field(default_factory=list)  # files that could not be read, and why


def read_page(store: StoreReader, row_filter: RowFilter, first: int, most: int) -> RowPage:
    """Return at most `most` matching rows from number `first` on, and the count of all matches."""
    damage: dict[str, str] = {}
    columns = ["row", "method", "error", *(["text", "pair"] * bool(row_filter.search))]
    rows = store.read_current("explanations", columns, damage)
    if row_filter.method is not None:
        rows = rows.filter(pc.equal(rows["method"], row_filter.method))
    if row_filter.failed is not None:
        rows = rows.filter(pc.equal(pc.is_valid(rows["error"]), row_filter.failed))
    if row_filter.search:
        text, pair = (
            pc.fill_null(pc.match_substring(rows[name], row_filter.search, ignore_case=True), False)
            for name in ("text", "pair")
        )
        rows = rows.filter(pc.or_(text, pair))
    rows = rows.select(["row", "method"])
    if row_filter.metric is None:
        rows = rows.append_column("value", pa.nulls(rows.num_rows, pa.float64()))
    else:
        tests = store.read_current("metrics", ["metric", "value"], damage)
        own = tests.filter(pc.equal(tests["metric"], row_filter.metric))
        rows = rows.join(own.select(["row", "method", "value"]), ["row", "method"])
    order = [("row", "ascending"), ("method", "ascending")]
    if row_filter.falling is not None:  # NaN and null come last
        order = [("value", "descending" if row_filter.falling else "ascending"), *order]
    page = rows.take(pc.sort_indices(rows, order)).slice(first, most).to_pylist()
    found = store.read_current(
        "explanations", PAGE_COLUMNS, damage, rows={one["row"] for one in page}
    )
    records = {(record["row"], record["method"]): record for record in found.to_pylist()}
    shown = [{**records[key], "value": one["value"]} for one in page
             if (key := (one["row"], one["method"])) in records]  # fmt: skip
    unread = [
        f"{name} cannot be read: {why}. `whence store verify` says more."
        for name, why in damage.items()
    ]
    return RowPage(shown, rows.num_rows, unread)


def read_row(
    store: StoreReader, row: int, columns: Sequence[str] = PAGE_COLUMNS
) -> tuple[list[Record], list[Record]]:
    """Return the explanation rows and the metric rows of one example; BadStore if a damaged file may have it."""
    damage: dict[str, str] = {}
    explanations = store.read_current("explanations", columns, damage, rows={row}).to_pylist()
    for name, why in damage.items():
        if not explanations:
            raise _damage_error(store.folder / name, why)
    tests = store.read_current("metrics", ("value", "null", "why"), damage, rows={row})
    return explanations, tests.to_pylist()


# Writing.


class WindowResults:
    """The keys of a window's results, by row, and whether they failed."""

    def __init__(self, tables: Iterable[pa.Table] = ()) -> None:
        self._failed: dict[tuple[int, str], bool] = {}
        for table in tables:
            errors = table["error"].is_valid().to_pylist()
            keys = zip(table["row"].to_pylist(), table["key"].to_pylist(), strict=True)
            for key, error in zip(keys, errors, strict=True):
                self._failed[key] = error and self._failed.get(key, True)

    def needs_result(self, row: int, key: str, retry_failed: bool = False) -> bool:
        """Return whether a result must be computed: it is missing, or it failed and is retried."""
        return (row, key) not in self._failed or (retry_failed and self.has_failed(row, key))

    def has_failed(self, row: int, key: str) -> bool:
        """Return whether a failure is stored, and no result."""
        return self._failed.get((row, key), False)

    def __len__(self) -> int:
        return len(self._failed)


class OpenWindow:
    """A window's data as it is now: which stored rows still belong to it, with current ids and labels."""

    def __init__(self, window: Window, manifest: Manifest, has_further_rows: bool) -> None:
        self._items = {item.row: item for item in window.items}
        self._settings = manifest["settings"]
        # Rows after the last are kept if an earlier run had a higher limit.
        self.end = max(self._items, default=-1)
        self._has_further_rows = has_further_rows
        self.had_results = self.gained_results = False
        items = self._items.values()
        # Label of the data -> label of the model.
        gold = (manifest["data"].get("labels") or {}).get("names", {})
        self._rows = pa.array(self._items, pa.int64())
        self._names = {
            "example": pa.array([item.digest for item in items], pa.string()),
            "id": pa.array([item.id for item in items], pa.string()),
            "label": pa.array([item.example.label for item in items], pa.string()),
            "gold": pa.array([gold.get(item.example.label or "") for item in items], pa.string()),
        }

    def is_current(self, row: int, key: str, setting: str, example: str) -> bool:
        """Return whether a stored row is a result of the current example in that row."""
        item = self._items.get(row)
        if item is None:
            return self._has_further_rows and row > self.end
        if setting in self._settings:
            return key == compute_example_key(setting, self._settings[setting], item)
        return example == item.digest  # the manifest lost this setting: compare examples only

    def keep_current(self, name: str, table: pa.Table) -> pa.Table:
        """Return the current rows of a table, with the ids and labels of the data."""
        columns = ("row", "key", "setting", "example")
        fits = list(map(self.is_current, *(table[column].to_pylist() for column in columns)))
        table = table if all(fits) else table.filter(pa.array(fits, type=pa.bool_()))
        return self.with_labels(table) if name == "explanations" else table

    def with_labels(self, table: pa.Table) -> pa.Table:
        """Return explanations with the example, id and label of the data now, and whether it was predicted.

        No explanation depends on the label unless it is the target, so a label may change.
        """
        places = pc.index_in(table["row"], value_set=self._rows)
        now = {name: pc.take(values, places) for name, values in self._names.items()}
        now["right"] = pc.equal(now["gold"], table["predicted"])
        for name, values in now.items():
            column = pc.if_else(places.is_valid(), values, table[name])
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), column)
        return table


_COMPARED_PACKAGES = ("torch", "transformers")  # packages whose versions change results
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Store(StoreReader):
    """The results of a run, opened for writing by `open_locked` or for reading by `open_existing`."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._was_complete = False
        self._covers = False  # whether this run completes the manifest
        self._shorter = False  # whether an earlier run had a higher limit
        self._last: int | None = None  # last closed window
        self._open: dict[int, OpenWindow] = {}

    @classmethod
    @contextmanager
    def open_locked(cls, out: str | Path) -> Iterator[Self]:
        """Context manager: create the folder if needed, lock it, and remove what a kill left half-written."""
        store = cls(out)
        check_folder(store.folder)
        with explain_write_errors(store.folder):
            store.folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(store.folder / "lock"):
            for name in _FILE_NAMES:
                store._remove(list_files(store.folder, name, _TEMPORARY_NAME))
            yield store

    def begin(self, plan: Plan, identity: Identity, data: Mapping[str, Any]) -> None:
        """Write the manifest of this run; BadStore if the folder has another model, data, sample or seed."""
        requested = build_manifest(plan, identity, data)
        merged, stored = requested, self.find_manifest()
        if stored is not None:
            check_compatible(stored, requested, str(self.folder))
            self._warn_of_changes(stored["code"], identity)
            merged = merge_manifests(stored, requested)
            self._was_complete = stored["state"] == "complete"
        self._covers = covers_plan(requested, merged)
        self._shorter = requested["plan"]["limit"] != merged["plan"]["limit"]
        ended = {"state": "complete", "totals": None if stored is None else stored["totals"]}
        if stored != {**merged, **ended}:
            self.write_manifest(merged)
        else:
            self._manifest = stored  # complete and unchanged: keep the file as it is

    def find_results(self, window: Window) -> WindowResults:
        """Return the keys of a window's results; what is damaged, outdated or there twice is removed first.

        Results none of which belongs to the data are refused: all of them would be lost.
        """
        now = OpenWindow(window, self.manifest, self._shorter)
        tables = {name: self._read_sound_files(name, window.number) for name in TABLES}
        stored = [(n, table) for n, files in tables.items() for table in files.values()]
        if window.items and stored and not any(now.keep_current(*one).num_rows for one in stored):
            rows = [row for _, table in stored for row in table["row"].to_pylist()]
            raise BadStore(
                f"{str(self.folder)!r} holds results of other data: in rows {min(rows)} to {max(rows)} of "
                f"{self.manifest['data'].get('name')!r} no example is what it was. Give another folder."
            )
        self._open[window.number], now.had_results = now, bool(stored)
        return WindowResults(t for name in TABLES for t in self.tidy(name, tables[name], now))

    def add_result(self, result: TaskResult) -> None:
        """Write the tables of a finished chunk, joined with those of an earlier run of other methods."""
        now = self._open[result.window]
        for name, table in result.tables.items():
            if table.num_rows:
                path = self.folder / name / f"{result.window:06d}-{result.chunk:03d}.parquet"
                self.add_rows(path, now.with_labels(table) if name == "explanations" else table)
        now.gained_results = True
        facts = {"window": result.window, "chunk": result.chunk, "seconds": result.seconds}
        more = {"examples": result.n_examples, "costs": result.costs, "worker": result.worker}
        self.log_event("task", {**facts, **more, "memory": result.memory})

    def close_window(self, window: Window) -> None:
        """Finish a window whose chunks are done: failures that were retried go, unreadable rows are written."""
        now = self._open.pop(window.number)
        for name in TABLES if now.had_results and now.gained_results else ():
            self.tidy(name, self._read_sound_files(name, window.number), now)
        self._last = max(window.number, -1 if self._last is None else self._last)
        path = self.folder / UNREADABLE / f"{window.number:06d}.parquet"
        bad = [{"row": row.row, "where": row.where, "why": row.why} for row in window.bad]
        if self._shorter and (old := self._read_sound(path)) is not None:
            bad += [row for row in old.to_pylist() if row["row"] > now.end]
        self._write_table(path, pa.Table.from_pylist(bad, schema=SCHEMAS[UNREADABLE]))

    def finish(self) -> None:
        """Set the final state and totals; remove windows after the end of the data."""
        if self._last is not None and not self._shorter:
            files = (path for name in (*TABLES, UNREADABLE) for path in self.files(name))
            self._remove(path for path in files if window_of(path) > self._last)
        self.update_state(self._covers or self._was_complete)

    def add_audit(self, name: str, result: Mapping[str, Any]) -> None:
        """Write the result of an audit experiment."""
        facts = {"experiment": name, "found": result}
        self._write(self.folder / "audits" / f"{name}.json", encode_json(facts))

    def log_event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Append an event to the log, with the time."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": now, "kind": kind, **facts}, default=str)
        with explain_write_errors(self.folder), (self.folder / "log.jsonl").open("a") as log:
            log.write(line + "\n")

    # Also used by `merge_stores`.

    def find_manifest(self) -> Manifest | None:
        """Return the manifest; None if there is none, or a damaged one, which is set aside."""
        path = self.folder / "manifest.json"
        try:
            return read_manifest(_read_bytes(path), str(self.folder))
        except FileNotFoundError:
            return None
        except ValueError as error:
            own = any(self.files(name) for name in TABLES)
            if not own and FORMAT.encode() not in _read_bytes(path):
                raise BadStore(f"{str(path)!r} is not of a run. Give another folder.") from None
            self._set_aside(path, str(error))
            return None

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest."""
        self._manifest = manifest
        with explain_write_errors(self.folder):
            replace_file(self.folder / "manifest.json", encode_json(manifest))

    def add_rows(self, path: Path, table: pa.Table) -> None:
        """Write rows to a file of a table, joined with those that are there."""
        parts = [part for part in (self._read_sound(path), table) if part is not None]
        self._write_table(path, merge_rows(path.parent.name, parts))

    def tidy(
        self, name: str, files: Mapping[Path, pa.Table], now: OpenWindow | None = None
    ) -> list[pa.Table]:
        """Return the tables of a window's files without outdated rows and doubles; changed files are written."""
        kept = {p: t if now is None else now.keep_current(name, t) for p, t in files.items()}
        if not kept:
            return []
        chosen = set(select_unique(pa.concat_tables(kept.values())))
        first = 0
        for path, table in kept.items():
            mask = [place in chosen for place in range(first, first + table.num_rows)]
            first += table.num_rows
            kept[path] = table if all(mask) else table.filter(pa.array(mask, type=pa.bool_()))
        # Doubles are removed from one file only after the other has them: a kill in between loses nothing.
        for path, table in kept.items():
            if not table.equals(files[path]):
                self._write_table(path, table)
        return list(kept.values())

    def update_state(self, complete: bool) -> None:
        """Write the state to the manifest: complete with totals if every setting has all examples, or running."""
        running = {**self.manifest, "state": "running", "totals": None}
        self._manifest = running
        if complete:
            totals, counts = self.totals(), self.count_results()
            whole = all(
                counts.get(one, 0) >= totals["examples"] for one in list_current_settings(running)
            )
            # Of a shard, nobody knows here how many examples it has.
            if whole or running["parts"] is not None:
                running |= {"state": "complete", "totals": totals}
        self.write_manifest(running)

    def _read_sound_files(self, name: str, window: int) -> dict[Path, pa.Table]:
        """Return the tables of a window's files that are not damaged."""
        tables = {path: self._read_sound(path) for path in self.files(name, window)}
        return {path: table for path, table in tables.items() if table is not None}

    def _read_sound(self, path: Path) -> pa.Table | None:
        """Return the table in a file; None if there is none, or a damaged one, which is set aside."""
        try:
            return read_sound_table(path, path.parent.name)
        except FileNotFoundError:
            return None
        except ValueError as error:
            self._set_aside(path, str(error))
            return None

    def _write_table(self, path: Path, table: pa.Table) -> None:
        """Write a file of a table; one without rows is removed."""
        if table.num_rows:
            self._write(path, encode_parquet(path.parent.name, table))
        elif path.exists():
            self._mark_running()
            self._remove([path])

    def _remove(self, paths: Iterable[Path]) -> None:
        with explain_write_errors(self.folder):
            for path in paths:
                path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        if path.is_file() and path.read_bytes() == data:
            return
        self._mark_running()
        with explain_write_errors(self.folder, len(data)):
            path.parent.mkdir(exist_ok=True)
            replace_file(path, data)

    def _mark_running(self) -> None:
        if self._manifest is not None and self._manifest["state"] != "running":
            self.write_manifest({**self.manifest, "state": "running", "totals": None})

    def _set_aside(self, path: Path, why: str) -> None:
        """Move a damaged file to damaged/, and say so."""
        aside = self.folder / "damaged"
        with explain_write_errors(self.folder):
            aside.mkdir(exist_ok=True)
            number = 1 + sum(1 for _ in aside.glob(f"{path.parent.name}-{path.name}.*"))
            path.replace(aside / f"{path.parent.name}-{path.name}.{number}")
        warnings.warn(
            f"{_relative_name(path)} is damaged ({why}). It was moved to {str(aside)!r}, and what was in it is computed again.",
            stacklevel=3,
        )
        self._mark_running()

    def _warn_of_changes(self, old_code: str, identity: Identity) -> None:
        if old_code != identity.code:
            warnings.warn(
                f"The code that computes has changed since {str(self.folder)!r} was last written to: all that is "
                "asked for is computed again, and what was there of it counts no more.",
                stacklevel=3,
            )
        old = self.sum_up_log().get("software", {})
        for name in _COMPARED_PACKAGES:
            if name in old and name in identity.software and old[name] != identity.software[name]:
                warnings.warn(
                    f"The results in {str(self.folder)!r} were computed with {name} {old[name]}, and the rest will "
                    f"be with {identity.software[name]}: they may differ by more than rounding.",
                    stacklevel=3,
                )


@contextmanager
def explain_write_errors(folder: Path, size: int = 0) -> Iterator[None]:
    """Context manager: turn an OSError into a CannotWrite that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRORS:
            raise CannotWrite(
                f"Cannot write to {str(error.filename or folder)!r}: {error.strerror or error}. All done so far is "
                "safe. Allow it to be written, and give the same command again: it goes on from there."
            ) from None
        room = ""
        with suppress(OSError):
            if (free := shutil.disk_usage(folder).free) < size:
                room = f" ({size:,} bytes were to be written, and {free:,} are free)"
        raise CannotWrite(
            f"There is no room for more results in {str(folder)!r}: {error.strerror}{room}. All done so far is safe. Make "
            "room, and give the same command again: it goes on from there."
        ) from None


def check_folder(folder: Path) -> None:
    """Raise if a folder, which need not exist, cannot be written to, or holds other files and no run."""
    if folder.exists() and not folder.is_dir():
        raise CannotWrite(
            f"Cannot write to {str(folder)!r}: it is a file. Give the name of a folder."
        )
    at = folder.absolute()
    existing = next(path for path in (at, *at.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise CannotWrite(
            f"Cannot write to {str(folder)!r}: no permission. Give a folder that you may write to."
        )
    names = sorted(path.name for path in folder.glob("[!.]*"))
    strange = [name for name in names if name not in _OWN_NAMES]
    if strange and not is_store(folder):
        raise BadStore(
            f"{str(folder)!r} holds something else ({', '.join(strange[:3])}), and no run. Give an empty folder, or "
            "the name of a new one."
        )


# Merging, verifying, exporting.


def lock_for_reading(folder: Path) -> AbstractContextManager[None]:
    """Return the lock of a folder that is to be read; none in a read-only folder."""
    path = folder / "lock"
    return lock_folder(path) if os.access(path, os.W_OK) else nullcontext()


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
        stored, combined = (
            store.find_manifest(),
            reduce(merge_manifests, (o.manifest for o in others)),
        )
        if stored is not None:
            check_compatible(stored, combined, str(store.folder))
        known = combined if stored is None else merge_manifests(stored, combined)
        # An incomplete target may be a killed merge: the sources complete it if they cover its plan.
        whole = all(other.manifest["state"] == "complete" for other in others) and (
            stored is None or stored["state"] == "complete" or covers_plan(combined, known)
        )
        store.write_manifest({**known, "state": "running", "totals": None})
        for other in others:
            _merge_store(store, other)
        for window in store.windows():
            for name in TABLES:
                store.tidy(name, store._read_sound_files(name, window))
        tested_alike = len({frozenset(tested) for tested in known["tested"].values()}) <= 1
        store.update_state(whole and tested_alike)
    return store


def _merge_store(store: Store, other: StoreReader) -> None:
    """Add the rows of another store, its audits that are missing or failed here, and its log."""
    for name in (*TABLES, UNREADABLE):
        for path in other.files(name):
            try:
                table = read_sound_table(path, name)
            except ValueError as error:
                raise _damage_error(path, str(error)) from None
            store.add_rows(store.folder / name / path.name, table)
    stored = store.audits()
    for name, result in other.audits().items():
        if name not in stored or (stored[name].get("error") and not result.get("error")):
            store.add_audit(name, result)
    known = list(store.events("task"))
    for event in other.events("task"):
        if event not in known:
            store.log_event("task", event)


class Problem(NamedTuple):
    """A fault of a store: file and description."""

    where: str
    what: str


def verify_store(folder: str | Path) -> Iterator[Problem]:
    """Yield the problems of a store, under its lock; BadStore if the folder holds none."""
    folder = Path(folder)
    if not is_store(folder):
        raise _no_store_error(folder)
    with lock_for_reading(folder):
        yield from _find_problems(folder)


def _find_problems(folder: Path) -> Iterator[Problem]:
    """Yield the problems of a store; the caller holds the lock."""
    store, settings = StoreReader(folder), None
    try:
        store = StoreReader.open_existing(folder)
        settings = store.manifest["settings"]
    except BadStore as error:
        yield Problem("manifest.json", str(error))
    for setting, facts in (settings or {}).items():
        if compute_setting_digest(facts) != setting:
            yield Problem("manifest.json", f"the setting {setting} stands for something else")
    for name in _FILE_NAMES:
        for path in list_files(folder, name, _TEMPORARY_NAME):
            where = str(path.relative_to(folder))
            yield Problem(where, "it was being written when a run was killed")
    for name in ("audits", *TABLES, UNREADABLE):
        own, known = list_files(folder, name), set[tuple[int, str]]()
        for path in sorted((folder / name).glob("*.parquet")):
            if path not in own:
                yield Problem(_relative_name(path), "it is not of this store; move it elsewhere")
        for path in own:
            try:
                if name == "audits":
                    decode_json(_read_bytes(path))
                    continue
                table = read_sound_table(path, name)
            except ValueError as error:
                yield Problem(_relative_name(path), str(error))
                continue
            for what in _check_rows(table, settings, known) if name != UNREADABLE else ():
                yield Problem(_relative_name(path), what)
    if settings is not None and store.manifest["state"] == "complete":
        stated, store._manifest = store.manifest["totals"], None
        if stated != store.totals():
            yield Problem("manifest.json", "its totals are not what the files add up to")


def _check_rows(
    table: pa.Table, settings: Mapping[str, Any] | None, known: set[tuple[int, str]]
) -> Iterator[str]:
    """Yield faults of a file's rows: doubles, also of the rows `known` from other files, unknown settings, wrong keys."""
    own = set(zip(table["row"].to_pylist(), table["key"].to_pylist(), strict=True)) - known
    if len(own) < table.num_rows:
        yield f"{table.num_rows - len(own):,} results are there more than once"
    known |= own
    if settings is None:
        return
    if strange := sorted(set(table["setting"].to_pylist()) - set(settings)):
        yield f"the manifest does not say what the setting {', '.join(strange)} stands for"
    texts = [name for name in ("text", "pair", "label") if name in table.schema.names]
    records = table.select(["key", "setting", "example", *texts]).to_pylist()
    if wrong := sum(record["key"] != _recompute_key(record, settings) for record in records):
        yield f"{wrong:,} rows have a key that is not theirs"


def _recompute_key(record: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the key that a record should have; of a picture, whose pixels are not kept, the key it has."""
    setting = record["setting"]
    part = settings.get(setting, {}).get("example", "all")
    if part == "all" and setting in settings:
        return compute_result_key(setting, record["example"])
    if setting not in settings or record.get("text") is None:
        return str(record["key"])
    text, pair = record["text"], record["pair"]
    input_id = compute_input_id(Example(text if pair is None else (text, pair)))
    given = input_id if part == "given" else hash_json([input_id, record["label"]])
    return compute_result_key(setting, given)


_EXPORT_ENDINGS = (".parquet", ".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


def export_table(folder: str | Path, table: str, to: str | Path) -> Path:
    """Write a table to a .parquet, .csv or .jsonl file, the last two also .gz, in bounded memory."""
    if table not in TABLES:
        raise BadParameter(f"--table must be {' or '.join(TABLES)}. Got {table!r}.")
    to = Path(to)
    ending = next((ending for ending in _EXPORT_ENDINGS if to.name.endswith(ending)), None)
    if ending is None:
        raise BadParameter(f"--to must end in {', '.join(_EXPORT_ENDINGS)}. Got {to.name!r}.")
    store = StoreReader.open_existing(folder)
    if store.folder.resolve() in to.resolve().parents:
        raise BadParameter(f"--to must be outside of the run's own folder. Got {str(to)!r}.")
    check_writable(to)
    write = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl}[
        ending.removesuffix(".gz")
    ]
    with open_atomic(to) as stream:
        if ending.endswith(".gz"):
            # No file name and no time in the header: equal rows give equal bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as inner:
                write(store, table, cast(IO[bytes], inner))
        else:
            write(store, table, stream)
    return to


def _write_parquet(store: StoreReader, table: str, stream: IO[bytes]) -> None:
    with open_parquet_writer(table, stream) as file:
        for rows in store.iterate_windows(table):
            file.write_table(rows, row_group_size=ROW_GROUP_SIZE)


def _write_jsonl(store: StoreReader, table: str, stream: IO[bytes]) -> None:
    for record in _iterate_records(store, table):
        stream.write(_format_json(record).encode() + b"\n")


def _write_csv(store: StoreReader, table: str, stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(SCHEMAS[table].names)
    records = _iterate_records(store, table)
    writer.writerows(map(_format_cell, record.values()) for record in records)
    text.detach()


def _iterate_records(store: StoreReader, table: str) -> Iterator[Record]:
    for rows in store.iterate_windows(table):
        yield from rows.to_pylist()


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
