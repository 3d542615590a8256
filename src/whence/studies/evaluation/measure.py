"""The metrics that were asked for, with their parameters, checked before any work begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whence.core.errors import BadParameter, UnknownMetric, WhenceError, did_you_mean
from whence.core.params import checked
from whence.core.registry import Entry
from whence.data.sets.examples import Example
from whence.metrics import Outcome, metric, null_of, untestable
from whence.stats.interval import Array
from whence.trial import Trial


@dataclass(frozen=True)
class Measure:
    """One metric to run, with all of its parameters."""

    entry: Entry
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.entry.name

    @property
    def kind(self) -> str:
        """What it tests."""
        return str(self.entry.facts["kind"])

    @property
    def sign(self) -> float:
        """1 where more is better, -1 where less is."""
        return 1.0 if self.entry.facts["direction"] == "higher" else -1.0

    @property
    def constant(self) -> float | None:
        """The null, where it is one number for all explanations and inputs."""
        null = self.entry.facts["null"]
        return None if isinstance(null, str) else float(null)

    @property
    def shared(self) -> bool:
        """Whether all explanations of an input have the same null."""
        return bool(self.entry.facts["null"] != "shuffles")

    @property
    def aim(self) -> str:
        """What an explanation should do with the null: "beat" it, or "reach" it."""
        return str(self.entry.facts.get("aim", "beat"))

    def of(self, trial: Trial) -> Outcome:
        """Run the metric; what cannot be asked of the model cannot be tested."""
        try:
            found: Outcome = self.entry.fn(trial, **self.params)
        except WhenceError as error:
            return replace(untestable(trial, str(error)), error=error.code)
        return found

    def nulls(self, trial: Trial, draws: int) -> list[Outcome]:
        """Return what explanations that know nothing get: one outcome for all rows of the trial, or one for each."""
        rows = [0] if self.shared else range(len(trial.names))
        return [self.of(null_of(self.entry, trial, row, draws)) for row in rows]

    def aggregated(self, parts: Array, names: Sequence[str]) -> float:
        """Make one number of the parts of some examples, (examples, parts)."""
        columns = {name: parts[:, place] for place, name in enumerate(names)}
        return float(self.entry.facts["aggregate"](columns))

    @property
    def aggregates(self) -> bool:
        """Whether its value for a data set is something else than the mean."""
        return "aggregate" in self.entry.facts

    def facts(self) -> dict[str, Any]:
        """Return what the metric says about itself, as plain data."""
        low, high = self.entry.facts["range"]
        return {
            "metric": self.name,
            "kind": self.kind,
            "direction": self.entry.facts["direction"],
            "range": [_finite(low), _finite(high)],
            "formula": self.entry.facts["formula"],
            "cite": self.entry.facts["cite"],
            "params": dict(self.params),
            "aim": self.aim,
            "null_kind": "number" if self.constant is not None else self.entry.facts["null"],
        }


def _finite(end: float | None) -> float | None:
    return None if end is None or not np.isfinite(end) else float(end)


def measures(
    names: str | Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    *,
    rationales: bool = False,
    masks: bool = False,
    pictures: bool = False,
    from_text: bool = False,
) -> list[Measure]:
    """Look the metrics up and check their parameters; the name of a group stands for all of it.

    None stands for all that test an explanation as it is: faithfulness, agreement, and plausibility where there are
    rationales, or masks of pictures. Those that make every explanation anew many times over must be named.
    """
    if names is None:
        marked = masks if pictures else rationales
        kinds = {"faithfulness", "agreement"} | ({"plausibility"} if marked else set())
        other = "text" if pictures else "picture"
        wanted = [
            entry.name
            for entry in metric
            if entry.facts["kind"] in kinds
            and entry.facts.get("takes") != other
            and (rationales or not entry.facts.get("rationales", False))
        ]
    else:
        if not isinstance(names, str | Sequence) or not all(isinstance(n, str) for n in names):
            raise UnknownMetric(f"metrics must be a name or a list of names. Got {names!r}.")
        asked = [names] if isinstance(names, str) else names
        wanted = list(dict.fromkeys(own for name in asked for own in _group(name) or [name]))
    if not wanted:
        raise UnknownMetric(f"No metric was asked for. Known: {', '.join(metric.names())}.")
    entries = [metric.get(name) for name in wanted]
    given = _distributed(entries, {} if params is None else params)
    return [
        Measure(
            entry,
            checked(
                entry.name,
                entry.parameters,
                given[entry.name],
                presets=entry.presets,
                from_text=from_text,
            ),
        )
        for entry in entries
    ]


def of_examples(given: Sequence[Example]) -> dict[str, bool]:
    """Say what a data set has, as `measures` wants to know it."""
    return {
        "rationales": any(one.rationale is not None for one in given),
        "masks": any(one.mask is not None for one in given),
        "pictures": any(one.seen for one in given),
    }


def _group(name: str) -> list[str]:
    return [entry.name for entry in metric if entry.facts.get("group") == name]


def _distributed(entries: list[Entry], params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Give each metric its parameters: {metric: {name: value}}, "metric.name", or a name for all that have it."""
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise BadParameter(f"metric_params must map names to values. Got {params!r}.")
    given: dict[str, dict[str, Any]] = {entry.name: {} for entry in entries}
    for key, value in params.items():
        owner, _, name = key.partition(".")
        if owner in given and isinstance(value, Mapping):
            given[owner].update(value)
        elif owner in given and name:
            given[owner][name] = value
        else:
            takers = [e.name for e in entries if key in e.parameters]
            if not takers:
                known = sorted({name for entry in entries for name in entry.parameters})
                raise BadParameter(
                    f"None of the metrics has a parameter {key!r}. They have {', '.join(known) or 'none'}."
                    f"{did_you_mean(key, known)}"
                )
            for taker in takers:
                given[taker][key] = value
    return given


"""From an example to tested numbers: what each of its explanations gets by a metric, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from whence.core.errors import BadParameter, InputError, NoRule, NotCapturable, NotFinite
from whence.data import Encoded
from whence.data.sets.examples import Example, marked
from whence.evaluation.measures import Measure
from whence.explainer import Explainer, Explanation
from whence.explainer.request import Request
from whence.explainer.verify.testing import Marks
from whence.metrics import Outcome
from whence.trial import Trial
from whence.trial.rehearsal import Part

Numbers = tuple[float | None, ...]  # None: it could not be tested


@dataclass(frozen=True)
class Tested:
    """What one explanation of one example gets by one metric."""

    value: float | None
    null: float | None = None  # what explanations that know nothing get
    why: str | None = None  # there is no value
    error: str | None = None  # the code of the error, where that is why
    # Of metrics with a figure of their own for a data set: what the value is made of, and the same of each draw.
    part_names: tuple[str, ...] = ()
    parts: Numbers | None = None
    null_parts: tuple[Numbers, ...] | None = None


def tested(measure: Measure, trial: Trial, draws: int) -> list[Tested]:
    """Run a metric on all explanations of a trial, and on `draws` that know nothing."""
    found, nulls = _run(measure, draws, trial)
    return [
        Tested(
            _known(found.values[row]),
            _null(measure, nulls, row),
            found.why_not.get(row),
            found.error,
            *_parts(measure, found, nulls, row),
        )
        for row in range(len(trial.names))
    ]


def steps(measures: Sequence[Measure], draws: int) -> list[Part]:
    """Return what is done with every trial: run a metric, and then on explanations that know nothing."""
    return [partial(_run, measure, draws) for measure in measures]


def _run(measure: Measure, draws: int, trial: Trial) -> tuple[Outcome, list[Outcome] | None]:
    """Return what the explanations get by a metric, and others by chance; None where that need not be drawn."""
    found = measure.of(trial)
    if measure.constant is not None or np.isnan(found.values).all():
        return found, None
    return found, measure.nulls(trial, draws)


def _null(measure: Measure, nulls: list[Outcome] | None, row: int) -> float | None:
    if measure.constant is not None:
        return measure.constant
    if nulls is None:
        return None
    values = nulls[row if len(nulls) > 1 else 0].values
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _parts(
    measure: Measure, found: Outcome, nulls: list[Outcome] | None, row: int
) -> tuple[tuple[str, ...], Numbers | None, tuple[Numbers, ...] | None]:
    if not measure.aggregates:
        return (), None, None
    own, drawn = None, None
    names = tuple(found.parts)
    if found.parts:
        own = tuple(_known(found.parts[name][row]) for name in names)
    if nulls is not None and all(one.parts for one in nulls):
        chance = nulls[row if len(nulls) > 1 else 0]
        names = names or tuple(chance.parts)
        each = np.stack([chance.parts[name] for name in names], -1)
        drawn = tuple(tuple(map(_known, draw)) for draw in each)
    return names, own, drawn


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def marks_of(given: Sequence[Example]) -> Marks | None:
    """Return the function that says which units of an example its rationale marks."""
    if all(example.rationale is None for example in given):
        return None

    def marks(number: int, item: Encoded, units: Sequence[tuple[int, ...]]) -> list[bool] | None:
        spans = given[number].rationale
        return None if spans is None else marked(units, item.tokens, spans)

    return marks


class Unreadable(Exception):
    """No method can read this input: it says nothing about any of them."""


def tried(
    explainer: Explainer, text: Any, request: Request, target: Any, truncate: bool
) -> tuple[NotCapturable | NoRule | None, int]:
    """Try a method on one example; return why this kind of model cannot do it, if so, and the backward passes.

    Tried together with others, such a method would make every batch fail.
    """
    try:
        made: Explanation | list[Explanation] = explainer.explain(
            text, method=request.name, params=request.params, target=target, truncate=truncate
        )
    except InputError as error:
        raise Unreadable from error
    except (NotCapturable, NoRule) as error:
        return error, 0
    except (NotFinite, BadParameter):
        return (
            None,
            0,
        )  # of this example (it may be too short to remove anything); the others may be well
    # A tagger has one explanation for each entity.
    every = made if isinstance(made, list) else [made]
    return None, sum(one.passes.backward for one in every)


"""How long each method takes to explain an example of the data at hand: measured, as calls do not tell it.

Methods that make as many calls may differ by fifty times in what they do between them.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import WhenceError
from whence.explainer import Explainer
from whence.explainer.request import Request

# What asks the model more often than this is not run to be timed: its calls are counted, at the time of one.
_MOST_CALLS = 100


@dataclass(frozen=True)
class Timed:
    """The seconds of one forward pass, of each method on one example, and the forward passes that it took to know."""

    forward: float
    methods: dict[str, float]  # without those that do not work here
    calls: int


def timed(explainer: Explainer, asked: Sequence[Request], given: Any, tokens: int) -> Timed:
    """Explain one example by each method alone, and time it: what reads a trace twice, as the first time warms up."""
    found: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # what is to be said is said when the examples are explained
        forward, calls = _second(lambda: explainer.predict(given, truncate=True)), 2
        for request in asked:
            extra = 0 if request.reads else request.extra_forwards(tokens)
            if extra > _MOST_CALLS:
                found[request.name] = forward * (1 + extra)
                continue
            explain = _explaining(explainer, request, given)
            try:
                found[request.name] = _second(explain) if request.reads else _took(explain)
            except WhenceError:  # the table will say why it cannot be tested
                continue
            finally:
                calls += 2 if request.reads else 1 + extra
    return Timed(forward, found, calls)


def _explaining(explainer: Explainer, request: Request, given: Any) -> Callable[[], Any]:
    return lambda: explainer.explain(
        given, method=request.name, params=request.params, truncate=True
    )


def _second(run: Callable[[], Any]) -> float:
    run()
    return _took(run)


def _took(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
