"""What was asked for: methods with their parameters, checked before any work begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadParameter, UnknownMethod
from whence.core.params import checked
from whence.core.registry import Entry
from whence.methods import is_reader, method


@dataclass(frozen=True)
class Request:
    """One method to run, with all of its parameters."""

    entry: Entry
    params: dict[str, Any]
    reads: bool  # the shared trace; otherwise it asks the model again

    @property
    def name(self) -> str:
        """The method's name."""
        return self.entry.name

    @property
    def needs(self) -> frozenset[str]:
        """What must be traced for it."""
        return frozenset(self.entry.facts["needs"]) if self.reads else frozenset()

    def extra_forwards(self, tokens: int) -> int:
        """How often it will ask the model about an input of so many tokens."""
        calls = self.entry.facts.get("calls")
        return int(calls(tokens)) if calls else 0


def requests(
    names: str | Sequence[str],
    params: Mapping[str, Any] | None,
    fillers: Mapping[str, int],
    *,
    from_text: bool = False,
) -> list[Request]:
    """Look the methods up and check their parameters.

    With several methods, `params` maps a method's name to its parameters, or names parameters that go to
    every method that has them.
    """
    if not isinstance(names, str | Sequence) or not all(isinstance(name, str) for name in names):
        raise UnknownMethod(f"method must be a name or a list of names. Got {names!r}.")
    wanted = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    if not wanted:
        raise UnknownMethod(f"No method was asked for. Known: {', '.join(method.names())}.")
    params = {} if params is None else params
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise BadParameter(f"params must map names of parameters to values. Got {params!r}.")
    entries = [method.get(name) for name in wanted]
    given = _distributed(entries, dict(params))
    result = []
    for entry in entries:
        values = checked(entry.name, entry.parameters, given[entry.name], from_text=from_text)
        settle = entry.facts.get("settle")
        values = settle(values, fillers) if settle else values
        result.append(Request(entry, values, is_reader(entry)))
    return result


def _distributed(entries: list[Entry], params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    given: dict[str, dict[str, Any]] = {entry.name: {} for entry in entries}
    for key, value in params.items():
        owner, _, parameter = key.partition(".")
        if owner in given and isinstance(value, Mapping):
            given[owner].update(value)
        elif owner in given and parameter:
            given[owner][parameter] = value
        elif len(entries) == 1:
            given[entries[0].name][key] = value
        else:
            takers = [entry.name for entry in entries if key in entry.parameters]
            if not takers:
                has = "; ".join(f"{e.name}: {', '.join(e.parameters) or 'none'}" for e in entries)
                raise BadParameter(f"None of the methods has a parameter {key!r}. They have {has}.")
            for name in takers:
                given[name][key] = value
    return given
