"""What an edge weighs: five measures of how much one token takes from another within a layer.

A measure is kept as the model has it, and beside it one factor for each row: the shares of a row's tokens and heads
are the measure times that factor. So a stack of maps is in memory once, whatever is asked of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence.capture import Trace
from whence.capture.attention.layer import AttentionLayer
from whence.core.errors import BadParameter, NotFinite
from whence.flow.cards import CARDS
from whence.flow.norms import norms, skip_norms
from whence.lrp import block, relevance, turned

Floats = NDArray[np.floating[Any]]
Name = Literal["attention", "norm", "value_zeroing", "gradient_x_attention", "relevance"]

NEEDS: dict[Name, frozenset[str]] = {
    "attention": frozenset({"attention"}),
    "norm": frozenset({"attention", "steps"}),
    "value_zeroing": frozenset({"attention", "steps"}),
    "gradient_x_attention": frozenset({"attention", "attention_grad"}),
    "relevance": frozenset({"attention", "attention_grad", "relevance"}),
}
NAMES: tuple[Name, ...] = get_args(Name)
# These ask nothing about a decision: they are there without a head, and the same whichever class is asked about.
CLASS_FREE: frozenset[Name] = frozenset({"attention", "norm", "value_zeroing"})

# The share of the skip connection in rollout, and so where attention is the weight.
ROLLOUT = 0.5


@dataclass(frozen=True, eq=False)
class Weights:
    """The edges of one input: what they weigh, and what goes past them by the skip connection.

    Of what stands above layer l at token i, `residual[l, i]` goes past the layer, and the rest is divided by
    `maps[l, :, i]`, whose entries add up to 1 (where the whole row is kept by the skip connection, they may be zero).
    """

    name: Name
    edge: Floats  # (layers, heads or 1, tokens, tokens): the measure itself, never negative
    scale: Floats  # (layers, tokens): what makes shares of a row's measures
    residual: Floats  # (layers, tokens)
    heads: int  # of the model, also where the weight sees them all together
    per_head: bool
    note: str  # what weight and skip connection are, in a sentence or two

    @property
    def layers(self) -> int:
        return len(self.edge)

    @property
    def tokens(self) -> int:
        return int(self.edge.shape[-1])

    @property
    def maps(self) -> Floats:
        """Write the shares out, (layers, heads or 1, tokens, tokens); this is a second stack of maps."""
        return self.edge * self.scale[:, None, :, None]

    @cached_property
    def together(self) -> Floats:
        """The measures of all heads added up, (layers, tokens, tokens), in float64."""
        return np.stack([one.sum(axis=0, dtype=np.float64) for one in self.edge])


def weights(trace: Trace, name: Name, residual: float | None = None, row: int = 0) -> Weights:
    """Return what the edges of one input of a trace weigh; NEEDS says what the trace must hold.

    With `residual`, that share goes past every layer, whatever the weight's own would be.
    """
    if name not in NAMES:
        raise BadParameter(f"There is no edge weight {name!r}. There are: {', '.join(NAMES)}.")
    if name == "attention":
        return attention_weights(attention_maps(trace, row), residual, _head_counts(trace))
    _check_share(residual)
    if name == "norm":
        edge = _measured(trace, row, lambda layer: norms(trace, layer, row))
        own = np.stack([skip_norms(trace, layer, row).cpu().numpy() for layer in trace.layers])
        return _weighed(name, edge, residual, trace, skip=own[:, : edge.shape[-1]])
    if name == "value_zeroing":
        edge = _measured(
            trace, row, lambda layer: turned(block(trace, layer), layer, trace.real)[row][None]
        )
        return _weighed(name, edge, residual, trace, skip=None)
    edge = _measured(trace, row, lambda layer: _positive(trace, layer, name, row))
    # The skip connection has a 1 in each row of I + mean over heads; added up over heads, as many as there are.
    ones = np.asarray(_head_counts(trace), dtype=np.float64)[:, None]
    return _weighed(name, edge, residual, trace, skip=ones)


def attention_maps(trace: Trace, row: int = 0) -> Floats:
    """Return the attention of one input of a trace, (layers, heads, tokens, tokens), padding cut off.

    Where layers differ in their number of heads, the missing ones attend to nothing.
    """
    return _measured(trace, row, lambda layer: layer.map()[row])


def attention_weights(
    maps: Floats, residual: float | None = None, heads: list[int] | None = None
) -> Weights:
    """Weigh edges by attention alone, (layers, heads, tokens, tokens), each head counting the same.

    A row that does not add up to 1, where a model lets attention go to no token at all, loses what is missing.
    """
    _check_share(residual)
    layers, most, length = maps.shape[:3]
    counts = np.asarray(heads or [most] * layers, dtype=np.float64)
    share = np.full((layers, length), ROLLOUT if residual is None else residual)
    share[_row_sums("attention", maps) <= 0] = 1
    scale = np.repeat(1 / counts[:, None], length, axis=1)
    return Weights("attention", maps, scale, share, most, True, _note("attention", residual))


def _weighed(
    name: Name, edge: Floats, residual: float | None, trace: Trace, *, skip: Floats | None
) -> Weights:
    """Divide measures by the sum of their row; `skip` is what the skip connection holds against that sum."""
    total = _row_sums(name, edge)
    something = total > 0
    scale = np.divide(1, total, out=np.zeros_like(total), where=something)
    share = np.zeros_like(total)
    if residual is not None:
        share[:] = residual
    elif skip is not None:
        np.divide(skip, skip + total, out=share, where=something)
    share[~something] = 1
    heads, per_head = max(_head_counts(trace)), name != "value_zeroing"
    return Weights(name, edge, scale, share, heads, per_head, _note(name, residual))


def _row_sums(name: Name, edge: Floats) -> Floats:
    """Add up the measures of each row over heads and sources, (layers, tokens)."""
    total: Floats = edge.sum(axis=(1, 3), dtype=np.float64)
    if not np.isfinite(total).all():
        raise NotFinite(
            f"The edge weight {name!r} of this input is not a number somewhere. Load the model with "
            'dtype="float64", or take another weight.'
        )
    return total


@torch.no_grad()
def _positive(trace: Trace, layer: AttentionLayer, name: Name, row: int) -> Tensor:
    """Return what of attention, or of its relevance, times the gradient speaks for the target."""
    if name == "relevance":
        # The same walk as that of transformer_attribution, and shared with it.
        quotient = relevance(trace, "ours", "paper", unsigned=True).quotient(layer)
        tile = layer.weights_relevance(quotient)
    else:
        tile = layer.map()
    return tile.mul(layer.map_grad().to(tile.dtype)).clamp_(min=0)[row]


def _measured(trace: Trace, row: int, measure: Callable[[AttentionLayer], Tensor]) -> Floats:
    """Measure layer after layer, (heads, places, places), and keep the results as one array without padding."""
    length, stack = int(trace.real[row].sum()), np.zeros(0)
    for index, layer in enumerate(trace.layers):
        part = measure(layer).detach()[:, :length, :length]
        wide = part.to(torch.promote_types(part.dtype, torch.float32)).cpu().numpy()
        if not index:
            heads = 1 if len(part) < layer.heads else max(_head_counts(trace))
            stack = np.zeros((len(trace.layers), heads, length, length), dtype=wide.dtype)
        stack[index, : len(wide)] = wide
    return stack


def _head_counts(trace: Trace) -> list[int]:
    return [layer.heads for layer in trace.layers]


def _check_share(residual: float | None) -> None:
    if residual is not None and not 0 <= residual <= 1:
        raise BadParameter(f"The share of the skip connection is from 0 to 1, not {residual!r}.")


def _note(name: Name, residual: float | None) -> str:
    card = CARDS[name]
    skip = card.skip if residual is None else f"{residual:.0%} of what arrives goes past each layer"
    return f"{card.summary} Skip connection: {skip}."


"""What each edge weight measures, what its skip connection is, and where it misleads: the cards of the help page."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """The facts of one edge weight."""

    title: str
    summary: str  # one sentence
    formula: str
    skip: str  # where the share that goes past a layer comes from
    equals: str  # the method that the tokens' shares equal, or that there is none
    cost: str
    cite: str
    misleads_when: str


CARDS: dict[str, Card] = {
    "attention": Card(
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
    "norm": Card(
        title="Norm",
        summary="An edge weighs the length of the vector that its head adds.",
        formula="C[h,i,j] ∝ ‖A[h,i,j] f_h(x_j)‖₂,  f_h: values through the output matrix",
        skip="measured, ‖x_i‖ / (‖x_i‖ + Σ of the norms)",
        equals="none: the methods norm and globenc add the heads' vectors up before they measure them",
        cost="1 forward, 1 decomposition of every layer",
        cite="Kobayashi et al. 2020, arXiv:2004.10102",
        misleads_when="vectors that cancel out count twice instead of not at all; it knows no class",
    ),
    "value_zeroing": Card(
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
    "gradient_x_attention": Card(
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
    "relevance": Card(
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


"""How long the vectors are that each head moves from token to token, and the one that the skip connection moves."""

import torch
from torch import Tensor

from whence.capture import Trace
from whence.capture.attention.layer import AttentionLayer, wide
from whence.lrp import Block, block, decompose
from whence.lrp.attention import per_query_head
from whence.lrp.ops import operation

# Operations that treat every place alike: behind them a vector is as long wherever it is sent to.
_ALIKE = frozenset({"linear", "addmm", "move", "dropout"})

# Numbers held at a time where vectors are followed to every place.
_AT_A_TIME = 1 << 24


@torch.no_grad()
def norms(trace: Trace, layer: AttentionLayer, row: int) -> Tensor:
    """Return ‖A[h,i,j] f_h(x_j)‖ of one input, (heads, places, sources)."""
    part = block(trace, layer)
    if _between(part) <= _ALIKE:
        return wide(layer.map()[row]) * _lengths(trace, part, layer)[:, row, None, :]
    return _followed(trace, part, layer, row)


def skip_norms(trace: Trace, layer: AttentionLayer, row: int) -> Tensor:
    """Return ‖x_i‖ of one input, (places,): the length of what the skip connection moves."""
    part = block(trace, layer)
    lengths: Tensor = wide(part.tape.value(part.hidden))[row].norm(dim=-1)
    return lengths


def _between(part: Block) -> set[str | None]:
    """Return the operations that lead from the heads' output to what is added to the skip connection."""
    made, found = {part.attention}, set[str | None]()
    for step in part.tape.steps:
        if part.sent in made:
            break
        if made.intersection(step.inputs):
            found.add(operation(step))
            made |= {number for number in step.outputs if number is not None}
    return found


def _lengths(trace: Trace, part: Block, layer: AttentionLayer) -> Tensor:
    """Return ‖f_h(x_j)‖, (heads, batch, sources): each value is put at its own place and sent on from there."""
    values = per_query_head(layer.v, layer.heads)
    alone = torch.diag_embed(values.movedim(1, -1)).movedim(-1, 0).movedim(-1, 2)
    shape = part.tape.value(part.attention).shape
    parts = {part.attention: wide(alone.reshape(-1, *shape))}
    sent = decompose(part.tape, parts, part.sent, real=trace.real, bias="none")
    lengths: Tensor = sent.reshape(layer.heads, *trace.real.shape, -1).norm(dim=-1)
    return lengths


def _followed(trace: Trace, part: Block, layer: AttentionLayer, row: int) -> Tensor:
    """Follow what each head moves from each source to each place, a few sources at a time."""
    values, maps = per_query_head(layer.v, layer.heads), layer.map()
    shape = part.tape.value(part.attention).shape
    found = torch.zeros_like(wide(maps[row]))
    size = max(1, _AT_A_TIME // part.tape.value(part.sent).numel())
    for head in range(layer.heads):
        for start in range(0, maps.shape[-1], size):
            chosen = slice(start, start + size)
            share = maps[:, head, :, chosen].movedim(-1, 0)[..., None]
            terms = share * values[:, head, chosen].movedim(1, 0)[:, :, None]
            alone = terms.new_zeros(len(terms), *values.shape)
            alone[:, :, head] = terms
            parts = {part.attention: wide(alone.reshape(-1, *shape))}
            sent = decompose(part.tape, parts, part.sent, real=trace.real, bias="none")
            reshaped = sent.reshape(len(sent), *trace.real.shape, -1)
            found[head, :, chosen] = reshaped[:, row].norm(dim=-1).T
    return found
