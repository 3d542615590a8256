"""Parameter schemas, read from function signatures: types, choices, ranges and defaults of keywords.

A function's signature is the schema of its parameters: read once, checked everywhere the same (core/registry.py).

    def rollout(trace, *, start_layer: Annotated[int, Range(min=0)] = 0, residual: ... = 0.5)

gives two parameters with types, ranges and defaults to the command line, the library and the docs alike.
"""

import inspect
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from whence.core.errors import BadMethod


@dataclass(frozen=True)
class Range:
    """A closed interval; None leaves a side open."""

    min: float | None = None
    max: float | None = None

    def __contains__(self, value: float) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def __str__(self) -> str:
        if self.min is not None and self.max is not None:
            return f" from {self.min:g} to {self.max:g}"
        return f" >= {self.min:g}" if self.min is not None else f" <= {self.max:g}"


@dataclass(frozen=True)
class Parameter:
    """One keyword of a method: its types, choices, range and default."""

    name: str
    kinds: tuple[type, ...]
    choices: tuple[str, ...]
    range: Range | None
    default: Any

    @property
    def allowed_values(self) -> str:
        """The allowed values, as a phrase for error messages."""
        words = [repr(choice) for choice in self.choices]
        names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
        words += [names[kind] + str(self.range or "") for kind in self.kinds if kind in names]
        if type(None) in self.kinds:
            words.append("none")
        return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]

    def accepts(self, value: Any) -> bool:
        """Return whether `value` has an allowed type and lies in range."""
        if value is None:
            return type(None) in self.kinds
        if isinstance(value, str):
            return value in self.choices or str in self.kinds
        if isinstance(value, bool):
            return bool in self.kinds
        if isinstance(value, int | float):
            fits = (int in self.kinds and isinstance(value, int)) or float in self.kinds
            return fits and math.isfinite(value) and (self.range is None or value in self.range)
        return False

    def parse(self, text: str) -> Any:
        """Parse a command-line text as a value; text that does not parse is returned, and refused later."""
        if text in self.choices:
            return text
        lowered = text.strip().lower()
        if type(None) in self.kinds and lowered in {"none", "null"}:
            return None
        if bool in self.kinds and lowered in {"true", "false", "yes", "no"}:
            return lowered in {"true", "yes"}
        for kind in (int, float):
            if kind in self.kinds:
                try:
                    return kind(text)
                except ValueError:
                    continue
        return text


def read_schema(fn: Callable[..., Any]) -> dict[str, Parameter]:
    """Read the keyword-only parameters of `fn`."""
    keywords = [p for p in inspect.signature(fn).parameters.values() if p.kind is p.KEYWORD_ONLY]
    # Other arguments may have types that only type checkers import, so hints are resolved for keywords alone.
    own = types.SimpleNamespace(
        __annotations__={p.name: p.annotation for p in keywords if p.annotation is not p.empty}
    )
    hints = get_type_hints(own, getattr(fn, "__globals__", {}), include_extras=True)
    return {p.name: _parse_parameter(fn, p, hints.get(p.name, Any)) for p in keywords}


def _parse_parameter(fn: Callable[..., Any], parameter: inspect.Parameter, hint: Any) -> Parameter:
    limits: Range | None = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        limits = next((extra for extra in extras if isinstance(extra, Range)), None)
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kinds: list[type] = []
    choices: list[str] = []
    for option in options:
        if get_origin(option) is Literal:
            choices += get_args(option)
        elif option in (int, float, bool, str, type(None)):
            kinds.append(option)
        else:
            raise BadMethod(
                f"Parameter {parameter.name!r} of {fn.__module__}.{fn.__name__} has the type {option!r}; "
                "allowed are int, float, bool, str, None and Literal."
            )
    if parameter.default is parameter.empty:
        raise BadMethod(
            f"Parameter {parameter.name!r} of {fn.__module__}.{fn.__name__} needs a default value."
        )
    return Parameter(parameter.name, tuple(kinds), tuple(choices), limits, parameter.default)
