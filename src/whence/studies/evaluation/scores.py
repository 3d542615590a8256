"""What is kept of every trial: numbers, and reasons why there is none."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from whence.core.errors import WhenceError
from whence.evaluation.measures import Measure
from whence.evaluation.reasons import Reasons
from whence.evaluation.tested import Numbers, Tested, steps, tested
from whence.explainer import Explanation
from whence.explainer.work import unnamed
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
        self.warned: dict[str, set[int]] = {}  # what must be known of inputs, and of which examples

    def add(self, example: int, trial: Trial, explanations: Mapping[str, Explanation]) -> None:
        """Run all metrics on one trial and keep what they find."""
        for _, message in trial.item.warnings:
            self.warned.setdefault(message, set()).add(example)
        for name, one in explanations.items():
            self.took(
                example,
                name,
                one.passes.forward,
                one.passes.backward,
                one.seconds,
                one.source.dropped,
            )
        for measure in self.measures:
            for name, found in zip(trial.names, tested(measure, trial, self.draws), strict=True):
                self.take(example, name, measure, found)

    @property
    def steps(self) -> list[Part]:
        """What is done with every trial: run a metric, and then on explanations that know nothing."""
        return steps(self.measures, self.draws)

    def took(
        self,
        example: int,
        method: str,
        forward: int,
        backward: int,
        seconds: float | None = None,
        dropped: int = 0,
    ) -> None:
        """Note that a method explained an example, what that took, and how many tokens were cut off before."""
        place = example, self.methods.index(method)
        self.forward[place], self.backward[place] = forward, backward
        self.seconds[place] = np.nan if seconds is None else seconds
        if dropped:
            self.cut.add(example)

    def take(self, example: int, method: str, measure: Measure, found: Tested) -> None:
        """Keep what an explanation gets by a metric, from a trial of now or of an earlier day."""
        place = example, self.methods.index(method)
        if found.value is not None:
            self.values[measure.name][place] = found.value
        if found.null is not None:
            self.nulls[measure.name][place] = found.null
        if found.why is not None:
            self.why_not[method, measure.name].add(found.why, example)
        if found.null_parts is not None:
            self._keep(
                self.null_parts, measure, place, found.part_names, found.null_parts, self.draws
            )
        if found.parts is not None:
            self._keep(self.parts, measure, place, found.part_names, (found.parts,))

    def __len__(self) -> int:
        """How many examples at least one method explained."""
        return int((~np.isnan(self.forward)).any(1).sum())

    def failed(self, example: int, method: str | None, error: WhenceError) -> None:
        """Note that a method, or without a name any method, could not explain an example."""
        own = unnamed(error)
        self.failed_by(example, method, own.code, str(own))

    def failed_by(self, example: int, method: str | None, code: str, why: str) -> None:
        """Note the same of an error that is known by its code and its words."""
        (self.refused if method is None else self.failures[method]).add(why, example, code)

    def _keep(
        self,
        kept: dict[str, Array],
        measure: Measure,
        place: tuple[int, int],
        names: Sequence[str],
        found: Sequence[Numbers],
        draws: int = 1,
    ) -> None:
        """Keep the parts of a value, or of what each draw gets; a short text has fewer rankings."""
        self.part_names.setdefault(measure.name, list(names))
        rows = np.array(found, dtype=np.float64)
        # Begun at another one each time, all of them count the same over the examples.
        rows = rows[(np.arange(draws) + place[0]) % len(rows)]
        if measure.name not in kept:
            shape = (self.examples, len(self.methods), *rows.shape)
            kept[measure.name] = np.full(shape, np.nan)
        kept[measure.name][place] = rows

    def _blank(self) -> Array:
        return np.full((self.examples, len(self.methods)), np.nan)


"""Why something could not be done: counted, and with the first examples it happened to."""

import re
from typing import Any

_NAMED = 5
# What differs between messages of one kind: the value that they quote, and numbers.
_VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\d[\d,.]*")


class Reasons:
    """Counted reasons. Errors that differ by a value only are one, said in the words of the first example's."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, why: str, example: int, code: str | None = None) -> None:
        """Count one example; `code` is that of the error, if it is one."""
        kind = why if code is None else f"{code}: {_VALUES.sub('', why)}"
        own = self._found.setdefault(kind, {"why": why, "examples": []})
        if example < min(own["examples"], default=example):
            own["why"] = why
        own["examples"].append(example)

    def __len__(self) -> int:
        return sum(len(own["examples"]) for own in self._found.values())

    def listed(self) -> list[dict[str, Any]]:
        """Return the reasons as plain data, the most frequent first."""
        rows = [
            {
                "why": own["why"],
                "count": len(own["examples"]),
                "examples": sorted(own["examples"])[:_NAMED],
            }
            for own in self._found.values()
        ]
        return sorted(rows, key=lambda row: (-row["count"], row["examples"]))
