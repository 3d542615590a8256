"""Library of the server: data sets, stored results and stored runs, given at the start or uploaded.

Uploaded files stay in memory and are written nowhere. A run is requested by an id that is made from the
folders on disk: no path is ever built from a request, links are not followed, nothing is locked and nothing
is written.
"""

import hashlib
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from whence.app.error_responses import describe_error
from whence.app.schema import RunExample, RunFacts, RunRow, RunRows, RunTest, RunWord
from whence.app.settings import Settings
from whence.core.errors import BadStore, CannotRead, NotFound, WhenceError
from whence.core.files import format_public_name, read_json
from whence.core.result import Result
from whence.data.dataset import Dataset, read_dataset
from whence.data.example import UnknownColumns
from whence.data.readers import parse_file_name
from whence.explain.generation import Generation
from whence.explain.report import build_document
from whence.metrics import metric as metrics
from whence.render.colour import format_target
from whence.studies.audit.audit import Audit
from whence.studies.audit.report import AUDIT_QUESTION, format_answer
from whence.studies.compare.comparison import Comparison
from whence.studies.evaluation.evaluation import Evaluation
from whence.studies.evaluation.report import build_document as build_tables
from whence.trust.card import Trust

if TYPE_CHECKING:
    from whence.runs.results import Run
    from whence.runs.store import RowFilter

Payload = dict[str, Any]

# By kind of stored result: its class, or whose documents it holds.
_CLASSES: Mapping[str, type[Result]] = {
    "audit": Audit,
    "comparison": Comparison,
    "trust": Trust,
    "generation": Generation,
}
_EVALUATIONS = ("evaluation", "evaluations", "recommendation")
_EXPLANATIONS = ("explanation", "targets", "entities")
_RESULT_KINDS = (*_CLASSES, *_EVALUATIONS, *_EXPLANATIONS)
_MAX_SUMMARY = 200  # characters


class _ForeignFile(CannotRead):
    """The error for a file that is no result of whence; such files of a folder are counted."""


def _find_kind(payload: Any) -> str:
    """Return the kind of a stored result; explanations and trust cards are found by their keys."""
    kind = ""
    if isinstance(payload, dict):
        if "kind" in payload:
            kind = str(payload["kind"])
        elif {"methods", "rules"} <= payload.keys():
            kind = "trust"
        elif "explanations" in payload:
            kind = "explanation"
    if kind not in _RESULT_KINDS:
        which = f", a {kind[:40]!r}" if kind else ""
        allowed = ", ".join(_RESULT_KINDS)
        raise _ForeignFile(f"this is no result of whence{which}. Allowed: {allowed}.")
    return kind


def _list_parts(kind: str, payload: Payload) -> list[Payload]:
    """Return the evaluations or explanations that a result holds, or the result itself."""
    if kind == "recommendation":
        return [payload["evaluation"]]
    return list(payload[kind]) if kind in ("evaluations", "targets", "entities") else [payload]


def _render_page(name: str, payload: Payload) -> str:
    """Return the HTML page of a stored result."""
    with _translate_errors(name):
        kind = _find_kind(payload)
        parts = _list_parts(kind, payload)
        if kind in _EXPLANATIONS:
            return build_document(parts).to_html()
        if kind in _EVALUATIONS:
            return build_tables(*(Evaluation.from_dict(part).data for part in parts)).to_html()
        return _CLASSES[kind].from_dict(payload).to_html()


def _summarise(kind: str, payload: Payload) -> str:
    """Return what a result says, in a sentence; a list shows only the beginning."""
    if kind == "audit":
        return f"{AUDIT_QUESTION} {format_answer(payload)}. {payload['conclusion']}"
    if kind == "generation":
        return f"{payload['input']['text'] or ''}{payload['text'] or ''}"[:_MAX_SUMMARY]
    if kind == "evaluations":
        return " ".join(payload["removal_matters"])
    if kind in _EXPLANATIONS:
        parts = map(_summarise_explanation, _list_parts(kind, payload))
        return "; ".join(parts)[:_MAX_SUMMARY]
    if kind != "evaluation":
        return str(payload["sentence"])
    if payload.get("failure"):
        return str(payload["failure"])
    methods, metrics = payload["methods"], payload["metrics"]
    return f"{len(methods)} methods by {len(metrics)} metrics on {payload['examples']['explained']} examples"


def _summarise_explanation(payload: Payload) -> str:
    methods = ", ".join(explanation["method"] for explanation in payload["explanations"])
    source = payload["input"]["text"] or (payload.get("picture") or {}).get("name") or ""
    return f"{format_target(payload['target'])}, by {methods}: {source}"[:_MAX_SUMMARY]


def _describe_result(name: str, payload: Payload, changed: str | None) -> dict[str, Any]:
    """Return the entry of a result in the page's list; raise CannotRead if it is no complete result."""
    try:
        # Python reads NaN, infinity and lone surrogates, which JSON lacks.
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        fault = (
            "half a character" if isinstance(error, UnicodeEncodeError) else "a number that is none"
        )
        raise CannotRead(
            f"{name} holds {fault}, which no result of whence does. Give the file as whence wrote it."
        ) from None
    with _translate_errors(name):
        kind = _find_kind(payload)
        first = _list_parts(kind, payload)[0]
        models = [first[side] for side in ("a", "b")] if kind == "comparison" else [first["model"]]
        return {
            "kind": kind,
            "name": name,
            "model": " and ".join(str(model["name"]) for model in models),
            "summary": _summarise(kind, payload),
            "changed": changed,
        }


# What reading a malformed file raises.
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError, RecursionError)


def _describe_malformed(name: str, thing: str, error: Exception) -> str:
    summary = " ".join(f"{type(error).__name__} {error}".split())[:300]
    return f"{name} is not a whole {thing}: {summary}."


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Context manager: turn errors of what is no whole result into a CannotRead that names it."""
    try:
        yield
    except WhenceError as error:
        kind = _ForeignFile if isinstance(error, _ForeignFile) else CannotRead
        raise kind(f"{name}: {error}") from None
    except _MALFORMED as error:
        what = _describe_malformed(name, "result", error)
        raise CannotRead(f"{what} Give a file that whence wrote.") from None


Item = TypeVar("Item")


class Shelf(Generic[Item]):
    """Things by id, given at the start or uploaded; the oldest of too many or too large uploads go."""

    def __init__(self, kept: int, most_bytes: float = math.inf) -> None:
        self.items: dict[str, Item] = {}
        self.lock = threading.Lock()
        self._kept, self._most_bytes = kept, most_bytes
        self._uploads: dict[str, int] = {}  # their bytes

    def add(self, name: str, item: Item, *, upload: bool = False, size: int = 0) -> str:
        """Add a thing, and return its id, which is made from a name for URLs."""
        short = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "file"
        with self.lock:
            key = number_name(short, self.items)
            self.items[key] = item
            if upload:
                self._uploads[key] = size
            while len(self._uploads) > self._kept or sum(self._uploads.values()) > self._most_bytes:
                oldest = next(iter(self._uploads))
                del self._uploads[oldest], self.items[oldest]
        return key


def number_name(name: str, existing: Container[str]) -> str:
    """Return a name, with a number if there is such a one."""
    candidates = (f"{name}-{number}" if number > 1 else name for number in count(1))
    return next(candidate for candidate in candidates if candidate not in existing)


_MAX_FILES = 500  # JSON files read of a folder


class StoredResults:
    """The stored results of a server, from files given at the start and uploads."""

    def __init__(self, settings: Settings) -> None:
        self._shelf: Shelf[tuple[dict[str, Any], Payload]] = Shelf(settings.kept)
        self._problems: list[str] = []
        foreign: list[str] = []
        for path in _find_files(settings.results):
            try:
                modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
                self._add(
                    path.name, read_json(path, "result"), modified.isoformat(timespec="seconds")
                )
            except _ForeignFile:
                foreign.append(path.name)
            except WhenceError as error:
                self._problems.append(str(error))
        if foreign:
            examples = ", ".join(foreign[:3])
            examples += f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
            files = "1 file is" if len(foreign) == 1 else f"{len(foreign)} files are"
            self._problems.append(f"{files} no result of whence, and passed over: {examples}.")

    def list_results(self) -> dict[str, Any]:
        """Return the entries of all results, and the problems of unreadable files."""
        entries = [{**entry, "id": key} for key, (entry, _) in list(self._shelf.items.items())]
        return {"results": entries, "problems": list(self._problems)}

    def get(self, key: str) -> Payload:
        """Return the payload of a stored result."""
        if key not in self._shelf.items:
            raise NotFound(f"There is no stored result {key[:100]!r}.")
        return self._shelf.items[key][1]

    def render_page(self, key: str) -> str:
        """Return the HTML page of a stored result."""
        return _render_page(key, self.get(key))

    def add_upload(self, name: str, raw: bytes) -> dict[str, Any]:
        """Add an uploaded result, and return its entry; drops the oldest beyond the limit."""
        name = clean_file_name(name)
        try:
            payload = json.loads(raw)
        except (ValueError, RecursionError):
            raise CannotRead(f"{name} is not JSON. Give a file that whence wrote.") from None
        return self._add(name, payload, None, upload=True)

    def _add(
        self, name: str, payload: Any, changed: str | None, *, upload: bool = False
    ) -> dict[str, Any]:
        entry = _describe_result(name, payload, changed)
        if upload:
            _render_page(name, payload)  # a result that cannot be shown is refused at once
        key = self._shelf.add(name.removesuffix(".json"), (entry, payload), upload=upload)
        return {**entry, "id": key}


def _find_files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.rglob("*.json"))[:_MAX_FILES]
        elif path.exists():
            files.append(path)
        else:
            raise CannotRead(
                f"Cannot read {str(path)!r}: there is no such file or folder. --results takes what whence wrote."
            )
    return list(dict.fromkeys(files))


PAGE_SIZE = 50


def list_rows(run: "Run", row_filter: "RowFilter", page: int) -> RunRows:
    """Return a page of a run's matching rows; empty beyond the last."""
    from whence.runs.store import read_page

    first = page * PAGE_SIZE
    matches = read_page(run.store, row_filter, first, PAGE_SIZE)
    names = RunRow.model_fields.keys() - {"label"}
    rows = [
        RunRow(**{name: record[name] for name in names}, label=record["gold"] or record["label"])
        for record in matches.records
    ]
    return RunRows(rows=rows, found=matches.found, first=first, problems=matches.unread)


def is_descending(metric: str, best: bool) -> bool:
    """Return whether to sort a metric in descending order for best (or worst) first."""
    try:
        higher = bool(metrics.get(metric).facts["direction"] == "higher")
    except WhenceError:  # its package is not installed here
        higher = True
    return higher == best


def build_example(run: "Run", row: int, method: str | None) -> RunExample:
    """Return one row of a run with its explanation by a method, or by the first method."""
    from whence.runs.store import read_row

    explanations, tests = read_row(run.store, row)
    by_method = {record["method"]: record for record in explanations}
    chosen = by_method.get(next(iter(by_method), "") if method is None else method)
    if chosen is None:
        by = "" if method is None else f" by {method[:100]!r}"
        raise NotFound(f"The run has no explanation{by} of row {row}.")
    name = chosen["method"]
    payload = None if chosen["error"] else run.explanation(row, name)
    first = payload["explanations"][0] if payload else {"signed": False, "scale": None}
    source = {"text": chosen["text"], "pair": chosen["pair"], "dropped": 0}
    known = ("row", "method", "target", "predicted", "probability", "why")
    return RunExample.model_validate(
        {
            **{key: chosen[key] for key in known},
            "label": chosen["gold"] or chosen["label"],  # in the model's words, if it was matched
            "methods": list(by_method),
            "input": payload["input"] if payload else source,
            "signed": first["signed"],
            "scale": first["scale"],
            "words": _list_words(payload) if payload else [],
            "tests": [
                {key: test[key] for key in RunTest.model_fields}
                for test in tests
                if test["method"] == name
            ],
        }
    )


def _list_words(payload: dict[str, Any]) -> list[RunWord]:
    """Return the words with their scores and the text between them."""
    texts = (payload["input"]["text"], payload["input"]["pair"])
    scores = payload["explanations"][0]["word_scores"]
    words: list[RunWord] = []
    segment, end = None, 0  # of the word before
    for word, score in zip(payload["words"], scores, strict=True):
        text, gap = texts[word["segment"]], ""
        if segment == word["segment"]:
            known = text is not None and word["start"] is not None
            gap = text[end : word["start"]] if known else " "
        segment, end = word["segment"], word["end"]
        words.append(RunWord(text=word["text"], before=gap, segment=segment, score=score))
    return words


_MAX_RUNS = 500  # runs listed of a folder
_MAX_DEPTH = 3  # levels of folders below the given one
_MAX_CACHED = 8  # cached reports
_SUBFOLDERS = ("explanations", "metrics", "unreadable", "audits")
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class RunLocation:
    """The folder of a run, with its id and name."""

    id: str
    name: str
    folder: Path


class StoredRuns:
    """The runs of a server, below one folder."""

    def __init__(self, folder: Path | None) -> None:
        if folder is not None and not folder.is_dir():
            raise CannotRead(
                f"Cannot read {str(folder)!r}: there is no such folder. --runs takes a run, or a folder of runs."
            )
        self._root = folder
        # The version of a run is part of the key, so that what is cached holds until the run changes.
        self._read_facts = lru_cache(_MAX_RUNS)(_read_facts)
        self._render_report = lru_cache(_MAX_CACHED)(_render_report)
        self._report_lock = threading.Lock()  # a report uses a full core: one at a time

    def list_runs(self) -> dict[str, Any]:
        """Return the entries of all runs now: unfinished ones first, then the latest."""
        places = list(self._list_locations())
        entries = [self._describe_run(place) for place in places[:_MAX_RUNS]]
        entries.sort(key=_list_order)
        folder = None if self._root is None else _decode_name(format_public_name(str(self._root)))
        return {"folder": folder, "runs": entries, "left_out": max(0, len(places) - _MAX_RUNS)}

    def open_run(self, key: str) -> AbstractContextManager["Run"]:
        """Return the context of a run by its id."""
        return _open_run(self._find_location(key))

    def render_report(self, key: str, writer: str) -> str:
        """Return a report of a run by the name of the method that writes it."""
        place = self._find_location(key)
        with self._report_lock:
            return self._render_report(place, _find_version(place.folder)[0], writer)

    def _describe_run(self, place: RunLocation) -> dict[str, Any]:
        """Return the entry of a run."""
        version, written = _find_version(place.folder)
        return {
            **self._read_facts(place, version),
            "id": place.id,
            "name": place.name,
            "version": version,
            "changed": written
            and datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"),
            "quiet": written and round(max(0.0, time.time() - written), 1),
        }

    def _find_location(self, key: str) -> RunLocation:
        for place in self._list_locations():
            if place.id == key:
                return place
        raise NotFound(
            f"There is no run {key[:100]!r} in the folder that this server was started with."
        )

    def _list_locations(self) -> Iterator[RunLocation]:
        """Yield the places of all runs in the order of their names; links are not followed."""
        from whence.runs.store import is_store

        if self._root is None:
            return
        root = self._root.resolve()
        for path, below, _ in os.walk(root):
            folder = Path(path)
            levels = folder.relative_to(root).parts
            # A run without its manifest counts below the given folder.
            is_run = (folder / _MANIFEST).exists() or bool(levels and is_store(folder))
            if is_run:
                name = "/".join(levels) or root.name
                yield RunLocation(_build_id(name), _decode_name(name), folder)
            is_leaf = is_run or len(levels) == _MAX_DEPTH
            below[:] = [] if is_leaf else sorted(name for name in below if name[0] != ".")


def _list_order(entry: dict[str, Any]) -> tuple[bool, float]:
    """Return the sort key of a run: running ones first by name, others by time since a write."""
    waits = entry["state"] != "running"
    return waits, (entry["quiet"] or 0.0) if waits else 0.0


def _find_version(folder: Path) -> tuple[str, float | None]:
    """Return a hash that changes with every write to a run (renames change folder times), and the last write."""
    stats = []
    for name in (_MANIFEST, *_SUBFOLDERS):
        with suppress(OSError):
            stat = (folder / name).lstat()
            stats.append((name, stat.st_mtime_ns, stat.st_size))
    version = hashlib.sha256(repr(stats).encode()).hexdigest()[:16]
    return version, max((time / 1e9 for _, time, _ in stats), default=None)


def _build_id(name: str) -> str:
    """Return the id of a run for URLs: its name, or a part of it with a hash if it has other characters."""
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")
    if short == name:
        return name
    return f"{short[:40]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"


def _decode_name(name: str) -> str:
    """Return a file name, which may be any bytes, as valid text."""
    return os.fsencode(name).decode("utf-8", "replace")


@contextmanager
def _open_run(place: RunLocation) -> Iterator["Run"]:
    """Context manager: open a run; errors of a malformed one become a BadStore that names it."""
    from whence.runs.results import Run

    try:
        _check_no_links(place)
        yield Run(place.folder)
    except _MALFORMED as error:
        what = _describe_malformed(place.name, "run", error)
        raise BadStore(f"{what} `whence store verify` says what is damaged.") from None


def _check_no_links(place: RunLocation) -> None:
    """Raise BadStore if a run contains symbolic links, which may lead outside the folder."""
    for folder in (place.folder, *(place.folder / name for name in _SUBFOLDERS)):
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_symlink():
                where = _decode_name(path.relative_to(place.folder).as_posix())
                raise BadStore(
                    f"{place.name}: {where} is a link, and whence writes none. Copy the run instead."
                )


def _read_facts(place: RunLocation, version: str) -> dict[str, Any]:
    try:
        with _open_run(place) as run:
            facts = run.facts()
            if facts["why"] is not None:
                raise BadStore(facts["why"])
            plain = {name: facts.get(name) for name in RunFacts.model_fields}
            return RunFacts.model_validate(plain).model_dump()
    except WhenceError as error:
        nothing: dict[str, Any] = {"methods": [], "metrics": [], "audit": [], "total": None}
        known = {"model": "", "data": "", "done": 0, "failed": 0, "bad": 0}
        return {**known, **nothing, "state": "damaged", "problem": str(error)}


def _render_report(place: RunLocation, version: str, writer: str) -> str:
    with _open_run(place) as run:
        return str(getattr(run.report(), writer)())


Columns = dict[str, str | None]  # text, pair, label

_MAX_EXPANSION = 8  # limit of unpacked bytes, in multiples of the upload limit


def clean_file_name(name: str) -> str:
    """Return a file's name without folders and special characters."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w. -]", "_", last).strip(". ")[-100:] or "file"


# A data set, or the error that its columns are unknown, and the function that reads it by other columns.
_Slot = tuple[Dataset | UnknownColumns, Callable[..., Dataset]]


class DataSets:
    """The data sets of a server; uploads are held in memory only."""

    def __init__(self, settings: Settings) -> None:
        columns = {"text": settings.text, "pair": settings.pair, "label": settings.label}
        self._settings = settings
        self._shelf: Shelf[_Slot] = Shelf(settings.kept)
        for path in settings.data:
            reader = partial(read_dataset, path, most=settings.rows)
            content: Dataset | UnknownColumns
            try:
                content = reader(**columns)
            except UnknownColumns as error:
                content = error  # the columns can be chosen on the page
            self._shelf.add(getattr(content, "name", parse_file_name(path)), (content, reader))

    def get(self, name: str) -> Dataset:
        """Return a data set by its id."""
        content, _ = self._find(name)
        if isinstance(content, UnknownColumns):
            raise content
        return content

    def _find(self, name: str) -> _Slot:
        slots = self._shelf.items
        if name not in slots:
            raise NotFound(
                f"There is no data set {name[:100]!r}. There are {', '.join(slots) or 'none'}."
            )
        return slots[name]

    def list_problems(self) -> list[str]:
        """Return the errors of data sets whose columns have to be chosen."""
        contents = (content for content, _ in self._shelf.items.values())
        return [str(content) for content in contents if isinstance(content, UnknownColumns)]

    def add_upload(self, name: str, raw: bytes, columns: Columns) -> dict[str, Any]:
        """Add an uploaded data set, and return its entry; drops the oldest beyond the limit."""
        name = clean_file_name(name)
        limit = self._settings.upload * _MAX_EXPANSION
        reader = partial(read_dataset, name, raw=raw, most=self._settings.rows, most_bytes=limit)
        dataset = reader(**columns)
        key = self._shelf.add(dataset.name, (dataset, reader), upload=True)
        return _describe_dataset(key, dataset)

    def reread(self, key: str, columns: Columns) -> dict[str, Any]:
        """Read a data set again by other columns, under the same id, and return its entry."""
        _, reader = self._find(key)
        dataset = reader(**columns)
        with self._shelf.lock:
            if key in self._shelf.items:
                self._shelf.items[key] = (dataset, reader)
        return _describe_dataset(key, dataset)

    def list_entries(self) -> list[dict[str, Any]]:
        """Return the entries of all data sets in the page's list."""
        slots = list(self._shelf.items.items())
        return [_describe_dataset(name, content) for name, (content, _) in slots]


def _describe_dataset(key: str, content: Dataset | UnknownColumns) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": key, "columns": list(content.columns)}
    if isinstance(content, UnknownColumns):
        unknown = {"name": key, "rows": 0, "text": "", "pair": None, "label": None, "guessed": []}
        return {**entry, **unknown, "problem": describe_error(content)}
    known = {name: getattr(content, name) for name in ("name", "pair", "label", "guessed")}
    return {**entry, **known, "rows": len(content.examples), "text": content.text or "text"}
