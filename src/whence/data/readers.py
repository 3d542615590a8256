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


"""Files and folders wherever they are: on this machine, or at any address that fsspec knows.

Only this module knows fsspec. What a folder names is looked for in the folder alone: a name that leads out of it, by
`..`, as an absolute path or through a link, is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import walk
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import IO, Any

from whence.core.errors import BadExamples, WhenceError, short

_BUFFER = 2**20  # lines may be long
_PICTURE = 256 * 2**20  # bytes that are read at once, at most


def is_far(given: str | Path) -> bool:
    """Say whether this is an address such as s3://bucket/file.csv, and not a path of this machine."""
    return isinstance(given, str) and "://" in given and local(given) is None


def local(given: str | Path) -> Path | None:
    """Return the path on this machine that is meant, if one is."""
    text = str(given)
    if "::" not in text and text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    return None if isinstance(given, str) and "://" in text else Path(given)


def file_name(given: str | Path) -> str:
    """Return the name of the file at an address, which says what it is, and nothing of who may read it."""
    path = local(given)
    if path is not None:
        return path.name
    parts = [part.partition("://")[2] if "://" in part else part for part in str(given).split("::")]
    where = next((part for part in parts if PurePosixPath(part).suffix), parts[-1])
    if str(given).startswith(("http:", "https:")) or "::http" in str(given):
        where = where.partition("?")[0].partition("#")[0]
    return PurePosixPath(where).name


@contextmanager
def opened(given: str | Path, allowed: str) -> Iterator[IO[bytes]]:
    """Open a file to be read; `allowed` is what the error says to give instead."""
    path = local(given)
    if path is None:
        far = _far(
            str(given)
        )  # it is held as long as the file: an archive is closed with its last holder
        with _named(str(given)), far.opened() as file:
            yield file
        return
    try:
        # A pipe would be waited for, and cannot be read twice; a device has no end.
        if path.exists() and not (S_ISREG(path.stat().st_mode) or path.is_dir()):
            raise BadExamples(
                f"{path.name!r} is no ordinary file. Save what it gives, and name that."
            )
        file = path.open("rb", buffering=_BUFFER)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadExamples(
            f"Cannot read {str(given)!r}: {why}. Give a file of examples: {allowed}."
        ) from None
    with file:
        yield file


@dataclass(frozen=True)
class Far:
    """One file elsewhere. It can be sent to other processes, and is read when it is wanted."""

    system: Any
    path: str

    def read(self) -> bytes:
        """Return what is in it, if that is no more than a picture can be."""
        with _named(self.path), self.opened() as file:
            raw: bytes = file.read(_PICTURE + 1)
        if len(raw) > _PICTURE:
            raise BadExamples(
                f"{PurePosixPath(self.path).name!r} has more than {_PICTURE >> 20} MiB. Make it smaller."
            )
        return raw

    def opened(self) -> Any:
        """Open it to be read, from its beginning to its end or here and there."""
        return self.system.open(self.path, "rb")


@dataclass(frozen=True)
class Folder:
    """A folder, here or elsewhere. The names of its files are relative to it, with slashes."""

    name: str
    root: Path | Far

    def files(self) -> list[str]:
        """Name all files, in order, those in folders within it included; links to folders stand for themselves."""
        if isinstance(self.root, Far):
            with _named(self.root.path):
                found = self.root.system.find(self.root.path)
            start = self.root.path.rstrip("/")
            names = [str(one).removeprefix(start).lstrip("/") for one in found]
        else:
            names = []
            for home, folders, files in walk(self.root):
                linked = [one for one in folders if (Path(home) / one).is_symlink()]
                within = Path(home).relative_to(self.root)
                names += [(within / one).as_posix() for one in (*files, *linked)]
        return sorted(names, key=PurePosixPath)

    def has(self, name: str) -> bool:
        """Say whether there is a file or a folder of that name."""
        if isinstance(self.root, Far):
            with _named(self.root.path):
                return bool(self.root.system.exists(f"{self.root.path.rstrip('/')}/{name}"))
        return (self.root / name).exists()

    def within(self, name: str) -> "Folder":
        """Return a folder in it."""
        return Folder(name, self._inside(name))

    def is_linked_folder(self, name: str) -> bool:
        """Say whether this is a link to a folder; none is followed."""
        return isinstance(self.root, Path) and (self.root / name).is_dir()

    def place(self, name: str) -> Path | Far:
        """Return where a file is; one that is not in the folder is refused."""
        path = self._inside(name)
        if isinstance(path, Path) and not path.is_file():
            what = "is a folder, or a link to one," if path.is_dir() else "is not there"
            raise BadExamples(f"{short(name, 60)!r} in the folder {self.name!r} {what}.")
        return path

    def _inside(self, name: str) -> Path | Far:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
            raise BadExamples(
                f"{short(name, 60)!r} lies outside of the folder {self.name!r}. Name what is in it."
            )
        if isinstance(self.root, Far):
            return Far(self.root.system, f"{self.root.path.rstrip('/')}/{name}")
        path = self.root / name
        try:
            inside = path.resolve().is_relative_to(self.root.resolve())
        except (OSError, RuntimeError):  # links that lead to each other
            inside = False
        if not inside:
            raise BadExamples(
                f"{short(name, 60)!r} is a link that leads out of the folder {self.name!r}. Put the file there."
            )
        return path

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Open one of its files."""
        place = self.place(name)
        if isinstance(place, Path):
            with place.open("rb") as file:
                yield file
        else:
            with _named(name), place.opened() as file:
                yield file


def folder(given: str | Path) -> Folder | None:
    """Return the folder at an address; None if there is none."""
    path = local(given)
    if path is not None:
        return Folder(path.resolve().name, path) if path.is_dir() else None
    far = _far(str(given))
    with _named(str(given)):
        return Folder(file_name(str(given)), far) if far.system.isdir(far.path) else None


def _far(given: str) -> Far:
    if any(".." in PurePosixPath(part).parts for part in given.replace("://", "/").split("::")):
        raise BadExamples(f"The address of {file_name(given)!r} has a part '..'. Write it without.")
    with _named(given):
        from fsspec.core import url_to_fs

        return Far(*url_to_fs(given))


@contextmanager
def _named(given: str) -> Iterator[None]:
    """Turn what goes wrong elsewhere into an error about the data."""
    name = file_name(given)
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
        # Every kind of address has a package of its own, and each has errors of its own.
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise BadExamples(
            f"Cannot read {name!r}: {why.rstrip('.')}. Check the address and the network."
        ) from None


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


"""A limit on the rows and cells of a data set that is kept in memory.

A file of kilobytes can hold millions of rows or of values in one row, and each of them is an object of Python once it
is read: bytes of a file say little about it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from whence.core.errors import TooLarge

CELLS = 10  # for each row that is allowed, on average

T = TypeVar("T")


def limited(name: str, stream: Iterable[T], most: int) -> Iterator[T]:
    """Yield rows until there are more than that many, or more than ten times as many cells; that is an error."""
    cells = 0
    for number, one in enumerate(stream, 1):
        if number > most:
            raise TooLarge(
                f"{name} has more than {most:,} rows, and a data set is kept in memory here. Give a part of it."
            )
        row = one[1] if isinstance(one, tuple) else None
        if isinstance(row, Mapping):
            cells += count_cells(row)
        if cells > CELLS * most:
            raise TooLarge(
                f"{name} has more than {CELLS * most:,} cells in its first {number:,} rows, and a data set is kept "
                "in memory here. Give a part of it."
            )
        yield one


def count_cells(row: Mapping[str, Any]) -> int:
    """Count the values of a row, and those in lists and mappings among them."""
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


"""Names that occur twice: of two columns or keys of one name, nobody can say which is meant."""

from collections import Counter
from collections.abc import Iterable

from whence.core.errors import BadExamples


def repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in their order."""
    return [name for name, count in Counter(names).items() if count > 1]


def refuse_repeated(where: str, names: Iterable[str], what: str) -> None:
    """Refuse a table of which two columns have the same name."""
    names = list(names)
    twice = repeated_names(names)
    if twice:
        raise BadExamples(f"{where}: {told_repeated(names, twice, what)}")


def told_repeated(names: Iterable[str], twice: Iterable[str], what: str) -> str:
    """Say which names occur how often, and what to do."""
    counts = Counter(names)
    said = ", ".join(f"{counts[name]} {what}s are called {name[:40]!r}" for name in twice)
    return f"{said}, and nobody can say which of them is meant. Give each {what} a name of its own."


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


"""A file piece by piece, in bounded memory: what is too large or no text is named, and what follows is read.

One row that cannot be read is an `Unreadable`. Where nobody can say how many rows are lost, the whole is an error.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from tempfile import TemporaryFile
from typing import IO

from whence.core.errors import BadExamples

ROW = 16 * 2**20  # bytes of one row, at most
_PASSED = 2**30  # bytes of one line, at most, through which its end is looked for
_STEP = 2**20
_UNPACKED = 2**30  # bytes of a compressed file, at most, where all of it is needed at once


@dataclass(frozen=True)
class Unreadable:
    """One row that cannot be read."""

    where: str
    why: str

    def error(self) -> BadExamples:
        """Return it as an error, for those who need every row."""
        return BadExamples(f"{self.where}: {self.why}")


@contextmanager
def unpacked(name: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Read through the compression of a .gz; one that breaks off or is damaged is an error when that is reached."""
    if not is_packed(name):
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as plain:
            yield plain  # type: ignore[misc]  # a file in all but its declared type
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadExamples(
            f"{name} is not a whole gzip file ({error}). Compress it again."
        ) from None


def is_packed(name: str) -> bool:
    """Say whether a file is compressed."""
    return name.lower().endswith(".gz")


@contextmanager
def on_disk(name: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Unpack a compressed file that cannot be read from its beginning to its end."""
    with TemporaryFile() as whole:
        while some := file.read(_STEP):
            if whole.tell() + len(some) > _UNPACKED:
                raise BadExamples(
                    f"{name} holds more than {_UNPACKED >> 20} MiB. Unpack it first, or leave the compression to the "
                    "format."
                )
            whole.write(some)
        whole.seek(0)
        yield whole


def lines(name: str, file: IO[bytes]) -> Iterator[tuple[str, str] | Unreadable]:
    """Yield the lines that are not blank, each with its place; only a line feed ends one, whatever else is in it."""
    number = 0
    while raw := file.readline(ROW + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(raw) > ROW:
            if not raw.endswith(b"\n"):
                _pass_over(where, file)
            yield Unreadable(where, f"more than {ROW >> 20} MiB. Cut the text.")
            continue
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            yield Unreadable(where, not_text(error.reason, raw[error.start]))
            continue
        if line.strip():
            yield where, line.removesuffix("\r")


def not_text(reason: str, byte: int) -> str:
    """Say that a byte belongs to no text."""
    return f"not UTF-8 text ({reason}, byte {byte:#04x}). Convert the file to UTF-8."


def _pass_over(where: str, file: IO[bytes]) -> None:
    passed = ROW
    while (rest := file.readline(_STEP)) and not rest.endswith(b"\n"):
        passed += len(rest)
        if passed > _PASSED:
            raise BadExamples(
                f"{where}: more than {_PASSED >> 20} MiB without the end of a line. Write one row a line."
            )


class Records:
    """Lines of text, of which several may be one row. Bytes that are no text become lone surrogates."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self._name, self._number, self._size = name, 0, 0
        self._text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")

    def __iter__(self) -> "Records":
        return self

    def __next__(self) -> str:
        line = self._text.readline(ROW + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self._size += len(line)
        if self._size > ROW:
            raise BadExamples(
                f"{self._name}, line {self._number}: a row of more than {ROW >> 20} MiB. Cut the text, or close the "
                'quotation that takes in what follows: ".'
            )
        return line

    def release(self) -> None:
        """Let go of the file without closing it."""
        self._text.detach()

    def new_row(self) -> None:
        """Start to count the size of the next row."""
        self._size = 0
