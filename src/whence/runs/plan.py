"""Plan, which determines the results, and Execution, which does not: their fields, validation and TOML files.

A `Plan` determines the results. An `Execution` says which backend, device and batch size compute them, and
no result depends on it.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from whence.core.errors import BadPlan, shorten_quote, suggest_name

BadRows = Literal["skip", "fail"]
BackendName = Literal["in-process", "processes", "ray"]


@dataclass(frozen=True)
class Plan:
    """A model, a data set, and the methods, metrics and experiments to apply to them."""

    model: str  # a built-in name, a folder or a Hub id
    data: str  # an address, see whence.data.dataset
    methods: tuple[str, ...] = ()  # none: the trace methods
    metrics: tuple[str, ...] = ()  # none: explanations are not tested
    audit: tuple[str, ...] = ()  # experiments; none: attention is not audited
    params: Mapping[str, Any] = field(default_factory=dict)  # of methods, NAME or METHOD.NAME
    metric_params: Mapping[str, Any] = field(default_factory=dict)
    audit_params: Mapping[str, Any] = field(default_factory=dict)
    # The data: names of columns, and which rows.
    text: str | None = None
    pair: str | None = None
    label: str | None = None
    limit: int | None = None  # number of rows from the start
    sample: int | None = None  # number of rows, drawn by the seed
    shard: tuple[int, int] | None = None  # (i, n): part i of n, counted from 1
    bad_rows: BadRows = "skip"
    # The target and the tests.
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
        """Return the plan as TOML for `whence run`, without fields at their defaults."""
        return format_toml(to_plain_fields(self))


@dataclass(frozen=True)
class Execution:
    """The backend, workers, device and batch size of a run."""

    backend: BackendName = "in-process"
    workers: int | None = None  # processes; None: one for each core
    device: str | None = None
    batch_size: int | None = None  # inputs in one batch at most; None: as many as suit the model
    checkpoint: bool = False
    # Of Ray alone.
    address: str | None = None  # None: a cluster on this machine, for as long as the run takes
    actors: int | None = None
    gpus_per_actor: float | None = None


def to_plain_fields(options: Plan | Execution) -> dict[str, Any]:
    """Return a plan's or an execution's fields as plain data, without defaults."""
    empty: tuple[Any, ...] = ((), {}, None)
    plain = {}
    for option in fields(options):
        value = getattr(options, option.name)
        if value not in empty and value != option.default:
            plain[option.name] = "/".join(map(str, value)) if option.name == "shard" else value
    return plain


class _InvalidValue(Exception):
    """Raised by a parser for a value that is not allowed."""


@dataclass(frozen=True)
class _FieldType:
    """The type of an option: a description of allowed values, and its parser."""

    allowed: str
    parse: Callable[[Any], Any]


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _InvalidValue
    return value


def _parse_any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _InvalidValue
    return value


def _parse_names(value: Any) -> tuple[str, ...]:
    """Return names from a list or a comma-separated text, without duplicates."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _InvalidValue
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _parse_params(value: Any) -> dict[str, Any]:
    """Return a flat table of parameters from NAME, "OWNER.NAME" or tables by owner."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _InvalidValue
    flat: dict[str, Any] = {}
    for key, own in value.items():
        flat.update(
            {f"{key}.{n}": v for n, v in own.items()} if isinstance(own, Mapping) else {key: own}
        )
    if any(not (v is None or isinstance(v, str | int | float)) for v in flat.values()):
        raise _InvalidValue
    return dict(sorted(flat.items()))


def _integer_parser(least: int | None) -> Callable[[Any], int]:
    def parse_integer(value: Any) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or (least is not None and value < least)
        ):
            raise _InvalidValue
        return value

    return parse_integer


def _parse_number(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < float("inf")
    ):
        raise _InvalidValue
    return value


def _parse_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _InvalidValue
    return value


def _parse_shard(value: Any) -> tuple[int, int]:
    if isinstance(value, str) and (
        match := re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", value)
    ):
        value = (int(match[1]), int(match[2]))
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise _InvalidValue
    part, parts = map(_integer_parser(1), value)
    if part > parts:
        raise _InvalidValue
    return part, parts


def _parse_target(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if len(value) != 2 or any(isinstance(part, list | tuple) for part in value):
            raise _InvalidValue
        return tuple(map(_parse_target, value))
    return _parse_text(value) if isinstance(value, str) else _integer_parser(0)(value)


def _choice_type(*names: str) -> _FieldType:
    def parse_choice(value: Any) -> str:
        if value not in names:
            raise _InvalidValue
        return str(value)

    return _FieldType(f"one of {', '.join(names)}", parse_choice)


_TEXT = _FieldType("a text that is not empty", _parse_text)
_COLUMN = _FieldType("the name of a column, or an empty text for none", _parse_any_text)
_NAMES = _FieldType("a list of names", _parse_names)
_TABLE = _FieldType("a table of names and values: texts, numbers, true or false", _parse_params)
_COUNT = _FieldType("a whole number, at least 1", _integer_parser(1))
_FLAG = _FieldType("true or false", _parse_flag)

FIELD_TYPES: Mapping[str, _FieldType] = {
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
    "shard": _FieldType("I/N, part I of N, such as 1/4", _parse_shard),
    "bad_rows": _choice_type("skip", "fail"),
    "target": _FieldType(
        "a label, an index from 0, predicted, runner-up, gold, or a list of two of these",
        _parse_target,
    ),
    "remove": _choice_type("mask", "delete", "pad", "unk", "draw", "black", "mean", "blur"),
    "unit": _choice_type("token", "word"),
    "truncate": _FLAG,
    "rankings": _COUNT,
    "seed": _FieldType("a whole number, at least 0", _integer_parser(0)),
    "dtype": _choice_type("float64", "float32", "bfloat16", "float16"),
    "revision": _TEXT,
    "mlm": _TEXT,
    "backend": _choice_type("in-process", "processes", "ray"),
    "workers": _COUNT,
    "device": _TEXT,
    "batch_size": _COUNT,
    "checkpoint": _FLAG,
    "address": _TEXT,
    "actors": _COUNT,
    "gpus_per_actor": _FieldType("a number, at least 0", _parse_number),
}
PLAN_FIELDS = tuple(option.name for option in fields(Plan))
EXECUTION_FIELDS = tuple(option.name for option in fields(Execution))

# The backend each option belongs to; other backends reject it.
_BACKEND_OF_FIELD = {
    "workers": "processes",
    "address": "ray",
    "actors": "ray",
    "gpus_per_actor": "ray",
}


def build_plan(options: Mapping[str, Any], where: str = "The plan") -> tuple[Plan, Execution]:
    """Return a plan and an execution from options by name; None means not given.

    A BadPlan names the wrong option or value, and what is allowed.
    """
    parsed: dict[str, Any] = {}
    for name, value in options.items():
        if name not in FIELD_TYPES:
            allowed = [*FIELD_TYPES, "out"]
            raise BadPlan(
                f"{where} has no {shorten_quote(name)!r}. Allowed: {', '.join(allowed)}.{suggest_name(name, allowed)}"
            )
        if value is None:
            continue
        try:
            parsed[name] = FIELD_TYPES[name].parse(value)
        except _InvalidValue:
            raise BadPlan(
                f"{where}: {name!r} must be {FIELD_TYPES[name].allowed}. Got {shorten_quote(repr(value))}."
                f"{suggest_name(value, _list_choices(FIELD_TYPES[name])) if isinstance(value, str) else ''}"
            ) from None
    for needed, what in (
        ("model", "a built-in name, a folder or a Hub id"),
        ("data", "a file or another address"),
    ):
        if needed not in parsed:
            raise BadPlan(
                f"{where} names no {needed}: {what}. Give it: {needed} = ..., --{needed}."
            )
    _check_consistent(parsed, where)
    return (
        Plan(**{name: parsed[name] for name in PLAN_FIELDS if name in parsed}),
        Execution(**{name: parsed[name] for name in EXECUTION_FIELDS if name in parsed}),
    )


def _list_choices(form: _FieldType) -> list[str]:
    """Return the allowed names of a choice; empty for other types."""
    before, one_of, names = form.allowed.partition("one of ")
    return names.split(", ") if one_of and not before else []


def merge_options(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's options overridden by flags; a new backend drops the old one's options."""
    overrides = {name: value for name, value in flags.items() if value is not None}
    options = dict(file)
    if "backend" in overrides:
        options = {
            n: v
            for n, v in options.items()
            if _BACKEND_OF_FIELD.get(n, overrides["backend"]) == overrides["backend"]
        }
    return {**options, **overrides}


def _check_consistent(parsed: Mapping[str, Any], where: str) -> None:
    backend = parsed.get("backend", "in-process")
    for name, owner in _BACKEND_OF_FIELD.items():
        if name in parsed and owner != backend:
            raise BadPlan(
                f"{where}: {name!r} is for the backend {owner}, and the backend is {backend}. Leave it out, or take "
                f"backend = {owner!r}, --backend {owner}."
            )
    if parsed.get("remove") == "draw" and "mlm" not in parsed:
        raise BadPlan(
            f"{where}: remove = 'draw' draws from a masked language model, and none is named. Name it: mlm = ..., "
            "--mlm; or remove otherwise."
        )
    for table, names in (("metric_params", "metrics"), ("audit_params", "audit")):
        if parsed.get(table) and not parsed.get(names):
            raise BadPlan(
                f"{where}: {table!r} are given for {names!r}, and none is named. Name some: {names} = [...]."
            )


OUT_KEY = "out"


def read_plan(path: str | Path) -> dict[str, Any]:
    """Return the options of a TOML plan, as `build_plan` takes them, with "out" if it is given.

    Paths are relative to the folder of the file.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            options = tomllib.load(stream)
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
        if isinstance(options.get(name), str):
            options[name] = _resolve_model(options[name], home)
    if isinstance(options.get("data"), str):
        options["data"] = _resolve_data(options["data"], home)
    if OUT_KEY in options:
        if not isinstance(options[OUT_KEY], str) or not options[OUT_KEY].strip():
            raise BadPlan(
                f"{str(path)!r}: 'out' must be the name of a folder. Got {options[OUT_KEY]!r}."
            )
        options[OUT_KEY] = str(home / Path(options[OUT_KEY]).expanduser())
    return options


def _resolve_model(name: str, home: Path) -> str:
    """Return the path of a model folder relative to the plan; built-in and Hub names unchanged."""
    from whence.models.model_files import BUILTIN

    beside = home / Path(name).expanduser()
    looks_like_one = name.startswith((".", "~")) or beside.is_dir()
    return str(beside) if name not in BUILTIN and looks_like_one else name


def _resolve_data(address: str, home: Path) -> str:
    """Return the path of data relative to the plan; URLs and data set names unchanged."""
    from whence.data.hub_datasets import is_dataset_name

    if "://" in address or "::" in address:
        return address
    path, colon, rest = address.partition(":")
    beside = home / Path(path).expanduser()
    if (home / Path(address).expanduser()).exists() or not (
        beside.exists() or is_dataset_name(address)
    ):
        return str(home / Path(address).expanduser())
    return f"{beside}{colon}{rest}" if beside.exists() else address


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def format_toml(facts: Mapping[str, Any]) -> str:
    """Return a table as TOML: values in order, then its sub-tables with sorted names."""
    lines = [
        f"{_format_key(name)} = {_format_value(value)}"
        for name, value in facts.items()
        if not _is_table(value)
    ]
    for name, own in facts.items():
        if _is_table(own):
            lines += ["", f"[{_format_key(name)}]"]
            lines += [f"{_format_key(key)} = {_format_value(own[key])}" for key in sorted(own)]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _format_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _format_value(name)


def _format_value(value: Any) -> str:
    if value is None:
        return '"none"'  # TOML has no null; parameters parse "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # JSON's escapes are valid TOML; only DEL must be escaped in addition.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{_format_key(k)} = {_format_value(value[k])}" for k in sorted(value))
            + "}"
        )
    if isinstance(value, Sequence):
        return f"[{', '.join(_format_value(one) for one in value)}]"
    raise TypeError(f"TOML has no {type(value).__name__}")
