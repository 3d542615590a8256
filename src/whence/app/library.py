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
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.app.error_responses import describe_error
from whence.app.schema import RunExample, RunFacts, RunRow, RunRows, RunTest, RunWord, Scale, Source
from whence.app.settings import Settings
from whence.core.errors import BadStore, CannotRead, NotFound, WhenceError
from whence.core.files import format_public_name, read_json
from whence.data.example import UnknownColumns
from whence.data.readers import parse_file_name
from whence.render.colour import format_target

if TYPE_CHECKING:
    from whence.data.dataset import Dataset
    from whence.runs.results import Run
    from whence.runs.store import RowFilter

Payload = dict[str, Any]


@dataclass(frozen=True)
class ResultKind:
    """A kind of stored result: functions for its page, its summary and its model's name."""

    page: Callable[[Payload], str]
    summary: Callable[[Payload], str]
    model: Callable[[Payload], str]


class NotAResult(Exception):
    """The error for JSON that is no result of whence."""


def find_kind(payload: Any) -> str:
    """Return the kind of a stored result; raise NotAResult for other JSON."""
    kind = _read_kind(payload)
    if kind not in RESULT_KINDS:
        which = f", a {kind[:40]!r}" if kind else ""
        raise NotAResult(f"this is no result of whence{which}. Allowed: {', '.join(RESULT_KINDS)}.")
    return kind


def _read_kind(payload: Any) -> str:
    """Return the stated kind; explanations and trust cards state none and are found by their keys."""
    if not isinstance(payload, dict):
        return ""
    if "kind" in payload:
        return str(payload["kind"])
    if {"methods", "rules"} <= payload.keys():
        return "trust"
    return "explanation" if "explanations" in payload else ""


def _render_audit(payload: Payload) -> str:
    from whence.studies.audit.audit import Audit

    return Audit.from_dict(payload).to_html()


def _render_evaluation(payload: Payload) -> str:
    return _render_evaluations({"evaluations": [payload]})


def _render_evaluations(payload: Payload) -> str:
    from whence.studies.evaluation.evaluation import Evaluation
    from whence.studies.evaluation.report import render_evaluation_html

    return render_evaluation_html(
        *(Evaluation.from_dict(evaluation).to_dict() for evaluation in payload["evaluations"])
    )


def _render_recommendation(payload: Payload) -> str:
    return _render_evaluation(payload["evaluation"])


def _render_comparison(payload: Payload) -> str:
    from whence.studies.compare.comparison import Comparison

    return Comparison.from_dict(payload).to_html()


def _render_trust(payload: Payload) -> str:
    from whence.trust.report import render_trust_html

    return render_trust_html(payload)


def _render_explanation(payload: Payload) -> str:
    from whence.render.html import render_explanations_html

    return render_explanations_html([payload])


def _render_generation(payload: Payload) -> str:
    from whence.explain.generation import Generation

    return Generation.from_dict(payload).to_html()


def _read_model_name(payload: Payload) -> str:
    return str(payload["model"]["name"])


def _read_sentence(payload: Payload) -> str:
    return str(payload["sentence"])


def _summarise_audit(payload: Payload) -> str:
    """Return an audit's question, answer and conclusion; a list shows only the beginning."""
    from whence.studies.audit.report import AUDIT_QUESTION, format_answer

    return f"{AUDIT_QUESTION} {format_answer(payload)}. {payload['conclusion']}"


def _summarise_evaluation(payload: Payload) -> str:
    if payload.get("failure"):
        return str(payload["failure"])
    methods, metrics = payload["methods"], payload["metrics"]
    return f"{len(methods)} methods by {len(metrics)} metrics on {payload['examples']['explained']} examples"


def _summarise_explanation(payload: Payload) -> str:
    methods = ", ".join(explanation["method"] for explanation in payload["explanations"])
    source = payload["input"]["text"] or (payload.get("picture") or {}).get("name") or ""
    return f"{format_target(payload['target'])}, by {methods}: {source}"[:200]


def _build_plural_kind(kind: str) -> ResultKind:
    """Return the kind of a list of explanations of one input: several targets or entities."""

    def page(payload: Payload) -> str:
        from whence.render.html import render_explanations_html as sheet

        return sheet(payload[kind])

    def summary(payload: Payload) -> str:
        return "; ".join(map(_summarise_explanation, payload[kind]))[:200]

    return ResultKind(page, summary, lambda payload: _read_model_name(payload[kind][0]))


RESULT_KINDS: dict[str, ResultKind] = {
    "audit": ResultKind(_render_audit, _summarise_audit, _read_model_name),
    "evaluation": ResultKind(_render_evaluation, _summarise_evaluation, _read_model_name),
    "evaluations": ResultKind(
        _render_evaluations,
        lambda payload: " ".join(payload["removal_matters"]),
        lambda payload: _read_model_name(payload["evaluations"][0]),
    ),
    "recommendation": ResultKind(
        _render_recommendation,
        _read_sentence,
        lambda payload: _read_model_name(payload["evaluation"]),
    ),
    "comparison": ResultKind(
        _render_comparison,
        _read_sentence,
        lambda payload: f"{payload['a']['name']} and {payload['b']['name']}",
    ),
    "trust": ResultKind(_render_trust, _read_sentence, _read_model_name),
    "explanation": ResultKind(_render_explanation, _summarise_explanation, _read_model_name),
    "targets": _build_plural_kind("targets"),
    "entities": _build_plural_kind("entities"),
    "generation": ResultKind(
        _render_generation,
        lambda payload: f"{payload['input']['text'] or ''}{payload['text'] or ''}"[:200],
        _read_model_name,
    ),
}

_MAX_FILES = 500  # JSON files read of a folder


@dataclass(frozen=True)
class ResultFile:
    """A stored result: file name, payload, and time of the last change."""

    name: str
    payload: dict[str, Any]
    changed: str | None

    def to_entry(self, key: str) -> dict[str, Any]:
        """Return the entry of the result in the page's list."""
        kind = find_kind(self.payload)
        return {
            "id": key,
            "kind": kind,
            "name": self.name,
            "model": RESULT_KINDS[kind].model(self.payload),
            "summary": RESULT_KINDS[kind].summary(self.payload),
            "changed": self.changed,
        }


class StoredResults:
    """The stored results of a server, from files given at the start and uploads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._results: dict[str, ResultFile] = {}
        self._upload_keys: list[str] = []
        self._problems: list[str] = []
        foreign_names: list[str] = []
        for path in _find_files(settings.results):
            self._read(path, foreign_names)
        if foreign_names:
            self._problems.append(_describe_foreign_files(foreign_names))

    def list_results(self) -> dict[str, Any]:
        """Return the entries of all results, and the problems of unreadable files."""
        return {
            "results": [result.to_entry(key) for key, result in list(self._results.items())],
            "problems": list(self._problems),
        }

    def get(self, key: str) -> dict[str, Any]:
        """Return the payload of a stored result."""
        if key not in self._results:
            raise NotFound(f"There is no stored result {key[:100]!r}.")
        return self._results[key].payload

    def render_page(self, key: str) -> str:
        """Return the HTML page of a stored result."""
        payload = self.get(key)
        return _render_page(self._results[key].name, payload)

    def add_upload(self, name: str, raw: bytes) -> dict[str, Any]:
        """Add an uploaded result, and return its entry; drops the oldest beyond the limit."""
        name = clean_file_name(name)
        try:
            payload = json.loads(raw)
        except (ValueError, RecursionError):
            raise CannotRead(f"{name} is not JSON. Give a file that whence wrote.") from None
        result = ResultFile(name, _check_result(name, payload), None)
        _render_page(name, result.payload)  # a result that cannot be shown is refused at once
        with self._lock:
            key = self._add(result)
            self._upload_keys.append(key)
            if len(self._upload_keys) > self._settings.kept:
                del self._results[self._upload_keys.pop(0)]
        return result.to_entry(key)

    def _read(self, path: Path, foreign_names: list[str]) -> None:
        try:
            payload = _check_result(path.name, read_json(path, "result"))
        except _ForeignFile:
            foreign_names.append(path.name)
            return
        except WhenceError as error:
            self._problems.append(str(error))
            return
        modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        self._add(ResultFile(path.name, payload, modified.isoformat(timespec="seconds")))

    def _add(self, result: ResultFile) -> str:
        key = build_unique_id(result.name.removesuffix(".json"), self._results)
        self._results[key] = result
        return key


class _ForeignFile(CannotRead):
    """The error for a file that is no result of whence; such files of a folder are counted."""


def _describe_foreign_files(names: list[str]) -> str:
    examples = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    files = "1 file is" if len(names) == 1 else f"{len(names)} files are"
    return f"{files} no result of whence, and passed over: {examples}."


def _check_result(name: str, payload: Any) -> dict[str, Any]:
    """Return the payload; raise CannotRead if it is no complete result."""
    _check_sendable(name, payload)
    with _translate_errors(name):
        ResultFile(name, payload, None).to_entry("")
    result: dict[str, Any] = payload
    return result


def _check_sendable(name: str, payload: Any) -> None:
    """Raise CannotRead for values Python reads and JSON lacks: NaN, infinity, lone surrogates."""
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        fault = (
            "half a character" if isinstance(error, UnicodeEncodeError) else "a number that is none"
        )
        raise CannotRead(
            f"{name} holds {fault}, which no result of whence does. Give the file as whence wrote it."
        ) from None


def _render_page(name: str, payload: dict[str, Any]) -> str:
    with _translate_errors(name):
        return RESULT_KINDS[find_kind(payload)].page(payload)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except NotAResult as error:
        raise _ForeignFile(f"{name}: {error}") from None
    except WhenceError as error:
        raise CannotRead(f"{name}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CannotRead(
            f"{name} is not a whole result: {type(error).__name__} {error}. Give a file that whence wrote."
        ) from None


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
    rows = [
        RunRow(
            **{
                **{
                    name: value for name, value in record.items() if name not in ("gold", "setting")
                },
                "label": _find_label(record),
                "probability": _to_finite(record["probability"]),
                "value": _to_finite(record["value"]),
            }
        )
        for record in matches.records
    ]
    return RunRows(rows=rows, found=matches.found, first=first, problems=matches.unread)


def is_descending(metric: str, best: bool) -> bool:
    """Return whether to sort a metric in descending order for best (or worst) first."""
    from whence.metrics import metric as metrics

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
    source = (
        payload["input"] if payload else {**{k: chosen[k] for k in ("text", "pair")}, "dropped": 0}
    )
    facts = {key: chosen[key] for key in ("target", "predicted", "why")}
    return RunExample(
        **facts,
        label=_find_label(chosen),
        row=row,
        method=name,
        methods=list(by_method),
        input=Source.model_validate(source),
        probability=_to_finite(chosen["probability"]),
        signed=bool(payload and payload["explanations"][0]["signed"]),
        scale=Scale.model_validate(payload["explanations"][0]["scale"]) if payload else None,
        words=_list_words(payload) if payload else [],
        tests=[
            RunTest(
                metric=test["metric"],
                value=_to_finite(test["value"]),
                null=_to_finite(test["null"]),
                why=test["why"],
            )
            for test in tests
            if test["method"] == name
        ],
    )


def _find_label(record: dict[str, Any]) -> str | None:
    """Return the true label in the model's words if matched, else as in the data."""
    label: str | None = record["gold"] or record["label"]
    return label


def _to_finite(value: float | None) -> float | None:
    """Return a number; None for null, NaN and infinity, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def _list_words(payload: dict[str, Any]) -> list[RunWord]:
    """Return the words with their scores and the text between them."""
    texts = (payload["input"]["text"], payload["input"]["pair"])
    words: list[RunWord] = []
    before: dict[str, Any] | None = None
    for word, score in zip(
        payload["words"], payload["explanations"][0]["word_scores"], strict=True
    ):
        gap = ""
        if before is not None and before["segment"] == word["segment"]:
            text = texts[word["segment"]]
            gap = (
                " "
                if text is None or word["start"] is None
                else text[before["end"] : word["start"]]
            )
        words.append(RunWord(text=word["text"], before=gap, segment=word["segment"], score=score))
        before = word
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
        self._facts: dict[str, tuple[str, dict[str, Any]]] = {}
        self._reports: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._report_lock = threading.Lock()  # a report uses a full core: one at a time

    def list_runs(self) -> dict[str, Any]:
        """Return the entries of all runs now: unfinished ones first, then the latest."""
        places = list(self._list_locations())
        entries = [self._describe_run(place) for place in places[:_MAX_RUNS]]
        entries.sort(key=_list_order)
        folder = None if self._root is None else _decode_name(format_public_name(str(self._root)))
        return {"folder": folder, "runs": entries, "left_out": max(0, len(places) - _MAX_RUNS)}

    def open_run(self, key: str) -> "Run":
        """Return a run by its id."""
        return _open_location(self._find_location(key))

    def build_once(self, key: str, what: str, make: Callable[..., Any]) -> Any:
        """Return a report of a run, cached until the run changes."""
        place = self._find_location(key)
        version = (what, place.id, compute_version(place.folder))
        with self._report_lock:
            if version not in self._reports:
                with translate_run_errors(place.name):
                    self._reports[version] = make(_open_location(place))
                if len(self._reports) > _MAX_CACHED:
                    self._reports.popitem(last=False)
            self._reports.move_to_end(version)
            return self._reports[version]

    def _describe_run(self, place: RunLocation) -> dict[str, Any]:
        """Return the entry of a run, with facts cached until the run changes."""
        now = compute_version(place.folder)
        known = self._facts.get(place.id)
        if known is None or known[0] != now:
            known = self._facts[place.id] = (now, _read_facts(place))
        written = _find_last_write(place.folder)
        return {
            **known[1],
            "id": place.id,
            "name": place.name,
            "version": now,
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
        if self._root is None:
            return
        root = self._root.resolve()
        if (root / _MANIFEST).is_file():
            yield RunLocation(_build_id(root.name), _decode_name(root.name), root)
            return
        for folder in _find_runs(root, _MAX_DEPTH):
            name = folder.relative_to(root).as_posix()
            yield RunLocation(_build_id(name), _decode_name(name), folder)


def _list_order(entry: dict[str, Any]) -> tuple[bool, float]:
    """Return the sort key of a run: running ones first by name, others by time since a write."""
    waits = entry["state"] != "running"
    return waits, (entry["quiet"] or 0.0) if waits else 0.0


def compute_version(folder: Path) -> str:
    """Return a hash that changes with every write to a run (renames change folder times)."""
    stats = [_read_stat(folder / name) for name in (_MANIFEST, *_SUBFOLDERS)]
    return hashlib.sha256(repr(stats).encode()).hexdigest()[:16]


def _read_stat(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.lstat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _find_last_write(folder: Path) -> float | None:
    stats = [_read_stat(folder / name) for name in (_MANIFEST, *_SUBFOLDERS)]
    return max((stat[0] / 1e9 for stat in stats if stat is not None), default=None)


def _find_runs(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folders that hold a run, in the order of their names; links are not followed."""
    from whence.runs.store import is_store

    try:
        with os.scandir(folder) as entries:
            below = sorted(
                Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return
    for path in below:
        if path.name.startswith("."):
            continue
        if (path / _MANIFEST).exists() or is_store(path):  # a run without its manifest counts
            yield path
        elif depth > 1:
            yield from _find_runs(path, depth - 1)


def _build_id(name: str) -> str:
    """Return the id of a run for URLs: its name, or a part of it with a hash if it has other characters."""
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")
    if short == name:
        return name
    return f"{short[:40]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"


def _decode_name(name: str) -> str:
    """Return a file name, which may be any bytes, as valid text."""
    return os.fsencode(name).decode("utf-8", "replace")


def _open_location(place: RunLocation) -> "Run":
    from whence.runs.results import Run

    _check_no_links(place)
    with translate_run_errors(place.name):
        return Run(place.folder)


def _check_no_links(place: RunLocation) -> None:
    """Raise BadStore if a run contains symbolic links, which may lead outside the folder."""
    for name in ("", *_SUBFOLDERS):
        folder = place.folder / name
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            link = next((entry.name for entry in entries if entry.is_symlink()), None)
        if link is not None:
            where = _decode_name(f"{name}/{link}".lstrip("/"))
            raise BadStore(
                f"{place.name}: {where} is a link, and whence writes none. Copy the run instead."
            )


def _read_facts(place: RunLocation) -> dict[str, Any]:
    try:
        with translate_run_errors(place.name):
            facts = _open_location(place).facts()
            if facts["why"] is not None:
                raise BadStore(facts["why"])
            plain = {name: facts.get(name) for name in RunFacts.model_fields}
            return RunFacts.model_validate(plain).model_dump()
    except WhenceError as error:
        nothing: dict[str, Any] = {"methods": [], "metrics": [], "audit": [], "total": None}
        known = {"model": "", "data": "", "done": 0, "failed": 0, "bad": 0}
        return {**known, **nothing, "state": "damaged", "problem": str(error)}


@contextmanager
def translate_run_errors(name: str) -> Iterator[None]:
    """Context manager: turn errors of a malformed run into a BadStore that names it."""
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
        summary = " ".join(f"{type(error).__name__} {error}".split())[:300]
        raise BadStore(
            f"{name} is not a whole run: {summary}. `whence store verify` says what is damaged."
        ) from None


Columns = dict[str, str | None]  # text, pair, label

_MAX_EXPANSION = 8  # limit of unpacked bytes, in multiples of the upload limit


def clean_file_name(name: str) -> str:
    """Return a file's name without folders and special characters."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w. -]", "_", last).strip(". ")[-100:] or "file"


def build_unique_id(name: str, existing: Any) -> str:
    """Return an unused id for URLs, made from a name."""
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "file"
    candidate, number = short, 1
    while candidate in existing:
        number += 1
        candidate = f"{short}-{number}"
    return candidate


@dataclass(frozen=True)
class _DatasetSlot:
    """A data set, or the error that its columns are unknown, and a function to read it again."""

    content: "Dataset | UnknownColumns"
    reader: "Callable[..., Dataset]"


class DataSets:
    """The data sets of a server; uploads are held in memory only."""

    def __init__(self, settings: Settings) -> None:
        from whence.data.dataset import read_dataset

        columns = {"text": settings.text, "pair": settings.pair, "label": settings.label}
        self._settings = settings
        self._lock = threading.Lock()
        self._slots: dict[str, _DatasetSlot] = {}
        self._upload_keys: list[str] = []
        for path in settings.data:
            reader: Callable[..., Dataset] = partial(read_dataset, path, most=settings.rows)
            content: Dataset | UnknownColumns
            try:
                content = reader(**columns)
            except UnknownColumns as error:
                content = error  # the columns can be chosen on the page
            self._add(parse_file_name(path), _DatasetSlot(content, reader))

    def get(self, name: str) -> "Dataset":
        """Return a data set by its id."""
        if name not in self._slots:
            raise NotFound(
                f"There is no data set {name[:100]!r}. There are {', '.join(self._slots) or 'none'}."
            )
        content = self._slots[name].content
        if isinstance(content, UnknownColumns):
            raise content
        return content

    def list_problems(self) -> list[str]:
        """Return the errors of data sets whose columns have to be chosen."""
        contents = [slot.content for slot in self._slots.values()]
        return [str(content) for content in contents if isinstance(content, UnknownColumns)]

    def add_upload(self, name: str, raw: bytes, columns: Columns | None = None) -> dict[str, Any]:
        """Add an uploaded data set, and return its entry; drops the oldest beyond the limit."""
        from whence.data.dataset import read_dataset

        name = clean_file_name(name)
        limit = self._settings.upload * _MAX_EXPANSION
        reader: Callable[..., Dataset] = partial(
            read_dataset, name, raw=raw, most=self._settings.rows, most_bytes=limit
        )
        dataset = reader(**(columns or {}))
        with self._lock:
            key = self._add(name, _DatasetSlot(dataset, reader))
            self._upload_keys.append(key)
            if len(self._upload_keys) > self._settings.kept:
                del self._slots[self._upload_keys.pop(0)]
        return _describe_dataset(key, dataset)

    def reread(self, key: str, columns: Columns) -> dict[str, Any]:
        """Read a data set again by other columns, under the same id, and return its entry."""
        if key not in self._slots:
            self.get(key)  # raises NotFound with the known ids
        reader = self._slots[key].reader
        dataset = reader(**columns)
        with self._lock:
            if key in self._slots:
                self._slots[key] = _DatasetSlot(dataset, reader)
        return _describe_dataset(key, dataset)

    def list_entries(self) -> list[dict[str, Any]]:
        """Return the entries of all data sets in the page's list."""
        return [_describe_dataset(name, slot.content) for name, slot in list(self._slots.items())]

    def _add(self, name: str, slot: _DatasetSlot) -> str:
        key = build_unique_id(getattr(slot.content, "name", name), self._slots)
        self._slots[key] = slot
        return key


def _describe_dataset(key: str, content: "Dataset | UnknownColumns") -> dict[str, Any]:
    if isinstance(content, UnknownColumns):
        return {
            "id": key,
            "name": key,
            "rows": 0,
            "text": "",
            "pair": None,
            "label": None,
            "guessed": [],
            "columns": list(content.columns),
            "problem": describe_error(content),
        }
    return {
        "id": key,
        "name": content.name,
        "rows": len(content.examples),
        "text": content.text or "text",
        "pair": content.pair,
        "label": content.label,
        "guessed": list(content.guessed),
        "columns": list(content.columns),
    }
