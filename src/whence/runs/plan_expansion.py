"""Expansion of a plan against its data: group names of methods, metrics and experiments, and parameter values.

Apart from `plan.py`, which is imported by every command: the registries here import torch, which takes seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from whence.core.errors import BadExamples, BadPlan
from whence.core.registry import Entry
from whence.data.dataset import Dataset, SkippedRow
from whence.data.example import Example
from whence.explain.request import resolve_methods
from whence.methods import method
from whence.metrics import metric
from whence.runs.plan import Plan
from whence.studies.audit.audit import resolve_names, select_experiments
from whence.studies.audit.experiments import experiment
from whence.studies.evaluation.evaluate import list_default_methods
from whence.studies.evaluation.measure import describe_annotations, resolve_metrics

ALL, TRACE_METHODS, NONE = "all", "readers", "none"
AGREEMENT = "agreement"
_INSPECTED_ROWS = 64  # rows read to detect the kind of data


def resolve_plan(plan: Plan, data: Dataset) -> Plan:
    """Return the plan with groups expanded and parameters parsed; raise if it is invalid."""
    marks = describe_annotations(_read_first_examples(data, plan))
    method_groups = {
        TRACE_METHODS: list_default_methods(),
        ALL: [name for name in method.names() if name != "random"],
    }
    methods = _expand_groups(plan.methods or (TRACE_METHODS,), method_groups)
    # The model is not loaded yet: what it removes an input by has a placeholder.
    fillers = ("black", "mean", "blur") if marks["pictures"] else ("mask", "pad", "unk", "draw")
    resolve_methods(methods, plan.params, dict.fromkeys(fillers, 0), from_text=True)
    metrics = _expand_metrics(plan.metrics, **marks)
    if metrics:
        resolve_metrics(metrics, plan.metric_params, from_text=True)
    audit = _expand_experiments(plan.audit, plan.audit_params)
    return replace(
        plan,
        methods=tuple(methods),
        metrics=tuple(metrics),
        audit=tuple(audit),
        params=_parse_param_values(plan.params, map(method.get, methods)),
        metric_params=_parse_param_values(
            plan.metric_params if metrics else {}, map(metric.get, metrics)
        ),
        audit_params=_parse_param_values(plan.audit_params, map(experiment.get, audit)),
    )


def _read_first_examples(data: Dataset, plan: Plan) -> list[Example]:
    """Return the examples of the first 64 rows; raise if none can be read."""
    rows = list(islice(data, _INSPECTED_ROWS))
    bad = next((row for row in rows if isinstance(row, SkippedRow)), None)
    if bad is not None and plan.bad_rows == "fail":
        raise unreadable_row_error(bad)
    examples = [row.example for row in rows if not isinstance(row, SkippedRow)]
    if not examples and bad is not None:
        raise BadExamples(
            f"None of the first rows of {data.name} can be read. {bad.where}: {bad.why}"
        )
    if not examples:
        raise BadExamples(f"{data.name} has no rows. Give a data set with at least one example.")
    return examples


def unreadable_row_error(bad: SkippedRow) -> BadExamples:
    """Return the error for an unreadable row with bad_rows = "fail"."""
    return BadExamples(
        f"{bad.where}: {bad.why} Correct it, or let such rows be left out: bad_rows = 'skip', --bad-rows skip."
    )


def _expand_metrics(
    names: Sequence[str], *, rationales: bool, masks: bool, pictures: bool
) -> list[str]:
    """Return metric names with kinds, groups and "all" expanded to those that suit the data."""
    if NONE in names:
        if len(names) > 1:
            raise BadPlan(f"metrics = 'none' stands alone. Got {', '.join(names)}.")
        return []
    compared, groups = {AGREEMENT}, dict[str, list[str]]()
    for entry in metric:
        facts = entry.facts
        if facts["kind"] == AGREEMENT:
            compared.add(entry.name)
            continue
        needs_marks = facts["kind"] == "plausibility" or facts.get("rationales", False)
        suits = facts.get("takes") != ("text" if pictures else "picture") and (
            not needs_marks or (masks if pictures else rationales)
        )
        for group in (ALL, facts["kind"], facts.get("group")):
            if group is not None:
                groups.setdefault(group, []).extend([entry.name] if suits else [])
    if own := [name for name in names if name in compared]:
        raise BadPlan(
            f"{', '.join(own)} compares methods with each other and is no result of one explanation; the report "
            "of a run computes it. Leave it out of metrics."
        )
    for name in names:
        if groups.get(name) == []:
            raise BadPlan(
                f"No metric of {name} suits this data: it has no rationales or masks, or is of the other kind. "
                "Name metrics that do (whence list metrics)."
            )
    return _expand_groups(names, groups)


def _expand_experiments(names: Sequence[str], params: Mapping[str, Any]) -> list[str]:
    if not names:
        return []
    requested = resolve_names(None, can_train=False) if ALL in names else list(names)
    experiments = select_experiments(requested, params, can_train=False, from_text=True)
    if training := [one.name for one in experiments if one.entry.facts["trains"]]:
        raise BadPlan(
            f"{', '.join(training)} train models, and a run trains none: whence audit --train does. Leave them out "
            "of audit; 'all' stands for all others."
        )
    return [one.name for one in experiments]


def _expand_groups(names: Sequence[str], groups: Mapping[str, list[str]]) -> list[str]:
    """Return names with groups replaced by their members, without duplicates."""
    return list(dict.fromkeys(member for name in names for member in groups.get(name, [name])))


def _parse_param_values(params: Mapping[str, Any], entries: Iterable[Entry]) -> dict[str, Any]:
    """Return parameters with text values parsed to their types; they were checked before."""
    known = {entry.name: entry.parameters for entry in entries}
    values = {}
    for key, value in params.items():
        owner, _, name = key.rpartition(".")
        tables = [known[owner]] if owner in known else known.values()
        param = next((table[name] for table in tables if name in table), None)
        values[key] = param.parse(value) if isinstance(value, str) and param is not None else value
    return values
