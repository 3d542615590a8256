"""Which rows of the last block's output the prediction reads: found by the gradient, not by names."""

import torch
from torch import Tensor

from whence.capture.layer import AttentionLayer
from whence.capture.recorder import Recorder


def rows_read(logits: Tensor, recorder: Recorder, sources: int = 0) -> Tensor:
    """Ask the gradient which rows of the last block the head reads: those of the others are exactly zero.

    This runs back through the head and no further. It asks about all logits at once, in unequal proportions so that
    they do not cancel: which rows are read is a matter of the model, not of the target. Where dead units make every
    gradient zero all the same, a causal model counts as reading the last token, any other the first. The rows of a
    decoder stand after the `sources`, which have none.
    """
    output = recorder.last_output
    grad: Tensor | None = None
    if output is not None and output.requires_grad and logits.requires_grad:
        # What is left over of an answer in a text stands everywhere else in it.
        named = logits[:, :-1] if recorder.batch.items[0].rest else logits
        proportions = 1 / torch.arange(1.5, named.shape[1] + 1, device=logits.device)
        mixture = (named * proportions.to(logits.dtype)).sum()
        (grad,) = torch.autograd.grad(mixture, output, retain_graph=True, allow_unused=True)
    real = recorder.batch.real[:, sources:]
    read = torch.zeros_like(real) if grad is None else grad.ne(0).any(-1) & real
    blind = ~read.any(1)
    if blind.any():
        default = torch.zeros_like(read)
        default[torch.arange(len(real), device=real.device), default_row(recorder, sources)] = True
        read = torch.where(blind[:, None], default, read)
    weights = read.to(summed(logits))
    return torch.nn.functional.pad(weights / weights.sum(1, keepdim=True), (sources, 0))


def default_row(recorder: Recorder, sources: int = 0) -> Tensor:
    """Return the row that is read if nothing else is known: the last token's of a causal model, else the first's."""
    real = recorder.batch.real[:, sources:]
    last = real.sum(1) - 1
    return last if sources or _is_causal(recorder.layers[-1], real) else torch.zeros_like(last)


def summed(logits: Tensor) -> torch.dtype:
    """Sums over many tokens need float32 at least, whatever the model computes in."""
    return torch.promote_types(logits.dtype, torch.float32)


@torch.no_grad()
def _is_causal(layer: AttentionLayer, real: Tensor) -> bool:
    first = torch.zeros(1, dtype=torch.long, device=real.device)
    return real.shape[1] > 1 and bool(layer.weights(first)[..., 1:].eq(0).all())
