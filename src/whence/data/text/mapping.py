"""Inputs that come already encoded: taken as they are, padding off, tokens and words found again."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from operator import index
from typing import Any

from whence.core.errors import BadEncoding, EmptyText, TooLong
from whence.core.types import Source, Token, Word
from whence.data.text.align import frames
from whence.data.text.encode import Encoded, encode, tokenizing


def is_mapping(given: Any) -> bool:
    """Say whether `given` is an encoded input (a dict, a BatchEncoding)."""
    return isinstance(given, Mapping) or (hasattr(given, "keys") and hasattr(given, "__getitem__"))


def from_mapping(
    given: Any,
    tokenizer: Any,
    *,
    pad_ids: Set[int],
    max_length: int | None,
    vocabulary: int | None,
) -> list[Encoded]:
    """Take encoded inputs of one or many rows; padding is taken off."""
    rows = {name: _rows(name, given[name]) for name in given.keys() if name not in _NOT_FEATURES}  # noqa: SIM118
    if "input_ids" not in rows:
        raise BadEncoding(
            f"An encoded input needs 'input_ids'; this one has {sorted(given.keys())}. "
            "Give what the tokenizer returned."
        )
    ids = rows["input_ids"]
    if not ids or not ids[0]:
        raise EmptyText("The encoded input has no tokens. Give at least one.")
    for name, value in rows.items():
        if [len(row) for row in value] != [len(row) for row in ids]:
            raise BadEncoding(
                f"{name!r} has the shape {_shape(value)} and 'input_ids' {_shape(ids)}; they must be equal."
            )
    rows.setdefault("attention_mask", [[1] * len(row) for row in ids])
    return [
        _from_row(
            {name: value[i] for name, value in rows.items()},
            tokenizer,
            pad_ids,
            max_length,
            vocabulary,
        )
        for i in range(len(ids))
    ]


# What a tokenizer may return beside features, and what no explanation needs.
_NOT_FEATURES = {
    "offset_mapping",
    "special_tokens_mask",
    "overflow_to_sample_mapping",
    "length",
    "labels",
}


BOXES = "bbox"  # where each token stands on a page: four numbers


def _rows(name: str, value: Any) -> list[list[Any]]:
    """Take lists, arrays and tensors of one or two dimensions, and lists of those; boxes have one dimension more."""
    value = value.tolist() if hasattr(value, "tolist") else value
    try:
        rows = [row.tolist() if hasattr(row, "tolist") else row for row in value]
        cell = rows[0][0] if name == BOXES and rows else rows[0] if rows else ()
        if not isinstance(cell, list | tuple):
            rows = [rows]
        if name == BOXES:
            return [[_box(one) for one in row] for row in rows]
        return [[*map(index, row)] for row in rows]
    except (TypeError, IndexError, ValueError):
        raise BadEncoding(
            f"{name!r} must be one row or several rows of {'boxes of four ' * (name == BOXES)}integers; got "
            f"{str(value)[:60]!r}."
        ) from None


def _box(one: Any) -> tuple[int, int, int, int]:
    left, top, right, bottom = map(index, one)
    return left, top, right, bottom


def _shape(rows: list[list[int]]) -> tuple[int, ...]:
    return (len(rows), max(len(row) for row in rows) if rows else 0)


def _from_row(
    row: dict[str, list[int]],
    tokenizer: Any,
    pad_ids: Set[int],
    max_length: int | None,
    vocabulary: int | None,
) -> Encoded:
    ids, mask = row["input_ids"], row["attention_mask"]
    if vocabulary is not None and ids and not 0 <= min(ids) <= max(ids) < vocabulary:
        wrong = next(i for i in ids if not 0 <= i < vocabulary)
        raise BadEncoding(
            f"Token id {wrong} is not in the model's vocabulary of {vocabulary}. "
            "Encode with the tokenizer that belongs to the model."
        )
    # Padding is a run of masked padding tokens at an end. A masked token within the text is not padding:
    # the model still computes it, and its score is given.
    padding = [m == 0 and (not pad_ids or i in pad_ids) for i, m in zip(ids, mask, strict=True)]
    if all(padding):
        raise EmptyText("The encoded input is all padding. Give at least one token.")
    first = padding.index(False)
    last = len(padding) - padding[::-1].index(False)
    features = {name: tuple(values[first:last]) for name, values in row.items()}
    if max_length is not None and last - first > max_length:
        raise TooLong(
            f"The encoded input has {last - first} tokens and the model takes at most {max_length}. Shorten it."
        )
    return _described(features, tokenizer)


def _runs(ids: Sequence[int], special: Sequence[bool]) -> list[list[int]]:
    """Return the stretches between special tokens: one text, or the two of a pair."""
    pairs = zip(ids, special, strict=True)
    return [[i for i, _ in run] for flag, run in groupby(pairs, key=lambda p: p[1]) if not flag]


def _recovered(ids: Sequence[int], special: Sequence[bool], tokenizer: Any) -> Encoded | None:
    """Return the encoding of the decoded text, if it leads back to the same ids."""
    with tokenizing("the encoded input"):
        texts = tuple(tokenizer.decode(run) for run in _runs(ids, special))
    if not 1 <= len(texts) <= 2 or not all(text.strip() for text in texts):
        return None
    text = texts if len(texts) == 2 else texts[0]
    for framed in (True, False):
        try:
            again = encode(text, tokenizer, max_length=None, truncate=False, special=framed)
        except EmptyText:
            continue
        if again.ids == tuple(ids):
            return again
    return None


def _described(features: dict[str, tuple[int, ...]], tokenizer: Any) -> Encoded:
    """Give an encoded input tokens and words: through its decoded text where that leads back to the same ids."""
    ids = features["input_ids"]
    special = [False] * len(ids)
    pieces = [str(i) for i in ids]
    if tokenizer is not None:
        special = frames(tokenizer, ids)
        again = _recovered(ids, special, tokenizer)
        if again is not None:
            return replace(again, features=features)
        pieces = tokenizer.convert_ids_to_tokens(list(ids))
    segments = features.get("token_type_ids", (0,) * len(ids))
    tokens = [*map(_token, pieces, segments, special, ids)]
    words = [
        Word(token.text, None, None, token.segment, (i,))
        for i, token in enumerate(tokens)
        if not token.special
    ]
    return Encoded(features, tuple(tokens), tuple(words), Source(None))


@lru_cache(1 << 16)  # about a vocabulary: to look a token up is quicker than to make it anew
def _token(piece: Any, segment: int, special: bool, identity: int) -> Token:
    return Token(str(piece), None, None, int(segment), bool(special), identity)
