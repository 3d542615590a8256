"""A file of a data set as rows: text, tab or comma separated, JSON lines or Parquet, each also compressed."""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples
from whence.data import parquet

Row = tuple[str, Mapping[str, Any]]  # where it stands, for messages, and what it says

ALLOWED = (
    ".txt (one text a line), .tsv and .csv (with a header), .jsonl (one object a line) and .parquet, "
    "each also as .gz"
)


def rows(path: str | Path) -> list[Row]:
    """Read a file whose ending says what it is."""
    path = Path(path)
    ending_of(path.name)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadExamples(
            f"Cannot read {str(path)!r}: {error.strerror or error}. Give a file of examples: {ALLOWED}."
        ) from None
    return parsed(path.name, raw)


def parsed(name: str, raw: bytes) -> list[Row]:
    """Read the bytes of a file of that name."""
    ending = ending_of(name)
    found = list(_READERS[ending](name, _unpacked(name, raw) if is_packed(name) else raw))
    if not found:
        raise BadExamples(f"{name} has no rows. Give a file with at least one text.")
    return found


def ending_of(name: str) -> str:
    """Return the ending that says what a file is, whether it is compressed or not."""
    ending = Path(name.lower().removesuffix(".gz")).suffix
    if ending not in _READERS:
        what = (
            f"{ending} is no kind of file" if ending else "without an ending it is no kind of file"
        )
        raise BadExamples(f"{name}: {what} that is read here. Allowed: {ALLOWED}.")
    return ending


def is_packed(name: str) -> bool:
    """Say whether a file is compressed."""
    return name.lower().endswith(".gz")


def _unpacked(name: str, raw: bytes) -> bytes:
    try:
        return gzip.decompress(raw)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadExamples(
            f"{name} is not a whole gzip file ({error}). Compress it again."
        ) from None


def _text(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadExamples(
            f"{name}, line {line}: not UTF-8 text ({error.reason}, byte {raw[error.start]:#04x}). "
            "Convert the file to UTF-8."
        ) from None


def _lines(name: str, raw: bytes) -> Iterator[tuple[str, str]]:
    """Yield the lines that are not blank; only a line feed ends one, whatever else a text may hold."""
    for number, line in enumerate(_text(name, raw).split("\n"), 1):
        if line.strip():
            yield f"{name}, line {number}", line.removesuffix("\r")


def _plain(name: str, raw: bytes) -> Iterator[Row]:
    for where, line in _lines(name, raw):
        yield where, {"text": line}


def _tabs(name: str, raw: bytes) -> Iterator[Row]:
    lines = _lines(name, raw)
    header = next(lines, ("", ""))[1].split("\t")
    for where, line in lines:
        yield where, _fields(where, header, line.split("\t"))


def _commas(name: str, raw: bytes) -> Iterator[Row]:
    reader = csv.reader(StringIO(_text(name, raw), newline=""), strict=True)
    try:
        header = next(reader, [])
        for fields in reader:
            if fields:
                where = f"{name}, line {reader.line_num}"
                yield where, _fields(where, header, fields)
    except csv.Error as error:
        raise BadExamples(
            f"{name}, line {reader.line_num}: not comma separated values ({error}). "
            'Quote a field that holds a comma or a line break, and double the quotes in it: "".'
        ) from None


def _fields(where: str, header: list[str], fields: list[str]) -> dict[str, Any]:
    if len(fields) != len(header):
        raise BadExamples(
            f"{where}: {len(fields)} fields, and the header has {len(header)}: {', '.join(header)}. "
            "Every row needs one field for each."
        )
    return dict(zip((name.strip() for name in header), fields, strict=True))


def _objects(name: str, raw: bytes) -> Iterator[Row]:
    for where, line in _lines(name, raw):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadExamples(f"{where}: not JSON ({error}). Give one object a line.") from None
        if not isinstance(row, dict):
            raise BadExamples(
                f"{where}: a JSON {type(row).__name__}, not an object. Give one object a line, such as "
                '{"text": "a fine film"}.'
            )
        yield where, row


_READERS: Mapping[str, Callable[[str, bytes], Iterable[Row]]] = {
    ".txt": _plain,
    ".tsv": _tabs,
    ".csv": _commas,
    ".jsonl": _objects,
    ".parquet": parquet.rows,
}

ENDINGS = frozenset(_READERS)
