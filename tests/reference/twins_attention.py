"""The twins of the methods that read attention maps, with their variants: a flow is found path by path."""

import torch

from tests.reference.twins import Eager, head_mean, twin

Matrix = list[list[float]]


def read(matrix: Matrix, row: int, query: str = "read", own: str = "keep") -> list[float]:
    """Read one row of a matrix, or the mean or the largest of all, and treat the row's own entry."""
    tokens = range(len(matrix))
    columns = [[matrix[i][j] for i in tokens] for j in tokens]
    if query == "mean":
        return [sum(column) / len(column) for column in columns]
    if query == "max":
        return [max(column) for column in columns]
    row = len(matrix) - 1 if query == "last" else row
    line = list(matrix[row])
    if own != "keep":
        line[row] = min(line) if own == "min" else 0.0
    return line


def head_means(run: Eager, one: torch.Tensor) -> Matrix:
    return [[head_mean(one, i, j) for j in run.tokens] for i in run.tokens]


def mixed(run: Eager, one: torch.Tensor, residual: float) -> Matrix:
    mean = head_means(run, one)
    return [
        [(1 - residual) * mean[i][j] + residual * (i == j) for j in run.tokens] for i in run.tokens
    ]


def product(left: Matrix, right: Matrix) -> Matrix:
    tokens = range(len(left))
    return [[sum(left[i][k] * right[k][j] for k in tokens) for j in tokens] for i in tokens]


def mean_of(matrices: list[Matrix]) -> Matrix:
    tokens = range(len(matrices[0]))
    return [[sum(m[i][j] for m in matrices) / len(matrices) for j in tokens] for i in tokens]


def raw_attention(run: Eager, row: int, *, layer: int | None = -1, **reading: str) -> list[float]:
    maps = run.maps if layer is None else [run.maps[layer]]
    return read(mean_of([head_means(run, one) for one in maps]), row, **reading)


def rollout(
    run: Eager, row: int, *, start_layer=0, residual=0.5, every_layer=False, **reading: str
) -> list[float]:
    steps = [mixed(run, one, residual) for one in run.maps[start_layer:]]
    rolled = [steps[0]]
    for step in steps[1:]:
        rolled.append(product(step, rolled[-1]))
    return read(mean_of(rolled) if every_layer else rolled[-1], row, **reading)


def largest_flow(pipes, source, sink) -> float:
    """Find a path of fewest pipes and fill it up, until there is none: Edmonds and Karp."""
    left = {node: dict(below) for node, below in pipes.items()}
    total = 0.0
    while True:
        came_from = {source: None}
        queue = [source]
        for node in queue:
            for other, room in left.get(node, {}).items():
                if room > 1e-15 and other not in came_from:
                    came_from[other] = node
                    queue.append(other)
        if sink not in came_from:
            return total
        path = [sink]
        while came_from[path[-1]] is not None:
            path.append(came_from[path[-1]])
        pairs = list(zip(path[1:], path[:-1], strict=True))
        amount = min(left[above][below] for above, below in pairs)
        for above, below in pairs:
            left[above][below] -= amount
            left.setdefault(below, {}).setdefault(above, 0.0)
            left[below][above] += amount
        total += amount


@twin("max_flow")
def max_flow(
    run: Eager, row: int, *, start_layer=0, residual=0.5, normalise=True, query="read"
) -> list[float]:
    layers = [mixed(run, one, residual) for one in run.maps[start_layer:]]
    pipes = {
        (depth + 1, i): {(depth, j): step[i][j] for j in run.tokens if step[i][j] > 0}
        for depth, step in enumerate(layers)
        for i in run.tokens
    }
    flows = []
    for i in run.tokens:
        line = [largest_flow(pipes, (len(layers), i), (0, j)) for j in run.tokens]
        flows.append([flow / sum(line) for flow in line] if normalise else line)
    return read(flows, row, query)


@twin("attention_gradient")
def attention_gradient(run: Eager, row: int, *, layer: int | None = None) -> list[float]:
    products = [one * grad for one, grad in zip(run.maps, run.map_grads, strict=True)]
    chosen = products if layer is None else [products[layer]]
    return [sum(head_mean(one, row, j) for one in chosen) for j in run.tokens]


@twin("attention_gradcam")
def attention_gradcam(
    run: Eager, row: int, *, weights="map", normalise=False, own="keep"
) -> list[float]:
    attention, grad = run.maps[-1], run.map_grads[-1]
    heads = range(len(attention))
    cells = [(i, j) for i in run.tokens for j in run.tokens]
    if weights == "row":
        cells = [(i, j) for i, j in cells if i == row and j != row]
    weight = [sum(grad[h, i, j].item() for i, j in cells) / len(cells) for h in heads]

    def cam(i: int, j: int) -> float:
        return max(0.0, sum(weight[h] * attention[h, i, j].item() for h in heads) / len(heads))

    matrix = [[cam(i, j) for j in run.tokens] for i in run.tokens]
    if normalise:
        values = [matrix[i][j] for i, j in cells]
        low, high = min(values), max(values)
        span = high - low
        matrix = [[(value - low) / span if span else 0.0 for value in line] for line in matrix]
    return read(matrix, row, own=own)


# What the methods can do beside their defaults: the method's name, the twin, and parameters for both.
VARIANTS = [
    ("raw_attention", raw_attention, {"layer": 0}),
    ("raw_attention", raw_attention, {"layer": None, "query": "last"}),
    ("raw_attention", raw_attention, {"query": "mean", "own": "zero"}),
    ("raw_attention", raw_attention, {"query": "max"}),
    ("raw_attention", raw_attention, {"own": "zero"}),
    ("raw_attention", raw_attention, {"own": "min"}),
    ("raw_attention", raw_attention, {"query": "last", "own": "min"}),
    ("rollout", rollout, {"start_layer": 1, "residual": 0.2}),
    ("rollout", rollout, {"residual": 0.0, "query": "mean", "every_layer": True}),
    ("rollout", rollout, {"start_layer": 1, "every_layer": True, "own": "min"}),
    ("rollout", rollout, {"query": "max"}),
    ("rollout", rollout, {"query": "last", "own": "zero"}),
    ("max_flow", max_flow, {"residual": 0.0, "normalise": False}),
    ("max_flow", max_flow, {"start_layer": 1, "residual": 0.3}),
    ("max_flow", max_flow, {"query": "max"}),
    ("max_flow", max_flow, {"query": "last"}),
    ("attention_gradient", attention_gradient, {"layer": 1}),
    ("attention_gradcam", attention_gradcam, {"weights": "row"}),
    ("attention_gradcam", attention_gradcam, {"normalise": True}),
    ("attention_gradcam", attention_gradcam, {"weights": "row", "normalise": True, "own": "zero"}),
    ("attention_gradcam", attention_gradcam, {"own": "min"}),
]
