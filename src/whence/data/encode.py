"""Text to tokens with exact offsets, and already encoded inputs taken as they are."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from whence.core.errors import BadEncoding, BadTokenizer, EmptyText, NoTokenizer, TooLong
from whence.core.types import Source, Token, Word
from whence.data.words import trimmed, words_of

Given = str | tuple[str, str] | Mapping[str, Any]


@dataclass(frozen=True)
class Encoded:
    """One input, ready for a model: per-token features without padding, and what they mean to a person."""

    features: Mapping[str, tuple[int, ...]]  # input_ids, attention_mask, token_type_ids, ...
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    source: Source

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids."""
        return self.features["input_ids"]

    def __len__(self) -> int:
        return len(self.ids)


def is_mapping(given: Any) -> bool:
    """Say whether `given` is an encoded input (a dict, a BatchEncoding)."""
    return isinstance(given, Mapping) or (hasattr(given, "keys") and hasattr(given, "__getitem__"))


def encode(
    given: str | tuple[str, str], tokenizer: Any, *, max_length: int | None, truncate: bool
) -> Encoded:
    """Tokenize a text or a pair of texts."""
    text, pair = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    for part in (text,) if pair is None else (text, pair):
        _check_text(part)
    if tokenizer is None:
        raise NoTokenizer(
            f"The text {_short(text)!r} cannot be explained: the model has no tokenizer. Pass one "
            "(whence.load(model, tokenizer=...)), or give encoded input: a mapping with 'input_ids'."
        )
    encoded = _encode(tokenizer, text, pair, None)
    length, dropped = len(encoded["input_ids"]), 0
    if max_length is not None and length > max_length:
        if not truncate:
            raise TooLong(
                f"The text has {length} tokens and the model takes at most {max_length}. "
                "Shorten it, or let whence cut it: truncate=True, --truncate."
            )
        encoded = _encode(tokenizer, text, pair, max_length)
        dropped = length - len(encoded["input_ids"])
    features = {
        name: tuple(int(value) for value in encoded[name])
        for name in encoded
        if name not in {"offset_mapping", "special_tokens_mask"}
    }
    tokens = _tokens(encoded, tokenizer, text, pair)
    if all(token.special for token in tokens):
        raise EmptyText(
            f"The tokenizer makes nothing of {_short(text)!r}: only special tokens are left. Give other text."
        )
    words = [
        word
        for segment, part in enumerate((text, pair))
        if part is not None
        for word in words_of(part, segment, _content(tokens, segment))
    ]
    return Encoded(features, tuple(tokens), tuple(words), Source(text, pair, dropped))


def _content(tokens: Sequence[Token], segment: int) -> list[tuple[int, Token]]:
    return [(i, t) for i, t in enumerate(tokens) if t.segment == segment and not t.special]


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise BadEncoding(
            f"Cannot explain a {type(text).__name__}: give a text, a pair (a, b) of texts, an encoded "
            "mapping, or a list of these."
        )
    if not text.strip():
        raise EmptyText(f"The text {text!r} is empty. Give at least one word.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadEncoding(
            f"The text has a character that is no Unicode text ({text[error.start]!r} at {error.start}). Remove it."
        ) from None


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _encode(tokenizer: Any, text: str, pair: str | None, max_length: int | None) -> Any:
    fast = bool(getattr(tokenizer, "is_fast", False))
    return tokenizer(
        text,
        pair,
        truncation=max_length is not None,
        max_length=max_length,
        return_offsets_mapping=fast,
        return_attention_mask=True,
        # Its own "longer than the model" log line would only repeat our error.
        verbose=False,
    )


def _tokens(encoded: Any, tokenizer: Any, text: str, pair: str | None) -> list[Token]:
    ids = list(encoded["input_ids"])
    pieces = tokenizer.convert_ids_to_tokens(ids)
    if "offset_mapping" in encoded:
        owners = encoded.sequence_ids(0)
        spans = [tuple(span) for span in encoded["offset_mapping"]]
    else:
        owners, spans = _aligned(tokenizer, ids, pieces, text, pair)
    tokens: list[Token] = []
    segment = 0
    for identity, piece, owner, (start, end) in zip(ids, pieces, owners, spans, strict=True):
        if owner is None:
            tokens.append(Token(str(piece), None, None, segment, True, int(identity)))
            continue
        segment = int(owner)
        source = text if segment == 0 else pair
        if source is None or not 0 <= start <= end <= len(source):
            raise BadTokenizer(
                f"The tokenizer places {piece!r} at {start}:{end}, outside of its text. "
                "Give the tokenizer that belongs to the model."
            )
        start, end = trimmed(source, start, end)
        tokens.append(Token(source[start:end], start, end, segment, False, int(identity)))
    return tokens


def _aligned(
    tokenizer: Any, ids: list[int], pieces: list[str], text: str, pair: str | None
) -> tuple[list[int | None], list[tuple[int, int]]]:
    """Find the pieces of a tokenizer without offsets in the text, left to right."""
    special = tokenizer.get_special_tokens_mask(ids, already_has_special_tokens=True)
    owners: list[int | None] = []
    spans: list[tuple[int, int]] = []
    segment, at, seen = 0, 0, False
    for piece, flag in zip(pieces, special, strict=True):
        if flag:
            if seen and pair is not None and segment == 0:
                segment, at = 1, 0
            owners.append(None)
            spans.append((0, 0))
            continue
        seen = True
        source = text if segment == 0 or pair is None else pair
        surface = piece.removeprefix("##").replace("▁", "").replace("</w>", "").replace("@@", "")
        found = _fold(source).find(_fold(surface), at) if surface else -1
        start, end = (found, found + len(surface)) if found >= 0 else (at, at)
        at = end
        owners.append(segment)
        spans.append((start, end))
    return owners, spans


def _fold(text: str) -> str:
    """Lower-case and strip accents, one character for one, so that offsets stay true."""
    return "".join((unicodedata.normalize("NFD", c)[0].lower() or c)[0] for c in text)


def from_mapping(
    given: Any,
    tokenizer: Any,
    *,
    pad_id: int | None,
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
            pad_id,
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


def _rows(name: str, value: Any) -> list[list[int]]:
    value = value.tolist() if hasattr(value, "tolist") else list(value)
    if value and not isinstance(value[0], list | tuple):
        value = [value]
    try:
        rows = [[int(cell) for cell in row] for row in value]
    except (TypeError, ValueError):
        raise BadEncoding(
            f"{name!r} must be one row or several rows of integers; got {str(value)[:60]!r}."
        ) from None
    return rows


def _shape(rows: list[list[int]]) -> tuple[int, ...]:
    return (len(rows), max(len(row) for row in rows) if rows else 0)


def _from_row(
    row: dict[str, list[int]],
    tokenizer: Any,
    pad_id: int | None,
    max_length: int | None,
    vocabulary: int | None,
) -> Encoded:
    ids, mask = row["input_ids"], row["attention_mask"]
    if vocabulary is not None and not all(0 <= i < vocabulary for i in ids):
        wrong = next(i for i in ids if not 0 <= i < vocabulary)
        raise BadEncoding(
            f"Token id {wrong} is not in the model's vocabulary of {vocabulary}. "
            "Encode with the tokenizer that belongs to the model."
        )
    # Padding is a run of masked padding tokens at an end. A masked token within the text is not padding:
    # the model still computes it, and its score is given.
    padding = [m == 0 and (pad_id is None or i == pad_id) for i, m in zip(ids, mask, strict=True)]
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


def _runs(ids: Sequence[int], special: Sequence[int]) -> list[list[int]]:
    """Return the stretches between special tokens: one text, or the two of a pair."""
    pairs = zip(ids, special, strict=True)
    return [
        [i for i, _ in run] for flag, run in groupby(pairs, key=lambda p: bool(p[1])) if not flag
    ]


def _described(features: dict[str, tuple[int, ...]], tokenizer: Any) -> Encoded:
    """Give an encoded input tokens and words: through its decoded text where that leads back to the same ids."""
    ids = features["input_ids"]
    if tokenizer is not None:
        special = tokenizer.get_special_tokens_mask(list(ids), already_has_special_tokens=True)
        texts = tuple(tokenizer.decode(run) for run in _runs(ids, special))
        if 1 <= len(texts) <= 2 and all(text.strip() for text in texts):
            again = encode(
                texts if len(texts) == 2 else texts[0], tokenizer, max_length=None, truncate=False
            )
            if again.ids == ids:
                return replace(again, features=features)
        pieces = tokenizer.convert_ids_to_tokens(list(ids))
    else:
        special = [0] * len(ids)
        pieces = [str(i) for i in ids]
    segments = features.get("token_type_ids", (0,) * len(ids))
    tokens = tuple(
        Token(str(piece), None, None, int(segment), bool(flag), i)
        for piece, segment, flag, i in zip(pieces, segments, special, ids, strict=True)
    )
    words = tuple(
        Word(token.text, None, None, token.segment, (i,))
        for i, token in enumerate(tokens)
        if not token.special
    )
    return Encoded(features, tokens, words, Source(None))
