"""The twins of the room `flow`: every path written out, every definition a loop.

A step of a path is (layer, head, source, to) along an edge, or (layer, None, token, token) past the layer by the skip
connection; a path is its steps from the deepest layer down, and weighs the product of theirs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from tests.reference.twins import Eager
from tests.reference.twins_vectors import layers as plain_layers

Step = tuple[int, int | None, int, int]
Key = tuple[int, int, int, int]


@dataclass(frozen=True)
class Graph:
    """What the edges of a row share out, C[l][h][i][j], and what goes past the layer, rho[l][i]."""

    shares: list[list[list[list[float]]]]
    rho: list[list[float]]

    def down(self, token: int, layer: int, stop: int = -1) -> Iterator[tuple[list[Step], float]]:
        """Yield every path from a token above `layer` to the level above `stop`, with its weight."""
        if layer == stop:
            yield [], 1.0
            return
        past = self.rho[layer][token]
        steps: list[tuple[Step, float]] = [((layer, None, token, token), past)]
        for h, head in enumerate(self.shares[layer]):
            for j, share in enumerate(head[token]):
                steps.append(((layer, h, token, j), (1 - past) * share))
        for step, weight in steps:
            for rest, product in self.down(step[3], layer - 1, stop):
                yield [step, *rest], weight * product

    @property
    def layers(self) -> int:
        return len(self.shares)

    @property
    def tokens(self) -> range:
        return range(len(self.rho[0]))


@dataclass
class Totals:
    """What all paths together carry over each edge, past each layer, and to each place."""

    edges: dict[Key, float]
    past: list[list[float]]
    nodes: list[list[float]]


def empty(graph: Graph) -> Totals:
    past = [[0.0 for _ in graph.tokens] for _ in range(graph.layers)]
    nodes = [[0.0 for _ in graph.tokens] for _ in range(graph.layers + 1)]
    return Totals({}, past, nodes)


def along(graph: Graph, root: list[float], end: int | None = None) -> Totals:
    """Back: add up all paths from the root to the input; through: those that end at the token `end`."""
    found = empty(graph)
    for token, start in enumerate(root):
        for path, weight in graph.down(token, graph.layers - 1):
            if end is not None and path[-1][3] != end:
                continue
            found.nodes[graph.layers][token] += start * weight
            for layer, head, source, to in path:
                found.nodes[layer][to] += start * weight
                if head is None:
                    found.past[layer][source] += start * weight
                else:
                    key = (layer, head, source, to)
                    found.edges[key] = found.edges.get(key, 0.0) + start * weight
    return found


def forward(graph: Graph, start: int) -> Totals:
    """Forward: for every place, add up the paths from it down to `start`; what counts is their first step."""
    found = empty(graph)
    found.nodes[0][start] = 1.0
    for level in range(1, graph.layers + 1):
        for token in graph.tokens:
            for path, weight in graph.down(token, level - 1):
                if path[-1][3] != start:
                    continue
                found.nodes[level][token] += weight
                layer, head, source, to = path[0]
                if head is None:
                    found.past[layer][source] += weight
                else:
                    key = (layer, head, source, to)
                    found.edges[key] = found.edges.get(key, 0.0) + weight
    return found


def classic(maps, root: set[int], tau: float, alpha: float, carry: bool):
    """a.6, line by line: V_L, E_l, V_{l-1}, c_{l-1} and I_{l-1}, layers counted from 1 as there."""
    layers, heads, tokens = len(maps), len(maps[0]), range(len(maps[0][0]))
    reached, edges = {layers: set(root)}, set()
    influence = {layers: {j: 1.0 if j in root else 0.0 for j in tokens}}
    for l in range(layers, 0, -1):  # noqa: E741
        e = {
            (i, j, h)
            for i in reached[l]
            for j in tokens
            for h in range(heads)
            if maps[l - 1][h][i][j] >= tau
        }
        reached[l - 1] = {j for _, j, _ in e} | (reached[l] if carry else set())
        counts = {j: len({(i, h) for i, k, h in e if k == j}) for j in tokens}
        influence[l - 1] = {j: counts[j] + alpha * influence[l][j] for j in tokens}
        edges |= {(l - 1, h, i, j) for i, j, h in e}
    return reached, influence, edges


def norm_edges(run: Eager) -> tuple[list[torch.Tensor], list[list[float]]]:
    """Return ‖alpha^h_ij (x_j W_V^h + b_V^h) W_O^h‖ and ‖x_i‖, layer by layer."""
    edges, own = [], []
    for block, at in plain_layers(run):
        matrices = block.out.weight.split(block.head_size, dim=1)
        one = torch.zeros_like(at.attention)
        for h, matrix in enumerate(matrices):
            for i in run.tokens:
                for j in run.tokens:
                    vector = at.attention[h, i, j] * (matrix @ at.value[h, j])
                    one[h, i, j] = math.sqrt(sum(v.item() ** 2 for v in vector))
        edges.append(one)
        own.append([math.sqrt(sum(v.item() ** 2 for v in at.x[i])) for i in run.tokens])
    return edges, own


def entropy(rows: list[list[float]], keys: list[int]) -> float:
    """The mean over rows with a choice of Σ -p log2 p, over log2 of how many keys there are."""
    shares = []
    for row, number in zip(rows, keys, strict=True):
        if number > 1:
            shares.append(sum(-p * math.log2(p) for p in row if p > 0) / math.log2(number))
    return sum(shares) / len(shares) if shares else 0.0


def jensen_shannon(a: list[float], b: list[float]) -> float:
    """Half of each distribution's Kullback-Leibler divergence, in bits, from their mean."""

    def from_mean(p: list[float]) -> float:
        return sum(x * math.log2(2 * x / (y + z)) for x, y, z in zip(p, a, b, strict=True) if x > 0)

    return (from_mean(a) + from_mean(b)) / 2
