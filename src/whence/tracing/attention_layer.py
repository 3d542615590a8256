"""The attention of one layer: captured tensors, and rows of its map computed on demand.

No map is stored: `whence.kernels` contracts a layer with a row. Where PyTorch's attention function saved
the logsumexp of each row for its backward pass, it is taken from there.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from whence.core.errors import BadMethod, BadParameter
from whence.kernels.maps import (
    VisibleKeys,
    check_available,
    compute_scale,
    get_output_grad,
    multiply_by_head,
)


@dataclass(eq=False)
class TapePositions:
    """The tape numbers of a layer's inputs and outputs."""

    hidden: int | None  # the input of the block
    out: int | None  # the output of the attention
    block: int | None = None  # the output of the block


@dataclass(kw_only=True, eq=False)
class AttentionLayer:
    """One captured attention layer; the two subclasses differ in the source of the weights."""

    v: Tensor  # (batch, key heads, keys, width)
    # (batch, heads, queries, width), or in the model's own shape; its gradient is taken
    out: Tensor | None = None
    out_grad: Tensor | None = None  # (batch, heads, queries, width)
    hidden: Tensor | None = None  # (batch, tokens, features): the input of the block
    hidden_grad: Tensor | None = None
    places: TapePositions | None = None  # its positions on the tape, if there is one

    # fields whose shapes are still needed after `forget`
    shaped: ClassVar[frozenset[str]] = frozenset({"v", "hidden"})

    @property
    def heads(self) -> int:
        """The number of query heads."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """The number of queries."""
        raise NotImplementedError

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Return the attention of query `rows`, in float32 at least: (batch, heads, rows, keys)."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Detach all tensors from the autograd graph, and drop `out`."""
        self.out = None
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and value.requires_grad:
                setattr(self, name, value.detach())

    def forget(self) -> None:
        """Drop all tensors to free memory; those in `shaped` become meta tensors of the same shape."""
        if self.v.is_meta:  # dropped before
            return
        for name, value in vars(self).items():
            if isinstance(value, VisibleKeys):  # its masks are as large as the rest
                setattr(self, name, VisibleKeys())
            elif isinstance(value, Tensor):
                shaped = name in self.shaped
                setattr(self, name, value.new_empty(value.shape, device="meta") if shaped else None)

    def copy_from(self, other: "AttentionLayer") -> None:
        """Copy all fields from another capture of the same layer."""
        vars(self).update(vars(other))

    def drop_values(self) -> None:
        """Drop all tensors but those whose gradients are taken, until `refill`."""
        out, hidden = self.out, self.hidden
        self.forget()
        self.out, self.hidden = out, hidden

    def refill(self, other: "AttentionLayer") -> None:
        """Copy the values of another capture, without its graph; `out` and `hidden` stay."""
        out, hidden = self.out, self.hidden
        self.copy_from(other)
        self.hidden = None
        self.let_go()
        self.out, self.hidden = out, hidden

    def weights_grad(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Return dL/dA of query `rows`: (batch, heads, rows, keys)."""
        grad = widen(get_output_grad(self)[:, :, rows])
        return multiply_by_head(grad, self.v.to(grad).mT)

    def weights_relevance(self, quotient: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """Return the relevance of query `rows` of the map, half of the relevance at the output.

        `quotient` is the output's relevance over its value, (batch, heads, queries, width).
        """
        share = multiply_by_head(quotient[:, :, rows], self.v.to(quotient).mT)
        return self.weights(rows).to(share) * share / 2

    def heads_first(self, tensor: Tensor) -> Tensor:
        """Reshape a tensor of the model's output shape to (batch, heads, queries, width)."""
        raise NotImplementedError

    def compute_cat(self) -> Tensor:
        """Return hidden state times its gradient, summed over features: (batch, tokens)."""
        check_available(self)
        if self.hidden is None or self.hidden_grad is None:
            raise BadMethod(
                "A method reads hidden gradients without stating needs={'hidden_grad'}."
            )
        return (widen(self.hidden) * self.hidden_grad).sum(-1)

    @torch.no_grad()
    def map(self) -> Tensor:
        """Materialise the attention map, (batch, heads, queries, keys), for display."""
        return self.weights()

    @torch.no_grad()
    def map_grad(self) -> Tensor:
        """Materialise the gradient of the target with respect to the map."""
        return self.weights_grad()


@dataclass(kw_only=True, eq=False)
class ComputedAttention(AttentionLayer):
    """Attention with captured q and k: the weights are computed from them when needed."""

    shaped: ClassVar[frozenset[str]] = frozenset({"q", "k", "v", "hidden"})

    q: Tensor  # (batch, heads, queries, width)
    k: Tensor  # (batch, key heads, keys, width)
    scale: float | None = None  # None: one over the root of the width
    visible: VisibleKeys = field(default_factory=VisibleKeys)
    bias: Tensor | None = None
    softcap: float | None = None
    sink: Tensor | None = None
    logsumexp: Tensor | None = None  # (batch, heads, queries), if the forward pass saved it

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def length(self) -> int:
        return self.q.shape[2]

    @property
    def changes_scores(self) -> bool:
        """Whether scores change before the softmax, which PyTorch's function does not allow."""
        return self.softcap is not None or self.sink is not None

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        check_available(self)
        query = widen(self.q[:, :, rows]) * compute_scale(self)
        scores = multiply_by_head(query, self.k.to(query).mT)
        if self.softcap is not None:  # squashed into (-cap, cap), as Gemma 2 does
            scores = torch.tanh(scores / self.softcap) * self.softcap
        additive = self.additive(rows)
        if additive is not None:
            scores = scores + additive
        if self.sink is None:
            return scores.softmax(-1)
        sink = self.sink.reshape(1, -1, 1, 1).to(scores).expand(*scores.shape[:3], 1)
        return torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]

    def additive(self, rows: slice | Tensor) -> Tensor | None:
        """Return mask and bias of `rows` as one tensor to add to the scores."""
        total = self.visible.additive(rows, self.length, self.k.shape[2], self.q)
        if self.bias is not None:
            part = self.bias if self.bias.shape[2] == 1 else self.bias[:, :, rows]
            total = part if total is None else total + part
        return total

    def heads_first(self, tensor: Tensor) -> Tensor:
        return tensor


@dataclass(kw_only=True, eq=False)
class StoredAttention(AttentionLayer):
    """Attention that was recognised: the model's own map is stored."""

    shaped: ClassVar[frozenset[str]] = frozenset({"probabilities", "v", "hidden"})

    probabilities: Tensor  # (batch, heads, queries, keys)

    @property
    def heads(self) -> int:
        return self.probabilities.shape[1]

    @property
    def length(self) -> int:
        return self.probabilities.shape[2]

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        check_available(self)
        return widen(self.probabilities[:, :, rows])

    def heads_first(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*self.probabilities.shape[:3], self.v.shape[-1])


def widen(tensor: Tensor) -> Tensor:
    """Return the tensor in float32 at least: sums over tokens lose digits in half precision."""
    return tensor.to(widen_dtype(tensor.dtype))


@cache
def widen_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the wider one of float32 and this dtype."""
    return torch.promote_types(dtype, torch.float32)


_Layer = TypeVar("_Layer")


def select_layer(layers: list[_Layer], index: int) -> _Layer:
    """Return the layer of an index, from 0 at the input or from -1 at the output."""
    if not -len(layers) <= index < len(layers):
        raise BadParameter(
            f"There is no layer {index}: the model has {len(layers)}, counted from 0 at the input "
            "(or from -1 at the output)."
        )
    return layers[index]


# Attribute names by kernel: flash, flash on a CPU and cuDNN; the memory-efficient one.
_LOGSUMEXP_NAMES = ("_saved_logsumexp", "_saved_log_sumexp")


def find_logsumexp(layer: ComputedAttention) -> Tensor | None:
    """Return the logsumexp of each row that `scaled_dot_product_attention` saved, (batch, heads, queries).

    None where it saved none: without a gradient, or where PyTorch chose its unfused implementation.
    """
    node, queries = layer.out.grad_fn if layer.out is not None else None, layer.length
    for name in _LOGSUMEXP_NAMES:
        logsumexp = getattr(node, name, None)
        if isinstance(logsumexp, Tensor) and logsumexp.dtype in (torch.float32, torch.float64):
            rows = logsumexp.squeeze(3) if logsumexp.ndim == 4 else logsumexp
            # A kernel may have padded its last block.
            return rows if rows.shape[2] == queries else rows[:, :, :queries]
    return None
