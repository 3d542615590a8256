"""How much the methods agree with each other, over a data set."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from whence.evaluation.judge import plain
from whence.evaluation.measures import Measure
from whence.evaluation.reasons import Reasons
from whence.stats.known import mean_of_known
from whence.stats.together import bootstraps
from whence.trial import Trial


class Alike:
    """For each measure of agreement, a number for each two methods and each example."""

    def __init__(
        self, measures: Sequence[Measure], methods: Sequence[str], examples: int, draws: int
    ) -> None:
        """`draws` is how many random explanations of an example the methods are compared with, too."""
        self._measures = list(measures)
        self._methods = list(methods)
        self._couples = list(combinations(methods, 2))
        self._found = {
            measure.name: np.full((examples, len(self._couples)), np.nan) for measure in measures
        }
        self._why_not = {measure.name: Reasons() for measure in measures}
        self._random = {measure.name: np.full(examples, np.nan) for measure in measures}
        self._draws = draws

    def add(self, example: int, trial: Trial) -> None:
        """Compare the explanations of one trial with each other."""
        if not self._measures:
            return
        count = len(trial.names)
        both = _beside(trial, trial.null(self._draws))
        for measure in self._measures:
            outcome = measure.of(both)
            pairs = outcome.pairs
            if pairs is None:
                why = next(iter(outcome.why_not.values()), "")
                self._why_not[measure.name].add(why, example)
                continue
            strangers = np.asarray(pairs[:count, count:], dtype=np.float64).reshape(-1)
            self._random[measure.name][example] = mean_of_known(strangers)
            for place, (a, b) in enumerate(self._couples):
                if a in trial.names and b in trial.names:
                    found = pairs[trial.names.index(a), trial.names.index(b)]
                    self._found[measure.name][example, place] = found

    def matrices(self, order: Sequence[int], seed: int) -> list[dict[str, Any]]:
        """Return the mean agreement of each two methods with its interval, measure by measure."""
        return [
            {
                **{"measure": measure.name, "params": dict(measure.params), "a": a, "b": b, **row},
                **({"why_not": why} if (why := self._why_not[measure.name].listed()) else {}),
            }
            for measure in self._measures
            for (a, b), row in zip(self._couples, self._rows(measure, order, seed), strict=True)
        ]

    def _rows(self, measure: Measure, order: Sequence[int], seed: int) -> list[dict[str, Any]]:
        nothing = {"mean": None, "low": None, "high": None, "n": 0}
        columns, key = self._found[measure.name][order], ("evaluate", "agreement", seed)
        random = self._random[measure.name][order][:, None]
        nulls = bootstraps(np.where(np.isnan(columns), np.nan, random), key)
        return [
            {**(plain(own) or nothing), "null": plain(null)}
            for own, null in zip(bootstraps(columns, key), nulls, strict=True)
        ]


def _beside(trial: Trial, other: Trial) -> Trial:
    """Return the explanations of both trials in one, to be compared as they are."""
    return replace(
        trial,
        names=trial.names + other.names,
        scores=np.concatenate([trial.scores, other.scores]),
        signed=trial.signed + other.signed,
        axioms=trial.axioms + other.axioms,
    )
