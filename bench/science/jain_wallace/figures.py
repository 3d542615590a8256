"""Figures of our cells beside the authors', over seeds; collection of cells into bench/results, and loading."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.science.jain_wallace.cell import ROOT, Cell

RESULTS = ROOT / "bench" / "results" / "jain_wallace"
AUTHORS = json.loads(Path(__file__).with_name("authors.json").read_text())
ALL = "all"
BINS = ("0 to 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 to 1")
PAIRS = {
    "gradient": "τ(attention, gradient)",
    "leave_one_out": "τ(attention, leave-one-out)",
    "leave_one_out_gradient": "τ(leave-one-out, gradient)",
}
DIVERGENCE = {"mean": "mean", "median": "median", "share ≥ 0.595": "at_least_0.595"}
Found = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A figure: its kind, its class, and its path in a cell of ours and of theirs."""

    kind: str
    of: str  # a class, a bin; nothing where it is about all examples
    ours: Callable[[Found], Any]
    theirs: Callable[[Found], Any]
    n: Callable[[Found], Any]
    chief: bool = True  # in the short table


@dataclass(frozen=True)
class Figure:
    """A measure of one kind of model on one data set, over our seeds."""

    measure: Measure
    seeds: tuple[float, ...]
    authors: float | None
    n: int  # the fewest examples of a seed

    @property
    def mean(self) -> float:
        """Ours."""
        return sum(self.seeds) / len(self.seeds)

    @property
    def difference(self) -> float | None:
        """Ours less theirs."""
        return None if self.authors is None else self.mean - self.authors

    @property
    def within(self) -> bool | None:
        """Whether theirs lies between the least and the greatest of our seeds; None with one seed."""
        if self.authors is None or len(self.seeds) < 2:
            return None
        return min(self.seeds) <= self.authors <= max(self.seeds)


def build_getter(*path: str) -> Callable[[Found], Any]:
    """Return a function that follows a path in plain data; None where it ends early."""

    def follow(found: Any) -> Any:
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    return follow


def iterate_measures(facts: Found) -> Iterator[Measure]:
    """Yield all measures of a data set."""
    labels = facts["labels"]
    classes = list(labels) if facts["by_class"] else []
    said = {ALL: "", **labels}
    groups = classes or [ALL]
    for name, key in (("accuracy", "accuracy"), ("F1", "f1"), ("ROC AUC", "roc_auc")):
        path = build_getter("performance", key)
        yield Measure(name, "", path, path, build_getter("performance", "n"), key == "accuracy")
    for pair, title in PAIRS.items():
        for group in (ALL, *classes):
            mean, share = (
                build_getter("tau", pair, group, "mean"),
                build_getter("tau", pair, group, "significant"),
            )
            n = build_getter("tau", pair, group, "n")
            yield Measure(title, said[group], mean, mean, n, group == ALL)
            yield Measure(f"{title}, share p ≤ 0.05", said[group], share, share, n, group == ALL)
    for group in groups:
        for each in BINS:
            of = ", ".join(one for one in (said[group], f"largest weight {each}") if one)
            ours, n = (build_getter("permutation", group, each, key) for key in ("median", "n"))
            yield Measure(
                "permutation, median TVD", of, ours, build_getter("permutation", group, each), n
            )
    for group in groups:
        n = build_getter("adversarial", group, "n")
        for name, key in DIVERGENCE.items():
            path = build_getter("adversarial", group, key)
            title = f"adversarial JSD, {name}"
            yield Measure(title, said[group], path, path, n, key == "mean")


def compute_figures(facts: Found, cells: Sequence[Found], kind: str) -> list[Figure]:
    """Return our seeds' figures beside the authors' of one `kind` (such as sst-bilstm-tanh)."""
    theirs = AUTHORS["cells"].get(kind, {})
    found = []
    for measure in iterate_measures(facts):
        values = [(measure.ours(cell), measure.n(cell)) for cell in cells]
        known = [(value, n) for value, n in values if value is not None]
        if known:
            seeds = tuple(value for value, _ in known)
            fewest = min(n for _, n in known)
            found.append(Figure(measure, seeds, measure.theirs(theirs), fewest))
    return found


def collect_cells(folder: Path, manifest: Path) -> None:
    """Copy the cells of a run into the results, one file for each data set; older cells are replaced."""
    every = json.loads(manifest.read_text())
    new = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    RESULTS.mkdir(parents=True, exist_ok=True)
    for data in dict.fromkeys(Cell.of(cell["cell"]).data for cell in new):
        path = RESULTS / f"{data}.json"
        known = json.loads(path.read_text())["cells"] if path.is_file() else []
        own = [cell for cell in new if Cell.of(cell["cell"]).data == data]
        if trials := [cell["cell"] for cell in own if cell["limit"] is not None]:
            raise SystemExit(f"{trials[0]} was a trial (--limit), and is no result")
        merged = {cell["cell"]: cell for cell in (*known, *own)}
        lines = ",\n".join(json.dumps(merged[name], ensure_ascii=False) for name in sorted(merged))
        facts = json.dumps(every[data], ensure_ascii=False)
        path.write_text(f'{{"data": {facts},\n"cells": [\n{lines}\n]}}\n', encoding="utf-8")


def load_results() -> dict[str, Found]:
    """Return the committed results, {"data": facts, "cells": [...]} by data set, in the authors' order."""
    found = {}
    for data in AUTHORS["vocabulary"]:
        path = RESULTS / f"{data}.json"
        if path.is_file():
            found[data] = json.loads(path.read_text(encoding="utf-8"))
    return found
