"""Vectors that tokens send to each other within one layer, and what the layer gives without one of them."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from whence.capture.attention.layer import AttentionLayer, wide
from whence.capture.tape.tape import Step
from whence.core.errors import NotCapturable
from whence.lrp.attention import per_query_head
from whence.lrp.block import Block
from whence.lrp.decompose import DECOMPOSE, by_token, decompose, normalised
from whence.lrp.node import Node
from whence.lrp.stabiliser import STABILISERS

# How far vectors are followed: through the output matrix, then the skip connection and the norm after it, then the
# second skip connection and norm, past the feed-forward part.
To = Literal["sent", "mixed", "block"]

# Numbers held at a time while a block is run again without one token after another.
_AT_A_TIME = 1 << 24


@torch.no_grad()
def vectors(block: Block, layer: AttentionLayer, real: Tensor, to: To) -> Tensor:
    """Return what each token sends to each place, (sources, batch, places, features), without later biases."""
    tape, end = block.tape, block.sent if to == "sent" else block.mixed_normed
    given = {
        block.attention: wide(_terms(block, layer, slice(None))),
        block.hidden: by_token(tape.value(block.hidden)),
    }
    parts = decompose(tape, given, end, real=real, bias="none")
    if to == "block" and block.second is not None and block.second_norm is not None:
        value, signed = wide(tape.value(block.second)), STABILISERS["signed"]
        node = Node.at(tape, block.second_norm, samples=len(value), stabiliser=signed)
        # Some models (OPT) fold the tokens into the batch there.
        folded = parts.reshape(len(parts), *value.shape)
        parts = normalised(node, folded, value).reshape(parts.shape)
    return parts


@torch.no_grad()
def without_values(block: Block, layer: AttentionLayer) -> Iterator[Tensor]:
    """Yield, for each source, the block's output if its value vectors were zero: (batch, places, features).

    Attention stays as it is, so that the heads' output loses the one term that the token adds to it, and
    what comes after it is run again.
    """
    whole, steps = block.tape.value(block.attention), _between(block)

    def rerun(output: Tensor) -> Tensor:
        changed = {block.attention: output}
        for step in steps:
            result = step.run(
                [changed[n] if n in changed else block.tape.value(n) for n in step.inputs]
            )
            outputs = result if isinstance(result, list | tuple) else (result,)
            changed |= {
                n: one for n, one in zip(step.outputs, outputs, strict=True) if n is not None
            }
        return changed[block.output]

    # The feed-forward part is wider than the block's output.
    size = max(1, _AT_A_TIME // (8 * block.tape.value(block.output).numel()))
    for start in range(0, layer.v.shape[2], size):
        terms = _terms(block, layer, slice(start, start + size))
        yield from torch.func.vmap(rerun)(whole - terms)


@torch.no_grad()
def turned(block: Block, layer: AttentionLayer, real: Tensor) -> Tensor:
    """Return how far a layer's output turns without the values of each source, (batch, places, sources).

    1 - cos, as half the squared distance of unit vectors: that does not drown in rounding where they are close.
    """
    whole = _direction(block.tape.value(block.output))
    far = [(whole - _direction(one)).square().sum(-1) / 2 for one in without_values(block, layer)]
    return torch.stack(far, dim=-1) * real[:, None, :].to(whole)


def _direction(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(wide(vectors), dim=-1)


def _terms(block: Block, layer: AttentionLayer, sources: slice) -> Tensor:
    """Return what each source adds to the heads' output, A[i,j] v_j, as the model lays it out."""
    weights = layer.weights()[..., sources].movedim(-1, 0)[..., None]
    values = per_query_head(layer.v, layer.heads)[:, :, sources].movedim(2, 0)[:, :, :, None]
    return (weights * values).reshape(-1, *block.tape.value(block.attention).shape)


def _between(block: Block) -> list[Step]:
    """Return the steps that lead from the attention's output to the block's."""
    made, steps = {block.attention}, []
    started = False
    for step in block.tape.steps:
        if block.output in made:
            break
        started = started or block.attention in step.outputs
        if step.func is None and started:
            raise DECOMPOSE.no_rule(step)
        if not made.intersection(step.inputs):
            continue
        if None in step.outputs:
            # Places of the largest values, for instance: they would have to be chosen again.
            raise NotCapturable(
                f"{'.'.join(step.module)} chooses by value where tokens go ({step.name}), so that a layer cannot be "
                "run again from its middle. Use a gradient method, like grad_x_input, or leave_one_out."
            )
        steps.append(step)
        made |= {number for number in step.outputs if number is not None}
    return steps


def rolled_out(rows: Tensor, maps: list[Tensor], *, row_normalise: bool) -> Tensor:
    """Return rows · the product of the maps, last one first; a row of zeros stays where it is."""
    for one in reversed(maps):
        if row_normalise:
            total = one.sum(-1, keepdim=True)
            own = torch.eye(one.shape[-1], dtype=one.dtype, device=one.device).expand_as(one)
            one = torch.where(total > 0, one / total, own)
        rows = torch.einsum("bi,bij->bj", rows.to(one.dtype), one)
    return rows
