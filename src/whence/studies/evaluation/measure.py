"""Metrics with checked parameters run on trials and random explanations; methods tried on one example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from whence.core.errors import (
    BadParameter,
    InputError,
    NoRule,
    NotCapturable,
    NotFinite,
    UnknownMetric,
    WhenceError,
)
from whence.core.registry import Entry, resolve_entries
from whence.data.eraser import flag_rationale
from whence.data.example import Example
from whence.data.tokens import EncodedInput
from whence.explain.explainer import Explainer
from whence.explain.explanations import Explanations
from whence.explain.request import MethodRequest
from whence.explain.trials import MarkFunction
from whence.metrics import (
    Outcome,
    Steps,
    Trial,
    build_null_trial,
    build_untestable_outcome,
    metric,
    run_metric,
)
from whence.metrics._requests import run_together
from whence.metrics._trial import TrialStep
from whence.stats.intervals import Array


@dataclass(frozen=True)
class MetricRequest:
    """A metric to run, with the values of all its parameters."""

    entry: Entry
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the metric."""
        return self.entry.name

    @property
    def kind(self) -> str:
        """The kind of the metric: faithfulness, agreement, plausibility or another."""
        return str(self.entry.facts["kind"])

    @property
    def sign(self) -> float:
        """1 if higher values are better, else -1."""
        return 1.0 if self.entry.facts["direction"] == "higher" else -1.0

    @property
    def constant(self) -> float | None:
        """The null value, if it is one number for all explanations and inputs."""
        null = self.entry.facts["null"]
        return None if isinstance(null, str) else float(null)

    @property
    def aim(self) -> str:
        """The aim of an explanation relative to the null value: "beat" it, or "reach" it."""
        return str(self.entry.facts.get("aim", "beat"))

    def run(self, trial: Trial) -> Outcome:
        """Run the metric on a trial; an error makes the outcome untestable."""
        outcome: Outcome = run_together([self.ask(trial)])[0]
        return outcome

    def ask(self, trial: Trial) -> Steps[Outcome]:
        """Run the metric as a generator of its requests; an error makes the outcome untestable."""
        try:
            return (yield from run_metric(self.entry, trial, self.params))
        except WhenceError as error:
            return replace(build_untestable_outcome(trial, str(error)), error=error.code)

    def build_null_trials(self, trial: Trial, draws: int) -> list[Trial]:
        """Return random explanations: one trial of them for all rows of the trial, or one for each."""
        rows = range(len(trial.names)) if self.entry.facts["null"] == "shuffles" else [0]
        return [build_null_trial(self.entry, trial, row, draws) for row in rows]

    def aggregate(self, parts: Array, names: Sequence[str]) -> float:
        """Aggregate the parts of some examples, (examples, parts), to one number."""
        columns = {name: parts[:, place] for place, name in enumerate(names)}
        return float(self.entry.facts["aggregate"](columns))

    @property
    def aggregates(self) -> bool:
        """Whether the metric's value for a data set is not the mean over examples."""
        return "aggregate" in self.entry.facts

    def facts(self) -> dict[str, Any]:
        """Return the facts that the metric declares about itself."""
        low, high = self.entry.facts["range"]
        return {
            "metric": self.name,
            "kind": self.kind,
            "direction": self.entry.facts["direction"],
            "range": [_finite_or_none(low), _finite_or_none(high)],
            "formula": self.entry.facts["formula"],
            "cite": self.entry.facts["cite"],
            "params": dict(self.params),
            "aim": self.aim,
            "null_kind": "number" if self.constant is not None else self.entry.facts["null"],
        }


def _finite_or_none(end: float | None) -> float | None:
    return None if end is None or not np.isfinite(end) else float(end)


def resolve_metrics(
    names: str | Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    *,
    rationales: bool = False,
    masks: bool = False,
    pictures: bool = False,
    from_text: bool = False,
) -> list[MetricRequest]:
    """Return the requested metrics with checked parameters; the name of a group stands for all of it.

    None means all metrics that test an explanation as it is: faithfulness, agreement, and plausibility if there are
    rationales, or masks of images. Metrics that repeat every explanation many times must be named.
    """
    if names is None:
        marked = masks if pictures else rationales
        kinds = {"faithfulness", "agreement"} | ({"plausibility"} if marked else set())
        other = "text" if pictures else "picture"
        metric_names = [
            entry.name
            for entry in metric
            if entry.facts["kind"] in kinds
            and entry.facts.get("takes") != other
            and (rationales or not entry.facts.get("rationales", False))
        ]
    else:
        if not isinstance(names, str | Sequence) or not all(isinstance(n, str) for n in names):
            raise UnknownMetric(f"metrics must be a name or a list of names. Got {names!r}.")
        members = [
            [entry.name for entry in metric if entry.facts.get("group") == name] or [name]
            for name in ([names] if isinstance(names, str) else names)
        ]
        metric_names = list(dict.fromkeys(chain(*members)))
    if not metric_names:
        raise UnknownMetric(f"No metric was asked for. Known: {', '.join(metric.names())}.")
    resolved = resolve_entries(
        metric, metric_names, params, argument="metric_params", from_text=from_text
    )
    return [MetricRequest(entry, values) for entry, values in resolved]


def describe_annotations(examples: Sequence[Example]) -> dict[str, bool]:
    """Return which human annotations a data set has, as arguments of `resolve_metrics`."""
    return {
        "rationales": any(example.rationale is not None for example in examples),
        "masks": any(example.mask is not None for example in examples),
        "pictures": any(example.is_image for example in examples),
    }


OptionalFloats = tuple[float | None, ...]  # None: not testable


@dataclass(frozen=True)
class MetricResult:
    """The result of one metric for one explanation of one example."""

    value: float | None
    null: float | None = None  # the mean result of random explanations
    why: str | None = None  # reason for a missing value
    error: str | None = None  # error code, if an error is the reason
    # For metrics with their own aggregate: the parts of the value, and those of each random draw.
    part_names: tuple[str, ...] = ()
    parts: OptionalFloats | None = None
    null_parts: tuple[OptionalFloats, ...] | None = None


def measure_trial(measure: MetricRequest, draws: int, trial: Trial) -> Steps[list[MetricResult]]:
    """Run a metric on all explanations of a trial, and on `draws` random ones, as a generator of its requests."""
    outcome = yield from measure.ask(trial)
    nulls: list[Outcome] = []
    if measure.constant is None and not np.isnan(outcome.values).all():
        for null in measure.build_null_trials(trial, draws):
            nulls.append((yield from measure.ask(null)))
    rows = range(len(trial.names))
    # One trial of random explanations serves all rows, unless each row has its own.
    by_row = [nulls[min(row, len(nulls) - 1)] if nulls else None for row in rows]
    return [_build_result(measure, outcome, by_row[row], row) for row in rows]


def build_trial_steps(measures: Sequence[MetricRequest], draws: int) -> list[TrialStep]:
    """Return one step per metric: run it on a trial, and on random explanations."""
    return [partial(measure_trial, measure, draws) for measure in measures]


def _build_result(
    measure: MetricRequest, outcome: Outcome, null: Outcome | None, row: int
) -> MetricResult:
    """Return the result of the explanation in `row`; `null` is the outcome of random ones."""
    chance, names, own, drawn = measure.constant, tuple(outcome.parts), None, None
    if null is not None and len(known := null.values[~np.isnan(null.values)]):
        chance = float(known.mean())
    if not measure.aggregates:
        names = ()
    elif names:
        own = tuple(_none_if_nan(outcome.parts[name][row]) for name in names)
    if measure.aggregates and null is not None and null.parts:
        names = names or tuple(null.parts)
        draws = np.stack([null.parts[name] for name in names], -1)
        drawn = tuple(tuple(map(_none_if_nan, draw)) for draw in draws)
    value, why = _none_if_nan(outcome.values[row]), outcome.why_not.get(row)
    return MetricResult(value, chance, why, outcome.error, names, own, drawn)


def _none_if_nan(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def build_mark_function(examples: Sequence[Example]) -> MarkFunction | None:
    """Return the function that finds the units marked by an example's rationale."""
    if all(example.rationale is None for example in examples):
        return None

    def find_marks(
        number: int, item: EncodedInput, units: Sequence[tuple[int, ...]]
    ) -> list[bool] | None:
        spans = examples[number].rationale
        return None if spans is None else flag_rationale(units, item.tokens, spans)

    return find_marks


class UnreadableExample(Exception):
    """Raised for an input that no method can read; it says nothing about the methods."""


def try_method(
    explainer: Explainer, text: Any, request: MethodRequest, target: Any, truncate: bool
) -> tuple[NotCapturable | NoRule | None, int]:
    """Try a method on one example; return its error if it cannot explain this model, and backward passes.

    Such a method would make every shared batch fail.
    """
    try:
        result = explainer.explain(
            text, method=request.name, params=request.params, target=target, truncate=truncate
        )
    except InputError as error:
        raise UnreadableExample from error
    except (NotCapturable, NoRule) as error:
        return error, 0
    except (NotFinite, BadParameter):
        return None, 0  # an error of this example only, which may be too short to remove anything
    # A tagger returns one explanation per entity.
    explanations = result.flatten() if isinstance(result, Explanations) else [result]
    return None, sum(explanation.passes.backward for explanation in explanations)
