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
