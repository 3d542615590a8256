"""A chunk that is done while its window is not: the rows of each table as an Arrow stream, and a seal behind them.

Whoever made the rows packs them, and nobody reads them before their window is complete. A stream's schema says which
table it is of; there may be several of one, where parts of a chunk were done apart.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256

import pyarrow as pa

from whence.run.store import rows
from whence.run.store.schema import EARLIER, SCHEMAS
from whence.run.task import Record

_SEAL = b"\nsha256 %s\n"
_LENGTH = len(_SEAL % (b"0" * 64))
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")  # methods on one example repeat most of a row


def packed(records: Sequence[Record]) -> bytes:
    """Write records as the content of a file; a ValueError where one fits no table. Numbers stay what they are."""
    sink = pa.BufferOutputStream()
    for name in SCHEMAS:
        table = _table(name, records)
        if table.num_rows:
            with pa.ipc.new_stream(sink, table.schema, options=_QUICK) as stream:
                stream.write_table(table)
    return sealed(sink.getvalue().to_pybytes())


def sealed(body: bytes) -> bytes:
    """Put a checksum behind streams."""
    return body + _SEAL % sha256(body).hexdigest().encode()


def joined(files: Iterable[bytes]) -> bytes:
    """Make one file of several; a ValueError where one is torn or changed."""
    return sealed(b"".join(map(_body, files)))


def tables_of(raw: bytes) -> dict[str, pa.Table]:
    """Read the tables again; a ValueError where the file is torn or changed."""
    found: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    stream = pa.BufferReader(_body(raw))
    try:
        while stream.tell() < stream.size():
            table = pa.ipc.open_stream(stream).read_all()
            table.validate(full=True)
            found[_name(table.schema)].append(table)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no Arrow stream ({error})") from None
    return {name: rows.together(name, parts) for name, parts in found.items()}


def _body(raw: bytes) -> memoryview:
    body = memoryview(raw)[:-_LENGTH]
    if raw[-_LENGTH:] != _SEAL % sha256(body).hexdigest().encode():
        raise ValueError("its checksum does not fit")
    return body


def _name(schema: pa.Schema) -> str:
    """Return of which table a stream is."""
    for name in SCHEMAS:
        if any(schema.equals(one[name], check_metadata=True) for one in (SCHEMAS, EARLIER)):
            return name
    raise ValueError("its columns are not those of this version")


def _table(name: str, records: Sequence[Record]) -> pa.Table:
    try:
        return rows.from_records(name, records)
    except UnicodeEncodeError:  # half a surrogate pair, which no file can hold, becomes "?"
        plain = json.dumps(records, ensure_ascii=False).encode("utf-8", "replace")
        return rows.from_records(name, json.loads(plain))
