"""The registry class behind methods, metrics and experiments: a decorator, entries, their facts and parameters.

Functions register themselves, once, and state their facts; there is no list to edit, and nothing is
overwritten. Built-in functions are modules of the registry's package, imported on first use. Plugins come
through the entry point group of the same name, with the same decorator. A preset is a named set of values for
some of an entry's parameters: the setting of a paper, or of its code.
"""

import pkgutil
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature, unwrap
from types import MappingProxyType
from typing import Any, TypeVar

from whence.core.errors import BadMethod, BadParameter, UnknownMethod, WhenceError, suggest_name
from whence.core.params import Parameter, read_schema

PRESET = "preset"  # reserved keyword that names a preset; no parameter may have this name

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry:
    """One registered function with its facts and parameters."""

    name: str
    fn: Callable[..., Any]
    facts: Mapping[str, Any]
    parameters: Mapping[str, Parameter]
    takes: str = field(init=False)  # the name of its first argument, such as "trace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "takes", next(iter(signature(self.fn).parameters), ""))

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Its named settings, each a mapping of parameters to values."""
        presets: Mapping[str, Mapping[str, Any]] = self.facts.get("presets", {})
        return presets

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (self.fn.__doc__ or "").strip().splitlines()[0]


@dataclass
class Registry:
    """A named set of functions: `@registry("name", fact=..., ...)` adds one."""

    kind: str
    package: str
    required: frozenset[str]
    check: Callable[[Entry], None] = lambda entry: None  # further checks of this kind of entry
    # Makes what is called of a function and its facts.
    wrap: Callable[[Callable[..., Any], Mapping[str, Any]], Callable[..., Any]] = lambda fn, _: fn
    unknown: type[WhenceError] = UnknownMethod  # the error class for an unknown name
    _entries: dict[str, Entry] = field(default_factory=dict)
    _complete: bool = False

    def __call__(self, name: str, /, **facts: Any) -> Callable[[F], F]:
        """Return the decorator that registers a function under `name`."""

        def register(fn: F) -> F:
            where = f"{fn.__module__}.{fn.__qualname__}"
            if missing := sorted(self.required - facts.keys()):
                raise BadMethod(f"The {self.kind} {name!r} ({where}) must state {missing}.")
            if not (fn.__doc__ or "").strip():
                raise BadMethod(f"The {self.kind} {name!r} ({where}) needs a docstring.")
            existing = self._entries.get(name)
            if existing is not None and unwrap(existing.fn) is not fn:
                other = f"{existing.fn.__module__}.{existing.fn.__qualname__}"
                raise BadMethod(
                    f"The {self.kind} name {name!r} of {where} is taken by {other}; choose another."
                )
            wrapped: Any = self.wrap(fn, facts)
            entry = Entry(name, wrapped, MappingProxyType(dict(facts)), read_schema(fn))
            _check_presets(entry, f"The {self.kind} {name!r} ({where})")
            self.check(entry)
            self._entries[name] = entry
            return wrapped  # type: ignore[no-any-return]

        return register

    def get(self, name: str) -> Entry:
        """Return the entry called `name`; raise the error `unknown`, with the known names, if there is none."""
        if name not in self._entries and name not in (known := self.names()):
            raise self.unknown(
                f"There is no {self.kind} {name!r}.{suggest_name(name, known)} Known: {', '.join(known)}."
            )
        return self._entries[name]

    def names(self) -> list[str]:
        """All names, sorted; modules and plugins are imported when they are first asked for."""
        if not self._complete:
            self._complete = True
            package = import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                import_module(f"{self.package}.{module.name}")
            for point in entry_points(group=self.package):
                try:
                    point.load()
                except Exception as error:  # a broken plug-in must not break whence
                    owner = point.dist.name if point.dist else point.value
                    warnings.warn(
                        f"The plugin {owner!r} ({point.value}) could not be loaded and is skipped: {error}",
                        stacklevel=2,
                    )
        return sorted(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter([self._entries[name] for name in self.names()])


def resolve_entries(
    registry: Registry,
    names: Sequence[str],
    params: Mapping[str, Any] | None,
    *,
    argument: str = "params",
    from_text: bool = False,
) -> list[tuple[Entry, dict[str, Any]]]:
    """Look up entries by name, and check their parameters.

    With several entries, `params` maps an entry's name to its parameters, or names parameters that go to every
    entry that has them. "preset" picks a named setting; other given values override it.
    """
    params = {} if params is None else params
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise BadParameter(f"{argument} must map names of parameters to values. Got {params!r}.")
    entries = [registry.get(name) for name in names]
    own: dict[str, dict[str, Any]] = {entry.name: {} for entry in entries}
    for key, value in params.items():
        owner, _, parameter = key.partition(".")
        if owner in own and isinstance(value, Mapping):
            own[owner].update(value)
        elif owner in own and parameter:
            own[owner][parameter] = value
        elif len(entries) == 1:
            own[entries[0].name][key] = value
        else:
            for name in _find_takers(registry.kind, entries, key, value):
                own[name][key] = value
    resolved = []
    for entry in entries:
        given, presets = own[entry.name], entry.facts.get("presets", {})
        values = resolve_parameters(
            entry.name, entry.parameters, given, presets=presets, from_text=from_text
        )
        resolved.append((entry, values))
    return resolved


def resolve_parameters(
    owner: str,
    known: Mapping[str, Parameter],
    overrides: Mapping[str, Any],
    *,
    presets: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    from_text: bool = False,
) -> dict[str, Any]:
    """Return all parameters of `owner` with defaults filled in; raise BadParameter for a wrong value.

    A preset named in `overrides` replaces the defaults; the other values override it.
    """
    values = {name: parameter.default for name, parameter in known.items()}
    overrides = dict(overrides)
    if PRESET in overrides:
        preset = overrides.pop(PRESET)
        if not isinstance(preset, str) or preset not in presets:
            raise _refuse_name(owner, "preset", preset, presets)
        values.update(presets[preset])
    for name, value in overrides.items():
        if name not in known:
            raise _refuse_name(owner, "parameter", name, known)
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


def _refuse_name(owner: str, what: str, name: Any, known: Collection[str]) -> BadParameter:
    has = f"it has {', '.join(known)}" if known else "it has none"
    return BadParameter(
        f"{owner} has no {what} {name!r}; {has}.{suggest_name(str(name), list(known))}"
    )


def _find_takers(kind: str, entries: Sequence[Entry], key: str, value: Any) -> list[str]:
    """Return the names of the entries that have this parameter, or this preset."""
    what = f"preset {value!r}" if key == PRESET else f"parameter {key!r}"
    option = value if key == PRESET else key
    choices = {e.name: list(e.presets if key == PRESET else e.parameters) for e in entries}
    takers = [name for name, known in choices.items() if option in known]
    if not takers:
        has = "; ".join(f"{name}: {', '.join(known) or 'none'}" for name, known in choices.items())
        near = suggest_name(str(option), sorted(set().union(*choices.values())))
        raise BadParameter(f"None of the {kind}s has a {what}. They have {has}.{near}")
    return takers


def _check_presets(entry: Entry, where: str) -> None:
    """Refuse presets that name an unknown parameter or a value it does not accept."""
    if PRESET in entry.parameters:
        raise BadMethod(
            f"{where} has a parameter {PRESET!r}: that word picks a preset; choose another."
        )
    presets = entry.presets
    is_map = isinstance(presets, Mapping) and all(isinstance(name, str) for name in presets)
    if not is_map or not all(isinstance(v, Mapping) and PRESET not in v for v in presets.values()):
        raise BadMethod(
            f"{where} must map names of presets to values of parameters. Got {presets!r}."
        )
    for preset, values in presets.items():
        try:
            resolve_parameters(entry.name, entry.parameters, values)
        except BadParameter as error:
            raise BadMethod(f"{where} has a preset {preset!r} that cannot be: {error}") from None
