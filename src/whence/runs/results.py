"""Two runs held against each other, example by example, over the examples that both have.

Runs over different data have no example in common, and a difference of their means would say as much about the data
as about the runs; so they are refused.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whence.core.errors import BadExamples
from whence.evaluation.judge import LEVEL, corrected, plain
from whence.evaluation.measures import Measure
from whence.report.shown import VERSION
from whence.run.results.alike import agreements
from whence.run.results.differences import differences
from whence.run.results.evaluated import data_of
from whence.run.results.figures import correct, share_of
from whence.run.results.gathered import Reader
from whence.run.results.noted import Noted, noted
from whence.run.results.summary import Written, about
from whence.stats import Interval, least_p, needed
from whence.stats.interval import Array
from whence.stats.together import bootstraps, sign_flips

if TYPE_CHECKING:
    from whence.run.results import Run

_KEY = ("whence report", "two runs")
# Probabilities of a float32 model are good to about so much, and another batch or machine may round them otherwise.
_ROUNDING = 1e-6
_CHANGED = 10  # predictions that are listed
_LETTERS = 120  # of a text in a list


@dataclass(frozen=True, eq=False)
class RunComparison(Written):
    """What changed from one run to another."""

    _kind: ClassVar[str] = "runs"

    def __repr__(self) -> str:
        told = self.payload
        return f"<RunComparison of {told['a']['name']} and {told['b']['name']}: {told['sentence']}>"


@dataclass(frozen=True)
class Pairs:
    """Two runs, and the numbers of the examples that both have, in an order that no run decides."""

    runs: tuple["Run", "Run"]
    noted: tuple[Noted, Noted]
    numbers: tuple[list[int], list[int]]

    def __len__(self) -> int:
        return len(self.numbers[0])


def compare(a: "Run", b: "Run") -> RunComparison:
    """Compare two runs; `b` is the one that gains or loses."""
    found = noted(a), noted(b)
    pairs = Pairs((a, b), found, _shared(*found))
    if not len(pairs):
        names = " and ".join(repr(one.manifest["data"]["name"]) for one in (a, b))
        raise BadExamples(
            f"The runs {a.name!r} and {b.name!r} have no example in common (data: {names}), so nothing can be "
            "compared example by example. Give two runs over the same data; `whence report DIR` reports on each."
        )
    methods = [name for name in a.methods if name in b.methods]
    gains, tests = _gains(pairs, methods)
    alike, apart = agreements(pairs.runs, found, list(zip(*pairs.numbers, strict=True)), methods)
    said = _predictions(pairs)
    told = {
        "a": _side(a, found[0]),
        "b": _side(b, found[1]),
        "data": {
            "shared": len(pairs),
            "only_a": len(found[0].rows) - len(pairs),
            "only_b": len(found[1].rows) - len(pairs),
        },
        "only": {
            "a": [one for one in [*a.methods, *a.metrics] if one not in {*b.methods, *b.metrics}],
            "b": [one for one in [*b.methods, *b.metrics] if one not in {*a.methods, *a.metrics}],
        },
        "differences": differences(a, b, methods, [one for one in a.metrics if one in b.metrics]),
        "gains": gains,
        "comparisons": tests,
        "needed": needed(max(tests, 1), LEVEL),
        "agreement": alike,
        "predictions": said,
        "apart": apart,
    }
    return RunComparison({"version": VERSION, "kind": "runs", "sentence": _sentence(told), **told})


def _shared(a: Noted, b: Noted) -> tuple[list[int], list[int]]:
    """Return the numbers of the examples of both, by their digests; of copies the first goes with the first."""
    there: dict[str, list[int]] = defaultdict(list)
    for number in reversed(range(len(b.digests))):
        there[b.digests[number]].append(number)
    found = [
        (number, there[digest].pop())
        for digest, number in sorted(zip(a.digests, range(len(a.digests)), strict=True))
        if there[digest]
    ]
    return [one for one, _ in found], [other for _, other in found]


def _side(run: "Run", found: Noted) -> dict[str, Any]:
    return {
        **about(run, found),
        "model": dict(run.manifest["model"]),
        "data": run.manifest["data"]["name"],
        "taken": data_of(run),
    }


def _gains(pairs: Pairs, methods: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """Return how much better the second run is by each method and metric, and how many tests that took."""
    a, b = (one.notes for one in pairs.noted)
    there = {one.name for one in b.measures}
    rows = [(name, one) for one in a.measures if one.name in there for name in methods]
    if not rows:
        return [], 0
    columns = [_columns(pairs, name, measure) for name, measure in rows]
    apart = np.column_stack(
        [
            measure.sign * _difference(own[0], own[1])
            for (_, measure), own in zip(rows, columns, strict=True)
        ]
    )
    p_values = corrected(sign_flips(apart, _KEY, max(10_000, 100 * len(rows))))
    counts = (~np.isnan(apart)).sum(0)
    least = corrected([least_p(int(n)) if n else None for n in counts])
    gains = bootstraps(apart, _KEY)
    found = []
    for place, ((name, measure), own) in enumerate(zip(rows, columns, strict=True)):
        enough = (one := least[place]) is not None and one < LEVEL
        values = [plain(one) for one in bootstraps(np.column_stack(own), _KEY)]
        found.append(
            {
                "method": name,
                "metric": measure.name,
                "direction": measure.entry.facts["direction"],
                **dict(zip(("a", "b", "null_a", "null_b"), values, strict=True)),
                "gain": plain(gains[place]),
                "p": p_values[place],
                "enough": enough,
                "verdict": _verdict(gains[place], p_values[place], enough),
            }
        )
    return found, sum(p is not None for p in p_values)


def _columns(pairs: Pairs, method: str, measure: Measure) -> list[Array]:
    """Return the values of both runs and of random explanations, over the examples that both tested."""
    values, nulls = [], []
    for found, numbers in zip(pairs.noted, pairs.numbers, strict=True):
        place = found.notes.methods.index(method)
        values.append(found.notes.values[measure.name][numbers, place])
        nulls.append(found.notes.nulls[measure.name][numbers, place])
    both = ~np.isnan(values[0]) & ~np.isnan(values[1])
    return [np.where(both, one, np.nan) for one in (*values, *nulls)]


def _difference(one: Array, other: Array) -> Array:
    """Return by how much values differ; rounding, which may lean to one side in every example, is no difference."""
    apart = other - one
    return np.where(np.abs(apart) <= _ROUNDING * np.maximum(1, np.abs(one)), 0 * apart, apart)


def _verdict(gain: Interval | None, p: float | None, enough: bool) -> str:
    if gain is None or p is None:
        return "not tested in both"
    if not enough:
        return "too few examples"
    if p >= LEVEL:
        return "no difference to be told"
    return "better" if gain.mean > 0 else "worse"


def _predictions(pairs: Pairs) -> dict[str, Any]:
    a, b = (
        [found.predicted[number] for number in numbers]
        for found, numbers in zip(pairs.noted, pairs.numbers, strict=True)
    )
    same = np.array(
        [np.nan if None in two else float(two[0] == two[1]) for two in zip(a, b, strict=True)]
    )
    changed = sorted(
        (pairs.noted[0].rows[number], place)
        for place, number in enumerate(pairs.numbers[0])
        if same[place] == 0
    )
    first = changed[:_CHANGED]
    texts = _texts(pairs.runs[0], [row for row, _ in first])
    names = pairs.noted[0]
    return {
        "same": share_of(same),
        "changed": len(changed),
        "accuracy_a": _accuracy(pairs, 0),
        "accuracy_b": _accuracy(pairs, 1),
        "first": [
            {
                "id": names.ids[pairs.numbers[0][place]],
                "a": a[place],
                "b": b[place],
                "label": names.labels[pairs.numbers[0][place]],
                "gold": names.gold_of(pairs.numbers[0][place]),
                "text": texts.get(row, ""),
            }
            for row, place in first
        ],
    }


def _accuracy(pairs: Pairs, side: int) -> dict[str, Any] | None:
    right = correct(pairs.noted[side])
    return None if right is None else share_of(right[pairs.numbers[side]])


def _texts(run: "Run", rows: Sequence[int]) -> dict[int, str]:
    """Return the texts of some rows, cut where they are long."""
    wanted, found = set(rows), dict[int, str]()
    if not wanted:
        return found
    for records in Reader(run.store).records("explanations", ("row", "text", "pair")):
        for one in records:
            if one["row"] in wanted:
                text = " | ".join(part for part in (one["text"], one["pair"]) if part)
                found[one["row"]] = text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
    return found


def _sentence(told: Mapping[str, Any]) -> str:
    return " ".join(_sentences(told))


def _sentences(told: Mapping[str, Any]) -> Iterator[str]:
    shared, tests = told["data"]["shared"], told["comparisons"]
    examples = "1 example" if shared == 1 else f"{shared:,} examples"
    verdicts = Counter(one["verdict"] for one in told["gains"])
    if not tests:
        yield f"The runs have {examples} in common, and no test of them."
    elif not any(one["enough"] for one in told["gains"]):
        yield f"The runs have {examples} in common: too few for a difference to show."
    else:
        count = (
            "the only comparison" if tests == 1 else f"{verdicts['better']} of {tests} comparisons"
        )
        better = (
            ("better in" if verdicts["better"] else "not better in") if tests == 1 else "better in"
        )
        worse = f"worse in {verdicts['worse']}" if verdicts["worse"] else "worse in none"
        yield f"On {examples} of both, the second run is {better} {count} and {worse}."
    if (same := told["predictions"]["same"]) and same["n"]:
        yield f"It predicts the same in {same['mean']:.1%} of them (n={same['n']:,})."
    known = [one for one in told["agreement"] if one["tau"]]
    if known:
        least = min(known, key=lambda one: float(one["tau"]["mean"]))
        whose = f"of {least['method']}" if len(known) == 1 else f"change most by {least['method']}"
        if least["tau"]["mean"] == 1:
            yield "The explanations rank the tokens alike."
        else:
            tau = f"τ-b {least['tau']['mean']:.2f} between the runs (n={least['tau']['n']:,})"
            yield f"The explanations {whose}: {tau}."
