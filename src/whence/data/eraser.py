"""Data sets in the format of the ERASER benchmark: annotations that point into documents by their tokens.

A folder holds `train.jsonl`, `val.jsonl` and `test.jsonl`, one annotation a line, and the documents: a file for each
in a folder `docs` (or `documents`), or all in `docs.jsonl`. A document has one sentence a line, and spaces between
tokens. An annotation becomes a row of tokens and `rationale_spans`; several documents of one annotation follow each
other.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples, did_you_mean, short
from whence.data.sets import address
from whence.data.sets.address import Folder
from whence.data.sets.rows import Row, Table, is_file, stream_of
from whence.data.sets.stream import ROW, Unreadable

ORDER = ("test", "val", "train")  # which split is taken where none is named
_ENDINGS = (".jsonl", ".jsonl.gz")
_PEEKED = 100

Document = list[list[str]]  # sentences of tokens


def table(given: str | Path, pair: str | None = None) -> Table | None:
    """Take FOLDER or FOLDER:SPLIT; None if that is no folder in this format.

    The query is a column, unless the first hundred are all the same: then it says nothing about an example.
    """
    if is_file(given):
        return None
    folder, split = address.folder(given), ""
    home, colon, rest = str(given).rpartition(":")
    if folder is None and colon and "/" not in rest:
        folder, split = address.folder(home), rest
    if folder is None:
        return None
    documents, splits = _documents(folder), _splits(folder)
    if documents is None or not splits:
        return None
    if split and split not in splits:
        raise BadExamples(
            f"The folder {folder.name!r} has no annotations {split + '.jsonl'!r}; it has {', '.join(splits)}."
            f"{did_you_mean(split, list(splits))}"
        )
    chosen = split or next((one for one in ORDER if one in splits), next(iter(splits)))
    file = splits[chosen]

    def annotations() -> Iterator[Row | Unreadable]:
        with folder.opened(file) as opened:
            yield from stream_of(file, opened)

    def rows() -> Iterator[Row | Unreadable]:
        read = lru_cache(maxsize=4)(
            documents
        )  # several annotations in a row are about one document
        for one in annotations():
            yield one if isinstance(one, Unreadable) else _row(*one, read, asks)

    asks = pair == "query" or _varies(annotations())
    name = f"{folder.name}:{chosen}"
    return Table(
        name, "eraser", rows, lambda: sum(1 for _ in annotations()), () if split else ("split",)
    )


def _splits(folder: Folder) -> dict[str, str]:
    """Name the files of annotations by their splits."""
    names = [f"{split}{ending}" for split in ORDER for ending in _ENDINGS]
    return {name.partition(".")[0]: name for name in names if folder.has(name)}


def _varies(annotations: Iterator[Row | Unreadable]) -> bool:
    peeked = islice((one for one in annotations if not isinstance(one, Unreadable)), _PEEKED)
    return len({str(row.get("query") or "") for _, row in peeked}) > 1


def _documents(folder: Folder) -> Callable[[str], Document] | None:
    """Return what reads a document by its name; None if the folder has no documents."""
    home = next((name for name in ("docs", "documents") if folder.has(name)), None)
    if home is not None:
        return lambda name: _file(folder, home, name)
    return _Listed(folder, "docs.jsonl") if folder.has("docs.jsonl") else None


def _file(folder: Folder, home: str, name: str) -> Document:
    with folder.within(home).opened(name) as file:
        raw = file.read(ROW + 1)
    if len(raw) > ROW:
        raise BadExamples(f"The document {short(name, 60)!r} has more than {ROW >> 20} MiB.")
    try:
        return _sentences(raw.decode())
    except UnicodeDecodeError as error:
        raise BadExamples(
            f"The document {short(name, 60)!r} is not UTF-8 text ({error.reason}, byte {raw[error.start]:#04x})."
        ) from None


class _Listed:
    """Documents of a file, one object {"docid": ..., "document": ...} a line; their places alone are kept."""

    def __init__(self, folder: Folder, file: str) -> None:
        self._folder, self._file = folder, file
        self._places: dict[str, int] | None = None

    def __call__(self, name: str) -> Document:
        if self._places is None:
            self._places = dict(self._found())
        if name not in self._places:
            raise BadExamples(f"{self._file} has no document {short(name, 60)!r}.")
        with self._folder.opened(self._file) as file:
            file.seek(self._places[name])
            document = json.loads(file.readline(ROW))["document"]
        if not isinstance(document, str):
            raise BadExamples(f"The document {short(name, 60)!r} is no text.")
        return _sentences(document)

    def _found(self) -> Iterator[tuple[str, int]]:
        place = 0
        with self._folder.opened(self._file) as file:
            while raw := file.readline(ROW):
                try:
                    row = json.loads(raw)
                except (ValueError, RecursionError):
                    row = None  # a document that is missed is named by the annotation that wants it
                if isinstance(row, dict) and "document" in row:
                    yield str(row.get("docid")), place
                place += len(raw)


def _sentences(text: str) -> Document:
    # Only a space parts tokens: others are part of one, and places are counted in tokens.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    cut = ([token for token in line.strip().split(" ") if token] for line in lines)
    return [tokens for tokens in cut if tokens]


def _row(
    where: str, annotation: Mapping[str, Any], read: Callable[[str], Document], asks: bool
) -> Row | Unreadable:
    try:
        evidences = _evidences(annotation.get("evidences"))
        names = _names(annotation, evidences)
        tokens: list[str] = []
        starts = {}
        for name in names:
            starts[name] = len(tokens)
            tokens += [token for sentence in read(name) for token in sentence]
        spans = [_span(one, starts, read) for one in evidences]
    except BadExamples as error:
        return Unreadable(where, str(error))
    row = {
        "id": annotation.get("annotation_id"),
        "label": annotation.get("classification"),
        "tokens": tokens,
        "rationale_spans": spans,
    }
    return where, {**row, "query": annotation.get("query") or ""} if asks else row


def _evidences(given: Any) -> list[Mapping[str, Any]]:
    """Put the evidence of all groups together: people marked each of them."""
    groups = given if isinstance(given, list) else [None]
    found = []
    for one in (one for group in groups for one in (group if isinstance(group, list) else [None])):
        if not isinstance(one, Mapping) or not isinstance(one.get("docid"), str):
            raise BadExamples(
                "'evidences' must be lists of objects with a 'docid', 'start_token' and 'end_token'."
            )
        found.append(one)
    return found


def _names(annotation: Mapping[str, Any], evidences: list[Mapping[str, Any]]) -> list[str]:
    """Name the documents of an annotation: its own list, else those of its evidence, else the one of its name."""
    listed = annotation.get("docids") or [one["docid"] for one in evidences]
    listed = listed or [annotation.get("annotation_id")]
    if not isinstance(listed, list) or not all(isinstance(one, str) and one for one in listed):
        raise BadExamples(
            f"'docids' is {str(listed)[:40]!r}. Allowed: a list of names of documents."
        )
    return list(dict.fromkeys([*listed, *(one["docid"] for one in evidences)]))


def _span(
    one: Mapping[str, Any], starts: Mapping[str, int], read: Callable[[str], Document]
) -> list[int]:
    """Return a piece of evidence as tokens of all documents together, the end not included."""
    sizes = [len(sentence) for sentence in read(one["docid"])]
    start, end = one.get("start_token", -1), one.get("end_token", -1)
    if (start, end) == (-1, -1):  # only sentences were named
        first, last = one.get("start_sentence", -1), one.get("end_sentence", -1)
        whole = type(first) is int and type(last) is int
        if not whole or not 0 <= first <= last <= len(sizes):
            raise BadExamples(
                f"the evidence in {short(one['docid'], 60)!r} names neither tokens nor sentences that are there."
            )
        start, end = sum(sizes[:first]), sum(sizes[:last])
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= sum(sizes):
        raise BadExamples(
            f"the evidence {short(str(start), 20)}:{short(str(end), 20)} lies outside of the document "
            f"{short(one['docid'], 60)!r} of {sum(sizes)} tokens."
        )
    return [starts[one["docid"]] + start, starts[one["docid"]] + end]
