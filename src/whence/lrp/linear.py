"""Rules for linear layers: a value times a matrix of weights, however it was called."""

import torch
from torch import Tensor

from whence.capture.attention.layer import wide
from whence.capture.tape.tape import Step
from whence.core.errors import NotCapturable
from whence.kernels import products
from whence.lrp.node import Carried, Node
from whence.lrp.ops import operation
from whence.lrp.rules import halves


def weights(node: Node) -> Tensor:
    """Return the matrix of a linear layer, inputs x outputs, as wide as relevance is."""
    return wide(matrix(node))


def matrix(node: Node) -> Tensor:
    """Return the matrix of a linear layer, inputs x outputs, as the model has it."""
    assert isinstance(node.step, Step)
    op = operation(node.step)
    place, name = {"linear": (1, "weight"), "addmm": (2, "mat2")}.get(op or "", (1, "other"))
    weight = node.argument(place, name)
    if not isinstance(weight, Tensor):
        raise NotCapturable(
            f"The weights of {node.step.name} in {'.'.join(node.step.module)} depend on the input themselves; there "
            "is no rule for that. Use grad_x_input, which follows no operation, or leave_one_out."
        )
    scale = node.step.kwargs.get("alpha", 1) if op == "addmm" else 1
    return weight.T if op == "linear" else weight * scale if scale != 1 else weight


def bias_of(node: Node) -> Tensor | None:
    """Return what a linear layer adds, however it was called."""
    assert isinstance(node.step, Step)
    if operation(node.step) == "linear":
        return node.constant(2, "bias")
    added = node.constant(0, "input") if operation(node.step) == "addmm" else None
    beta = node.step.kwargs.get("beta", 1)
    return None if added is None else added if beta == 1 else added * beta


def agreeing(node: Node, carried: Carried) -> list[Tensor | None]:
    """z+: share among the products x·w that are positive, taken together; the bias gets nothing."""
    (relevance,), (x,), (y,), weight = carried, node.given, node.made, matrix(node)
    assert relevance is not None
    rows = node.sparse.rows(relevance)
    if rows is None:
        return [_agreeing(node, relevance, x, y, weight)]
    found = relevance.new_zeros(x.shape)
    if len(rows):
        r, some, made = (one.flatten(0, -2)[rows] for one in (relevance, x, y))
        found.view(-1, x.shape[-1])[rows] = _agreeing(node, r, some, made, weight)
    return [found]


def _agreeing(node: Node, relevance: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    if products.narrow(x, weight):
        return products.agreeing(
            relevance, x, weight, signed=node.stabiliser.exact, lately=node.lately
        )
    return _from_output(node, relevance, wide(x), wide(y), wide(weight))


def _from_output(node: Node, relevance: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Do it in three products instead of four: the fourth is the output, which is there.

    With x⁺w⁺ + x⁻w⁻ = (x·w + |x|·|w|) / 2 the positive products need one more product, and what goes back through
    them is (x ∘ S wᵀ + |x| ∘ S |w|ᵀ) / 2. Next to nothing that agrees, both are differences of equals: what is below
    their rounding counts as nothing, as it would be if all four products were taken.
    """
    size, heavy, bias = x.abs(), weight.abs(), bias_of(node)
    total = size @ heavy
    agreed = y + total if bias is None else (y - bias).add_(total)
    noise = total.mul_(16 * torch.finfo(total.dtype).eps)
    quotient = node.divide(relevance, agreed.mul_(0.5))
    # A CPU is slow at comparing, and seldom has to.
    if agreed.is_cuda or not bool((agreed - noise).min() > 0):
        quotient.masked_fill_(agreed <= noise, 0)
    back = (quotient @ weight.T).mul_(x)
    return back.addcmul_(size, quotient @ heavy.T).mul_(0.5)


def agreeing_apart(node: Node, carried: Carried) -> list[Tensor | None]:
    """z+ with positive and negative inputs each getting the whole: what the authors call original LRP.

    Relevance doubles wherever both are there; this is the baseline as published, not a recommendation.
    """
    (relevance,), (x,), weight = carried, node.x, weights(node)
    assert relevance is not None
    total = torch.zeros_like(x)
    for part, w in zip(_signs(x), _signs(weight), strict=True):
        total.addcmul_(part, node.divide(relevance, part @ w) @ w.T)
    return [total]


def _signs(tensor: Tensor) -> tuple[Tensor, Tensor]:
    return tensor.clamp(min=0), tensor.clamp(max=0)


def weighted(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through a linear layer: its derivative, without running it again."""
    (quotient,) = carried
    assert quotient is not None
    return [products.back(quotient, matrix(node))]


def halves_or_agreeing(node: Node, carried: Carried) -> list[Tensor | None]:
    """Treat a product with a matrix of weights as the linear layer that it is, any other as a product."""
    return agreeing(node, carried) if _is_linear(node) else halves(node, carried)


def halves_or_agreeing_apart(node: Node, carried: Carried) -> list[Tensor | None]:
    """Do the same, by the rule of original LRP."""
    return agreeing_apart(node, carried) if _is_linear(node) else halves(node, carried)


def _is_linear(node: Node) -> bool:
    factor = node.argument(1, "other")
    return isinstance(factor, Tensor) and factor.dim() == 2 and len(node.given) == 1
