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
