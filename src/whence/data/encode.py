"""Text to tokens with exact offsets, and already encoded inputs taken as they are."""

import unicodedata
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from operator import index
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
    given: str | tuple[str, str],
    tokenizer: Any,
    *,
    max_length: int | None,
    truncate: bool,
    special: bool = True,
) -> Encoded:
    """Tokenize a text or a pair of texts; `special` adds the tokenizer's special tokens."""
    text, pair = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    for part in (text,) if pair is None else (text, pair):
        _check_text(part)
    if tokenizer is None:
        raise NoTokenizer(
            f"The text {_short(text)!r} cannot be explained: the model has no tokenizer. Pass one "
            "(whence.load(model, tokenizer=...)), or give encoded input: a mapping with 'input_ids'."
        )
    encoded = _encode(tokenizer, text, pair, None, special)
    length, dropped = len(encoded["input_ids"]), 0
    if max_length is not None and length > max_length:
        if not truncate:
            raise TooLong(
                f"The text has {length} tokens and the model takes at most {max_length}. "
                "Shorten it, or let whence cut it: truncate=True, --truncate."
            )
        encoded = _encode(tokenizer, text, pair, max_length, special)
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


def _encode(
    tokenizer: Any, text: str, pair: str | None, max_length: int | None, special: bool
) -> Any:
    fast = bool(getattr(tokenizer, "is_fast", False))
    return tokenizer(
        text,
        pair,
        truncation=max_length is not None,
        max_length=max_length,
        return_offsets_mapping=fast,
        return_attention_mask=True,
        add_special_tokens=special,
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
    owners: list[int | None] = []
    segment, seen = 0, False
    for flag in _special(tokenizer, ids):
        if flag and seen and pair is not None:
            segment = 1
        seen = seen or not flag
        owners.append(None if flag else segment)
    spans = [(0, 0)] * len(ids)
    for number, source in enumerate((text, pair)):
        places = [i for i, owner in enumerate(owners) if owner == number]
        if source is not None:
            for i, span in zip(places, _placed([pieces[i] for i in places], source), strict=True):
                spans[i] = span
    return owners, spans


def _placed(pieces: list[str], text: str) -> list[tuple[int, int]]:
    """Return where each piece stands; one that cannot be found stays with the character before it."""
    raw = text.encode()
    if len(pieces) == len(raw) and all(p == chr(b) for p, b in zip(pieces, raw, strict=True)):
        # ByT5 and its kin: a token is a byte, and a character may be several.
        owner = [i for i, character in enumerate(text) for _ in character.encode()]
        return [(i, i + 1) for i in owner]
    folded, at, spans = _fold(text), 0, []
    for piece in pieces:
        surface = piece.removeprefix("##").replace("▁", "").replace("</w>", "").replace("@@", "")
        found = folded.find(_fold(surface), at) if surface else -1
        if found >= 0:
            spans.append((found, found + len(surface)))
            at = found + len(surface)
        else:
            spans.append((max(at - 1, 0), max(at, 1)))
    return spans


def _special(tokenizer: Any, ids: Sequence[int]) -> list[bool]:
    """Flag the tokens that frame a text. An unknown or a mask token stands for a part of it."""
    frame = {
        getattr(tokenizer, f"{kind}_token_id", None) for kind in ("cls", "sep", "bos", "eos", "pad")
    }
    frame -= {getattr(tokenizer, f"{kind}_token_id", None) for kind in ("unk", "mask")}
    return [i in frame for i in ids]


def _fold(text: str) -> str:
    """Lower-case and strip accents, one character for one, so that offsets stay true."""
    return "".join((unicodedata.normalize("NFD", c)[0].lower() or c)[0] for c in text)


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


def _rows(name: str, value: Any) -> list[list[int]]:
    """Take lists, arrays and tensors of one or two dimensions, and lists of those."""
    value = value.tolist() if hasattr(value, "tolist") else value
    try:
        rows = [row.tolist() if hasattr(row, "tolist") else row for row in value]
        if rows and not isinstance(rows[0], list | tuple):
            rows = [rows]
        return [[index(cell) for cell in row] for row in rows]
    except TypeError:
        raise BadEncoding(
            f"{name!r} must be one row or several rows of integers; got {str(value)[:60]!r}."
        ) from None


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
    if vocabulary is not None and not all(0 <= i < vocabulary for i in ids):
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
        special = _special(tokenizer, ids)
        again = _recovered(ids, special, tokenizer)
        if again is not None:
            return replace(again, features=features)
        pieces = tokenizer.convert_ids_to_tokens(list(ids))
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
