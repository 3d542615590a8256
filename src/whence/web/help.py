"""The cards of the help page, from what methods, metrics, experiments and edge weights say about themselves."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.core.registry import Entry


def cards() -> list[dict[str, Any]]:
    """Return every card, by kind and name."""
    from whence.audit.experiments import experiment
    from whence.methods import method
    from whence.metrics import metric

    registered = {"method": method, "metric": metric, "experiment": experiment}
    found = [_card(kind, entry) for kind, registry in registered.items() for entry in registry]
    return [*found, *_weights()]


def _card(kind: str, entry: "Entry") -> dict[str, Any]:
    facts = {name: _plain(value) for name, value in entry.facts.items() if not callable(value)}
    facts["parameters"] = [
        {"name": one.name, "allowed": one.allowed, "default": _plain(one.default)}
        for one in entry.parameters.values()
    ]
    return {"kind": kind, "name": entry.name, "summary": entry.summary, "facts": facts}


def _weights() -> list[dict[str, Any]]:
    from whence.flow import CARDS

    found = []
    for name, card in CARDS.items():
        facts = asdict(card)
        summary = facts.pop("summary")
        found.append({"kind": "weight", "name": name, "summary": summary, "facts": facts})
    return found


def _plain(value: Any) -> Any:
    """Return a fact as JSON can hold it; an end without a bound is null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)
