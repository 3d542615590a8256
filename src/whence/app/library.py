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


"""The kinds of results that whence writes: how one knows them, what they say, and the page of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whence.view.shade import target_name

Payload = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of result."""

    page: Callable[[Payload], str]
    summary: Callable[[Payload], str]
    model: Callable[[Payload], str]


class NoResult(Exception):
    """A file of somebody else's."""


def kind_of(payload: Any) -> str:
    """Return the kind of a stored result, or refuse what is none."""
    said = _said(payload)
    if said not in KINDS:
        which = f", a {said[:40]!r}" if said else ""
        raise NoResult(f"this is no result of whence{which}. Allowed: {', '.join(KINDS)}.")
    return said


def _said(payload: Any) -> str:
    """Return the kind that it states; explanations and cards do not, and are known by what they hold."""
    if not isinstance(payload, dict):
        return ""
    if "kind" in payload:
        return str(payload["kind"])
    if {"methods", "rules"} <= payload.keys():
        return "trust"
    return "explanation" if "explanations" in payload else ""


def _audit(payload: Payload) -> str:
    from whence.audit.result import Audit

    return Audit.from_dict(payload).to_html()


def _evaluation(payload: Payload) -> str:
    return _evaluations({"evaluations": [payload]})


def _evaluations(payload: Payload) -> str:
    from whence.evaluation.evaluation import Evaluation
    from whence.report.table import page

    return page(*(Evaluation.from_dict(one).to_dict() for one in payload["evaluations"]))


def _recommendation(payload: Payload) -> str:
    return _evaluation(payload["evaluation"])


def _comparison(payload: Payload) -> str:
    from whence.comparison.result import Comparison

    return Comparison.from_dict(payload).to_html()


def _trust(payload: Payload) -> str:
    from whence.report.card import page

    return page(payload)


def _explanation(payload: Payload) -> str:
    from whence.report import page

    return page([payload])


def _generation(payload: Payload) -> str:
    from whence.explainer.generation.generation import Generation

    return Generation.from_dict(payload).to_html()


def _name(payload: Payload) -> str:
    return str(payload["model"]["name"])


def _sentence(payload: Payload) -> str:
    return str(payload["sentence"])


def _conclusion(payload: Payload) -> str:
    """Return what an audit says, its question and answer first: a list shows the beginning."""
    from whence.report.audit.wording import QUESTION, answer

    return f"{QUESTION} {answer(payload)}. {payload['conclusion']}"


def _counted(payload: Payload) -> str:
    if payload.get("failure"):
        return str(payload["failure"])
    methods, metrics = payload["methods"], payload["metrics"]
    return f"{len(methods)} methods by {len(metrics)} metrics on {payload['examples']['explained']} examples"


def _explained(payload: Payload) -> str:
    methods = ", ".join(one["method"] for one in payload["explanations"])
    given = payload["input"]["text"] or (payload.get("picture") or {}).get("name") or ""
    return f"{target_name(payload['target'])}, by {methods}: {given}"[:200]


def _several(kind: str) -> Kind:
    """Return the kind of what was explained of one input, for several targets or about several things in it."""

    def page(payload: Payload) -> str:
        from whence.report import page as sheet

        return sheet(payload[kind])

    def summary(payload: Payload) -> str:
        return "; ".join(map(_explained, payload[kind]))[:200]

    return Kind(page, summary, lambda payload: _name(payload[kind][0]))


KINDS: dict[str, Kind] = {
    "audit": Kind(_audit, _conclusion, _name),
    "evaluation": Kind(_evaluation, _counted, _name),
    "evaluations": Kind(
        _evaluations,
        lambda payload: " ".join(payload["removal_matters"]),
        lambda payload: _name(payload["evaluations"][0]),
    ),
    "recommendation": Kind(
        _recommendation, _sentence, lambda payload: _name(payload["evaluation"])
    ),
    "comparison": Kind(
        _comparison,
        _sentence,
        lambda payload: f"{payload['a']['name']} and {payload['b']['name']}",
    ),
    "trust": Kind(_trust, _sentence, _name),
    "explanation": Kind(_explanation, _explained, _name),
    "targets": _several("targets"),
    "entities": _several("entities"),
    "generation": Kind(
        _generation,
        lambda payload: f"{payload['input']['text'] or ''}{payload['text'] or ''}"[:200],
        _name,
    ),
}


"""Stored results: what whence wrote as JSON, in files given at the start or brought in, and the page of each."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whence.core.errors import CannotRead, NotFound, WhenceError
from whence.core.io import read_json
from whence.web.kinds import KINDS, NoResult, kind_of
from whence.web.settings import Settings
from whence.web.uploads import free_id, plain_name

_FILES = 500  # of a folder


@dataclass(frozen=True)
class Stored:
    """One stored result."""

    name: str
    payload: dict[str, Any]
    changed: str | None

    def entry(self, key: str) -> dict[str, Any]:
        """Return what the page's list says of it."""
        kind = kind_of(self.payload)
        return {
            "id": key,
            "kind": kind,
            "name": self.name,
            "model": KINDS[kind].model(self.payload),
            "summary": KINDS[kind].summary(self.payload),
            "changed": self.changed,
        }


class StoredResults:
    """The results of a server: in files and folders given at the start, and brought in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._found: dict[str, Stored] = {}
        self._brought: list[str] = []
        self._problems: list[str] = []
        strangers: list[str] = []
        for path in _files(settings.results):
            self._read(path, strangers)
        if strangers:
            self._problems.append(_passed_over(strangers))

    def listed(self) -> dict[str, Any]:
        """Return the list, and what could not be read."""
        return {
            "results": [one.entry(key) for key, one in list(self._found.items())],
            "problems": list(self._problems),
        }

    def get(self, key: str) -> dict[str, Any]:
        """Return a result as it was written."""
        if key not in self._found:
            raise NotFound(f"There is no stored result {key[:100]!r}.")
        return self._found[key].payload

    def page(self, key: str) -> str:
        """Return whence's own page of a result."""
        payload = self.get(key)
        return _page(self._found[key].name, payload)

    def bring(self, name: str, raw: bytes) -> dict[str, Any]:
        """Take a result that was brought in; the oldest of too many goes."""
        name = plain_name(name)
        try:
            payload = json.loads(raw)
        except (ValueError, RecursionError):
            raise CannotRead(f"{name} is not JSON. Give a file that whence wrote.") from None
        stored = Stored(name, _checked(name, payload), None)
        _page(name, stored.payload)  # better refused now than when somebody wants to see it
        with self._lock:
            key = self._add(stored)
            self._brought.append(key)
            if len(self._brought) > self._settings.kept:
                del self._found[self._brought.pop(0)]
        return stored.entry(key)

    def _read(self, path: Path, strangers: list[str]) -> None:
        try:
            payload = _checked(path.name, read_json(path, "result"))
        except _NotOurs:
            strangers.append(path.name)
            return
        except WhenceError as error:
            self._problems.append(str(error))
            return
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        self._add(Stored(path.name, payload, written.isoformat(timespec="seconds")))

    def _add(self, stored: Stored) -> str:
        key = free_id(stored.name.removesuffix(".json"), self._found)
        self._found[key] = stored
        return key


class _NotOurs(CannotRead):
    """A file that is no result of whence."""


def _passed_over(names: list[str]) -> str:
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    files = "1 file is" if len(names) == 1 else f"{len(names)} files are"
    return f"{files} no result of whence, and passed over: {some}."


def _checked(name: str, payload: Any) -> dict[str, Any]:
    """Refuse what is not a result, or only a part of one."""
    _check_sendable(name, payload)
    with _whole(name):
        Stored(name, payload, None).entry("")
    found: dict[str, Any] = payload
    return found


def _check_sendable(name: str, payload: Any) -> None:
    """Refuse what JSON has no way to say, although Python reads it: NaN, infinity, halves of characters."""
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        what = (
            "half a character" if isinstance(error, UnicodeEncodeError) else "a number that is none"
        )
        raise CannotRead(
            f"{name} holds {what}, which no result of whence does. Give the file as whence wrote it."
        ) from None


def _page(name: str, payload: dict[str, Any]) -> str:
    with _whole(name):
        return KINDS[kind_of(payload)].page(payload)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    try:
        yield
    except NoResult as error:
        raise _NotOurs(f"{name}: {error}") from None
    except WhenceError as error:
        raise CannotRead(f"{name}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CannotRead(
            f"{name} is not a whole result: {type(error).__name__} {error}. Give a file that whence wrote."
        ) from None


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.rglob("*.json"))[:_FILES]
        elif path.exists():
            found.append(path)
        else:
            raise CannotRead(
                f"Cannot read {str(path)!r}: there is no such file or folder. --results takes what whence wrote."
            )
    return list(dict.fromkeys(found))


"""Rows of a stored run: which are wanted, and one of them word by word."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whence.core.errors import NotFound, WhenceError
from whence.web.schema.base import Scale, Source
from whence.web.schema.runs import RunExample, RunRow, RunRows, RunTest, RunWord

if TYPE_CHECKING:
    from whence.run.results import Run
    from whence.run.store.browse import Wanted

PAGE = 50


def rows(run: "Run", wanted: "Wanted", page: int) -> RunRows:
    """Return a page of the rows that are wanted; one beyond the last is empty."""
    from whence.run.store.browse import finite, sheet

    first = page * PAGE
    found = sheet(run.folder, replace(wanted, settings=_settings(run)), first, PAGE)
    shown = [
        RunRow(
            **{
                **{name: value for name, value in record.items() if name != "gold"},
                "label": _label(record),
                "probability": finite(record["probability"]),
            }
        )
        for record in found.records
    ]
    return RunRows(rows=shown, found=found.found, first=first, problems=found.unread)


def falls(metric: str, best: bool) -> bool:
    """Say whether the largest values come first, where the best or the worst are to."""
    from whence.metrics import metric as metrics

    try:
        higher = bool(metrics.get(metric).facts["direction"] == "higher")
    except WhenceError:  # of a package that is not installed here
        higher = True
    return higher == best


def example(run: "Run", row: int, method: str | None) -> RunExample:
    """Return one row as a method explained it; without a method, the first that did."""
    from whence.run.store.browse import finite, of_row

    explained, tested = of_row(run.folder, row, _settings(run))
    by_method = {record["method"]: record for record in explained}
    chosen = by_method.get(next(iter(by_method), "") if method is None else method)
    if chosen is None:
        by = "" if method is None else f" by {method[:100]!r}"
        raise NotFound(f"The run has no explanation{by} of row {row}.")
    name = chosen["method"]
    payload = None if chosen["error"] else run.explanation(row, name)
    given = (
        payload["input"] if payload else {**{k: chosen[k] for k in ("text", "pair")}, "dropped": 0}
    )
    facts = {key: chosen[key] for key in ("target", "predicted", "why")}
    return RunExample(
        **facts,
        label=_label(chosen),
        row=row,
        method=name,
        methods=list(by_method),
        input=Source.model_validate(given),
        probability=finite(chosen["probability"]),
        signed=bool(payload and payload["explanations"][0]["signed"]),
        scale=Scale.model_validate(payload["explanations"][0]["scale"]) if payload else None,
        words=_words(payload) if payload else [],
        tests=[
            RunTest(
                metric=one["metric"],
                value=finite(one["value"]),
                null=finite(one["null"]),
                why=one["why"],
            )
            for one in tested
            if one["method"] == name
        ],
    )


def _label(record: dict[str, Any]) -> str | None:
    """Return the true label as the model calls it, where that is known, else as the data has it."""
    label: str | None = record["gold"] or record["label"]
    return label


def _settings(run: "Run") -> frozenset[str]:
    """Return those that the run asks for now: rows of earlier code or parameters are not shown."""
    from whence.run.store.manifest import settings_of

    return frozenset(settings_of(run.manifest))


def _words(payload: dict[str, Any]) -> list[RunWord]:
    """Return the words with what stands between them."""
    texts = (payload["input"]["text"], payload["input"]["pair"])
    found: list[RunWord] = []
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
        found.append(RunWord(text=word["text"], before=gap, segment=word["segment"], score=score))
        before = word
    return found


"""Data sets: those given at the start, and those that are brought in."""

import re
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadExamples, NotFound, TooLarge
from whence.data.sets.address import file_name
from whence.data.sets.columns import UnknownColumns
from whence.web.errors import fault
from whence.web.settings import Settings

if TYPE_CHECKING:
    from whence.data.sets.examples import Read

Columns = dict[str, str | None]  # text, pair, label

_UNPACKED = 8  # times the size that may be brought in
_STEP = 2**20  # bytes that are unpacked at once


def plain_name(name: str) -> str:
    """Return a file's name without folders and without characters that mean something elsewhere."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w. -]", "_", last).strip(". ")[-100:] or "file"


def free_id(name: str, taken: Any) -> str:
    """Return an id that can stand in an address and that nothing has yet."""
    short = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "file"
    found, number = short, 1
    while found in taken:
        number += 1
        found = f"{short}-{number}"
    return found


@dataclass(frozen=True)
class _Held:
    """A data set, or why it cannot be read by the usual columns, and the way to read it anew by others."""

    read: "Read | UnknownColumns"
    anew: "Callable[..., Read]"


class DataSets:
    """The data sets of a server. Files that are brought in stay in memory, and nowhere else."""

    def __init__(self, settings: Settings) -> None:
        from whence.data.sets.examples import read

        columns = {"text": settings.text, "pair": settings.pair, "label": settings.label}
        self._settings = settings
        self._lock = threading.Lock()
        self._found: dict[str, _Held] = {}
        self._brought: list[str] = []
        for path in settings.data:
            anew: Callable[..., Read] = partial(read, path, most=settings.rows)
            found: Read | UnknownColumns
            try:
                found = anew(**columns)
            except UnknownColumns as error:
                found = error  # they can be chosen on the page
            self._add(file_name(path), _Held(found, anew))

    def get(self, name: str) -> "Read":
        """Return a data set."""
        if name not in self._found:
            raise NotFound(
                f"There is no data set {name[:100]!r}. There are {', '.join(self._found) or 'none'}."
            )
        found = self._found[name].read
        if isinstance(found, UnknownColumns):
            raise found
        return found

    def problems(self) -> list[str]:
        """Say of which data sets the columns have to be chosen, and why."""
        held = [one.read for one in self._found.values()]
        return [str(one) for one in held if isinstance(one, UnknownColumns)]

    def bring(self, name: str, raw: bytes, columns: Columns | None = None) -> dict[str, Any]:
        """Read a file that was brought in, and keep it; the oldest of too many goes."""
        from whence.data.sets.examples import read_bytes

        name = plain_name(name)
        _check_unpacked(name, raw, self._settings.upload * _UNPACKED)
        anew: Callable[..., Read] = partial(read_bytes, name, raw, most=self._settings.rows)
        found = anew(**(columns or {}))
        with self._lock:
            key = self._add(name, _Held(found, anew))
            self._brought.append(key)
            if len(self._brought) > self._settings.kept:
                del self._found[self._brought.pop(0)]
        return _entry(key, found)

    def read_anew(self, key: str, columns: Columns) -> dict[str, Any]:
        """Read a data set by other columns; it stays in its place."""
        if key not in self._found:
            self.get(key)  # which says what there is
        anew = self._found[key].anew
        found = anew(**columns)
        with self._lock:
            if key in self._found:
                self._found[key] = _Held(found, anew)
        return _entry(key, found)

    def entries(self) -> list[dict[str, Any]]:
        """Return what the page's list says."""
        return [_entry(name, held.read) for name, held in list(self._found.items())]

    def _add(self, name: str, found: _Held) -> str:
        key = free_id(getattr(found.read, "name", name), self._found)
        self._found[key] = found
        return key


def _entry(key: str, found: "Read | UnknownColumns") -> dict[str, Any]:
    if isinstance(found, UnknownColumns):
        return {
            "id": key,
            "name": key,
            "rows": 0,
            "text": "",
            "pair": None,
            "label": None,
            "guessed": [],
            "columns": list(found.columns),
            "problem": fault(found),
        }
    return {
        "id": key,
        "name": found.name,
        "rows": len(found),
        "text": found.text or "text",
        "pair": found.pair,
        "label": found.label,
        "guessed": list(found.guessed),
        "columns": list(found.columns),
    }


def _check_unpacked(name: str, raw: bytes, limit: int) -> None:
    """Refuse a small file that holds a very large one, before it is unpacked."""
    from whence.data.sets.parquet import holds_more
    from whence.data.sets.rows import ending_of, is_packed

    ending = ending_of(name)
    plain = _gunzipped(name, raw, limit, keep=ending == ".parquet") if is_packed(name) else raw
    if plain is None or (ending == ".parquet" and holds_more(name, plain, limit)):
        raise TooLarge(f"{name} holds more than {limit:,} bytes when it is unpacked.")


def _gunzipped(name: str, raw: bytes, limit: int, keep: bool) -> bytes | None:
    """Unpack all members of a gzip file, unless they hold more bytes than that; `keep` what they hold, or nothing."""
    rest, parts, size = raw, [], 0
    while rest:
        unpacking = zlib.decompressobj(wbits=31)
        while rest and not unpacking.eof:
            try:
                part = unpacking.decompress(rest, _STEP)
            except zlib.error as error:
                raise BadExamples(
                    f"{name} is not a whole gzip file ({error}). Compress it again."
                ) from None
            size += len(part)
            if size > limit:
                return None
            if keep:
                parts.append(part)
            rest = unpacking.unconsumed_tail
        rest = unpacking.unused_data
    return b"".join(parts)
