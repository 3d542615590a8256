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
