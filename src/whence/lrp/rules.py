"""The rules: how one operation hands on what its output carries.

In tables that carry relevance, R goes in and R comes out. In tables that carry quotients (relevance over value,
which is a modified gradient), the same rules need no division and are named after what they do to a gradient.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.capture.tape.tape import Step
from whence.kernels import pointwise
from whence.lrp.moves import is_part
from whence.lrp.node import Carried, Node
from whence.lrp.ops import operation

Rule = Callable[[Node, Carried], list[Tensor | None]]


def cut(node: Node, carried: Carried) -> list[Tensor | None]:
    """Hand on nothing; whatever comes out of the operation counts as a constant from there on."""
    return [None for _ in node.given]


def unchanged(node: Node, carried: Carried) -> list[Tensor | None]:
    """Hand relevance on as it is: activations, norms, softmax, a factor that is a constant."""
    (relevance,) = (one for one in carried if one is not None)
    first = node.live.index(True)
    result: list[Tensor | None] = [None for _ in node.given]
    result[first] = relevance.sum_to_size(node.given[first].shape)
    return result


def pulled(node: Node, carried: Carried) -> list[Tensor | None]:
    """Pull back through the derivative: what is moved goes back to where it came from."""
    return node.pull(carried)


def copied(node: Node, carried: Carried) -> list[Tensor | None]:
    """Hand relevance back from a part or a joint of values to the values themselves."""
    if isinstance(node.step, Step) and is_part(node.step):
        # What is not in the part carries nothing, before and after; and a value lies as its other uses have it.
        back = zip(node.pull(carried), node.given, strict=True)
        return [None if r is None else node.stabiliser.copied(r, x) for r, x in back]
    pairs = zip(carried, node.made, strict=True)
    return node.pull([None if r is None else node.stabiliser.copied(r, y) for r, y in pairs])


def in_proportion(node: Node, carried: Carried) -> list[Tensor | None]:
    """Share relevance in proportion to what each input adds to the output."""
    quotients = [
        None if one is None else node.divide(one, y) for one, y in zip(carried, node.y, strict=True)
    ]
    return [
        None if one is None else x * one
        for x, one in zip(node.x, node.pull(quotients), strict=True)
    ]


def halves(node: Node, carried: Carried) -> list[Tensor | None]:
    """Give each factor of a product its proportional share, over the number of factors."""
    assert isinstance(node.step, Step)
    factors = sum(node.live)
    if operation(node.step) != "mul":
        return [None if one is None else one / factors for one in in_proportion(node, carried)]
    # What a factor adds to a product of numbers is the product, and so it is for the other one.
    (relevance,), (y,) = carried, node.made
    assert relevance is not None
    share = node.stabiliser.restored(relevance, y)
    share = share / factors if factors > 1 else share
    return [
        share.sum_to_size(x.shape) if live else None
        for x, live in zip(node.given, node.live, strict=True)
    ]


def _terms(node: Node) -> list[Tensor]:
    """Return the live terms of a sum, as they stand in it."""
    assert isinstance(node.step, Step)
    (y,), op, alpha = node.y, operation(node.step), node.argument(2, "alpha", 1)
    signs = {"sub": [1, -alpha], "rsub": [-alpha, 1]}.get(op or "", [1, alpha])
    return [(x * s).expand_as(y) for x, s in zip(node.x, signs, strict=True)]


def sum_in_proportion(node: Node, carried: Carried) -> list[Tensor | None]:
    """Share relevance between two terms in proportion to them; a constant term gets nothing."""
    if sum(node.live) < 2:
        return unchanged(node, carried)
    (relevance,), (y,) = carried, node.made
    assert relevance is not None
    quotient = node.divide(relevance, y)
    return [
        (term * quotient).sum_to_size(x.shape) for term, x in zip(_terms(node), node.x, strict=True)
    ]


def sum_normalised(node: Node, carried: Carried) -> list[Tensor | None]:
    """Share in proportion, then rescale both shares to totals that are positive and add up, per sample.

    The authors take the totals over the whole batch, so that one input changes the explanation of another.
    """
    if sum(node.live) < 2:
        return unchanged(node, carried)
    (relevance,), (y,) = carried, node.made
    assert relevance is not None and isinstance(node.step, Step)
    if operation(node.step) == "add" and node.argument(2, "alpha", 1) == 1:
        u, v = node.given
        fused = pointwise.normalised(
            u, v, y, relevance, node.samples, is_signed=node.stabiliser.exact
        )
        if fused is not None:
            return list(fused)
    quotient, whole = node.divide(relevance, y), node.per_sample(relevance)
    shares = [term * quotient for term in _terms(node)]
    totals = [node.per_sample(share) for share in shares]
    size = totals[0].abs() + totals[1].abs()
    return [
        (share * node.divide(node.divide(total.abs(), size) * whole, total)).sum_to_size(x.shape)
        for share, total, x in zip(shares, totals, node.x, strict=True)
    ]


def with_positions(rule: Rule) -> Rule:
    """Make a rule of sums let positions, constants that are added to tokens, take their share. It ends there."""

    def shared(node: Node, carried: Carried) -> list[Tensor | None]:
        terms = [node.argument(0, "input"), node.argument(1, "other")]
        added = [one for one in terms if isinstance(one, Tensor)]
        if len(node.given) != 1 or len(added) != 1 or not _is_position(added[0], node.given[0]):
            return rule(node, carried)
        (x,), fixed = node.x, added[0].to(node.x[0])
        both = [fixed if one is added[0] else x for one in terms]
        wider = replace(node, given=both, live=[True, True], gates=[False, False])
        return [part for part, one in zip(rule(wider, carried), both, strict=True) if one is x]

    return shared


def _is_position(added: Tensor, tokens: Tensor) -> bool:
    return tokens.dim() == 3 and added.dim() in (2, 3) and added.shape[-2:] == tokens.shape[-2:]


def box(node: Node, carried: Carried) -> list[Tensor | None]:
    """z^B: share at the pixels, which lie between the smallest and the largest of their picture."""
    (relevance,), (x,) = carried, node.x
    assert relevance is not None and isinstance(node.step, Step)
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


def slope(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through an activation: relevance stays, so the quotient is multiplied by y / x."""
    (quotient,), (x,), (y,) = carried, node.x, node.y
    assert quotient is not None
    return [quotient * torch.where(x == 0, torch.zeros_like(x), y / x)]


def pulled_halves(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through a product: the derivative, over the number of factors that are not constants."""
    factors = sum(node.live)
    return [None if one is None else one / factors for one in node.pull(carried)]


def past_the_gate(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through a product with an activation: that factor is a gate and counts as a constant."""
    gates = [live and gate for live, gate in zip(node.live, node.gates, strict=True)]
    if sum(node.live) < 2 or sum(gates) != 1:
        return pulled_halves(node, carried)
    return [None if gate else one for gate, one in zip(gates, node.pull(carried), strict=True)]


def numerator(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through a fraction: what it is divided by counts as a constant."""
    first, *rest = node.pull(carried)
    return [first, *(None for _ in rest)]


def centred(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through a layer norm whose deviation counts as a constant."""
    (quotient,), (x,) = carried, node.x
    assert quotient is not None
    weight = node.constant(2, "weight")
    dims = tuple(range(-len(node.argument(1, "normalized_shape")), 0))
    deviation = torch.sqrt(
        x.var(dims, unbiased=False, keepdim=True) + node.argument(4, "eps", 1e-5)
    )
    scaled = (quotient if weight is None else quotient * weight) / deviation
    return [scaled - scaled.mean(dims, keepdim=True)]


def rescaled(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through a root-mean-square norm whose root counts as a constant."""
    (quotient,), (x,) = carried, node.x
    assert quotient is not None
    weight = node.constant(2, "weight")
    dims = tuple(range(-len(node.argument(1, "normalized_shape")), 0))
    eps = node.argument(3, "eps") or torch.finfo(x.dtype).eps
    root = torch.sqrt(x.square().mean(dims, keepdim=True) + eps)
    return [(quotient if weight is None else quotient * weight) / root]
