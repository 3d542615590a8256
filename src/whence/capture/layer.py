"""One layer's attention, and its contraction with a row: no map is stored, none is needed.

With O = A V, the gradient of the map is dL/dA = dO Vᵀ. So a layer that keeps q, k, v and dO can give any
rows of A and dL/dA when asked, and a method that reads a row of a product of maps needs no more than
"row times f(A, dL/dA)", which is computed a few query rows at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from whence.core.errors import BadMethod

Combination = Literal[
    "attention",
    "gradient_x_attention",
    "positive_gradient_x_attention",
    "positive_relevance",
    "positive_gradient_x_relevance",
]

# Bytes of one tile of a map. On a CPU the tile should stay in its cache: at 482 tokens, 4 MiB were twice as fast as
# 16 (bench/tiles.py). An accelerator wants more work at a time.
TILE_BYTES = {"cpu": 1 << 22}
TILE_BYTES_ELSEWHERE = 1 << 26


@dataclass(eq=False)
class Places:
    """The numbers, on the tape, of what goes into a layer and what comes out."""

    hidden: int | None  # the input of the block
    out: int | None  # the output of the attention
    block: int | None = None  # the output of the block


@dataclass(kw_only=True, eq=False)
class AttentionLayer:
    """What every captured layer has; the two subclasses differ in where the weights come from."""

    v: Tensor  # (batch, key heads, keys, width)
    out: Tensor | None = (
        None  # (batch, heads, queries, width), or as the model made it; its gradient is taken
    )
    out_grad: Tensor | None = None  # (batch, heads, queries, width)
    hidden: Tensor | None = None  # (batch, tokens, features): the input of the block
    hidden_grad: Tensor | None = None
    places: Places | None = None  # where it stands on the tape, if there is one

    @property
    def heads(self) -> int:
        """The number of query heads."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """The number of queries."""
        raise NotImplementedError

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Return the attention of query `rows`: (batch, heads, rows, keys)."""
        raise NotImplementedError

    def take_grad(self, grad: Tensor | None) -> None:
        """Keep the gradient of `out`, heads first."""
        if grad is None:
            assert self.out is not None
            grad = torch.zeros_like(self.out)
        self.out_grad = self.heads_first(grad)

    def let_go(self) -> None:
        """Drop the graph: a trace holds numbers, not history."""
        self.out = None
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and value.requires_grad:
                setattr(self, name, value.detach())

    def weights_grad(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Return dL/dA of query `rows`: (batch, heads, rows, keys)."""
        if self.out_grad is None:
            raise BadMethod(
                "A method reads attention gradients without stating needs={'attention_grad'}."
            )
        grad = self.out_grad[:, :, rows]
        return by_head(grad, self.v, lambda g, v: g @ v.transpose(-1, -2))

    def weights_relevance(self, quotient: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """Return the relevance of query `rows` of the map, half of what arrived at the output.

        `quotient` is the output's relevance over its value, (batch, heads, queries, width).
        """
        share = by_head(quotient[:, :, rows], self.v, lambda s, v: s @ v.to(s).transpose(-1, -2))
        return self.weights(rows).to(share) * share / 2

    def heads_first(self, tensor: Tensor) -> Tensor:
        """Bring something that fits the output as the model made it to (batch, heads, queries, width)."""
        raise NotImplementedError

    def cat(self) -> Tensor:
        """Return hidden state times its gradient, summed over features: (batch, tokens)."""
        if self.hidden is None or self.hidden_grad is None:
            raise BadMethod(
                "A method reads hidden gradients without stating needs={'hidden_grad'}."
            )
        return (self.hidden * self.hidden_grad).sum(-1)

    @torch.no_grad()
    def map(self) -> Tensor:
        """Materialise the attention map, (batch, heads, queries, keys), for a person to look at."""
        return self.weights()

    @torch.no_grad()
    def map_grad(self) -> Tensor:
        """Materialise the gradient of the target with respect to the map."""
        return self.weights_grad()


@dataclass(kw_only=True, eq=False)
class Computed(AttentionLayer):
    """Attention of which q and k were seen: the weights are computed again from them when needed."""

    q: Tensor  # (batch, heads, queries, width)
    k: Tensor  # (batch, key heads, keys, width)
    scale: float | None = None  # None: one over the root of the width
    # Boolean (true: may attend) or additive, (batch or 1, heads or 1, queries or 1, keys).
    mask: Tensor | None = None
    causal: bool = False
    bias: Tensor | None = None
    softcap: float | None = None
    sink: Tensor | None = None

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def length(self) -> int:
        return self.q.shape[2]

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        scale = self.q.shape[-1] ** -0.5 if self.scale is None else self.scale
        query = self.q[:, :, rows] * scale
        scores = by_head(query, self.k, lambda q, k: q @ k.transpose(-1, -2))
        scores = _soft_capped(scores, self.softcap)
        additive = self.additive(rows)
        if additive is not None:
            scores = scores + additive
        if self.sink is None:
            return scores.softmax(-1)
        sink = self.sink.reshape(1, -1, 1, 1).to(scores).expand(*scores.shape[:3], 1)
        return torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]

    def additive(self, rows: slice | Tensor) -> Tensor | None:
        """Return mask and bias of `rows` as one tensor to add to the scores."""
        lowest = torch.finfo(self.q.dtype).min
        total = None
        if self.mask is not None:
            part = self.mask if self.mask.shape[2] == 1 else self.mask[:, :, rows]
            if part.dtype == torch.bool:
                part = torch.zeros_like(part, dtype=self.q.dtype).masked_fill_(~part, lowest)
            total = part
        elif self.causal:
            positions = torch.arange(self.k.shape[2], device=self.q.device)
            ahead = positions > positions[: self.length][rows, None]
            total = torch.zeros_like(ahead, dtype=self.q.dtype).masked_fill_(ahead, lowest)
        if self.bias is not None:
            part = self.bias if self.bias.shape[2] == 1 else self.bias[:, :, rows]
            total = part if total is None else total + part
        return total

    def heads_first(self, tensor: Tensor) -> Tensor:
        return tensor


@dataclass(kw_only=True, eq=False)
class Stored(AttentionLayer):
    """Attention that was recognised: the model made the map itself, so it is there already."""

    probabilities: Tensor  # (batch, heads, queries, keys)

    @property
    def heads(self) -> int:
        return self.probabilities.shape[1]

    @property
    def length(self) -> int:
        return self.probabilities.shape[2]

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        return self.probabilities[:, :, rows]

    def heads_first(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*self.probabilities.shape[:3], self.v.shape[-1])


def _soft_capped(scores: Tensor, cap: float | None) -> Tensor:
    """Squash scores into (-cap, cap), as Gemma 2 does."""
    return scores if cap is None else torch.tanh(scores / cap) * cap


def by_head(many: Tensor, few: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Multiply query heads with the key heads they share, without repeating the latter."""
    groups = many.shape[1] // few.shape[1]
    if groups == 1:
        return product(many, few)
    batch, heads = many.shape[:2]
    grouped = many.reshape(batch, heads // groups, groups, *many.shape[2:])
    return product(grouped, few[:, :, None]).reshape(batch, heads, many.shape[2], -1)


@torch.no_grad()
def contract(
    layer: AttentionLayer,
    row: Tensor,
    combination: Combination = "attention",
    *,
    quotient: Tensor | None = None,
) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries).

    Tile by tile over the query rows; rows whose weight is zero for the whole batch cost nothing, and
    in the last layer that is all but the one the prediction reads.
    """
    total = torch.zeros(row.shape[0], layer.v.shape[2], dtype=row.dtype, device=row.device)
    for rows, tile in _tiles(layer, row, combination, quotient):
        weight = row[:, rows].to(tile.dtype)
        total += torch.einsum("bq,bhqk->bk", weight, tile).div_(layer.heads).to(total.dtype)
    return total


@torch.no_grad()
def gather(layer: AttentionLayer, columns: Tensor, combination: Combination) -> Tensor:
    """Return mean over heads of f(A, dL/dA) · columns, (batch, queries, n), for columns of (batch, keys, n)."""
    every = columns.new_ones(columns.shape[0], layer.length)
    tiles = _tiles(layer, every, combination, None)
    return torch.cat([tile.mean(1).to(columns.dtype) @ columns for _, tile in tiles], dim=1)


@torch.no_grad()
def contract_normalised(
    layer: AttentionLayer,
    row: Tensor,
    combination: Combination,
    *,
    quotient: Tensor | None = None,
) -> Tensor:
    """Return row · M, where M is I + mean over heads of f(A, dL/dA, R), each of its rows divided by its sum."""
    total = torch.zeros_like(row)
    for rows, tile in _tiles(layer, row, combination, quotient):
        mean = tile.mean(1).to(row.dtype)
        weight = row[:, rows] / (1 + mean.sum(-1))
        total[:, rows] += weight
        total += torch.einsum("bq,bqk->bk", weight, mean)
    return total


def _tiles(
    layer: AttentionLayer, row: Tensor, combination: Combination, quotient: Tensor | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the query rows that count, and f(A, dL/dA, R) of them, (batch, heads, rows, keys)."""
    active = row.ne(0).any(0).nonzero().squeeze(1)
    if not len(active):
        return
    for rows in torch.split(active, _rows_at_a_time(layer, row)):
        chosen = slice(None) if len(rows) == layer.length else rows
        if "relevance" in combination:
            assert quotient is not None
            tile = layer.weights_relevance(quotient, chosen)
        else:
            tile = layer.weights(chosen)
        if "gradient" in combination:
            tile = tile.mul(layer.weights_grad(chosen).to(tile.dtype))
        yield rows, tile.clamp_(min=0) if combination.startswith("positive") else tile


def row_tiles(layer: AttentionLayer, like: Tensor) -> Iterator[slice]:
    """Yield all query rows, as many at a time as make a good tile."""
    size = _rows_at_a_time(layer, like)
    for start in range(0, layer.length, size):
        yield slice(start, start + size)


def _rows_at_a_time(layer: AttentionLayer, like: Tensor) -> int:
    per_row = like.shape[0] * layer.heads * layer.v.shape[2] * like.element_size()
    return max(1, TILE_BYTES.get(like.device.type, TILE_BYTES_ELSEWHERE) // max(1, per_row))
