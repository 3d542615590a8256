"""Prompts, continuations and chats of language models: their tokens, truncation, decoding and vocabulary.

A continuation is encoded apart from its prompt, so that the prompt's own tokens stay as they are. A prompt
that is too long loses its beginning: the next token follows from the end.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from operator import index
from typing import Any

from whence.core.errors import BadEncoding, EmptyText, TooLong, UnknownTarget
from whence.core.types import InputText, Token
from whence.data.tokens import EncodedInput, encode, wrap_tokenizer_errors
from whence.data.words import split_words, trim_span

# Tokenizers treat the start of a text specially (SentencePiece puts a space there). So a continuation is
# encoded after one of these characters, the first whose own tokens stay the same, and its tokens are cut off.
_LEAD_CHARACTERS = (".", "1", "a", "(", "–")


def encode_continuation(text: str, tokenizer: Any) -> tuple[Token, ...]:
    """Return the tokens of a text that continues another, as segment 1, with offsets into it."""
    if not text:
        raise EmptyText("The answer is empty. Give at least one character.")
    for lead in _LEAD_CHARACTERS:
        alone = _encode_plain(lead, tokenizer).ids
        both = _encode_plain(lead + text, tokenizer)
        if len(both) > len(alone) and both.ids[: len(alone)] == alone:
            return _to_second_segment(both.tokens[len(alone) :], len(lead))
    return _to_second_segment(_encode_plain(text, tokenizer).tokens)


def encode_decoder_text(text: str, tokenizer: Any) -> tuple[Token, ...]:
    """Return the tokens of a text that starts a decoder's output, as segment 1."""
    if not text.strip():
        raise EmptyText(f"The answer {text!r} is empty. Give at least one word.")
    return _to_second_segment(_encode_plain(text, tokenizer, decoder=True).tokens)


def _encode_plain(text: str, tokenizer: Any, decoder: bool = False) -> EncodedInput:
    return encode(text, tokenizer, max_length=None, truncate=False, special=False, decoder=decoder)


def _to_second_segment(tokens: Sequence[Token], lead: int = 0) -> tuple[Token, ...]:
    """Return tokens of the second text, with offsets that no longer count `lead` characters."""
    moved = []
    for token in tokens:
        start = None if token.start is None else token.start - lead
        end = None if token.end is None else token.end - lead
        moved.append(replace(token, start=start, end=end, segment=1))
    return tuple(moved)


def find_decoder_prefix(tokenizer: Any) -> tuple[int, ...]:
    """Return the special tokens that a tokenizer puts before a decoder's output."""
    ids = tokenizer(text_target="a", verbose=False)["input_ids"]
    bare = tokenizer(text_target="a", add_special_tokens=False, verbose=False)["input_ids"]
    # The tokens before the text. The text itself may be an unknown token, which counts as special, too.
    starts = range(len(ids) - len(bare) + 1) if bare else ()
    first = next((i for i in starts if ids[i : i + len(bare)] == bare), None)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    return tuple(takewhile(special.__contains__, ids[:first]))


def append_tokens(item: EncodedInput, tokens: Sequence[Token], text: str | None) -> EncodedInput:
    """Return the input with tokens of the second text appended, to its decoder if it has one."""
    both = (*item.tokens, *tokens)
    ids = tuple(token.id for token in tokens)
    own = [(i, token) for i, token in enumerate(both) if token.segment == 1 and not token.special]
    words = tuple(word for word in item.words if word.segment == 0)
    words += () if text is None else tuple(split_words(text, 1, own))
    features, answer = item.features, item.answer
    if answer:
        answer += ids
    else:
        # Other features: positions count up, masks are open, and all else repeats.
        after = features.get("position_ids", (0,))[-1] + 1
        more = {
            "input_ids": ids,
            "position_ids": tuple(range(after, after + len(ids))),
            "attention_mask": (1,) * len(ids),
        }
        features = {
            name: (*values, *more.get(name, values[-1:] * len(ids)))
            for name, values in features.items()
        }
    source = InputText(item.source.text, text, item.source.dropped)
    return replace(item, features=features, answer=answer, tokens=both, words=words, source=source)


def truncate_prompt(item: EncodedInput, longest: int | None) -> EncodedInput:
    """Return a prompt of at most `longest` tokens, its first ones dropped; special tokens stay."""
    excess = 0 if longest is None else len(item) - longest
    if excess <= 0:
        return item
    content = [i for i, token in enumerate(item.tokens) if not token.special]
    if excess >= len(content):
        raise TooLong(
            f"No room is left for any of the prompt's {len(content)} tokens beside the answer. Ask for a shorter one."
        )
    gone = set(content[:excess])
    rest = [i for i in range(len(item)) if i not in gone]
    number = {old: new for new, old in enumerate(rest)}
    words = [
        replace(word, tokens=tuple(number[i] for i in word.tokens if i in number))
        for word in item.words
    ]
    return replace(
        item,
        features={name: tuple(values[i] for i in rest) for name, values in item.features.items()},
        tokens=tuple(item.tokens[i] for i in rest),
        words=tuple(word for word in words if word.tokens),
        source=InputText(item.source.text, item.source.pair, item.source.dropped + excess),
    )


def strip_closing_tokens(item: EncodedInput) -> EncodedInput:
    """Return a prompt without the closing special tokens: the model is to continue it."""
    if item.source.text is None or not item.tokens or not item.tokens[-1].special:
        return item
    last = max(i for i, token in enumerate(item.tokens) if not token.special) + 1
    features = {name: values[:last] for name, values in item.features.items()}
    return replace(item, features=features, tokens=item.tokens[:last])


_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def decode_generated(
    ids: Sequence[int], before: int | None, tokenizer: Any | None
) -> tuple[tuple[Token, ...], str | None]:
    """Return generated tokens as segment 1 with offsets into their text, and that text.

    `before` is the token that they follow: decoded together, the space between stays. A character of several tokens
    (an emoji in bytes) belongs to each of them.
    """
    if tokenizer is None:
        return tuple(Token(str(i), None, None, 1, False, i) for i in ids), None
    special = set(tokenizer.all_special_ids)
    plain = [i for i in ids if i not in special]
    text = _decode_after(plain, before, tokenizer)
    ends = []  # after each token, the characters of the text that are complete
    for n in range(len(plain)):
        part = _decode_after(plain[: n + 1], before, tokenizer)
        part = part if text.startswith(part) else part.rstrip(_UNFINISHED)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(part, text, strict=False))
        ends.append(sum(1 for _ in same))
    tokens, n = [], 0
    for identity in ids:
        if identity in special:
            tokens.append(
                Token(str(tokenizer.convert_ids_to_tokens(identity)), None, None, 1, True, identity)
            )
            continue
        start = max(ends[:n], default=0)
        # The next end beyond the start: a later token may complete the character that this one begins.
        end = next((end for end in ends[n:] if end > start), len(text))
        n += 1
        start, end = trim_span(text, start, end)
        tokens.append(Token(text[start:end], start, end, 1, False, identity))
    return tuple(tokens), text


def _decode_after(ids: Sequence[int], before: int | None, tokenizer: Any) -> str:
    if before is not None:
        lead, both = _decode([before], tokenizer), _decode([before, *ids], tokenizer)
        if both.startswith(lead) and _UNFINISHED not in lead:
            return both[len(lead) :]
    return _decode(ids, tokenizer)


def _decode(ids: Sequence[int], tokenizer: Any) -> str:
    with wrap_tokenizer_errors("what the model said"):
        return str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


_TOKEN_NUMBER = re.compile(r".*\(#([0-9]+)\)", re.DOTALL)


def count_unknown(tokens: Sequence[Token], unknown: int | None) -> tuple[int, int]:
    """Return the number of unknown tokens of a text, and that of all but special tokens."""
    content = [token for token in tokens if not token.special]
    return sum(unknown is not None and token.id == unknown for token in content), len(content)


class Vocabulary:
    """The tokens of a model; without a tokenizer they have ids only."""

    def __init__(self, tokenizer: Any | None, size: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._size = size

    def find_piece(self, identity: int) -> str:
        """Return a token in the tokenizer's own spelling."""
        if self._tokenizer is None:
            return str(identity)
        # A model may have more embeddings than its tokenizer has tokens.
        return str(self._tokenizer.convert_ids_to_tokens(identity) or f"(#{identity})")

    def format_labels(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return tokens as text without a leading space; tokens that look alike get their ids."""
        names = []
        for identity in ids:
            text = name = piece = self.find_piece(identity)
            if self._tokenizer is not None:
                text = self._tokenizer.decode([identity], clean_up_tokenization_spaces=False)
                name = text.strip() or (repr(text)[1:-1] if text.strip(" ") else piece)
            # A part of a character, or an invisible one, is spelled as the tokenizer spells it.
            unreadable = _UNFINISHED in text or not text.strip().isprintable()
            names.append(piece if unreadable else name)
        counts = Counter(names)
        return tuple(
            name if counts[name] == 1 else f"{name} (#{identity})"
            for name, identity in zip(names, ids, strict=True)
        )

    def find_tokens(self, target: Any) -> list[int]:
        """Return all tokens with this spelling: as stored, at the start of a word, or within one."""
        if not isinstance(target, str):
            return [self._parse_id(target)]
        if self._tokenizer is None:
            raise UnknownTarget(
                f"There is no token {target!r}: the model has no tokenizer. Give a token's number, or a tokenizer "
                "(whence.load(model, tokenizer=...))."
            )
        if match := _TOKEN_NUMBER.fullmatch(target):
            return [self._parse_id(int(match.group(1)))]
        encodings = [encode_continuation(target, self._tokenizer)] if target else []
        if target and not target[0].isspace():
            encodings += [
                encode_continuation(" " + target, self._tokenizer),
                encode_decoder_text(target, self._tokenizer),
            ]
        ids = [tokens[0].id for tokens in encodings if len(tokens) == 1]
        known = self._tokenizer.get_vocab().get(target)
        ids += [] if known is None else [known]
        if ids:
            return list(dict.fromkeys(ids))
        several = min(encodings, key=len, default=())
        if not several:
            raise UnknownTarget("There is no empty token. Give a token's text or number.")
        parts = ", ".join(repr(self.find_piece(token.id)) for token in several)
        raise UnknownTarget(
            f"{target!r} is {len(several)} tokens here, and a target is one: {parts}. Give one of them, or ask about all "
            f"of it: answer={target!r}, --answer."
        )

    def _parse_id(self, target: Any) -> int:
        try:
            number = None if isinstance(target, bool) else index(target)
        except TypeError:
            number = None
        if number is None or not 0 <= number < (self._size or number + 1):
            bound = "" if self._size is None else f" from 0 to {self._size - 1}"
            raise UnknownTarget(
                f"There is no token {target!r}. Give a token's text, its number{bound}, 'predicted' or 'runner-up'."
            )
        return number


def is_chat(value: Any) -> bool:
    """Return whether `value` is a list of chat messages: mappings with a role and a content."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and len(value) > 0
        and all(isinstance(turn, Mapping) and {"role", "content"} <= turn.keys() for turn in value)
    )


def format_chat(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> str:
    """Return a chat as a prompt, by the tokenizer's template, up to the answer.

    If the last message is the assistant's, no generation prompt is added.
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
    except Exception as error:  # a template is a program, and may raise anything
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadEncoding(
            f"The chat template of the tokenizer does not take these {len(messages)} messages: {why}. Give other "
            "messages, or a text."
        ) from error
    return str(text)
