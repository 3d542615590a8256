"""What stands in the table of an evaluation, on every surface the same: never a mean without its interval or n."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from statistics import mode
from typing import Any

from whence.report.data import data_told
from whence.report.figures import TOO_FEW, digits_of, interval
from whence.report.table.failure import NOTHING as TESTED_NOTHING
from whence.report.table.failure import failure
from whence.report.table.power import power
from whence.report.text import visible

ARROWS = {"higher": "↑", "lower": "↓"}
NOTHING = "not tested"
CHANCE = "chance"  # a method may be called random

LEGEND = (
    "Mean over the examples [95% bootstrap interval]. ↑ more is better, ↓ less is better. Chance: what random "
    "explanations of the same examples get.",
    "{best}: no other method is better by more than chance. {chance}: cannot be told from random explanations, or is "
    "worse. Paired sign-flip tests, corrected by Holm's procedure for all comparisons of a metric, at 5%.",
)


@dataclass(frozen=True)
class Cell:
    """One cell in words, and how it is to be marked."""

    own: str
    best: bool = False
    chance: bool = False  # no better than random explanations, as far as can be told
    null: str = ""  # what random explanations get, where it is another number for each method

    @property
    def text(self) -> str:
        """All figures on one line."""
        return f"{self.own}, {self.null}" if self.null else self.own


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
    for metrics in pieces_of(payload, across):
        yield _grid(payload, metrics[0]["kind"], metrics)


def pieces_of(payload: Mapping[str, Any], across: int) -> Iterator[list[Mapping[str, Any]]]:
    """Cut the metrics into pieces of one kind."""
    kinds = dict.fromkeys(one["kind"] for one in payload["metrics"])
    for kind in kinds:
        own = [one for one in payload["metrics"] if one["kind"] == kind]
        pieces = -(-len(own) // max(across, 1))
        ends = [-(-len(own) * piece // pieces) for piece in range(pieces + 1)]  # as even as can be
        for start, end in pairwise(ends):
            yield own[start:end]


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
        chance = ""
        if metric["null"] is None and cell["null"]:
            chance = f"{CHANCE} {interval(cell['null'], digits, cell['n'])}"
        marked = cell["beats_random"] is False and cell.get("enough", True)
        cells.append(Cell(interval(cell, digits, usual), cell["best"], marked, chance))
    null = metric["null"]
    last = interval(null, digits, usual) if null else "see each" if tested else NOTHING
    return count_of(own), [*cells, Cell(last)]


def count_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say how many examples most rows are of, and that these are too few, if they are."""
    counts = [row["n"] for row in rows if row["n"]]
    if not counts:
        return ""
    usual = mode(counts)
    few = any(row["n"] == usual and row["low"] is None for row in rows)
    return f"n={usual}: {TOO_FEW}" if few else f"n={usual}"


COSTS = ("method", "seconds per example", "forwards", "backwards", "explained")
COSTS_LEGEND = (
    "Costs are means over the explained examples [95% bootstrap interval]; one number alone: the same for each. "
    "Seconds are timed batch by batch: of fewer than 5 batches no interval is known."
)


def costs(payload: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Return for each method: its name, seconds, forward and backward passes per example, and examples explained."""
    rows = []
    for one in payload["methods"]:
        explained = f"{one['explained']} of {payload['examples']['given']}"
        passes = [
            _passes(one[what], one["explained"]) if one[what] else "-"
            for what in ("forward", "backward")
        ]
        seconds = _seconds(one["seconds"]) if one["seconds"] else "-"
        rows.append((one["method"], seconds, *passes, explained))
    return rows


def _seconds(one: Mapping[str, Any]) -> str:
    mean, n = one["mean"], one["n"]
    digits = 1 - floor(log10(mean)) if 0 < mean < 10 else 0
    return f"{interval(one, digits, n)} ({n} {'batch' if n == 1 else 'batches'})"


def _passes(one: Mapping[str, Any], explained: int) -> str:
    if one.get("least", one["low"]) == one.get("most", one["high"]) and one["mean"] % 1 == 0:
        return f"{one['mean']:.0f}"
    if one["low"] is None and "least" in one:
        return f"{one['mean']:.4g} (from {one['least']:.0f} to {one['most']:.0f})"
    return interval(one, digits_of([one]), explained)


def notes(payload: Mapping[str, Any]) -> list[str]:
    """Say what could not be done, and why."""
    reached = [one["metric"] for one in payload["metrics"] if one.get("aim") == "reach"]
    lines = [f"{name}: what random explanations get is the aim here." for name in reached]
    lines = [f"{TESTED_NOTHING}."] if failure(payload) else lines + notes_of_size(payload)
    lines += [
        f"{_counted(row, 'example')} could not be taken by any method: {row['why']}"
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
    together: dict[tuple[int, str, tuple[str, ...]], list[str]] = {}
    for (metric, count, why), methods in untested.items():
        together.setdefault((count, why, tuple(methods)), []).append(metric)
    for (count, why, who), metrics in together.items():
        whom = "" if list(who) == everyone else f" of {', '.join(who)}"
        examples = "1 example" if count == 1 else f"{count} examples"
        lines.append(f"{', '.join(metrics)}{whom} could not be tested on {examples}: {why}")
    return [visible(line) for line in lines]


def notes_of_size(payload: Mapping[str, Any]) -> list[str]:
    """Say what concerns every figure: that there are too few examples, or that some are copies or not whole."""
    return [*power(payload), *_copies(payload), *_cut(payload), *_warned(payload)]


def _copies(payload: Mapping[str, Any]) -> list[str]:
    given = payload["examples"]["given"]
    different = payload["examples"].get("different", given)
    if different >= given:
        return []
    return [
        f"Only {different} of the {given} examples {'is' if different == 1 else 'are'} different; intervals and "
        "tests take each for an observation of its own, so they promise too much."
    ]


def _warned(payload: Mapping[str, Any]) -> list[str]:
    """Say what must be known of the inputs, such as that they are no pairs."""
    of = payload["examples"]["explained"]
    found = payload["examples"].get("warnings", ())
    return [f"{row['count']} of {of} examples: {visible(row['message'])}" for row in found]


def _cut(payload: Mapping[str, Any]) -> list[str]:
    count, of = payload["examples"].get("cut", 0), payload["examples"]["explained"]
    if not count:
        return []
    verb = "was" if count == 1 else "were"
    said = f"{count} of {of} examples {verb} longer than the model takes and {verb} cut"
    marked = any(one["kind"] == "plausibility" for one in payload["metrics"])
    return [f"{said}, with what people marked beyond." if marked else f"{said}."]


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
    # Nobody knows how anything would have been removed where no example could be explained.
    how = f"removed by {setting['remove']}, {setting['unit']} by {setting['unit']}, "
    removed = how if setting["remove"] else ""
    return (
        f"{' '.join(visible(payload['model']['name']).split())}: {methods} on {examples['explained']} of "
        f"{examples['given']} examples, {removed}{setting['rankings']} random explanations each, "
        f"seed {setting['seed']}"
    )


def data_line(payload: Mapping[str, Any]) -> list[str]:
    """Name the data set, and what was drawn from how many rows; of what an earlier whence wrote, nothing is known."""
    told = data_told(payload.get("data"))
    return [f"{told}."] if told else []


def effort(payload: Mapping[str, Any]) -> list[str]:
    """Say what it took, where that is known."""
    calls, seconds = payload["calls"], payload["seconds"]
    took = [] if seconds is None else [f"{seconds:,.1f} s"]
    if calls is not None:
        took.insert(
            0,
            f"{calls['forward']:,} forward and {calls['backward']:,} backward passes of the model in all",
        )
    return [", ".join(took) + "."] if took else []


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
            f"{which}{row['a']} and {row['b']} {interval(row, digits)}" for which, row in ends
        )
        if null := rows[-1].get("null"):
            said += f"; {CHANCE} {interval(null, digits)}"
        lines.append(f"{measure.replace('_', ' ')}: {said}")
    return lines
