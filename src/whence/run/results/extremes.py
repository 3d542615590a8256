"""The examples worth looking at: where a method did best and worst, and where methods say different things."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.evaluation.measures import Measure
from whence.evaluation.plan import DECIDING
from whence.evaluation.stored import units
from whence.run.results.gathered import Reader, Record
from whence.run.results.noted import Noted
from whence.stats import kendall
from whence.stats.interval import Array

if TYPE_CHECKING:
    from whence.run.results import Run

METHODS = 6  # that examples are shown of; more nobody reads
_UNTESTED, _CLASSES = 2, 3  # methods, and examples of each, that are shown where nothing was tested
_LOOKED_AT = 500  # examples, for where methods disagree
_FEWEST = 4  # units; fewer agree or not by chance

_SCORES = ("row", "method", "words", "scores", "error")


def deciding(noted: Noted) -> Measure | None:
    """Return the metric that examples are chosen by: one that decides about methods, or the first to be beaten."""
    known = {one.name: one for one in noted.notes.measures if one.aim == "beat"}
    return next((known[name] for name in (*DECIDING, *known) if name in known), None)


def gains_of(noted: Noted, measure: Measure) -> Array:
    """Return by how much each explanation is better than random ones, (examples, methods)."""
    values, nulls = noted.notes.values[measure.name], noted.notes.nulls[measure.name]
    return np.asarray(measure.sign * (values - nulls))


def extremes(run: "Run", noted: Noted) -> list[dict[str, Any]]:
    """Return examples with their explanations, as the report shows them."""
    found = []
    measure = deciding(noted)
    if measure is not None:
        gains = gains_of(noted, measure)
        for place in _best(gains):
            own = gains[:, place]
            for which, pick in (("best", np.nanargmax), ("worst", np.nanargmin)):
                found.append(_shown(run, noted, int(pick(own)), place, measure, which))
    else:
        found = [
            _shown(run, noted, number, place, None, "example")
            for place in range(min(_UNTESTED, len(noted.notes.methods)))
            for number in _some(noted, place)
        ]
    return [*found, *_disagreed(run, noted, measure)]


def _some(noted: Noted, place: int) -> list[int]:
    """Choose examples where nothing was tested: the first that is predicted wrongly, and the first of each class."""
    explained = [
        number
        for number, said in enumerate(noted.predicted)
        if said is not None and not np.isnan(noted.notes.forward[number, place])
    ]
    wrong = [
        number
        for number in explained
        if (gold := noted.gold_of(number)) is not None and gold != noted.predicted[number]
    ]
    firsts = {noted.predicted[number]: number for number in reversed(explained)}
    return sorted(list(dict.fromkeys([*wrong[:1], *sorted(firsts.values())]))[:_CLASSES])


def _best(gains: Array) -> list[int]:
    """Return the methods that were tested on several examples, the best first."""
    tested = np.flatnonzero((~np.isnan(gains)).sum(0) > 1)
    return sorted(tested.tolist(), key=lambda place: -float(np.nanmean(gains[:, place])))[:METHODS]


def _shown(
    run: "Run", noted: Noted, number: int, place: int, measure: Measure | None, which: str
) -> dict[str, Any]:
    notes, method = noted.notes, noted.notes.methods[place]
    told = None if measure is None else (notes.values[measure.name], notes.nulls[measure.name])
    return {
        "which": which,
        "method": method,
        "metric": None if measure is None else measure.name,
        "value": None if told is None else _known(told[0][number, place]),
        "null": None if told is None else _known(told[1][number, place]),
        "direction": None if measure is None else measure.entry.facts["direction"],
        "row": noted.rows[number],
        "id": noted.ids[number],
        "label": noted.labels[number],
        "gold": noted.gold_of(number),
        "says": [],
        "explained": run.explanation(noted.rows[number], method),
    }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _disagreed(run: "Run", noted: Noted, measure: Measure | None) -> Iterator[dict[str, Any]]:
    """Find the example whose explanations agree least; of very many, the first are looked at."""
    if len(noted.notes.methods) < 2:
        return
    looked, least = 0, (2.0, -1)
    for row, own in islice(_scores(run), _LOOKED_AT):
        looked += 1
        if (mean := agreement(own)) is not None:
            least = min(least, (mean, row))
    mean, row = least
    if row < 0:
        return
    number = noted.number(row)
    of = "" if looked == len(noted.rows) else f" of the first {looked:,} examples"
    for place, method in enumerate(noted.notes.methods[:METHODS]):
        if not np.isnan(noted.notes.forward[number, place]):
            said = f"Mean Kendall's τ-b of each two methods here: {mean:.2f}, the lowest{of}."
            yield {
                **_shown(run, noted, number, place, measure, "disagreed"),
                "says": [said],
                "method": method,
            }


def _scores(run: "Run") -> Iterator[tuple[int, list[Record]]]:
    """Go through the scores of every example that several methods explained."""
    for records in Reader(run.store).records("explanations", _SCORES):
        rows: dict[int, list[Record]] = {}
        for record in records:
            if record["error"] is None:
                rows.setdefault(record["row"], []).append(record)
        yield from ((row, own) for row, own in rows.items() if len(own) > 1)


def agreement(own: Sequence[Record]) -> float | None:
    """Return the mean agreement of each two explanations of an example; None where there is none to be had."""
    places = [place for (place,) in units(own[0]["words"], "token")]
    scores = [np.array(one["scores"], dtype=np.float64) for one in own]
    if len(places) < _FEWEST or any(len(one) != len(scores[0]) for one in scores):
        return None
    values = np.stack(scores)[:, places]
    found = [kendall(values[row + 1 :], values[row]) for row in range(len(values) - 1)]
    known = np.concatenate(found)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else None
