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
