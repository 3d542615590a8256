"""Ranks of methods over all results, gains over chance, failed tests and correlations, for findings.py."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import mean

from bench.science.figure_format import get_cells
from bench.science.rows import ROOT, Facts

from whence.methods import method
from whence.stats.rank import spearman

RESULTS = ROOT / "bench" / "results"
UNITS = {"token": "tokens", "word": "words", "patch": "patches"}
REMOVALS = {"mask": "masked", "delete": "deleted", "mean": "by the mean colour"}


@dataclass(frozen=True)
class ResultMetric:
    """One metric of one result."""

    data: str
    file: str
    path: tuple[str, ...]  # to the evaluation within the file
    metric: str

    @property
    def evaluation(self) -> Facts:
        """The evaluation."""
        found = load_result(self.file)
        for name in self.path:
            found = found[name]
        return found

    @property
    def removal(self) -> str:
        """The removed features, and the removal."""
        setting = self.evaluation["setting"]
        return f"{UNITS[setting['unit']]} {REMOVALS[setting['remove']]}"

    @property
    def gains(self) -> dict[str, float]:
        """The gain of each method over random rankings of the same examples."""
        own = get_cells(self.evaluation, self.metric)
        return {
            name: one["gain"]["mean"]
            for name, one in own.items()
            if one["gain"] and name != "random"
        }


REMOVE = {
    "SST-2": ResultMetric("SST-2", "table-sst2.json", (), "comprehensiveness"),
    "Movies": ResultMetric("Movies", "eraser-movies.json", (), "comprehensiveness"),
    "photographs": ResultMetric("photographs", "pets.json", ("predicted",), "deletion"),
}
KEEP = {
    "SST-2": ResultMetric("SST-2", "table-sst2.json", (), "sufficiency"),
    "Movies": ResultMetric("Movies", "eraser-movies.json", (), "sufficiency"),
    "photographs": ResultMetric("photographs", "pets.json", ("predicted",), "insertion"),
}
TESTS = (*REMOVE.values(), *KEEP.values())
PEOPLE = {
    "Movies": ResultMetric("Movies", "eraser-movies.json", (), "auprc"),
    "photographs": ResultMetric("photographs", "pets.json", ("predicted",), "segmentation_iou"),
}
PIXELS = ResultMetric("photographs", "pets.json", ("predicted",), "positive_perturbation")
FILES = sorted({one.file for one in (*TESTS, *PEOPLE.values())} | {"truth.json"})


@cache
def load_result(file: str) -> Facts:
    """Read a result."""
    found: Facts = json.loads((RESULTS / file).read_text("utf-8"))
    return found


def are_results_complete() -> bool:
    """Return whether all results are stored."""
    return all((RESULTS / file).is_file() for file in FILES)


def count_recovered() -> dict[str, int]:
    """Return the number of sentences of the truth models that each method recovers."""
    own = load_result("truth.json")["methods"]
    return {name: int(one["all"]["recovered"]) for name, one in own.items() if name != "random"}


def count_sentences() -> int:
    """Return the number of sentences of the truth models."""
    return int(next(iter(load_result("truth.json")["methods"].values()))["all"]["sentences"])


def compute_ranks(given: Mapping[str, float]) -> dict[str, float]:
    """Return the rank of each, 1 for the highest; equals share their ranks."""
    values = sorted(given.values(), reverse=True)
    return {
        name: mean(at for at, one in enumerate(values, 1) if one == value)
        for name, value in given.items()
    }


def collect_scores() -> dict[str, Mapping[str, float]]:
    """Return the four scores that methods are ranked by, for the methods that have all of them."""
    found: dict[str, Mapping[str, float]] = {name: one.gains for name, one in REMOVE.items()}
    found["truth"] = {name: float(count) for name, count in count_recovered().items()}
    every = set.intersection(*(set(one) for one in found.values()))
    return {name: {who: one[who] for who in one if who in every} for name, one in found.items()}


def compute_mean_ranks() -> dict[str, float]:
    """Return the mean rank of each method over the four, the best first."""
    each = [compute_ranks(one) for one in collect_scores().values()]
    found = {name: mean(one[name] for one in each) for name in each[0]}
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def get_family(name: str) -> str:
    """Return the family of a method."""
    return str(method.get(name).facts["family"])


def list_failed_tests(name: str) -> list[str]:
    """Return the tests in which a method is not separable from random rankings."""
    found = []
    for one in TESTS:
        cell = get_cells(one.evaluation, one.metric).get(name)
        if cell and cell["mean"] is not None and not cell["beats_random"]:
            found.append(f"{one.metric} on {one.data} (n = {cell['n']})")
    return found


def correlate(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[float, int]:
    """Return Spearman's correlation of two scores over the methods that have both, and their number."""
    both = sorted(set(a) & set(b))
    rho = spearman([[a[name] for name in both]], [[b[name] for name in both]])
    return float(rho[0]), len(both)
