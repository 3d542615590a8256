"""What may stand in a plan: for every name, what it may be, and how it becomes what `Plan` and `Manner` hold."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from whence.core.errors import BadPlan, did_you_mean, short
from whence.run.plan import Manner, Plan


class _Not(Exception):
    """The value is not what it may be."""


@dataclass(frozen=True)
class _Form:
    allowed: str
    taken: Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Not
    return value


def _any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Not
    return value


def _names(value: Any) -> tuple[str, ...]:
    """Take a list of names, or one text with commas between them; a name counts once."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise _Not
    return tuple(dict.fromkeys(name.strip() for name in given if name.strip()))


def _values(value: Any) -> dict[str, Any]:
    """Take a table of parameters, NAME, "OWNER.NAME" or tables by owner; make it a flat one."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _Not
    flat: dict[str, Any] = {}
    for key, own in value.items():
        flat.update(
            {f"{key}.{n}": v for n, v in own.items()} if isinstance(own, Mapping) else {key: own}
        )
    if any(not (v is None or isinstance(v, str | int | float)) for v in flat.values()):
        raise _Not
    return dict(sorted(flat.items()))


def _whole(least: int | None) -> Callable[[Any], int]:
    def taken(value: Any) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or (least is not None and value < least)
        ):
            raise _Not
        return value

    return taken


def _share(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < float("inf")
    ):
        raise _Not
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Not
    return value


def _shard(value: Any) -> tuple[int, int]:
    if isinstance(value, str) and (
        found := re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", value)
    ):
        value = (int(found[1]), int(found[2]))
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise _Not
    part, parts = map(_whole(1), value)
    if part > parts:
        raise _Not
    return part, parts


def _target(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if len(value) != 2 or any(isinstance(one, list | tuple) for one in value):
            raise _Not
        return tuple(map(_target, value))
    return _text(value) if isinstance(value, str) else _whole(0)(value)


def _one_of(*names: str) -> _Form:
    def taken(value: Any) -> str:
        if value not in names:
            raise _Not
        return str(value)

    return _Form(f"one of {', '.join(names)}", taken)


_TEXT = _Form("a text that is not empty", _text)
_COLUMN = _Form("the name of a column, or an empty text for none", _any_text)
_NAMES = _Form("a list of names", _names)
_TABLE = _Form("a table of names and values: texts, numbers, true or false", _values)
_COUNT = _Form("a whole number, at least 1", _whole(1))
_FLAG = _Form("true or false", _flag)

FORMS: Mapping[str, _Form] = {
    "model": _TEXT,
    "data": _TEXT,
    "methods": _NAMES,
    "metrics": _NAMES,
    "audit": _NAMES,
    "params": _TABLE,
    "metric_params": _TABLE,
    "audit_params": _TABLE,
    "text": _COLUMN,
    "pair": _COLUMN,
    "label": _COLUMN,
    "limit": _COUNT,
    "sample": _COUNT,
    "shard": _Form("I/N, part I of N, such as 1/4", _shard),
    "bad_rows": _one_of("skip", "fail"),
    "target": _Form(
        "a label, an index from 0, predicted, runner-up, gold, or a list of two of these", _target
    ),
    "remove": _one_of("mask", "delete", "pad", "unk", "draw", "black", "mean", "blur"),
    "unit": _one_of("token", "word"),
    "truncate": _FLAG,
    "rankings": _COUNT,
    "seed": _Form("a whole number, at least 0", _whole(0)),
    "dtype": _one_of("float64", "float32", "bfloat16", "float16"),
    "revision": _TEXT,
    "mlm": _TEXT,
    "backend": _one_of("in-process", "processes", "ray"),
    "workers": _COUNT,
    "device": _TEXT,
    "batch_size": _COUNT,
    "checkpoint": _FLAG,
    "compile": _FLAG,
    "address": _TEXT,
    "actors": _COUNT,
    "gpus_per_actor": _Form("a number, at least 0", _share),
}
PLAN = tuple(one.name for one in fields(Plan))
MANNER = tuple(one.name for one in fields(Manner))

# Whose they are: any other backend has no use for them.
_OF_BACKENDS = {"workers": "processes", "address": "ray", "actors": "ray", "gpus_per_actor": "ray"}


def planned(given: Mapping[str, Any], where: str = "The plan") -> tuple[Plan, Manner]:
    """Make a plan and a manner of what was given by name; None stands for what was not given.

    Says which name or value is wrong, and what is allowed.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in FORMS:
            allowed = [*FORMS, "out"]
            raise BadPlan(
                f"{where} has no {short(name)!r}. Allowed: {', '.join(allowed)}.{did_you_mean(name, allowed)}"
            )
        if value is None:
            continue
        try:
            found[name] = FORMS[name].taken(value)
        except _Not:
            raise BadPlan(
                f"{where}: {name!r} must be {FORMS[name].allowed}. Got {short(repr(value))}."
                f"{did_you_mean(value, _choices(FORMS[name])) if isinstance(value, str) else ''}"
            ) from None
    for needed, what in (
        ("model", "a built-in name, a folder or a Hub id"),
        ("data", "a file or another address"),
    ):
        if needed not in found:
            raise BadPlan(
                f"{where} names no {needed}: {what}. Give it: {needed} = ..., --{needed}."
            )
    _consistent(found, where)
    return (
        Plan(**{name: found[name] for name in PLAN if name in found}),
        Manner(**{name: found[name] for name in MANNER if name in found}),
    )


def _choices(form: _Form) -> list[str]:
    """Return the names that a value may be, where it is one of some."""
    before, one_of, names = form.allowed.partition("one of ")
    return names.split(", ") if one_of and not before else []


def over(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Put what was said on the command line over what a file says; another backend has no use for the old one's."""
    said = {name: value for name, value in flags.items() if value is not None}
    kept = dict(file)
    if "backend" in said:
        kept = {
            n: v for n, v in kept.items() if _OF_BACKENDS.get(n, said["backend"]) == said["backend"]
        }
    return {**kept, **said}


def _consistent(found: Mapping[str, Any], where: str) -> None:
    backend = found.get("backend", "in-process")
    for name, owner in _OF_BACKENDS.items():
        if name in found and owner != backend:
            raise BadPlan(
                f"{where}: {name!r} is for the backend {owner}, and the backend is {backend}. Leave it out, or take "
                f"backend = {owner!r}, --backend {owner}."
            )
    if found.get("remove") == "draw" and "mlm" not in found:
        raise BadPlan(
            f"{where}: remove = 'draw' draws from a masked language model, and none is named. Name it: mlm = ..., "
            "--mlm; or remove otherwise."
        )
    for table, names in (("metric_params", "metrics"), ("audit_params", "audit")):
        if found.get(table) and not found.get(names):
            raise BadPlan(
                f"{where}: {table!r} are given for {names!r}, and none is named. Name some: {names} = [...]."
            )
