"""Splitting of texts into words, sentences, paragraphs and marked passages, each with its tokens.

Tokenizers disagree on what a word is, and some have no notion of it (SentencePiece sees a Chinese sentence as
one "word"). So words come from the text itself: it is cut where people would cut it, and every cut that a
token crosses is undone. The result is the finest division into words that the tokens allow.

A larger piece has the tokens that begin in it, so every token belongs to exactly one piece, and the scores of
pieces add up to those of tokens. Special tokens are pieces of their own. A sentence ends at . ! ? or … (with
closing quotes and brackets) before white space and anything but a small letter, at 。！？ anywhere, and at a
blank line. After an initial and after common English abbreviations it goes on; other abbreviations cut it too
early. Paragraphs end at blank lines. Passages stand between [[ and ]]; the text outside of them makes pieces
too.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast, get_args

from whence.core.errors import BadEncoding, BadParameter, suggest_name
from whence.core.types import Token, Word

Granularity = Literal["token", "word", "sentence", "paragraph", "passage"]
CharacterSpan = tuple[int, int]

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_CLOSING = "\"'”’»)\\]"
_SENTENCE_END = re.compile(rf"(?:[。！？]+[」』”’）]*)|(?:[.!?…]+[{_CLOSING}]*(?=\s))")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|No|vs|cf|etc|Fig|e\.g|i\.e|approx|Inc|Ltd)\.$"
)
_PASSAGE_MARK = re.compile(r"\[\[|\]\]")


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A part of a text with the positions of its tokens."""

    text: str
    start: int | None
    end: int | None
    segment: int
    tokens: tuple[int, ...]
    special: bool = False  # a special token, not part of the text
    marked: bool = False  # a passage between [[ and ]]


def check_granularity(granularity: str) -> Granularity:
    """Return the granularity; raise BadParameter with the known ones if it is unknown."""
    known = get_args(Granularity)
    if granularity not in known:
        near = suggest_name(str(granularity), list(known))
        raise BadParameter(
            f"granularity must be one of {', '.join(known)}. Got {granularity!r}.{near}"
        )
    return cast(Granularity, granularity)


def parse_passage_marks(text: str) -> tuple[str, tuple[CharacterSpan, ...]]:
    """Remove the marks [[ and ]] from a text; return it with the spans of the marked passages."""
    parts: list[str] = []
    spans: list[CharacterSpan] = []
    at = length = 0
    opened: int | None = None
    for mark in _PASSAGE_MARK.finditer(text):
        parts.append(text[at : mark.start()])
        length += mark.start() - at
        at = mark.end()
        opens = mark.group() == "[["
        if opens == (opened is not None):
            problem = "another passage opens in a passage" if opens else "]] closes nothing"
            raise BadEncoding(
                f"Passages are marked as [[...]], one after the other; at character {mark.start()} {problem}: "
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


def split_pieces(
    tokens: Sequence[Token],
    words: Sequence[Word],
    texts: Sequence[str | None],
    granularity: Granularity,
    marks: Sequence[CharacterSpan] = (),
) -> tuple[TextPiece, ...]:
    """Split an input of one text or two into pieces, in token order; passages are of the first text.

    Where the text is not known, because the input came encoded, its words are the largest pieces.
    """
    pieces = [
        TextPiece(token.text, token.start, token.end, token.segment, (i,), special=token.special)
        for i, token in enumerate(tokens)
        if token.special or granularity == "token"
    ]
    for segment, text in enumerate(texts) if granularity != "token" else ():
        if granularity == "word" or text is None:
            own = (word for word in words if word.segment == segment)
            pieces += [TextPiece(w.text, w.start, w.end, segment, w.tokens) for w in own]
            continue
        if granularity == "passage":
            spans = list(_iterate_passages(text, marks if segment == 0 else ()))
        else:
            split = find_sentences if granularity == "sentence" else find_paragraphs
            spans = [(span, False) for span in split(text)]
        inner = [
            (i, token)
            for i, token in enumerate(tokens)
            if token.segment == segment and not token.special
        ]
        pieces += _assign_tokens(text, segment, spans, inner)
    return tuple(sorted(pieces, key=lambda piece: piece.tokens))


def find_sentences(text: str) -> list[CharacterSpan]:
    """Return the spans of the sentences of a text."""
    return [
        span for paragraph in find_paragraphs(text) for span in _split_sentences(text, *paragraph)
    ]


def find_paragraphs(text: str) -> list[CharacterSpan]:
    """Return the spans of the paragraphs of a text."""
    return _cut_spans(text, 0, len(text), [blank.end() for blank in _BLANK_LINE.finditer(text)])


def _split_sentences(text: str, start: int, end: int) -> list[CharacterSpan]:
    cuts = []
    for ending in _SENTENCE_END.finditer(text, start, end):
        after = text[ending.end() : end].lstrip()
        goes_on = after[:1].islower() or (
            ending.group() == "."
            and _ABBREVIATION.search(text[max(start, ending.end() - 12) : ending.end()])
        )
        if not goes_on:
            cuts.append(ending.end())
    return _cut_spans(text, start, end, cuts)


def _cut_spans(text: str, start: int, end: int, cuts: Sequence[int]) -> list[CharacterSpan]:
    """Return the spans between cuts, without surrounding white space; empty ones are dropped."""
    spans = pairwise([start, *cuts, end])
    return [trim_span(text, a, b) for a, b in spans if text[a:b].strip()]


def _iterate_passages(
    text: str, marks: Sequence[CharacterSpan]
) -> Iterator[tuple[CharacterSpan, bool]]:
    """Yield the marked passages and the texts between them, in order."""
    at = 0
    for start, end in (*marks, (len(text), len(text))):
        for a, b, marked in ((at, start, False), (start, end, True)):
            if text[a:b].strip():
                yield trim_span(text, a, b), marked
        at = end


def _assign_tokens(
    text: str,
    segment: int,
    spans: Sequence[tuple[CharacterSpan, bool]],
    tokens: Sequence[tuple[int, Token]],
) -> list[TextPiece]:
    """Assign each token to the span it begins in, or before; the last span gets the remaining ones."""
    spans = spans or [((0, len(text)), False)]  # white space alone
    members: list[list[int]] = [[] for _ in spans]
    at = 0
    for i, token in tokens:
        # A token of white space alone belongs to the following piece, as it does for words.
        while at + 1 < len(spans) and (token.start or 0) >= spans[at][0][1]:
            at += 1
        members[at].append(i)
    return [
        TextPiece(text[a:b], a, b, segment, tuple(own), marked=marked)
        for ((a, b), marked), own in zip(spans, members, strict=True)
        if own
    ]


_JOINERS = {"\u200c", "\u200d"}  # zero-width (non-)joiner: glue inside Indic words and emoji
_APOSTROPHES = {"'", "’"}
# Scripts written without spaces: Thai, Lao, Burmese, Khmer, kana, Han. Each character is a word unless a token joins several.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]"
)
# Words in a text of character kinds, one letter each (see `_classify_character`):
# every space alone, and characters that belong together: a letter after a letter or after the apostrophe of don't,
# a mark or a joiner after anything, anything after a joiner, and the apostrophe between letters.
_WORD_PATTERN = re.compile(
    r"s|(?:w+|[^s])(?:[mj]|(?<=j)[^s]|(?<=[wm])w+|(?<=[wm]a)w+|(?<=[wm])a(?=[wm]))*"
)


def _classify_character(character: str) -> str:
    """Return the kind of a character: space, mark, joiner, unspaced, word, apostrophe or other."""
    if character.isspace():
        return "s"
    if character in _JOINERS:
        return "j"
    if character in _APOSTROPHES:
        return "a"
    group = unicodedata.category(character)[0]
    if group == "M":
        return "m"
    if _UNSPACED.match(character):
        return "u"
    return "w" if group in "LN" or character == "_" else "o"


class _CharacterKinds(dict[int, str]):
    """A cache of the kind of each character, by code point."""

    def __missing__(self, number: int) -> str:
        self[number] = kind = _classify_character(chr(number))
        return kind


_CHARACTER_KINDS = _CharacterKinds()


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space that byte-level and SentencePiece tokens include.

    A span of nothing but white space is returned as it is.
    """
    inner = text[start:end].strip()
    if not inner:
        return start, end
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(inner)


def split_words(text: str, segment: int, tokens: Sequence[tuple[int, Token]]) -> list[Word]:
    """Split `text` into words and assign each the (index, token) pairs within it.

    Every token gets a word: one that covers no visible character ("▁", a newline) goes to the next word,
    or to the last one if none follows, so that the scores of the words add up to those of the tokens.
    """
    # The boundaries of words: around white space and between words.
    found = _WORD_PATTERN.finditer(text.translate(_CHARACTER_KINDS))
    cuts = {len(text), *(word.start() for word in found)}
    visible = [not token.text.isspace() and token.text != "" for _, token in tokens]
    for (_, token), is_visible in zip(tokens, visible, strict=True):
        if is_visible and token.start is not None and token.end is not None:
            cuts.difference_update(range(token.start + 1, token.end))

    spans = [(a, b) for a, b in pairwise(sorted(cuts)) if not text[a:b].isspace()]
    members: defaultdict[int, list[int]] = defaultdict(list)
    waiting: list[int] = []
    current, last, until = -1, len(spans) - 1, -1  # `until`: where the current word ends
    for (index, token), is_visible in zip(tokens, visible, strict=True):
        if token.start is None or not is_visible:
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
