"""Two flows held against each other: how many edges chance would share, and what differs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter
from whence.flow.graph import Traced
from whence.flow.query import Bools, Query
from whence.flow.select import wanted
from whence.flow.strongest import Block, Ints, strongest
from whence.flow.weights import Floats


def chance_jaccard(a: int, b: int, possible: int) -> float:
    """Return the mean Jaccard index of two random sets of a and b edges out of all that are possible.

    The number K of edges they share is hypergeometric, P(K = k) = C(a, k) C(N - a, b - k) / C(N, b), and the mean is
    Σ_k P(K = k) k / (a + b - k). Two empty sets are the same: 1.
    """
    if not 0 <= a <= possible or not 0 <= b <= possible:
        raise BadParameter(f"Sets of {a} and {b} edges cannot be drawn out of {possible}.")
    if a + b == 0:
        return 1.0
    least, most = max(0, a + b - possible), min(a, b)
    k = np.arange(least, most, dtype=np.float64)
    # P(k + 1) / P(k): factors of large numbers that would overflow, or lose their digits, cancel out.
    steps = np.log(a - k) + np.log(b - k) - np.log(k + 1) - np.log(possible - a - b + k + 1)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    shared = np.arange(least, most + 1, dtype=np.float64)
    return float((chances / chances.sum()) @ (shared / (a + b - shared)))


def possible(
    a: Traced,
    b: Traced,
    query: Query = Query(),  # noqa: B008, a frozen one
    special: Bools | None = None,
    segments: NDArray[Any] | None = None,
) -> list[int]:
    """Count, layer by layer, the edges of a query that carry anything in either flow: what chance can choose from."""
    found = [0] * a.layers
    for layer, heads, pairs in wanted(a, query, special, segments):
        either = _carries(a, layer, heads, query) | _carries(b, layer, heads, query)
        found[layer] = int(np.count_nonzero(either if pairs is None else either & pairs))
    return found


def _carries(traced: Traced, layer: int, heads: Ints, query: Query) -> Bools:
    edge = traced.weights.edge[layer][heads]
    ends = (traced.above[layer] > 0)[:, None] & (traced.below[layer] > 0)
    return np.asarray((edge > 0) & (edge >= query.least) & ends)


@dataclass(frozen=True, eq=False)
class Difference:
    """Edges by column with what they carry in two flows, those that differ most first."""

    layer: Ints
    head: Ints  # -1: all heads together
    source: Ints
    to: Ints
    a: Floats
    b: Floats

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        return {name: column.tolist() for name, column in vars(self).items()}


def difference(
    a: Traced,
    b: Traced,
    most: int = 5000,
    query: Query = Query(),  # noqa: B008, a frozen one
    special: Bools | None = None,
    segments: NDArray[Any] | None = None,
) -> Difference:
    """Return the edges whose flow differs most, by |b - a|; equal ones by layer, head, source and to.

    An edge is asked for by its weight in either flow; edges that carry the same in both are left out.
    """
    if a.weights.edge.shape != b.weights.edge.shape:
        raise BadParameter(
            f"Flows over {a.weights.edge.shape} and {b.weights.edge.shape} (layers, heads, tokens, tokens) have no "
            "edges in common. Compare models of one shape and tokenizer, by the same edge weight."
        )

    def apart() -> Iterator[Block]:
        everyone = np.arange(a.tokens)
        for layer, heads, pairs in wanted(a, query, special, segments):
            own = [traced.flow(layer)[heads] for traced in (a, b)]
            values = np.abs(own[1] - own[0])
            if pairs is not None:
                values *= pairs
            if query.least > 0:
                weights = [traced.weights.edge[layer][heads] for traced in (a, b)]
                values *= np.maximum(*weights) >= query.least
            yield Block(layer, heads, everyone, everyone, values)

    (layer, head, source, to, _), _, _ = strongest(apart(), most)
    flows = [
        traced.weights.edge[layer, head, source, to]
        * traced.above[layer, source]
        * traced.below[layer, to]
        for traced in (a, b)
    ]
    shown = head if a.weights.per_head else np.full_like(head, -1)
    return Difference(layer, shown, source, to, *flows)
