"""The twins of the relevance methods: forward in plain code, then back rule by rule, no autograd.

First the rules of Chefer, Gur & Wolf 2021 (CVPR) and of the LRP baseline they compare with, then those of
Achtibat et al. 2024 (ICML) and Ali et al. 2022 (ICML). Only the gradient of the attention, which
`transformer_attribution` multiplies with, comes from autograd through the stock model.
"""

from types import SimpleNamespace

import torch

from tests.reference.plain import Block, Linear, Norm, Plain, Tensor, plain
from tests.reference.twins import Eager, twin

EPSILON = 1e-9


# ----------------------------------------------------------------------------------------------------
# Chefer et al.: rules "ours" and "original" (their LRP baseline). They differ in linear layers and sums.


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Divide with the authors' stabiliser, which does not know signs: a / (b + 1e-9), and 0 where b is 0."""
    below = b + EPSILON
    below = torch.where(below == 0, EPSILON, below)
    return torch.where(b == 0, 0.0, a / below)


def through_linear(rules: str, layer: Linear, x: Tensor, relevance: Tensor) -> Tensor:
    """Share out by the positive products x w only (alpha = 1); the bias gets nothing."""
    x_up, x_down = x.clamp(min=0), x.clamp(max=0)
    w_up, w_down = layer.weight.clamp(min=0), layer.weight.clamp(max=0)
    z_up, z_down = x_up @ w_up.T, x_down @ w_down.T
    if rules == "ours":
        z_up = z_down = z_up + z_down
    # "original" normalises both parts separately: relevance doubles wherever there are both.
    return x_up * (divide(relevance, z_up) @ w_up) + x_down * (divide(relevance, z_down) @ w_down)


def through_sum(rules: str, u: Tensor, v: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Share out by u / (u + v) and v / (u + v), normalised over the whole tensor in "ours"."""
    share = divide(relevance, u + v)
    to_u, to_v = u * share, v * share
    if rules == "original":
        return to_u, to_v
    sum_u, sum_v, total = to_u.sum(), to_v.sum(), relevance.sum()
    size = sum_u.abs() + sum_v.abs()
    to_u = to_u * divide(divide(sum_u.abs(), size) * total, sum_u)
    to_v = to_v * divide(divide(sum_v.abs(), size) * total, sum_v)
    return to_u, to_v


def through_product(a: Tensor, b: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix product a b: each factor gets its share of all of it, and then half of that."""
    share = divide(relevance, a @ b)
    return a * (share @ b.mT) / 2, b * (a.mT @ share) / 2


def joined(x: Tensor, *relevances: Tensor) -> Tensor:
    """Join the relevance of a value that is used several times (or of one row that is picked)."""
    return x * sum(divide(relevance, x) for relevance in relevances)


def back_through_block(
    rules: str, block: Block, at: SimpleNamespace, relevance: Tensor
) -> tuple[Tensor, Tensor]:
    """Go from a layer's output to its input, and on the way to its attention (heads, rows, columns).

    Softmax, norms and activations pass relevance unchanged; dividing by the root of d does too.
    """

    def linear(layer: Linear, x: Tensor, relevance: Tensor) -> Tensor:
        return through_linear(rules, layer, x, relevance)

    to_mlp, to_skip = through_sum(rules, at.mlp, at.middle, relevance)
    to_mlp = linear(block.up, at.fed, linear(block.down, at.active, to_mlp))
    relevance = joined(at.middle, to_mlp, to_skip)

    to_attended, to_skip = through_sum(rules, at.attended, at.x, relevance)
    to_context = block.split(linear(block.out, at.context, to_attended))
    to_attention, to_value = through_product(at.attention, at.value, to_context)
    to_scores = to_attention
    if block.mask is not None:
        # Where the mask forbids to look there is no attention and so no relevance: any finite mask will do.
        mask = block.mask.clamp(min=-1e4).expand_as(at.scores)
        to_scores, _ = through_sum(rules, at.scores, mask, to_attention)
    to_query, to_key = through_product(at.query, at.key.mT, to_scores)
    pieces = [
        linear(layer, at.seen, torch.cat(list(piece), dim=-1))
        for layer, piece in (
            (block.query, to_query),
            (block.key, to_key.mT),
            (block.value, to_value),
        )
    ]
    # One matrix for all three adds them up by itself; three layers have read three copies.
    to_seen = sum(pieces) if block.fused else joined(at.seen, *pieces)
    return joined(at.x, to_seen, to_skip), to_attention


def chefer(run: Eager, rules: str) -> tuple[list[Tensor], Tensor]:
    """Return the relevance of every layer's attention, and that of the first layer's input."""
    model: Plain = plain(run.model, run.ids)
    at = model.run()
    relevance = torch.zeros_like(at.logits)
    relevance[run.target] = 1
    if model.pooler is None:  # GPT-2 classifies all rows and picks one logit row
        relevance = joined(at.logits, relevance)
    relevance = through_linear(rules, model.classifier, at.told, relevance)
    if model.pooler is not None:  # BERT picks one row and classifies that
        relevance = through_linear(rules, model.pooler, at.read, relevance)
        relevance = joined(at.read, relevance)
    everywhere = torch.zeros_like(at.last)
    everywhere[model.row] = relevance
    maps = []
    for block, layer in zip(reversed(model.blocks), reversed(at.layers), strict=True):
        everywhere, attention = back_through_block(rules, block, layer, everywhere)
        maps.insert(0, attention)
    return maps, everywhere


@twin("transformer_attribution", on=("bert", "gpt2"))
def transformer_attribution(
    run: Eager, row: int, *, rules="ours", start_layer=0, row_normalise=True, own="keep"
) -> list[float]:
    maps, _ = chefer(run, rules)
    product = torch.eye(len(run.ids), dtype=torch.float64)
    for relevance, grad in list(zip(maps, run.map_grads, strict=True))[start_layer:]:
        step = torch.eye(len(run.ids), dtype=torch.float64)
        step = step + (grad * relevance).clamp(min=0).mean(0)
        if row_normalise:
            step = step / step.sum(-1, keepdim=True)
        product = step @ product
    return with_own(product[row], row, own)


@twin("partial_lrp", on=("bert", "gpt2"))
def partial_lrp(run: Eager, row: int, *, rules="original", layer=-1, own="keep") -> list[float]:
    maps, _ = chefer(run, rules)
    return with_own(maps[layer].clamp(min=0).mean(0)[row], row, own)


@twin("full_lrp", on=("bert", "gpt2"))
def full_lrp(run: Eager, row: int, *, rules="original", own="keep") -> list[float]:
    _, start = chefer(run, rules)
    return with_own(start.sum(-1), row, own)


def with_own(scores: Tensor, row: int, own: str) -> list[float]:
    """Treat the entry of the row that is read: kept, set to zero, or to the smallest of all."""
    scores = scores.clone()
    if own != "keep":
        scores[row] = scores.min() if own == "min" else 0.0
    return scores.tolist()


# ----------------------------------------------------------------------------------------------------
# AttnLRP and CP-LRP as a gradient with other local slopes: relevance is value times this "slope".


def back_through_norm(norm: Norm, x: Tensor, slope: Tensor) -> Tensor:
    """The deviation is a constant; what is left is linear: centre, divide, scale."""
    return norm.centre(slope * norm.scale / norm.spread(x))


def back_through_attention(
    block: Block, at: SimpleNamespace, slope: Tensor, constant: bool
) -> Tensor:
    """Go from the joined heads to what attention sees; with `constant` maps through the values only."""
    to_query = torch.zeros_like(at.seen @ block.query.weight.T)
    to_key = torch.zeros_like(at.seen @ block.key.weight.T)
    to_value = torch.zeros_like(to_key)
    size = block.head_size
    for h, slope_h in enumerate(block.split(slope)):
        own = slice(h * size, (h + 1) * size)
        lent = slice(block.shared(h) * size, (block.shared(h) + 1) * size)
        attention, value, query, key = at.attention[h], at.value[h], at.query[h], at.key[h]
        if constant:
            to_value[:, lent] += attention.T @ slope_h
            continue
        # A product gives each factor half: context = attention value, scores = query key.
        to_value[:, lent] += attention.T @ slope_h / 2
        to_map = slope_h @ value.T / 2
        # Softmax by its true derivative: its first-order Taylor term.
        to_scores = attention * (to_map - (attention * to_map).sum(-1, keepdim=True))
        to_scores = to_scores / size**0.5
        to_query[:, own] += unturned(block, to_scores @ key / 2)
        to_key[:, lent] += unturned(block, to_scores.T @ query / 2)
    return to_query @ block.query.weight + to_key @ block.key.weight + to_value @ block.value.weight


def unturned(block: Block, slope: Tensor) -> Tensor:
    """Go back through the rotation of every place, a linear map."""
    if block.turn is None:
        return slope
    return torch.stack([block.turn[i].T @ slope[i] for i in range(len(slope))])


def back_through_mlp(block: Block, at: SimpleNamespace, slope: Tensor, constant: bool) -> Tensor:
    """Activations pass relevance unchanged: their slope is f(a) / a. A gate's product is halved."""
    ratio = block.activation(at.inner) / at.inner
    slope = slope @ block.down.weight
    if block.gate is None:
        return slope * ratio @ block.up.weight
    opened = block.activation(at.inner)
    if constant:  # CP-LRP: the gate is a constant
        return slope * opened @ block.up.weight
    to_gate = slope * block.up(at.fed) / 2 * ratio
    return slope * opened / 2 @ block.up.weight + to_gate @ block.gate.weight


def slope_of_tokens(model: Plain, target: int, constant: bool) -> Tensor:
    """Return the modified gradient of the target's logit at the rows of the embedding table."""
    at = model.run()
    slope_row = model.classifier.weight[target]
    if model.pooler is not None:
        slope_row = slope_row * at.told / at.pooled @ model.pooler.weight  # tanh: f(a) / a
    slope = torch.zeros_like(at.last)
    slope[model.row] = slope_row
    if model.last_norm is not None:
        slope = back_through_norm(model.last_norm, at.last, slope)
    for block, layer in zip(reversed(model.blocks), reversed(at.layers), strict=True):
        if block.norms_first:
            branch = back_through_mlp(block, layer, slope, constant)
            slope = slope + back_through_norm(block.norm2, layer.middle, branch)
            branch = back_through_attention(block, layer, slope @ block.out.weight, constant)
            slope = slope + back_through_norm(block.norm1, layer.x, branch)
        else:
            slope = back_through_norm(block.norm2, layer.sum2, slope)
            slope = slope + back_through_mlp(block, layer, slope, constant)
            slope = back_through_norm(block.norm1, layer.sum1, slope)
            slope = slope + back_through_attention(block, layer, slope @ block.out.weight, constant)
    if model.first_norm is not None:
        slope = back_through_norm(model.first_norm, at.embedded, slope)
    return slope


@twin("attn_lrp", on=("bert", "gpt2", "llama"))
def attn_lrp(run: Eager, row: int) -> list[float]:
    model = plain(run.model, run.ids)
    return (model.tokens * slope_of_tokens(model, run.target, constant=False)).sum(-1).tolist()


@twin("cp_lrp", on=("bert", "gpt2", "llama"))
def cp_lrp(run: Eager, row: int) -> list[float]:
    model = plain(run.model, run.ids)
    return (model.tokens * slope_of_tokens(model, run.target, constant=True)).sum(-1).tolist()


# What the methods can do beside their defaults: the method's name, the twin, and parameters for both.
VARIANTS = [
    ("transformer_attribution", transformer_attribution, {"start_layer": 1}),
    ("transformer_attribution", transformer_attribution, {"row_normalise": False, "own": "zero"}),
    ("transformer_attribution", transformer_attribution, {"rules": "original", "own": "min"}),
    ("partial_lrp", partial_lrp, {"rules": "ours", "layer": 0}),
    ("partial_lrp", partial_lrp, {"own": "zero"}),
    ("full_lrp", full_lrp, {"rules": "ours"}),
    ("full_lrp", full_lrp, {"own": "zero"}),
]
