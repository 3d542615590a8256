"""ScoreTables: values, nulls, costs and failures by example, method and metric; ReasonCounts of failures."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whence.core.errors import WhenceError
from whence.explain.examine import strip_method_name
from whence.explain.explanation import Explanation
from whence.metrics._trial import Trial
from whence.stats.intervals import Array
from whence.studies.evaluation.measure import MetricRequest, MetricResult


class ScoreTables:
    """Tables of (examples, methods), one for each metric, filled one trial at a time."""

    def __init__(
        self, methods: Sequence[str], measures: Sequence[MetricRequest], examples: int, draws: int
    ) -> None:
        self.methods = list(methods)
        self.measures = list(measures)
        self.draws = draws
        self.examples = examples
        self.values = {measure.name: self._blank() for measure in measures}
        self.nulls = {measure.name: self._blank() for measure in measures}
        # For metrics with their own aggregate over a data set: (examples, methods, draws or 1, parts).
        self.parts: dict[str, Array] = {}
        self.null_parts: dict[str, Array] = {}
        self.part_names: dict[str, list[str]] = {}
        self.why_not: dict[tuple[str, str], ReasonCounts] = defaultdict(ReasonCounts)
        self.seconds, self.forward, self.backward = (self._blank() for _ in range(3))
        self.failures: dict[str, ReasonCounts] = {name: ReasonCounts() for name in methods}
        self.refused = ReasonCounts()  # inputs refused before any method
        self.cut: set[int] = set()  # truncated examples
        # Warnings about inputs, with the indices of their examples.
        self.warned: dict[str, set[int]] = defaultdict(set)

    def add(self, example: int, trial: Trial, explanations: Mapping[str, Explanation]) -> None:
        """Record the results of all metrics on one trial, which was made for `build_trial_steps`."""
        for _, message in trial.item.warnings:
            self.warned[message].add(example)
        for name, explanation in explanations.items():
            passes, dropped = explanation.passes, explanation.source.dropped
            self.record_cost(
                example, name, passes.forward, passes.backward, explanation.seconds, dropped
            )
        for measure, results in zip(self.measures, trial.results, strict=True):
            for name, result in zip(trial.names, results, strict=True):
                self.record_result(example, name, measure, result)

    def record_cost(
        self,
        example: int,
        method: str,
        forward: int,
        backward: int,
        seconds: float | None = None,
        dropped: int = 0,
    ) -> None:
        """Record that a method explained an example, its cost, and the number of truncated tokens."""
        place = example, self.methods.index(method)
        self.forward[place], self.backward[place] = forward, backward
        self.seconds[place] = np.nan if seconds is None else seconds
        if dropped:
            self.cut.add(example)

    def record_result(
        self, example: int, method: str, measure: MetricRequest, result: MetricResult
    ) -> None:
        """Record the result of a metric for an explanation, new or stored."""
        place = example, self.methods.index(method)
        if result.value is not None:
            self.values[measure.name][place] = result.value
        if result.null is not None:
            self.nulls[measure.name][place] = result.null
        if result.why is not None:
            self.why_not[method, measure.name].add(result.why, example)
        own = None if result.parts is None else (result.parts,)
        for tables, parts, draws in (
            (self.parts, own, 1),
            (self.null_parts, result.null_parts, self.draws),
        ):
            if parts is None:
                continue
            self.part_names.setdefault(measure.name, list(result.part_names))
            rows = np.array(parts, dtype=np.float64)
            # Too few rankings are repeated, in each example from another one on, so that all count equally.
            rows = rows[(np.arange(draws) + example) % len(rows)]
            if measure.name not in tables:
                shape = (self.examples, len(self.methods), *rows.shape)
                tables[measure.name] = np.full(shape, np.nan)
            tables[measure.name][place] = rows

    def __len__(self) -> int:
        """Return the number of examples that at least one method explained."""
        return int((~np.isnan(self.forward)).any(1).sum())

    def record_failure(self, example: int, method: str | None, error: WhenceError) -> None:
        """Record that a method, or None for all methods, could not explain an example."""
        own = strip_method_name(error)
        self.record_failure_code(example, method, own.code, str(own))

    def record_failure_code(self, example: int, method: str | None, code: str, why: str) -> None:
        """Record a failure by its error code and message."""
        (self.refused if method is None else self.failures[method]).add(why, example, code)

    def _blank(self) -> Array:
        return np.full((self.examples, len(self.methods)), np.nan)


_MAX_NAMED_EXAMPLES = 5
# The differing parts of messages of one kind: quoted values, and numbers.
_VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\d[\d,.]*")


class ReasonCounts:
    """Counts of reasons; errors that differ only in quoted values count as one.

    The wording is that of the first example.
    """

    def __init__(self) -> None:
        # By kind: the wording for each example.
        self._reasons: dict[str, dict[int, str]] = defaultdict(dict)

    def add(self, why: str, example: int, code: str | None = None) -> None:
        """Count one example; `code` is the error code, if the reason is an error."""
        kind = why if code is None else f"{code}: {_VALUES.sub('', why)}"
        self._reasons[kind][example] = why

    def __len__(self) -> int:
        return sum(map(len, self._reasons.values()))

    def to_list(self) -> list[dict[str, Any]]:
        """Return the reasons as plain data, the most frequent first."""
        rows = []
        for wordings in self._reasons.values():
            examples = sorted(wordings)
            why, named = wordings[examples[0]], examples[:_MAX_NAMED_EXAMPLES]
            rows.append({"why": why, "count": len(examples), "examples": named})
        return sorted(rows, key=lambda row: (-row["count"], row["examples"]))
