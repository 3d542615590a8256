"""Words from character offsets, for any tokenizer and script.

Tokenizers disagree on what a word is, and some have no idea (SentencePiece sees a Chinese sentence as one
"word"). So words come from the text itself: cut it where people would, then undo every cut that a token
crosses. What remains is the finest division into words that the tokens allow.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from whence.core.types import Token, Word

_JOINERS = {"\u200c", "\u200d"}  # zero-width (non-)joiner: glue inside Indic words and emoji
_APOSTROPHES = {"'", "’"}
_LETTERS = {"word", "mark"}
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


@cache
def _kind(character: str) -> str:
    """Sort a character: space, mark, joiner, unspaced, word, apostrophe or other."""
    if character.isspace():
        return "space"
    if character in _JOINERS:
        return "joiner"
    if character in _APOSTROPHES:
        return "apostrophe"
    group = unicodedata.category(character)[0]
    if group == "M":
        return "mark"
    if any(low <= character <= high for low, high in _UNSPACED):
        return "unspaced"
    return "word" if group in "LN" or character == "_" else "other"


def _cuts(text: str) -> set[int]:
    """Return where people would cut the text: around white space and between words."""
    kinds = [_kind(character) for character in text]
    cuts = {0, len(text)}
    for i, here in enumerate(kinds):
        if here == "space":
            cuts |= {i, i + 1}
        elif i and kinds[i - 1] != "space" and not _glued(kinds, i):
            cuts.add(i)
    return cuts


def _glued(kinds: list[str], i: int) -> bool:
    """Say whether character i belongs to the word of character i - 1."""
    before, here = kinds[i - 1], kinds[i]
    if here in ("mark", "joiner") or before == "joiner":
        return True
    if before == "unspaced" or here == "unspaced":
        return False
    if here == "word":
        # A letter after a letter; or after the apostrophe of don't.
        return before in _LETTERS or (before == "apostrophe" and i > 1 and kinds[i - 2] in _LETTERS)
    return (
        here == "apostrophe"
        and before in _LETTERS
        and i + 1 < len(kinds)
        and kinds[i + 1] in _LETTERS
    )


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
    cuts = _cuts(text)
    for _, token in tokens:
        if token.start is not None and token.end is not None and token.text.strip():
            cuts -= set(range(token.start + 1, token.end))

    starts = sorted(cuts)
    spans = [(a, b) for a, b in pairwise(starts) if text[a:b].strip()]
    members: dict[int, list[int]] = {}
    waiting: list[int] = []
    current = -1
    for index, token in tokens:
        if token.start is None or not token.text.strip():
            waiting.append(index)
            continue
        while current + 1 < len(spans) and (current < 0 or spans[current][1] <= token.start):
            current += 1
        members.setdefault(current, []).extend([*waiting, index])
        waiting = []
    if waiting and spans:
        members.setdefault(max(members, default=0), []).extend(waiting)
    return [
        Word(text[a:b], a, b, segment, tuple(members[i]))
        for i, (a, b) in enumerate(spans)
        if i in members
    ]
