"""What is kept of every trial: numbers, and reasons why there is none."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from whence.core.errors import WhenceError
from whence.evaluation.measures import Measure
from whence.evaluation.reasons import Reasons
from whence.explainer import Explanation
from whence.explainer.work import unnamed
from whence.metrics import Outcome
from whence.stats.interval import Array
from whence.trial import Trial
from whence.trial.rehearsal import Part


class Notes:
    """Tables of (examples, methods), one for each metric, that are filled one trial at a time."""

    def __init__(
        self, methods: Sequence[str], measures: Sequence[Measure], examples: int, draws: int
    ) -> None:
        self.methods = list(methods)
        self.measures = list(measures)
        self.draws = draws
        self.examples = examples
        self.values = {measure.name: self._blank() for measure in measures}
        self.nulls = {measure.name: self._blank() for measure in measures}
        # Of metrics with a figure of their own for a data set: (examples, methods, draws or 1, parts).
        self.parts: dict[str, Array] = {}
        self.null_parts: dict[str, Array] = {}
        self.part_names: dict[str, list[str]] = {}
        self.why_not: dict[tuple[str, str], Reasons] = defaultdict(Reasons)
        self.seconds, self.forward, self.backward = (self._blank() for _ in range(3))
        self.failures: dict[str, Reasons] = {name: Reasons() for name in methods}
        self.refused = Reasons()  # inputs that no method was tried on
        self.cut: set[int] = set()  # examples that were too long

    def add(self, example: int, trial: Trial, explanations: Mapping[str, Explanation]) -> None:
        """Run all metrics on one trial and keep what they find."""
        columns = [self.methods.index(name) for name in trial.names]
        for name, explanation in explanations.items():
            place = example, self.methods.index(name)
            self.seconds[place] = explanation.seconds
            self.forward[place] = explanation.passes.forward
            self.backward[place] = explanation.passes.backward
            if explanation.source.dropped:
                self.cut.add(example)
        for measure in self.measures:
            self._measure(example, columns, measure, trial)

    @property
    def steps(self) -> list[Part]:
        """What is done with every trial: run a metric, and then on explanations that know nothing."""
        return [partial(self._run, measure) for measure in self.measures]

    def _run(self, measure: Measure, trial: Trial) -> tuple[Outcome, list[Outcome] | None]:
        """Return what the explanations get by a metric, and others by chance; None where that need not be drawn."""
        found = measure.of(trial)
        if measure.constant is not None or np.isnan(found.values).all():
            return found, None
        return found, measure.nulls(trial, self.draws)

    def __len__(self) -> int:
        """How many examples at least one method explained."""
        return int((~np.isnan(self.seconds)).any(1).sum())

    def failed(self, example: int, method: str | None, error: WhenceError) -> None:
        """Note that a method, or without a name any method, could not explain an example."""
        (self.refused if method is None else self.failures[method]).add(unnamed(error), example)

    def _measure(
        self, example: int, columns: Sequence[int], measure: Measure, trial: Trial
    ) -> None:
        found, nulls = self._run(measure, trial)
        self.values[measure.name][example, columns] = found.values
        for row, why in found.why_not.items():
            self.why_not[trial.names[row], measure.name].add(why, example)
        if measure.constant is not None:
            self.nulls[measure.name][example, columns] = measure.constant
        elif nulls is not None:
            self.nulls[measure.name][example, columns] = [_mean(one.values) for one in nulls]
            if measure.aggregates and all(one.parts for one in nulls):
                self._keep(self.null_parts, measure, example, columns, nulls, self.draws)
        if measure.aggregates and found.parts:
            rows = [
                Outcome(found.values[[row]], parts={n: v[[row]] for n, v in found.parts.items()})
                for row in range(len(columns))
            ]
            self._keep(self.parts, measure, example, columns, rows)

    def _keep(
        self,
        kept: dict[str, Array],
        measure: Measure,
        example: int,
        columns: Sequence[int],
        found: Sequence[Outcome],
        draws: int = 1,
    ) -> None:
        """Keep the parts of one outcome for all columns, or of one for each; a short text has fewer rankings."""
        names = self.part_names.setdefault(measure.name, list(found[0].parts))
        rows = np.stack([np.stack([one.parts[n] for n in names], -1) for one in found])
        # Begun at another one each time, all of them count the same over the examples.
        rows = rows[:, (np.arange(draws) + example) % rows.shape[1]]
        if measure.name not in kept:
            shape = (self.examples, len(self.methods), *rows.shape[1:])
            kept[measure.name] = np.full(shape, np.nan)
        kept[measure.name][example, columns] = rows

    def _blank(self) -> Array:
        return np.full((self.examples, len(self.methods)), np.nan)


def _mean(values: Array) -> float:
    """Return the mean of what could be tested; NaN if nothing could."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
