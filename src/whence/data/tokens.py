"""Text to tokens with exact offsets."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from whence.core.errors import (
    BadEncoding,
    BadTokenizer,
    EmptyText,
    NoTokenizer,
    TooLong,
    WhenceError,
    short,
)
from whence.core.failure import is_failure
from whence.core.types import Source, Token, Word
from whence.data.reading import Reading, Span
from whence.data.text.align import aligned
from whence.data.text.fit import fit_pair, move
from whence.data.text.words import trimmed, words_of
from whence.data.vision.picture import Picture

# What gives way where a pair is too long: the longer of both, or always the one of them.
Cut = Literal["longest_first", "only_first", "only_second"]


@dataclass(frozen=True)
class Encoded:
    """One input, ready for a model: per-token features without padding, and what they mean to a person."""

    # input_ids, attention_mask, token_type_ids, ...: a number for each token; of bbox a box
    features: Mapping[str, tuple[Any, ...]]
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    source: Source
    picture: Picture | None = None  # then there are no features, and the tokens are its patches
    answer: tuple[int, ...] = ()  # what a decoder is given: tokens of their own, after the others
    reading: Reading | None = None  # None: the model gives one row of logits
    labels: tuple[str, ...] | None = None  # None: the outputs are the model's labels
    warnings: tuple[
        tuple[str, str], ...
    ] = ()  # what a reader must know of it: a code, and a sentence

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids; a picture's patches have numbers."""
        if self.picture is not None:
            return self.picture.ids
        return self.features["input_ids"] + self.answer

    @property
    def key(self) -> tuple[int, ...]:
        """Numbers that tell this input from others, for what is drawn at random."""
        return self.ids if self.picture is None else (self.picture.digest, *self.ids[-1:])

    @property
    def rest(self) -> bool:
        """Whether the last output is all that was not named."""
        return self.reading is not None and self.reading.rest

    @property
    def read(self) -> tuple[int, ...]:
        """The tokens at which the model is read, counted from 0; none where it is read as a whole."""
        if self.reading is None:
            return ()
        places = self.reading.places[:2] if isinstance(self.reading, Span) else self.reading.places
        # A decoder's tokens stand after the others, and are what a reading counts.
        length = len(self.answer) or len(self)
        return tuple(len(self) - length + place % length for place in places)

    def __len__(self) -> int:
        return len(self.ids)


def encode(
    given: str | tuple[str, str],
    tokenizer: Any,
    *,
    max_length: int | None,
    truncate: bool,
    special: bool = True,
    cut: Cut = "longest_first",
    said: bool = False,
    encoded: Any = None,
    goes_on: bool = False,
    limit: str | None = None,
) -> Encoded:
    """Tokenize a text or a pair of texts; `special` adds the tokenizer's special tokens.

    `said` is for what a decoder says: some translators write otherwise than they read. `encoded` is what the
    tokenizer made of it, where that is known (see `tokenized`).
    `goes_on` says that the model goes on from its last token: an end that stands in the text is then a part of it.
    `truncate` allows it to be cut where it is too long, and `cut` says which text of a pair gives way; `limit` says
    in words what is too long, and for whom.
    """
    text, pair = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    for part in (text,) if pair is None else (text, pair):
        _check_text(part)
    if tokenizer is None:
        raise NoTokenizer(
            f"The text {short(text)!r} cannot be explained: the model has no tokenizer. Pass one "
            "(whence.load(model, tokenizer=...)), or give encoded input: a mapping with 'input_ids'."
        )
    if encoded is None:
        encoded = _encode(tokenizer, text, pair, None, special, said=said)
    tokens = _tokens(encoded, tokenizer, text, pair)
    twice = _repeated(tokens, text, goes_on) if special else Repeated()
    length, dropped = len(tokens) - len(twice), 0
    if max_length is not None and length > max_length:
        if not truncate:
            limit = limit or f"the model takes at most {max_length}"
            raise TooLong(
                f"The text has {length} tokens and {limit}. "
                "Shorten it, or let whence cut it: truncate=True, --truncate."
            )
        if pair is not None and cut != "longest_first":
            _check_cut(tokens, cut, length - max_length)
        most = max_length + len(twice.first)
        if pair is None or "offset_mapping" not in encoded:
            encoded = _encode(tokenizer, text, pair, most, special, cut)
            tokens = _tokens(encoded, tokenizer, text, pair)
        else:
            side = str(getattr(tokenizer, "truncation_side", "right"))
            one, two = fits = fit_pair(tokens, (text, pair), most, side)
            first, second = text[one.start : one.stop], pair[two.start : two.stop]
            encoded = _encode(tokenizer, first, second, most, special, cut)
            tokens = move(_tokens(encoded, tokenizer, first, second), fits)
        twice = _repeated(tokens, text, goes_on) if special else twice
        dropped = length - (len(tokens) - len(twice))
    kept = [place for place in range(len(tokens)) if place not in twice]
    features = {
        name: tuple(int(encoded[name][place]) for place in kept)
        for name in encoded
        if name not in {"offset_mapping", "special_tokens_mask"}
    }
    warnings = twice.warnings(tokens)
    tokens = [tokens[place] for place in kept]
    if all(token.special for token in tokens):
        raise EmptyText(
            f"The tokenizer makes nothing of {short(text)!r}: only special tokens are left. Give other text."
        )
    words = [
        word
        for segment, part in enumerate((text, pair))
        if part is not None
        for word in words_of(part, segment, _content(tokens, segment))
    ]
    source = Source(text, pair, dropped)
    return Encoded(features, tuple(tokens), tuple(words), source, warnings=warnings)


@dataclass(frozen=True)
class Repeated:
    """The tokens of a text that its tokenizer has put around it as well: a beginning, and an end.

    A prompt from a chat template begins with them.
    """

    first: range = range(0)
    last: range = range(0)

    def __contains__(self, place: int) -> bool:
        return place in self.first or place in self.last

    def __len__(self) -> int:
        return len(self.first) + len(self.last)

    def warnings(self, tokens: Sequence[Token]) -> tuple[tuple[str, str], ...]:
        """Say which tokens stand in the text already, if there are any."""
        said = [
            f"{verb} with {' '.join(tokens[place].text for place in places)}"
            for verb, places in (("begins", self.first), ("ends", self.last))
            if places
        ]
        message = (
            f"The text {' and '.join(said)} already, as a chat template writes it: the tokenizer's own was not "
            "added, and the model sees it once."
        )
        return (("special-twice", message),) if said else ()


def _repeated(tokens: Sequence[Token], text: str, goes_on: bool) -> Repeated:
    """Return the tokens of the text that only repeat what the tokenizer puts before and behind it."""
    own = [place for place, token in enumerate(tokens) if not token.special]
    if not own:
        return Repeated()
    start, end, ids = own[0], own[-1] + 1, [token.id for token in tokens]
    half = start // 2
    if half and ids[:half] == ids[half:start] and text.lstrip().startswith(tokens[half].text):
        # A tokenizer that does not say where its tokens come from: both stand before what is known to be text.
        start = half
    # All that was added, or as much of it as the text has.
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
    return Repeated(range(start, start + head), range(end - tail, end))


def tokenized(given: Sequence[Any], tokenizer: Any) -> list[Any]:
    """Let a tokenizer make what it can of several texts, or pairs of texts, at once, for `encode` to go on from.

    That is quicker than one at a time, as some of them use all cores. None stands for what `encode` is to see to.
    """
    nothing: list[Any] = [None] * len(given)
    texts, pairs = given, None
    if all(isinstance(one, tuple) and len(one) == 2 for one in given):
        texts, pairs = [one[0] for one in given], [one[1] for one in given]
    if not getattr(tokenizer, "is_fast", False) or not all(
        isinstance(one, str) for one in (*texts, *(pairs or ()))
    ):
        return nothing
    try:
        batch = _encode(tokenizer, texts, pairs, None, True)
    except WhenceError:  # about one of the texts: `encode` finds out which
        return nothing
    parts = batch.encodings
    if parts is None or len(parts) != len(given):
        return nothing
    return [
        type(batch)({name: batch[name][row] for name in batch}, part)
        for row, part in enumerate(parts)
    ]


def _check_cut(tokens: Sequence[Token], cut: Cut, excess: int) -> None:
    """Refuse to cut a text that would be gone, because the other one fills the model."""
    segment = 1 if cut == "only_second" else 0
    own, other = len(_content(tokens, segment)), len(_content(tokens, 1 - segment))
    if own <= excess:
        raise TooLong(
            f"The {'first' if segment else 'second'} text has {other} tokens, and no place is left for the {own} of "
            f"the {'second' if segment else 'first'}, which alone may be cut. Shorten it."
        )


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


def _encode(
    tokenizer: Any,
    text: str | Sequence[str],
    pair: str | Sequence[str] | None,
    max_length: int | None,
    special: bool,
    cut: Cut = "longest_first",
    said: bool = False,
) -> Any:
    fast = bool(getattr(tokenizer, "is_fast", False))
    with tokenizing(text):
        return tokenizer(
            *(() if said else (text, pair)),
            **({"text_target": text} if said else {}),
            truncation=False if max_length is None else cut if pair is not None else True,
            max_length=max_length,
            return_offsets_mapping=fast,
            return_attention_mask=True,
            add_special_tokens=special,
            # Its own "longer than the model" log line would only repeat our error.
            verbose=False,
        )


@contextmanager
def tokenizing(text: Any) -> Iterator[None]:
    """Make whatever a tokenizer raises an error of the text, also a panic of its Rust code, which is no Exception."""
    try:
        yield
    except (WhenceError, MemoryError):
        raise
    except BaseException as error:  # a panic of its Rust code is none of Exception
        if not is_failure(error):
            raise
        why = (str(error).splitlines() or [""])[0]
        raise BadEncoding(
            f"The tokenizer fails on {short(str(text))!r} ({type(error).__name__}: {why}). Give another text, or "
            "another tokenizer."
        ) from error


def _tokens(encoded: Any, tokenizer: Any, text: str, pair: str | None) -> list[Token]:
    ids = list(encoded["input_ids"])
    if "offset_mapping" in encoded:
        owners, spans = encoded.sequence_ids(0), encoded["offset_mapping"]
    else:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        owners, spans = aligned(tokenizer, ids, pieces, text, pair)
    tokens: list[Token] = []
    segment = 0
    for identity, owner, (start, end) in zip(ids, owners, spans, strict=True):
        if owner is None:
            piece = _piece(tokenizer, identity)
            tokens.append(Token(piece, None, None, segment, True, int(identity)))
            continue
        segment = int(owner)
        source = text if segment == 0 else pair
        if source is None or not 0 <= start <= end <= len(source):
            raise BadTokenizer(
                f"The tokenizer places {_piece(tokenizer, identity)!r} at {start}:{end}, outside of its text. "
                "Give the tokenizer that belongs to the model."
            )
        own = source[start:end]
        if own != own.strip():
            start, end = trimmed(source, start, end)
            own = source[start:end]
        tokens.append(Token(own, start, end, segment, False, int(identity)))
    return tokens


def _piece(tokenizer: Any, identity: int) -> str:
    """Return what the tokenizer calls a token."""
    return str(tokenizer.convert_ids_to_tokens([identity])[0])


"""Tokenizers that do not say where their tokens come from: the places are found in the text."""

import unicodedata
from collections.abc import Sequence
from typing import Any


def aligned(
    tokenizer: Any, ids: list[int], pieces: list[str], text: str, pair: str | None
) -> tuple[list[int | None], list[tuple[int, int]]]:
    """Find the pieces of a tokenizer without offsets in the text, left to right."""
    owners: list[int | None] = []
    segment, seen = 0, False
    for flag in frames(tokenizer, ids):
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


def frames(tokenizer: Any, ids: Sequence[int]) -> list[bool]:
    """Flag the tokens that frame a text. An unknown or a mask token stands for a part of it."""
    frame = {
        getattr(tokenizer, f"{kind}_token_id", None) for kind in ("cls", "sep", "bos", "eos", "pad")
    }
    frame -= {getattr(tokenizer, f"{kind}_token_id", None) for kind in ("unk", "mask")}
    return [i in frame for i in ids]


def _fold(text: str) -> str:
    """Lower-case and strip accents, one character for one, so that offsets stay true."""
    return "".join((unicodedata.normalize("NFD", c)[0].lower() or c)[0] for c in text)


"""The parts of a pair of long texts that can matter to a model: the rest is cut off before the tokenizer pairs them.

A tokenizer that cuts a pair also makes every combination of the parts that it cuts off: of two texts of 50,000
characters that is gigabytes, which a process keeps.
"""

from collections.abc import Sequence
from dataclasses import replace

from whence.core.types import Token

_SPARE = 64  # tokens


def fit_pair(tokens: Sequence[Token], given: tuple[str, str], most: int, side: str) -> list[range]:
    """Return which characters of each text can matter where both together get at most so many tokens.

    `tokens` are those of the whole texts; `side` is where the tokenizer cuts.
    """
    counts = [len(_own(tokens, segment)) for segment in (0, 1)]
    return [
        # More for the longer one: which of both is longer decides which of them gets an odd token.
        _fit(
            _own(tokens, i), len(given[i]), most + _SPARE * (1 + (counts[i] > counts[1 - i])), side
        )
        for i in (0, 1)
    ]


def move(tokens: Sequence[Token], fits: Sequence[range]) -> list[Token]:
    """Return the tokens of such parts with their places in the whole texts."""
    return [_move(token, fits[token.segment].start) for token in tokens]


def _fit(own: Sequence[Token], length: int, most: int, side: str) -> range:
    """Return the characters of so many tokens; the last of them may be others where a text ends, and are spare."""
    if len(own) <= most:
        return range(length)
    if side == "left":
        return range(min(token.start or 0 for token in own[-most:]), length)
    return range(max(token.end or 0 for token in own[:most]))


def _own(tokens: Sequence[Token], segment: int) -> list[Token]:
    return [token for token in tokens if token.segment == segment and not token.special]


def _move(token: Token, by: int) -> Token:
    if token.start is None or token.end is None:
        return token
    return replace(token, start=token.start + by, end=token.end + by)


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
