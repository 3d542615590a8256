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


"""What a run is to do, from a file or from options, checked before anything is loaded."""

from whence.run.plan.plan import BackendName, BadRows, Manner, Plan, told

__all__ = ["BackendName", "BadRows", "Manner", "Plan", "told"]


"""A plan in a TOML file."""

import tomllib
from pathlib import Path
from typing import Any

from whence.core.errors import BadPlan
from whence.data.sets.hub import is_name
from whence.models.catalogue import BUILTIN

OUT = "out"


def read_plan(path: str | Path) -> dict[str, Any]:
    """Read a plan by name, as `planned` takes it, and under "out" the folder of the results if it is there.

    Paths in the file count from the folder that the file is in.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            found = tomllib.load(stream)
    except OSError as error:
        raise BadPlan(
            f"Cannot read the plan {str(path)!r}: {error.strerror or error}. Give a .toml file, or use options: "
            "--model, --data, --methods."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadPlan(
            f"{str(path)!r} is not TOML: {error}. docs/reference/run.md has an example."
        ) from None
    home = path.parent
    for name in ("model", "mlm"):
        if isinstance(found.get(name), str):
            found[name] = _model(found[name], home)
    if isinstance(found.get("data"), str):
        found["data"] = _data(found["data"], home)
    if OUT in found:
        if not isinstance(found[OUT], str) or not found[OUT].strip():
            raise BadPlan(f"{str(path)!r}: 'out' must be the name of a folder. Got {found[OUT]!r}.")
        found[OUT] = str(home / Path(found[OUT]).expanduser())
    return found


def _model(name: str, home: Path) -> str:
    """Return a folder beside the file as one; other names stay what they are, built in or on the Hub."""
    beside = home / Path(name).expanduser()
    looks_like_one = name.startswith((".", "~")) or beside.is_dir()
    return str(beside) if name not in BUILTIN and looks_like_one else name


def _data(address: str, home: Path) -> str:
    """Return a file or folder beside the file as one; other addresses and names of data sets stay what they are."""
    if "://" in address or "::" in address:
        return address
    path, colon, rest = address.partition(":")
    beside = home / Path(path).expanduser()
    if (home / Path(address).expanduser()).exists() or not (beside.exists() or is_name(address)):
        return str(home / Path(address).expanduser())
    return f"{beside}{colon}{rest}" if beside.exists() else address


"""What a run is to do: the question that it answers, and, apart from it, the manner in which it is worked on.

A `Plan` says what determines the results. A `Manner` says who works on them, where and how many at a time, and no
result depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from whence.run.plan.toml import toml

BadRows = Literal["skip", "fail"]
BackendName = Literal["in-process", "processes", "ray"]


@dataclass(frozen=True)
class Plan:
    """A model, a data set, and what to find out about them."""

    model: str  # a built-in name, a folder or a Hub id
    data: str  # an address, see whence.data.sets.source
    methods: tuple[str, ...] = ()  # none: those that read one forward and backward pass
    metrics: tuple[str, ...] = ()  # none: explanations are made and not tested
    audit: tuple[str, ...] = ()  # experiments; none: attention is not audited
    params: Mapping[str, Any] = field(default_factory=dict)  # of methods, NAME or METHOD.NAME
    metric_params: Mapping[str, Any] = field(default_factory=dict)
    audit_params: Mapping[str, Any] = field(default_factory=dict)
    # The data: names of columns, and which rows.
    text: str | None = None
    pair: str | None = None
    label: str | None = None
    limit: int | None = None  # the first so many
    sample: int | None = None  # so many, drawn by the seed
    shard: tuple[int, int] | None = None  # (i, n): part i of n, counted from 1
    bad_rows: BadRows = "skip"
    # What is explained, and how it is tested.
    target: Any = None
    remove: str | None = None
    unit: str = "token"
    truncate: bool = True
    rankings: int = 5
    seed: int = 0
    # How the model is loaded.
    dtype: str | None = None
    revision: str | None = None
    mlm: str | None = None

    def to_toml(self) -> str:
        """Return the plan as the text of a file that `whence run` takes: what differs from the defaults."""
        return toml(told(self))


@dataclass(frozen=True)
class Manner:
    """Who works, where, and on how much at a time."""

    backend: BackendName = "in-process"
    workers: int | None = None  # processes; None: one for each core
    device: str | None = None
    batch_size: int | None = None  # inputs in one batch at most; None: as many as suit the model
    checkpoint: bool = False
    compile: bool = False
    # Of Ray alone.
    address: str | None = None  # None: a cluster on this machine, for as long as the run takes
    actors: int | None = None
    gpus_per_actor: float | None = None


def told(one: Plan | Manner) -> dict[str, Any]:
    """Return a plan or a manner as a file has it: plain data, without what is as it is by default."""
    empty: tuple[Any, ...] = ((), {}, None)
    found = {}
    for each in fields(one):
        value = getattr(one, each.name)
        if value not in empty and value != each.default:
            found[each.name] = "/".join(map(str, value)) if each.name == "shard" else value
    return found


"""Plain data as TOML: the standard library reads it and does not write it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(facts: Mapping[str, Any]) -> str:
    """Return a table as text: values in their order, then the tables in it, their names sorted."""
    lines = [
        f"{_key(name)} = {_value(value)}" for name, value in facts.items() if not _table(value)
    ]
    for name, own in facts.items():
        if _table(own):
            lines += ["", f"[{_key(name)}]"]
            lines += [f"{_key(key)} = {_value(own[key])}" for key in sorted(own)]
    return "\n".join(lines) + "\n"


def _table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if value is None:
        return '"none"'  # TOML has no word for it; parameters read this one
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # What JSON escapes, TOML escapes alike; of DEL it wants it, too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, Sequence):
        return f"[{', '.join(_value(one) for one in value)}]"
    raise TypeError(f"TOML has no {type(value).__name__}")
