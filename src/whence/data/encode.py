"""Text to tokens with exact offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadEncoding, BadTokenizer, EmptyText, NoTokenizer, TooLong
from whence.core.types import Source, Token, Word
from whence.data.align import aligned
from whence.data.words import trimmed, words_of


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
        owners, spans = aligned(tokenizer, ids, pieces, text, pair)
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
