"""Tables of a run: columns, schemas, and one Parquet file for each table of a chunk.

The same rows give the same bytes, whenever and in whatever order they came; so a file is checked by its page checksums, and
by writing its rows again.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.core.errors import CannotRead

VERSION = 3
Record = dict[str, Any]  # a row by the names of its columns, and its table under "table"


class Column(NamedTuple):
    """A column of a table: name, type, nullability and meaning."""

    name: str
    type: pa.DataType
    nullable: bool
    meaning: str


_AXIOM = pa.struct([pa.field("axiom", pa.string()), pa.field("residual", pa.float64())])


def _parse_columns(lines: str) -> tuple[Column, ...]:
    """Return columns from lines of name, type ("[]": a list, "!": never null) and meaning."""
    columns = []
    for name, kind, meaning in (line.split(maxsplit=2) for line in lines.strip().splitlines()):
        alias = kind.rstrip("!").removesuffix("[]")
        of = _AXIOM if alias == "axiom" else pa.type_for_alias(alias)
        # "element" is the name that Parquet gives the values of a list.
        full = pa.list_(pa.field("element", of)) if "[]" in kind else of
        columns.append(Column(name, full, "!" not in kind, meaning))
    return tuple(columns)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "explanations": _parse_columns("""
        key         string!    the hash of everything that determines this result
        setting     string!    all of it but the example; the manifest says what
        row         int64!     the example's place in the data, counted from 0
        example     string!    the hash of the example: text or picture, label, marks
        id          string!    the example's own name, or what its place is called
        label       string     its true label, where the data has one
        text        string     its text; null of a picture
        pair        string     its second text, where there are two
        method      string!    what explained it
        gold        string     its true label as the model calls it; null: not one of its
        right       bool       whether the model predicts that; null: nobody can say
        target      string     the class that is explained
        predicted   string     the class that the model predicts
        probability float64    what the model gives that class
        tokens      string[]   what has a score: tokens, or patches by name
        special     bool[]     whether a token is the model's own
        starts      int32[]    where a token begins in its text; null: nowhere
        ends        int32[]    where it ends, one character behind the last
        segments    int8[]     of which text it is: 0, or 1 of a pair
        ids         int64[]    its number in the model's vocabulary
        words       int32[]    its word's number; -1: in none; null: never removed
        scores      float64[]  the explanation, a score for each token
        axioms      axiom[]    how far a law is missed that scores should obey
        forward     int32      forward passes that this took
        backward    int32      backward passes
        dropped     int32      tokens that were cut off, because the text is too long
        refused     bool       whether the model cannot take the input at all
        error       string     of a failure: the code of its error; scores are null
        why         string     of a failure: a sentence
    """),
    "metrics": _parse_columns("""
        key         string!    the hash of everything that determines this result
        setting     string!    all of it but the example; the manifest says what
        row         int64!     the example's place in the data, counted from 0
        example     string!    the hash of the example: text or picture, label, marks
        method      string!    whose explanation was tested
        metric      string!    what tested it
        value       float64    what it measured
        null        float64    the same of random rankings, their mean
        part_names  string[]   what a value is made of, where it has parts
        parts       float64[]  the parts of the value, in this order
        null_parts  float64[]  those of each random ranking in turn
        error       string     why there is no value: the code of an error
        why         string     why there is no value: a sentence
    """),
    "unreadable": _parse_columns("""
        row         int64!     its place in the data, counted from 0
        where       string!    its file and line
        why         string!    why it cannot be read
    """),
}

# Sort keys of the rows in a file.
SORT_COLUMNS = {
    "explanations": ("row", "method", "setting"),
    "metrics": ("row", "method", "metric", "setting"),
    "unreadable": ("row",),
}


SCHEMAS: dict[str, pa.Schema] = {
    name: pa.schema(
        [pa.field(column.name, column.type, column.nullable) for column in columns],
        metadata={"whence": f"store {name}", "version": str(VERSION)},
    )
    for name, columns in COLUMNS.items()
}
TABLES = ("explanations", "metrics")
UNREADABLE = "unreadable"
ROW_GROUP_SIZE = 4096  # rows in a Parquet row group, the least that can be read
_WRITER = re.compile(r"parquet-cpp-arrow version \d[\w.+-]*")


def build_tables(records: Sequence[Record]) -> dict[str, pa.Table]:
    """Return records as tables; ValueError if one does not fit."""
    try:
        return {name: _build_table(name, records) for name in TABLES}
    except UnicodeEncodeError:  # half a surrogate pair has no UTF-8 form: replaced by "?"
        plain = json.loads(json.dumps(records, ensure_ascii=False).encode("utf-8", "replace"))
        return {name: _build_table(name, plain) for name in TABLES}


def _build_table(name: str, records: Iterable[Record]) -> pa.Table:
    own = [record for record in records if record["table"] == name]
    if strange := {key for record in own for key in record} - {"table", *SCHEMAS[name].names}:
        raise ValueError(f"the table {name} has no column {', '.join(sorted(strange))}")
    try:
        table = pa.Table.from_pylist(own, schema=SCHEMAS[name])
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"a record does not fit the table {name} ({error})") from None
    for column in COLUMNS[name]:
        if not column.nullable and table[column.name].null_count:
            raise ValueError(f"a record of the table {name} lacks {column.name!r}")
    return table


def merge_rows(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return rows in order and without doubles: the first success, or else the last failure."""
    # One chunk: `take` is slow over several, and Parquet ends a page at each chunk's end.
    table = pa.concat_tables([SCHEMAS[name].empty_table(), *parts]).combine_chunks()
    chosen = select_unique(table)
    if len(chosen) < table.num_rows:
        table = table.take(pa.array(chosen))
    order = [(column, "ascending") for column in SORT_COLUMNS[name]]
    return table.take(pc.sort_indices(table.select(SORT_COLUMNS[name]), sort_keys=order))


def select_unique(table: pa.Table) -> list[int]:
    """Return the place of one row for each result: its first success, or else its last failure."""
    chosen: dict[tuple[int, str], int] = {}
    names = table.schema.names  # unreadable rows have neither key nor error
    keys = table["key"].to_pylist() if "key" in names else [""] * table.num_rows
    failed = table["error"].is_valid().to_pylist() if "error" in names else [False] * len(keys)
    for place, key in enumerate(zip(table["row"].to_pylist(), keys, strict=True)):
        if key not in chosen or failed[chosen[key]]:
            chosen[key] = place
    return list(chosen.values())


def encode_parquet(name: str, table: pa.Table) -> bytes:
    """Return a table as Parquet bytes, which depend on neither time nor machine."""
    sink = pa.BufferOutputStream()
    with open_parquet_writer(name, sink) as file:
        file.write_table(table.combine_chunks(), row_group_size=ROW_GROUP_SIZE)
    return bytes(sink.getvalue())


def open_parquet_writer(name: str, sink: Any) -> pq.ParquetWriter:
    """Return a Parquet writer for a table, with the options used throughout the store."""
    repeated = [
        column.name
        for column in COLUMNS[name]
        if column.type == pa.string() and column.name not in ("key", "id")
    ]
    lists = ["tokens.list.element", "part_names.list.element"]
    return pq.ParquetWriter(
        sink,
        SCHEMAS[name],
        version="2.6",
        compression="zstd",
        compression_level=3,
        use_dictionary=[*repeated, *lists],
        write_page_checksum=True,
        write_batch_size=1024,
    )


def read_table(
    path: Path, name: str, columns: Sequence[str] | None = None, rows: Collection[int] | None = None
) -> pa.Table:
    """Return the table in a file, some of its columns, or some rows of the data; ValueError if its pages are damaged."""
    with explain_damage(path), path.open("rb") as stream:
        return _decode_parquet(stream, name, columns, rows)[0]


def read_sound_table(path: Path, name: str) -> pa.Table:
    """Return the table in a file; ValueError if any of its bytes is damaged."""
    with explain_damage(path):
        raw = path.read_bytes()
        table, writer = _decode_parquet(pa.BufferReader(raw), name)
    # Page checksums do not cover the headers; the same rows, written again, do. Another version of
    # pyarrow may write the same rows otherwise.
    same_writer = writer == f"parquet-cpp-arrow version {pa.__version__}"
    if not _WRITER.fullmatch(writer) or (same_writer and encode_parquet(name, table) != raw):
        raise ValueError("its bytes are not those of its rows")
    return table


@contextmanager
def explain_damage(path: Path, what: str = "it is no whole Parquet file") -> Iterator[None]:
    """Context manager: turn what reading a file may raise into a ValueError that says why."""
    try:
        yield
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise CannotRead(
            f"Cannot read {str(path)!r}: {error.strerror}. Allow it to be read."
        ) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Also a folder of that name, or a bad sector.
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:120]
        raise ValueError(f"{what} ({reason})") from None


def _decode_parquet(
    source: Any,
    name: str,
    columns: Sequence[str] | None = None,
    rows: Collection[int] | None = None,
) -> tuple[pa.Table, str]:
    """Return a table and what wrote it."""
    with pq.ParquetFile(source, page_checksum_verification=True) as file:
        if not file.schema_arrow.equals(SCHEMAS[name], check_metadata=True):
            raise ValueError("its columns are not those of this version")
        groups, facts = list(range(file.num_row_groups)), file.metadata
        if rows is not None:
            place = SCHEMAS[name].get_field_index("row")
            spans = [facts.row_group(number).column(place).statistics for number in groups]
            groups = [n for n in groups if any(spans[n].min <= row <= spans[n].max for row in rows)]
        table = file.read_row_groups(groups, None if columns is None else list(columns))
        if rows is not None:
            known = pa.array(sorted(rows), pa.int64())
            table = table.filter(pc.is_in(table["row"], value_set=known))
        return table, str(facts.created_by)
