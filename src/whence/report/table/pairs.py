"""Each two methods of an evaluation beside each other: how much better one is, and whether that may be chance."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mode
from typing import Any

from whence.report.figures import digits_of, interval
from whence.report.table.grid import NOTHING, Cell, Grid, count_of, pieces_of

MOST = 6  # methods; more have more pairs than anybody reads
PAIRS_LEGEND = (
    "By how much the first method is better than the second, example by example [95% bootstrap interval], and p of "
    "that difference, corrected with all comparisons of the metric."
)


def pair_grids(payload: Mapping[str, Any], across: int) -> Iterator[Grid]:
    """Return tables of each two methods by some metrics of a kind, if they are few enough to be read."""
    if not 2 <= len(payload["methods"]) <= MOST:
        return
    for metrics in pieces_of(payload, across):
        columns = [
            [pair for pair in payload["pairs"] if pair["metric"] == metric["metric"]]
            for metric in metrics
        ]
        if not all(columns):
            continue
        names = [f"{pair['a']} over {pair['b']}" for pair in columns[0]]
        gains = [[pair["gain"] or {"n": 0, "low": None} for pair in pairs] for pairs in columns]
        cells = [_differences(pairs) for pairs in columns]
        yield Grid(
            "difference",
            tuple(metric["metric"] for metric in metrics),
            ("",) * len(metrics),
            tuple(count_of(own) for own in gains),
            tuple((name, tuple(own[place] for own in cells)) for place, name in enumerate(names)),
        )


def _differences(pairs: Sequence[Mapping[str, Any]]) -> list[Cell]:
    tested = [pair["gain"] for pair in pairs if pair["gain"]]
    digits = digits_of(tested)
    usual = mode(one["n"] for one in tested) if tested else 0
    return [
        Cell(f"{interval(pair['gain'], digits, usual)} p={_p(pair['p'])}")
        if pair["gain"]
        else Cell(NOTHING)
        for pair in pairs
    ]


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def elsewhere(payload: Mapping[str, Any]) -> list[str]:
    """Say where the comparisons of each two methods are to be found, if they are too many for a table."""
    if len(payload["methods"]) <= MOST or not payload["pairs"]:
        return []
    return [
        f"The {len(payload['pairs']):,} comparisons of each two methods are in the JSON object, and one a row in "
        'what `--pairs FILE` and `to_csv(what="pairs")` write.'
    ]
