"""Row readers for txt, tsv, csv, JSON lines, Parquet and data frames; local and remote (fsspec) files and folders.

Files are read as streams in bounded memory, compressed or not. An unreadable row becomes an `UnreadableRow`
and does not hide the rows after it; an error is raised if the number of lost rows is unknown.

Only this module knows fsspec. Files named inside a folder must lie in it: a name that leads out, by `..`, as
an absolute path or through a link, is refused.

Small files can hold more than fits into memory. In Parquet, a value of many rows may be stored once, and a
page of zeros in a few bytes, so texts stay dictionary indices until their row is read, and its size is
checked first. A data set that is kept in memory has a limit on rows, cells and bytes, since each cell becomes
a Python object.

A data frame (pandas, polars, Arrow, datasets) is recognised by its methods; none of these packages is
imported.
"""

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path, PurePath, PurePosixPath
from stat import S_ISREG
from tempfile import TemporaryFile
from typing import IO, Any

from whence.core.errors import BadExamples, TooLarge, WhenceError, shorten_quote

_FILE_BUFFER = 2**20  # bytes; lines may be long
ALLOWED_FILES = (
    ".txt (one text a line), .tsv and .csv (with a header), .jsonl (one object a line) and .parquet, "
    "each also as .gz"
)


def to_local_path(address: str | Path) -> Path | None:
    """Return the local path of an address; None if it is remote, such as s3://bucket/file.csv."""
    text = str(address)
    if "::" not in text and text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    return None if isinstance(address, str) and "://" in text else Path(address)


def parse_file_name(address: str | Path) -> str:
    """Return the file name at an address, without access keys; its ending tells the format."""
    path = to_local_path(address)
    if path is not None:
        return path.name
    parts = [url.partition("://")[2] if "://" in url else url for url in str(address).split("::")]
    where = next((part for part in parts if PurePosixPath(part).suffix), parts[-1])
    if str(address).startswith(("http:", "https:")) or "::http" in str(address):
        where = where.partition("?")[0].partition("#")[0]
    return PurePosixPath(where).name


@contextmanager
def open_file(address: str | Path) -> Iterator[IO[bytes]]:
    """Open a local or remote file for reading; remote ones have random access, too."""
    path = to_local_path(address)
    if path is None:
        with _find_remote(str(address)) as (system, place), system.open(place, "rb") as file:
            yield file
        return
    try:
        # A pipe might never end and cannot be read twice; a device has no end.
        if path.exists() and not (S_ISREG(path.stat().st_mode) or path.is_dir()):
            raise BadExamples(
                f"{path.name!r} is no ordinary file. Save what it gives, and name that."
            )
        file = path.open("rb", buffering=_FILE_BUFFER)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadExamples(
            f"Cannot read {str(address)!r}: {why}. Give a file of examples: {ALLOWED_FILES}."
        ) from None
    with file:
        yield file


@contextmanager
def _find_remote(address: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system (fsspec) of an address such as s3://bucket/file.csv, and the path there.

    Errors of remote file systems become BadExamples, without the address, which may have access keys.
    """
    name = parse_file_name(address)
    parts = address.replace("://", "/").split("::")
    if any(".." in PurePosixPath(part).parts for part in parts):
        raise BadExamples(f"The address of {name!r} has a part '..'. Write it without.")
    try:
        from fsspec.core import url_to_fs

        yield url_to_fs(address)
    except WhenceError:
        raise
    except ImportError as error:
        raise BadExamples(
            f"{name!r} is at an address that needs another package: {error}."
        ) from None
    except FileNotFoundError:
        raise BadExamples(f"Cannot read {name!r}: there is nothing at this address.") from None
    except Exception as error:
        # Each protocol has its own package with its own error classes.
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise BadExamples(
            f"Cannot read {name!r}: {why.rstrip('.')}. Check the address and the network."
        ) from None


@dataclass(frozen=True)
class DataFolder:
    """A local or remote folder. The names of its files are relative to it, with slashes."""

    name: str
    root: Path | str  # a remote one by its address

    def _join(self, name: str) -> Path | str:
        if isinstance(self.root, Path):
            return self.root / name
        head, chain, rest = self.root.partition("::")
        return f"{head.rstrip('/')}/{name}{chain}{rest}"

    def has(self, name: str) -> bool:
        """Return whether there is a file or a folder of that name."""
        path = self._join(name)
        if isinstance(path, Path):
            return path.exists()
        with _find_remote(path) as (system, place):
            return bool(system.exists(place))

    def find_path(self, name: str) -> Path | str:
        """Return the path of a file or folder; refuse one that is outside of the folder."""
        parts = PurePosixPath(name).parts
        chains = "::" in name and isinstance(
            self.root, str
        )  # fsspec would take what follows for another address
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name or chains:
            raise BadExamples(
                f"{shorten_quote(name, 60)!r} lies outside of the folder {self.name!r}. Name what is in it."
            )
        path = self._join(name)
        try:
            inside = isinstance(path, str) or path.resolve().is_relative_to(
                Path(self.root).resolve()
            )
        except (OSError, RuntimeError):  # a cycle of links
            inside = False
        if not inside:
            raise BadExamples(
                f"{shorten_quote(name, 60)!r} is a link that leads out of the folder {self.name!r}. Put the file there."
            )
        return path

    def find_file(self, name: str) -> Path | str:
        """Return the path of a file; refuse one that is outside of the folder or missing."""
        path = self.find_path(name)
        if isinstance(path, Path) and not path.is_file():
            what = "is a folder, or a link to one," if path.is_dir() else "is not there"
            raise BadExamples(f"{shorten_quote(name, 60)!r} in the folder {self.name!r} {what}.")
        return path


def open_folder(address: str | Path) -> DataFolder | None:
    """Return the folder at an address; None if there is none."""
    path = to_local_path(address)
    if path is not None:
        return DataFolder(path.resolve().name, path) if path.is_dir() else None
    with _find_remote(str(address)) as (system, place):
        is_folder = system.isdir(place)
    return DataFolder(parse_file_name(address), str(address)) if is_folder else None


MAX_ROW_BYTES = 16 * 2**20  # most bytes of one row
_MAX_LINE_BYTES = 2**30  # most bytes to skip in search of the end of a too long line
_READ_STEP = 2**20
_MAX_UNPACKED_BYTES = 2**30  # most bytes of an unpacked file that needs random access

TableRow = tuple[
    str, Any
]  # its location, for messages, and its content: cells by column, or an example


@dataclass(frozen=True)
class UnreadableRow:
    """One unreadable row, with its location and the reason."""

    where: str
    why: str

    def to_error(self) -> BadExamples:
        """Return the row as an error, for readers that need every row."""
        return BadExamples(self.why if self.where in self.why else f"{self.where}: {self.why}")


Rows = Iterator[TableRow | UnreadableRow]


@dataclass(frozen=True)
class RowSource:
    """A source of rows that can be iterated repeatedly."""

    name: str
    kind: str
    rows: Callable[[], Rows]
    count: Callable[[], int | None]  # rows, good and bad; None if only a full read would tell
    guessed: tuple[str, ...] = ()  # ("split",) if the split was guessed


def open_row_file(
    address: str | Path, raw: bytes | None = None, most_bytes: int | None = None
) -> RowSource:
    """Open a file as a source of rows; its ending tells the format.

    `raw`: its content, if it is in memory. More than `most_bytes` bytes, once it is unpacked, are an error.
    """
    name = parse_file_name(address)
    ending = PurePath(name.lower().removesuffix(".gz")).suffix
    if ending not in _FORMAT_READERS:
        what = f"{ending} is" if ending else "without an ending it is"
        raise BadExamples(
            f"{name}: {what} no kind of file that is read here. Allowed: {ALLOWED_FILES}."
        )

    @contextmanager
    def open_plain() -> Iterator[IO[bytes]]:
        with open_file(address) if raw is None else BytesIO(raw) as file:
            if not name.lower().endswith(".gz"):
                yield file
                return
            try:
                with gzip.GzipFile(fileobj=file) as plain:
                    if ending != ".parquet" and most_bytes is None:
                        yield plain  # type: ignore[misc]  # a file in all but its declared type
                        return
                    with _unpack_to_disk(name, plain, most_bytes) as whole:
                        yield whole
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise BadExamples(
                    f"{name} is not a whole gzip file ({error}). Compress it again."
                ) from None

    def read_rows() -> Rows:
        with open_plain() as file:
            if ending == ".parquet" and most_bytes is not None:
                _check_parquet_size(name, file, most_bytes)
            yield from _FORMAT_READERS[ending](name, file)

    def count_rows() -> int:
        with open_plain() as file:
            if ending == ".parquet":
                with _open_parquet(name, file) as opened:
                    return int(opened.metadata.num_rows)
            if ending in (".txt", ".jsonl"):  # nothing has to be parsed
                return sum(1 for _ in _read_lines(name, file))
            return sum(1 for _ in _FORMAT_READERS[ending](name, file))

    return RowSource(name, ending.removeprefix("."), read_rows, count_rows)


def is_data_file(address: str | Path) -> bool:
    """Return whether this names a data file, by its ending."""
    path = to_local_path(address)
    name = parse_file_name(address).lower().removesuffix(".gz")
    return not (path is not None and path.is_dir()) and PurePath(name).suffix in FILE_ENDINGS


@contextmanager
def _unpack_to_disk(name: str, file: gzip.GzipFile, most_bytes: int | None) -> Iterator[IO[bytes]]:
    """Unpack a compressed file to a temporary one: for random access, or so that its size is known."""
    with TemporaryFile() as whole:
        while some := file.read1(
            _READ_STEP
        ):  # also of a file that breaks off: too large comes first
            size = whole.tell() + len(some)
            if most_bytes is not None and size > most_bytes:
                raise _build_size_error(name, most_bytes)
            if most_bytes is None and size > _MAX_UNPACKED_BYTES:
                raise BadExamples(
                    f"{name} holds more than {_MAX_UNPACKED_BYTES >> 20} MiB. Unpack it first, or leave the compression to the "
                    "format."
                )
            whole.write(some)
        whole.seek(0)
        yield whole


def _read_lines(name: str, file: IO[bytes]) -> Iterator[tuple[str, str] | UnreadableRow]:
    """Yield the lines that are not blank, each with its location; only a line feed ends a line."""
    number = 0
    while raw := file.readline(MAX_ROW_BYTES + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(raw) > MAX_ROW_BYTES:
            passed = MAX_ROW_BYTES
            while not raw.endswith(b"\n") and (raw := file.readline(_READ_STEP)):
                passed += len(raw)
                if passed > _MAX_LINE_BYTES:
                    raise BadExamples(
                        f"{where}: more than {_MAX_LINE_BYTES >> 20} MiB without the end of a line. Write one row a line."
                    )
            yield UnreadableRow(where, f"more than {MAX_ROW_BYTES >> 20} MiB. Cut the text.")
            continue
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            yield UnreadableRow(where, _format_encoding_error(error.reason, raw[error.start]))
            continue
        if line.strip():
            yield where, line.removesuffix("\r")


def _format_encoding_error(reason: str, byte: int) -> str:
    return f"not UTF-8 text ({reason}, byte {byte:#04x}). Convert the file to UTF-8."


def _read_txt(name: str, file: IO[bytes]) -> Rows:
    for line in _read_lines(name, file):
        yield line if isinstance(line, UnreadableRow) else (line[0], {"text": line[1]})


def _read_tsv(name: str, file: IO[bytes]) -> Rows:
    lines = _read_lines(name, file)
    return _read_table(
        line if isinstance(line, UnreadableRow) else (line[0], line[1].split("\t"))
        for line in lines
    )


def _read_csv(name: str, file: IO[bytes]) -> Rows:
    with closing(_parse_csv(name, file)) as rows:  # also if the table is refused
        yield from _read_table(rows)


def _parse_csv(
    name: str, file: IO[bytes]
) -> Generator[tuple[str, list[str]] | UnreadableRow, None, None]:
    # The limit is global to the csv module. It is only raised, so that other users of it lose nothing.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    # Invalid bytes become lone surrogates, which are found in the fields.
    text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
    size = 0  # of the row that is being read

    def read_lines() -> Iterator[str]:
        nonlocal size
        while line := text.readline(MAX_ROW_BYTES + 1):
            size += len(line)
            if size > MAX_ROW_BYTES:
                raise BadExamples(
                    f"{name}, line {reader.line_num + 1}: a row of more than {MAX_ROW_BYTES >> 20} MiB. Cut the text, or "
                    'close the quotation that takes in what follows: ".'
                )
            yield line

    reader = csv.reader(read_lines(), strict=True)
    try:
        for fields in reader:
            size = 0
            where = f"{name}, line {reader.line_num}"
            if wrong := _INVALID_BYTE.search("".join(fields)):
                byte = ord(wrong[0]) & 0xFF
                yield UnreadableRow(where, _format_encoding_error("invalid byte", byte))
            elif fields:  # no blank line
                yield where, fields
    except csv.Error as error:
        # After a broken quotation it is unknown which of the following lines begin a row.
        raise BadExamples(
            f"{name}, line {reader.line_num}: not comma separated values ({error}). "
            'Quote a field that holds a comma or a line break, and double the quotes in it: "".'
        ) from None
    finally:
        text.detach()  # the file is closed by whoever opened it


_INVALID_BYTE = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of one


def _read_table(rows: Iterator[tuple[str, list[str]] | UnreadableRow]) -> Rows:
    """Yield the rows of a table by column; the first row is the header."""
    header: list[str] | None = None
    for row in rows:
        if isinstance(row, UnreadableRow):
            if header is None:
                raise row.to_error()
            yield row
            continue
        where, fields = row
        if header is None:  # several columns may have no name, and no two the same
            header = [name.strip() for name in fields]
            _check_unique_columns(where, filter(None, header))
        elif len(fields) == len(header):
            yield where, dict(zip(header, fields, strict=True))
        else:
            yield UnreadableRow(
                where,
                f"{len(fields)} fields, and the header has {len(header)}: {', '.join(header)[:200]}. "
                "Every row needs one field for each.",
            )


def _read_jsonl(name: str, file: IO[bytes]) -> Rows:
    for line in _read_lines(name, file):
        yield line if isinstance(line, UnreadableRow) else _parse_object(*line)


def _parse_object(where: str, line: str) -> TableRow | UnreadableRow:
    repeats: list[str] = []

    def build_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            repeats.append(_describe_repeats((name for name, _ in pairs), "key"))
        return mapping

    try:
        row = json.loads(line, object_pairs_hook=build_mapping)
    except (ValueError, RecursionError) as error:
        return UnreadableRow(where, f"not JSON ({error}). Give one object a line.")
    if not isinstance(row, dict):
        return UnreadableRow(
            where,
            f"a JSON {type(row).__name__}, not an object. Give one object a line, such as "
            '{"text": "a fine film"}.',
        )
    return UnreadableRow(where, repeats[0]) if repeats else (where, row)


def _describe_repeats(names: Iterable[str], what: str) -> str:
    """Return the message on names that occur more than once; empty without any."""
    counts = Counter(names)
    twice = [f"{n} {what}s are called {name[:40]!r}" for name, n in counts.items() if n > 1]
    if not twice:
        return ""
    return f"{', '.join(twice)}, and nobody can say which of them is meant. Give each {what} a name of its own."


def _check_unique_columns(where: str, names: Iterable[str]) -> None:
    if repeats := _describe_repeats(names, "column"):
        raise BadExamples(f"{where}: {repeats}")


_MAX_BATCH_ROWS = 1024  # most rows of a stream at once
_MAX_BATCH_BYTES = 64 * 2**20  # most bytes of a stream at once, except for a single row
_PARQUET_BUFFER = 2**20
# A column of a row group is refused if it is larger than this once unpacked and this many times its stored size.
_SAFE_COLUMN_BYTES, _SAFE_RATIO = 256 * 2**20, 32
_MAX_VALUES = 2**27  # most list values in one column of a row group: they could all be in one row


def _read_parquet(name: str, file: IO[bytes]) -> Rows:
    """Yield the rows of a Parquet file; class ids with names become the names."""
    with _open_parquet(name, file) as opened:
        _check_unique_columns(name, opened.schema_arrow.names)
        classes = _parse_class_names(
            (opened.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
        )
        number = 0
        for group in range(opened.metadata.num_row_groups):
            at_once = _compute_batch_rows(name, opened.metadata.row_group(group), group)
            for batch in opened.iter_batches(batch_size=at_once, row_groups=[group]):
                for row in _unpack_batch(batch):
                    number += 1
                    where = f"{name}, row {number}"
                    if isinstance(row, str):
                        yield UnreadableRow(where, row)
                    else:
                        yield where, replace_class_ids(row, classes)


def _check_parquet_size(name: str, file: IO[bytes], most_bytes: int) -> None:
    """Refuse a file that holds more bytes once it is unpacked, by its metadata."""
    with _open_parquet(name, file) as opened:
        groups = map(opened.metadata.row_group, range(opened.metadata.num_row_groups))
        sizes = [(group.total_byte_size, 8 * _count_values(group)) for group in groups]
    if any(sum(kind) > most_bytes for kind in zip(*sizes, strict=True)):
        raise _build_size_error(name, most_bytes)


def _build_size_error(name: str, most_bytes: int) -> TooLarge:
    return TooLarge(f"{name} holds more than {most_bytes:,} bytes when it is unpacked.")


def _count_values(group: Any) -> int:
    """Return the number of values in a row group's metadata, those in lists included."""
    return sum(int(group.column(i).num_values) for i in range(group.num_columns))


def _compute_batch_rows(name: str, group: Any, number: int) -> int:
    """Return the number of rows to read at once; refuse a row group that would fill the memory."""
    for column in map(group.column, range(group.num_columns)):
        size, stored = column.total_uncompressed_size, column.total_compressed_size
        if size > max(_SAFE_COLUMN_BYTES, _SAFE_RATIO * stored) or (
            column.num_values > max(_MAX_VALUES, group.num_rows)  # lists have more values than rows
        ):
            raise BadExamples(
                f"{name}: row group {number} has {column.num_values:,} values in {column.path_in_schema!r}, "
                f"{size >> 20:,} MiB once unpacked, stored in {stored:,} bytes: more than is safe to unpack. Write "
                "the file with smaller row groups."
            )
    row = max(group.total_byte_size, 8 * _count_values(group)) // max(group.num_rows, 1)
    return int(min(_MAX_BATCH_ROWS, max(1, _MAX_BATCH_BYTES // max(row, 1))))


def _unpack_batch(batch: Any) -> Iterator[dict[str, Any] | str]:
    """Yield rows as plain data, or a message for a bad one; large rows one by one."""
    if batch.num_rows > 1 and sum(map(_count_column_bytes, batch.columns)) <= _MAX_BATCH_BYTES:
        try:
            yield from batch.to_pylist()
            return
        except UnicodeDecodeError:
            pass  # one row is not UTF-8: the loop below finds it
    for number in range(batch.num_rows):
        row = batch.slice(number, 1)
        if sum(map(_count_column_bytes, row.columns)) > MAX_ROW_BYTES:
            yield f"more than {MAX_ROW_BYTES >> 20} MiB. Cut what it holds."
            continue
        try:
            yield row.to_pylist()[0]
        except UnicodeDecodeError as error:
            yield _format_encoding_error(error.reason, error.object[error.start])


def _count_column_bytes(array: Any) -> int:
    """Return the bytes of a column's values once unpacked; shared values count every time."""
    from pyarrow import compute, int64, types

    kind = array.type
    if types.is_dictionary(kind):  # only columns of texts and bytes are read so
        sizes = compute.binary_length(array.dictionary).take(array.indices)
        return int(compute.sum(sizes.cast(int64())).as_py() or 0) + 8 * len(array)
    if types.is_struct(kind):
        return sum(map(_count_column_bytes, array.flatten()))
    if types.is_map(kind):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = (array.keys, array.items)  # of all rows; a slice's own lie between its offsets
        return 8 * len(array) + sum(
            _count_column_bytes(part.slice(start, end - start)) for part in parts
        )
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return 8 * len(array) + _count_column_bytes(array.flatten())
    if types.is_null(kind) or types.is_boolean(kind):
        return 8 * len(array)  # stored as bits or not at all, but Python objects once unpacked
    return int(array.nbytes)


@contextmanager
def _open_parquet(name: str, file: IO[bytes]) -> Iterator[Any]:
    """Open a Parquet file, its texts as dictionaries; errors while it is open become BadExamples."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadExamples(
            f"{name} is a Parquet file, and the package that reads it is not installed: pip install pyarrow."
        ) from None
    try:
        metadata = pyarrow.parquet.read_metadata(file)
        columns = map(metadata.schema.column, range(metadata.num_columns))
        with pyarrow.parquet.ParquetFile(
            file,
            metadata=metadata,
            read_dictionary=[
                column.path
                for column in columns
                if column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"
            ],
            buffer_size=_PARQUET_BUFFER,
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


def replace_class_ids(
    row: Mapping[str, Any], classes: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Replace class ids by names; -1 is the usual sign of a missing label, and becomes None."""
    changed = dict(row)
    for column, names in classes.items():
        value = row.get(column)
        if type(value) is int and -1 <= value < len(names):
            changed[column] = None if value == -1 else names[value]
    return changed


def _parse_class_names(metadata: bytes) -> dict[str, list[str]]:
    """Return the class names that the package datasets writes into Parquet metadata."""
    try:
        features = json.loads(metadata)["info"]["features"]
        return {
            str(column): [str(name) for name in feature["names"]]
            for column, feature in features.items()
            if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # other metadata: the ids stay the labels


_FORMAT_READERS: Mapping[str, Callable[[str, IO[bytes]], Rows]] = {
    ".txt": _read_txt,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
FILE_ENDINGS = frozenset(_FORMAT_READERS)


def is_data_frame(value: Any) -> bool:
    """Return whether this is a table with named columns, and not a list, a text or a single column."""
    if isinstance(value, str | bytes | Mapping | list | tuple | type):
        return False
    if _is_lazy(value) or (
        hasattr(value, "columns") and (hasattr(value, "to_dicts") or hasattr(value, "itertuples"))
    ):  # polars, pandas
        return True
    names = getattr(value, "column_names", None)  # Arrow, datasets
    return isinstance(names, list) and hasattr(value, "__len__")


def list_frame_columns(frame: Any) -> list[str]:
    """Return the column names of a table, as text."""
    if _is_lazy(frame):
        return [str(name) for name in frame.collect_schema().names()]
    own = getattr(frame, "column_names", None)
    return [str(name) for name in (frame.columns if own is None else own)]


def open_frame(frame: Any) -> RowSource:
    """Open a table in memory as a source of rows; missing values become None."""
    frame = frame.collect() if _is_lazy(frame) else frame
    names = list_frame_columns(frame)
    _check_unique_columns("The table", names)
    if not len(frame):
        raise BadExamples(
            f"The table has no rows; its columns are {', '.join(names) or 'none'}. Give at least one text."
        )

    def read_rows() -> Rows:
        for number, row in enumerate(_iterate_frame(frame, names)):
            yield f"Row {number} of the table, counted from 0", row

    return RowSource("The table", "table", read_rows, lambda: len(frame))


def _iterate_frame(frame: Any, names: list[str]) -> Iterator[Mapping[str, Any]]:
    if hasattr(frame, "iter_rows"):  # polars
        values = frame.iter_rows()
    elif hasattr(frame, "itertuples"):  # pandas
        values = frame.itertuples(index=False, name=None)
    elif hasattr(frame, "to_pylist"):  # Arrow
        yield from frame.to_pylist()
        return
    else:
        classes = list_class_names(frame)
        yield from (replace_class_ids(row, classes) for row in frame)
        return
    for row in values:
        yield {name: _to_plain_value(value) for name, value in zip(names, row, strict=True)}


def list_class_names(dataset: Any) -> dict[str, list[str]]:
    """Return the names of the classes in each labelled column of a data set of the package datasets."""
    features = getattr(dataset, "features", None) or {}  # may be unknown for a stream
    return {name: list(kind.names) for name, kind in features.items() if hasattr(kind, "names")}


def _to_plain_value(value: Any) -> Any:
    """Convert a numpy value to plain Python, and pandas' missing values to None."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if getattr(value, "ndim", None) in (0, 1) and hasattr(value, "tolist"):
        return value.tolist()
    return value


def _is_lazy(value: Any) -> bool:
    lazy = hasattr(value, "collect") and hasattr(value, "collect_schema")
    return lazy and not hasattr(value, "to_dicts")


CELLS_PER_ROW = 10  # most cells per allowed row, on average


def limit_rows(source: RowSource, most: int, most_bytes: int | None) -> Rows:
    """Yield rows; raise if there are more than `most`, ten times as many cells, or `most_bytes` bytes."""
    name = source.name
    cells, size = 0, 0
    for number, item in enumerate(source.rows(), 1):
        if number > most:
            raise TooLarge(
                f"{name} has more than {most:,} rows, and a data set is kept in memory here. Give a part of it."
            )
        if isinstance(item, tuple) and isinstance(item[1], Mapping):
            own_cells, own_size = measure_row(item[1])
            cells, size = cells + own_cells, size + own_size
        if cells > CELLS_PER_ROW * most:
            raise TooLarge(
                f"{name} has more than {CELLS_PER_ROW * most:,} cells in its first {number:,} rows, and a data set is kept "
                "in memory here. Give a part of it."
            )
        if most_bytes is not None and size > most_bytes:
            raise _build_size_error(name, most_bytes)
        yield item


def measure_row(row: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of values in a row, those in nested lists and mappings included, and their bytes."""
    cells, size = 0, 0
    waiting: list[Iterable[Any]] = [row.values()]
    while waiting:
        for value in waiting.pop():
            cells += 1
            if isinstance(value, Mapping):
                waiting.append(value.values())
            elif isinstance(value, list | tuple):
                waiting.append(value)
            else:
                size += len(value) if isinstance(value, str | bytes) else 8
    return cells, size
