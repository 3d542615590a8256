"""The flow graph: flow along its edges in three directions, the strongest edges, and differences of two flows.

Flow is traced back from the decision or a token, forward from a token, or through a word. Levels count from
0 at the input; layer l lies between level l and level l + 1. Of the flow at level l + 1 and token i, a
share goes past the layer by the skip connection, and the rest goes along the edges of row i down to level
l. All flows are products of three factors, one for each token above the layer, one for each token below it
and one for the edge, so that no more than one layer of them is ever written out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter
from whence.flow.weights import EdgeWeights, Floats

Direction = Literal["back", "forward", "through"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True, eq=False)
class TracedFlow:
    """The flow through the graph of one input, in one direction."""

    weights: EdgeWeights
    direction: Direction
    token: int | None  # None: the decision
    nodes: Floats  # (layers + 1, tokens): the flow at each token
    residual: Floats  # (layers, tokens): the flow past the layer by the skip connection
    moved: Floats  # (layers, tokens): the flow of the layer's edges at the token below it
    above: Floats  # (layers, tokens): the factor of the token that attends
    below: Floats  # (layers, tokens): the factor of the attended token

    @property
    def layers(self) -> int:
        return self.weights.layers

    @property
    def tokens(self) -> int:
        return self.weights.tokens

    @property
    def shares(self) -> Floats:
        """The flow that ends at each token: at the input, or above the last layer if forward."""
        shares: Floats = self.nodes[-1 if self.direction == "forward" else 0]
        return shares

    @property
    def whole(self) -> float:
        """The total flow of all edges."""
        return float(self.moved.sum())

    def flow(self, layer: int) -> Floats:
        """Return the flow of each edge of one layer, (heads or 1, tokens, tokens), in float64."""
        factor = self.above[layer][:, None] * self.below[layer]
        flows: Floats = np.multiply(self.weights.edge[layer], factor, dtype=np.float64)
        return flows


def trace_flow(
    weights: EdgeWeights, root: Floats, direction: Direction = "back", token: int | None = None
) -> TracedFlow:
    """Trace the flow in one direction; `root` (tokens,) weighs the rows the decision reads, sum 1.

    - "back": from the decision to the words, or from a token above the last layer.
    - "forward": from a token at the input upwards. A node's figure is the share of its content that
      comes from the token, and an edge carries the figure of its lower end times the edge's share.
    - "through": the paths from the decision that end at the token, at the input; at every level they
      add up to the token's share in the flow back from the decision.
    """
    layers, tokens = weights.layers, weights.tokens
    if direction not in DIRECTIONS:
        raise BadParameter(
            f"There is no direction {direction!r}. There are: {', '.join(DIRECTIONS)}."
        )
    if token is None and direction != "back":
        raise BadParameter(f"A trace {direction!r} needs a token: 0 to {tokens - 1}.")
    if token is not None and not (isinstance(token, int | np.integer) and 0 <= token < tokens):
        raise BadParameter(f"There is no token {token}: the input has {tokens}, counted from 0.")
    # The share of a token's flow that goes along the layer's edges, times the scale of their measures.
    factor = weights.scale * (1 - weights.residual)
    one_hot = np.arange(tokens) == token  # nowhere, without a token
    down: Floats = np.ones((layers + 1, tokens))
    up: Floats = np.ones((layers + 1, tokens))
    if direction != "forward":
        down[layers] = root if token is None or direction == "through" else one_hot
        for layer in reversed(range(layers)):
            here = down[layer + 1]
            along = (here * factor[layer]) @ weights.head_sum[layer]
            down[layer] = along + here * weights.residual[layer]
    if direction != "back":
        up[0] = one_hot
        for layer in range(layers):
            along = factor[layer] * (weights.head_sum[layer] @ up[layer])
            up[layer + 1] = along + up[layer] * weights.residual[layer]
    above, below = down[1:] * factor, up[:-1]
    moved = np.stack(
        [below[layer] * (above[layer] @ weights.head_sum[layer]) for layer in range(layers)]
    )
    return TracedFlow(
        weights,
        direction,
        token,
        nodes=down * up,
        residual=down[1:] * weights.residual * up[:-1],
        moved=moved,
        above=above,
        below=below,
    )


Bools = NDArray[np.bool_]
SegmentPair = Literal["A>A", "A>B", "B>A", "B>B"]
SEGMENT_PAIRS: tuple[SegmentPair, ...] = get_args(SegmentPair)


@dataclass(frozen=True)
class EdgeQuery:
    """A filter of edges; all given conditions must hold. Layers and heads count from 0.

    If an edge weight has all heads of a layer together, a requested head stands for its layer.
    """

    layers: tuple[int, int] | None = None  # first and last
    heads: tuple[tuple[int, int], ...] = ()  # (layer, head), any of them
    tokens: tuple[int, ...] = ()  # an edge touches any of them
    segments: tuple[SegmentPair, ...] = ()  # "A>B": from a token of text A to one of text B
    least: float = 0.0  # the smallest weight of an edge, before anything flows
    specials: bool = True  # whether edges to special tokens are included

    def check(self, layers: int, heads: int, tokens: int) -> None:
        """Refuse layers, heads, tokens and segments that this input and model do not have."""
        first, last = self.layers or (0, layers - 1)
        if not 0 <= first <= last < layers:
            raise BadParameter(
                f"There are no layers {first} to {last}: the model has {layers}, counted from 0."
            )
        for layer, head in self.heads:
            if not (0 <= layer < layers and 0 <= head < heads):
                raise BadParameter(
                    f"There is no head {layer}.{head}: the model has {layers} layers of {heads} heads, counted from "
                    "0."
                )
        for token in self.tokens:
            if not 0 <= token < tokens:
                raise BadParameter(
                    f"There is no token {token}: the input has {tokens}, counted from 0."
                )
        for pair in self.segments:
            if pair not in SEGMENT_PAIRS:
                raise BadParameter(
                    f"There are no segments {pair!r}. There are: {', '.join(SEGMENT_PAIRS)}."
                )
        if not self.least >= 0:
            raise BadParameter(f"The smallest weight of an edge is 0 or more, not {self.least!r}.")

    def select_token_pairs(self, special: Bools, segments: NDArray[Any]) -> Bools | None:
        """Return the selected pairs of tokens, (tokens, tokens), or None if all are."""
        if self.specials and not self.tokens and not self.segments:
            return None
        selected = np.ones((len(special), len(special)), dtype=bool)
        if not self.specials:
            selected &= ~np.asarray(special, dtype=bool)
        if self.tokens:
            touched = np.zeros(len(special), dtype=bool)
            touched[list(self.tokens)] = True
            selected &= touched[:, None] | touched
        if self.segments:
            names = np.where(np.asarray(segments) == 0, "A", "B")
            between = np.zeros_like(selected)
            for pair in self.segments:
                between |= (names == pair[0])[:, None] & (names == pair[2])
            selected &= between
        return selected


Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EdgeBlock:
    """Values of some edges of one layer, with the heads, sources and attended tokens of its axes."""

    layer: int
    heads: Ints
    sources: Ints
    to: Ints
    values: Floats  # (heads, sources, to), nowhere negative


def select_strongest(
    blocks: Iterable[EdgeBlock], most: int
) -> tuple[list[NDArray[Any]], int, float]:
    """Return the `most` largest values (layer, head, source, to, value), the number of non-zero values, and their sum.

    Equal values are ordered by layer, head, source and to: blocks come in the order of their layers,
    and their axes ascend. Values up to the `most`-th largest of earlier layers need no sorting.
    """
    strongest: list[NDArray[Any]] = [np.zeros(0, np.int64)] * 4 + [np.zeros(0)]
    count, total, bar = 0, 0.0, 0.0
    for block in blocks:
        flat = block.values.reshape(-1)
        count += int(np.count_nonzero(flat))
        total += float(flat.sum())
        indices = _find_largest(flat, most, bar)
        head, source, to = np.unravel_index(indices, block.values.shape)
        layer = np.full(len(indices), block.layer, dtype=np.int64)
        new = (layer, block.heads[head], block.sources[source], block.to[to], flat[indices])
        columns = [np.concatenate(pair) for pair in zip(strongest, new, strict=True)]
        # The sort is stable, and in both parts equal values are already in the order of their keys.
        order = np.argsort(-columns[-1], kind="stable")[:most]
        strongest = [column[order] for column in columns]
        if len(order) == most:
            bar = float(strongest[-1][-1])
    return strongest, count, total


def _find_largest(values: Floats, most: int, bar: float) -> Ints:
    """Return the indices of the `most` largest values above the bar, ascending; first of equal ones."""
    places = np.flatnonzero(values > bar)
    if len(places) <= most:
        return places
    own = values[places]
    least = np.partition(own, -most)[-most]
    chosen = own > least
    equal = np.flatnonzero(own == least)
    chosen[equal[: most - np.count_nonzero(chosen)]] = True
    indices: Ints = places[chosen]
    return indices


# Relative shortfall of a sum of flows that counts as rounding: more than thousands of float64
# roundings, and less than any visible edge.
ROUNDING_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class StrongestEdges:
    """The strongest edges as columns, strongest first; equal ones by layer, head, source and to."""

    layer: Ints
    head: Ints  # -1: all heads together
    source: Ints
    to: Ints
    flow: Floats
    weight: Floats  # the edge weight, before anything flows
    count: int  # edges with a flow within the query
    total: float  # the sum of their flows

    def __len__(self) -> int:
        return len(self.layer)

    @property
    def total_flow(self) -> float:
        """The sum of these edges' flows; at most `total`, which includes the edges left out."""
        return float(self.flow.sum())

    def keys(self) -> list[tuple[int, int, int, int]]:
        """Return (layer, head, source, to) of each edge."""
        columns = (self.layer, self.head, self.source, self.to)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def first(self, count: int) -> "StrongestEdges":
        """Return the strongest `count` of these edges."""
        columns = ("layer", "head", "source", "to", "flow", "weight")
        return replace(self, **{name: getattr(self, name)[:count] for name in columns})


def select_edges(
    traced: TracedFlow,
    query: EdgeQuery = EdgeQuery(),  # noqa: B008, a frozen one
    most: int = 5000,
    special: Bools | None = None,
    segments: NDArray[Any] | None = None,
    within: Callable[[int], Bools] | None = None,
) -> StrongestEdges:
    """Return the `most` edges with the largest flow, of those that `within` allows in a layer, (heads, tokens, tokens)."""

    def iterate_flows() -> Iterator[EdgeBlock]:
        """Yield, layer by layer, the flows of edges, with zero for edges outside the query."""
        for layer, heads, pairs in iterate_wanted_layers(traced, query, special, segments):
            sources, to = (np.flatnonzero(f[layer]) for f in (traced.above, traced.below))
            is_whole = (len(heads), len(sources), len(to)) == traced.weights.edge.shape[1:]
            place = (
                ... if is_whole else np.ix_(heads, sources, to)
            )  # a whole layer need not be copied
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
            yield EdgeBlock(layer, heads, sources, to, values)

    (layer, head, source, to, flow), count, total = select_strongest(iterate_flows(), most)
    weight = traced.weights.edge[layer, head, source, to].astype(np.float64)
    head_numbers = head if traced.weights.per_head else np.full_like(head, -1)
    return StrongestEdges(layer, head_numbers, source, to, flow, weight, count, total)


def count_covering_edges(edges: StrongestEdges, total: float, p: float) -> int:
    """Return the number of strongest edges that together carry the share p of the total.

    All of them if even these carry less: then more edges have a flow than `edges` holds.
    """
    if p <= 0 or p >= 1:
        return len(edges) if p >= 1 else 0
    enough = p * total * (1 - ROUNDING_TOLERANCE)
    return min(len(edges), int(np.searchsorted(np.cumsum(edges.flow), enough)) + 1)


def iterate_wanted_layers(
    traced: TracedFlow, query: EdgeQuery, special: Bools | None, segments: NDArray[Any] | None
) -> Iterator[tuple[int, Ints, Bools | None]]:
    """Yield the layers of a query with their heads and token pairs (None: all pairs)."""
    weights = traced.weights
    query.check(weights.layers, weights.heads, weights.tokens)
    nothing = np.zeros(weights.tokens, dtype=np.int64)
    pairs = query.select_token_pairs(
        nothing.astype(bool) if special is None else special,
        nothing if segments is None else segments,
    )
    first, last = query.layers or (0, weights.layers - 1)
    for layer in range(first, last + 1):
        heads = np.arange(weights.heads if weights.per_head else 1)  # 0: all of them together
        if query.heads:
            named = sorted({head for number, head in query.heads if number == layer})
            heads = heads[named if weights.per_head else slice(len(named))]
        if len(heads):
            yield layer, heads, pairs


def compute_chance_jaccard(a: int, b: int, possible: int) -> float:
    """Return the mean Jaccard index of two random sets of a and b out of `possible` edges.

    The number K of common edges is hypergeometric, P(K = k) = C(a, k) C(N - a, b - k) / C(N, b), and
    the mean is Σ_k P(K = k) k / (a + b - k). Two empty sets are equal: 1.
    """
    if not 0 <= a <= possible or not 0 <= b <= possible:
        raise BadParameter(f"Sets of {a} and {b} edges cannot be drawn out of {possible}.")
    if a + b == 0:
        return 1.0
    least, most = max(0, a + b - possible), min(a, b)
    k = np.arange(least, most, dtype=np.float64)
    # P(k + 1) / P(k): the large factorials, which would overflow or lose digits, cancel out.
    steps = np.log(a - k) + np.log(b - k) - np.log(k + 1) - np.log(possible - a - b + k + 1)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    shared = np.arange(least, most + 1, dtype=np.float64)
    return float((chances / chances.sum()) @ (shared / (a + b - shared)))


def count_possible_edges(
    a: TracedFlow,
    b: TracedFlow,
    query: EdgeQuery = EdgeQuery(),  # noqa: B008, a frozen one
    special: Bools | None = None,
    segments: NDArray[Any] | None = None,
) -> list[int]:
    """Count, layer by layer, the edges of a query with a flow in either of two: N of the chance."""
    counts = [0] * a.layers
    for layer, heads, pairs in iterate_wanted_layers(a, query, special, segments):
        either = np.zeros((len(heads), a.tokens, a.tokens), dtype=bool)
        for traced in (a, b):
            edge = traced.weights.edge[layer][heads]
            ends = (traced.above[layer] > 0)[:, None] & (traced.below[layer] > 0)
            either |= (edge > 0) & (edge >= query.least) & ends
        counts[layer] = int(np.count_nonzero(either if pairs is None else either & pairs))
    return counts


def compute_flow_difference(
    a: TracedFlow,
    b: TracedFlow,
    most: int = 5000,
    query: EdgeQuery = EdgeQuery(),  # noqa: B008, a frozen one
    special: Bools | None = None,
    segments: NDArray[Any] | None = None,
) -> dict[str, list[Any]]:
    """Return the edges whose flow differs most, by |b - a|; equal ones by layer, head, source and to.

    The columns are layer, head (-1: all heads together), source, to, and the two flows, a and b.
    `query.least` applies to the larger of an edge's two weights; edges of equal flow are left out.
    """
    if a.weights.edge.shape != b.weights.edge.shape:
        raise BadParameter(
            f"Flows over {a.weights.edge.shape} and {b.weights.edge.shape} (layers, heads, tokens, tokens) have no "
            "edges in common. Compare models of one shape and tokenizer, by the same edge weight."
        )

    def iterate_differences() -> Iterator[EdgeBlock]:
        all_tokens = np.arange(a.tokens)
        for layer, heads, pairs in iterate_wanted_layers(a, query, special, segments):
            own = [traced.flow(layer)[heads] for traced in (a, b)]
            values = np.abs(own[1] - own[0])
            if pairs is not None:
                values *= pairs
            if query.least > 0:
                weights = [traced.weights.edge[layer][heads] for traced in (a, b)]
                values *= np.maximum(*weights) >= query.least
            yield EdgeBlock(layer, heads, all_tokens, all_tokens, values)

    (layer, head, source, to, _), _, _ = select_strongest(iterate_differences(), most)
    columns = {
        "layer": layer,
        "head": head if a.weights.per_head else np.full_like(head, -1),
        "source": source,
        "to": to,
    }
    for name, traced in (("a", a), ("b", b)):
        edge = traced.weights.edge[layer, head, source, to]
        columns[name] = edge * traced.above[layer, source] * traced.below[layer, to]
    return {name: column.tolist() for name, column in columns.items()}
