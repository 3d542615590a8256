"""Whether two runs explain the same examples alike, method by method."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.seed import generator
from whence.evaluation.judge import plain
from whence.evaluation.stored import units
from whence.run.results.gathered import Reader, Record
from whence.run.results.noted import Noted
from whence.stats import kendall
from whence.stats.together import bootstraps

if TYPE_CHECKING:
    from whence.run.results import Run

_COMPARED = 1000  # examples: their scores are held in memory, of both runs
_SHOWN = 3  # methods of which examples are shown
_COLUMNS = ("row", "method", "target", "tokens", "words", "scores", "error")
_KEY = ("whence report", "agreement of two runs")


def agreements(
    runs: tuple["Run", "Run"],
    noted: tuple[Noted, Noted],
    shared: Sequence[tuple[int, int]],
    methods: Sequence[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return how much each method's explanations agree between the runs, and where they agree least."""
    chosen = shared[:_COMPARED]
    rows = [(noted[0].rows[a], noted[1].rows[b]) for a, b in chosen]
    found = [_scores(run, {two[side] for two in rows}) for side, run in enumerate(runs)]
    told: list[dict[str, Any]] = []
    apart: list[dict[str, Any]] = []
    for method in methods:
        own = [(found[0].get((a, method)), found[1].get((b, method))) for a, b in rows]
        taus, nulls, equal = _compared(own, [noted[0].digests[a] for a, _ in chosen])
        one, null = bootstraps(np.column_stack([taus, nulls]), _KEY)
        told.append(
            {
                "method": method,
                "tau": plain(one),
                "null": plain(null),
                "equal": equal,
                "why": None
                if one
                else "No example has the same tokens and the same target in both runs.",
            }
        )
        if one is not None and np.nanmin(taus) < 1 and len(apart) < _SHOWN:
            place = int(np.nanargmin(taus))
            sides = [
                _shown(run, each, number, method)
                for run, each, number in zip(runs, noted, chosen[place], strict=True)
            ]
            apart.append(
                {"method": method, "tau": float(taus[place]), "a": sides[0], "b": sides[1]}
            )
    return told, apart


def _scores(run: "Run", rows: set[int]) -> dict[tuple[int, str], Record]:
    return {
        (one["row"], one["method"]): {**one, "scores": np.array(one["scores"], dtype=np.float64)}
        for records in Reader(run.store).records("explanations", _COLUMNS)
        for one in records
        if one["row"] in rows and one["error"] is None
    }


def _compared(
    own: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]], digests: Sequence[str]
) -> tuple[Any, Any, int]:
    """Return the agreement of each example, the same with scores that are dealt out anew, and how many are equal."""
    taus, nulls, equal = np.full(len(own), np.nan), np.full(len(own), np.nan), 0
    for place, (a, b) in enumerate(own):
        if a is None or b is None or a["tokens"] != b["tokens"] or a["target"] != b["target"]:
            continue
        places = [one for (one,) in units(a["words"], "token")]
        if len(places) < 2:
            continue
        one, other = a["scores"][places], b["scores"][places]
        dealt = generator(*_KEY, digests[place]).permutation(other)
        taus[place], nulls[place] = kendall(np.stack([other, dealt]), one)
        equal += bool(np.array_equal(a["scores"], b["scores"]))
    return taus, np.where(np.isnan(taus), np.nan, nulls), equal


def _shown(run: "Run", found: Noted, number: int, method: str) -> dict[str, Any]:
    return {
        "method": method,
        "metric": None,
        "value": None,
        "null": None,
        "row": found.rows[number],
        "id": found.ids[number],
        "label": found.labels[number],
        "says": [],
        "explained": run.explanation(found.rows[number], method),
    }
