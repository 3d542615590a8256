"""The strongest edges of a trace, within a query, and how many of them carry a share of all that flows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.flow.graph import Traced
from whence.flow.query import Bools, Query
from whence.flow.strongest import Block, Ints, strongest
from whence.flow.weights import Floats

# How far rounding may let a sum of flows fall short, in parts of it: more than thousands of roundings of float64 can
# make, and less than any edge that can be seen.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges by column, the strongest first; equal ones by layer, head, source and to."""

    layer: Ints
    head: Ints  # -1: all heads together
    source: Ints
    to: Ints
    flow: Floats
    weight: Floats  # as the model has it, before anything flows
    count: int  # edges that carry anything, within the query
    total: float  # what they carry together

    def __len__(self) -> int:
        return len(self.layer)

    @property
    def sent(self) -> float:
        """What these edges carry; they may be fewer than those that carry anything."""
        return float(self.flow.sum())

    def keys(self) -> list[tuple[int, int, int, int]]:
        """Return (layer, head, source, to) of each."""
        columns = (self.layer, self.head, self.source, self.to)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def first(self, count: int) -> "Edges":
        """Return the strongest `count` of them."""
        return Edges(
            self.layer[:count],
            self.head[:count],
            self.source[:count],
            self.to[:count],
            self.flow[:count],
            self.weight[:count],
            self.count,
            self.total,
        )


def select(
    traced: Traced,
    query: Query = Query(),  # noqa: B008, a frozen one
    most: int = 5000,
    special: Bools | None = None,
    segments: NDArray[Any] | None = None,
    within: Callable[[int], Bools] | None = None,
) -> Edges:
    """Return the edges that carry most, at most `most` of them.

    `within` says for a layer which edges, (heads, tokens, tokens), are among them at all.
    """
    blocks = _flows(traced, query, special, segments, within)
    found, count, total = strongest(blocks, most)
    layer, head, source, to, flow = found
    weight = traced.weights.edge[layer, head, source, to].astype(np.float64)
    shown = head if traced.weights.per_head else np.full_like(head, -1)
    return Edges(layer, shown, source, to, flow, weight, count, total)


def cover(edges: Edges, total: float, p: float) -> int:
    """Return how many of the strongest edges it takes to carry the share p of the total.

    All of them, where even those do not reach it: then more edges carry something than were kept.
    """
    if p <= 0 or p >= 1:
        return len(edges) if p >= 1 else 0
    enough = p * total * (1 - ROUNDING)
    return min(len(edges), int(np.searchsorted(np.cumsum(edges.flow), enough)) + 1)


def _flows(
    traced: Traced,
    query: Query,
    special: Bools | None,
    segments: NDArray[Any] | None,
    within: Callable[[int], Bools] | None,
) -> Iterator[Block]:
    """Yield, layer by layer, what the wanted edges carry, and zero for those that are not wanted."""
    for layer, heads, pairs in wanted(traced, query, special, segments):
        sources, to = (np.flatnonzero(f[layer]) for f in (traced.above, traced.below))
        place = np.ix_(heads, sources, to) if _some(traced, heads, sources, to) else ...
        edge = traced.weights.edge[layer][place]
        factor = traced.above[layer][sources, None] * traced.below[layer][to]
        if pairs is not None:
            factor *= pairs[np.ix_(sources, to)]
        values = np.multiply(edge, factor, dtype=np.float64)
        if query.least > 0:
            values *= edge >= query.least
        if within is not None:
            among = within(layer)
            if not traced.weights.per_head:
                among = np.asarray(among.any(axis=0))[None]
            values *= among[place]
        yield Block(layer, heads, sources, to, values)


def wanted(
    traced: Traced, query: Query, special: Bools | None, segments: NDArray[Any] | None
) -> Iterator[tuple[int, Ints, Bools | None]]:
    """Yield the layers of which any edge is wanted, with the heads, and with the pairs of tokens unless all are."""
    weights = traced.weights
    query.check(weights.layers, weights.heads, weights.tokens)
    nothing = np.zeros(weights.tokens, dtype=np.int64)
    pairs = query.wanted_pairs(
        nothing.astype(bool) if special is None else special,
        nothing if segments is None else segments,
    )
    for layer in range(weights.layers):
        heads = query.wanted_heads(layer, weights.heads, weights.per_head)
        if len(heads):
            yield layer, heads, pairs


def _some(traced: Traced, *chosen: Ints) -> bool:
    """Say whether anything of a layer is left out; if not, it need not be copied."""
    return tuple(len(one) for one in chosen) != traced.weights.edge.shape[1:]
