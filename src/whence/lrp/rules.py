"""LRP rules for sums, products, activations, norms and pixels, on relevance or quotients (gradient rules).

In tables that carry relevance, R goes in and R comes out. In tables that carry quotients (relevance over
value, which is a modified gradient), the same rules need no division; they are the `..._gradient_rule`
functions.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.kernels import share as share_module
from whence.lrp.node import CarriedValues, RuleNode, find_operation, is_slicing
from whence.tracing.tape import TapeStep

Rule = Callable[[RuleNode, CarriedValues], list[Tensor | None]]


def stop_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass no relevance; the operation's output counts as a constant."""
    return [None for _ in node.given]


def identity_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass relevance unchanged: activations, norms, softmax, a product with a constant."""
    (relevance,) = (value for value in carried if value is not None)
    first = node.live.index(True)
    result: list[Tensor | None] = [None for _ in node.given]
    result[first] = relevance.sum_to_size(node.given[first].shape)
    return result


def gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pull carried values back through the derivative, which undoes moves such as reshapes."""
    return node.pull(carried)


def copy_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass relevance from a slice or a concatenation back to the values themselves."""
    if isinstance(node.step, TapeStep) and is_slicing(node.step):
        # Elements outside the slice carry zero before and after, and the whole value keeps the memory
        # layout of its other uses.
        back = zip(node.pull(carried), node.given, strict=True)
        return [None if r is None else node.stabiliser.copied(r, x) for r, x in back]
    pairs = zip(carried, node.made, strict=True)
    return node.pull([None if r is None else node.stabiliser.copied(r, y) for r, y in pairs])


def epsilon_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Share relevance in proportion to each input's contribution to the output."""
    quotients = [
        None if r is None else node.divide(r, y) for r, y in zip(carried, node.y, strict=True)
    ]
    return [None if r is None else x * r for x, r in zip(node.x, node.pull(quotients), strict=True)]


def product_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Give each factor of a product its proportional share, over the number of factors."""
    assert isinstance(node.step, TapeStep)
    factors = sum(node.live)
    if find_operation(node.step) != "mul":
        return [None if value is None else value / factors for value in epsilon_rule(node, carried)]
    # In an element-wise product the contribution of either factor is the whole product.
    (relevance,), (y,) = carried, node.made
    assert relevance is not None
    share = node.stabiliser.restored(relevance, y)
    share = share / factors if factors > 1 else share
    return [
        share.sum_to_size(x.shape) if live else None
        for x, live in zip(node.given, node.live, strict=True)
    ]


def _list_terms(node: RuleNode) -> list[Tensor]:
    """Return the terms of a sum with their signs, broadcast to its shape."""
    assert isinstance(node.step, TapeStep)
    (y,), op, alpha = node.y, find_operation(node.step), node.argument(2, "alpha", 1)
    signs = {"sub": [1, -alpha], "rsub": [-alpha, 1]}.get(op or "", [1, alpha])
    return [(x * s).expand_as(y) for x, s in zip(node.x, signs, strict=True)]


def sum_epsilon_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Share relevance between two terms in proportion to their values; a constant gets none."""
    if sum(node.live) < 2:
        return identity_rule(node, carried)
    (relevance,), (y,) = carried, node.made
    assert relevance is not None
    quotient = node.divide(relevance, y)
    return [
        (term * quotient).sum_to_size(x.shape)
        for term, x in zip(_list_terms(node), node.x, strict=True)
    ]


def sum_normalised_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Share relevance between two terms, rescaled to absolute totals that add up, for each sample.

    The authors take the totals over the whole batch, so that one input changes the explanation of
    another.
    """
    if sum(node.live) < 2:
        return identity_rule(node, carried)
    (relevance,), (y,) = carried, node.made
    assert relevance is not None and isinstance(node.step, TapeStep)
    if find_operation(node.step) == "add" and node.argument(2, "alpha", 1) == 1:
        u, v = node.given
        fused = share_module.share_sum_normalised(
            u, v, y, relevance, node.samples, is_signed=node.stabiliser.exact
        )
        if fused is not None:
            return list(fused)
    quotient, whole = node.divide(relevance, y), node.sum_per_sample(relevance)
    shares = [term * quotient for term in _list_terms(node)]
    totals = [node.sum_per_sample(share) for share in shares]
    size = totals[0].abs() + totals[1].abs()
    return [
        (share * node.divide(node.divide(total.abs(), size) * whole, total)).sum_to_size(x.shape)
        for share, total, x in zip(shares, totals, node.x, strict=True)
    ]


def with_position_share(rule: Rule) -> Rule:
    """Return a rule of sums in which position embeddings take a share, which goes no further."""

    def share_with_position(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
        terms = [node.argument(0, "input"), node.argument(1, "other")]
        added = [term for term in terms if isinstance(term, Tensor)]
        if len(node.given) != 1 or len(added) != 1 or not _is_position(added[0], node.given[0]):
            return rule(node, carried)
        (x,), fixed = node.x, added[0].to(node.x[0])
        both = [fixed if term is added[0] else x for term in terms]
        wider = replace(node, given=both, live=[True, True], gates=[False, False])
        return [part for part, term in zip(rule(wider, carried), both, strict=True) if term is x]

    return share_with_position


def _is_position(added: Tensor, tokens: Tensor) -> bool:
    return tokens.dim() == 3 and added.dim() in (2, 3) and added.shape[-2:] == tokens.shape[-2:]


def z_box_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """z^B: share relevance among pixels bounded by the smallest and largest value of their image."""
    (relevance,), (x,) = carried, node.x
    assert relevance is not None and isinstance(node.step, TapeStep)
    low, high = (edge.expand_as(x) for edge in (x.amin((1, 2, 3), True), x.amax((1, 2, 3), True)))
    weight = node.constant(1, "weight")
    assert weight is not None
    geometry = dict(
        zip(("stride", "padding", "dilation", "groups"), node.step.args[3:], strict=False)
    )
    geometry |= {
        key: value for key, value in node.step.kwargs.items() if key not in {"weight", "bias"}
    }
    with torch.enable_grad():
        edges = [edge.detach().requires_grad_() for edge in (x, low, high)]
        matrices = [weight, -weight.clamp(min=0), -weight.clamp(max=0)]
        pairs = zip(edges, matrices, strict=True)
        total = torch.stack([F.conv2d(e, w, None, **geometry) for e, w in pairs]).sum(0)
        shares = torch.autograd.grad(total, edges, node.divide(relevance, total.detach()))
    return [torch.stack([e.detach() * s for e, s in zip(edges, shares, strict=True)]).sum(0)]


def activation_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass quotients through an activation: relevance stays, so the quotient is multiplied by y / x."""
    (quotient,), (x,), (y,) = carried, node.x, node.y
    assert quotient is not None
    return [quotient * torch.where(x == 0, torch.zeros_like(x), y / x)]


def product_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass quotients through a product: the derivative over the number of live factors."""
    factors = sum(node.live)
    return [None if value is None else value / factors for value in node.pull(carried)]


def gate_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass quotients through a product with an activation, which counts as a constant gate."""
    gates = [live and gate for live, gate in zip(node.live, node.gates, strict=True)]
    if sum(node.live) < 2 or sum(gates) != 1:
        return product_gradient_rule(node, carried)
    return [None if gate else value for gate, value in zip(gates, node.pull(carried), strict=True)]


def division_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass quotients through a division, whose denominator counts as a constant."""
    first, *rest = node.pull(carried)
    return [first, *(None for _ in rest)]


def layer_norm_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass quotients through a layer norm, whose deviation counts as a constant."""
    (quotient,), (x,) = carried, node.x
    assert quotient is not None
    weight = node.constant(2, "weight")
    dims = tuple(range(-len(node.argument(1, "normalized_shape")), 0))
    deviation = torch.sqrt(
        x.var(dims, unbiased=False, keepdim=True) + node.argument(4, "eps", 1e-5)
    )
    scaled = (quotient if weight is None else quotient * weight) / deviation
    return [scaled - scaled.mean(dims, keepdim=True)]


def rms_norm_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Pass quotients through a root-mean-square norm, whose root counts as a constant."""
    (quotient,), (x,) = carried, node.x
    assert quotient is not None
    weight = node.constant(2, "weight")
    dims = tuple(range(-len(node.argument(1, "normalized_shape")), 0))
    eps = node.argument(3, "eps") or torch.finfo(x.dtype).eps
    root = torch.sqrt(x.square().mean(dims, keepdim=True) + eps)
    return [(quotient if weight is None else quotient * weight) / root]
