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
