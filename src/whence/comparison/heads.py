"""How two models attend to one input: head by head, and to which kinds of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.core.seed import generator
from whence.core.types import Token
from whence.flow import entropy, jensen_shannon, special_mass
from whence.flow.query import PAIRS

Array = np.ndarray[Any, np.dtype[np.float64]]
Maps = np.ndarray[Any, np.dtype[np.floating[Any]]]  # (layers, heads, tokens, tokens)

_ROWS = 64  # of an input, about, that strangers are compared on: a mean of so many is near enough


@dataclass(frozen=True)
class Measured:
    """The numbers of one input. Of pairs of arrays the first is of the first model."""

    divergence: Array  # (layers, heads), in bits
    decision: Array  # the same of the rows that the decision reads
    strangers: Array  # (layers,): of a head from another head of its layer
    special: Array  # (2, layers, heads)
    entropy: Array  # (2, layers, heads)
    kinds: dict[str, Array]  # by special token: (2,)
    segments: dict[str, Array]  # by pair of segments: (2,); empty for a single text


def measured(a: Maps, b: Maps, rows: Array, tokens: Sequence[Token], seed: int) -> Measured:
    """Measure two models on one input; `rows` are the weights of the rows that the decision reads, (tokens,)."""
    special = np.array([token.special for token in tokens])
    shape = a.shape[:2]
    divergence, decision = np.zeros(shape), np.zeros(shape)
    strangers = np.full(shape[0], np.nan)
    shift = _shift(shape[1], tokens, seed)
    step = max(1, len(tokens) // _ROWS)
    # A layer at a time: all maps in double precision at once would be large for long inputs.
    for layer in range(shape[0]):
        rowwise = jensen_shannon(a[layer], b[layer])
        divergence[layer] = rowwise.mean(-1)
        decision[layer] = rowwise @ rows
        if shift:
            own, other = a[layer][:, ::step], np.roll(b[layer][:, ::step], shift, axis=0)
            strangers[layer] = jensen_shannon(own, other).mean()
    return Measured(
        divergence,
        decision,
        strangers,
        np.stack([special_mass(side, special) for side in (a, b)]),
        np.stack([entropy(side) for side in (a, b)]),
        _kinds(a, b, tokens),
        _segments(a, b, tokens),
    )


def _shift(heads: int, tokens: Sequence[Token], seed: int) -> int:
    """Draw how far heads are moved round, so that none meets its twin; 0 where there is only one."""
    if heads < 2:
        return 0
    draw = generator("strangers", seed, [token.id for token in tokens])
    return int(draw.integers(1, heads))


def _kinds(a: Maps, b: Maps, tokens: Sequence[Token]) -> dict[str, Array]:
    """Return what each special token gets, in the mean over all layers, heads and rows."""
    gets = [_received(side) for side in (a, b)]
    names = dict.fromkeys(token.text for token in tokens if token.special)
    chosen = {name: [t.special and t.text == name for t in tokens] for name in names}
    return {
        name: np.array([float(side[places].sum()) for side in gets])
        for name, places in chosen.items()
    }


def _received(maps: Maps) -> Array:
    """Return what each token gets of all attention, (tokens,), in the mean over layers, heads and rows."""
    received: Array = np.mean([layer.mean((0, 1), dtype=np.float64) for layer in maps], axis=0)
    return received


def _segments(a: Maps, b: Maps, tokens: Sequence[Token]) -> dict[str, Array]:
    """Return the attention that the words of one text give to those of another; the rest goes to special tokens."""
    words = [np.array([not t.special and t.segment == s for t in tokens]) for s in (0, 1)]
    if not all(side.any() for side in words):
        return {}
    sides = [_by_segment(side, words) for side in (a, b)]
    return {name: np.array([side[name] for side in sides]) for name in PAIRS}


def _by_segment(
    maps: Maps, words: Sequence[np.ndarray[Any, np.dtype[np.bool_]]]
) -> dict[str, float]:
    mean = np.mean([layer.mean(0, dtype=np.float64) for layer in maps], axis=0)
    return {
        f"{one}>{other}": float(mean[words[i]][:, words[j]].sum(1).mean())
        for i, one in enumerate("AB")
        for j, other in enumerate("AB")
    }
