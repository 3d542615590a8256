"""Row readers for txt, tsv, csv, JSON lines, Parquet, data frames; local and remote (fsspec) files and folders.

Files are read as streams in bounded memory, compressed or not. An unreadable row becomes an `UnreadableRow`
and does not hide the rows after it; an error is raised if the number of lost rows is unknown.

Only this module knows fsspec. Files named inside a folder must lie in it: a name that leads out, by `..`, as
an absolute path or through a link, is refused.

Small files can hold more than fits into memory. In Parquet, a value of many rows may be stored once, and a
page of zeros in a few bytes, so texts stay dictionary indices until their row is read, and its size is
checked first. A data set that is kept in memory has a limit on rows and cells, since each cell becomes a
Python object.

A data frame (pandas, polars, Arrow, datasets) is recognised by its methods; none of these packages is
imported.
"""

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from os import walk
from pathlib import Path, PurePath, PurePosixPath
from stat import S_ISREG
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

from whence.core.errors import BadExamples, TooLarge, WhenceError, shorten_quote

_FILE_BUFFER = 2**20  # bytes; lines may be long
_MAX_IMAGE_BYTES = 256 * 2**20  # most bytes of a remote picture


def is_remote(address: str | Path) -> bool:
    """Return whether this is an address such as s3://bucket/file.csv, and not a local path."""
    return isinstance(address, str) and "://" in address and to_local_path(address) is None


def to_local_path(address: str | Path) -> Path | None:
    """Return the local path of an address; None if it is remote."""
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
def open_file(address: str | Path, allowed: str) -> Iterator[IO[bytes]]:
    """Open a file for reading; `allowed` is the remedy in the error."""
    path = to_local_path(address)
    if path is None:
        remote = _open_remote(
            str(address)
        )  # the reference stays as long as the file: an archive is closed with its last reference
        with _wrap_address_errors(str(address)), remote.open() as file:
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
            f"Cannot read {str(address)!r}: {why}. Give a file of examples: {allowed}."
        ) from None
    with file:
        yield file


@dataclass(frozen=True)
class RemoteFile:
    """A remote file. It can be pickled, and is read on demand."""

    system: Any
    path: str

    def read(self) -> bytes:
        """Return the content, at most 256 MiB."""
        with _wrap_address_errors(self.path), self.open() as file:
            raw: bytes = file.read(_MAX_IMAGE_BYTES + 1)
        if len(raw) > _MAX_IMAGE_BYTES:
            raise BadExamples(
                f"{PurePosixPath(self.path).name!r} has more than {_MAX_IMAGE_BYTES >> 20} MiB. Make it smaller."
            )
        return raw

    def open(self) -> Any:
        """Open the file for reading, with random access."""
        return self.system.open(self.path, "rb")


@dataclass(frozen=True)
class DataFolder:
    """A local or remote folder. File names are relative to it, with slashes."""

    name: str
    root: Path | RemoteFile

    def list_files(self) -> list[str]:
        """Return all file names, sorted, subfolders included; links to folders are listed, not followed."""
        if isinstance(self.root, RemoteFile):
            with _wrap_address_errors(self.root.path):
                paths = self.root.system.find(self.root.path)
            start = self.root.path.rstrip("/")
            names = [str(path).removeprefix(start).lstrip("/") for path in paths]
        else:
            names = []
            for home, folders, files in walk(self.root):
                links = [folder for folder in folders if (Path(home) / folder).is_symlink()]
                within = Path(home).relative_to(self.root)
                names += [(within / name).as_posix() for name in (*files, *links)]
        return sorted(names, key=PurePosixPath)

    def has(self, name: str) -> bool:
        """Return whether there is a file or a folder of that name."""
        if isinstance(self.root, RemoteFile):
            with _wrap_address_errors(self.root.path):
                return bool(self.root.system.exists(f"{self.root.path.rstrip('/')}/{name}"))
        return (self.root / name).exists()

    def open_subfolder(self, name: str) -> "DataFolder":
        """Return a subfolder."""
        return DataFolder(name, self._resolve_inside(name))

    def is_linked_folder(self, name: str) -> bool:
        """Return whether this listed name is a link to a folder, which is not followed."""
        return isinstance(self.root, Path) and (self.root / name).is_dir()

    def find_file(self, name: str) -> Path | RemoteFile:
        """Return the location of a file; refuse one that is outside of the folder or missing."""
        path = self._resolve_inside(name)
        if isinstance(path, Path) and not path.is_file():
            what = "is a folder, or a link to one," if path.is_dir() else "is not there"
            raise BadExamples(f"{shorten_quote(name, 60)!r} in the folder {self.name!r} {what}.")
        return path

    def _resolve_inside(self, name: str) -> Path | RemoteFile:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
            raise BadExamples(
                f"{shorten_quote(name, 60)!r} lies outside of the folder {self.name!r}. Name what is in it."
            )
        if isinstance(self.root, RemoteFile):
            return RemoteFile(self.root.system, f"{self.root.path.rstrip('/')}/{name}")
        path = self.root / name
        try:
            inside = path.resolve().is_relative_to(self.root.resolve())
        except (OSError, RuntimeError):  # a cycle of links
            inside = False
        if not inside:
            raise BadExamples(
                f"{shorten_quote(name, 60)!r} is a link that leads out of the folder {self.name!r}. Put the file there."
            )
        return path

    @contextmanager
    def open_file(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file of the folder."""
        place = self.find_file(name)
        if isinstance(place, Path):
            with place.open("rb") as file:
                yield file
        else:
            with _wrap_address_errors(name), place.open() as file:
                yield file


def open_folder(address: str | Path) -> DataFolder | None:
    """Return the folder at an address; None if there is none."""
    path = to_local_path(address)
    if path is not None:
        return DataFolder(path.resolve().name, path) if path.is_dir() else None
    remote = _open_remote(str(address))
    with _wrap_address_errors(str(address)):
        return (
            DataFolder(parse_file_name(str(address)), remote)
            if remote.system.isdir(remote.path)
            else None
        )


def _open_remote(address: str) -> RemoteFile:
    if any(".." in PurePosixPath(part).parts for part in address.replace("://", "/").split("::")):
        raise BadExamples(
            f"The address of {parse_file_name(address)!r} has a part '..'. Write it without."
        )
    with _wrap_address_errors(address):
        from fsspec.core import url_to_fs

        return RemoteFile(*url_to_fs(address))


@contextmanager
def _wrap_address_errors(address: str) -> Iterator[None]:
    """Convert errors of remote file systems to BadExamples."""
    name = parse_file_name(address)
    try:
        yield
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


MAX_ROW_BYTES = 16 * 2**20  # most bytes of one row
_MAX_LINE_BYTES = 2**30  # most bytes to skip in search of the end of a too long line
_READ_STEP = 2**20
_MAX_UNPACKED_BYTES = 2**30  # most bytes of an unpacked file that needs random access


@dataclass(frozen=True)
class UnreadableRow:
    """One unreadable row, with its location and the reason."""

    where: str
    why: str

    def to_error(self) -> BadExamples:
        """Return the row as an error, for readers that need every row."""
        return BadExamples(f"{self.where}: {self.why}")


@contextmanager
def open_decompressed(name: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a file through gzip if its name ends in .gz; a damaged one raises where it is read."""
    if not is_compressed(name):
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as plain:
            yield plain  # type: ignore[misc]  # a file in all but its declared type
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadExamples(
            f"{name} is not a whole gzip file ({error}). Compress it again."
        ) from None


def is_compressed(name: str) -> bool:
    """Return whether a file is compressed, by its ending."""
    return name.lower().endswith(".gz")


@contextmanager
def unpack_to_disk(name: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Unpack a compressed file to a temporary one, for formats that need random access."""
    with TemporaryFile() as whole:
        while some := file.read(_READ_STEP):
            if whole.tell() + len(some) > _MAX_UNPACKED_BYTES:
                raise BadExamples(
                    f"{name} holds more than {_MAX_UNPACKED_BYTES >> 20} MiB. Unpack it first, or leave the compression to the "
                    "format."
                )
            whole.write(some)
        whole.seek(0)
        yield whole


def iterate_lines(name: str, file: IO[bytes]) -> Iterator[tuple[str, str] | UnreadableRow]:
    """Yield the lines that are not blank, each with its location; only a line feed ends a line."""
    number = 0
    while raw := file.readline(MAX_ROW_BYTES + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(raw) > MAX_ROW_BYTES:
            if not raw.endswith(b"\n"):
                _skip_line(where, file)
            yield UnreadableRow(where, f"more than {MAX_ROW_BYTES >> 20} MiB. Cut the text.")
            continue
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            yield UnreadableRow(where, format_encoding_error(error.reason, raw[error.start]))
            continue
        if line.strip():
            yield where, line.removesuffix("\r")


def format_encoding_error(reason: str, byte: int) -> str:
    """Return the message for a byte that is not UTF-8."""
    return f"not UTF-8 text ({reason}, byte {byte:#04x}). Convert the file to UTF-8."


def _skip_line(where: str, file: IO[bytes]) -> None:
    passed = MAX_ROW_BYTES
    while (rest := file.readline(_READ_STEP)) and not rest.endswith(b"\n"):
        passed += len(rest)
        if passed > _MAX_LINE_BYTES:
            raise BadExamples(
                f"{where}: more than {_MAX_LINE_BYTES >> 20} MiB without the end of a line. Write one row a line."
            )


class CsvLines:
    """Lines for the csv module, with a limit on row size; invalid bytes become lone surrogates."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self._name, self._number, self._size = name, 0, 0
        self._text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")

    def __iter__(self) -> "CsvLines":
        return self

    def __next__(self) -> str:
        line = self._text.readline(MAX_ROW_BYTES + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self._size += len(line)
        if self._size > MAX_ROW_BYTES:
            raise BadExamples(
                f"{self._name}, line {self._number}: a row of more than {MAX_ROW_BYTES >> 20} MiB. Cut the text, or close the "
                'quotation that takes in what follows: ".'
            )
        return line

    def release(self) -> None:
        """Detach the file without closing it."""
        self._text.detach()

    def start_row(self) -> None:
        """Reset the size counter for the next row."""
        self._size = 0


_MAX_UNPACKED_ROWS = 10_000  # most rows unpacked at once
_MAX_BATCH_ROWS = 1024  # most rows of a stream at once
_MAX_BATCH_BYTES = 64 * 2**20  # most bytes of a stream at once, except for a single row
_PARQUET_BUFFER = 2**20
# A column of a row group is refused if it is larger than this once unpacked and this many times its stored size.
_SAFE_COLUMN_BYTES, _SAFE_RATIO = 256 * 2**20, 32
_MAX_VALUES = 2**27  # most list values in one column of a row group: they could all be in one row


def stream_parquet(
    name: str, file: IO[bytes]
) -> Iterator[tuple[str, Mapping[str, Any]] | UnreadableRow]:
    """Yield the rows of a Parquet file; class ids with names become the names."""
    with _open_parquet(name, file, dictionaries=True) as opened:
        check_unique_names(name, opened.schema_arrow.names, "column")
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


def count_parquet_rows(name: str, file: IO[bytes]) -> int:
    """Return the number of rows in the file's metadata."""
    with _open_parquet(name, file) as opened:
        return int(opened.metadata.num_rows)


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


def _count_values(group: Any) -> int:
    """Return the number of values in a row group's metadata, those in lists included."""
    return sum(group.column(i).num_values for i in range(group.num_columns))


def _unpack_batch(batch: Any) -> Iterator[dict[str, Any] | str]:
    """Yield rows as plain data, or a message for a bad one; large rows one by one."""
    if batch.num_rows > 1 and _count_batch_bytes(batch) <= _MAX_BATCH_BYTES:
        try:
            yield from batch.to_pylist()
            return
        except UnicodeDecodeError:
            pass  # one row is not UTF-8: the loop below finds it
    for number in range(batch.num_rows):
        row = batch.slice(number, 1)
        if _count_batch_bytes(row) > MAX_ROW_BYTES:
            yield f"more than {MAX_ROW_BYTES >> 20} MiB. Cut what it holds."
            continue
        try:
            yield row.to_pylist()[0]
        except UnicodeDecodeError as error:
            yield format_encoding_error(error.reason, error.object[error.start])


def _count_batch_bytes(batch: Any) -> int:
    return sum(_count_column_bytes(column) for column in batch.columns)


def is_parquet_larger(name: str, raw: bytes, limit: int) -> bool:
    """Return whether a file holds more than `limit` bytes, without unpacking more at a time."""
    with _open_parquet(name, BytesIO(raw)) as file:
        groups = range(file.metadata.num_row_groups)
        stored = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        values = [_count_values(file.metadata.row_group(group)) for group in groups]
        if stored > limit or 8 * sum(values) > limit:
            return True
        # A value of many rows may be stored once; then one row may be as large as all stored data.
        rows_at_once = min(_MAX_UNPACKED_ROWS, max(1, limit // max(stored, 1)))
        size = 0
        for group in groups:
            at_once = min(
                rows_at_once, _compute_batch_rows(name, file.metadata.row_group(group), group)
            )
            for batch in file.iter_batches(batch_size=at_once, row_groups=[group]):
                size += _count_batch_bytes(batch)
                if size > limit:
                    return True
    return False


def _count_column_bytes(array: Any) -> int:
    """Return the bytes of a column's values once unpacked; shared values count every time."""
    from pyarrow import compute, int64, types

    kind = array.type
    if types.is_dictionary(kind):
        if not _is_binary_type(kind.value_type):
            return int(array.dictionary_decode().nbytes)
        sizes = compute.binary_length(array.dictionary).take(array.indices)
        return int(compute.sum(sizes.cast(int64())).as_py() or 0) + 8 * len(array)
    if types.is_struct(kind):
        return sum(_count_column_bytes(part) for part in array.flatten())
    if types.is_map(kind):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = (array.keys, array.items)  # of all rows; a slice's own lie between its offsets
        return 8 * len(array) + sum(
            _count_column_bytes(part.slice(start, end - start)) for part in parts
        )
    if any(sort(kind) for sort in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return 8 * len(array) + _count_column_bytes(array.flatten())
    if types.is_null(kind) or types.is_boolean(kind):
        return 8 * len(array)  # stored as bits or not at all, but Python objects once unpacked
    return int(array.nbytes)


def _is_binary_type(kind: Any) -> bool:
    import pyarrow.types as types

    sorts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(sort(kind) for sort in sorts)


@contextmanager
def _open_parquet(name: str, file: IO[bytes], dictionaries: bool = False) -> Iterator[Any]:
    """Open a Parquet file; errors while it is open become BadExamples."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadExamples(
            f"{name} is a Parquet file, and the package that reads it is not installed: pip install pyarrow."
        ) from None
    try:
        plain = pyarrow.parquet.ParquetFile(file, buffer_size=_PARQUET_BUFFER)
        texts = (
            _find_byte_columns(plain.metadata.schema, plain.metadata.num_columns)
            if dictionaries
            else None
        )
        with pyarrow.parquet.ParquetFile(
            file, metadata=plain.metadata, read_dictionary=texts, buffer_size=_PARQUET_BUFFER
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


def _find_byte_columns(schema: Any, columns: int) -> list[str]:
    """Return the columns of texts and bytes, those within lists and structures included."""
    descriptors = (schema.column(number) for number in range(columns))
    return [
        column.path
        for column in descriptors
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"
    ]


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


TableRow = tuple[str, Mapping[str, Any]]  # its location, for messages, and its cells

ALLOWED_FILES = (
    ".txt (one text a line), .tsv and .csv (with a header), .jsonl (one object a line) and .parquet, "
    "each also as .gz"
)


@dataclass(frozen=True)
class RowSource:
    """A source of rows that can be iterated repeatedly."""

    name: str
    kind: str
    rows: Callable[[], Iterator[TableRow | UnreadableRow]]
    count: Callable[[], int | None]
    guessed: tuple[str, ...] = ()  # ("split",) if the split was guessed


def open_row_file(address: str | Path) -> RowSource:
    """Open a local or remote file as a source of rows; its ending tells the format."""
    name = parse_file_name(address)
    ending = parse_ending(name)

    def stream() -> Iterator[TableRow | UnreadableRow]:
        with open_file(address, ALLOWED_FILES) as file:
            yield from stream_rows(name, file)

    def count() -> int:
        with open_file(address, ALLOWED_FILES) as file:
            return _count_rows(name, file)

    return RowSource(name, ending.removeprefix("."), stream, count)


def read_row_file(path: str | Path, most: int | None = None) -> list[TableRow]:
    """Read all rows of a file; its ending tells the format. `most` as in `collect_rows`."""
    source = open_row_file(path)
    return collect_rows(source.name, source.rows(), most)


def parse_rows(name: str, raw: bytes, most: int | None = None) -> list[TableRow]:
    """Read all rows from the bytes of a named file; `most` as in `collect_rows`."""
    return collect_rows(name, stream_rows(name, BytesIO(raw)), most)


def collect_rows(
    name: str, stream: Iterable[TableRow | UnreadableRow], most: int | None = None
) -> list[TableRow]:
    """Return all rows; an unreadable row, or more than `most` rows, is an error."""
    rows: list[TableRow] = []
    try:
        for row in stream if most is None else limit_rows(name, stream, most):
            if isinstance(row, UnreadableRow):
                raise row.to_error()
            rows.append(row)
    except MemoryError:
        count = len(rows)
        rows.clear()
        raise BadExamples(
            f"{name} does not fit into memory: there is room for {count:,} of its rows. Give a part of it; "
            "`whence run` reads files of any size, row by row."
        ) from None
    if not rows:
        raise BadExamples(f"{name} has no rows. Give a file with at least one text.")
    return rows


def is_data_file(address: str | Path) -> bool:
    """Return whether this names a data file, by its ending."""
    path = to_local_path(address)
    name = parse_file_name(address).lower().removesuffix(".gz")
    return not (path is not None and path.is_dir()) and PurePath(name).suffix in FILE_ENDINGS


def parse_ending(name: str) -> str:
    """Return the ending that tells a file's format, without .gz; refuse an unknown one."""
    ending = PurePath(name.lower().removesuffix(".gz")).suffix
    if ending not in _FORMAT_READERS:
        what = (
            f"{ending} is no kind of file" if ending else "without an ending it is no kind of file"
        )
        raise BadExamples(f"{name}: {what} that is read here. Allowed: {ALLOWED_FILES}.")
    return ending


def stream_rows(name: str, file: IO[bytes]) -> Iterator[TableRow | UnreadableRow]:
    """Yield the rows of an open file; its name tells the format."""
    ending = parse_ending(name)
    with open_decompressed(name, file) as plain:
        if ending == ".parquet" and is_compressed(name):
            with unpack_to_disk(name, plain) as seekable:
                yield from _FORMAT_READERS[ending](name, seekable)
        else:
            yield from _FORMAT_READERS[ending](name, plain)


def _count_rows(name: str, file: IO[bytes]) -> int:
    """Return the number of rows that `stream_rows` would yield, with as little parsing as possible."""
    ending = parse_ending(name)
    if ending == ".parquet" and not is_compressed(name):
        return count_parquet_rows(name, file)
    if ending not in (".txt", ".jsonl"):
        return sum(1 for _ in stream_rows(name, file))
    with open_decompressed(name, file) as plain:
        return sum(1 for _ in iterate_lines(name, plain))


def _read_txt(name: str, file: IO[bytes]) -> Iterator[TableRow | UnreadableRow]:
    for line in iterate_lines(name, file):
        yield line if isinstance(line, UnreadableRow) else (line[0], {"text": line[1]})


def _read_tsv(name: str, file: IO[bytes]) -> Iterator[TableRow | UnreadableRow]:
    stream = iterate_lines(name, file)
    first = next(stream, ("", ""))
    if isinstance(first, UnreadableRow):
        raise first.to_error()
    header = first[1].split("\t")
    _check_header(first[0], header)
    for line in stream:
        yield (
            line
            if isinstance(line, UnreadableRow)
            else _build_row(line[0], header, line[1].split("\t"))
        )


def _read_csv(name: str, file: IO[bytes]) -> Iterator[TableRow | UnreadableRow]:
    # The limit is global to the csv module. It is only raised, so that other users of it lose nothing.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    records = CsvLines(name, file)
    reader = csv.reader(records, strict=True)
    header: list[str] | None = None
    try:
        for fields in reader:
            records.start_row()
            where = f"{name}, line {reader.line_num}"
            wrong = next((reason for text in fields if (reason := _describe_bad_text(text))), None)
            if not fields:  # a blank line, also before the header
                continue
            if header is None:
                if wrong:
                    raise BadExamples(f"{where}: {wrong}")
                header = fields
                _check_header(where, header)
            else:
                yield UnreadableRow(where, wrong) if wrong else _build_row(where, header, fields)
    except csv.Error as error:
        # After a broken quotation it is unknown which of the following lines begin a row.
        raise BadExamples(
            f"{name}, line {reader.line_num}: not comma separated values ({error}). "
            'Quote a field that holds a comma or a line break, and double the quotes in it: "".'
        ) from None
    finally:
        records.release()


def _describe_bad_text(field: str) -> str | None:
    if field.isascii():
        return None
    try:
        field.encode()
    except UnicodeEncodeError as error:
        return format_encoding_error("invalid byte", ord(field[error.start]) & 0xFF)
    return None


def _check_header(where: str, header: list[str]) -> None:
    """Refuse a header with repeated column names; unnamed columns are ignored."""
    check_unique_names(where, [name.strip() for name in header if name.strip()], "column")


def _build_row(where: str, header: list[str], fields: list[str]) -> TableRow | UnreadableRow:
    if len(fields) != len(header):
        return UnreadableRow(
            where,
            f"{len(fields)} fields, and the header has {len(header)}: {', '.join(header)[:200]}. "
            "Every row needs one field for each.",
        )
    return where, dict(zip((name.strip() for name in header), fields, strict=True))


def _read_jsonl(name: str, file: IO[bytes]) -> Iterator[TableRow | UnreadableRow]:
    for line in iterate_lines(name, file):
        yield line if isinstance(line, UnreadableRow) else _parse_object(*line)


def _parse_object(where: str, line: str) -> TableRow | UnreadableRow:
    twice: list[str] = []

    def note_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs) and not twice:
            names = [name for name, _ in pairs]
            twice.append(format_repeated_names(names, find_repeated_names(names), "key"))
        return mapping

    try:
        row = json.loads(line, object_pairs_hook=note_repeats)
    except (ValueError, RecursionError) as error:
        return UnreadableRow(where, f"not JSON ({error}). Give one object a line.")
    if not isinstance(row, dict):
        return UnreadableRow(
            where,
            f"a JSON {type(row).__name__}, not an object. Give one object a line, such as "
            '{"text": "a fine film"}.',
        )
    return UnreadableRow(where, twice[0]) if twice else (where, row)


_FORMAT_READERS: Mapping[str, Callable[[str, IO[bytes]], Iterator[TableRow | UnreadableRow]]] = {
    ".txt": _read_txt,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": stream_parquet,
}

FILE_ENDINGS = frozenset(_FORMAT_READERS)

FRAME_NAME = "The table"


def is_data_frame(value: Any) -> bool:
    """Return whether this is a table with named columns, and not a list, a text or a single column."""
    if isinstance(value, str | bytes | Mapping | list | tuple | type):
        return False
    if _is_lazy(value) or _has_attributes(value, "columns", "to_dicts"):  # polars
        return True
    if _has_attributes(value, "columns", "itertuples"):  # pandas
        return True
    names = getattr(value, "column_names", None)  # Arrow, datasets
    return isinstance(names, list) and hasattr(value, "__len__")


def list_frame_columns(frame: Any) -> list[str]:
    """Return the column names of a table, as text."""
    if _is_lazy(frame):
        return [str(name) for name in frame.collect_schema().names()]
    own = getattr(frame, "column_names", None)
    return [str(name) for name in (frame.columns if own is None else own)]


def read_frame_rows(frame: Any) -> list[TableRow]:
    """Return the rows of a table as mappings; missing values become None."""
    frame = frame.collect() if _is_lazy(frame) else frame
    names = list_frame_columns(frame)
    check_unique_names(FRAME_NAME, names, "column")
    rows: list[TableRow] = [
        (f"Row {number} of the table, counted from 0", row)
        for number, row in enumerate(_iterate_frame(frame, names))
    ]
    if not rows:
        raise BadExamples(
            f"{FRAME_NAME} has no rows; its columns are {', '.join(names) or 'none'}. Give at least one text."
        )
    return rows


def _iterate_frame(frame: Any, names: list[str]) -> Iterator[dict[str, Any]]:
    if hasattr(frame, "iter_rows"):
        values = frame.iter_rows()
    elif hasattr(frame, "itertuples"):
        values = frame.itertuples(index=False, name=None)
    elif hasattr(frame, "to_pylist"):
        yield from frame.to_pylist()
        return
    else:
        features = getattr(frame, "features", None) or {}
        classes = {n: list(kind.names) for n, kind in features.items() if hasattr(kind, "names")}
        yield from (replace_class_ids(row, classes) for row in frame)
        return
    for row in values:
        yield {name: _to_plain_value(value) for name, value in zip(names, row, strict=True)}


def _to_plain_value(value: Any) -> Any:
    """Convert a numpy value to plain Python, and pandas' missing values to None."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if getattr(value, "ndim", None) in (0, 1) and hasattr(value, "tolist"):
        return value.tolist()
    return value


def _is_lazy(value: Any) -> bool:
    return _has_attributes(value, "collect", "collect_schema") and not hasattr(value, "to_dicts")


def _has_attributes(value: Any, *names: str) -> bool:
    return all(hasattr(value, name) for name in names)


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in their order."""
    return [name for name, count in Counter(names).items() if count > 1]


def check_unique_names(where: str, names: Iterable[str], what: str) -> None:
    """Refuse a table with repeated column names."""
    names = list(names)
    twice = find_repeated_names(names)
    if twice:
        raise BadExamples(f"{where}: {format_repeated_names(names, twice, what)}")


def format_repeated_names(names: Iterable[str], twice: Iterable[str], what: str) -> str:
    """Return the message on repeated names: how often each occurs, and the remedy."""
    counts = Counter(names)
    text = ", ".join(f"{counts[name]} {what}s are called {name[:40]!r}" for name in twice)
    return f"{text}, and nobody can say which of them is meant. Give each {what} a name of its own."


CELLS_PER_ROW = 10  # most cells per allowed row, on average

T = TypeVar("T")


def limit_rows(name: str, stream: Iterable[T], most: int) -> Iterator[T]:
    """Yield rows; raise if there are more than `most`, or more than ten times as many cells."""
    cells = 0
    for number, item in enumerate(stream, 1):
        if number > most:
            raise TooLarge(
                f"{name} has more than {most:,} rows, and a data set is kept in memory here. Give a part of it."
            )
        row = item[1] if isinstance(item, tuple) else None
        if isinstance(row, Mapping):
            cells += count_cells(row)
        if cells > CELLS_PER_ROW * most:
            raise TooLarge(
                f"{name} has more than {CELLS_PER_ROW * most:,} cells in its first {number:,} rows, and a data set is kept "
                "in memory here. Give a part of it."
            )
        yield item


def count_cells(row: Mapping[str, Any]) -> int:
    """Return the number of values in a row, those in nested lists and mappings included."""
    count = 0
    waiting: list[Iterable[Any]] = [row.values()]
    while waiting:
        for value in waiting.pop():
            count += 1
            if isinstance(value, Mapping):
                waiting.append(value.values())
            elif isinstance(value, list | tuple):
                waiting.append(value)
    return count
