"""Encoding of texts and of encoded mappings: tokens with exact character offsets, words and features.

Offsets of tokenizers that give none are found by aligning the token strings with the text. Mappings that are
encoded already keep their ids; padding is removed, and tokens and words are recovered by decoding.

A tokenizer that truncates a pair also builds every combination of the parts that it cuts off: for two texts
of 50,000 characters that is gigabytes, which the process keeps. Long pairs are therefore cropped before the
tokenizer pairs them.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from operator import index
from typing import Any, Literal

import numpy as np

from whence.core.errors import (
    BadEncoding,
    BadTokenizer,
    EmptyText,
    NoTokenizer,
    TooLong,
    WhenceError,
    is_failure,
    shorten_quote,
)
from whence.core.lazy import LazyTuple
from whence.core.types import InputText, Token, Word
from whence.data.images import EncodedImage
from whence.data.readout import Readout, SpanReadout
from whence.data.words import split_words, trim_span

IntegerArray = np.ndarray[Any, np.dtype[np.int64]]


def align_pieces(
    tokenizer: Any, ids: list[int], pieces: list[str], text: str, pair: str | None
) -> tuple[list[int | None], list[tuple[int, int]]]:
    """Return segments and character spans for a tokenizer without offsets, by a left-to-right search."""
    owners: list[int | None] = []
    segment, has_content = 0, False
    for flag in flag_framing_tokens(tokenizer, ids):
        if flag and has_content and pair is not None:
            segment = 1
        has_content = has_content or not flag
        owners.append(None if flag else segment)
    spans = [(0, 0)] * len(ids)
    for number, source in enumerate((text, pair)):
        places = [i for i, owner in enumerate(owners) if owner == number]
        if source is not None:
            found = _find_piece_spans([pieces[i] for i in places], source)
            for i, span in zip(places, found, strict=True):
                spans[i] = span
    return owners, spans


def _find_piece_spans(pieces: list[str], text: str) -> list[tuple[int, int]]:
    """Return the span of each piece; one that is not found gets the character before it."""
    raw = text.encode()
    if len(pieces) == len(raw) and all(p == chr(b) for p, b in zip(pieces, raw, strict=True)):
        # ByT5 and similar tokenizers: a token is a byte, and a character may be several.
        owner = [i for i, character in enumerate(text) for _ in character.encode()]
        return [(i, i + 1) for i in owner]
    folded, at, spans = _fold(text), 0, []
    for piece in pieces:
        surface = piece.removeprefix("##").replace("▁", "").replace("</w>", "").replace("@@", "")
        start = folded.find(_fold(surface), at) if surface else -1
        if start >= 0:
            spans.append((start, start + len(surface)))
            at = start + len(surface)
        else:
            spans.append((max(at - 1, 0), max(at, 1)))
    return spans


def flag_framing_tokens(tokenizer: Any, ids: Sequence[int]) -> list[bool]:
    """Return a flag for each framing token (cls, sep, bos, eos, pad); unknown and mask are content."""
    frame = {
        getattr(tokenizer, f"{kind}_token_id", None) for kind in ("cls", "sep", "bos", "eos", "pad")
    }
    frame -= {getattr(tokenizer, f"{kind}_token_id", None) for kind in ("unk", "mask")}
    return [i in frame for i in ids]


def _fold(text: str) -> str:
    """Lower-case and strip accents, one character for one, so that offsets stay valid."""
    return "".join((unicodedata.normalize("NFD", c)[0].lower() or c)[0] for c in text)


# Which text of a pair that is too long is truncated: the longer one, or always the same.
Truncation = Literal["longest_first", "only_first", "only_second"]


@dataclass(frozen=True)
class EncodedInput:
    """One input, ready for a model: per-token features without padding, and its tokens and words."""

    # input_ids, attention_mask, token_type_ids, ...: a number for each token; for bbox a box
    features: Mapping[str, tuple[Any, ...]]
    tokens: Sequence[Token]  # a LazyTuple, like the words, where nobody may look at them
    words: Sequence[Word]
    source: InputText
    picture: EncodedImage | None = (
        None  # with a picture there are no features, and the tokens are its patches
    )
    answer: tuple[int, ...] = ()  # ids of the decoder's input, after the others
    reading: Readout | None = None  # None: the model gives one row of logits
    labels: tuple[str, ...] | None = None  # None: the outputs are the model's labels
    warnings: Sequence[tuple[str, str]] = ()  # about the input: a code and a sentence each

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids; negative numbers for an image's patches."""
        if self.picture is not None:
            return self.picture.ids
        ids = self.features["input_ids"]
        return ids + self.answer if self.answer else ids

    @property
    def key(self) -> tuple[int, ...]:
        """Numbers that identify this input, for seeds of random draws."""
        return self.ids if self.picture is None else (self.picture.digest, *self.ids[-1:])

    @property
    def rest(self) -> bool:
        """Whether the last output is all other outputs together."""
        return self.reading is not None and self.reading.rest

    @property
    def readout_positions(self) -> tuple[int, ...]:
        """The positions of the readout, counted from 0; empty for the whole input."""
        if self.reading is None:
            return ()
        places = (
            self.reading.places[:2]
            if isinstance(self.reading, SpanReadout)
            else self.reading.places
        )
        # A decoder's tokens come after the others, and positions of a readout count them.
        length = len(self.answer) or len(self)
        return tuple(len(self) - length + place % length for place in places)

    def __len__(self) -> int:
        if self.picture is not None:
            return len(self.picture)
        return len(self.features["input_ids"]) + len(self.answer)


def encode(
    texts: str | tuple[str, str],
    tokenizer: Any,
    *,
    max_length: int | None,
    truncate: bool,
    special: bool = True,
    cut: Truncation = "longest_first",
    decoder: bool = False,
    encoded: Any = None,
    goes_on: bool = False,
    limit: str | None = None,
) -> EncodedInput:
    """Tokenize a text or a pair of texts; `special` adds the tokenizer's special tokens.

    `decoder`: the text is a decoder's, which some translation tokenizers encode otherwise. `encoded` is the
    tokenizer's result, if it is known (see `tokenize_batch`). `goes_on`: the model continues the text, so an end
    token in it is a part of it. `truncate` allows truncation; `cut` is the text of a pair that is truncated.
    `limit` is the clause of the error that names the length limit and who sets it.
    """
    text, pair = texts if isinstance(texts, tuple) and len(texts) == 2 else (texts, None)
    for part in (text,) if pair is None else (text, pair):
        if not isinstance(part, str):
            raise BadEncoding(
                f"Cannot explain a {type(part).__name__}: give a text, a pair (a, b) of texts, an encoded "
                "mapping, or a list of these."
            )
        if not part.strip():
            raise EmptyText(f"The text {part!r} is empty. Give at least one word.")
        try:
            part.encode()
        except UnicodeEncodeError as error:
            raise BadEncoding(
                f"The text has a character that is no Unicode text ({part[error.start]!r} at {error.start}). Remove it."
            ) from None
    if tokenizer is None:
        raise NoTokenizer(
            f"The text {shorten_quote(text)!r} cannot be explained: the model has no tokenizer. Pass one "
            "(whence.load(model, tokenizer=...)), or give encoded input: a mapping with 'input_ids'."
        )
    if encoded is None:
        encoded = _run_tokenizer(tokenizer, text, pair, None, special, decoder=decoder)
    located = _locate_tokens(encoded, tokenizer, text, pair)
    first, last = _find_repeated_specials(located, text, goes_on) if special else _NO_REPEATS
    length, dropped = len(located.ids) - len(first) - len(last), 0
    if max_length is not None and length > max_length:
        if not truncate:
            limit = limit or f"the model takes at most {max_length}"
            raise TooLong(
                f"The text has {length} tokens and {limit}. "
                "Shorten it, or let whence cut it: truncate=True, --truncate."
            )
        if pair is not None and cut != "longest_first":
            _check_truncation(located.build(), cut, length - max_length)
        most, starts = max_length + len(first), (0, 0)
        parts = (text, pair)
        if pair is not None and "offset_mapping" in encoded:
            side = str(getattr(tokenizer, "truncation_side", "right"))
            spans = _crop_pair(located.build(), (text, pair), most, side)
            parts = (text[spans[0].start : spans[0].stop], pair[spans[1].start : spans[1].stop])
            starts = (spans[0].start, spans[1].start)
        encoded = _run_tokenizer(tokenizer, *parts, most, special, cut)
        located = _locate_tokens(encoded, tokenizer, *parts)
        moved = [
            span if owner is None else (span[0] + starts[owner], span[1] + starts[owner])
            for owner, span in zip(located.owners, located.spans, strict=True)
        ]
        located = replace(located, texts=(text, pair), spans=moved)
        if special:
            first, last = _find_repeated_specials(located, text, goes_on)
        dropped = length - (len(located.ids) - len(first) - len(last))
    features = {
        name: tuple(map(int, encoded[name]))
        for name in encoded
        if name not in {"offset_mapping", "special_tokens_mask"}
    }
    warnings: Sequence[tuple[str, str]] = ()
    if first or last:
        warnings = _warn_about_repeats(located.build(), first, last)
        places = [i for i in range(len(located.ids)) if i not in first and i not in last]
        features = {name: tuple(values[i] for i in places) for name, values in features.items()}
        located = replace(
            located,
            ids=[located.ids[i] for i in places],
            owners=[located.owners[i] for i in places],
            spans=[located.spans[i] for i in places],
        )
    if all(owner is None for owner in located.owners):
        raise EmptyText(
            f"The tokenizer makes nothing of {shorten_quote(text)!r}: only special tokens are left. Give other text."
        )
    tokens = LazyTuple(located.build)
    words = LazyTuple(partial(_split_input_words, tokens, text, pair))
    return EncodedInput(features, tokens, words, InputText(text, pair, dropped), warnings=warnings)


def _split_input_words(tokens: Sequence[Token], text: str, pair: str | None) -> Iterator[Word]:
    for segment, part in enumerate((text, pair)):
        if part is not None:
            yield from split_words(part, segment, _select_content(tokens, segment))


_NO_REPEATS = (range(0), range(0))


def _find_repeated_specials(
    located: "LocatedTokens", text: str, goes_on: bool
) -> tuple[range, range]:
    """Return the first and the last tokens of the text that repeat the special tokens around it.

    A prompt from a chat template begins with those that the tokenizer adds as well.
    """
    own = [place for place, owner in enumerate(located.owners) if owner is not None]
    if not own:
        return _NO_REPEATS
    start, end, ids = own[0], own[-1] + 1, located.ids
    half = start // 2
    if (
        half
        and ids[:half] == ids[half:start]
        and text.lstrip().startswith(_find_piece(located.tokenizer, ids[half]))
    ):
        # Without offsets, added and repeated special tokens both come before the known text.
        start = half
    # The longest repetition of the added tokens.
    heads = [
        n
        for n in range(1, start + 1)
        if ids[start : start + n] in (ids[:n], ids[start - n : start])
    ]
    tails = [
        n
        for n in range(1, 1 if goes_on else len(ids) - end + 1)
        if ids[end - n : end] in (ids[-n:], ids[end : end + n])
    ]
    head, tail = max(heads, default=0), max(tails, default=0)
    return range(start, start + head), range(end - tail, end)


def _warn_about_repeats(
    tokens: Sequence[Token], first: range, last: range
) -> tuple[tuple[str, str], ...]:
    clauses = [
        f"{verb} with {' '.join(tokens[place].text for place in places)}"
        for verb, places in (("begins", first), ("ends", last))
        if places
    ]
    message = (
        f"The text {' and '.join(clauses)} already, as a chat template writes it: the tokenizer's own was not "
        "added, and the model sees it once."
    )
    return (("special-twice", message),)


_SPARE_TOKENS = 64  # tokens beyond the limit: a cut may change the last tokens of a text


def _crop_pair(
    tokens: Sequence[Token], texts: tuple[str, str], most: int, side: str
) -> list[range]:
    """Return the characters of each text of a pair that can matter within `most` tokens.

    `tokens` are those of the whole texts; `side` is where the tokenizer cuts.
    """
    own = [[token for _, token in _select_content(tokens, segment)] for segment in (0, 1)]
    spans = []
    for i, text in enumerate(texts):
        # More for the longer text, so that it stays the longer: that decides which text gets an odd token.
        count = most + _SPARE_TOKENS * (1 + (len(own[i]) > len(own[1 - i])))
        span = range(len(text))
        if len(own[i]) > count and side == "left":
            span = range(min(token.start or 0 for token in own[i][-count:]), len(text))
        elif len(own[i]) > count:
            span = range(max(token.end or 0 for token in own[i][:count]))
        spans.append(span)
    return spans


def tokenize_batch(inputs: Sequence[Any], tokenizer: Any) -> list[Any]:
    """Tokenize several texts, or pairs, at once, for `encode`; None for each if that is impossible.

    That is faster than one at a time, as fast tokenizers use all cores. For None, `encode` runs the tokenizer itself.
    """
    nothing: list[Any] = [None] * len(inputs)
    texts, pairs = inputs, None
    if all(isinstance(entry, tuple) and len(entry) == 2 for entry in inputs):
        texts, pairs = [pair[0] for pair in inputs], [pair[1] for pair in inputs]
    if not getattr(tokenizer, "is_fast", False) or not all(
        isinstance(text, str) for text in (*texts, *(pairs or ()))
    ):
        return nothing
    try:
        batch = _run_tokenizer(tokenizer, texts, pairs, None, True)
    except WhenceError:  # one text fails: `encode` finds out which
        return nothing
    parts = batch.encodings
    if parts is None or len(parts) != len(inputs):
        return nothing
    return [
        type(batch)({name: batch[name][row] for name in batch}, part)
        for row, part in enumerate(parts)
    ]


def _check_truncation(tokens: Sequence[Token], cut: Truncation, excess: int) -> None:
    """Refuse a truncation that would remove all of one text, because the other fills the model."""
    segment = 1 if cut == "only_second" else 0
    own, other = len(_select_content(tokens, segment)), len(_select_content(tokens, 1 - segment))
    if own <= excess:
        raise TooLong(
            f"The {'first' if segment else 'second'} text has {other} tokens, and no place is left for the {own} of "
            f"the {'second' if segment else 'first'}, which alone may be cut. Shorten it."
        )


def _select_content(tokens: Sequence[Token], segment: int) -> list[tuple[int, Token]]:
    return [(i, t) for i, t in enumerate(tokens) if t.segment == segment and not t.special]


def _run_tokenizer(
    tokenizer: Any,
    text: str | Sequence[str],
    pair: str | Sequence[str] | None,
    max_length: int | None,
    special: bool,
    cut: Truncation = "longest_first",
    decoder: bool = False,
) -> Any:
    fast = bool(getattr(tokenizer, "is_fast", False))
    with wrap_tokenizer_errors(text):
        return tokenizer(
            *(() if decoder else (text, pair)),
            **({"text_target": text} if decoder else {}),
            truncation=False if max_length is None else cut if pair is not None else True,
            max_length=max_length,
            return_offsets_mapping=fast,
            return_attention_mask=True,
            add_special_tokens=special,
            # The tokenizer's log line on long texts would only repeat our error.
            verbose=False,
        )


@contextmanager
def wrap_tokenizer_errors(text: Any) -> Iterator[None]:
    """Convert any error of a tokenizer to BadEncoding, Rust panics included."""
    try:
        yield
    except (WhenceError, MemoryError):
        raise
    except BaseException as error:  # a Rust panic is no Exception
        if not is_failure(error):
            raise
        why = (str(error).splitlines() or [""])[0]
        raise BadEncoding(
            f"The tokenizer fails on {shorten_quote(str(text))!r} ({type(error).__name__}: {why}). Give another text, or "
            "another tokenizer."
        ) from error


@dataclass(frozen=True)
class LocatedTokens:
    """The ids of a text's tokens and their places in it, from which the tokens are built when needed."""

    tokenizer: Any
    texts: tuple[str, str | None]
    ids: list[int]
    owners: Sequence[int | None]  # 0 the text, 1 the second text; None: a special token
    spans: Sequence[tuple[int, int]]

    def build(self) -> list[Token]:
        """Return the tokens, without the white space that some tokenizers include."""
        tokens: list[Token] = []
        segment = 0
        for identity, owner, (start, end) in zip(self.ids, self.owners, self.spans, strict=True):
            if owner is None:
                piece = _find_piece(self.tokenizer, identity)
                tokens.append(Token(piece, None, None, segment, True, identity))
                continue
            segment = owner
            source = self.texts[owner] or ""
            own = source[start:end]
            if own != own.strip():
                start, end = trim_span(source, start, end)
                own = source[start:end]
            tokens.append(Token(own, start, end, segment, False, identity))
        return tokens


def _locate_tokens(encoded: Any, tokenizer: Any, text: str, pair: str | None) -> LocatedTokens:
    """Return where the tokens stand in their texts; refuse places outside of these."""
    ids = [*map(int, encoded["input_ids"])]
    if "offset_mapping" in encoded:
        owners, spans = encoded.sequence_ids(0), encoded["offset_mapping"]
    else:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        owners, spans = align_pieces(tokenizer, ids, pieces, text, pair)
    lengths = (len(text), -1 if pair is None else len(pair))
    for identity, owner, (start, end) in zip(ids, owners, spans, strict=True):
        if owner is not None and not 0 <= start <= end <= lengths[owner]:
            raise BadTokenizer(
                f"The tokenizer places {_find_piece(tokenizer, identity)!r} at {start}:{end}, outside of its text. "
                "Give the tokenizer that belongs to the model."
            )
    return LocatedTokens(tokenizer, (text, pair), ids, owners, spans)


def _find_piece(tokenizer: Any, identity: int) -> str:
    """Return a token in the tokenizer's own spelling."""
    return str(tokenizer.convert_ids_to_tokens([identity])[0])


def is_mapping(value: Any) -> bool:
    """Return whether `value` is an encoded input (a dict, a BatchEncoding)."""
    return isinstance(value, Mapping) or (hasattr(value, "keys") and hasattr(value, "__getitem__"))


def from_mapping(
    mapping: Any,
    tokenizer: Any,
    *,
    pad_ids: Set[int],
    max_length: int | None,
    vocabulary: int | None,
) -> list[EncodedInput]:
    """Build inputs from an encoded mapping of one or several rows; padding is removed."""
    names = [name for name in mapping.keys() if name not in _NOT_FEATURES]  # noqa: SIM118
    rows = {name: _parse_rows(name, mapping[name]) for name in names}
    if "input_ids" not in rows:
        raise BadEncoding(
            f"An encoded input needs 'input_ids'; this one has {sorted(mapping.keys())}. "
            "Give what the tokenizer returned."
        )
    lengths = [len(row) for row in rows["input_ids"]]
    if not lengths or not lengths[0]:
        raise EmptyText("The encoded input has no tokens. Give at least one.")
    for name, values in rows.items():
        own = [len(row) for row in values]
        if own != lengths:
            raise BadEncoding(
                f"{name!r} has the shape {(len(own), max(own, default=0))} and 'input_ids' "
                f"{(len(lengths), max(lengths))}; they must be equal."
            )
    has_mask, inputs = "attention_mask" in rows, []
    for number, length in enumerate(lengths):
        row = {name: values[number] for name, values in rows.items()}
        ids = row["input_ids"]
        # As unsigned numbers, negative ids are large.
        if vocabulary is not None and length and int(ids.view(np.uint64).max()) >= vocabulary:
            wrong = next(i for i in ids.tolist() if not 0 <= i < vocabulary)
            raise BadEncoding(
                f"Token id {wrong} is not in the model's vocabulary of {vocabulary}. "
                "Encode with the tokenizer that belongs to the model."
            )
        if not has_mask:
            row["attention_mask"] = _build_ones(length)
        elif not row["attention_mask"].all():
            # Padding is a run of masked padding tokens at an end. A masked token within the text is not padding:
            # the model still computes it, and its score is given.
            padding = row["attention_mask"] == 0
            if pad_ids:
                padding &= np.isin(ids, list(pad_ids))
            own_places = (~padding).nonzero()[0]
            if not len(own_places):
                raise EmptyText("The encoded input is all padding. Give at least one token.")
            inner = slice(own_places[0], own_places[-1] + 1)
            row = {name: values[inner] for name, values in row.items()}
            length = len(row["input_ids"])
        if max_length is not None and length > max_length:
            raise TooLong(
                f"The encoded input has {length} tokens and the model takes at most {max_length}. Shorten it."
            )
        features = {
            name: values if isinstance(values, IntegerRow) else IntegerRow.of(values)
            for name, values in row.items()
        }
        inputs.append(_build_encoded_input(features, tokenizer))
    return inputs


# Keys that a tokenizer may return and that are no features.
_NOT_FEATURES = {
    "offset_mapping",
    "special_tokens_mask",
    "overflow_to_sample_mapping",
    "length",
    "labels",
}


BBOX_FEATURE = "bbox"  # the box of each token on its page: four numbers


def _parse_rows(name: str, value: Any) -> list[Any]:
    """Return rows of integers, or of boxes, from one row or several: lists, arrays or tensors."""
    cell = (4,) if name == BBOX_FEATURE else ()
    try:
        try:
            array = _parse_integers(value)
            rows = [array] if array.ndim == 1 + len(cell) else [*array]
        except ValueError:  # rows of several lengths
            rows = [_parse_integers(row) for row in value]
        if any(row.ndim != 1 + len(cell) or row.shape[1:] != cell for row in rows):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise BadEncoding(
            f"{name!r} must be one row or several rows of {'boxes of four ' if cell else ''}integers; got "
            f"{str(value)[:60]!r}."
        ) from None
    return rows


def _parse_integers(value: Any) -> IntegerArray:
    """Return a copy of whatever is integers as one array; refuse all else."""
    if isinstance(value, list | tuple):
        if value and hasattr(value[0], "tolist"):  # rows that are tensors or arrays
            value = [row.tolist() if hasattr(row, "tolist") else row for row in value]
    elif hasattr(value, "tolist") and getattr(value, "dtype", None) != np.int64:
        value = value.tolist()
    array = np.array(value)
    if array.dtype.kind not in "iu":
        integers = [*map(index, array.ravel().tolist())]
        array = np.array(integers, dtype=np.int64).reshape(array.shape)
    return array.astype(np.int64, copy=False)


class IntegerRow(tuple[Any, ...]):
    """A tuple of integers, or of boxes, with its array: a batch of many ids is stacked without reading each again."""

    array: IntegerArray

    @classmethod
    def of(cls, array: IntegerArray) -> "IntegerRow":
        """Return the numbers of an array."""
        values = array.tolist()
        row = cls(values if array.ndim == 1 else map(tuple, values))
        row.array = array
        return row


def _recover_encoding(
    ids: Sequence[int], special: Sequence[bool], tokenizer: Any
) -> EncodedInput | None:
    """Return the encoding of the decoded text, if it gives the same ids."""
    # The runs of ids between special tokens: one text, or the two of a pair.
    runs = groupby(zip(ids, special, strict=True), key=lambda pair: pair[1])
    with wrap_tokenizer_errors("the encoded input"):
        texts = tuple(tokenizer.decode([i for i, _ in run]) for flag, run in runs if not flag)
    if not 1 <= len(texts) <= 2 or not all(text.strip() for text in texts):
        return None
    text = texts if len(texts) == 2 else texts[0]
    for framed in (True, False):
        try:
            encoding = encode(text, tokenizer, max_length=None, truncate=False, special=framed)
        except EmptyText:
            continue
        if encoding.ids == tuple(ids):
            return encoding
    return None


def _build_encoded_input(features: dict[str, Any], tokenizer: Any) -> EncodedInput:
    """Build an input from features; its text, tokens and words are recovered when they are needed."""
    recovered = LazyTuple(lambda: (_recover_input(features, tokenizer),))
    return EncodedInput(
        features,
        LazyTuple(lambda: recovered[0].tokens),
        LazyTuple(lambda: recovered[0].words),
        InputText(None) if tokenizer is None else RecoveredText(lambda: recovered[0].source),
        warnings=() if tokenizer is None else LazyTuple(lambda: recovered[0].warnings),
    )


class RecoveredText(InputText):
    """The text of an input that came encoded, decoded when it is needed."""

    __slots__ = ("recover",)
    recover: Callable[[], InputText]

    def __init__(self, recover: Callable[[], InputText]) -> None:
        object.__setattr__(self, "recover", recover)

    text = property(lambda self: self.recover().text)
    pair = property(lambda self: self.recover().pair)
    dropped = property(lambda self: self.recover().dropped)

    def __eq__(self, other: object) -> bool:
        return self.recover() == (other.recover() if isinstance(other, RecoveredText) else other)

    def __hash__(self) -> int:
        return hash(self.recover())

    def __reduce__(self) -> Any:
        return InputText, (self.text, self.pair, self.dropped)


def _recover_input(features: dict[str, tuple[int, ...]], tokenizer: Any) -> EncodedInput:
    """Return the input with the decoded text if it gives the same ids, else with pieces."""
    ids = features["input_ids"]
    special = [False] * len(ids)
    pieces = [str(i) for i in ids]
    if tokenizer is not None:
        special = flag_framing_tokens(tokenizer, ids)
        encoding = _recover_encoding(ids, special, tokenizer)
        if encoding is not None:
            return encoding
        pieces = tokenizer.convert_ids_to_tokens(list(ids))
    segments = features.get("token_type_ids", (0,) * len(ids))
    tokens = [*map(_build_token, pieces, segments, special, ids)]
    words = [
        Word(token.text, None, None, token.segment, (i,))
        for i, token in enumerate(tokens)
        if not token.special
    ]
    return EncodedInput(features, tuple(tokens), tuple(words), InputText(None))


@lru_cache(64)
def _build_ones(length: int) -> IntegerRow:
    """Return the mask of an input without padding."""
    return IntegerRow.of(np.ones(length, dtype=np.int64))


@lru_cache(1 << 16)  # about a vocabulary: a look-up is faster than building a token
def _build_token(piece: Any, segment: int, special: bool, identity: int) -> Token:
    return Token(str(piece), None, None, int(segment), bool(special), identity)
