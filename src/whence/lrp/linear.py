"""LRP rules for linear layers: z+, z+ by sign, gradient; weight matrix and bias of any PyTorch call."""

import torch
from torch import Tensor

from whence.core.errors import NotCapturable
from whence.kernels import share
from whence.lrp.node import CarriedValues, RuleNode, find_operation
from whence.lrp.rules import Rule, product_rule
from whence.tracing.attention_layer import widen
from whence.tracing.tape import TapeStep


def find_wide_weight_matrix(node: RuleNode) -> Tensor:
    """Return the weight matrix of a linear layer, inputs x outputs, in float32 at least."""
    return widen(find_weight_matrix(node))


def find_weight_matrix(node: RuleNode) -> Tensor:
    """Return the weight matrix of a linear layer, inputs x outputs, in the model's dtype."""
    assert isinstance(node.step, TapeStep)
    op = find_operation(node.step)
    place, name = {"linear": (1, "weight"), "addmm": (2, "mat2")}.get(op or "", (1, "other"))
    weight = node.argument(place, name)
    if not isinstance(weight, Tensor):
        raise NotCapturable(
            f"The weights of {node.step.name} in {'.'.join(node.step.module)} depend on the input themselves; there "
            "is no rule for that. Use grad_x_input, which follows no operation, or leave_one_out."
        )
    scale = node.step.kwargs.get("alpha", 1) if op == "addmm" else 1
    return weight.T if op == "linear" else weight * scale if scale != 1 else weight


def find_bias(node: RuleNode) -> Tensor | None:
    """Return the bias of a linear layer, by whichever function it was called; None without one."""
    assert isinstance(node.step, TapeStep)
    if find_operation(node.step) == "linear":
        return node.constant(2, "bias")
    added = node.constant(0, "input") if find_operation(node.step) == "addmm" else None
    beta = node.step.kwargs.get("beta", 1)
    return None if added is None else added if beta == 1 else added * beta


def z_plus_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """z+: share relevance among the positive products x·w, taken together; the bias gets none."""
    (relevance,), (x,), (y,), weight = carried, node.given, node.made, find_weight_matrix(node)
    assert relevance is not None
    rows = node.sparse.rows(relevance)
    if rows is None:
        return [_compute_z_plus(node, relevance, x, y, weight)]
    result = relevance.new_zeros(x.shape)
    if len(rows):
        r, x_rows, y_rows = (tensor.flatten(0, -2)[rows] for tensor in (relevance, x, y))
        result.view(-1, x.shape[-1])[rows] = _compute_z_plus(node, r, x_rows, y_rows, weight)
    return [result]


def _compute_z_plus(
    node: RuleNode, relevance: Tensor, x: Tensor, y: Tensor, weight: Tensor
) -> Tensor:
    if share.can_multiply_in_bfloat16(x, weight):
        return share.compute_z_plus(
            relevance, x, weight, signed=node.stabiliser.exact, lately=node.lately
        )
    return _compute_z_plus_from_output(node, relevance, widen(x), widen(y), widen(weight))


def _compute_z_plus_from_output(
    node: RuleNode, relevance: Tensor, x: Tensor, y: Tensor, weight: Tensor
) -> Tensor:
    """Compute z+ by three matrix products instead of four: the fourth is the layer's output.

    With x⁺w⁺ + x⁻w⁻ = (x·w + |x|·|w|) / 2 the positive products need one more product, and the shares
    are (x ∘ S wᵀ + |x| ∘ S |w|ᵀ) / 2. Where almost no product is positive, both are differences of
    nearly equal numbers: values below their rounding count as zero, as they are if all four products
    are computed.
    """
    size, heavy, bias = x.abs(), weight.abs(), find_bias(node)
    total = size @ heavy
    agreed = y + total if bias is None else (y - bias).add_(total)
    noise = total.mul_(16 * torch.finfo(total.dtype).eps)
    quotient = node.divide(relevance, agreed.mul_(0.5))
    # Element-wise comparison is slow on a CPU, and seldom needed.
    if agreed.is_cuda or not bool((agreed - noise).min() > 0):
        quotient.masked_fill_(agreed <= noise, 0)
    back = (quotient @ weight.T).mul_(x)
    return back.addcmul_(size, quotient @ heavy.T).mul_(0.5)


def z_plus_by_sign_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """z+ by sign: positive and negative inputs each get the whole relevance (the authors' original LRP).

    Relevance doubles where both signs occur; this is the baseline as published, not a recommendation.
    """
    (relevance,), (x,), weight = carried, node.x, find_wide_weight_matrix(node)
    assert relevance is not None
    total = torch.zeros_like(x)
    for part, w in zip(_split_by_sign(x), _split_by_sign(weight), strict=True):
        total.addcmul_(part, node.divide(relevance, part @ w) @ w.T)
    return [total]


def _split_by_sign(tensor: Tensor) -> tuple[Tensor, Tensor]:
    return tensor.clamp(min=0), tensor.clamp(max=0)


def linear_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass quotients through a linear layer by its derivative, without running it again."""
    (quotient,) = carried
    assert quotient is not None
    return [share.multiply_by_transposed_weight(quotient, find_weight_matrix(node))]


def only_for_weights(rule: Rule) -> Rule:
    """Return a rule of products with a weight matrix that leaves any other product to the product rule."""

    def share_product(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
        factor = node.argument(1, "other")
        is_weight = isinstance(factor, Tensor) and factor.dim() == 2 and len(node.given) == 1
        return (rule if is_weight else product_rule)(node, carried)

    return share_product
