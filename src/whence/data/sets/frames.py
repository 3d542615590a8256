"""A table in memory as rows: a frame of pandas or polars, a table of Arrow, a data set of the package `datasets`.

None of these packages is needed here: a table is known by what it can do.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from whence.core.errors import BadExamples
from whence.data.sets.parquet import named
from whence.data.sets.repeated import refuse_repeated
from whence.data.sets.rows import Row

NAME = "The table"


def is_frame(given: Any) -> bool:
    """Say whether this is a table with named columns, and not a list, a text or a single column."""
    if isinstance(given, str | bytes | Mapping | list | tuple | type):
        return False
    if _is_lazy(given) or _has(given, "columns", "to_dicts"):  # polars
        return True
    if _has(given, "columns", "itertuples"):  # pandas
        return True
    names = getattr(given, "column_names", None)  # Arrow, datasets
    return isinstance(names, list) and hasattr(given, "__len__")


def frame_columns(given: Any) -> list[str]:
    """Return the names of the columns, as text."""
    if _is_lazy(given):
        return [str(name) for name in given.collect_schema().names()]
    own = getattr(given, "column_names", None)
    return [str(name) for name in (given.columns if own is None else own)]


def frame_rows(given: Any) -> list[Row]:
    """Return the rows of a table by the names of its columns; what stands for a missing value becomes None."""
    given = given.collect() if _is_lazy(given) else given
    names = frame_columns(given)
    refuse_repeated(NAME, names, "column")
    found: list[Row] = [
        (f"Row {number} of the table, counted from 0", row)
        for number, row in enumerate(_rows(given, names))
    ]
    if not found:
        raise BadExamples(
            f"{NAME} has no rows; its columns are {', '.join(names) or 'none'}. Give at least one text."
        )
    return found


def _rows(given: Any, names: list[str]) -> Iterator[dict[str, Any]]:
    if hasattr(given, "iter_rows"):
        values = given.iter_rows()
    elif hasattr(given, "itertuples"):
        values = given.itertuples(index=False, name=None)
    elif hasattr(given, "to_pylist"):
        yield from given.to_pylist()
        return
    else:
        features = getattr(given, "features", None) or {}
        classes = {n: list(kind.names) for n, kind in features.items() if hasattr(kind, "names")}
        yield from (named(row, classes) for row in given)
        return
    for row in values:
        yield {name: _plain(value) for name, value in zip(names, row, strict=True)}


def _plain(value: Any) -> Any:
    """Return a number or a list of NumPy's as Python's own, and None for what pandas puts where nothing is."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if getattr(value, "ndim", None) in (0, 1) and hasattr(value, "tolist"):
        return value.tolist()
    return value


def _is_lazy(given: Any) -> bool:
    return _has(given, "collect", "collect_schema") and not hasattr(given, "to_dicts")


def _has(given: Any, *names: str) -> bool:
    return all(hasattr(given, name) for name in names)
