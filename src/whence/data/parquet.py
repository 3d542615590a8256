"""A Parquet file as rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from whence.core.errors import BadExamples

_ROWS = 10_000  # unpacked at once, at most


def rows(name: str, raw: bytes) -> list[tuple[str, Mapping[str, Any]]]:
    """Read the bytes of a Parquet file; numbers of classes that have names become the names."""
    with _opened(name, raw) as file:
        table = file.read()
        found = table.to_pylist()
    classes = _classes((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    return [(f"{name}, row {number}", named(row, classes)) for number, row in enumerate(found, 1)]


def holds_more(name: str, raw: bytes, limit: int) -> bool:
    """Say whether a file holds more bytes than that, without unpacking more of it at a time."""
    with _opened(name, raw) as file:
        groups = range(file.metadata.num_row_groups)
        stored = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        if stored > limit:
            return True
        # A value that many rows have may be stored once, and then a row is as large as all that is stored.
        rows_at_once = min(_ROWS, max(1, limit // max(stored, 1)))
        size = 0
        for batch in file.iter_batches(batch_size=rows_at_once):
            size += sum(_bytes(column) for column in batch.columns)
            if size > limit:
                return True
    return False


def _bytes(array: Any) -> int:
    """Return how many bytes the values of a column have, each counted wherever it stands."""
    import pyarrow

    kind = array.type
    if pyarrow.types.is_dictionary(kind):
        return int(array.dictionary_decode().nbytes)
    if pyarrow.types.is_struct(kind):
        return sum(_bytes(part) for part in array.flatten())
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        return 8 * len(array) + _bytes(array.flatten())
    return int(array.nbytes)


@contextmanager
def _opened(name: str, raw: bytes) -> Iterator[Any]:
    """Open a file; whatever is wrong with it while it is open is an error about the file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadExamples(
            f"{name} is a Parquet file, and the package that reads it is not installed: pip install pyarrow."
        ) from None
    try:
        with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(raw)) as file:
            yield file
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadExamples(
            f"{name} is not a whole Parquet file ({' '.join(str(error).split())[:120]}). Write it again."
        ) from None


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
