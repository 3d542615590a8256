"""The settings of a plan on a loaded model: everything about a result but its example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.capture import TargetSpec
from whence.core.errors import BadParameter
from whence.core.types import Of
from whence.data.removal import MANY, Removal, resolve
from whence.evaluation.measures import Measure, measures
from whence.evaluation.portions import is_gold
from whence.evaluation.run import default_methods
from whence.explainer.aims.pairing import pairing_warning
from whence.explainer.request import Request, requests
from whence.explainer.work import origin
from whence.models import Loaded, fingerprint
from whence.run.code import code_of_rows, source_of
from whence.run.keys import Part, setting_digest
from whence.run.plan import Plan
from whence.run.task import Identity
from whence.run.tokens import processor_digest, tokenizer_digest

OF: Of = "logit"


@dataclass(frozen=True)
class Settled:
    """A plan on a model: methods and metrics with all of their parameters, and what else results depend on."""

    methods: tuple[Request, ...]
    measures: tuple[Measure, ...]  # without those of agreement, which need no row of their own
    target: Any
    remove: Removal
    unit: str
    identity: Identity


def settled(plan: Plan, loaded: Loaded) -> Settled:
    """Check a plan against a model, and say what every result of it depends on."""
    asked = requests(list(plan.methods) or default_methods(), plan.params, loaded.fillers)
    wanted = measures(list(plan.metrics), plan.metric_params) if plan.metrics else []
    tests = [one for one in wanted if one.kind != "agreement"]
    target = tuple(plan.target) if isinstance(plan.target, list) else plan.target
    how = resolve(_removal(plan.remove), loaded.fillers, MANY)
    unit = "patch" if loaded.modality == "picture" else plan.unit
    if unit not in ("token", "word", "patch"):
        raise BadParameter(f"unit must be 'token' or 'word'. Got {unit!r}.")
    if isinstance(plan.rankings, bool) or plan.rankings < 1:
        raise BadParameter(f"rankings must be a whole number, at least 1. Got {plan.rankings!r}.")
    shared = _of_all(loaded, target, plan.truncate)
    explained = {one.name: _explanation(one, shared, loaded) for one in asked}
    asks = {"remove": how, "unit": unit, "rankings": plan.rankings, "seed": plan.seed}
    if how == "draw":
        asks |= _drawing(loaded)
    settings = {setting_digest(facts): facts for facts in explained.values()}
    tested: dict[str, dict[str, str]] = {}
    for name, facts in explained.items():
        own = [_test(measure, setting_digest(facts), asks) for measure in tests]
        settings |= {setting_digest(one): one for one in own}
        tested[name] = {one["metric"]: setting_digest(one) for one in own}
    return Settled(
        tuple(asked),
        tuple(tests),
        target,
        how,
        unit,
        Identity(
            model=_model(loaded, shared),
            code=code_of_rows(),
            settings=settings,
            explained={name: setting_digest(facts) for name, facts in explained.items()},
            tested=tested,
            software=origin(loaded)["provenance"],
            warnings=_warnings(loaded),
        ),
    )


def _of_all(loaded: Loaded, target: Any, truncate: bool) -> dict[str, Any]:
    """Say what all explanations depend on."""
    part: Part = "given and label" if is_gold(target, loaded) else "given"
    return {
        "kind": "explanation",
        "example": part,
        "code": code_of_rows(),
        "model": fingerprint(loaded.model),
        "tokenizer": tokenizer_digest(loaded),
        "processor": processor_digest(loaded),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "target": _aim(loaded, target),
        "of": OF,
        "truncate": truncate,
    }


def _aim(loaded: Loaded, target: Any) -> Any:
    """Return what is explained, in the same words however it was asked for; refuse what the model does not have."""
    if not loaded.classifies or is_gold(target, loaded):
        return list(target) if isinstance(target, tuple) else target
    spec = TargetSpec.parse(target, loaded.labels, OF)
    return spec.main if spec.against is None else [spec.main, spec.against]


def _explanation(one: Request, shared: Mapping[str, Any], loaded: Loaded) -> dict[str, Any]:
    draws = _drawing(loaded) if "draw" in one.params.values() else {}
    return {
        **shared,
        "method": one.name,
        "params": _plain(one.params),
        "source": source_of(one.entry),
        **draws,
    }


def _test(measure: Measure, explanation: str, asks: Mapping[str, Any]) -> dict[str, Any]:
    part: Part = "all"
    return {
        "kind": "test",
        "example": part,
        "explanation": explanation,
        "metric": measure.name,
        "params": _plain(measure.params),
        "source": source_of(measure.entry),
        **asks,
    }


def _drawing(loaded: Loaded) -> dict[str, Any]:
    """Say which language model fills holes."""
    filling = loaded.infiller
    return {} if filling is None else {"mlm": fingerprint(filling.loaded.model)}


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as a file keeps them: what is a tuple is a list there."""
    return {name: _listed(value) for name, value in params.items()}


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _listed(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_listed(one) for one in value]
    return value


def _removal(how: str | None) -> Any:
    """Take what a plan says for a way of removal; `resolve` refuses what is none."""
    return how


def _warnings(loaded: Loaded) -> dict[str, str]:
    """Return by code what must be known of single texts, or of pairs, that are given to this model."""
    if not loaded.classifies:
        return {}
    return dict(one for pair in (False, True) if (one := pairing_warning(loaded, pair=pair)))


def _model(loaded: Loaded, shared: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **origin(loaded)["model"],
        **{name: shared[name] for name in ("dtype", "tokenizer", "processor")},
        "task": loaded.task,
        "modality": loaded.modality,
    }
