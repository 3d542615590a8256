"""Statistics of attention heads: entropy, special tokens, importance, habits, divergence, flow between texts."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.core.errors import BadParameter
from whence.core.types import Token, Word
from whence.flow.graph import Bools, TracedFlow
from whence.flow.weights import Floats
from whence.kernels.tiled import iterate_row_tiles
from whence.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class CrossTextFlow:
    """Each layer's flow within, between and outside two texts, as shares; NaN where nothing flows."""

    within: Floats  # (layers,): between two tokens of one text
    between: Floats  # (layers,): from a token of one text to one of the other
    special: Floats  # (layers,): to or from special tokens, which belong to no text
    chance: float  # the share of `between` in both texts' flow if all their tokens weighed the same


def compute_cross_text_flow(
    traced: TracedFlow, segments: NDArray[Any], special: Bools
) -> CrossTextFlow:
    """Return the flow within, between and outside two texts as shares of each layer's flow."""
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
    parts = np.zeros((len(kinds), traced.layers))
    for layer, weights in enumerate(traced.weights.head_sum):
        flows = traced.above[layer][:, None] * weights * traced.below[layer]
        parts[:, layer] = [flows[kind].sum() for kind in kinds]
    whole = parts.sum(axis=0)
    shares = np.divide(parts, whole, out=np.full_like(parts, np.nan), where=whole > 0)
    pairs = sum(counts) ** 2
    chance = (pairs - sum(count**2 for count in counts)) / pairs
    within, between, beside = shares
    return CrossTextFlow(within, between, beside, chance)


# Each position counts once: as the first of these kinds that applies.
POSITION_KINDS = {
    "special": "a token that the tokenizer added, like [CLS] or [SEP]",
    "itself": "the token that attends",
    "previous": "the token just before it",
    "next": "the token just after it",
    "same word": "another piece of its word, or the same word at another place, whatever its case",
    "punctuation": "a token of nothing but punctuation and signs",
    "other": "any other token",
}


@dataclass(frozen=True, eq=False)
class HeadHabits:
    """The attention of a model's heads on one input, by kind of position and by token."""

    shares: dict[str, Floats]  # kind -> (layers, heads): mean attention of a row to such positions
    received: Floats  # (layers, heads, tokens): mean attention of a row to the token


def compute_head_habits(maps: Floats, tokens: Sequence[Token], words: Sequence[Word]) -> HeadHabits:
    """Return the attention of one input, (layers, heads, tokens, tokens), by kind of position."""
    kinds, names = classify_positions(tokens, words), list(POSITION_KINDS)
    among = np.stack([kinds == number for number in range(len(names))]).reshape(len(names), -1)
    flat = among.T.astype(np.float64)
    shares = np.stack([layer.reshape(len(layer), -1) @ flat for layer in maps]) / len(tokens)
    received = np.stack([layer.mean(axis=1, dtype=np.float64) for layer in maps])
    return HeadHabits({name: shares[..., i] for i, name in enumerate(names)}, received)


def classify_positions(tokens: Sequence[Token], words: Sequence[Word]) -> NDArray[np.int64]:
    """Return the kind of each entry of a map, as its number in POSITION_KINDS, (tokens, tokens)."""
    at = np.arange(len(tokens))
    step = at - at[:, None]
    # The number of each token's word, the same for equal words; -1 for tokens without one.
    numbers: dict[str, int] = {}
    owner = np.full(len(tokens), -1)
    for word in words:
        owner[list(word.tokens)] = numbers.setdefault(word.text.casefold(), len(numbers))
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


def _is_punctuation(token: Token) -> bool:
    text = token.text.strip()
    return bool(text) and all(unicodedata.category(sign)[0] in "PS" for sign in text)


def compute_head_entropy(maps: Floats) -> Floats:
    """Return the mean entropy of each head's rows relative to the maximum, (layers, heads).

    The maximum is the entropy of equal attention to all open keys: those of the row that any head of
    the layer attends to. A row with a single open key does not count; without any other row it is 0.
    """
    entropies = np.zeros(maps.shape[:2])
    for place, layer in zip(entropies, maps, strict=True):
        keys = find_open_keys(layer).sum(axis=-1)
        choice = keys > 1
        if not choice.any():
            continue
        most = np.log2(keys[choice])
        for head, rows in enumerate(layer[:, choice]):
            place[head] = (_compute_bits(_normalise_rows(rows)) / most).mean()
    return entropies


def find_open_keys(layer: Floats) -> Bools:
    """Return the open keys of each row, (tokens, tokens): those that any head of the layer attends to."""
    return np.asarray((layer > 0).any(axis=0))


_TINY = np.finfo(np.float64).tiny


def _compute_bits(rows: Floats) -> Floats:
    """Return the entropy of distributions along the last axis, in bits."""
    wide = np.asarray(rows, dtype=np.float64)
    logs = np.log2(wide, out=np.zeros_like(wide), where=wide > 0)
    return np.asarray(-np.einsum("...j,...j->...", wide, logs))


def compute_special_mass(maps: Floats, special: Bools) -> Floats:
    """Return the mean share of each head's attention that goes to special tokens, (layers, heads)."""
    columns = np.flatnonzero(special)
    masses = [layer[..., columns].sum(axis=-1, dtype=np.float64) for layer in maps]
    return np.stack([mass.mean(axis=-1) for mass in masses])


@torch.no_grad()
def compute_gradient_importance(trace: Trace, row: int = 0) -> Floats:
    """Return |Σ over the map of A · dy/dA| of each head, (layers, heads).

    Michel et al. 2019, arXiv:1905.10650. To first order, it is the target's loss without the head's
    output. The authors differentiate the training loss; here it is the explained target.
    """
    counts = [layer.heads for layer in trace.layers]
    importance = np.zeros((len(counts), max(counts)))
    real = trace.real[row]
    for place, layer in zip(importance, trace.layers, strict=True):
        total = torch.zeros(layer.heads, dtype=torch.float64)
        for rows in iterate_row_tiles(layer, trace.rows):
            product = layer.weights(rows)[row].double() * layer.weights_grad(rows)[row].double()
            total += product[:, real[rows]].sum((1, 2)).cpu()
        place[: layer.heads] = total.abs().numpy()
    return importance


def jensen_shannon(a: Floats, b: Floats) -> Floats:
    """Return the Jensen-Shannon divergence along the last axis, in bits: 0 if equal, 1 if disjoint.

    Rows are scaled to add up to 1: if a part of the attention goes to no token, the rest is compared.
    """
    p, q = _normalise_rows(a), _normalise_rows(b)
    middle = (p + q) / 2
    return np.asarray(
        np.maximum(_compute_bits(middle) - (_compute_bits(p) + _compute_bits(q)) / 2, 0.0)
    )


def _normalise_rows(rows: Floats) -> Floats:
    wide = np.asarray(rows, dtype=np.float64)
    return np.asarray(wide / np.maximum(wide.sum(axis=-1, keepdims=True), _TINY))


def compute_head_divergence(a: Floats, b: Floats, root: Floats) -> tuple[Floats, Floats]:
    """Return two models' Jensen-Shannon divergence, (layers, heads): mean of all rows, and of rows weighed by `root`."""
    mean, read = np.zeros(a.shape[:2]), np.zeros(a.shape[:2])
    weights = np.asarray(root, dtype=np.float64)
    for layer in range(a.shape[0]):
        for head in range(a.shape[1]):
            rows = jensen_shannon(a[layer, head], b[layer, head])
            mean[layer, head], read[layer, head] = rows.mean(), rows @ weights
    return mean, read


def build_thumbnails(maps: Floats, size: int = 48) -> NDArray[np.uint8]:
    """Return thumbnails of all maps, (layers, heads, s, s) with s at most `size`, by maximum pooling.

    The maximum and not the mean, so that a single strong weight stays visible; v = round(255 √a)
    keeps small weights distinguishable.
    """
    tokens = maps.shape[-1]
    small = min(size, tokens)
    starts = np.arange(small) * tokens // small
    thumbnails = np.zeros((*maps.shape[:2], small, small), dtype=np.uint8)
    for place, layer in zip(thumbnails, maps, strict=True):
        rows: NDArray[Any] = np.maximum.reduceat(layer, starts, axis=1)
        pooled = np.maximum.reduceat(rows, starts, axis=2).astype(np.float64)
        place[:] = np.rint(255 * np.sqrt(np.clip(pooled, 0, 1)))
    return thumbnails
