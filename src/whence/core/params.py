"""Parameter schemas, read from function signatures, and the validation of values against them.

A function's signature is the schema of its parameters: read once, checked everywhere the same.

    def rollout(trace, *, start_layer: Annotated[int, Range(min=0)] = 0, residual: ... = 0.5)

gives two parameters with types, ranges and defaults to the command line, the library and the docs alike. A
preset is a named set of values for some of them: the setting of a paper, or of its code.
"""

import inspect
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from whence.core.errors import BadMethod, BadParameter, suggest_name

PRESET = "preset"  # reserved keyword that names a preset; no parameter may have this name


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


def resolve_parameters(
    owner: str,
    known: Mapping[str, Parameter],
    overrides: Mapping[str, Any],
    *,
    presets: Mapping[str, Mapping[str, Any]] = types.MappingProxyType({}),
    from_text: bool = False,
) -> dict[str, Any]:
    """Return all parameters of `owner` with defaults filled in; raise BadParameter for a wrong value.

    A preset named in `overrides` replaces the defaults; the other values override it.
    """
    values = {name: parameter.default for name, parameter in known.items()}
    if PRESET in overrides:
        values.update(_find_preset(owner, presets, overrides[PRESET]))
    for name, value in overrides.items():
        if name == PRESET:
            continue
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise BadParameter(
                f"{owner} has no parameter {name!r}; {has}.{suggest_name(name, list(known))}"
            )
        if from_text and isinstance(value, str):
            value = known[name].parse(value)
        elif hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            value = value.item()  # a numpy or torch scalar
        if not known[name].accepts(value):
            raise BadParameter(
                f"The {name!r} parameter of {owner} must be {known[name].allowed_values}. Got {value!r}."
            )
        values[name] = value
    return values


def _find_preset(
    owner: str, presets: Mapping[str, Mapping[str, Any]], name: Any
) -> Mapping[str, Any]:
    if isinstance(name, str) and name in presets:
        return presets[name]
    has = f"it has {', '.join(presets)}" if presets else "it has none"
    raise BadParameter(
        f"{owner} has no preset {name!r}; {has}.{suggest_name(str(name), list(presets))}"
    )
