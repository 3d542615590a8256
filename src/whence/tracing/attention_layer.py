"""One layer's attention: what was seen of it, and any rows of its map when they are asked for.

No map is stored, none is needed: `whence.kernels` contracts a layer with a row.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from whence.core.errors import BadMethod
from whence.kernels import Visible
from whence.kernels.maps import gradient_of, require


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

    shaped: ClassVar[frozenset[str]] = frozenset(
        {"v", "hidden"}
    )  # what is asked for its shape, later, too

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

    def forget(self) -> None:
        """Drop all numbers, and keep their shapes: who is done with a layer, or will see it again, needs no more."""
        if self.v.is_meta:  # it was done
            return
        for name, value in vars(self).items():
            if not isinstance(value, Tensor):
                continue
            shaped = name in self.shaped
            setattr(self, name, value.new_empty(value.shape, device="meta") if shaped else None)

    def become(self, other: "AttentionLayer") -> None:
        """Take over everything from the same layer, seen once more."""
        vars(self).update(vars(other))

    def weights_grad(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """Return dL/dA of query `rows`: (batch, heads, rows, keys)."""
        grad = wide(gradient_of(self)[:, :, rows])
        return by_head(grad, self.v, lambda g, v: g @ v.to(g).transpose(-1, -2))

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
        require(self)
        if self.hidden is None or self.hidden_grad is None:
            raise BadMethod(
                "A method reads hidden gradients without stating needs={'hidden_grad'}."
            )
        return (wide(self.hidden) * self.hidden_grad).sum(-1)

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

    shaped: ClassVar[frozenset[str]] = frozenset({"q", "k", "v", "hidden"})

    q: Tensor  # (batch, heads, queries, width)
    k: Tensor  # (batch, key heads, keys, width)
    scale: float | None = None  # None: one over the root of the width
    visible: Visible = field(default_factory=Visible)
    bias: Tensor | None = None
    softcap: float | None = None
    sink: Tensor | None = None
    logsumexp: Tensor | None = None  # (batch, heads, queries), where the forward pass left it

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def length(self) -> int:
        return self.q.shape[2]

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        require(self)
        scale = self.q.shape[-1] ** -0.5 if self.scale is None else self.scale
        query = wide(self.q[:, :, rows]) * scale
        scores = by_head(query, self.k, lambda q, k: q @ k.to(q).transpose(-1, -2))
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
        total = self.visible.additive(rows, self.length, self.k.shape[2], self.q)
        if self.bias is not None:
            part = self.bias if self.bias.shape[2] == 1 else self.bias[:, :, rows]
            total = part if total is None else total + part
        return total

    def heads_first(self, tensor: Tensor) -> Tensor:
        return tensor

    def forget(self) -> None:
        super().forget()
        self.visible = Visible()  # its masks are as large as the rest


@dataclass(kw_only=True, eq=False)
class Stored(AttentionLayer):
    """Attention that was recognised: the model made the map itself, so it is there already."""

    shaped: ClassVar[frozenset[str]] = frozenset({"probabilities", "v", "hidden"})

    probabilities: Tensor  # (batch, heads, queries, keys)

    @property
    def heads(self) -> int:
        return self.probabilities.shape[1]

    @property
    def length(self) -> int:
        return self.probabilities.shape[2]

    def weights(self, rows: slice | Tensor = slice(None)) -> Tensor:
        require(self)
        return wide(self.probabilities[:, :, rows])

    def heads_first(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*self.probabilities.shape[:3], self.v.shape[-1])


def wide(tensor: Tensor) -> Tensor:
    """Return a copy in float32 of what is narrower: what is summed up, or read by a person, needs that at least."""
    return tensor.to(widened(tensor.dtype))


@cache
def widened(dtype: torch.dtype) -> torch.dtype:
    """Return float32, or what is wider."""
    return torch.promote_types(dtype, torch.float32)


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


"""What PyTorch's attention function keeps for its backward pass and a map can be made from: each row's logsumexp."""

import torch
from torch import Tensor

# As its kernels call it: flash, flash on a CPU and cuDNN's; the memory-efficient one.
_NAMES = ("_saved_logsumexp", "_saved_log_sumexp")


def logsumexp_of(output: Tensor) -> Tensor | None:
    """Return the logsumexp of each row, (batch, heads, queries), of what `scaled_dot_product_attention` returned.

    None where it is not there: without a gradient to come, or where PyTorch took no kernel of its own.
    """
    node, queries = output.grad_fn, output.shape[2]
    for name in _NAMES:
        found = getattr(node, name, None)
        if isinstance(found, Tensor) and found.dtype in (torch.float32, torch.float64):
            rows = found.squeeze(3) if found.ndim == 4 else found
            # A kernel may have filled up its last block.
            return rows if rows.shape[2] == queries else rows[:, :, :queries]
    return None
