"""A data set as a stream: one row after the other, in bounded memory, each an example or a reason why it is none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from whence.core.errors import BadExamples
from whence.data.sets import album, eraser, hub
from whence.data.sets.address import Folder, folder
from whence.data.sets.example import Example
from whence.data.sets.rows import ALLOWED, Row, Table, is_file, table
from whence.data.sets.stream import Unreadable
from whence.data.sets.table import pictured, settled

PEEKED = 100  # rows by which columns are chosen
IDS = ("id", "annotation_id", "idx")  # columns that name an example


@dataclass(frozen=True)
class Entry:
    """One row that can be read."""

    row: int  # its place in the data, counted from 0; rows that cannot be read have one, too
    id: str  # its own, from a column "id", or what its place is called: a line, a row, a file
    example: Example


@dataclass(frozen=True)
class Bad:
    """One row that cannot be read, where it stands, and why."""

    row: int
    where: str
    why: str


class Source(Protocol):
    """A data set that can be gone through again and again, always in the same order."""

    @property
    def name(self) -> str:
        """What it is called: a file's name, or that of a data set with its split."""
        ...

    def __iter__(self) -> Iterator[Entry | Bad]: ...

    def count(self) -> int | None:
        """Return how many rows there are, good and bad; None where only going through all of it would tell."""
        ...

    def facts(self) -> dict[str, Any]:
        """Say what was read and how, as plain data: name, kind, columns, which of them were guessed."""
        ...


def source(
    address: str, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> Source:
    """Open a data set: a file, a folder of pictures, ERASER's format, a Hugging Face name, any fsspec address.

    `text`, `pair` and `label` name columns, as in `whence.data.sets.examples.read`; else columns are chosen
    by the first hundred rows that can be read. A data set of which no row can be read, or of which nobody could say
    how many rows are lost, is an error.
    """
    if is_file(address):
        return _Rows(table(address), text, pair, label)
    annotated = eraser.table(address, pair)
    if annotated is not None:
        return _Rows(annotated, text, pair, label)
    found = folder(address)
    if found is not None and album.holds_pictures(found):
        return _Pictures(found)
    if hub.is_name(address):
        return _Rows(hub.table(address), text, pair, label)
    if found is not None:
        raise BadExamples(
            f"The folder {found.name!r} holds neither pictures nor annotations. Give a file: {ALLOWED}."
        )
    return _Rows(table(address), text, pair, label)  # which says what is wrong with it


class _Rows:
    """A table, read row by row."""

    def __init__(self, rows: Table, text: str | None, pair: str | None, label: str | None) -> None:
        self._table = rows
        self._columns = settled(rows.name, self._first(), text, pair, label)
        self._id = next((name for name in IDS if name in self._columns.has), None)
        self._count: int | None = (
            None  # once it was counted: of some files that takes reading all of it
        )

    @property
    def name(self) -> str:
        return self._table.name

    def __iter__(self) -> Iterator[Entry | Bad]:
        for number, one in enumerate(self._table.rows()):
            if isinstance(one, Unreadable):
                yield Bad(number, one.where, one.why)
            else:
                yield self._entry(number, *one)

    def count(self) -> int | None:
        if self._count is None:
            self._count = self._table.count()
        return self._count

    def facts(self) -> dict[str, Any]:
        columns = self._columns
        roles = {"text": columns.texts[0], "pair": columns.pair, "label": columns.label}
        return {
            "name": self.name,
            "kind": self._table.kind,
            "columns": {role: name for role, name in roles.items() if name is not None},
            "guessed": [*self._table.guessed, *columns.guessed],
            "id": self._id,
            "has": list(columns.has),
            "pictures": columns.seen is not None,
        }

    def _first(self) -> list[Row]:
        """Take the first rows that can be read."""
        bad: list[Unreadable] = []
        found: list[Row] = []
        for one in self._table.rows():
            if isinstance(one, Unreadable):
                bad = bad or [one]
            else:
                found.append(one)
            if len(found) == PEEKED:
                break
        if found:
            return found
        if bad:
            raise BadExamples(f"{self.name} has no row that can be read. {bad[0].error()}")
        raise BadExamples(f"{self.name} has no rows. Give a file with at least one text.")

    def _entry(self, number: int, where: str, row: Mapping[str, Any]) -> Entry | Bad:
        try:
            example = self._columns.example(where, row)
        except BadExamples as error:
            return Bad(number, where, str(error).removeprefix(where).removeprefix(":").strip())
        wrong = next((why for one in example.texts if (why := _unfit(one))), None)
        if wrong is not None:
            return Bad(number, where, wrong)
        own = None if self._id is None else row.get(self._id)
        said = isinstance(own, str | int) and not isinstance(own, bool) and own != ""
        return Entry(number, str(own) if said else where.removeprefix(f"{self.name}, "), example)


class _Pictures:
    """A folder of pictures, read one by one."""

    def __init__(self, found: Folder) -> None:
        self._folder = found

    @property
    def name(self) -> str:
        return self._folder.name

    def __iter__(self) -> Iterator[Entry | Bad]:
        for number, one in enumerate(album.stream(self._folder)):
            if isinstance(one, Unreadable):
                yield Bad(number, one.where, one.why)
            else:
                yield Entry(number, one.picture.name, pictured(one))

    def count(self) -> int:
        return sum(1 for _ in album.stream(self._folder))

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "pictures",
            "columns": {},
            "guessed": [],
            "id": None,
            "has": [],
            "pictures": True,
        }


def _unfit(text: str) -> str | None:
    """Say why no model can be given this text."""
    if not text.strip():
        return "the text is empty. Give at least one word."
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"the text holds half of a character ({text[error.start]!a}, a lone surrogate)."
    return None
