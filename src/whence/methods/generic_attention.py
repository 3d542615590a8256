"""Generic attention explainability (Chefer, Gur & Wolf 2021, ICCV): self-attention, and an encoder with a decoder."""

from typing import Literal

import torch
from torch import Tensor

from whence.capture import AttentionLayer, Sides, Trace, contract, gather
from whence.methods import Scores, method

_KIND: Literal["positive_gradient_x_attention"] = "positive_gradient_x_attention"


@method(
    "generic_attention",
    family="attention x gradient",
    needs={"attention", "attention_grad"},
    signed=False,
    unit="relative",
    cite="Chefer, Gur & Wolf 2021 (ICCV), arXiv:2103.15679",
    formula="s = e_i (I + E_{L-1}) ··· (I + E_start),  E_l = mean_h max(0, dy/dA_l ∘ A_l);  of an encoder-decoder "
    "s = e_i [R_qs, R_qq]: R_ss and R_qq as above, and R_qs ← R_qs + E_qq R_qs, then + N(R_qq)ᵀ E_qs N(R_ss)",
    cost="1 forward, 1 backward",
    misleads_when="evidence against the target is cut off at zero, and the row that is read keeps a 1 of its own",
)
def generic_attention(trace: Trace, *, start_layer: int = 0) -> Scores:
    """Roll out attention weighted by its positive gradient, so that it speaks of one class.

    In an encoder-decoder a source token has its entry of R_qs, by the paper's rules for cross attention as in its
    DETR, and a token of the decoder its entry of R_qq. N divides what a row gathered beyond itself by its sum; a row
    that gathered nothing stays as it is. There `start_layer` counts on both sides.
    """
    if trace.sides is not None:
        return _across(trace.sides.from_layer(start_layer), trace.rows)
    return trace.descend(
        start_layer, trace.rows, lambda layer, row: row + contract(layer, row, _KIND)
    )


def _across(sides: Sides, rows: Tensor) -> Tensor:
    """Return the row of R_qs and of R_qq.

    A decoder's tokens are few, and R_qq is made in full. The source's may be many, and R_ss is not: of what it is
    multiplied with, only a row is wanted.
    """
    source, row = sides.split(rows)
    one = torch.eye(row.shape[1]).to(row).expand(len(row), -1, -1)
    beyond = [torch.zeros_like(one)]  # R_qq - I, below the first layer and above each
    for layer in sides.decoder:
        beyond.append(beyond[-1] + gather(layer.own, one + beyond[-1], _KIND))
    for layer, gathered in zip(reversed(sides.decoder), reversed(beyond[1:]), strict=True):
        normed = one + _divided(gathered, gathered.sum(-1, keepdim=True))
        mixed = (normed @ row[:, :, None]).squeeze(2)  # row · N(R_qq)ᵀ
        source = source + contract(layer.cross, mixed, _KIND)
        row = row + contract(layer.own, row, _KIND)
    return torch.cat([_contextualised(source, sides.encoder), row], dim=1)


def _contextualised(row: Tensor, layers: list[AttentionLayer]) -> Tensor:
    """Return row · N(R_ss)."""
    sums = torch.zeros_like(row)  # of the rows of R_ss - I
    for layer in layers:
        sums = sums + gather(layer, (1 + sums)[:, :, None], _KIND).squeeze(2)
    shares = _divided(row, sums)
    beyond = torch.zeros_like(row)  # shares · (R_ss - I)
    for layer in reversed(layers):
        beyond = beyond + contract(layer, shares + beyond, _KIND)
    return row + beyond


def _divided(values: Tensor, sums: Tensor) -> Tensor:
    """Divide by sums of what is never negative: where one is zero, there was nothing to share."""
    return torch.where(sums > 0, values / sums, torch.zeros_like(values))
