"""A Parquet file as rows."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from whence.core.errors import BadExamples


def rows(name: str, raw: bytes) -> list[tuple[str, Mapping[str, Any]]]:
    """Read the bytes of a Parquet file; numbers of classes that have names become the names."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadExamples(
            f"{name} is a Parquet file, and the package that reads it is not installed: pip install pyarrow."
        ) from None
    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(raw))
        found = table.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadExamples(
            f"{name} is not a whole Parquet file ({' '.join(str(error).split())[:120]}). Write it again."
        ) from None
    classes = _classes((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    return [(f"{name}, row {number}", named(row, classes)) for number, row in enumerate(found, 1)]


def named(row: Mapping[str, Any], classes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Put the names of classes in the place of their numbers; -1 is how data sets say that there is no label."""
    changed = dict(row)
    for column, names in classes.items():
        value = row.get(column)
        if type(value) is int and -1 <= value < len(names):
            changed[column] = None if value == -1 else names[value]
    return changed


def _classes(stated: bytes) -> dict[str, list[str]]:
    """Find the names of classes in what the package datasets notes in the Parquet files it writes."""
    try:
        features = json.loads(stated)["info"]["features"]
        return {
            str(column): [str(name) for name in feature["names"]]
            for column, feature in features.items()
            if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # a note of somebody else's: the numbers are still labels
