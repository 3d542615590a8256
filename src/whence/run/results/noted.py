"""All results of a run, gone through once: numbers by example and method, and what each example is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from whence.core.errors import UnknownMetric
from whence.data.sets.labels import label_names
from whence.evaluation.agreement import Alike
from whence.evaluation.measures import Measure, measures
from whence.evaluation.notes import Notes
from whence.evaluation.stored import Setting, take
from whence.metrics import metric
from whence.run.results.gathered import Reader, Record

if TYPE_CHECKING:
    from whence.run.results import Run

# Examples on which explanations are compared with each other: scores must be read for it, and more tell little more.
COMPARED = 2000

_LIGHT = (
    *("row", "example", "id", "label", "method", "target", "predicted"),
    *("forward", "backward", "dropped", "refused", "error", "why"),
)
_SCORED = ("ids", "words", "scores", "axioms")
_TESTS = (
    "row",
    "method",
    "metric",
    "value",
    "null",
    "part_names",
    "parts",
    "null_parts",
    "error",
    "why",
)
_NAMED = 5


@dataclass
class Noted:
    """What a run found. Lists go by an example's number: its place among those that are there."""

    notes: Notes
    alike: Alike
    rows: list[int]
    digests: list[str]
    ids: list[str]
    labels: list[str | None]
    predicted: list[str | None]
    gold: Mapping[str, str] = field(default_factory=dict)  # what the model calls the data's labels
    failures: list[dict[str, Any]] = field(default_factory=list)
    damage: dict[str, str] = field(default_factory=dict)

    def gold_of(self, number: int) -> str | None:
        """Return an example's true label as the model calls it; None where there is none, or nobody can tell."""
        label = self.labels[number]
        return None if label is None else self.gold.get(label)

    def number(self, row: int) -> int:
        """Return an example's number."""
        return self.rows.index(row)


def noted(run: "Run", agreement: Sequence[str] = ()) -> Noted:
    """Go through the results of a run."""
    manifest, reader = run.manifest, Reader(run.store)
    places = _places(reader)
    rows, count = sorted(places), len(places)
    draws, methods = int(manifest["plan"]["rankings"]), run.methods
    compared = measures(list(agreement)) if agreement and len(methods) > 1 else []
    if strange := [one.name for one in compared if one.kind != "agreement"]:
        raise UnknownMetric(f"{', '.join(strange)} measures no agreement between methods.")
    found = Noted(
        Notes(methods, tests_of(manifest), count, draws),
        Alike(compared, methods, count, draws),
        rows,
        digests=[places[row] for row in rows],
        ids=[""] * count,
        labels=[None] * count,
        predicted=[None] * count,
    )
    numbers = {row: number for number, row in enumerate(rows)}
    setting, reasons = _setting(manifest), _Reasons()
    left = COMPARED if compared else 0
    for window in reader.windows():
        columns = (*_LIGHT, *_SCORED) if left else _LIGHT
        tests = dict(_by_row(reader.of(window, "metrics", _TESTS)))
        for row, own in _by_row(reader.of(window, "explanations", columns)):
            if (number := numbers.get(row)) is None:
                continue  # it came while this was read
            _describe(found, number, own, reasons)
            take(
                found.notes, found.alike if left else None, number, own, tests.get(row, []), setting
            )
            left = max(0, left - 1)
    found.failures, found.damage = reasons.listed(), reader.damage
    found.gold = (labels_of(run.manifest, found.labels) or {}).get("names", {})
    return found


def labels_of(manifest: Mapping[str, Any], said: Sequence[str | None]) -> dict[str, Any] | None:
    """Return what the model calls the labels of the data, and how that is known; None where nobody can tell.

    A run notes it when it begins; of one that an earlier whence began, it is found by the labels that are there.
    """
    if "labels" in manifest["data"]:
        noted: dict[str, Any] | None = manifest["data"]["labels"]
        return noted
    model = manifest["model"]
    known = [one for one in said if one is not None]
    found = label_names(known, tuple(model.get("labels") or ()))
    return None if found is None else found.to_dict()


def tests_of(manifest: Mapping[str, Any]) -> list[Measure]:
    """Return the metrics of a run with their parameters, those that are known here."""
    own = {
        name: digest for tested in manifest["tested"].values() for name, digest in tested.items()
    }
    known = [name for name in manifest["plan"]["metrics"] if name in own and name in metric.names()]
    params = {name: manifest["settings"][own[name]].get("params", {}) for name in known}
    return measures(known, params) if known else []


def params_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the methods of a run with their parameters."""
    settings, digests = manifest["settings"], manifest["explained"]
    return {
        name: dict(settings[digests[name]].get("params", {}))
        for name in manifest["plan"]["methods"]
    }


def _setting(manifest: Mapping[str, Any]) -> Setting:
    plan = manifest["plan"]
    task = manifest["model"].get("task", "single_label")
    return Setting(params_of(manifest), plan["unit"], plan["seed"], task)


def _places(reader: Reader) -> dict[int, str]:
    """Return the digest of every example that is there, by its row."""
    return {
        record["row"]: record["example"]
        for records in reader.records("explanations", ("row", "example"))
        for record in records
    }


def _by_row(records: Sequence[Record]) -> Iterator[tuple[int, list[Record]]]:
    """Put the rows of an example together: they stand side by side."""
    for row, own in groupby(records, key=lambda record: int(record["row"])):
        yield row, list(own)


def _describe(found: Noted, number: int, own: Sequence[Record], reasons: "_Reasons") -> None:
    found.ids[number], found.labels[number] = own[0]["id"], own[0]["label"]
    for record in own:
        if record["error"] is None:
            found.predicted[number] = record["predicted"]
        else:
            reasons.add(record)


class _Reasons:
    """Failures, counted by method and kind of error."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, record: Record) -> None:
        facts = {"method": record["method"], "error": record["error"], "why": record["why"]}
        own = self._found.setdefault(
            (record["method"], record["error"]), {**facts, "count": 0, "first": []}
        )
        own["count"] += 1
        if len(own["first"]) < _NAMED:
            own["first"].append(record["id"])

    def listed(self) -> list[dict[str, Any]]:
        return sorted(
            self._found.values(), key=lambda one: (-one["count"], one["method"], one["error"])
        )
