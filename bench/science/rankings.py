"""The results that are compared on docs/science/README.md, and how: gains over chance, ranks, correlations."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import mean

from bench.science.rows import ROOT, Facts
from bench.science.shown import cells

from whence.methods import method
from whence.stats.rank import spearman

RESULTS = ROOT / "bench" / "results"
UNITS = {"token": "tokens", "word": "words", "patch": "patches"}
REMOVALS = {"mask": "masked", "delete": "deleted", "mean": "by the mean colour"}


@dataclass(frozen=True)
class Test:
    """One metric of one result."""

    data: str
    file: str
    path: tuple[str, ...]  # to the evaluation within the file
    metric: str

    @property
    def found(self) -> Facts:
        """The evaluation."""
        found = kept(self.file)
        for name in self.path:
            found = found[name]
        return found

    @property
    def removal(self) -> str:
        """What is removed, and how."""
        setting = self.found["setting"]
        return f"{UNITS[setting['unit']]} {REMOVALS[setting['remove']]}"

    @property
    def gains(self) -> dict[str, float]:
        """By how much each method is better than random rankings of the same examples."""
        own = cells(self.found, self.metric)
        return {
            name: one["gain"]["mean"]
            for name, one in own.items()
            if one["gain"] and name != "random"
        }


REMOVE = {
    "SST-2": Test("SST-2", "table-sst2.json", (), "comprehensiveness"),
    "Movies": Test("Movies", "eraser-movies.json", (), "comprehensiveness"),
    "photographs": Test("photographs", "pets.json", ("predicted",), "deletion"),
}
KEEP = {
    "SST-2": Test("SST-2", "table-sst2.json", (), "sufficiency"),
    "Movies": Test("Movies", "eraser-movies.json", (), "sufficiency"),
    "photographs": Test("photographs", "pets.json", ("predicted",), "insertion"),
}
TESTS = (*REMOVE.values(), *KEEP.values())
PEOPLE = {
    "Movies": Test("Movies", "eraser-movies.json", (), "auprc"),
    "photographs": Test("photographs", "pets.json", ("predicted",), "segmentation_iou"),
}
PIXELS = Test("photographs", "pets.json", ("predicted",), "positive_perturbation")
FILES = sorted({one.file for one in (*TESTS, *PEOPLE.values())} | {"truth.json"})


@cache
def kept(file: str) -> Facts:
    """Read a result."""
    found: Facts = json.loads((RESULTS / file).read_text("utf-8"))
    return found


def there() -> bool:
    """Say whether all results are there."""
    return all((RESULTS / file).is_file() for file in FILES)


def truth() -> dict[str, int]:
    """Return how many sentences of models whose weights were set by hand each method recovers."""
    own = kept("truth.json")["methods"]
    return {name: int(one["all"]["recovered"]) for name, one in own.items() if name != "random"}


def sentences() -> int:
    """Return how many there are."""
    return int(next(iter(kept("truth.json")["methods"].values()))["all"]["sentences"])


def ranks(given: Mapping[str, float]) -> dict[str, float]:
    """Return the place of each, 1 for the highest; equals share their places."""
    values = sorted(given.values(), reverse=True)
    return {
        name: mean(at for at, one in enumerate(values, 1) if one == value)
        for name, value in given.items()
    }


def orders() -> dict[str, Mapping[str, float]]:
    """Return the four scores that methods are ranked by, for the methods that have all of them."""
    found: dict[str, Mapping[str, float]] = {name: one.gains for name, one in REMOVE.items()}
    found["truth"] = {name: float(count) for name, count in truth().items()}
    every = set.intersection(*(set(one) for one in found.values()))
    return {name: {who: one[who] for who in one if who in every} for name, one in found.items()}


def overall() -> dict[str, float]:
    """Return the mean rank of each method over the four, the best first."""
    each = [ranks(one) for one in orders().values()]
    found = {name: mean(one[name] for one in each) for name in each[0]}
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def family(name: str) -> str:
    """Return the family of a method."""
    return str(method.get(name).facts["family"])


def failed(name: str) -> list[str]:
    """Name the tests in which a method cannot be told from random rankings."""
    found = []
    for one in TESTS:
        cell = cells(one.found, one.metric).get(name)
        if cell and cell["mean"] is not None and not cell["beats_random"]:
            found.append(f"{one.metric} on {one.data} (n = {cell['n']})")
    return found


def alike(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[float, int]:
    """Return Spearman's correlation of two scores of the methods that have both, and how many these are."""
    both = sorted(set(a) & set(b))
    rho = spearman([[a[name] for name in both]], [[b[name] for name in both]])
    return float(rho[0]), len(both)
