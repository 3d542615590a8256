"""Contractions of attention maps, slowly: every entry of every map in a loop, in float64, from the formulas.

Beside every value stands its size: the same sum with all of its terms taken as positive. Rounding can make an error
that is a small part of the size, whatever cancels in the value, so the size is what an error is measured against.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

Cells = list[list[list[list[float]]]]  # by input, head, query and key


@dataclass
class Written:
    """A layer's map, its gradient and its relevance, written out: (batch, heads, queries, keys)."""

    weights: Tensor
    grad: Tensor
    grad_size: Tensor
    relevance: Tensor
    relevance_size: Tensor
    steepest: float  # the largest score or sum of a score's terms: what an exponential makes of their rounding

    def combined(self, combination: str) -> tuple[Tensor, Tensor]:
        """Return f(A, dL/dA, R) and its size."""
        value, size = self.weights, self.weights
        if "relevance" in combination:
            value, size = self.relevance, self.relevance_size
        if "gradient" in combination:
            value, size = value * self.grad, size * self.grad_size
        if combination.startswith("positive"):
            value = value.clamp(min=0)
        return value, size


def written(layer, quotient: Tensor | None = None) -> Written:
    """Write out what q, k, v, the mask and the gradient of the output say."""
    batch, heads, queries, width = layer.q.shape
    keys, share = layer.k.shape[2], heads // layer.k.shape[1]
    scale = width**-0.5 if layer.scale is None else layer.scale
    q, k, v = (one.double().tolist() for one in (layer.q, layer.k, layer.v))
    grad = None if layer.out_grad is None else layer.out_grad.double().tolist()
    s = None if quotient is None else quotient.double().tolist()
    shape = (batch, heads, queries, keys)
    found = {name: torch.zeros(shape, dtype=torch.float64) for name in ("a", "g", "G", "r", "R")}
    steepest = 1.0
    for b in range(batch):
        for h in range(heads):
            shared = h // share
            for i in range(queries):
                scores = {}
                for j in range(keys):
                    if not sees(layer.visible, b, h, i, j):
                        continue
                    terms = [
                        scale * x * y for x, y in zip(q[b][h][i], k[b][shared][j], strict=True)
                    ]
                    scores[j] = added(layer, capped(sum(terms), layer.softcap), b, h, i, j)
                    steepest = max(steepest, sum(map(abs, terms)), abs(scores[j]))
                for j, weight in softmax(scores, sink_of(layer, h)).items():
                    at = (b, h, i, j)
                    found["a"][at] = weight
                    if grad is not None:
                        found["g"][at], found["G"][at] = product(grad[b][h][i], v[b][shared][j])
                    if s is not None:
                        value, size = product(s[b][h][i], v[b][shared][j])
                        found["r"][at], found["R"][at] = weight * value / 2, weight * size / 2
    return Written(found["a"], found["g"], found["G"], found["r"], found["R"], steepest)


def sees(visible, b: int, h: int, i: int, j: int) -> bool:
    """Say whether query i may see key j, in input b and head h."""
    if visible.left is not None and j < i - visible.left:
        return False
    if visible.right is not None and j > i + visible.right:
        return False
    if visible.keys is not None and not visible.keys[b, j]:
        return False
    if visible.rule is not None and not entry(visible.rule(torch.tensor([i])), b, h, 0, j):
        return False
    dense = visible.dense
    if dense is None:
        return True
    answer = entry(dense, b, h, i, j)
    return bool(answer) if dense.dtype == torch.bool else float(answer) > -math.inf


def added(layer, score: float, b: int, h: int, i: int, j: int) -> float:
    """Add the bias, and a mask of numbers."""
    for one in (layer.bias, layer.visible.dense):
        if one is not None and one.dtype != torch.bool:
            score += float(entry(one, b, h, i, j))
    return score


def entry(table: Tensor, *place: int) -> Tensor:
    """Return an entry of what may be the same for all inputs, heads or queries."""
    return table[tuple(0 if size == 1 else at for size, at in zip(table.shape, place, strict=True))]


def capped(score: float, cap: float | None) -> float:
    return score if cap is None else cap * math.tanh(score / cap)


def sink_of(layer, h: int) -> float | None:
    return None if layer.sink is None else float(layer.sink.flatten()[h])


def softmax(scores: dict[int, float], sink: float | None) -> dict[int, float]:
    """Share out one among keys, and what a sink takes away; a query that sees nothing shares nothing."""
    if not scores:
        return {}
    every = [*scores.values()] if sink is None else [*scores.values(), sink]
    top = max(every)
    total = math.fsum(math.exp(one - top) for one in every)
    return {j: math.exp(one - top) / total for j, one in scores.items()}


def product(many: list[float], few: list[float]) -> tuple[float, float]:
    """Return an inner product and its size."""
    terms = [x * y for x, y in zip(many, few, strict=True)]
    return math.fsum(terms), math.fsum(map(abs, terms))


def contracted(maps: Written, row: Tensor, combination: str) -> tuple[Tensor, Tensor]:
    """Return row · mean over heads of f, (batch, keys), and its size."""
    value, size = (one.mean(1) for one in maps.combined(combination))
    row = row.double()
    return times(row, value), times(row.abs(), size)


def contracted_normalised(maps: Written, row: Tensor, combination: str) -> tuple[Tensor, Tensor]:
    """Return row · M, M = I + mean over heads of f, each row divided by its sum, and its size.

    An error e in a row of the mean and E in its sum make (e + M E) / sum in a row of M.
    """
    value, size = (one.mean(1) for one in maps.combined(combination))
    row = row.double()
    one = torch.eye(value.shape[1], dtype=torch.float64)
    sums = 1 + value.sum(-1, keepdim=True)
    mixed = (one + value) / sums
    error = (one + size + mixed.abs() * (1 + size.sum(-1, keepdim=True))) / sums.abs()
    return times(row, mixed), times(row.abs(), error)


def gathered(maps: Written, columns: Tensor, combination: str) -> tuple[Tensor, Tensor]:
    """Return mean over heads of f · columns, (batch, queries, n), and its size."""
    value, size = (one.mean(1) for one in maps.combined(combination))
    columns = columns.double()
    return value @ columns, size @ columns.abs()


def times(row: Tensor, table: Tensor) -> Tensor:
    return (row[:, None] @ table).squeeze(1)
