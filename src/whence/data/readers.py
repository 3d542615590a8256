"""A Parquet file as rows, in bounded memory, by the sizes that the file states.

A value that many rows have may be stored once, and a page of zeros in a few bytes: a small file can hold far more
than fits into memory. So texts stay numbers of a dictionary until their row has its turn, and its size was looked at.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import IO, Any

from whence.core.errors import BadExamples
from whence.data.sets.repeated import refuse_repeated
from whence.data.sets.stream import ROW, Unreadable, not_text

_ROWS = 10_000  # unpacked at once, at most
_BATCH = 1024  # rows of a stream at once, at most
_HELD = 64 * 2**20  # bytes of a stream at once, at most, but for a single row
_BUFFER = 2**20
# A column of a row group must not be both this large once unpacked and this many times larger than it is stored.
_PAGES, _RATIO = 256 * 2**20, 32
_VALUES = (
    2**27
)  # of lists in one column of a row group: nothing says how many of them are in one row


def stream(name: str, file: IO[bytes]) -> Iterator[tuple[str, Mapping[str, Any]] | Unreadable]:
    """Yield the rows of a Parquet file; numbers of classes that have names become the names."""
    with _opened(name, file, dictionaries=True) as opened:
        refuse_repeated(name, opened.schema_arrow.names, "column")
        classes = _classes((opened.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
        number = 0
        for group in range(opened.metadata.num_row_groups):
            at_once = _rows_at_once(name, opened.metadata.row_group(group), group)
            for batch in opened.iter_batches(batch_size=at_once, row_groups=[group]):
                for row in _unpacked(batch):
                    number += 1
                    where = f"{name}, row {number}"
                    if isinstance(row, str):
                        yield Unreadable(where, row)
                    else:
                        yield where, named(row, classes)


def count(name: str, file: IO[bytes]) -> int:
    """Return how many rows a file says it has."""
    with _opened(name, file) as opened:
        return int(opened.metadata.num_rows)


def _rows_at_once(name: str, group: Any, number: int) -> int:
    """Return how many rows of a group are read together; refuse a group that is made to fill the memory."""
    for column in map(group.column, range(group.num_columns)):
        size, stored = column.total_uncompressed_size, column.total_compressed_size
        if size > max(_PAGES, _RATIO * stored) or (
            column.num_values > max(_VALUES, group.num_rows)  # lists have more values than rows
        ):
            raise BadExamples(
                f"{name}: row group {number} has {column.num_values:,} values in {column.path_in_schema!r}, "
                f"{size >> 20:,} MiB once unpacked, stored in {stored:,} bytes: more than is safe to unpack. Write "
                "the file with smaller row groups."
            )
    row = max(group.total_byte_size, 8 * _values(group)) // max(group.num_rows, 1)
    return int(min(_BATCH, max(1, _HELD // max(row, 1))))


def _values(group: Any) -> int:
    """Return how many values a row group says it has, those in lists included."""
    return sum(group.column(i).num_values for i in range(group.num_columns))


def _unpacked(batch: Any) -> Iterator[dict[str, Any] | str]:
    """Yield rows as plain data, or say what is wrong with one: together where they are small, else one by one."""
    if batch.num_rows > 1 and _size(batch) <= _HELD:
        try:
            yield from batch.to_pylist()
            return
        except UnicodeDecodeError:
            pass  # one of them is no text: which one is seen below
    for number in range(batch.num_rows):
        row = batch.slice(number, 1)
        if _size(row) > ROW:
            yield f"more than {ROW >> 20} MiB. Cut what it holds."
            continue
        try:
            yield row.to_pylist()[0]
        except UnicodeDecodeError as error:
            yield not_text(error.reason, error.object[error.start])


def _size(batch: Any) -> int:
    return sum(_bytes(column) for column in batch.columns)


def holds_more(name: str, raw: bytes, limit: int) -> bool:
    """Say whether a file holds more bytes than that, without unpacking more of it at a time."""
    with _opened(name, BytesIO(raw)) as file:
        groups = range(file.metadata.num_row_groups)
        stored = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        values = [_values(file.metadata.row_group(group)) for group in groups]
        if stored > limit or 8 * sum(values) > limit:
            return True
        # A value that many rows have may be stored once, and then a row is as large as all that is stored.
        rows_at_once = min(_ROWS, max(1, limit // max(stored, 1)))
        size = 0
        for group in groups:
            at_once = min(rows_at_once, _rows_at_once(name, file.metadata.row_group(group), group))
            for batch in file.iter_batches(batch_size=at_once, row_groups=[group]):
                size += _size(batch)
                if size > limit:
                    return True
    return False


def _bytes(array: Any) -> int:
    """Return how many bytes the values of a column have, each counted wherever it stands."""
    from pyarrow import compute, int64, types

    kind = array.type
    if types.is_dictionary(kind):
        if not _is_bytes(kind.value_type):
            return int(array.dictionary_decode().nbytes)
        sizes = compute.binary_length(array.dictionary).take(array.indices)
        return int(compute.sum(sizes.cast(int64())).as_py() or 0) + 8 * len(array)
    if types.is_struct(kind):
        return sum(_bytes(part) for part in array.flatten())
    if types.is_map(kind):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = (array.keys, array.items)  # of all rows: those of a slice are between its offsets
        return 8 * len(array) + sum(_bytes(part.slice(start, end - start)) for part in parts)
    if any(sort(kind) for sort in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return 8 * len(array) + _bytes(array.flatten())
    if types.is_null(kind) or types.is_boolean(kind):
        return 8 * len(
            array
        )  # stored in bits or in nothing at all, and objects once they are unpacked
    return int(array.nbytes)


def _is_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    sorts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(sort(kind) for sort in sorts)


@contextmanager
def _opened(name: str, file: IO[bytes], dictionaries: bool = False) -> Iterator[Any]:
    """Open a file; whatever is wrong with it while it is open is an error about the file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadExamples(
            f"{name} is a Parquet file, and the package that reads it is not installed: pip install pyarrow."
        ) from None
    try:
        plain = pyarrow.parquet.ParquetFile(file, buffer_size=_BUFFER)
        texts = _texts(plain.metadata.schema, plain.metadata.num_columns) if dictionaries else None
        with pyarrow.parquet.ParquetFile(
            file, metadata=plain.metadata, read_dictionary=texts, buffer_size=_BUFFER
        ) as opened:
            yield opened
    except (pyarrow.ArrowMemoryError, MemoryError):
        raise BadExamples(
            f"{name} does not fit into memory. Write it with smaller row groups, or give a part of it."
        ) from None
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadExamples(
            f"{name} is not a whole Parquet file ({' '.join(str(error).split())[:120]}). Write it again."
        ) from None


def _texts(schema: Any, columns: int) -> list[str]:
    """Name the columns of texts and bytes, those within lists and structures included."""
    found = (schema.column(number) for number in range(columns))
    return [
        one.path
        for one in found
        if one.physical_type == "BYTE_ARRAY" and one.logical_type.type != "DECIMAL"
    ]


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
