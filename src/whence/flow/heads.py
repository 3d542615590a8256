"""Figures of single heads: how widely they attend, how much to special tokens, how much the target leans on them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.capture import Trace
from whence.flow.query import Bools
from whence.flow.weights import Floats
from whence.kernels import row_tiles


def entropy(maps: Floats) -> Floats:
    """Return the mean entropy of each head's rows as a share of the most there can be, (layers, heads).

    The most is that of attending equally to all keys of the row that any head of the layer attends to at all. A row
    with one such key has no choice and does not count; where no row has any, it is 0.
    """
    found = np.zeros(maps.shape[:2])
    for place, layer in zip(found, maps, strict=True):
        keys = open_keys(layer).sum(axis=-1)
        choice = keys > 1
        if not choice.any():
            continue
        most = np.log2(keys[choice])
        for head, one in enumerate(layer[:, choice]):
            place[head] = (_bits(_scaled(one)) / most).mean()
    return found


def open_keys(layer: Floats) -> Bools:
    """Say which keys each row may attend to, (tokens, tokens): those that any head of the layer attends to at all."""
    return np.asarray((layer > 0).any(axis=0))


_TINY = np.finfo(np.float64).tiny


def _bits(rows: Floats) -> Floats:
    """Return the entropy of distributions along the last axis, in bits."""
    wide = np.asarray(rows, dtype=np.float64)
    logs = np.log2(wide, out=np.zeros_like(wide), where=wide > 0)
    return np.asarray(-np.einsum("...j,...j->...", wide, logs))


def special_mass(maps: Floats, special: Bools) -> Floats:
    """Return the mean share of each head's attention that goes to special tokens, (layers, heads)."""
    chosen = np.flatnonzero(special)
    return np.stack([_mean_mass(layer[..., chosen]) for layer in maps])


def _mean_mass(part: Floats) -> Floats:
    return np.asarray(part.sum(axis=-1, dtype=np.float64).mean(axis=-1))


@torch.no_grad()
def gradient_importance(trace: Trace, row: int = 0) -> Floats:
    """Return |Σ over the map of A · dy/dA| of each head, (layers, heads) (Michel et al. 2019, arXiv:1905.10650).

    It is what the target would lose, to first order, if the head gave nothing. The authors differentiate the loss;
    here it is the target that is explained.
    """
    counts = [layer.heads for layer in trace.layers]
    found = np.zeros((len(counts), max(counts)))
    real = trace.real[row]
    for place, layer in zip(found, trace.layers, strict=True):
        total = torch.zeros(layer.heads, dtype=torch.float64)
        for rows in row_tiles(layer, trace.rows):
            product = layer.weights(rows)[row].double() * layer.weights_grad(rows)[row].double()
            total += product[:, real[rows]].sum((1, 2)).cpu()
        place[: layer.heads] = total.abs().numpy()
    return found


def jensen_shannon(a: Floats, b: Floats) -> Floats:
    """Return the Jensen-Shannon divergence along the last axis, in bits: 0 if equal, 1 if no entry is in common.

    Rows are scaled to add up to 1: where a part of the attention goes to no token, the rest is compared.
    """
    one, other = _scaled(a), _scaled(b)
    middle = (one + other) / 2
    return np.asarray(np.maximum(_bits(middle) - (_bits(one) + _bits(other)) / 2, 0.0))


def _scaled(rows: Floats) -> Floats:
    wide = np.asarray(rows, dtype=np.float64)
    return np.asarray(wide / np.maximum(wide.sum(axis=-1, keepdims=True), _TINY))


def divergence(a: Floats, b: Floats, root: Floats) -> tuple[Floats, Floats]:
    """Return how far the heads of two models are apart, (layers, heads): mean of all rows, and of those read."""
    mean, read = np.zeros(a.shape[:2]), np.zeros(a.shape[:2])
    weights = np.asarray(root, dtype=np.float64)
    for layer in range(a.shape[0]):
        for head in range(a.shape[1]):
            rows = jensen_shannon(a[layer, head], b[layer, head])
            mean[layer, head], read[layer, head] = rows.mean(), rows @ weights
    return mean, read


def thumbnails(maps: Floats, size: int = 48) -> NDArray[np.uint8]:
    """Return every map in little, (layers, heads, s, s) with s at most `size`: the largest weight of each patch.

    The largest and not the mean, so that a single strong weight can be seen; v = round(255 √a) keeps the small ones
    apart.
    """
    tokens = maps.shape[-1]
    small = min(size, tokens)
    starts = np.arange(small) * tokens // small
    found = np.zeros((*maps.shape[:2], small, small), dtype=np.uint8)
    for place, layer in zip(found, maps, strict=True):
        rows: NDArray[Any] = np.maximum.reduceat(layer, starts, axis=1)
        pooled = np.maximum.reduceat(rows, starts, axis=2).astype(np.float64)
        place[:] = np.rint(255 * np.sqrt(np.clip(pooled, 0, 1)))
    return found


"""How much of what flows goes from one text of a pair to the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter
from whence.flow.graph import Traced
from whence.flow.query import Bools
from whence.flow.weights import Floats


@dataclass(frozen=True, eq=False)
class Crossing:
    """The parts of what each layer's edges carry; they add up to 1, or are NaN where nothing flows."""

    within: Floats  # (layers,): between two tokens of one text
    between: Floats  # (layers,): from a token of one text to one of the other
    special: Floats  # (layers,): to or from special tokens, which belong to no text
    chance: float  # of the first two together, what would go between if all tokens of the texts counted the same


def crossing(traced: Traced, segments: NDArray[Any], special: Bools) -> Crossing:
    """Divide what flows along the edges, layer by layer, by the texts that its ends belong to."""
    text = ~np.asarray(special, dtype=bool)
    names = np.asarray(segments)
    counts = [int((text & (names == name)).sum()) for name in np.unique(names[text])]
    if len(counts) < 2:
        raise BadParameter(
            "Nothing can go from one text to the other: the input is a single text. Give a pair (a, b)."
        )
    both = text[:, None] & text
    same = names[:, None] == names
    kinds = np.stack([both & same, both & ~same, ~both])
    parts = np.stack([_sums(traced, layer, kinds) for layer in range(traced.layers)], axis=1)
    whole = parts.sum(axis=0)
    shares = np.divide(parts, whole, out=np.full_like(parts, np.nan), where=whole > 0)
    pairs = sum(counts) ** 2
    chance = (pairs - sum(count**2 for count in counts)) / pairs
    within, between, beside = shares
    return Crossing(within, between, beside, chance)


def _sums(traced: Traced, layer: int, kinds: Bools) -> Floats:
    """Add up one layer's flows by kind of edge."""
    weights = traced.weights.together[layer]
    flows = traced.above[layer][:, None] * weights * traced.below[layer]
    sums: Floats = np.array([flows[kind].sum() for kind in kinds])
    return sums


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
