"""What stands in the table of an evaluation, on every surface the same: never a mean without its interval."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from statistics import mode
from typing import Any

from whence.report.text import visible

ARROWS = {"higher": "↑", "lower": "↓"}
NOTHING = "not tested"
CHANCE = "chance"  # a method may be called random

LEGEND = (
    "Mean over the examples [95% bootstrap interval]. ↑ more is better, ↓ less is better. Chance: what random "
    "explanations of the same examples get.",
    "{best}: the best, and what cannot be told from it. {chance}: cannot be told from random explanations, or is "
    "worse. Paired sign-flip tests, corrected by Holm's procedure for all comparisons of a metric, at 5%.",
)


@dataclass(frozen=True)
class Cell:
    """One cell in words, and how it is to be marked."""

    text: str
    best: bool = False
    chance: bool = False  # no better than random explanations, as far as can be told


@dataclass(frozen=True)
class Grid:
    """Methods down, some metrics of one kind across, random explanations last."""

    kind: str
    metrics: tuple[str, ...]
    arrows: tuple[str, ...]
    counts: tuple[str, ...]  # of examples that most methods were tested on; the others say so
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def grids(payload: Mapping[str, Any], across: int) -> Iterator[Grid]:
    """Cut the table of an evaluation into pieces of at most so many metrics."""
    kinds = dict.fromkeys(one["kind"] for one in payload["metrics"])
    for kind in kinds:
        own = [one for one in payload["metrics"] if one["kind"] == kind]
        pieces = -(-len(own) // max(across, 1))
        ends = [-(-len(own) * piece // pieces) for piece in range(pieces + 1)]  # as even as can be
        for start, end in pairwise(ends):
            yield _grid(payload, kind, own[start:end])


def _grid(payload: Mapping[str, Any], kind: str, metrics: Sequence[Mapping[str, Any]]) -> Grid:
    columns = [_column(payload, metric) for metric in metrics]
    names = [one["method"] for one in payload["methods"]]
    return Grid(
        kind,
        tuple(metric["metric"] for metric in metrics),
        tuple(ARROWS[metric["direction"]] for metric in metrics),
        tuple(count for count, _ in columns),
        tuple(
            (name, tuple(cells[place] for _, cells in columns))
            for place, name in enumerate([*names, CHANCE])
        ),
    )


def _column(payload: Mapping[str, Any], metric: Mapping[str, Any]) -> tuple[str, list[Cell]]:
    own = [cell for cell in payload["cells"] if cell["metric"] == metric["metric"]]
    tested = [cell for cell in own if cell["n"]]
    digits = digits_of([*tested, *([metric["null"]] if metric["null"] else [])])
    usual = mode(cell["n"] for cell in tested) if tested else 0
    cells = []
    for cell in own:
        if not cell["n"]:
            cells.append(Cell(NOTHING))
            continue
        text = interval(cell, digits)
        text += "" if cell["n"] == usual else f" n={cell['n']}"
        if metric["null"] is None and cell["null"]:
            text += f", {CHANCE} {number(cell['null']['mean'], digits)}"
        cells.append(Cell(text, cell["best"], not cell["beats_random"]))
    null = metric["null"]
    cells.append(Cell(interval(null, digits) if null else "see each" if tested else NOTHING))
    return (f"n={usual}" if tested else ""), cells


def digits_of(intervals: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many decimals show the width of most intervals in two figures; None where that would be too many."""
    widths = sorted(one["high"] - one["low"] for one in intervals if one["low"] is not None)
    widths = [width for width in widths if width > 0]
    if not widths:
        return 3
    wanted = 1 - floor(log10(widths[len(widths) // 2]))
    return None if wanted > 5 else max(0, min(wanted, 4))


def number(value: float, digits: int | None) -> str:
    """Write one figure."""
    text = f"{value:.3g}" if digits is None else f"{value:.{digits}f}"
    return text.removeprefix("-") if not float(text) else text


def interval(one: Mapping[str, Any], digits: int | None) -> str:
    """Write a mean with its interval; of one example there is none, and of a constant none is needed."""
    mean = number(one["mean"], digits)
    if one["low"] is None:
        return f"{mean} (one example)"
    if one["low"] == one["high"]:
        return f"{mean} (always)"
    return f"{mean} [{number(one['low'], digits)}, {number(one['high'], digits)}]"


def costs(payload: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Return for each method: its name, seconds, forward and backward passes per example, and examples explained."""
    rows = []
    for one in payload["methods"]:
        explained = f"{one['explained']} of {payload['examples']['given']}"
        if one["seconds"] is None:
            rows.append((one["method"], "-", "-", "-", explained))
            continue
        mean = one["seconds"]["mean"]
        digits = 1 - floor(log10(mean)) if 0 < mean < 10 else 0
        # The inputs of a batch share its time: one batch has no spread.
        spread = one["seconds"]["low"] not in (None, one["seconds"]["high"])
        seconds = interval(one["seconds"], digits) if spread else number(mean, digits)
        passes = [f"{one[what]['mean']:.4g}" for what in ("forward", "backward")]
        rows.append((one["method"], seconds, *passes, explained))
    return rows


COSTS = ("method", "seconds per example", "forwards", "backwards", "explained")


def notes(payload: Mapping[str, Any]) -> list[str]:
    """Say what could not be done, and why."""
    lines = [
        f"{_counted(row, 'example')} could not be read: {row['why']}"
        for row in payload["examples"]["why_not"]
    ]
    given = payload["examples"]["given"]
    for one in payload["methods"]:
        for row in one["why_not"]:
            what = "every example" if row["count"] == given else _counted(row, "example")
            lines.append(f"{one['method']} failed for {what}: {row['why']}")
    untested: dict[tuple[str, int, str], list[str]] = {}
    for cell in payload["cells"]:
        for row in cell["why_not"]:
            key = (cell["metric"], row["count"], row["why"])
            untested.setdefault(key, []).append(cell["method"])
    everyone = [one["method"] for one in payload["methods"] if one["explained"]]
    for (metric, count, why), methods in untested.items():
        whom = "" if methods == everyone else f" of {', '.join(methods)}"
        examples = "1 example" if count == 1 else f"{count} examples"
        lines.append(f"{metric}{whom} could not be tested on {examples}: {why}")
    return [visible(line) for line in lines]


def _counted(row: Mapping[str, Any], what: str) -> str:
    count = row["count"]
    named = ", ".join(str(number) for number in row["examples"])
    more = ", ..." if count > len(row["examples"]) else ""
    return f"{count} {what}{'' if count == 1 else 's'} (number {named}{more})"


def headline(payload: Mapping[str, Any]) -> str:
    """Say what was evaluated."""
    setting, examples = payload["setting"], payload["examples"]
    count = len(payload["methods"])
    methods = "1 method" if count == 1 else f"{count} methods"
    removed = f"removed by {setting['remove']}, {setting['unit']} by {setting['unit']}"
    return (
        f"{visible(payload['model']['name'])}: {methods} on {examples['explained']} of "
        f"{examples['given']} examples, {removed}, {setting['rankings']} random explanations each, "
        f"seed {setting['seed']}"
    )


def effort(payload: Mapping[str, Any]) -> str:
    """Say what it took."""
    calls = payload["calls"]
    return (
        f"{calls['forward']:,} forward and {calls['backward']:,} backward passes of the model in all, "
        f"{payload['seconds']:.1f} s."
    )


def agreement(payload: Mapping[str, Any]) -> list[str]:
    """Say which methods agree most and least, by each measure."""
    lines = []
    for measure in dict.fromkeys(row["measure"] for row in payload["agreement"]):
        rows = [r for r in payload["agreement"] if r["measure"] == measure and r["n"]]
        if not rows:
            continue
        rows.sort(key=lambda row: row["mean"])
        digits = digits_of(rows)
        ends = [("", rows[0])] if len(rows) == 1 else [("most ", rows[-1]), ("least ", rows[0])]
        said = "; ".join(
            f"{which}{row['a']} and {row['b']} {interval(row, digits)} n={row['n']}"
            for which, row in ends
        )
        lines.append(f"{measure.replace('_', ' ')}: {said}")
    return lines
