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


"""A human rationale: the stretches of a text that people named as the reason, in characters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadExamples
from whence.core.types import Token, Word


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end`, the end not included, of the text (0) or of the second text of a pair (1)."""

    segment: int
    start: int
    end: int


def marked(
    units: Sequence[Sequence[int] | Word], tokens: Sequence[Token], rationale: Sequence[Span]
) -> list[bool]:
    """Say of each unit, a word or places of tokens, whether it overlaps the rationale."""
    return [
        any(
            span.segment == tokens[place].segment
            and not tokens[place].special
            and max(span.start, tokens[place].start or 0) < min(span.end, tokens[place].end or 0)
            for place in (unit.tokens if isinstance(unit, Word) else unit)
            for span in rationale
        )
        for unit in units
    ]


def rationale_of(
    where: str, row: Mapping[str, Any], columns: tuple[str, ...], parts: Sequence[str]
) -> tuple[Span, ...] | None:
    """Return the rationale of a row in characters, whichever way it is given; None if it is not."""
    if row.get("rationale") not in (None, ""):
        found = [_span(where, one, parts) for one in _listed(where, row["rationale"])]
    elif row.get("rationale_spans") not in (None, ""):
        found = _of_tokens(where, row, columns)
    elif row.get("answers") not in (None, ""):
        found = _of_answers(where, row["answers"], columns, parts)
    else:
        return None
    return tuple(dict.fromkeys(found))


def _listed(where: str, value: Any) -> list[Any]:
    """Take a list, or the JSON of one: that is how it stands in a table."""
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except ValueError:
            found = None
    if not isinstance(found, list):
        raise BadExamples(
            f"{where}: the rationale is {str(value)[:40]!r}. Allowed: a list of spans, [[start, end], ...]."
        )
    return found


def _span(where: str, given: Any, parts: Sequence[str]) -> Span:
    if not _whole(given) or len(given) not in (2, 3):
        raise BadExamples(
            f"{where}: the rationale has the span {str(given)[:40]!r}. Allowed: [start, end] or "
            "[segment, start, end] in whole numbers."
        )
    segment, start, end = given if len(given) == 3 else (0, *given)
    if not 0 <= segment < len(parts):
        raise BadExamples(
            f"{where}: the rationale {start}:{end} is of text {segment}, and there are {len(parts)}, counted from 0."
        )
    _fits(where, start, end, len(parts[segment]), "its text", "characters")
    return Span(segment, start, end)


def _of_tokens(where: str, row: Mapping[str, Any], columns: tuple[str, ...]) -> list[Span]:
    if columns[0] != "tokens" or not isinstance(row["tokens"], list):
        raise BadExamples(
            f"{where}: 'rationale_spans' counts the entries of a list 'tokens', and the text is in {columns[0]!r}. "
            "Give the tokens, or 'rationale' in characters."
        )
    tokens = row["tokens"]
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token) + 1)
    found = []
    for given in _listed(where, row["rationale_spans"]):
        if not _whole(given) or len(given) != 2:
            raise BadExamples(
                f"{where}: the rationale has the span {str(given)[:40]!r}. Allowed: [start, end] in whole numbers."
            )
        start, end = given
        if start == end and 0 <= start <= len(tokens):
            continue  # ERASER's own files have spans of no token: they mark nothing
        _fits(where, start, end, len(tokens), "a text", "tokens")
        found.append(Span(0, starts[start], starts[end] - 1))
    return found


def _of_answers(
    where: str, answers: Any, columns: tuple[str, ...], parts: Sequence[str]
) -> list[Span]:
    """Take the answers of a SQuAD file: they stand in the context."""
    if isinstance(answers, Mapping):  # one list for each, as in the data sets of Hugging Face
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
            both = zip(texts, starts, strict=True)
            answers = [{"text": text, "answer_start": start} for text, start in both]
    if not isinstance(answers, list) or not all(
        isinstance(one, Mapping)
        and isinstance(one.get("text"), str)
        and type(one.get("answer_start")) is int
        for one in answers
    ):
        raise BadExamples(f"{where}: 'answers' must each have a 'text' and an 'answer_start'.")
    segment = columns.index("context") if "context" in columns else 0
    found = []
    for one in answers:
        start, said = one["answer_start"], one["text"]
        if start < 0 or not said or parts[segment][start : start + len(said)] != said:
            raise BadExamples(
                f"{where}: the answer {said[:40]!r} does not stand at {start} of its text. Correct 'answer_start'."
            )
        found.append(Span(segment, start, start + len(said)))
    return found


def _whole(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(type(number) is int for number in given)


def _fits(where: str, start: int, end: int, length: int, what: str, units: str) -> None:
    if start >= end:
        raise BadExamples(
            f"{where}: the rationale {start}:{end} is {'empty' if start == end else 'reversed'}. "
            "The end is not included and comes after the start."
        )
    if start < 0 or end > length:
        raise BadExamples(
            f"{where}: the rationale {start}:{end} lies outside of {what} of {length} {units}."
        )
