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
