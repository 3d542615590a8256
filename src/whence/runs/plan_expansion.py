"""A plan checked before anything is loaded for it: names of groups become the names in them, texts become values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from whence.audit.chosen import choose, names
from whence.audit.experiments import experiment
from whence.core.errors import BadExamples, BadPlan
from whence.core.registry import Entry
from whence.data.sets.examples import Example
from whence.data.sets.source import Bad, Source
from whence.evaluation.measures import measures, of_examples
from whence.evaluation.run import default_methods
from whence.explainer.request import requests
from whence.methods import method
from whence.metrics import metric
from whence.run.plan import Plan

ALL, READERS, NONE = "all", "readers", "none"
AGREEMENT = "agreement"
_SEEN = 64  # rows that are looked at to know what kind of data it is

# In place of a model's own ways to remove tokens or patches, as long as none is loaded.
_TEXT_FILLERS = {"mask": 0, "pad": 0, "unk": 0, "draw": 0}
_PICTURE_FILLERS = {"black": 0, "mean": 0, "blur": 0}


@dataclass(frozen=True)
class _Kind:
    """What the first rows of a data set are like."""

    rationales: bool
    masks: bool
    pictures: bool

    @property
    def fillers(self) -> dict[str, int]:
        return _PICTURE_FILLERS if self.pictures else _TEXT_FILLERS

    def suits(self, entry: Entry) -> bool:
        """Say whether a metric can be asked of such data: agreement is none of a single explanation."""
        facts = entry.facts
        if facts["kind"] == AGREEMENT or facts.get("takes") == (
            "text" if self.pictures else "picture"
        ):
            return False
        marked = self.masks if self.pictures else self.rationales
        return marked or not (facts["kind"] == "plausibility" or facts.get("rationales", False))


def settled(plan: Plan, data: Source) -> Plan:
    """Return the plan with every method, metric and experiment by its name, or say what is wrong with it."""
    kind = _Kind(**of_examples(_first(data, plan)))
    methods = _methods(plan.methods)
    requests(methods, plan.params, kind.fillers, from_text=True)
    metrics = _metrics(plan.metrics, kind)
    if metrics:
        measures(metrics, plan.metric_params, from_text=True)
    audit = _experiments(plan.audit, plan.audit_params)
    return replace(
        plan,
        methods=tuple(methods),
        metrics=tuple(metrics),
        audit=tuple(audit),
        params=_typed(plan.params, map(method.get, methods)),
        metric_params=_typed(plan.metric_params if metrics else {}, map(metric.get, metrics)),
        audit_params=_typed(plan.audit_params, map(experiment.get, audit)),
    )


def _first(data: Source, plan: Plan) -> list[Example]:
    """Read the first rows: whether there are any, and what kind of data it is."""
    found, bad = [], None
    for one in islice(data, _SEEN):
        if isinstance(one, Bad):
            bad = bad or one
            if plan.bad_rows == "fail":
                raise unreadable(one)
        else:
            found.append(one.example)
    if not found and bad is not None:
        raise BadExamples(
            f"None of the first rows of {data.name} can be read. {bad.where}: {bad.why}"
        )
    if not found:
        raise BadExamples(f"{data.name} has no rows. Give a data set with at least one example.")
    return found


def unreadable(bad: Bad) -> BadExamples:
    """Return the error for a row that cannot be read where none may be left out."""
    return BadExamples(
        f"{bad.where}: {bad.why} Correct it, or let such rows be left out: bad_rows = 'skip', --bad-rows skip."
    )


def _methods(asked: Sequence[str]) -> list[str]:
    groups: dict[str, Callable[[], list[str]]] = {
        READERS: default_methods,
        ALL: lambda: [name for name in method.names() if name != "random"],
    }
    return _grouped(asked or (READERS,), groups)


def _metrics(asked: Sequence[str], kind: _Kind) -> list[str]:
    """Name the metrics of groups: a kind of metric, a group by its own name, or all that suit the data."""
    if NONE in asked:
        if len(asked) > 1:
            raise BadPlan(f"metrics = 'none' stands alone. Got {', '.join(asked)}.")
        return []
    suited = [entry for entry in metric if kind.suits(entry)]
    every = {own for e in metric for own in (e.facts["kind"], e.facts.get("group")) if own}
    groups: dict[str, Callable[[], list[str]]] = {
        ALL: lambda: [entry.name for entry in suited],
        **{name: partial(_of_group, suited, name) for name in every},
    }
    alike = {AGREEMENT, *(e.name for e in metric if e.facts["kind"] == AGREEMENT)}
    if compared := [name for name in asked if name in alike]:
        raise BadPlan(
            f"{', '.join(compared)} compares methods with each other and is no result of one explanation; the report "
            "of a run computes it. Leave it out of metrics."
        )
    return _grouped(asked, groups)


def _of_group(suited: Iterable[Entry], name: str) -> list[str]:
    found = [e.name for e in suited if name in (e.facts["kind"], e.facts.get("group"))]
    if not found:
        raise BadPlan(
            f"No metric of {name} suits this data: it has no rationales or masks, or is of the other kind. "
            "Name metrics that do (whence list metrics)."
        )
    return found


def _experiments(asked: Sequence[str], params: Mapping[str, Any]) -> list[str]:
    if not asked:
        return []
    wanted = names(None, can_train=False) if ALL in asked else list(asked)
    chosen = choose(wanted, params, can_train=False, from_text=True)
    if training := [one.name for one in chosen if one.entry.facts["trains"]]:
        raise BadPlan(
            f"{', '.join(training)} train models, and a run trains none: whence audit --train does. Leave them out "
            "of audit; 'all' stands for all others."
        )
    return [one.name for one in chosen]


def _grouped(asked: Sequence[str], groups: Mapping[str, Callable[[], list[str]]]) -> list[str]:
    """Put the names in a group in its place; no name twice."""
    found = [own for name in asked for own in (groups[name]() if name in groups else [name])]
    return list(dict.fromkeys(found))


def _typed(params: Mapping[str, Any], entries: Iterable[Entry]) -> dict[str, Any]:
    """Turn values that came as text into what their parameters take; that they are allowed was checked."""
    known = {entry.name: entry.parameters for entry in entries}
    found = {}
    for key, value in params.items():
        owner, _, name = key.rpartition(".")
        takers = [known[owner]] if owner in known else known.values()
        taker = next((own[name] for own in takers if name in own), None)
        found[key] = taker.parse(value) if isinstance(value, str) and taker is not None else value
    return found
