"""Interfaces of a layer's attention maps for contractions, and `VisibleKeys`: the keys each query may attend to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeGuard

import torch
from torch import Tensor

from whence.core.errors import BadMethod

RowSelection = slice | Tensor  # queries as a slice, or by number


@dataclass(frozen=True, eq=False)
class VisibleKeys:
    """The keys that each query may attend to: from i - left to i + right for query i, without padding.

    Other patterns have a `rule` or a dense mask in addition; a key is visible if all of them allow it.
    """

    left: int | None = None  # None: unbounded
    right: int | None = None  # 0: a causal model
    keys: Tensor | None = None  # (batch, keys): false at padding
    # Maps numbers of queries, (rows,), to visibility, boolean, (batch or 1, heads or 1, rows, keys).
    rule: Callable[[Tensor], Tensor] | None = None
    dense: Tensor | None = None  # boolean or additive, (batch or 1, heads or 1, queries or 1, keys)
    trailing: bool = False  # whether all padding is known to be at the end

    @property
    def is_causal(self) -> bool:
        """Whether every real query sees all earlier keys and itself, and no others, in square maps.

        Padding at the end is after every real query already. Padding queries may then see other keys,
        which does not matter: no token attends to them, and no output reads them.
        """
        trailing_only = self.keys is None or self.trailing
        is_banded = self.rule is None and self.dense is None
        return is_banded and self.left is None and self.right == 0 and trailing_only

    @property
    def is_unrestricted(self) -> bool:
        """Whether every query sees every key."""
        return self.is_banded and self.left is None and self.right is None and self.keys is None

    @property
    def is_banded(self) -> bool:
        """Whether band and padding describe visibility fully, so that a fused kernel needs no mask."""
        return self.rule is None and self.dense is None

    def build_mask(self, rows: Tensor, keys: int) -> Tensor | None:
        """Return the visibility of some queries, boolean, (batch or 1, heads or 1, rows or 1, keys).

        None: they see every key.
        """
        masks: list[Tensor] = []
        if self.left is not None or self.right is not None:
            ahead = torch.arange(keys, device=rows.device) - rows[:, None]
            if self.right is not None:
                masks.append((ahead <= self.right)[None, None])
            if self.left is not None:
                masks.append((ahead >= -self.left)[None, None])
        if self.keys is not None:
            masks.append(self.keys[:, None, None])
        if self.rule is not None:
            masks.append(self.rule(rows))
        if self.dense is not None and self.dense.dtype == torch.bool:
            masks.append(self.dense if self.dense.shape[2] == 1 else self.dense[:, :, rows])
        if not masks:
            return None
        total = masks[0]
        for mask in masks[1:]:
            total = total & mask
        return total

    def additive(self, rows: RowSelection, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Return the additive mask of some queries: 0 at visible keys, the dtype's lowest at others."""
        numbers = (
            torch.arange(queries, device=like.device)[rows] if isinstance(rows, slice) else rows
        )
        visible, total = self.build_mask(numbers, keys), None
        if visible is not None:
            lowest = torch.finfo(like.dtype).min
            total = torch.zeros_like(visible, dtype=like.dtype).masked_fill_(~visible, lowest)
        if self.dense is not None and self.dense.dtype != torch.bool:
            part = self.dense if self.dense.shape[2] == 1 else self.dense[:, :, numbers]
            total = part if total is None else total + part
        return total

    def reach(self, rows: slice, keys: int) -> slice:
        """Return the range of keys that the band allows for some queries; at least one key."""
        first = 0 if self.left is None else min(max(0, rows.start - self.left), keys - 1)
        last = keys if self.right is None else min(keys, rows.stop + self.right)
        return slice(first, max(first + 1, last))

    def part(self, rows: slice, keys: slice) -> "VisibleKeys":
        """Return the visibility of a block of rows and keys, both counted from the block's first."""
        ahead, rule = rows.start - keys.start, self.rule
        dense = self.dense
        if dense is not None:
            dense = dense[..., keys] if dense.shape[2] == 1 else dense[..., rows, keys]
        return VisibleKeys(
            left=None if self.left is None else self.left - ahead,
            right=None if self.right is None else self.right + ahead,
            keys=None if self.keys is None else self.keys[:, keys],
            rule=None if rule is None else lambda numbers: rule(numbers + rows.start)[..., keys],
            dense=dense,
        )


Combination = Literal[
    "attention",
    "gradient_x_attention",
    "positive_gradient_x_attention",
    "positive_relevance",
    "positive_gradient_x_relevance",
]


class AttentionMaps(Protocol):
    """Interface of a layer's attention maps: rows on demand, the values, and the output's gradient."""

    v: Tensor  # (batch, key heads, keys, width)
    out_grad: Tensor | None  # (batch, heads, queries, width)

    @property
    def heads(self) -> int:
        """The number of query heads."""

    @property
    def length(self) -> int:
        """The number of queries."""

    def weights(self, rows: slice | Tensor = ...) -> Tensor:
        """Return rows of the map, (batch, heads, rows, keys)."""


class FactoredMaps(AttentionMaps, Protocol):
    """Interface of a layer with known q and k, from which fused kernels compute the map."""

    q: Tensor  # (batch, heads, queries, width)
    k: Tensor  # (batch, key heads, keys, width)
    scale: float | None  # None: one over the root of the width
    visible: VisibleKeys
    bias: Tensor | None
    softcap: float | None
    sink: Tensor | None
    # Natural logarithm of the sum of each row's exponentials, the sink's included, (batch, heads,
    # queries), if the forward pass saved it.
    logsumexp: Tensor | None


def has_factors(layer: AttentionMaps) -> TypeGuard[FactoredMaps]:
    """Return whether a layer has q and k; a recognised layer holds only the model's own map."""
    return hasattr(layer, "q")


def compute_scale(layer: FactoredMaps) -> float:
    """Return the factor of products of queries and keys: by default one over the root of the width."""
    return float(layer.q.shape[-1] ** -0.5 if layer.scale is None else layer.scale)


def multiply_by_head(many: Tensor, few: Tensor) -> Tensor:
    """Multiply query heads, (batch, heads, rows, n), with the key heads that they share, (batch, key heads, n, m)."""
    groups = many.shape[1] // few.shape[1]
    if groups == 1:
        return many @ few
    batch, heads, rows = many.shape[:3]
    product = many.reshape(batch, heads // groups, groups * rows, -1) @ few
    return product.reshape(batch, heads, rows, -1)


def check_available(layer: AttentionMaps) -> None:
    """Refuse a layer whose tensors were dropped: only shapes are left, and sums would be zeros."""
    if layer.v.is_meta:
        raise BadMethod(
            "A method reads a layer that was let go of. Layers come once, the last one first: take all that is read "
            "of one in its step of trace.descend(...), or read trace.layers, which keeps them."
        )


def get_output_grad(layer: AttentionMaps) -> Tensor:
    """Return the gradient of a layer's output, heads first."""
    check_available(layer)
    if layer.out_grad is None:
        raise BadMethod(
            "A method reads attention gradients without stating needs={'attention_grad'}."
        )
    return layer.out_grad
