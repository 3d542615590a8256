"""How a tile of f(A, dL/dA, R) is made.

In place: scores, weights and products with the gradient stand in the same two buffers, one tile after another. On a
CPU fresh memory costs as much as the arithmetic.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from whence.kernels.hidden import Hidden, part, some
from whence.kernels.maps import Combination, Maps, Parts, gradient_of, has_parts
from whence.kernels.visible import Rows


class Place(NamedTuple):
    """Where a tile stands in a layer's maps."""

    inputs: slice
    heads: slice
    rows: Rows
    keys: slice


class Operands:
    """What some inputs of a layer bring to their tiles, in the dtype that is summed in; mostly views."""

    def __init__(
        self,
        layer: Maps,
        inputs: slice,
        combination: Combination,
        quotient: Tensor | None,
        buffers: "Buffers",
    ) -> None:
        """Take what a combination is made of."""
        self._layer, self._inputs, self._buffers = layer, inputs, buffers
        self._positive = combination.startswith("positive")
        self._groups = layer.heads // layer.v.shape[1]
        self._v = self._taken(layer.v)
        # What the map is multiplied with, each of them in a product with the values.
        self._factors: list[Tensor] = []
        if "relevance" in combination:
            assert quotient is not None
            self._factors.append(self._taken(quotient))
        if "gradient" in combination:
            self._factors.append(self._taken(gradient_of(layer)))
        self._q, self._k, self._logsumexp = self._v, self._v, None
        if has_parts(layer):
            self._q, self._k = self._taken(layer.q), self._taken(layer.k)
            if layer.logsumexp is not None and knows_logsumexp(layer):
                self._logsumexp = self._taken(layer.logsumexp)[..., None]

    def tile(self, place: Place, veil: Hidden) -> Tensor:
        """Return f in some place, (inputs, heads, rows, keys); it stands until the next one is asked for."""
        tile = self._weights(place, veil)
        for factor in self._factors:
            product = self._buffers.take("product", tile.shape)
            values = self._shared(self._v, place)
            torch.bmm(_flat(factor[:, place.heads, place.rows]), values.mT, out=_flat(product))
            tile.mul_(product)
        if self._positive:
            tile.relu_()
        veil.zero(tile, place.heads)
        return tile

    def _weights(self, place: Place, veil: Hidden) -> Tensor:
        layer, (_, heads, rows, keys) = self._layer, place
        if not has_parts(layer):
            stored = layer.weights(rows)[self._inputs, heads, :, keys]
            return self._buffers.take("tile", stored.shape).copy_(stored)
        scores = self._scores(layer, place)
        for table in (layer.bias, layer.visible.dense):
            if table is not None and table.dtype != torch.bool:
                scores += some(part(table, self._inputs, rows, keys), 1, heads)
        if self._logsumexp is not None:
            return scores.exp_()
        veil.exclude(scores, heads)
        if layer.sink is None:
            return torch.softmax(scores, -1, out=scores)
        sink = layer.sink.reshape(-1, 1, 1)[heads].to(scores)
        total = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sink)
        return scores.sub_(total).exp_()

    def _scores(self, layer: Parts, place: Place) -> Tensor:
        """Return scale · q kᵀ, capped, less the logsumexp where it is known."""
        q, k = self._q[:, place.heads, place.rows], self._shared(self._k, place)
        scores = self._buffers.take("tile", (*q.shape[:3], k.shape[1]))
        flat, scale = _flat(scores), q.shape[-1] ** -0.5 if layer.scale is None else layer.scale
        less = None if self._logsumexp is None else self._logsumexp[:, place.heads, place.rows]
        if less is not None and layer.softcap is None:
            torch.baddbmm(
                _flat(less).expand_as(flat), _flat(q), k.mT, beta=-1, alpha=scale, out=flat
            )
            return scores
        cap = 1.0 if layer.softcap is None else layer.softcap
        torch.baddbmm(flat, _flat(q), k.mT, beta=0, alpha=scale / cap, out=flat)
        if layer.softcap is not None:
            scores.tanh_().mul_(cap)
        return scores if less is None else scores.sub_(less)

    def _taken(self, tensor: Tensor) -> Tensor:
        return tensor[self._inputs].to(self._buffers.dtype)

    def _shared(self, few: Tensor, place: Place) -> Tensor:
        """Return some keys of the key heads of some query heads, (inputs x heads, keys, width)."""
        first, last = place.heads.start // self._groups, -(-place.heads.stop // self._groups)
        chosen = few[:, first:last, place.keys]
        each = (place.heads.stop - place.heads.start) // (last - first)
        if each == 1:
            return _flat(chosen)
        return chosen[:, :, None].expand(-1, -1, each, -1, -1).flatten(0, 2)


class Buffers:
    """Memory for one tile after another."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        """Hold none yet."""
        self.dtype, self.device = dtype, device
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return a tensor of this shape, with anything in it: what had this name before is no more."""
        size, held = math.prod(shape), self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = torch.empty(size, dtype=self.dtype, device=self.device)
        return held[:size].view(*shape)


def summed_in(layer: Maps, combination: Combination, quotient: Tensor | None) -> torch.dtype:
    """Return the dtype in which a contraction is computed: float32, or float64 if something is."""
    dtype = torch.promote_types(layer.v.dtype, torch.float32)
    if quotient is not None and "relevance" in combination:
        return torch.promote_types(dtype, quotient.dtype)
    return dtype


def knows_logsumexp(layer: Parts) -> bool:
    """Say whether the forward pass left the logsumexp, as exact as it would be computed here."""
    exact = torch.promote_types(layer.q.dtype, torch.float32)
    left = layer.logsumexp
    return left is not None and torch.promote_types(left.dtype, exact) == left.dtype


def _flat(tensor: Tensor) -> Tensor:
    return tensor.flatten(0, 1)
