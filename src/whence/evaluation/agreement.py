"""How much the methods agree with each other, over a data set."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from whence.evaluation.judge import plain
from whence.evaluation.measures import Measure
from whence.stats.interval import Array
from whence.stats.together import bootstraps
from whence.trial import Trial


class Alike:
    """For each measure of agreement, a number for each two methods and each example."""

    def __init__(self, measures: Sequence[Measure], methods: Sequence[str], examples: int) -> None:
        self._measures = list(measures)
        self._methods = list(methods)
        self._couples = list(combinations(methods, 2))
        self._found = {
            measure.name: np.full((examples, len(self._couples)), np.nan) for measure in measures
        }

    def add(self, example: int, trial: Trial) -> None:
        """Compare the explanations of one trial with each other."""
        for measure in self._measures:
            pairs = measure.of(trial).pairs
            if pairs is None:
                continue
            for place, (a, b) in enumerate(self._couples):
                if a in trial.names and b in trial.names:
                    found = pairs[trial.names.index(a), trial.names.index(b)]
                    self._found[measure.name][example, place] = found

    def matrices(self, order: Sequence[int], seed: int) -> list[dict[str, Any]]:
        """Return the mean agreement of each two methods with its interval, measure by measure."""
        return [
            {"measure": measure.name, "params": dict(measure.params), "a": a, "b": b, **found}
            for measure in self._measures
            for (a, b), found in zip(
                self._couples, self._intervals(self._found[measure.name][order], seed), strict=True
            )
        ]

    def _intervals(self, columns: Array, seed: int) -> list[dict[str, Any]]:
        nothing = {"mean": None, "low": None, "high": None, "n": 0}
        found = bootstraps(columns, ("evaluate", "agreement", seed))
        return [plain(interval) or nothing for interval in found]
