"""What an evaluation returns: a documented JSON object that can be shown, exported, saved and read back."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from whence.core.errors import (
    BadParameter,
    CannotRead,
    UnknownMethod,
    UnknownMetric,
    did_you_mean,
)
from whence.core.io import read_json, write_text, written
from whence.report.shown import VERSION, Shown
from whence.stats import Interval

__all__ = ["VERSION", "Cell", "Evaluation"]


@dataclass(frozen=True)
class Cell:
    """How one method does by one metric."""

    method: str
    metric: str
    value: Interval | None  # None: no example could be tested
    null: Interval | None  # what random explanations of the same examples get
    gain: Interval | None  # by how much the method is better than those, example by example
    effect: float | None  # the mean gain in units of its spread between examples
    p: float | None  # of the gain, corrected for all comparisons of this metric
    beats_random: bool | None  # None where what random explanations get is the aim
    best: bool  # or not to be told from the best
    why_not: Mapping[str, int]  # reasons why examples could not be tested, counted
    enough: (
        bool  # whether with so few examples it could have been told from random explanations at all
    )


def _interval(facts: Mapping[str, Any] | None) -> Interval | None:
    if not facts or not facts["n"]:
        return None
    return Interval(facts["mean"], facts["low"], facts["high"], facts["n"])


def _cell(facts: Mapping[str, Any]) -> Cell:
    return Cell(
        facts["method"],
        facts["metric"],
        _interval(facts),
        _interval(facts["null"]),
        _interval(facts["gain"]),
        facts["effect"],
        facts["p"],
        facts["beats_random"],
        facts["best"],
        {row["why"]: row["count"] for row in facts["why_not"]},
        facts.get("enough", True),
    )


@dataclass(frozen=True, eq=False)
class Evaluation(Shown):
    """How methods do by metrics over a data set, and which differences are more than chance."""

    _report: ClassVar[str] = "table"

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return [one["method"] for one in self.payload["methods"]]

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order they were asked for."""
        return [one["metric"] for one in self.payload["metrics"]]

    @property
    def failure(self) -> str | None:
        """The sentence on why nothing was tested, with the errors and their counts; None where something was."""
        from whence.report.table.failure import failure

        return failure(self.payload)

    @property
    def cells(self) -> list[Cell]:
        """One cell for each method and metric."""
        return [_cell(facts) for facts in self.payload["cells"]]

    def cell(self, method: str, metric: str) -> Cell:
        """Return how a method does by a metric."""
        self._check(method, metric)
        return next(c for c in self.cells if (c.method, c.metric) == (method, metric))

    def pairs(self, metric: str) -> list[dict[str, Any]]:
        """Return the comparisons of each two methods by a metric: by how much `a` is better than `b`, and p."""
        self._check(None, metric)
        return [dict(pair) for pair in self.payload["pairs"] if pair["metric"] == metric]

    def agreement(self, measure: str) -> dict[tuple[str, str], Interval | None]:
        """Return how much each two methods agree, by a measure of agreement; either order finds it."""
        rows = [row for row in self.payload["agreement"] if row["measure"] == measure]
        if not rows:
            known = sorted({row["measure"] for row in self.payload["agreement"]})
            raise UnknownMetric(
                f"No agreement was measured by {measure!r}; there is {', '.join(known) or 'none'}."
            )
        found = {(row["a"], row["b"]): _interval(row) for row in rows}
        return found | {(b, a): interval for (a, b), interval in found.items()}

    @property
    def cost(self) -> dict[str, dict[str, Interval | None]]:
        """What each method takes per example: seconds (their n counts batches), forward and backward passes."""
        return {
            one["method"]: {
                what: _interval(one[what]) for what in ("seconds", "forward", "backward")
            }
            for one in self.payload["methods"]
        }

    def _check(self, method: str | None, metric: str) -> None:
        if metric not in self.metrics:
            raise UnknownMetric(
                f"{metric!r} was not evaluated.{did_you_mean(metric, self.metrics)} There are "
                f"{', '.join(self.metrics)}."
            )
        if method is not None and method not in self.methods:
            raise UnknownMethod(
                f"{method!r} was not evaluated.{did_you_mean(method, self.methods)} There are "
                f"{', '.join(self.methods)}."
            )

    @classmethod
    def from_dict(cls, payload: Any) -> "Evaluation":
        """Build an evaluation from what `to_dict` returned."""
        if not isinstance(payload, dict) or payload.get("kind") != "evaluation":
            raise CannotRead("This is not a saved evaluation. Give a file that save() wrote.")
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {VERSION}."
            )
        found = cls(payload)
        try:
            _ = found.cells, found.cost, found.metrics, [found.pairs(m) for m in found.metrics]
        except (KeyError, TypeError) as error:
            raise CannotRead(
                f"This is not a saved evaluation: {type(error).__name__} {error}. Give a file that save() wrote."
            ) from None
        return found

    def save(self, path: str | Path) -> Path:
        """Write the evaluation as JSON; numbers come back bit for bit."""
        return write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Evaluation":
        """Read what `save` wrote."""
        return cls.from_dict(read_json(path, "evaluation"))

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the tables in Markdown, and write them if a path is given."""
        from whence.report.table import markdown

        return written(markdown(self.to_dict()), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """Return the tables in LaTeX (needs the package booktabs), and write them if a path is given."""
        from whence.report.table import latex

        return written(latex(self.to_dict()), path)

    def to_csv(
        self, path: str | Path | None = None, *, what: Literal["cells", "pairs"] = "cells"
    ) -> str:
        """Return comma separated values, and write them if a path is given.

        One row for each method and metric, or, with what="pairs", for each two methods and metric. A text that a
        spreadsheet would take for a formula gets a single quote before it.
        """
        from whence.report.table import compared, tidy

        if what not in ("cells", "pairs"):
            raise BadParameter(f"what must be 'cells' or 'pairs'. Got {what!r}.")
        return written((tidy if what == "cells" else compared)(self.to_dict()), path)

    def plot(self, path: str | Path | None = None) -> str:
        """Return a drawing in SVG, a panel for each metric, and write it if a path is given."""
        from whence.report.table.plot import plot

        return written(plot(self.to_dict()), path)

    def __repr__(self) -> str:
        n = self.payload["examples"]["explained"]
        said = "" if self.failure is None else f": {self.failure}"
        return f"<Evaluation of {len(self.methods)} methods by {len(self.metrics)} metrics on {n} examples{said}>"


"""What an evaluation says: of numbers that were found just now, or that a run has stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.evaluation.agreement import Alike
from whence.evaluation.cost import costs
from whence.evaluation.evaluation import VERSION
from whence.evaluation.judge import judged
from whence.evaluation.notes import Notes
from whence.report.table.failure import failure


def payload(
    notes: Notes,
    alike: Alike,
    *,
    methods: Mapping[str, Mapping[str, Any]],
    origin: Mapping[str, Any],
    setting: Mapping[str, Any],
    digests: Sequence[str],
    data: Mapping[str, Any],
    seed: int,
    calls: Mapping[str, int] | None,
    seconds: float | None,
) -> dict[str, Any]:
    """Judge what was noted, and return the documented JSON object.

    `methods`: their parameters, in the order of the notes. `origin`: model and provenance. `digests`: of all
    examples, also of those that could not be explained (whence.data.sets.digest); examples are put in order by them,
    because the same ones in another order are the same data set. `data`: what the data set is called, and what was
    drawn of it.
    """
    order = sorted(range(len(digests)), key=lambda i: digests[i])
    found = {measure.name: judged(notes, measure, order, seed) for measure in notes.measures}
    told = {
        "version": VERSION,
        "kind": "evaluation",
        **origin,
        "setting": {**setting, "seed": seed},
        "data": dict(data),
        "examples": {
            "given": len(digests),
            "explained": len(notes),
            "different": len(set(digests)),
            "cut": len(notes.cut),
            "why_not": notes.refused.listed(),
            "warnings": [
                {"message": message, "count": len(of)} for message, of in notes.warned.items()
            ],
        },
        "methods": [
            {
                "method": name,
                "params": dict(params),
                **costs(notes, notes.methods.index(name), order, seed),
                "why_not": notes.failures[name].listed(),
            }
            for name, params in methods.items()
        ],
        "metrics": [
            {**measure.facts(), **found[measure.name].facts()} for measure in notes.measures
        ],
        "cells": [cell for judgement in found.values() for cell in judgement.cells],
        "pairs": [pair for judgement in found.values() for pair in judgement.pairs],
        "agreement": alike.matrices(order, seed),
        "calls": calls,
        "seconds": seconds,
    }
    return {**told, "failure": failure(told)}


"""How much it matters in which way tokens are removed."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.evaluation.evaluation import Cell, Evaluation
from whence.evaluation.judge import plain
from whence.report.figures import digits_of, interval


def removal_matters(tables: Sequence[Evaluation]) -> str:
    """Say, by each metric of faithfulness, whose mean moves most, and which method is best under which removal."""
    ways = [str(table.payload["setting"]["remove"]) for table in tables]
    if len(tables) < 2:
        return f"There is only one way to remove tokens here: {ways[0]}."
    kinds = {one["metric"]: one["kind"] for one in tables[0].payload["metrics"]}
    lines = [
        line
        for metric, kind in kinds.items()
        if kind == "faithfulness" and (line := _line(tables, ways, metric))
    ]
    return " ".join(lines) or "No metric could be tested under several removals."


def _line(tables: Sequence[Evaluation], ways: Sequence[str], metric: str) -> str:
    cells = {
        way: {c.method: c for c in table.cells if c.metric == metric and c.value}
        for way, table in zip(ways, tables, strict=True)
    }
    cells = {way: found for way, found in cells.items() if found}
    shared = [m for m in tables[0].methods if all(m in found for found in cells.values())]
    if len(cells) < 2 or not shared:
        return ""
    moves = {m: [(_mean(cells[way][m]), way) for way in cells] for m in shared}
    name = max(shared, key=lambda m: max(moves[m])[0] - min(moves[m])[0])
    ends = [way for _, way in (min(moves[name]), max(moves[name]))]
    figures = [plain(cells[way][name].value) or {} for way in ends]
    digits = digits_of(figures)
    low, high = (
        f"{interval(one, digits)} with {way}" for one, way in zip(figures, ends, strict=True)
    )
    said = f"By {metric}, {name} moves most: {low}, {high}"
    if len(shared) == 1:
        return f"{said}."
    return f"{said}; {_who_leads(cells)}."


def _who_leads(cells: Mapping[str, Mapping[str, Cell]]) -> str:
    """Name the methods that are marked as best, by removal; where none could be, say so."""
    if not any(cell.best for found in cells.values() for cell in found.values()):
        return "the examples are too few to say which method is best"
    leaders: dict[tuple[str, ...], list[str]] = {}
    for way, found in cells.items():
        marked = tuple(m for m, cell in found.items() if cell.best)
        leaders.setdefault(marked, []).append(way)
    leading = [cell for found in cells.values() for cell in found.values() if cell.best]
    beaten = any(cell.beats_random for cell in leading)
    chance = "" if beaten else "; none of these can be told from random explanations"
    if len(leaders) == 1:
        ((best, _),) = leaders.items()
        return f"{_named(best)}, whatever the removal{chance}"
    said = [f"{_named(best)} with {' and '.join(ways)}" for best, ways in leaders.items()]
    return ", ".join(said) + chance


def _named(best: Sequence[str]) -> str:
    if not best:
        return "none is best"
    if len(best) == 1:
        return f"{best[0]} is the best"
    if len(best) > 4:
        return f"{len(best)} methods cannot be told from the best"
    return f"{' and '.join(best)} cannot be told apart as the best"


def _mean(cell: Cell) -> float:
    value: Any = cell.value
    return float(value.mean)


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
