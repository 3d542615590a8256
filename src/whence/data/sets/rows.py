"""A file of a data set as rows: text, tab or comma separated, JSON lines or Parquet, each also compressed.

Files are read as streams. A row that cannot be read does not hide those after it; what makes the rest of a file
unreadable is an error.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import IO, Any

from whence.core.errors import BadExamples
from whence.data.sets import address, parquet
from whence.data.sets.limit import limited
from whence.data.sets.repeated import refuse_repeated, repeated_names, told_repeated
from whence.data.sets.stream import (
    ROW,
    Records,
    Unreadable,
    is_packed,
    lines,
    not_text,
    on_disk,
    unpacked,
)

__all__ = [
    "ALLOWED",
    "ENDINGS",
    "Row",
    "Table",
    "ending_of",
    "is_file",
    "is_packed",
    "parsed",
    "rows",
    "stream_of",
    "table",
    "whole",
]

Row = tuple[str, Mapping[str, Any]]  # where it stands, for messages, and what it says

ALLOWED = (
    ".txt (one text a line), .tsv and .csv (with a header), .jsonl (one object a line) and .parquet, "
    "each also as .gz"
)


@dataclass(frozen=True)
class Table:
    """Rows that can be gone through again and again."""

    name: str
    kind: str
    rows: Callable[[], Iterator[Row | Unreadable]]
    count: Callable[[], int | None]
    guessed: tuple[str, ...] = ()  # "split", where nobody named one


def table(given: str | Path) -> Table:
    """Take a file, here or at any address, whose ending says what it is."""
    name = address.file_name(given)
    ending = ending_of(name)

    def stream() -> Iterator[Row | Unreadable]:
        with address.opened(given, ALLOWED) as file:
            yield from stream_of(name, file)

    def count() -> int:
        with address.opened(given, ALLOWED) as file:
            return _count(name, file)

    return Table(name, ending.removeprefix("."), stream, count)


def rows(path: str | Path, most: int | None = None) -> list[Row]:
    """Read a file whose ending says what it is; `most` as in `whole`."""
    found = table(path)
    return whole(found.name, found.rows(), most)


def parsed(name: str, raw: bytes, most: int | None = None) -> list[Row]:
    """Read the bytes of a file of that name; `most` as in `whole`."""
    return whole(name, stream_of(name, BytesIO(raw)), most)


def whole(name: str, stream: Iterable[Row | Unreadable], most: int | None = None) -> list[Row]:
    """Take all rows; the first that cannot be read is an error, and so are more than `most` rows."""
    found: list[Row] = []
    try:
        for one in stream if most is None else limited(name, stream, most):
            if isinstance(one, Unreadable):
                raise one.error()
            found.append(one)
    except MemoryError:
        count = len(found)
        found.clear()
        raise BadExamples(
            f"{name} does not fit into memory: there is room for {count:,} of its rows. Give a part of it; "
            "`whence run` reads files of any size, row by row."
        ) from None
    if not found:
        raise BadExamples(f"{name} has no rows. Give a file with at least one text.")
    return found


def is_file(given: str | Path) -> bool:
    """Say whether this is a file by its ending, wherever it may be."""
    path = address.local(given)
    name = address.file_name(given).lower().removesuffix(".gz")
    return not (path is not None and path.is_dir()) and PurePath(name).suffix in ENDINGS


def ending_of(name: str) -> str:
    """Return the ending that says what a file is, whether it is compressed or not."""
    ending = PurePath(name.lower().removesuffix(".gz")).suffix
    if ending not in _READERS:
        what = (
            f"{ending} is no kind of file" if ending else "without an ending it is no kind of file"
        )
        raise BadExamples(f"{name}: {what} that is read here. Allowed: {ALLOWED}.")
    return ending


def stream_of(name: str, file: IO[bytes]) -> Iterator[Row | Unreadable]:
    """Yield the rows of an open file of that name."""
    ending = ending_of(name)
    with unpacked(name, file) as plain:
        if ending == ".parquet" and is_packed(name):
            with on_disk(name, plain) as seekable:
                yield from _READERS[ending](name, seekable)
        else:
            yield from _READERS[ending](name, plain)


def _count(name: str, file: IO[bytes]) -> int:
    """Count the rows of a file as the stream would, and read no more of them than that takes."""
    ending = ending_of(name)
    if ending == ".parquet" and not is_packed(name):
        return parquet.count(name, file)
    if ending not in (".txt", ".jsonl"):
        return sum(1 for _ in stream_of(name, file))
    with unpacked(name, file) as plain:
        return sum(1 for _ in lines(name, plain))


def _plain(name: str, file: IO[bytes]) -> Iterator[Row | Unreadable]:
    for line in lines(name, file):
        yield line if isinstance(line, Unreadable) else (line[0], {"text": line[1]})


def _tabs(name: str, file: IO[bytes]) -> Iterator[Row | Unreadable]:
    stream = lines(name, file)
    first = next(stream, ("", ""))
    if isinstance(first, Unreadable):
        raise first.error()
    header = first[1].split("\t")
    _check_header(first[0], header)
    for line in stream:
        yield (
            line if isinstance(line, Unreadable) else _fields(line[0], header, line[1].split("\t"))
        )


def _commas(name: str, file: IO[bytes]) -> Iterator[Row | Unreadable]:
    # The package has one limit for all who use it. It is only ever raised, so that nobody loses by it.
    csv.field_size_limit(max(csv.field_size_limit(), ROW))
    records = Records(name, file)
    reader = csv.reader(records, strict=True)
    header: list[str] | None = None
    try:
        for fields in reader:
            records.new_row()
            where = f"{name}, line {reader.line_num}"
            wrong = next((one for text in fields if (one := _no_text(text))), None)
            if not fields:  # a blank line, before the header, too
                continue
            if header is None:
                if wrong:
                    raise BadExamples(f"{where}: {wrong}")
                header = fields
                _check_header(where, header)
            else:
                yield Unreadable(where, wrong) if wrong else _fields(where, header, fields)
    except csv.Error as error:
        # Where a quotation is broken, nobody can say which of the lines after it begin a row.
        raise BadExamples(
            f"{name}, line {reader.line_num}: not comma separated values ({error}). "
            'Quote a field that holds a comma or a line break, and double the quotes in it: "".'
        ) from None
    finally:
        records.release()


def _no_text(field: str) -> str | None:
    if field.isascii():
        return None
    try:
        field.encode()
    except UnicodeEncodeError as error:
        return not_text("invalid byte", ord(field[error.start]) & 0xFF)
    return None


def _check_header(where: str, header: list[str]) -> None:
    """Refuse a header in which two columns have one name; those without a name nobody can ask for."""
    refuse_repeated(where, [name.strip() for name in header if name.strip()], "column")


def _fields(where: str, header: list[str], fields: list[str]) -> Row | Unreadable:
    if len(fields) != len(header):
        return Unreadable(
            where,
            f"{len(fields)} fields, and the header has {len(header)}: {', '.join(header)[:200]}. "
            "Every row needs one field for each.",
        )
    return where, dict(zip((name.strip() for name in header), fields, strict=True))


def _objects(name: str, file: IO[bytes]) -> Iterator[Row | Unreadable]:
    for line in lines(name, file):
        yield line if isinstance(line, Unreadable) else _object(*line)


def _object(where: str, line: str) -> Row | Unreadable:
    twice: list[str] = []

    def taken(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs) and not twice:
            names = [name for name, _ in pairs]
            twice.append(told_repeated(names, repeated_names(names), "key"))
        return found

    try:
        row = json.loads(line, object_pairs_hook=taken)
    except (ValueError, RecursionError) as error:
        return Unreadable(where, f"not JSON ({error}). Give one object a line.")
    if not isinstance(row, dict):
        return Unreadable(
            where,
            f"a JSON {type(row).__name__}, not an object. Give one object a line, such as "
            '{"text": "a fine film"}.',
        )
    return Unreadable(where, twice[0]) if twice else (where, row)


_READERS: Mapping[str, Callable[[str, IO[bytes]], Iterator[Row | Unreadable]]] = {
    ".txt": _plain,
    ".tsv": _tabs,
    ".csv": _commas,
    ".jsonl": _objects,
    ".parquet": parquet.stream,
}

ENDINGS = frozenset(_READERS)
