"""What follows a text, as tokens: encoded apart from it, so that the text's own tokens stay what they are."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from whence.core.errors import EmptyText
from whence.core.types import Source, Token
from whence.data.text.encode import Encoded, encode
from whence.data.text.words import words_of

# Tokenizers treat the start of a text in ways of their own (SentencePiece puts a space there). So a continuation is
# encoded behind one of these, which is then taken off: the first whose own tokens stay the same.
_LEADS = (".", "1", "a", "(", "–")


def continuation(text: str, tokenizer: Any) -> tuple[Token, ...]:
    """Return the tokens of a text that goes on after another, as segment 1, with offsets into it."""
    if not text:
        raise EmptyText("The answer is empty. Give at least one character.")
    for lead in _LEADS:
        alone = _plain(lead, tokenizer).ids
        both = _plain(lead + text, tokenizer)
        if len(both) > len(alone) and both.ids[: len(alone)] == alone:
            return _shifted(both.tokens[len(alone) :], len(lead))
    return _shifted(_plain(text, tokenizer).tokens, 0)


def opening(text: str, tokenizer: Any) -> tuple[Token, ...]:
    """Return the tokens of a text that a decoder begins with, as segment 1."""
    if not text.strip():
        raise EmptyText(f"The answer {text!r} is empty. Give at least one word.")
    return _shifted(_plain(text, tokenizer, said=True).tokens, 0)


def led_by(tokenizer: Any) -> tuple[int, ...]:
    """Return the special tokens that a tokenizer puts before what a decoder is to say."""
    ids = tokenizer(text_target="a", verbose=False)["input_ids"]
    bare = tokenizer(text_target="a", add_special_tokens=False, verbose=False)["input_ids"]
    # What stands before the text itself, which may be unknown: an unknown token is special, too.
    starts = range(len(ids) - len(bare) + 1) if bare else ()
    first = next((i for i in starts if ids[i : i + len(bare)] == bare), None)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    return tuple(takewhile(special.__contains__, ids[:first]))


def grown(item: Encoded, tokens: Sequence[Token], text: str | None) -> Encoded:
    """Return an input that goes on with some tokens of the second text; a decoder's own if it has one."""
    every = (*item.tokens, *tokens)
    ids = tuple(token.id for token in tokens)
    own = [(i, token) for i, token in enumerate(every) if token.segment == 1 and not token.special]
    words = tuple(word for word in item.words if word.segment == 0)
    words += () if text is None else tuple(words_of(text, 1, own))
    features, answer = item.features, item.answer
    if answer:
        answer += ids
    else:
        features = {
            name: values + (ids if name == "input_ids" else _more(name, values, len(ids)))
            for name, values in features.items()
        }
    source = Source(item.source.text, text, item.source.dropped)
    return replace(item, features=features, answer=answer, tokens=every, words=words, source=source)


def _more(name: str, values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Go on as a feature would: positions count up, all else stays what it was."""
    if name == "position_ids":
        return tuple(range(values[-1] + 1, values[-1] + 1 + count))
    return ((1,) if name == "attention_mask" else values[-1:]) * count


def _plain(text: str, tokenizer: Any, said: bool = False) -> Encoded:
    return encode(text, tokenizer, max_length=None, truncate=False, special=False, said=said)


def _shifted(tokens: Sequence[Token], by: int) -> tuple[Token, ...]:
    return tuple(
        replace(
            token,
            start=None if token.start is None else token.start - by,
            end=None if token.end is None else token.end - by,
            segment=1,
        )
        for token in tokens
    )
