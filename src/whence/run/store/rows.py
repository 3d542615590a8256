"""Rows as Arrow tables, and as Parquet files: the same bytes for the same rows, in whatever order they came."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.run.store.schema import COLUMNS, EARLIER, ORDER, SCHEMAS, SINCE_2
from whence.run.task import Record

LIGHT = ("row", "key", "setting", "error")  # what tells which results there are, and which failed
GROUP = 4096  # rows that a reader must take at once


def from_records(name: str, records: Iterable[Record]) -> pa.Table:
    """Make a table of those records that belong to it; a ValueError where one does not fit."""
    known = {column.name for column in COLUMNS[name]} | {"table"}
    own = [record for record in records if record["table"] == name]
    if strange := {column for record in own for column in record} - known:
        raise ValueError(f"the table {name} has no column {', '.join(sorted(strange))}")
    try:
        table = pa.Table.from_pylist(own, schema=SCHEMAS[name])
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"a record does not fit the table {name} ({error})") from None
    for column in COLUMNS[name]:
        if not column.nullable and table[column.name].null_count:
            raise ValueError(f"a record of the table {name} lacks {column.name!r}")
    return table


def gathered(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Put rows together, sorted, each result once: the first that worked, or else the last failure."""
    # In one piece: rows of several are taken slowly, and a page of the file ends where a piece does.
    found = together(name, parts).combine_chunks()
    known = list(zip(found["row"].to_pylist(), found["key"].to_pylist(), strict=True))
    if len(set(known)) < len(known):
        found = found.take(pa.array(_chosen(known, found["error"].is_valid().to_pylist())))
    order = [(column, "ascending") for column in ORDER[name]]
    return found.take(pc.sort_indices(found.select(ORDER[name]), sort_keys=order))


def together(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Put tables one behind the other, also those that an earlier version wrote."""
    own = [widened(part, SCHEMAS[name].names) for part in parts]
    return pa.concat_tables([SCHEMAS[name].empty_table(), *own])


def _chosen(known: Sequence[tuple[int, str]], failed: Sequence[bool]) -> list[int]:
    """Return the place of each result once."""
    chosen: dict[tuple[int, str], int] = {}
    for place, one in enumerate(known):
        if one not in chosen or failed[chosen[one]]:
            chosen[one] = place
    return list(chosen.values())


def parquet(name: str, table: pa.Table) -> bytes:
    """Write a table as the bytes of a Parquet file. Nothing in it depends on when or where it is written."""
    sink = pa.BufferOutputStream()
    with writer(name, sink) as file:
        file.write_table(table, row_group_size=GROUP)
    return bytes(sink.getvalue())


def writer(name: str, sink: Any) -> pq.ParquetWriter:
    """Open a Parquet file of a table's schema for writing, with the one set of options that the store has."""
    repeated = [
        one.name
        for one in COLUMNS[name]
        if one.type == pa.string() and one.name not in ("key", "id")
    ]
    return pq.ParquetWriter(
        sink,
        SCHEMAS[name],
        version="2.6",
        compression="zstd",
        compression_level=3,
        use_dictionary=[*repeated, "tokens.list.element", "part_names.list.element"],
        write_page_checksum=True,
        write_batch_size=1024,
    )


def check(name: str, raw: bytes) -> None:
    """Raise a ValueError where the bytes are no Parquet file of a table."""
    try:
        with pq.ParquetFile(pa.BufferReader(raw)) as file:
            found = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no Parquet file ({_why(error)})") from None
    if not any(found.equals(one[name], check_metadata=True) for one in (SCHEMAS, EARLIER)):
        raise ValueError("its columns are not those of this version")


def read(raw: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the bytes of a Parquet file, or some columns of it; a ValueError where it is none."""
    try:
        with pq.ParquetFile(pa.BufferReader(raw), page_checksum_verification=True) as file:
            found = file.read(columns=None if columns is None else list(columns))
            return found if columns is None else widened(found, columns)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no whole Parquet file ({_why(error)})") from None


def _why(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def batches(name: str, file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Go through the rows of a Parquet file of a table, `size` at a time."""
    with pq.ParquetFile(file, page_checksum_verification=True) as opened:
        for batch in opened.iter_batches(batch_size=size):
            found = widened(pa.Table.from_batches([batch]), SCHEMAS[name].names)
            yield from found.cast(SCHEMAS[name]).to_batches()


def widened(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return a table with these columns; those that its version did not have yet are null."""
    missing = [one for one in SINCE_2 if one in columns and one not in table.schema.names]
    for column in missing:
        field = SCHEMAS["explanations"].field(column)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(list(dict.fromkeys(columns))) if missing else table
