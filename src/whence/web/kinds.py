"""The kinds of results that whence writes: how one knows them, what they say, and the page of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whence.view.shade import target_name

Payload = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of result."""

    page: Callable[[Payload], str]
    summary: Callable[[Payload], str]
    model: Callable[[Payload], str]


class NoResult(Exception):
    """A file of somebody else's."""


def kind_of(payload: Any) -> str:
    """Return the kind of a stored result, or refuse what is none."""
    said = _said(payload)
    if said not in KINDS:
        which = f", a {said[:40]!r}" if said else ""
        raise NoResult(f"this is no result of whence{which}. Allowed: {', '.join(KINDS)}.")
    return said


def _said(payload: Any) -> str:
    """Return the kind that it states; explanations and cards do not, and are known by what they hold."""
    if not isinstance(payload, dict):
        return ""
    if "kind" in payload:
        return str(payload["kind"])
    if {"methods", "rules"} <= payload.keys():
        return "trust"
    return "explanation" if "explanations" in payload else ""


def _audit(payload: Payload) -> str:
    from whence.audit.result import Audit

    return Audit.from_dict(payload).to_html()


def _evaluation(payload: Payload) -> str:
    return _evaluations({"evaluations": [payload]})


def _evaluations(payload: Payload) -> str:
    from whence.evaluation.evaluation import Evaluation
    from whence.report.table import page

    return page(*(Evaluation.from_dict(one).to_dict() for one in payload["evaluations"]))


def _recommendation(payload: Payload) -> str:
    return _evaluation(payload["evaluation"])


def _comparison(payload: Payload) -> str:
    from whence.comparison.result import Comparison

    return Comparison.from_dict(payload).to_html()


def _trust(payload: Payload) -> str:
    from whence.report.card import page

    return page(payload)


def _explanation(payload: Payload) -> str:
    from whence.report import page

    return page([payload])


def _generation(payload: Payload) -> str:
    from whence.explainer.generation.generation import Generation

    return Generation.from_dict(payload).to_html()


def _name(payload: Payload) -> str:
    return str(payload["model"]["name"])


def _sentence(payload: Payload) -> str:
    return str(payload["sentence"])


def _conclusion(payload: Payload) -> str:
    """Return what an audit says, its question and answer first: a list shows the beginning."""
    from whence.report.audit.wording import QUESTION, answer

    return f"{QUESTION} {answer(payload)}. {payload['conclusion']}"


def _counted(payload: Payload) -> str:
    if payload.get("failure"):
        return str(payload["failure"])
    methods, metrics = payload["methods"], payload["metrics"]
    return f"{len(methods)} methods by {len(metrics)} metrics on {payload['examples']['explained']} examples"


def _explained(payload: Payload) -> str:
    methods = ", ".join(one["method"] for one in payload["explanations"])
    given = payload["input"]["text"] or (payload.get("picture") or {}).get("name") or ""
    return f"{target_name(payload['target'])}, by {methods}: {given}"[:200]


def _several(kind: str) -> Kind:
    """Return the kind of what was explained of one input, for several targets or about several things in it."""

    def page(payload: Payload) -> str:
        from whence.report import page as sheet

        return sheet(payload[kind])

    def summary(payload: Payload) -> str:
        return "; ".join(map(_explained, payload[kind]))[:200]

    return Kind(page, summary, lambda payload: _name(payload[kind][0]))


KINDS: dict[str, Kind] = {
    "audit": Kind(_audit, _conclusion, _name),
    "evaluation": Kind(_evaluation, _counted, _name),
    "evaluations": Kind(
        _evaluations,
        lambda payload: " ".join(payload["removal_matters"]),
        lambda payload: _name(payload["evaluations"][0]),
    ),
    "recommendation": Kind(
        _recommendation, _sentence, lambda payload: _name(payload["evaluation"])
    ),
    "comparison": Kind(
        _comparison,
        _sentence,
        lambda payload: f"{payload['a']['name']} and {payload['b']['name']}",
    ),
    "trust": Kind(_trust, _sentence, _name),
    "explanation": Kind(_explanation, _explained, _name),
    "targets": _several("targets"),
    "entities": _several("entities"),
    "generation": Kind(
        _generation,
        lambda payload: f"{payload['input']['text'] or ''}{payload['text'] or ''}"[:200],
        _name,
    ),
}
