"""Edge weights of the flow graph (attention, norm, value zeroing, gradient, relevance), with a help card each.

A measure is kept as the model has it, and beside it one factor for each row: the shares of a row's tokens
and heads are the measure times that factor. So a stack of maps is in memory only once.
The cards hold the facts of each measure for the help page.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence.core.errors import BadParameter, NotFinite
from whence.lrp.attention_rules import repeat_for_query_heads
from whence.lrp.decompose import (
    TransformerBlock,
    compute_value_zeroing,
    decompose,
    find_transformer_block,
)
from whence.lrp.node import find_operation
from whence.lrp.propagate import compute_relevance
from whence.tracing.attention_layer import AttentionLayer, widen
from whence.tracing.trace import Trace

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class EdgeWeightCard:
    """The facts of one edge weight, for the help page."""

    title: str
    summary: str  # one sentence
    formula: str
    skip: str  # the origin of the skip connection's share
    equals: str  # the method whose scores equal the tokens' shares, or "none"
    cost: str
    cite: str
    misleads_when: str


EDGE_WEIGHT_CARDS: dict[str, EdgeWeightCard] = {
    "attention": EdgeWeightCard(
        title="Attention",
        summary="An edge weighs what its head attends, and all heads count the same.",
        formula="C[h,i,j] = A[h,i,j] / heads",
        skip="half of what arrives goes past each layer, a convention and not a measurement",
        equals="rollout",
        cost="1 forward",
        cite="Abnar & Zuidema 2020, arXiv:2005.00928",
        misleads_when="a weight says how much is looked at, not how large what is fetched is, nor whether it is "
        "used; it knows no class",
    ),
    "norm": EdgeWeightCard(
        title="Norm",
        summary="An edge weighs the length of the vector that its head adds.",
        formula="C[h,i,j] ∝ ‖A[h,i,j] f_h(x_j)‖₂,  f_h: values through the output matrix",
        skip="measured, ‖x_i‖ / (‖x_i‖ + Σ of the norms)",
        equals="none: the methods norm and globenc add the heads' vectors up before they measure them",
        cost="1 forward, 1 decomposition of every layer",
        cite="Kobayashi et al. 2020, arXiv:2004.10102",
        misleads_when="vectors that cancel out count twice instead of not at all; it knows no class",
    ),
    "value_zeroing": EdgeWeightCard(
        title="Value zeroing",
        summary="An edge weighs how far the layer's output turns without the token's values, all heads together.",
        formula="C[i,j] ∝ 1 - cos(h_i, h_i if the values of j were zero)",
        skip="none, for the token's own entry is part of the map",
        equals="value_zeroing",
        cost="1 forward, and the upper part of each layer again for each token",
        cite="Mohebbi et al. 2023 (EACL), arXiv:2301.12971",
        misleads_when="a vector turns where nobody looks; what a token keeps without attention is not in it; it "
        "knows no class",
    ),
    "gradient_x_attention": EdgeWeightCard(
        title="Gradient x attention",
        summary="An edge weighs attention times the gradient of the target, where that is positive.",
        formula="C[h,i,j] ∝ max(0, A[h,i,j] · dy/dA[h,i,j])",
        skip="1 / (1 + Σ_j of the heads' mean), so that a layer that does little is gone past",
        equals="none: generic_attention does not normalise its rows",
        cost="1 forward, 1 backward",
        cite="Chefer, Gur & Wolf 2021 (ICCV), arXiv:2103.15679",
        misleads_when="evidence against the target is cut off at zero, and a gradient says what a small "
        "change would do",
    ),
    "relevance": EdgeWeightCard(
        title="Relevance",
        summary="An edge weighs the relevance of the attention weight times its gradient, where that is positive.",
        formula="C[h,i,j] ∝ max(0, R[h,i,j] · dy/dA[h,i,j])",
        skip="1 / (1 + Σ_j of the heads' mean), so that a layer that does little is gone past",
        equals="transformer_attribution",
        cost="1 forward, 1 backward, 1 relevance pass",
        cite="Chefer, Gur & Wolf 2021 (CVPR), arXiv:2012.09838",
        misleads_when="evidence against the target is cut off at zero, and the row that is read keeps most for "
        "itself",
    ),
}

# Operations that treat every position alike: the length of a vector does not depend on its target.
_POSITION_FREE_OPS = frozenset({"linear", "addmm", "move", "dropout"})

# Elements in memory at a time while vectors are followed to every position.
_MAX_NUMBERS = 1 << 24


@torch.no_grad()
def compute_edge_norms(trace: Trace, layer: AttentionLayer, row: int) -> Tensor:
    """Return ‖A[h,i,j] f_h(x_j)‖ of one input, (heads, tokens, sources)."""
    part = find_transformer_block(trace, layer)
    values, maps = repeat_for_query_heads(layer.v, layer.heads), layer.map()
    shape = part.tape.value(part.attention).shape

    def measure_sent(alone: Tensor) -> Tensor:
        """Return the lengths of what each of some outputs of the heads becomes, (outputs, tokens)."""
        parts = {part.attention: widen(alone.reshape(-1, *shape))}
        sent = decompose(part.tape, parts, part.sent, real=trace.real, bias="none")
        lengths: Tensor = sent.reshape(len(alone), *trace.real.shape, -1)[:, row].norm(dim=-1)
        return lengths

    if _find_operations_between(part) <= _POSITION_FREE_OPS:
        # Each value is sent on from its own position, and weighed afterwards.
        alone = torch.diag_embed(values.movedim(1, -1)).movedim(-1, 0).movedim(-1, 2)
        return widen(maps[row]) * measure_sent(alone)[:, None, :]
    lengths = torch.zeros_like(widen(maps[row]))
    size = max(1, _MAX_NUMBERS // part.tape.value(part.sent).numel())
    for head in range(layer.heads):
        for start in range(0, maps.shape[-1], size):
            sources = slice(start, start + size)
            share = maps[:, head, :, sources].movedim(-1, 0)[..., None]
            terms = share * values[:, head, sources].movedim(1, 0)[:, :, None]
            alone = terms.new_zeros(len(terms), *values.shape)
            alone[:, :, head] = terms
            lengths[head, :, sources] = measure_sent(alone).T
    return lengths


def _measure_skip_norms(trace: Trace, row: int) -> Floats:
    """Return ‖x_i‖ of one input, (layers, tokens): the length of the skip connection's vector."""
    parts = [find_transformer_block(trace, layer) for layer in trace.layers]
    hidden = [widen(part.tape.value(part.hidden))[row].detach() for part in parts]
    return np.stack([vectors.norm(dim=-1).cpu().numpy() for vectors in hidden])


def _find_operations_between(part: TransformerBlock) -> set[str | None]:
    """Return the operations between the heads' output and the sum with the skip connection."""
    derived, operations = {part.attention}, set[str | None]()
    for step in part.tape.steps:
        if part.sent in derived:
            break
        if derived.intersection(step.inputs):
            operations.add(find_operation(step))
            derived |= {number for number in step.outputs if number is not None}
    return operations


EdgeWeightName = Literal["attention", "norm", "value_zeroing", "gradient_x_attention", "relevance"]

EDGE_WEIGHT_NEEDS: dict[EdgeWeightName, frozenset[str]] = {
    "attention": frozenset({"attention"}),
    "norm": frozenset({"attention", "steps"}),
    "value_zeroing": frozenset({"attention", "steps"}),
    "gradient_x_attention": frozenset({"attention", "attention_grad"}),
    "relevance": frozenset({"attention", "attention_grad", "relevance"}),
}
EDGE_WEIGHT_NAMES: tuple[EdgeWeightName, ...] = get_args(EdgeWeightName)
# Weights that do not depend on the target: a model without a head has them, too.
CLASS_FREE_WEIGHTS: frozenset[EdgeWeightName] = frozenset({"attention", "norm", "value_zeroing"})

# The share of the skip connection in rollout, and so for the weight "attention".
ROLLOUT_RESIDUAL = 0.5


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """The edge weights of one input, and the shares of the skip connections.

    Of the flow above layer l at token i, `residual[l, i]` goes past the layer, and the rest is divided
    by `maps[l, :, i]`, whose entries add up to 1 (or are zero if the skip connection keeps it all).
    """

    name: EdgeWeightName
    edge: Floats  # (layers, heads or 1, tokens, tokens): the measure itself, never negative
    scale: Floats  # (layers, tokens): the factor from a row's measures to shares
    residual: Floats  # (layers, tokens)
    heads: int  # of the model, also if the weight has them all together
    per_head: bool
    note: str  # weight and skip connection, in a sentence or two

    @property
    def layers(self) -> int:
        return len(self.edge)

    @property
    def tokens(self) -> int:
        return int(self.edge.shape[-1])

    @property
    def maps(self) -> Floats:
        """The shares, (layers, heads or 1, tokens, tokens), as a second stack of maps in memory."""
        return self.edge * self.scale[:, None, :, None]

    @cached_property
    def head_sum(self) -> Floats:
        """The sum of the measures over heads, (layers, tokens, tokens), in float64."""
        return np.stack([layer.sum(axis=0, dtype=np.float64) for layer in self.edge])


def compute_edge_weights(
    trace: Trace, name: EdgeWeightName, residual: float | None = None, row: int = 0
) -> EdgeWeights:
    """Return the edge weights of one input of a trace; EDGE_WEIGHT_NEEDS lists the trace's `needs`.

    `residual` replaces the weight's own share of the skip connection in every layer.
    """
    if name not in EDGE_WEIGHT_NAMES:
        raise BadParameter(
            f"There is no edge weight {name!r}. There are: {', '.join(EDGE_WEIGHT_NAMES)}."
        )
    heads = [layer.heads for layer in trace.layers]
    if name == "attention":
        return compute_attention_weights(collect_attention_maps(trace, row), residual, heads)
    _check_residual(residual)
    skip: Floats | None = None  # the skip connection's measure
    if name == "norm":
        edge = _measure_layers(trace, row, lambda layer: compute_edge_norms(trace, layer, row))
        skip = _measure_skip_norms(trace, row)[:, : edge.shape[-1]]
    elif name == "value_zeroing":
        edge = _measure_layers(
            trace,
            row,
            lambda layer: compute_value_zeroing(
                find_transformer_block(trace, layer), layer, trace.real
            )[row][None],
        )
    else:
        edge = _measure_layers(
            trace, row, lambda layer: _compute_positive_product(trace, layer, name, row)
        )
        # It is a 1 in each row of I + mean over heads, so `heads` in the sum over heads.
        skip = np.asarray(heads, dtype=np.float64)[:, None]
    total = _sum_rows(name, edge)
    something = total > 0
    scale = np.divide(1, total, out=np.zeros_like(total), where=something)
    share = np.zeros_like(total)
    if residual is not None:
        share[:] = residual
    elif skip is not None:
        np.divide(skip, skip + total, out=share, where=something)
    share[~something] = 1
    per_head, note = name != "value_zeroing", _describe_weight(name, residual)
    return EdgeWeights(name, edge, scale, share, max(heads), per_head, note)


def collect_attention_maps(trace: Trace, row: int = 0) -> Floats:
    """Return the attention of one input of a trace, (layers, heads, tokens, tokens), padding cut off.

    If layers differ in their number of heads, the missing heads are zero.
    """
    return _measure_layers(trace, row, lambda layer: layer.map()[row])


def compute_attention_weights(
    maps: Floats, residual: float | None = None, heads: list[int] | None = None
) -> EdgeWeights:
    """Return edge weights from attention alone, (layers, heads, tokens, tokens), with equal heads.

    A row with a sum below 1, as in a model with attention sinks, loses the missing part of its flow.
    """
    _check_residual(residual)
    layers, most, length = maps.shape[:3]
    counts = np.asarray(heads or [most] * layers, dtype=np.float64)
    share = np.full((layers, length), ROLLOUT_RESIDUAL if residual is None else residual)
    share[_sum_rows("attention", maps) <= 0] = 1
    scale = np.repeat(1 / counts[:, None], length, axis=1)
    return EdgeWeights(
        "attention", maps, scale, share, most, True, _describe_weight("attention", residual)
    )


def _sum_rows(name: EdgeWeightName, edge: Floats) -> Floats:
    """Return the sum of each row's measures over heads and sources, (layers, tokens)."""
    total: Floats = edge.sum(axis=(1, 3), dtype=np.float64)
    if not np.isfinite(total).all():
        raise NotFinite(
            f"The edge weight {name!r} of this input is not a number somewhere. Load the model with "
            'dtype="float64", or take another weight.'
        )
    return total


@torch.no_grad()
def _compute_positive_product(
    trace: Trace, layer: AttentionLayer, name: EdgeWeightName, row: int
) -> Tensor:
    """Return the positive part of attention, or of its relevance, times the gradient."""
    if name == "relevance":
        # The same propagation as that of transformer_attribution, and shared with it.
        quotient = compute_relevance(trace, "ours", "paper", unsigned=True).quotient(layer)
        tile = layer.weights_relevance(quotient)
    else:
        tile = layer.map()
    return tile.mul(layer.map_grad().to(tile.dtype)).clamp_(min=0)[row]


def _measure_layers(trace: Trace, row: int, measure: Callable[[AttentionLayer], Tensor]) -> Floats:
    """Return a measure of each layer, (heads, tokens, tokens), as one array without padding."""
    length, stack = int(trace.real[row].sum()), np.zeros(0)
    for index, layer in enumerate(trace.layers):
        part = measure(layer).detach()[:, :length, :length]
        wide = widen(part).cpu().numpy()
        if not index:
            heads = 1 if len(part) < layer.heads else max(one.heads for one in trace.layers)
            stack = np.zeros((len(trace.layers), heads, length, length), dtype=wide.dtype)
        stack[index, : len(wide)] = wide
    return stack


def _check_residual(residual: float | None) -> None:
    if residual is not None and not 0 <= residual <= 1:
        raise BadParameter(f"The share of the skip connection is from 0 to 1, not {residual!r}.")


def _describe_weight(name: EdgeWeightName, residual: float | None) -> str:
    card = EDGE_WEIGHT_CARDS[name]
    skip = card.skip if residual is None else f"{residual:.0%} of what arrives goes past each layer"
    return f"{card.summary} Skip connection: {skip}."
