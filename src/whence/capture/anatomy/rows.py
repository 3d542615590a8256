"""Which rows of the last block's output the prediction reads: found by the gradient, not by names."""

import torch
from torch import Tensor

from whence.capture.anatomy.sides import UNATTENDING
from whence.capture.attention.layer import AttentionLayer
from whence.capture.recorder import Recorder
from whence.core.errors import NotCapturable


def rows_read(logits: Tensor, recorder: Recorder, sources: int = 0) -> Tensor | NotCapturable:
    """Ask the gradient which rows of the last block the head reads, (batch, rows): those of the others are zero.

    This runs back through the head and no further. It asks about all logits at once, in unequal proportions so that
    they do not cancel: which rows are read is a matter of the model, not of the target. The rows of a decoder stand
    after the `sources`, which have none. Blocks that put tokens before inputs are refused.
    """
    output = recorder.last_output
    grad: Tensor | None = None
    if output is not None and output.requires_grad and logits.requires_grad:
        # What is left over of an answer in a text stands everywhere else in it.
        named = logits[:, :-1] if recorder.batch.items[0].rest else logits
        parts = torch.arange(1.5, named.shape[1] + 1, device=logits.device).reciprocal_()
        parts = parts.to(logits.dtype).expand_as(named)
        (grad,) = torch.autograd.grad(named, output, parts, retain_graph=True, allow_unused=True)
    real = recorder.batch.real[:, sources:]
    if grad is None or output is None:
        return torch.zeros_like(real)
    if _is_swapped(named, output, real):
        return NotCapturable(
            "The blocks of the model put tokens before inputs, so that its rows cannot be told apart by input. "
            f"{UNATTENDING}"
        )
    return grad.ne(0).any(-1) & real


def _is_swapped(logits: Tensor, output: Tensor, real: Tensor) -> bool:
    """Say whether blocks put tokens before inputs, as FSMT's do: a row would be taken for another input's.

    As many inputs as tokens have the same shape both ways. Then the gradient of one input's logits tells: it is
    zero at all other inputs. Two inputs are asked, as one may be read at the place that means the same both ways.
    """
    inputs, tokens = real.shape
    if inputs != tokens or inputs == 1:
        return tuple(output.shape[:2]) == (tokens, inputs) and inputs != tokens
    for number in (0, 1):
        (grad,) = torch.autograd.grad(logits[number].sum(), output, retain_graph=True)
        first, second = grad.ne(0).any(-1).nonzero().unbind(1)
        if bool((first != number).any()) and bool((second == number).all()):
            return True
    return False


def row_weights(
    read: Tensor, dtype: torch.dtype, recorder: Recorder, sources: int = 0, *, blind: bool
) -> Tensor:
    """Return the weights of the rows that are read, (batch, tokens), adding up to 1.

    Where dead units make every gradient zero all the same, the model is `blind` to what it reads: a causal model
    counts as reading the last token, any other the first.
    """
    if blind:
        real = recorder.batch.real[:, sources:]
        default = torch.zeros_like(read)
        default[torch.arange(len(real), device=real.device), default_row(recorder, sources)] = True
        read = torch.where(read.any(1, keepdim=True), read, default)
    weights = read.to(dtype)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.nn.functional.pad(weights, (sources, 0)) if sources else weights


def default_row(recorder: Recorder, sources: int = 0) -> Tensor:
    """Return the row that is read if nothing else is known: the last token's of a causal model, else the first's."""
    real = recorder.batch.real[:, sources:]
    last = real.sum(1) - 1
    return last if sources or _is_causal(recorder.layers[-1], real) else torch.zeros_like(last)


def waited_for(logits: Tensor, read: Tensor | None) -> tuple[bool, bool]:
    """Say whether all logits are finite, and whether some input has no row that is read: one wait for the device."""
    logits = logits.detach()
    facts = [(logits - logits).eq(0).all()]  # half the work of isfinite(), which is four operations
    if read is not None:
        facts.append(read.any(1).all())
    fine, *seeing = torch.stack(facts).tolist()
    return bool(fine), not all(seeing)


def summed(logits: Tensor) -> torch.dtype:
    """Sums over many tokens need float32 at least, whatever the model computes in."""
    return torch.promote_types(logits.dtype, torch.float32)


@torch.no_grad()
def _is_causal(layer: AttentionLayer, real: Tensor) -> bool:
    first = torch.zeros(1, dtype=torch.long, device=real.device)
    return real.shape[1] > 1 and bool(layer.weights(first)[..., 1:].eq(0).all())
