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


"""Conversations: chat messages made one text by the template of the tokenizer."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.core.errors import BadEncoding


def is_chat(given: Any) -> bool:
    """Say whether `given` is a list of chat messages: mappings with a role and a content."""
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str | bytes)
        and len(given) > 0
        and all(isinstance(one, Mapping) and {"role", "content"} <= one.keys() for one in given)
    )


def chat_text(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> str:
    """Return a conversation as the prompt that the model was trained on, up to where it is to go on.

    A last message of the assistant is left as it is: nothing is to follow it.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise BadEncoding(
            f"The input is a list of {len(messages)} chat messages, and the tokenizer has no chat template to make "
            "one text of them. Give a text, such as the content of one message: messages[-1]['content']."
        )
    try:
        text = tokenizer.apply_chat_template(
            list(messages),
            tokenize=False,
            add_generation_prompt=messages[-1]["role"] != "assistant",
        )
    except (
        Exception
    ) as error:  # a template is a program of its author, and may raise whatever it likes
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadEncoding(
            f"The chat template of the tokenizer does not take these {len(messages)} messages: {why}. Give other "
            "messages, or a text."
        ) from error
    return str(text)


"""A prompt that is too long gives way at its beginning: what a model goes on with follows from the end."""

from dataclasses import replace

from whence.core.errors import TooLong
from whence.data.text.encode import Encoded


def shortened(item: Encoded, longest: int | None) -> Encoded:
    """Return a text of at most so many tokens, its first ones dropped; special tokens stay."""
    excess = 0 if longest is None else len(item) - longest
    if excess <= 0:
        return item
    content = [i for i, token in enumerate(item.tokens) if not token.special]
    if excess >= len(content):
        raise TooLong(
            f"No room is left for any of the prompt's {len(content)} tokens beside the answer. Ask for a shorter one."
        )
    gone = set(content[:excess])
    kept = [i for i in range(len(item)) if i not in gone]
    number = {old: new for new, old in enumerate(kept)}
    words = [
        replace(word, tokens=tuple(number[i] for i in word.tokens if i in number))
        for word in item.words
    ]
    return replace(
        item,
        features={name: tuple(values[i] for i in kept) for name, values in item.features.items()},
        tokens=tuple(item.tokens[i] for i in kept),
        words=tuple(word for word in words if word.tokens),
        source=replace(item.source, dropped=item.source.dropped + excess),
    )


def unended(item: Encoded) -> Encoded:
    """Return a prompt without the special tokens that its tokenizer closed it with: it is to go on."""
    if item.source.text is None or not item.tokens:
        return item
    last = max(i for i, token in enumerate(item.tokens) if not token.special) + 1
    features = {name: values[:last] for name, values in item.features.items()}
    return replace(item, features=features, tokens=item.tokens[:last])


"""Generated tokens as text: which characters each of them added."""

from collections.abc import Sequence
from typing import Any

from whence.core.types import Token
from whence.data.text.encode import tokenizing
from whence.data.text.words import trimmed

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def spoken(
    ids: Sequence[int], before: int | None, tokenizer: Any | None
) -> tuple[tuple[Token, ...], str | None]:
    """Return generated tokens as segment 1, with offsets into the text that they make, and that text.

    `before` is the token that they follow: decoded together, the space between stays. A character of several tokens
    (an emoji in bytes) belongs to each of them.
    """
    if tokenizer is None:
        return tuple(Token(str(i), None, None, 1, False, i) for i in ids), None
    special = set(tokenizer.all_special_ids)
    plain = [i for i in ids if i not in special]
    text = _decoded(plain, before, tokenizer)
    ends = [_common(_decoded(plain[: n + 1], before, tokenizer), text) for n in range(len(plain))]
    tokens, n = [], 0
    for identity in ids:
        if identity in special:
            tokens.append(
                Token(str(tokenizer.convert_ids_to_tokens(identity)), None, None, 1, True, identity)
            )
            continue
        start = max(ends[:n], default=0)
        # The first that goes further: what this token begins, a later one may finish.
        end = next((end for end in ends[n:] if end > start), len(text))
        n += 1
        start, end = trimmed(text, start, end)
        tokens.append(Token(text[start:end], start, end, 1, False, identity))
    return tuple(tokens), text


def _decoded(ids: Sequence[int], before: int | None, tokenizer: Any) -> str:
    lead = "" if before is None else _decode([before], tokenizer)
    both = _decode([*([] if before is None else [before]), *ids], tokenizer)
    if both.startswith(lead) and _UNFINISHED not in lead:
        return both[len(lead) :]
    return _decode(ids, tokenizer)


def _decode(ids: Sequence[int], tokenizer: Any) -> str:
    with tokenizing("what the model said"):
        return str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def _common(part: str, whole: str) -> int:
    """Return how many characters of `whole` are finished in `part`."""
    part = part.rstrip(_UNFINISHED) if not whole.startswith(part) else part
    length = min(len(part), len(whole))
    return next((i for i in range(length) if part[i] != whole[i]), length)


"""Tokens as people write and read them."""

import re
from collections import Counter
from collections.abc import Sequence
from operator import index
from typing import Any

from whence.core.errors import UnknownTarget
from whence.core.types import Token
from whence.data.text.continuation import continuation, opening

_NUMBERED = re.compile(r".*\(#([0-9]+)\)", re.DOTALL)


def count_unknown(tokens: Sequence[Token], unknown: int | None) -> tuple[int, int]:
    """Return how many tokens of a text are unknown to its tokenizer, and how many there are without special ones."""
    content = [token for token in tokens if not token.special]
    return sum(unknown is not None and token.id == unknown for token in content), len(content)


class Vocabulary:
    """The tokens of a model; without a tokenizer they have numbers only."""

    def __init__(self, tokenizer: Any | None, size: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._size = size

    def piece(self, identity: int) -> str:
        """Return a token as the tokenizer has it."""
        if self._tokenizer is None:
            return str(identity)
        # A model may have more rows than its tokenizer has tokens.
        return str(self._tokenizer.convert_ids_to_tokens(identity) or f"(#{identity})")

    def labels(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return tokens as text, without the space before a word; where two look alike, with their numbers."""
        names = [self._readable(identity) for identity in ids]
        counts = Counter(names)
        return tuple(
            name if counts[name] == 1 else f"{name} (#{identity})"
            for name, identity in zip(names, ids, strict=True)
        )

    def tokens(self, asked: Any) -> list[int]:
        """Return every token that is written so: as the tokenizer has it, at the start of a word, or within one."""
        if not isinstance(asked, str):
            return [self._number(asked)]
        if self._tokenizer is None:
            raise UnknownTarget(
                f"There is no token {asked!r}: the model has no tokenizer. Give a token's number, or a tokenizer "
                "(whence.load(model, tokenizer=...))."
            )
        if numbered := _NUMBERED.fullmatch(asked):
            return [self._number(int(numbered.group(1)))]
        ways = [continuation(asked, self._tokenizer)] if asked else []
        if asked and not asked[0].isspace():
            ways += [continuation(" " + asked, self._tokenizer), opening(asked, self._tokenizer)]
        found = [way[0].id for way in ways if len(way) == 1]
        known = self._tokenizer.get_vocab().get(asked)
        found += [] if known is None else [known]
        if not found:
            raise UnknownTarget(
                self._several(asked, [token.id for token in min(ways, key=len, default=())])
            )
        return list(dict.fromkeys(found))

    def _several(self, asked: str, ids: Sequence[int]) -> str:
        if not ids:
            return "There is no empty token. Give a token's text or number."
        parts = ", ".join(repr(self.piece(identity)) for identity in ids)
        return (
            f"{asked!r} is {len(ids)} tokens here, and a target is one: {parts}. Give one of them, or ask about all "
            f"of it: answer={asked!r}, --answer."
        )

    def _number(self, asked: Any) -> int:
        try:
            number = None if isinstance(asked, bool) else index(asked)
        except TypeError:
            number = None
        if number is None or not 0 <= number < (self._size or number + 1):
            bound = "" if self._size is None else f" from 0 to {self._size - 1}"
            raise UnknownTarget(
                f"There is no token {asked!r}. Give a token's text, its number{bound}, 'predicted' or 'runner-up'."
            )
        return number

    def _readable(self, identity: int) -> str:
        piece = self.piece(identity)
        if self._tokenizer is None:
            return piece
        text = self._tokenizer.decode([identity], clean_up_tokenization_spaces=False)
        name = text.strip()
        # A part of a character, or one that cannot be seen.
        if "\N{REPLACEMENT CHARACTER}" in text or not name.isprintable():
            return piece
        return name or (repr(text)[1:-1] if text.strip(" ") else piece)
