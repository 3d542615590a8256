"""Pieces of a text larger than a word: sentences, paragraphs, and passages that somebody marked.

A piece is a run of characters, and has the tokens that begin in it; so every token of the text belongs to exactly one
piece, and scores of pieces add up to those of tokens. Special tokens are pieces of their own.

A sentence ends at . ! ? or … (with the quotes and brackets that close it) before white space and something that is no
small letter, at 。！？ anywhere, and at a blank line. After the initial of a name and after common English
abbreviations it goes on; other abbreviations cut it too early. Paragraphs end at blank lines. Passages stand between
[[ and ]]; what is outside of them makes pieces too.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast, get_args

from whence.core.errors import BadEncoding, BadParameter, did_you_mean
from whence.core.types import Token, Word
from whence.data.text.words import trimmed

Granularity = Literal["token", "word", "sentence", "paragraph", "passage"]
Span = tuple[int, int]

_BLANK = re.compile(r"\n[^\S\n]*\n\s*")
_CLOSING = "\"'”’»)\\]"
_ENDS = re.compile(rf"(?:[。！？]+[」』”’）]*)|(?:[.!?…]+[{_CLOSING}]*(?=\s))")
_SHORT = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|No|vs|cf|etc|Fig|e\.g|i\.e|approx|Inc|Ltd)\.$"
)
_MARKS = re.compile(r"\[\[|\]\]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text with the numbers of its tokens."""

    text: str
    start: int | None
    end: int | None
    segment: int
    tokens: tuple[int, ...]
    special: bool = False  # a special token, which is no part of the text
    marked: bool = False  # a passage between [[ and ]]


def check(granularity: str) -> Granularity:
    """Return the granularity, or say which there are."""
    known = get_args(Granularity)
    if granularity not in known:
        near = did_you_mean(str(granularity), list(known))
        raise BadParameter(
            f"granularity must be one of {', '.join(known)}. Got {granularity!r}.{near}"
        )
    return cast(Granularity, granularity)


def unmarked(text: str) -> tuple[str, tuple[Span, ...]]:
    """Take the marks [[ and ]] out of a text; return it with the spans of the passages that they held."""
    parts: list[str] = []
    spans: list[Span] = []
    at = length = 0
    opened: int | None = None
    for mark in _MARKS.finditer(text):
        parts.append(text[at : mark.start()])
        length += mark.start() - at
        at = mark.end()
        opens = mark.group() == "[["
        if opens == (opened is not None):
            said = "another passage opens in a passage" if opens else "]] closes nothing"
            raise BadEncoding(
                f"Passages are marked as [[...]], one after the other; at character {mark.start()} {said}: "
                f"{text[max(0, mark.start() - 20) : mark.end() + 20]!r}. Correct the marks."
            )
        if opened is None:
            opened = length
        else:
            spans.append((opened, length))
            opened = None
    if opened is not None:
        raise BadEncoding(
            "A passage is opened by [[ and never closed: "
            f"{text[text.rfind('[[') :][:40]!r}. Put ]] at its end."
        )
    parts.append(text[at:])
    whole = "".join(parts)
    if not any(whole[a:b].strip() for a, b in spans):
        raise BadEncoding(
            "granularity='passage' needs passages that are marked in the text: [[a passage]]. There are none; mark "
            "some, or ask for sentence or paragraph."
        )
    return whole, tuple(spans)


def pieces(
    tokens: Sequence[Token],
    words: Sequence[Word],
    texts: Sequence[str | None],
    granularity: Granularity,
    marks: Sequence[Span] = (),
) -> tuple[Piece, ...]:
    """Divide an input of one text or two into pieces, in the order of its tokens; passages are of the first text.

    Where the text is not known, because the input came encoded, its words are the largest pieces.
    """
    found = [
        Piece(token.text, None, None, token.segment, (i,), special=True)
        for i, token in enumerate(tokens)
        if token.special
    ]
    if granularity == "token":
        found += [
            Piece(token.text, token.start, token.end, token.segment, (i,))
            for i, token in enumerate(tokens)
            if not token.special
        ]
        return tuple(sorted(found, key=lambda piece: piece.tokens))
    for segment, text in enumerate(texts):
        if granularity == "word" or text is None:
            own = (word for word in words if word.segment == segment)
            found += [Piece(w.text, w.start, w.end, segment, w.tokens) for w in own]
            continue
        spans = _spans(text, granularity, marks if segment == 0 else ())
        inner = [
            (i, token)
            for i, token in enumerate(tokens)
            if token.segment == segment and not token.special
        ]
        found += _filled(text, segment, spans, inner)
    return tuple(sorted(found, key=lambda piece: piece.tokens))


def sentences(text: str) -> list[Span]:
    """Return where the sentences of a text stand."""
    return [span for paragraph in paragraphs(text) for span in _sentences(text, *paragraph)]


def paragraphs(text: str) -> list[Span]:
    """Return where the paragraphs of a text stand."""
    return _between(text, 0, len(text), [blank.end() for blank in _BLANK.finditer(text)])


def _sentences(text: str, start: int, end: int) -> list[Span]:
    cuts = []
    for ending in _ENDS.finditer(text, start, end):
        after = text[ending.end() : end].lstrip()
        goes_on = after[:1].islower() or (
            ending.group() == "."
            and _SHORT.search(text[max(start, ending.end() - 12) : ending.end()])
        )
        if not goes_on:
            cuts.append(ending.end())
    return _between(text, start, end, cuts)


def _between(text: str, start: int, end: int, cuts: Sequence[int]) -> list[Span]:
    """Return what lies between cuts, without white space around it, where anything does."""
    spans = pairwise([start, *cuts, end])
    return [trimmed(text, a, b) for a, b in spans if text[a:b].strip()]


def _spans(text: str, granularity: Granularity, marks: Sequence[Span]) -> list[tuple[Span, bool]]:
    if granularity == "sentence":
        return [(span, False) for span in sentences(text)]
    if granularity == "paragraph":
        return [(span, False) for span in paragraphs(text)]
    return list(_passages(text, marks))


def _passages(text: str, marks: Sequence[Span]) -> Iterator[tuple[Span, bool]]:
    """Yield the marked passages and what stands between them, in order."""
    at = 0
    for start, end in (*marks, (len(text), len(text))):
        for a, b, marked in ((at, start, False), (start, end, True)):
            if text[a:b].strip():
                yield trimmed(text, a, b), marked
        at = end


def _filled(
    text: str, segment: int, spans: Sequence[tuple[Span, bool]], tokens: Sequence[tuple[int, Token]]
) -> list[Piece]:
    """Give each span the tokens that begin in it, or in the white space before it; the last one has what is left."""
    spans = spans or [((0, len(text)), False)]  # white space alone
    members: list[list[int]] = [[] for _ in spans]
    at = 0
    for i, token in tokens:
        # A token of white space alone belongs to what follows it, as it does for words.
        while at + 1 < len(spans) and (token.start or 0) >= spans[at][0][1]:
            at += 1
        members[at].append(i)
    return [
        Piece(text[a:b], a, b, segment, tuple(own), marked=marked)
        for ((a, b), marked), own in zip(spans, members, strict=True)
        if own
    ]


"""Words from character offsets, for any tokenizer and script.

Tokenizers disagree on what a word is, and some have no idea (SentencePiece sees a Chinese sentence as one
"word"). So words come from the text itself: cut it where people would, then undo every cut that a token
crosses. What remains is the finest division into words that the tokens allow.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from whence.core.types import Token, Word

_JOINERS = {"\u200c", "\u200d"}  # zero-width (non-)joiner: glue inside Indic words and emoji
_APOSTROPHES = {"'", "’"}
# Scripts written without spaces: each character is a word unless a token joins several.
_UNSPACED = (
    ("\u0e00", "\u0eff"),  # Thai, Lao
    ("\u1000", "\u109f"),  # Burmese
    ("\u1780", "\u17ff"),  # Khmer
    ("\u3005", "\u3007"),
    ("\u3040", "\u30ff"),  # Hiragana, Katakana
    ("\u31f0", "\u31ff"),
    ("\u3400", "\u4dbf"),  # Han
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\uff66", "\uff9f"),
    ("\U00020000", "\U0003134f"),
)
# A text as the kinds of its characters, one letter each (see `_kind`), in the pieces that people would cut it into:
# every space alone, and whatever belongs together. That is a letter after a letter or after the apostrophe of don't,
# a mark or a joiner after anything, anything after a joiner, and the apostrophe between letters.
_PIECE = re.compile(
    r"s|(?:w+|[^s])(?:[mj]|(?<=j)[^s]|(?<=[wm])w+|(?<=[wm]a)w+|(?<=[wm])a(?=[wm]))*"
)


def _kind(character: str) -> str:
    """Sort a character: space, mark, joiner, unspaced, word, apostrophe or other."""
    if character.isspace():
        return "s"
    if character in _JOINERS:
        return "j"
    if character in _APOSTROPHES:
        return "a"
    group = unicodedata.category(character)[0]
    if group == "M":
        return "m"
    if any(low <= character <= high for low, high in _UNSPACED):
        return "u"
    return "w" if group in "LN" or character == "_" else "o"


class _Kinds(dict[int, str]):
    """The kind of every character, by its number; found out when it is first met."""

    def __missing__(self, number: int) -> str:
        self[number] = kind = _kind(chr(number))
        return kind


_KINDS = _Kinds()


def _cuts(text: str) -> list[int]:
    """Return where people would cut the text: around white space and between words."""
    pieces = _PIECE.finditer(text.translate(_KINDS))
    return [*(piece.start() for piece in pieces), len(text)]


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Take the white space that byte-level and SentencePiece tokens carry off a span.

    A span of nothing but white space is returned as it is.
    """
    inner = text[start:end].strip()
    if not inner:
        return start, end
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(inner)


def words_of(text: str, segment: int, tokens: Sequence[tuple[int, Token]]) -> list[Word]:
    """Divide `text` into words and give each the (index, token) pairs that fall into it.

    Every token gets a word: one that covers no visible character ("▁", a newline) goes to the next word,
    or to the last one if none follows, so that the scores of the words add up to those of the tokens.
    """
    cuts = set(_cuts(text))
    visible = [not token.text.isspace() and token.text != "" for _, token in tokens]
    for (_, token), seen in zip(tokens, visible, strict=True):
        if seen and token.start is not None and token.end is not None:
            cuts.difference_update(range(token.start + 1, token.end))

    spans = [(a, b) for a, b in pairwise(sorted(cuts)) if not text[a:b].isspace()]
    members: defaultdict[int, list[int]] = defaultdict(list)
    waiting: list[int] = []
    current, last, until = -1, len(spans) - 1, -1  # `until`: where the current word ends
    for (index, token), seen in zip(tokens, visible, strict=True):
        if token.start is None or not seen:
            waiting.append(index)
            continue
        while current < last and until <= token.start:
            current += 1
            until = spans[current][1]
        if waiting:
            members[current] += waiting
            waiting = []
        members[current].append(index)
    if waiting and spans:
        members[max(members, default=0)] += waiting
    return [
        Word(text[a:b], a, b, segment, tuple(members[i]))
        for i, (a, b) in enumerate(spans)
        if i in members
    ]
