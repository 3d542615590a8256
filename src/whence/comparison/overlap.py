"""Whether two models' flows take the same way: the edges that carry a share of it, and which of them both have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whence.core.seed import generator
from whence.core.types import Token
from whence.flow import (
    Edges,
    Query,
    Traced,
    Weights,
    chance_jaccard,
    cover,
    possible,
    select,
    trace_flow,
)

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

# Edges that are sorted at first, how many times more where these do not carry enough, and where that ends: a set
# beyond it takes hundreds of megabytes.
_FEW, _MORE, _MOST = 1 << 13, 8, 1 << 22
_DRAWS = 200  # of random sets, for each input


@dataclass(frozen=True)
class Overlap:
    """What two covering sets have in common; NaN where there are no edges, or too many to be sorted.

    `other_` is the same with, or without, edges that end on special tokens.
    """

    jaccard: float
    chance: float
    only_a: float  # as shares of the union
    only_b: float
    layers: Array  # Jaccard index by layer
    layers_chance: Array
    other_jaccard: float = float("nan")
    other_chance: float = float("nan")


def overlap(
    a: Weights,
    b: Weights,
    roots: tuple[Array, Array],
    coverage: float,
    tokens: Sequence[Token],
    seed: int,
    specials: bool = False,
) -> Overlap:
    """Trace back from the decision in both models and compare the edges that carry the share `coverage` of it.

    Without `specials`, edges that end on special tokens neither count nor carry anything of what is to be covered.
    """
    traces = (trace_flow(a, roots[0]), trace_flow(b, roots[1]))
    found, other = (_alike(traces, coverage, tokens, seed, s) for s in (specials, not specials))
    return replace(found, other_jaccard=other.jaccard, other_chance=other.chance)


def _alike(
    traces: tuple[Traced, Traced],
    coverage: float,
    tokens: Sequence[Token],
    seed: int,
    specials: bool,
) -> Overlap:
    a, b = traces[0].weights, traces[1].weights
    query, special = Query(specials=specials), np.array([token.special for token in tokens])
    one, other = (_covering(traced, coverage, query, special) for traced in traces)
    if one is None or other is None:
        return _unknown(a.layers)
    both = np.intersect1d(_numbers(one, a), _numbers(other, b), assume_unique=True)
    per_layer = a.edge.shape[1] * a.tokens**2
    shared = np.bincount(both // per_layer, minlength=a.layers)
    sizes = [np.bincount(edges.layer, minlength=a.layers) for edges in (one, other)]
    union = sizes[0] + sizes[1] - shared
    whole = int(union.sum())
    if not whole:
        return _unknown(a.layers)
    choice = possible(*traces, query, special)
    draw = generator("random edges", seed, [token.id for token in tokens])
    return Overlap(
        jaccard=len(both) / whole,
        chance=_chance(sizes[0], sizes[1], choice, draw),
        only_a=(len(one) - len(both)) / whole,
        only_b=(len(other) - len(both)) / whole,
        layers=np.divide(shared, union, out=np.full(a.layers, np.nan), where=union > 0),
        layers_chance=np.array(
            [
                chance_jaccard(int(m), int(n), size) if m + n else np.nan
                for m, n, size in zip(*sizes, choice, strict=True)
            ]
        ),
    )


def _unknown(layers: int) -> Overlap:
    none, nowhere = float("nan"), np.full(layers, np.nan)
    return Overlap(none, none, none, none, nowhere, nowhere)


def _covering(traced: Traced, coverage: float, query: Query, special: Bools) -> Edges | None:
    """Return the fewest edges that carry the share; sort no more of them than it takes."""
    most = _FEW
    while True:
        edges = select(traced, query, most, special)
        number = cover(edges, edges.total, coverage)
        if number < len(edges) or edges.count <= len(edges):
            return edges.first(number)
        if most >= _MOST:
            return None
        most *= _MORE


def _numbers(edges: Edges, weights: Weights) -> Ints:
    """Number the edges, so that those of one place in two models have one number."""
    heads, tokens = weights.edge.shape[1], weights.tokens
    head = np.maximum(edges.head, 0)  # -1: all heads together
    numbers: Ints = ((edges.layer * heads + head) * tokens + edges.source) * tokens + edges.to
    return numbers


def _chance(a: Ints, b: Ints, choice: Sequence[int], draw: np.random.Generator) -> float:
    """Return the mean Jaccard index of random sets that have as many edges in each layer."""
    shared = np.zeros(_DRAWS)
    for m, n, size in zip(a.tolist(), b.tolist(), choice, strict=True):
        if m and n:
            shared += draw.hypergeometric(m, size - m, n, size=_DRAWS)
    return float((shared / (a.sum() + b.sum() - shared)).mean())
