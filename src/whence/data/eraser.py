"""Human rationales as character spans, and reading of data sets in the ERASER format.

ERASER (DeYoung et al. 2020): a folder holds `train.jsonl`, `val.jsonl` and `test.jsonl`, one annotation a
line, and the documents: a file for each in a folder `docs` (or `documents`), or all in `docs.jsonl`. A
document has one sentence a line, and spaces between tokens. An annotation becomes a row of tokens and
`rationale_spans`; several documents of one annotation follow each other.

Rationales are also read from a column `rationale` (characters), from `rationale_spans` (tokens) and from the
`answers` of SQuAD files.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples, shorten_quote, suggest_name
from whence.core.types import Token, Word
from whence.data.readers import (
    MAX_ROW_BYTES,
    DataFolder,
    Rows,
    RowSource,
    TableRow,
    UnreadableRow,
    is_data_file,
    open_file,
    open_folder,
    open_row_file,
)

ERASER_SPLITS = ("test", "val", "train")  # the order of preference if none is named
_ENDINGS = (".jsonl", ".jsonl.gz")
_DOCUMENTS_FILE = "docs.jsonl"
_PEEK_ROWS = 100

EraserDocument = list[list[str]]  # sentences of tokens


def open_eraser(address: str | Path, pair: str | None = None) -> RowSource | None:
    """Open FOLDER or FOLDER:SPLIT in the ERASER format; None if it is no such folder.

    The query is a column, unless the first hundred are all the same: then it is no part of the example.
    """
    if is_data_file(address):
        return None
    folder, split = open_folder(address), ""
    home, colon, rest = str(address).rpartition(":")
    if folder is None and colon and "/" not in rest:
        folder, split = open_folder(home), rest
    if folder is None:
        return None
    names = [f"{one}{ending}" for one in ERASER_SPLITS for ending in _ENDINGS]
    splits = {name.partition(".")[0]: name for name in names if folder.has(name)}
    documents = _find_document_reader(folder) if splits else None
    if documents is None:
        return None
    if split and split not in splits:
        raise BadExamples(
            f"The folder {folder.name!r} has no annotations {split + '.jsonl'!r}; it has {', '.join(splits)}."
            f"{suggest_name(split, list(splits))}"
        )
    chosen = split or next(iter(splits))
    annotations = open_row_file(folder.find_file(splits[chosen]))

    def read_rows() -> Rows:
        read = lru_cache(maxsize=4)(documents)  # consecutive annotations often share a document
        for row in annotations.rows():
            yield row if isinstance(row, UnreadableRow) else _build_row(*row, read, asks)

    readable = (row for row in annotations.rows() if not isinstance(row, UnreadableRow))
    queries = {str(row.get("query") or "") for _, row in islice(readable, _PEEK_ROWS)}
    asks = pair == "query" or len(queries) > 1
    return RowSource(
        f"{folder.name}:{chosen}",
        "eraser",
        read_rows,
        annotations.count,
        () if split else ("split",),
    )


def _find_document_reader(folder: DataFolder) -> Callable[[str], EraserDocument] | None:
    """Return a function that reads a document by name; None if the folder has no documents."""
    home = next((name for name in ("docs", "documents") if folder.has(name)), None)
    if home is not None:
        return lambda name: _read_document(DataFolder(home, folder.find_path(home)), name)
    if not folder.has(_DOCUMENTS_FILE):
        return None
    places: dict[str, int] = {}  # offsets only

    def read(name: str) -> EraserDocument:
        path = folder.find_file(_DOCUMENTS_FILE)
        if not places:
            places.update(_index_documents(path))
        if name not in places:
            raise BadExamples(f"{_DOCUMENTS_FILE} has no document {shorten_quote(name, 60)!r}.")
        with open_file(path) as file:
            file.seek(places[name])
            document = json.loads(file.readline(MAX_ROW_BYTES))["document"]
        if not isinstance(document, str):
            raise BadExamples(f"The document {shorten_quote(name, 60)!r} is no text.")
        return _split_sentences(document)

    return read


def _index_documents(path: Path | str) -> Iterator[tuple[str, int]]:
    """Yield the documents of a file with {"docid": ..., "document": ...} a line, and where each begins."""
    place = 0
    with open_file(path) as file:
        while raw := file.readline(MAX_ROW_BYTES):
            try:
                row = json.loads(raw)
            except (ValueError, RecursionError):
                row = None  # the annotation that needs the document reports it missing
            if isinstance(row, dict) and "document" in row:
                yield str(row.get("docid")), place
            place += len(raw)


def _read_document(folder: DataFolder, name: str) -> EraserDocument:
    with open_file(folder.find_file(name)) as file:
        raw = file.read(MAX_ROW_BYTES + 1)
    if len(raw) > MAX_ROW_BYTES:
        raise BadExamples(
            f"The document {shorten_quote(name, 60)!r} has more than {MAX_ROW_BYTES >> 20} MiB."
        )
    try:
        return _split_sentences(raw.decode())
    except UnicodeDecodeError as error:
        raise BadExamples(
            f"The document {shorten_quote(name, 60)!r} is not UTF-8 text ({error.reason}, byte {raw[error.start]:#04x})."
        ) from None


def _split_sentences(text: str) -> EraserDocument:
    # Tokens are separated by spaces only, as in ERASER's code; its evidence counts tokens.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    sentences = ([token for token in line.strip().split(" ") if token] for line in lines)
    return [tokens for tokens in sentences if tokens]


def _build_row(
    where: str, annotation: Mapping[str, Any], read: Callable[[str], EraserDocument], asks: bool
) -> TableRow | UnreadableRow:
    # The evidence of all groups is one list: people marked all of it.
    groups = annotation.get("evidences")
    evidences: list[Any] = []
    for group in groups if isinstance(groups, list) else [None]:
        evidences += group if isinstance(group, list) else [None]
    try:
        for one in evidences:
            if not isinstance(one, Mapping) or not isinstance(one.get("docid"), str):
                raise BadExamples(
                    "'evidences' must be lists of objects with a 'docid', 'start_token' and 'end_token'."
                )
        # The documents are listed, or those of the evidence, or the one with the annotation's id.
        own = [evidence["docid"] for evidence in evidences]
        names = annotation.get("docids") or own or [annotation.get("annotation_id")]
        if not isinstance(names, list) or not all(isinstance(one, str) and one for one in names):
            raise BadExamples(
                f"'docids' is {str(names)[:40]!r}. Allowed: a list of names of documents."
            )
        tokens: list[str] = []
        starts = {}
        for name in dict.fromkeys([*names, *own]):
            starts[name] = len(tokens)
            tokens += [token for sentence in read(name) for token in sentence]
        spans = [_resolve_evidence(evidence, starts, read) for evidence in evidences]
    except BadExamples as error:
        return UnreadableRow(where, str(error))
    row = {
        "id": annotation.get("annotation_id"),
        "label": annotation.get("classification"),
        "tokens": tokens,
        "rationale_spans": spans,
    }
    return where, {**row, "query": annotation.get("query") or ""} if asks else row


def _resolve_evidence(
    evidence: Mapping[str, Any], starts: Mapping[str, int], read: Callable[[str], EraserDocument]
) -> list[int]:
    """Return the token range of one piece of evidence in the joined documents, end excluded."""
    sizes = [len(sentence) for sentence in read(evidence["docid"])]
    start, end = evidence.get("start_token", -1), evidence.get("end_token", -1)
    if (start, end) == (-1, -1):  # the evidence is given in sentences
        first, last = evidence.get("start_sentence", -1), evidence.get("end_sentence", -1)
        whole = type(first) is int and type(last) is int
        if not whole or not 0 <= first <= last <= len(sizes):
            raise BadExamples(
                f"the evidence in {shorten_quote(evidence['docid'], 60)!r} names neither tokens nor sentences that are there."
            )
        start, end = sum(sizes[:first]), sum(sizes[:last])
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= sum(sizes):
        raise BadExamples(
            f"the evidence {shorten_quote(str(start), 20)}:{shorten_quote(str(end), 20)} lies outside of the document "
            f"{shorten_quote(evidence['docid'], 60)!r} of {sum(sizes)} tokens."
        )
    return [starts[evidence["docid"]] + start, starts[evidence["docid"]] + end]


@dataclass(frozen=True, slots=True)
class RationaleSpan:
    """Characters `start` to `end` (excluded) of the text (segment 0) or of a pair's second text (1)."""

    segment: int
    start: int
    end: int


def flag_rationale(
    units: Sequence[Sequence[int] | Word],
    tokens: Sequence[Token],
    rationale: Sequence[RationaleSpan],
) -> list[bool]:
    """Return for each unit, a word or token positions, whether it overlaps the rationale."""
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


def parse_rationale(
    where: str, row: Mapping[str, Any], columns: tuple[str, ...], parts: Sequence[str]
) -> tuple[RationaleSpan, ...] | None:
    """Return the rationale of a row as character spans, from any of its forms; None if it has none."""
    if row.get("rationale") not in (None, ""):
        listed = _parse_list(where, row["rationale"])
        spans = [_parse_span(where, span, parts) for span in listed]
    elif row.get("rationale_spans") not in (None, ""):
        spans = _parse_token_spans(where, row, columns)
    elif row.get("answers") not in (None, ""):
        spans = _parse_answers(where, row["answers"], columns, parts)
    else:
        return None
    return tuple(dict.fromkeys(spans))


def _parse_list(where: str, value: Any) -> list[Any]:
    """Parse a list, or its JSON text, which is its form in a table."""
    spans = value
    if isinstance(value, str):
        try:
            spans = json.loads(value)
        except ValueError:
            spans = None
    if not isinstance(spans, list):
        raise BadExamples(
            f"{where}: the rationale is {str(value)[:40]!r}. Allowed: a list of spans, [[start, end], ...]."
        )
    return spans


def _parse_integers(where: str, span: Any, sizes: Mapping[int, str]) -> list[int]:
    """Parse one span; `sizes` has the allowed numbers of its numbers, and what each form is."""
    whole = isinstance(span, list | tuple) and all(type(number) is int for number in span)
    if not whole or len(span) not in sizes:
        raise BadExamples(
            f"{where}: the rationale has the span {str(span)[:40]!r}. Allowed: {' or '.join(sizes.values())} "
            "in whole numbers."
        )
    return list(span)


def _parse_span(where: str, span: Any, parts: Sequence[str]) -> RationaleSpan:
    numbers = _parse_integers(where, span, {2: "[start, end]", 3: "[segment, start, end]"})
    segment, start, end = numbers if len(numbers) == 3 else (0, *numbers)
    if not 0 <= segment < len(parts):
        raise BadExamples(
            f"{where}: the rationale {start}:{end} is of text {segment}, and there are {len(parts)}, counted from 0."
        )
    _check_span(where, start, end, len(parts[segment]), "its text", "characters")
    return RationaleSpan(segment, start, end)


def _parse_token_spans(
    where: str, row: Mapping[str, Any], columns: tuple[str, ...]
) -> list[RationaleSpan]:
    tokens = row.get("tokens")
    if columns[0] != "tokens" or not isinstance(tokens, list):
        raise BadExamples(
            f"{where}: 'rationale_spans' counts the entries of a list 'tokens', and the text is in {columns[0]!r}. "
            "Give the tokens, or 'rationale' in characters."
        )
    starts = [0, *accumulate(len(token) + 1 for token in tokens)]
    spans = []
    for span in _parse_list(where, row["rationale_spans"]):
        start, end = _parse_integers(where, span, {2: "[start, end]"})
        if start == end and 0 <= start <= len(tokens):
            continue  # ERASER's own files have empty spans: they mark nothing
        _check_span(where, start, end, len(tokens), "a text", "tokens")
        spans.append(RationaleSpan(0, starts[start], starts[end] - 1))
    return spans


def _parse_answers(
    where: str, answers: Any, columns: tuple[str, ...], parts: Sequence[str]
) -> list[RationaleSpan]:
    """Return the answers of a SQuAD row as spans of the context."""
    if isinstance(answers, Mapping):  # a list per key, as in the data sets of Hugging Face
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
            both = zip(texts, starts, strict=True)
            answers = [{"text": text, "answer_start": start} for text, start in both]
    segment = columns.index("context") if "context" in columns else 0
    spans = []
    for answer in answers if isinstance(answers, list) else [None]:
        own = answer if isinstance(answer, Mapping) else {}
        text, start = own.get("text"), own.get("answer_start")
        if not isinstance(text, str) or type(start) is not int:
            raise BadExamples(f"{where}: 'answers' must each have a 'text' and an 'answer_start'.")
        if start < 0 or not text or parts[segment][start : start + len(text)] != text:
            raise BadExamples(
                f"{where}: the answer {text[:40]!r} does not stand at {start} of its text. Correct 'answer_start'."
            )
        spans.append(RationaleSpan(segment, start, start + len(text)))
    return spans


def _check_span(where: str, start: int, end: int, length: int, what: str, units: str) -> None:
    if start >= end:
        raise BadExamples(
            f"{where}: the rationale {start}:{end} is {'empty' if start == end else 'reversed'}. "
            "The end is not included and comes after the start."
        )
    if start < 0 or end > length:
        raise BadExamples(
            f"{where}: the rationale {start}:{end} lies outside of {what} of {length} {units}."
        )
