"""A table as one file, for programs that do not read a folder."""

import csv
import gzip
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from whence.core.errors import BadParameter
from whence.core.io import check_writable, writing
from whence.report.spreadsheet import harmless
from whence.run.store import rows
from whence.run.store.reading import Reading
from whence.run.store.schema import COLUMNS, TABLES

Write = Callable[[Reading, str, IO[bytes]], None]


def export(folder: str | Path, table: str, to: str | Path) -> Path:
    """Write a table to a .parquet, .csv or .jsonl file, the last two also as .gz; some rows at a time."""
    if table not in TABLES:
        raise BadParameter(f"--table must be {' or '.join(TABLES)}. Got {table!r}.")
    to = Path(to)
    write = next((one for ending, one in _FORMATS.items() if to.name.endswith(ending)), None)
    if write is None:
        raise BadParameter(f"--to must end in {', '.join(_FORMATS)}. Got {to.name!r}.")
    store = Reading.read(folder)
    if store.folder.resolve() in to.resolve().parents:
        raise BadParameter(f"--to must be outside of the run's own folder. Got {str(to)!r}.")
    check_writable(to)
    with writing(to) as stream:
        write(store, table, stream)
    return to


def _parquet(store: Reading, table: str, stream: IO[bytes]) -> None:
    with rows.writer(table, stream) as file:
        for batch in store.batches(table, rows.GROUP):
            file.write_batch(batch)


def _jsonl(store: Reading, table: str, stream: IO[bytes]) -> None:
    for batch in store.batches(table):
        for record in batch.to_pylist():
            stream.write(_json(record).encode() + b"\n")


def _csv(store: Reading, table: str, stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in COLUMNS[table]])
    for batch in store.batches(table):
        writer.writerows([_cell(value) for value in one.values()] for one in batch.to_pylist())
    text.detach()


def _cell(value: Any) -> Any:
    return _json(value) if isinstance(value, list) else harmless(value)


def _json(value: Any) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """Put null in the place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _packed(write: Write) -> Write:
    def packed(store: Reading, table: str, stream: IO[bytes]) -> None:
        # Neither a name nor a time goes into the file: the same rows are the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as inner:
            write(store, table, cast(IO[bytes], inner))

    return packed


_FORMATS: dict[str, Write] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".csv.gz": _packed(_csv),
    ".jsonl.gz": _packed(_jsonl),
}
