"""What heads attend to, by kind of place: special tokens, neighbours, the same word, punctuation."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.core.types import Token, Word
from whence.flow.weights import Floats

# Each place counts once: as the first of these that it is.
KINDS = {
    "special": "a token that the tokenizer added, like [CLS] or [SEP]",
    "itself": "the token that attends",
    "previous": "the token just before it",
    "next": "the token just after it",
    "same word": "another piece of its word, or the same word at another place, whatever its case",
    "punctuation": "a token of nothing but punctuation and signs",
    "other": "any other token",
}


@dataclass(frozen=True, eq=False)
class Habits:
    """What the heads of one model do on one input."""

    shares: dict[
        str, Floats
    ]  # kind -> (layers, heads): mean over all rows of what they give to such places
    received: Floats  # (layers, heads, tokens): mean over all rows of what they give to the token


def habits(maps: Floats, tokens: Sequence[Token], words: Sequence[Word]) -> Habits:
    """Sort the attention of one input, (layers, heads, tokens, tokens), by kind of place."""
    kinds, names = places(tokens, words), list(KINDS)
    among = np.stack([kinds == number for number in range(len(names))]).reshape(len(names), -1)
    flat = among.T.astype(np.float64)
    shares = np.stack([one.reshape(len(one), -1) @ flat for one in maps]) / len(tokens)
    received = np.stack([one.mean(axis=1, dtype=np.float64) for one in maps])
    return Habits({name: shares[..., i] for i, name in enumerate(names)}, received)


def places(tokens: Sequence[Token], words: Sequence[Word]) -> NDArray[np.int64]:
    """Return the kind of each place, as its number in KINDS: (tokens that attend, tokens attended to)."""
    at = np.arange(len(tokens))
    step = at - at[:, None]
    owner = _read_as(tokens, words)
    special = np.array([token.special for token in tokens])
    signs = np.array([_is_punctuation(token) for token in tokens])
    cases = [
        np.broadcast_to(special, step.shape),
        step == 0,
        step == -1,
        step == 1,
        (owner[:, None] == owner) & (owner >= 0),
        np.broadcast_to(signs, step.shape),
    ]
    return np.select(cases, list(range(len(cases))), default=len(cases))


def _read_as(tokens: Sequence[Token], words: Sequence[Word]) -> NDArray[np.int64]:
    """Number the tokens by the word they belong to, equal words alike; -1 where there is none."""
    numbers: dict[str, int] = {}
    found = np.full(len(tokens), -1)
    for word in words:
        found[list(word.tokens)] = numbers.setdefault(word.text.casefold(), len(numbers))
    return found


def _is_punctuation(token: Token) -> bool:
    shown = token.text.strip()
    return bool(shown) and all(unicodedata.category(sign)[0] in "PS" for sign in shown)
