"""The rules: how one operation hands on what its output carries.

In tables that carry relevance, R goes in and R comes out. In tables that carry quotients (relevance over value,
which is a modified gradient), the same rules need no division and are named after what they do to a gradient.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.capture.tape import Step
from whence.core.errors import NotCapturable
from whence.lrp.node import Carried, Node
from whence.lrp.ops import operation

Rule = Callable[[Node, Carried], list[Tensor | None]]


def cut(node: Node, carried: Carried) -> list[Tensor | None]:
    """Hand on nothing; whatever comes out of the operation counts as a constant from there on."""
    return [None for _ in node.x]


def unchanged(node: Node, carried: Carried) -> list[Tensor | None]:
    """Hand relevance on as it is: activations, norms, softmax, a factor that is a constant."""
    (relevance,) = (one for one in carried if one is not None)
    first = node.live.index(True)
    result: list[Tensor | None] = [None for _ in node.x]
    result[first] = relevance.sum_to_size(node.x[first].shape)
    return result


def pulled(node: Node, carried: Carried) -> list[Tensor | None]:
    """Pull back through the derivative: what is moved goes back to where it came from."""
    return node.pull(carried)


def copied(node: Node, carried: Carried) -> list[Tensor | None]:
    """Hand relevance back from a part or a joint of values to the values themselves."""
    pairs = zip(carried, node.y, strict=True)
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
    factors = sum(node.live)
    return [None if one is None else one / factors for one in in_proportion(node, carried)]


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
    (relevance,), (y,) = carried, node.y
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
    (relevance,), (y,) = carried, node.y
    assert relevance is not None
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
        if len(node.x) != 1 or len(added) != 1 or not _is_position(added[0], node.x[0]):
            return rule(node, carried)
        (x,), fixed = node.x, added[0].to(node.x[0])
        both = [fixed if one is added[0] else x for one in terms]
        wider = replace(node, x=both, live=[True, True], gates=[False, False])
        return [part for part, one in zip(rule(wider, carried), both, strict=True) if one is x]

    return shared


def _is_position(added: Tensor, tokens: Tensor) -> bool:
    return tokens.dim() == 3 and added.dim() in (2, 3) and added.shape[-2:] == tokens.shape[-2:]


def weights(node: Node) -> Tensor:
    """Return the matrix of a linear layer, inputs x outputs, however it was called."""
    assert isinstance(node.step, Step)
    op = operation(node.step)
    place, name = {"linear": (1, "weight"), "addmm": (2, "mat2")}.get(op or "", (1, "other"))
    weight = node.constant(place, name)
    if weight is None:
        raise NotCapturable(
            f"The weights of {node.step.name} in {'.'.join(node.step.module)} depend on the input themselves; there "
            "is no rule for that. Use attcat or another gradient method."
        )
    scale = node.step.kwargs.get("alpha", 1) if op == "addmm" else 1
    return weight.T if op == "linear" else weight * scale


def bias_of(node: Node) -> Tensor | None:
    """Return what a linear layer adds, however it was called."""
    assert isinstance(node.step, Step)
    if operation(node.step) == "linear":
        return node.constant(2, "bias")
    added = node.constant(0, "input")
    return None if added is None else added * node.step.kwargs.get("beta", 1)


def agreeing(node: Node, carried: Carried) -> list[Tensor | None]:
    """z+: share among the products x·w that are positive, taken together; the bias gets nothing."""
    (relevance,), (x,), weight = carried, node.x, weights(node)
    assert relevance is not None
    x_up, x_down, w_up, w_down = *_signs(x), *_signs(weight)
    quotient = node.divide(relevance, x_up @ w_up + x_down @ w_down)
    return [x_up * (quotient @ w_up.T) + x_down * (quotient @ w_down.T)]


def agreeing_apart(node: Node, carried: Carried) -> list[Tensor | None]:
    """z+ with positive and negative inputs each getting the whole: what the authors call original LRP.

    Relevance doubles wherever both are there; this is the baseline as published, not a recommendation.
    """
    (relevance,), (x,), weight = carried, node.x, weights(node)
    assert relevance is not None
    total = torch.zeros_like(x)
    for part, w in zip(_signs(x), _signs(weight), strict=True):
        total += part * (node.divide(relevance, part @ w) @ w.T)
    return [total]


def halves_or_agreeing(node: Node, carried: Carried) -> list[Tensor | None]:
    """Treat a product with a matrix of weights as the linear layer that it is, any other as a product."""
    return agreeing(node, carried) if _is_linear(node) else halves(node, carried)


def halves_or_agreeing_apart(node: Node, carried: Carried) -> list[Tensor | None]:
    """Do the same, by the rule of original LRP."""
    return agreeing_apart(node, carried) if _is_linear(node) else halves(node, carried)


def _is_linear(node: Node) -> bool:
    factor = node.argument(1, "other")
    return isinstance(factor, Tensor) and factor.dim() == 2 and len(node.x) == 1


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


def _signs(tensor: Tensor) -> tuple[Tensor, Tensor]:
    return tensor.clamp(min=0), tensor.clamp(max=0)


def slope(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through an activation: relevance stays, so the quotient is multiplied by y / x."""
    (quotient,), (x,), (y,) = carried, node.x, node.y
    assert quotient is not None
    return [quotient * torch.where(x == 0, torch.zeros_like(x), y / x)]


def weighted(node: Node, carried: Carried) -> list[Tensor | None]:
    """Quotients through a linear layer: its derivative, without running it again."""
    (quotient,) = carried
    assert quotient is not None
    return [quotient @ weights(node).T]


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
