"""What a run has stored of an example, noted as if it had been found just now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from whence.core.types import Task
from whence.data import Encoded
from whence.evaluation.agreement import Alike
from whence.evaluation.notes import Notes
from whence.evaluation.tested import Tested
from whence.explainer.verify.again import in_units
from whence.methods import method
from whence.trial import Trial
from whence.trial.changes import Again
from whence.trial.removed import Numbers, Removed

Row = Mapping[str, Any]  # of a table of the store, by the names of its columns


@dataclass(frozen=True)
class Setting:
    """What the rows of a run have in common, as far as comparing explanations with each other needs it."""

    methods: Mapping[str, Mapping[str, Any]]  # their parameters
    unit: str
    seed: int
    task: Task = "single_label"


def take(
    notes: Notes,
    alike: Alike | None,
    number: int,
    explanations: Sequence[Row],
    tests: Sequence[Row],
    setting: Setting,
) -> None:
    """Note one example: the rows of its explanations, and those of their tests.

    Without `alike`, explanations are not compared with each other, and their rows need neither tokens nor scores.
    """
    own = {row["method"]: row for row in explanations}
    made = []
    if refused := next((row for row in own.values() if row["refused"]), None):
        notes.failed_by(number, None, refused["error"], refused["why"])
    for name in notes.methods:
        row = own.get(name)
        if row is None or row["refused"]:
            continue
        if row["error"] is not None:
            notes.failed_by(number, name, row["error"], row["why"])
        else:
            notes.took(number, name, row["forward"], row["backward"], dropped=row["dropped"])
            made.append(row)
    measures = {measure.name: measure for measure in notes.measures}
    explained = {row["method"] for row in made}
    for row in tests:
        if row["method"] in explained and row["metric"] in measures:
            notes.take(number, row["method"], measures[row["metric"]], _tested(row))
    if made and alike is not None:
        alike.add(number, _trial(made, setting))


def _tested(row: Row) -> Tested:
    names, parts, draws = row["part_names"] or (), row["parts"], row["null_parts"]
    return Tested(
        row["value"],
        row["null"],
        row["why"],
        row["error"],
        tuple(names),
        None if parts is None else tuple(parts),
        None if draws is None else _cut(draws, len(names)),
    )


def _cut(flat: Sequence[float | None], size: int) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(flat[at : at + size]) for at in range(0, len(flat), size))


def units(words: Sequence[int | None], unit: str) -> tuple[tuple[int, ...], ...]:
    """Return the places that come and go together, from the number of each token's word."""
    free = [(place, word) for place, word in enumerate(words) if word is not None]
    if unit != "word":
        return tuple((place,) for place, _ in free)
    found: dict[int, list[int]] = {}
    for place, word in free:
        if word >= 0:
            found.setdefault(word, []).append(place)
    return tuple(tuple(found[word]) for word in sorted(found))


def _trial(made: Sequence[Row], setting: Setting) -> Trial:
    """Put explanations side by side, to be compared with each other: there is no model to ask."""
    first, names = made[0], tuple(row["method"] for row in made)
    gone = _Gone()
    own = units(first["words"], setting.unit)
    return Trial(
        item=cast(Encoded, _Kept(tuple(first["ids"]), len(first["scores"]))),
        task=setting.task,
        names=names,
        scores=np.stack([_scores(row, own) for row in made]),
        signed=tuple(_signed(name, setting.methods[name]) for name in names),
        axioms=tuple({one["axiom"]: one["residual"] for one in row["axioms"]} for row in made),
        units=own,
        removed=cast(Removed, gone),
        again=cast(Again, gone),
        marked=None,
        seed=setting.seed,
    )


def _scores(row: Row, own: Sequence[Sequence[int]]) -> Numbers:
    """Return the scores of tokens, such that those of a unit add up to what it has: where they do not, their mean."""
    scores: Numbers = np.array(row["scores"], dtype=np.float64)
    known = row["method"] in method.names()
    if not known or method.get(row["method"]).facts.get("words", "sum") == "sum":
        return scores
    return in_units(scores, own, [float(scores[list(places)].mean()) for places in own])


def _signed(name: str, params: Mapping[str, Any]) -> bool:
    if name not in method.names():
        return True  # of a package that is not installed here
    facts = method.get(name).facts
    depends = facts.get("signed_when")
    return bool(depends(params) if depends else facts["signed"])


@dataclass(frozen=True)
class _Kept:
    """What is kept of an input: how many tokens it has, and what is drawn for it at random."""

    ids: tuple[int, ...]
    length: int
    picture: None = None

    @property
    def key(self) -> tuple[int, ...]:
        # Of a picture it is the hash of its pixels, which is kept with a sign, and a number below zero.
        if self.ids[-1] >= 0:
            return self.ids
        return (self.ids[0] % (1 << 64), *self.ids[1:])

    def __len__(self) -> int:
        return self.length


class _Gone:
    """The model that explanations were about. Measures of agreement do not ask for it."""

    stages: tuple[str, ...] = ()
