"""What flows along the edges: back from the decision or a token, forward from a token, or through a word.

Levels count from 0 at the input; layer l lies between level l and level l + 1. Of what stands at level l + 1 and
token i, a share goes past the layer by the skip connection, and the rest goes along the edges of row i down to level
l. All flows are products of three factors, one of them for each token above the layer, one for each token below it
and one for the edge, so that no more than one layer of them is ever written out.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from whence.core.errors import BadParameter
from whence.flow.weights import Floats, Weights

Direction = Literal["back", "forward", "through"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True, eq=False)
class Traced:
    """One trace through the graph of one input."""

    weights: Weights
    direction: Direction
    token: int | None  # None: the decision
    nodes: Floats  # (layers + 1, tokens): what arrived there
    residual: Floats  # (layers, tokens): what went past the layer by the skip connection
    moved: Floats  # (layers, tokens): what the layer's edges carry to or from the token below it
    above: Floats  # (layers, tokens): the factor of the token that attends
    below: Floats  # (layers, tokens): the factor of the token that is attended to

    @property
    def layers(self) -> int:
        return self.weights.layers

    @property
    def tokens(self) -> int:
        return self.weights.tokens

    @property
    def shares(self) -> Floats:
        """What ends at each token: at the input, or where the trace goes forward, above the last layer."""
        shares: Floats = self.nodes[-1 if self.direction == "forward" else 0]
        return shares

    @property
    def whole(self) -> float:
        """What all edges carry."""
        return float(self.moved.sum())

    def flow(self, layer: int) -> Floats:
        """Write out what the edges of one layer carry, (heads or 1, tokens, tokens), in float64."""
        factor = self.above[layer][:, None] * self.below[layer]
        flows: Floats = np.multiply(self.weights.edge[layer], factor, dtype=np.float64)
        return flows


def trace_flow(
    weights: Weights, root: Floats, direction: Direction = "back", token: int | None = None
) -> Traced:
    """Trace what flows; `root` (tokens,) are the rows that the decision reads, adding up to 1.

    - "back": from the decision to the words, or from a token's place above the last layer.
    - "forward": where what a token holds at the input goes. A node's figure is the share of what stands there that
      comes from the token, and an edge carries what its lower end holds of it, times the edge's share.
    - "through": the paths from the decision that end at the token, at the input; they add up, at every level, to
      what the token has in the trace back from the decision.
    """
    _check(weights, direction, token)
    layers, tokens = weights.layers, weights.tokens
    # Everything above layer l at token i, before it is divided by heads and sources.
    factor = weights.scale * (1 - weights.residual)
    down: Floats = np.ones((layers + 1, tokens))
    up: Floats = np.ones((layers + 1, tokens))
    if direction != "forward":
        down = _down(
            weights, factor, _start(weights, root, None if direction == "through" else token)
        )
    if direction != "back":
        assert token is not None
        up = _up(weights, factor, token)
    above, below = down[1:] * factor, up[:-1]
    moved = np.stack(
        [below[layer] * (above[layer] @ weights.together[layer]) for layer in range(layers)]
    )
    return Traced(
        weights,
        direction,
        token,
        nodes=down * up,
        residual=down[1:] * weights.residual * up[:-1],
        moved=moved,
        above=above,
        below=below,
    )


def _down(weights: Weights, factor: Floats, start: Floats) -> Floats:
    """Return what arrives at each level on the way from the start to the input."""
    levels = [start]
    for layer in reversed(range(weights.layers)):
        here = levels[-1]
        levels.append(
            (here * factor[layer]) @ weights.together[layer] + here * weights.residual[layer]
        )
    return np.stack(levels[::-1])


def _up(weights: Weights, factor: Floats, token: int) -> Floats:
    """Return the share of each place that comes from the token, on the way from the input to the output."""
    levels = [_one(weights.tokens, token)]
    for layer in range(weights.layers):
        here = levels[-1]
        levels.append(
            factor[layer] * (weights.together[layer] @ here) + here * weights.residual[layer]
        )
    return np.stack(levels)


def _start(weights: Weights, root: Floats, token: int | None) -> Floats:
    return np.asarray(root, dtype=np.float64) if token is None else _one(weights.tokens, token)


def _one(tokens: int, token: int) -> Floats:
    start = np.zeros(tokens)
    start[token] = 1
    return start


def _check(weights: Weights, direction: Direction, token: int | None) -> None:
    if direction not in DIRECTIONS:
        raise BadParameter(
            f"There is no direction {direction!r}. There are: {', '.join(DIRECTIONS)}."
        )
    if token is None and direction != "back":
        raise BadParameter(f"A trace {direction!r} needs a token: 0 to {weights.tokens - 1}.")
    if token is not None and not (
        isinstance(token, int | np.integer) and 0 <= token < weights.tokens
    ):
        raise BadParameter(
            f"There is no token {token}: the input has {weights.tokens}, counted from 0."
        )


"""Which edges are wanted."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter

Bools = NDArray[np.bool_]
SegmentPair = Literal["A>A", "A>B", "B>A", "B>B"]
PAIRS: tuple[SegmentPair, ...] = get_args(SegmentPair)


@dataclass(frozen=True)
class Query:
    """Which edges are wanted; all that is given must hold. Layers and heads count from 0.

    Where a weight sees all heads of a layer together, a head that is asked for stands for its layer.
    """

    layers: tuple[int, int] | None = None  # first and last
    heads: tuple[tuple[int, int], ...] = ()  # (layer, head), any of them
    tokens: tuple[int, ...] = ()  # an edge touches any of them
    segments: tuple[SegmentPair, ...] = ()  # from a token of A to one of B, say
    least: float = 0.0  # the smallest weight of an edge, as the model has it
    specials: bool = True  # whether edges that end on special tokens are among them

    def check(self, layers: int, heads: int, tokens: int) -> None:
        """Refuse what this input and model do not have."""
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
            if pair not in PAIRS:
                raise BadParameter(
                    f"There are no segments {pair!r}. There are: {', '.join(PAIRS)}."
                )
        if not self.least >= 0:
            raise BadParameter(f"The smallest weight of an edge is 0 or more, not {self.least!r}.")

    def wanted_heads(self, layer: int, heads: int, per_head: bool) -> NDArray[np.int64]:
        """Return the heads of a layer that are wanted, in order; 0 stands for all where they are together."""
        first, last = self.layers or (layer, layer)
        everyone = np.arange(heads if per_head else 1)
        if not first <= layer <= last:
            return everyone[:0]
        if not self.heads:
            return everyone
        own = sorted({head for number, head in self.heads if number == layer})
        return np.asarray(own, dtype=np.int64) if per_head else everyone[: len(own)]

    def wanted_pairs(self, special: Bools, segments: NDArray[Any]) -> Bools | None:
        """Return which tokens may attend to which, (tokens, tokens), or None where all may."""
        if self.specials and not self.tokens and not self.segments:
            return None
        wanted = np.ones((len(special), len(special)), dtype=bool)
        if not self.specials:
            wanted &= ~np.asarray(special, dtype=bool)
        if self.tokens:
            touched = np.zeros(len(special), dtype=bool)
            touched[list(self.tokens)] = True
            wanted &= touched[:, None] | touched
        if self.segments:
            names = np.where(np.asarray(segments) == 0, "A", "B")
            between = np.zeros_like(wanted)
            for pair in self.segments:
                between |= (names == pair[0])[:, None] & (names == pair[2])
            wanted &= between
        return wanted


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


"""The largest of very many numbers that belong to edges, a layer at a time."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.flow.weights import Floats

Ints = NDArray[np.int64]
Found = tuple[Ints, Ints, Ints, Ints, Floats]  # layer, head, source, to, value


@dataclass(frozen=True, eq=False)
class Block:
    """Numbers of some edges of one layer, and which heads, sources and tokens attended to they belong to."""

    layer: int
    heads: Ints
    sources: Ints
    to: Ints
    values: Floats  # (heads, sources, to), nowhere negative


def strongest(blocks: Iterable[Block], most: int) -> tuple[Found, int, float]:
    """Return the `most` largest values and where they belong, how many are not zero, and the sum of all.

    Equal values go by layer, head, source and to: blocks come in the order of their layers, and all in them
    ascends. What does not exceed the `most`-th largest of the layers before needs no sorting.
    """
    kept, count, total, bar = _none(), 0, 0.0, 0.0
    for block in blocks:
        flat = block.values.reshape(-1)
        count += int(np.count_nonzero(flat))
        total += float(flat.sum())
        chosen = _largest(flat, most, bar)
        head, source, to = np.unravel_index(chosen, block.values.shape)
        layer = np.full(len(chosen), block.layer, dtype=np.int64)
        new = (layer, block.heads[head], block.sources[source], block.to[to], flat[chosen])
        kept = _first(kept, new, most)
        if len(kept[-1]) == most:
            bar = float(kept[-1][-1])
    return kept, count, total


def _largest(values: Floats, most: int, bar: float) -> Ints:
    """Return the places of the `most` largest values above the bar, the first of equal ones; in their order."""
    places = np.flatnonzero(values > bar)
    if len(places) <= most:
        return places
    own = values[places]
    least = np.partition(own, -most)[-most]
    chosen = own > least
    equal = np.flatnonzero(own == least)
    chosen[equal[: most - np.count_nonzero(chosen)]] = True
    found: Ints = places[chosen]
    return found


def _first(kept: Found, new: Found, most: int) -> Found:
    """Put what was kept and what is new in order, the largest first, and keep `most`.

    The sort is stable, and both come in the order of their keys where values are equal.
    """
    layer, head, source, to, value = (np.concatenate(pair) for pair in zip(kept, new, strict=True))
    order = np.argsort(-value, kind="stable")[:most]
    return layer[order], head[order], source[order], to[order], value[order]


def _none() -> Found:
    places = np.zeros(0, dtype=np.int64)
    return places, places, places, places, np.zeros(0)
