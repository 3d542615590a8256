"""`Evaluation`, the result of methods by metrics: cells, JSON, removals compared; trials rebuilt from run rows."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, Literal

from whence.core.errors import BadParameter, UnknownMethod, UnknownMetric, suggest_name
from whence.core.files import write_if_path
from whence.core.result import RESULT_VERSION, Result
from whence.render.document import Document, choose_decimals, format_interval
from whence.render.text import escape_formula
from whence.stats.intervals import Interval
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import (
    AgreementScores,
    compare_methods,
    compute_costs,
)


@dataclass(frozen=True)
class Cell:
    """The result of one method by one metric."""

    method: str
    metric: str
    value: Interval | None  # None: no example could be tested
    null: Interval | None  # result of random explanations of the same examples
    gain: Interval | None  # improvement over random explanations, paired by example
    effect: float | None  # the mean gain in units of its spread between examples
    p: float | None  # p-value of the gain, corrected for all comparisons of this metric
    beats_random: bool | None  # None if the result of random explanations is the aim
    best: bool  # the best, or not significantly worse
    why_not: Mapping[str, int]  # reasons why examples could not be tested, counted
    enough: bool  # whether n suffices for a significant difference from random explanations


def _parse_interval(facts: Mapping[str, Any] | None) -> Interval | None:
    if not facts or not facts["n"]:
        return None
    return Interval(facts["mean"], facts["low"], facts["high"], facts["n"])


class Evaluation(Result):
    """Results of methods by metrics over a data set, with intervals and tests of their differences."""

    kind: ClassVar[str] = "evaluation"

    def document(self) -> Document:
        """Return the blocks that every surface shows."""
        from whence.studies.evaluation.report import build_document

        return build_document(self.data)

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return [row["method"] for row in self.data["methods"]]

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order they were asked for."""
        return [row["metric"] for row in self.data["metrics"]]

    @property
    def failure(self) -> str | None:
        """The sentence on why nothing was tested, with the errors and their counts; None where something was."""
        return describe_failure(self.data)

    @property
    def cells(self) -> list[Cell]:
        """One cell for each method and metric."""
        return [
            Cell(
                facts["method"],
                facts["metric"],
                _parse_interval(facts),
                _parse_interval(facts["null"]),
                _parse_interval(facts["gain"]),
                facts["effect"],
                facts["p"],
                facts["beats_random"],
                facts["best"],
                {row["why"]: row["count"] for row in facts["why_not"]},
                facts.get("enough", True),
            )
            for facts in self.data["cells"]
        ]

    def cell(self, method: str, metric: str) -> Cell:
        """Return the result of a method by a metric."""
        self._check(method, metric)
        return next(c for c in self.cells if (c.method, c.metric) == (method, metric))

    def pairs(self, metric: str) -> list[dict[str, Any]]:
        """Return the comparisons of each two methods by a metric: by how much `a` is better than `b`, and p."""
        self._check(None, metric)
        return [dict(pair) for pair in self.data["pairs"] if pair["metric"] == metric]

    def agreement(self, measure: str) -> dict[tuple[str, str], Interval | None]:
        """Return the agreement of each two methods by a measure, keyed by both orders of their names."""
        rows = [row for row in self.data["agreement"] if row["measure"] == measure]
        if not rows:
            known = sorted({row["measure"] for row in self.data["agreement"]})
            raise UnknownMetric(
                f"No agreement was measured by {measure!r}; there is {', '.join(known) or 'none'}."
            )
        intervals = {(row["a"], row["b"]): _parse_interval(row) for row in rows}
        return intervals | {(b, a): interval for (a, b), interval in intervals.items()}

    @property
    def cost(self) -> dict[str, dict[str, Interval | None]]:
        """The cost of each method per example: seconds (their n counts batches), forward and backward passes."""
        return {
            row["method"]: {
                what: _parse_interval(row[what]) for what in ("seconds", "forward", "backward")
            }
            for row in self.data["methods"]
        }

    def _check(self, method: str | None, metric: str) -> None:
        for name, known, error in (
            (metric, self.metrics, UnknownMetric),
            (method, self.methods, UnknownMethod),
        ):
            if name is not None and name not in known:
                near = suggest_name(name, known)
                raise error(f"{name!r} was not evaluated.{near} There are {', '.join(known)}.")

    def to_csv(
        self, path: str | Path | None = None, *, what: Literal["cells", "pairs"] = "cells"
    ) -> str:
        """Return comma separated values, and write them if a path is given.

        One row for each method and metric, or, with what="pairs", for each two methods and metric. A text that a
        spreadsheet would take for a formula gets a single quote before it.
        """
        if what not in ("cells", "pairs"):
            raise BadParameter(f"what must be 'cells' or 'pairs'. Got {what!r}.")
        setting, facts = self.data["setting"], self.data.get("data") or {}
        about = [self.data["model"]["name"], setting["remove"], setting["unit"], setting["seed"]]
        drawn = facts.get("rows") if facts.get("drawn") is None else facts["drawn"]
        sample = [facts.get("name"), facts.get("rows"), drawn, facts.get("seed")]
        rows = _list_cell_figures(self.data) if what == "cells" else _list_pair_figures(self.data)
        stream = StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(_CSV_COLUMNS[what].split())
        writer.writerows(map(escape_formula, [*about, *row, *sample]) for row in rows)
        return write_if_path(stream.getvalue(), path)

    def plot(self, path: str | Path | None = None) -> str:
        """Return a drawing in SVG, a panel for each metric, and write it if a path is given."""
        from whence.render.charts import draw_dots
        from whence.render.text import sanitise_html
        from whence.studies.evaluation.report import build_plot

        plot = build_plot(self.data)
        return write_if_path(
            sanitise_html(draw_dots({**plot, "head": [plot["title"]]}, as_file=True)), path
        )

    def __repr__(self) -> str:
        n = self.data["examples"]["explained"]
        suffix = "" if self.failure is None else f": {self.failure}"
        return f"<Evaluation of {len(self.methods)} methods by {len(self.metrics)} metrics on {n} examples{suffix}>"


def build_evaluation_data(
    notes: ScoreTables,
    agreement: AgreementScores,
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
    """Compute the statistics of the score tables, and return the documented JSON object.

    `methods`: their parameters, in the order of the tables. `origin`: model and provenance. `digests`: of all examples,
    also of those that could not be explained (whence.data.dataset); examples are sorted by digest, so that their given
    order does not matter. `data`: name of the data set, and the sample drawn from it.
    """
    order = sorted(range(len(digests)), key=lambda i: digests[i])
    comparisons = {
        measure.name: compare_methods(notes, measure, order, seed) for measure in notes.measures
    }
    payload = {
        "version": RESULT_VERSION,
        "kind": "evaluation",
        **origin,
        "setting": {**setting, "seed": seed},
        "data": dict(data),
        "examples": {
            "given": len(digests),
            "explained": len(notes),
            "different": len(set(digests)),
            "cut": len(notes.cut),
            "why_not": notes.refused.to_list(),
            "warnings": [
                {"message": message, "count": len(of)} for message, of in notes.warned.items()
            ],
        },
        "methods": [
            {
                "method": name,
                "params": dict(params),
                **compute_costs(notes, notes.methods.index(name), order, seed),
                "why_not": notes.failures[name].to_list(),
            }
            for name, params in methods.items()
        ],
        "metrics": [
            {**measure.facts(), **comparisons[measure.name].facts} for measure in notes.measures
        ],
        "cells": [cell for comparison in comparisons.values() for cell in comparison.cells],
        "pairs": [pair for comparison in comparisons.values() for pair in comparison.pairs],
        "agreement": agreement.matrices(order, seed),
        "calls": calls,
        "seconds": seconds,
    }
    return {**payload, "failure": describe_failure(payload)}


def describe_removal_effects(tables: Sequence[Evaluation]) -> str:
    """Describe, by faithfulness metric, the largest change between removals, and the best methods."""
    ways = {str(table.data["setting"]["remove"]): table.data["cells"] for table in tables}
    if len(tables) < 2:
        return f"There is only one way to remove tokens here: {', '.join(ways)}."
    lines = []
    for metric in tables[0].data["metrics"]:
        by_way = {
            way: {c["method"]: c for c in cells if c["metric"] == metric["metric"] and c["n"]}
            for way, cells in ways.items()
        }
        by_way = {way: by_method for way, by_method in by_way.items() if by_method}
        shared = [m for m in tables[0].methods if all(m in known for known in by_way.values())]
        if metric["kind"] == "faithfulness" and len(by_way) > 1 and shared:
            text = _describe_largest_move(by_way, shared)
            best = _describe_best_methods(by_way) if len(shared) > 1 else ""
            lines.append(f"By {metric['metric']}, {text}{best}.")
    return " ".join(lines) or "No metric could be tested under several removals."


CellsByMethod = Mapping[str, Mapping[str, Any]]


def _describe_largest_move(by_way: Mapping[str, CellsByMethod], methods: Sequence[str]) -> str:
    """Describe the method whose figure differs most between removals."""
    ends = {
        m: sorted((by_way[way][m]["mean"], way) for way in by_way)[:: len(by_way) - 1]
        for m in methods
    }
    name = max(methods, key=lambda m: ends[m][1][0] - ends[m][0][0])
    figures = {way: by_way[way][name] for _, way in ends[name]}
    digits = choose_decimals(list(figures.values()))
    parts = [f"{format_interval(row, digits)} with {way}" for way, row in figures.items()]
    return f"{name} moves most: {', '.join(parts)}"


def _describe_best_methods(by_way: Mapping[str, CellsByMethod]) -> str:
    """Describe the best methods by removal; many are counted, not named."""
    leaders: dict[tuple[str, ...], list[str]] = {}
    for way, cells in by_way.items():
        leaders.setdefault(tuple(m for m in cells if cells[m]["best"]), []).append(way)
    if not any(leaders):
        return "; the examples are too few to say which method is best"
    parts = []
    for names, ways in leaders.items():
        text = f"{' and '.join(names)} cannot be told apart as the best"
        if len(names) < 2:
            text = f"{names[0]} is the best" if names else "none is best"
        elif len(names) > 4:
            text = f"{len(names)} methods cannot be told from the best"
        where = ", whatever the removal" if len(leaders) == 1 else f" with {' and '.join(ways)}"
        parts.append(text + where)
    best = [cell for cells in by_way.values() for cell in cells.values() if cell["best"]]
    some = any(cell["beats_random"] for cell in best)
    return f"; {', '.join(parts)}" + (
        "" if some else "; none of these can be told from random explanations"
    )


_MAX_REASONS = 3  # reasons in the sentence; the notes below the table have all


def describe_failure(data: Mapping[str, Any]) -> str | None:
    """Return why nothing at all was tested; None if there is any result."""
    if any(row["n"] for what in ("cells", "agreement") for row in data[what]):
        return None
    reasons = sorted(list_reasons(data), key=lambda reason: -reason[0])
    texts = [text for _, text in reasons[:_MAX_REASONS]]
    if more := len(reasons) - len(texts):
        texts.append(f"{more} more reason{'' if more == 1 else 's'}")
    why = "; ".join(text.removesuffix(".") for text in texts)
    return f"Nothing was tested: {why or 'agreement is that of two methods, and there is one'}."


def list_reasons(data: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the reasons why examples, methods and metrics have no result, with the number of examples of each."""
    reasons = [
        (row["count"], f"{_name_examples(row)} could not be taken by any method: {row['why']}")
        for row in data["examples"]["why_not"]
    ]
    for entry in data["methods"]:
        for row in entry["why_not"]:
            whole = row["count"] == data["examples"]["given"]
            what = "every example" if whole else _name_examples(row)
            reasons.append((row["count"], f"{entry['method']} failed for {what}: {row['why']}"))
    everyone = tuple(entry["method"] for entry in data["methods"] if entry["explained"])
    methods: dict[tuple[str, int, str], list[str]] = defaultdict(list)
    for cell in data["cells"]:
        for row in cell["why_not"]:
            methods[cell["metric"], row["count"], row["why"]].append(cell["method"])
    for pair in data["agreement"]:
        for row in pair.get("why_not", ()):
            methods[pair["measure"], row["count"], row["why"]] = [*everyone]
    metrics: dict[tuple[int, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (metric, count, why), names in methods.items():
        metrics[count, why, tuple(names)].append(metric)
    for (count, why, who), tests in metrics.items():
        whom = "" if who == everyone else f" of {', '.join(who)}"
        some = "1 example" if count == 1 else f"{count} examples"
        reasons.append((count, f"{', '.join(tests)}{whom} could not be tested on {some}: {why}"))
    return reasons


def _name_examples(row: Mapping[str, Any]) -> str:
    count = row["count"]
    named = ", ".join(str(number) for number in row["examples"])
    more = ", ..." if count > len(row["examples"]) else ""
    return f"{count} example{'' if count == 1 else 's'} (number {named}{more})"


_CSV_COLUMNS = {
    "cells": "model remove unit seed method metric kind direction mean low high n random random_low random_high gain "
    "gain_low gain_high effect p beats_random best enough seconds forward backward untested data rows drawn "
    "drawn_by_seed",
    "pairs": "model remove unit seed metric a b gain low high n p enough data rows drawn drawn_by_seed",
}


def _list_cell_figures(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    costs_of = {entry["method"]: entry for entry in data["methods"]}
    facts_of = {entry["metric"]: entry for entry in data["metrics"]}
    for cell in data["cells"]:
        fact, cost = facts_of[cell["metric"]], costs_of[cell["method"]]
        yield [
            *(cell["method"], cell["metric"], fact["kind"], fact["direction"]),
            *(*_list_ends(cell), cell["n"], *_list_ends(cell["null"]), *_list_ends(cell["gain"])),
            *(cell[name] for name in ("effect", "p", "beats_random", "best")),
            cell.get("enough", True),
            *(_list_ends(cost[what])[0] for what in ("seconds", "forward", "backward")),
            sum(row["count"] for row in cell["why_not"]),
        ]


def _list_pair_figures(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    for pair in data["pairs"]:
        gain = pair["gain"]
        yield [
            *(pair["metric"], pair["a"], pair["b"], *_list_ends(gain), gain["n"] if gain else 0),
            *(pair["p"], pair.get("enough", True)),
        ]


def _list_ends(row: Mapping[str, Any] | None) -> list[Any]:
    return [None, None, None] if row is None else [row[name] for name in ("mean", "low", "high")]
