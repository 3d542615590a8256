"""What a contraction needs to know about a layer."""

from typing import Literal, Protocol, TypeGuard

from torch import Tensor

from whence.core.errors import BadMethod
from whence.kernels.visible import Visible

Combination = Literal[
    "attention",
    "gradient_x_attention",
    "positive_gradient_x_attention",
    "positive_relevance",
    "positive_gradient_x_relevance",
]


class Maps(Protocol):
    """A layer's map, of which rows are made when they are asked for, and what it was multiplied with."""

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


class Parts(Maps, Protocol):
    """A layer of which the parts are known that its map is made of: what a fused kernel works on."""

    q: Tensor  # (batch, heads, queries, width)
    k: Tensor  # (batch, key heads, keys, width)
    scale: float | None  # None: one over the root of the width
    visible: Visible
    bias: Tensor | None
    softcap: float | None
    sink: Tensor | None
    # Natural logarithm of the sum of each row's exponentials, the sink's too, (batch, heads, queries), where the
    # forward pass left it.
    logsumexp: Tensor | None


def has_parts(layer: Maps) -> TypeGuard[Parts]:
    """Say whether a map is made of parts; one that was recognised was made by the model itself."""
    return hasattr(layer, "q")


def require(layer: Maps) -> None:
    """Refuse a layer that was let go of: of it there are only shapes, and the sums over those would be zeros."""
    if layer.v.is_meta:
        raise BadMethod(
            "A method reads a layer that was let go of. Layers come once, the last one first: take all that is read "
            "of one in its step of trace.descend(...), or read trace.layers, which keeps them."
        )


def gradient_of(layer: Maps) -> Tensor:
    """Return the gradient of a layer's output, heads first."""
    require(layer)
    if layer.out_grad is None:
        raise BadMethod(
            "A method reads attention gradients without stating needs={'attention_grad'}."
        )
    return layer.out_grad


"""Which keys a query may see, said in a few numbers instead of a mask of queries x keys."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Rows = slice | Tensor  # which queries: a slice, or their numbers


@dataclass(frozen=True, eq=False)
class Visible:
    """A query at place i sees the keys from i - left to i + right, but none that is padding.

    What cannot be said in that way has a `rule`, or a mask written out, beside it: all of them must agree.
    """

    left: int | None = None  # None: as far as there are keys
    right: int | None = None  # 0: a causal model
    keys: Tensor | None = None  # (batch, keys): false at padding
    # From the numbers of some queries, (rows,), to what they see, boolean, (batch or 1, heads or 1, rows, keys).
    rule: Callable[[Tensor], Tensor] | None = None
    dense: Tensor | None = None  # boolean or additive, (batch or 1, heads or 1, queries or 1, keys)
    trailing: bool = False  # whether all padding is known to stand after all that is not

    @property
    def causal(self) -> bool:
        """Whether a real query sees what comes before it and nothing else, in square maps.

        Padding at the end is behind every real query already. What a query sees that is padding itself is different
        then, and nobody's business: nobody sees it, and nobody reads it.
        """
        alone = self.keys is None or self.trailing
        return self.banded and self.left is None and self.right == 0 and alone

    @property
    def everything(self) -> bool:
        """Whether nothing is hidden from anyone."""
        return self.banded and self.left is None and self.right is None and self.keys is None

    @property
    def banded(self) -> bool:
        """Whether places and padding say it all, so that a fused kernel needs no mask."""
        return self.rule is None and self.dense is None

    def seen(self, rows: Tensor, keys: int) -> Tensor | None:
        """Return what some queries see, boolean, (batch or 1, heads or 1, rows or 1, keys); None: everything."""
        found: list[Tensor] = []
        if self.left is not None or self.right is not None:
            ahead = torch.arange(keys, device=rows.device) - rows[:, None]
            if self.right is not None:
                found.append((ahead <= self.right)[None, None])
            if self.left is not None:
                found.append((ahead >= -self.left)[None, None])
        if self.keys is not None:
            found.append(self.keys[:, None, None])
        if self.rule is not None:
            found.append(self.rule(rows))
        if self.dense is not None and self.dense.dtype == torch.bool:
            found.append(self.dense if self.dense.shape[2] == 1 else self.dense[:, :, rows])
        if not found:
            return None
        total = found[0]
        for one in found[1:]:
            total = total & one
        return total

    def additive(self, rows: Rows, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Return what is added to the scores of some queries: nothing where they see, the lowest where not."""
        numbers = (
            torch.arange(queries, device=like.device)[rows] if isinstance(rows, slice) else rows
        )
        seen, total = self.seen(numbers, keys), None
        if seen is not None:
            lowest = torch.finfo(like.dtype).min
            total = torch.zeros_like(seen, dtype=like.dtype).masked_fill_(~seen, lowest)
        if self.dense is not None and self.dense.dtype != torch.bool:
            part = self.dense if self.dense.shape[2] == 1 else self.dense[:, :, numbers]
            total = part if total is None else total + part
        return total

    def reach(self, rows: slice, keys: int) -> slice:
        """Return the keys that some queries see at most, as far as places say it; at least one."""
        first = 0 if self.left is None else min(max(0, rows.start - self.left), keys - 1)
        last = keys if self.right is None else min(keys, rows.stop + self.right)
        return slice(first, max(first + 1, last))

    def part(self, rows: slice, keys: slice) -> "Visible":
        """Return which of some keys some queries see, both counted from the first of theirs."""
        ahead, rule = rows.start - keys.start, self.rule
        dense = self.dense
        if dense is not None:
            dense = dense[..., keys] if dense.shape[2] == 1 else dense[..., rows, keys]
        return Visible(
            left=None if self.left is None else self.left - ahead,
            right=None if self.right is None else self.right + ahead,
            keys=None if self.keys is None else self.keys[:, keys],
            rule=None if rule is None else lambda some: rule(some + rows.start)[..., keys],
            dense=dense,
        )
