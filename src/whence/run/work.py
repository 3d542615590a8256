"""The work on some examples, all together: explain them by some methods, and test that by some metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from whence.core.errors import WhenceError
from whence.evaluation.measures import Measure
from whence.evaluation.portions import Portion, portions
from whence.evaluation.tested import Tested, marks_of, steps, tested
from whence.explainer import Explainer, Explanation
from whence.explainer.aims.each import Failed
from whence.explainer.request import Request
from whence.run.plan import Plan
from whence.run.records import Failure
from whence.run.settings import Settled
from whence.run.task import Item
from whence.run.timing import Testing


@dataclass
class Sheet:
    """What was found: by row of the data and method, and by metric, too."""

    explained: dict[tuple[int, str], Explanation | Failure] = field(default_factory=dict)
    tested: dict[tuple[int, str, str], Tested | Failure] = field(default_factory=dict)

    def add(self, other: "Sheet") -> None:
        """Take over what is on another sheet."""
        self.explained |= other.explained
        self.tested |= other.tested


@dataclass(frozen=True)
class Work:
    """Explains and tests on one model as a plan says. What the model raises goes through."""

    explainer: Explainer
    plan: Plan
    settled: Settled
    batch_size: int  # inputs in one batch at most
    clock: Testing = field(default_factory=Testing)

    def __call__(
        self, items: Sequence[Item], asked: Sequence[Request], measures: Sequence[Measure]
    ) -> Sheet:
        """Return what was found about some examples."""
        sheet = Sheet()
        given = [item.example for item in items]
        refuse = partial(_refused, sheet, items, asked)
        loaded, target = self.explainer.loaded, self.settled.target
        for portion in portions(given, loaded, target, refuse, alone=True):
            some = [items[number] for number in portion.numbers]
            ask = self._trials if measures else self._explanations
            ask(sheet, some, portion, asked, measures)
        return sheet

    def _explanations(
        self,
        sheet: Sheet,
        some: Sequence[Item],
        portion: Portion,
        asked: Sequence[Request],
        measures: Sequence[Measure],
    ) -> None:
        how = self._how(sheet, some, portion, asked)
        texts = [item.example.given for item in some]
        for place, found in self.explainer.explain_each(texts, **how):
            _keep(sheet, some[place], found)

    def _trials(
        self,
        sheet: Sheet,
        some: Sequence[Item],
        portion: Portion,
        asked: Sequence[Request],
        measures: Sequence[Measure],
    ) -> None:
        plan = self.plan
        unit: Any = plan.unit
        trials = self.explainer.trials(
            [item.example.given for item in some],
            remove=self.settled.remove,
            unit=unit,
            marks=marks_of([item.example for item in some]),
            known=portion.known,
            seed=plan.seed,
            parts=[self.clock.begin, *steps(measures, plan.rankings)],
            **self._how(sheet, some, portion, asked),
        )
        for place, trial, found in trials:
            row = some[place].row
            _keep(sheet, some[place], found)
            for measure in measures:
                outcomes = tested(measure, trial, plan.rankings)
                for name, one in zip(trial.names, outcomes, strict=True):
                    sheet.tested[row, name, measure.name] = one
            self.clock.end(trial)

    def _how(
        self, sheet: Sheet, some: Sequence[Item], portion: Portion, asked: Sequence[Request]
    ) -> dict[str, Any]:
        return {
            "method": [one.name for one in asked],
            "params": {one.name: one.params for one in asked},
            "target": portion.target,
            "truncate": self.plan.truncate,
            "failed": _failing(sheet, some, asked),
            "batch_size": self.batch_size,
        }


def _keep(sheet: Sheet, item: Item, found: dict[str, Explanation]) -> None:
    sheet.explained |= {(item.row, name): one for name, one in found.items()}


def _refused(
    sheet: Sheet, items: Sequence[Item], asked: Sequence[Request], place: int, error: WhenceError
) -> None:
    failure = Failure.of(error, refused=True)
    sheet.explained |= {(items[place].row, one.name): failure for one in asked}


def _failing(sheet: Sheet, items: Sequence[Item], asked: Sequence[Request]) -> Failed:
    """Return who is told of an example that failed: by one method, or, without a name, before any was tried."""

    def failed(place: int, name: str | None, error: WhenceError) -> None:
        if name is None:
            _refused(sheet, items, asked, place, error)
        else:
            sheet.explained[items[place].row, name] = Failure.of(error)

    return failed
