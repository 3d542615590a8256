"""Plan, which determines the results, and Execution, which does not: their fields, validation and TOML files.

A `Plan` determines the results. An `Execution` says which backend, device and batch size compute them, and
no result depends on it.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainValidator,
    TypeAdapter,
)

from whence.core.errors import BadPlan, shorten_quote, suggest_name


def _check_not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError
    return value


def _parse_names(value: Any) -> tuple[str, ...]:
    """Return names from a list or a comma-separated text, without duplicates."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _parse_params(value: Any) -> dict[str, Any]:
    """Return a flat table of parameters from NAME, "OWNER.NAME" or tables by owner."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError
    flat: dict[str, Any] = {}
    for key, own in value.items():
        flat.update(
            {f"{key}.{n}": v for n, v in own.items()} if isinstance(own, Mapping) else {key: own}
        )
    if any(not (v is None or isinstance(v, str | int | float)) for v in flat.values()):
        raise ValueError
    return dict(sorted(flat.items()))


def _parse_shard(value: Any) -> Any:
    """Return (part, parts) from "part/parts"."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", str(value))
    part, parts = (int(match[1]), int(match[2])) if match else value
    if part > parts:
        raise ValueError
    return part, parts


def _list_to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Types of options: what is allowed, for `TypeAdapter`, and in words, for the message that refuses a value.
Text = Annotated[InstanceOf[str], AfterValidator(_check_not_blank), "a text that is not empty"]
Column = Annotated[InstanceOf[str], "the name of a column, or an empty text for none"]
Count = Annotated[int, Field(ge=1), "a whole number, at least 1"]
Index = Annotated[int, Field(ge=0), "a whole number, at least 0"]
Flag = Annotated[bool, "true or false"]
Names = Annotated[tuple[str, ...], PlainValidator(_parse_names), "a list of names"]
Params = Annotated[
    Mapping[str, Any],
    PlainValidator(_parse_params),
    "a table of names and values: texts, numbers, true or false",
]
Shard = Annotated[
    tuple[Count, Count], BeforeValidator(_parse_shard), "I/N, part I of N, such as 1/4"
]
Target = Annotated[
    Text | Index | tuple[Text | Index, Text | Index],
    BeforeValidator(_list_to_tuple),
    "a label, an index from 0, predicted, runner-up, gold, or a list of two of these",
]
Replacement = Literal["mask", "delete", "pad", "unk", "draw", "black", "mean", "blur"]


@dataclass(frozen=True)
class Plan:
    """A model, a data set, and the methods, metrics and experiments to apply to them."""

    model: Text  # a built-in name, a folder or a Hub id
    data: Text  # an address, see whence.data.dataset
    methods: Names = ()  # none: the trace methods
    metrics: Names = ()  # none: explanations are not tested
    audit: Names = ()  # experiments; none: attention is not audited
    params: Params = field(default_factory=dict)  # of methods, NAME or METHOD.NAME
    metric_params: Params = field(default_factory=dict)
    audit_params: Params = field(default_factory=dict)
    # The data: names of columns, and which rows.
    text: Column | None = None
    pair: Column | None = None
    label: Column | None = None
    limit: Count | None = None  # number of rows from the start
    sample: Count | None = None  # number of rows, drawn by the seed
    shard: Shard | None = None  # (i, n): part i of n, counted from 1
    bad_rows: Literal["skip", "fail"] = "skip"
    # The target and the tests.
    target: Target | None = None
    remove: Replacement | None = None
    unit: Literal["token", "word"] = "token"
    truncate: Flag = True
    rankings: Count = 5
    seed: Index = 0
    # How the model is loaded.
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None
    revision: Text | None = None
    mlm: Text | None = None

    def to_toml(self) -> str:
        """Return the plan as TOML for `whence run`, without fields at their defaults."""
        return format_toml(to_plain_fields(self))


@dataclass(frozen=True)
class Execution:
    """The backend, workers, device and batch size of a run."""

    backend: Literal["in-process", "processes", "ray"] = "in-process"
    workers: Count | None = None  # processes; None: one for each core
    device: Text | None = None
    batch_size: Count | None = None  # inputs in one batch at most; None: as many as suit the model
    checkpoint: Flag = False
    # Of Ray alone.
    address: Text | None = None  # None: a cluster on this machine, for as long as the run takes
    actors: Count | None = None
    gpus_per_actor: (
        Annotated[float, Field(ge=0, allow_inf_nan=False), "a number, at least 0"] | None
    ) = None


PLAN_FIELDS = tuple(option.name for option in fields(Plan))
FIELD_TYPES: Mapping[str, Any] = {
    **get_type_hints(Plan, include_extras=True),
    **get_type_hints(Execution, include_extras=True),
}


def to_plain_fields(options: Plan | Execution) -> dict[str, Any]:
    """Return a plan's or an execution's fields as plain data, without defaults."""
    empty: tuple[Any, ...] = ((), {}, None)
    plain = {}
    for option in fields(options):
        value = getattr(options, option.name)
        if value not in empty and value != option.default:
            plain[option.name] = "/".join(map(str, value)) if option.name == "shard" else value
    return plain


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
            kind = TypeAdapter(FIELD_TYPES[name], config=ConfigDict(strict=True))
            parsed[name] = kind.validate_python(value)
        except (ValueError, TypeError):
            allowed_text, choices = _describe_type(FIELD_TYPES[name])
            raise BadPlan(
                f"{where}: {name!r} must be {allowed_text}. Got {shorten_quote(repr(value))}."
                f"{suggest_name(value, choices) if isinstance(value, str) else ''}"
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
        Execution(**{name: own for name, own in parsed.items() if name not in PLAN_FIELDS}),
    )


def _describe_type(hint: Any) -> tuple[str, list[str]]:
    """Return what an option may be, in words, and the names of a choice."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}", list(get_args(hint))
    return next(text for text in hint.__metadata__ if isinstance(text, str)), []


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
    lines, tables = list[str](), list[str]()
    for name, value in facts.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{_format_key(name)}]"]
            tables += [f"{_format_key(key)} = {_format_value(value[key])}" for key in sorted(value)]
        else:
            lines.append(f"{_format_key(name)} = {_format_value(value)}")
    return "\n".join([*lines, *tables]) + "\n"


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
