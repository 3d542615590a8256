"""What a table, a drawing or a page says of its data set: its name, and what was drawn from how many rows."""

from collections.abc import Mapping
from typing import Any

from whence.report.text import visible

_ROLES = (("text", "texts"), ("pair", "second texts"), ("label", "labels"))


def data_told(facts: Mapping[str, Any] | None) -> str:
    """Name a data set, how many of its rows were taken, and the columns; nothing where nobody noted it."""
    if not facts or not {"name", "rows", "drawn", "seed"} <= facts.keys():
        return ""
    columns = [
        f"{what} from {_line(facts[role])!r}"
        for role, what in _ROLES
        if facts.get(role) is not None
    ]
    return "; ".join([f"{_line(facts['name'])}: {rows_told(facts)}", *columns])


def rows_told(facts: Mapping[str, Any]) -> str:
    """Say how many rows were taken from how many, and how."""
    rows, drawn, seed = facts["rows"], facts["drawn"], facts["seed"]
    of = "" if rows is None else f" of {rows:,}"
    if drawn is None:
        return "all rows" if rows is None else "its only row" if rows == 1 else f"all {rows:,} rows"
    if seed is None:
        return f"the first {drawn:,}{of} rows"
    return f"{drawn:,}{of} rows drawn with seed {seed}"


def drawn_told(setting: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Say that examples were drawn, and by which seed, where a limit left some of those given out."""
    limit = setting.get("limit")
    if not isinstance(limit, int) or limit >= data["given"]:
        return ""
    count = "" if limit == data["used"] else f"{limit:,} "  # some of them may be of no use
    return f", {count}drawn with seed {setting['seed']}"


def _line(text: Any) -> str:
    return " ".join(visible(str(text)).split())
