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
