"""Generic attention (Chefer et al. 2021, ICCV): gradient-weighted attention rolled out; also encoder-decoders."""

from typing import Literal

import torch
from torch import Tensor

from whence.kernels.contract import contract, gather
from whence.methods import Scores, method
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.structure import EncoderDecoder
from whence.tracing.trace import Trace

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
        return _relate_decoder_to_source(trace.sides.from_layer(start_layer), trace.rows)
    return trace.descend(
        start_layer, trace.rows, lambda layer, row: row + contract(layer, row, _KIND)
    )


def _relate_decoder_to_source(sides: EncoderDecoder, rows: Tensor) -> Tensor:
    """Return the read row of the relevancies R_qs and R_qq.

    A decoder has few tokens, and R_qq is computed in full. The source may have many, and R_ss is not computed: only
    its product with one row is needed.
    """
    source, row = sides.split(rows)
    identity = torch.eye(row.shape[1]).to(row).expand(len(row), -1, -1)
    beyond = [torch.zeros_like(identity)]  # R_qq - I, below the first layer and above each
    for layer in sides.decoder:
        beyond.append(beyond[-1] + gather(layer.own, identity + beyond[-1], _KIND))
    for layer, gathered in zip(reversed(sides.decoder), reversed(beyond[1:]), strict=True):
        normed = identity + _divide_or_zero(gathered, gathered.sum(-1, keepdim=True))
        mixed = (normed @ row[:, :, None]).squeeze(2)  # row · N(R_qq)ᵀ
        source = source + contract(layer.cross, mixed, _KIND)
        row = row + contract(layer.own, row, _KIND)
    return torch.cat([_contextualise(source, sides.encoder), row], dim=1)


def _contextualise(row: Tensor, layers: list[AttentionLayer]) -> Tensor:
    """Return row · N(R_ss), the row in terms of the source's input tokens."""
    sums = torch.zeros_like(row)  # the sums of the rows of R_ss - I
    for layer in layers:
        sums = sums + gather(layer, (1 + sums)[:, :, None], _KIND).squeeze(2)
    shares = _divide_or_zero(row, sums)
    beyond = torch.zeros_like(row)  # shares · (R_ss - I)
    for layer in reversed(layers):
        beyond = beyond + contract(layer, shares + beyond, _KIND)
    return row + beyond


def _divide_or_zero(values: Tensor, sums: Tensor) -> Tensor:
    """Divide by non-negative sums; a quotient by zero is zero, as there was nothing to share."""
    return torch.where(sums > 0, values / sums, torch.zeros_like(values))
