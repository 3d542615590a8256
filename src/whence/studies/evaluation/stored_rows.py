"""Stored rows of a run, recorded in the tables of an evaluation; trials of stored explanations, for agreement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from whence.core.types import Task
from whence.data.tokens import EncodedInput
from whence.explain.repeat import replace_unit_scores
from whence.methods import method
from whence.metrics._requests import ExplanationRepeater, Numbers, RemovalPredictions
from whence.metrics._trial import Trial
from whence.studies.evaluation.measure import MetricResult
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import AgreementScores

StoreRow = Mapping[str, Any]  # row of a table of the store, by column name


@dataclass(frozen=True)
class StoredSetting:
    """The settings that all rows of a run share, as needed to compare explanations."""

    methods: Mapping[str, Mapping[str, Any]]  # parameters by method
    unit: str
    seed: int
    task: Task = "single_label"


def record_stored_rows(
    notes: ScoreTables,
    agreement: AgreementScores | None,
    number: int,
    explanations: Sequence[StoreRow],
    tests: Sequence[StoreRow],
    setting: StoredSetting,
) -> None:
    """Record one example of a run: the rows of its explanations and of their metrics.

    Without `agreement`, agreement is not computed, and the rows need neither tokens nor scores.
    """
    own = {row["method"]: row for row in explanations}
    rows = []
    if refused := next((row for row in own.values() if row["refused"]), None):
        notes.record_failure_code(number, None, refused["error"], refused["why"])
    for name in notes.methods:
        row = own.get(name)
        if row is None or row["refused"]:
            continue
        if row["error"] is not None:
            notes.record_failure_code(number, name, row["error"], row["why"])
        else:
            notes.record_cost(number, name, row["forward"], row["backward"], dropped=row["dropped"])
            rows.append(row)
    measures = {measure.name: measure for measure in notes.measures}
    explained = {row["method"] for row in rows}
    for row in tests:
        measure = measures.get(row["metric"])
        if row["method"] in explained and measure is not None:
            notes.record_result(number, row["method"], measure, _parse_metric_result(row))
    if rows and agreement is not None:
        agreement.add(number, _build_stored_trial(rows, setting))


def _parse_metric_result(row: StoreRow) -> MetricResult:
    names, parts, flat = row["part_names"] or (), row["parts"], row["null_parts"]
    size, drawn = len(names), None
    if flat is not None:
        drawn = tuple(tuple(flat[at : at + size]) for at in range(0, len(flat), size))
    own = None if parts is None else tuple(parts)
    figures = (row["value"], row["null"], row["why"], row["error"])
    return MetricResult(*figures, tuple(names), own, drawn)


def find_stored_units(words: Sequence[int | None], unit: str) -> tuple[tuple[int, ...], ...]:
    """Return the token positions of each unit, from the word index of each token."""
    free = [(place, word) for place, word in enumerate(words) if word is not None]
    if unit != "word":
        return tuple((place,) for place, _ in free)
    positions: dict[int, list[int]] = {}
    for place, word in free:
        if word >= 0:
            positions.setdefault(word, []).append(place)
    return tuple(tuple(positions[word]) for word in sorted(positions))


def _build_stored_trial(rows: Sequence[StoreRow], setting: StoredSetting) -> Trial:
    """Return a trial of stored explanations, for metrics of agreement, which ask no model: it has none."""
    first, names = rows[0], tuple(row["method"] for row in rows)
    key = tuple(first["ids"])
    # The key of an image is the hash of its pixels, stored signed, and a negative number.
    if key[-1] < 0:
        key = (key[0] % (1 << 64), *key[1:])
    units = find_stored_units(first["words"], setting.unit)
    return Trial(
        item=cast(EncodedInput, _StoredInput(key, len(first["scores"]))),
        task=setting.task,
        names=names,
        scores=np.stack([_read_scores(row, units) for row in rows]),
        signed=tuple(_is_signed(name, setting.methods[name]) for name in names),
        axioms=tuple(
            {axiom["axiom"]: axiom["residual"] for axiom in row["axioms"]} for row in rows
        ),
        units=units,
        removed=cast(RemovalPredictions, None),
        again=cast(ExplanationRepeater, None),
        marked=None,
        seed=setting.seed,
    )


def _read_scores(row: StoreRow, units: Sequence[Sequence[int]]) -> Numbers:
    """Return token scores that add up to the score of each unit, or to its mean if they do not add up."""
    scores: Numbers = np.array(row["scores"], dtype=np.float64)
    known = row["method"] in method.names()
    if not known or method.get(row["method"]).facts.get("words", "sum") == "sum":
        return scores
    return replace_unit_scores(
        scores, units, [float(scores[list(places)].mean()) for places in units]
    )


def _is_signed(name: str, params: Mapping[str, Any]) -> bool:
    if name not in method.names():
        return True  # the method's package is not installed here
    facts = method.get(name).facts
    depends = facts.get("signed_when")
    return bool(depends(params) if depends else facts["signed"])


@dataclass(frozen=True)
class _StoredInput:
    """A stored input: the numbers that key its random draws, and its length."""

    key: tuple[int, ...]
    length: int
    picture: None = None

    def __len__(self) -> int:
        return self.length
