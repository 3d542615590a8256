"""Tape recordings of small modules, and relevance propagated through them."""

from contextlib import ExitStack

import torch
from torch import nn

from whence.lrp.node import STABILISERS
from whence.lrp.propagate import propagate_tape
from whence.tracing.tape import Tape


def record(module, x):
    """Run a module under a tape; return the tape, the number of its output and the output."""
    module.requires_grad_(False)
    x = x.detach().requires_grad_()
    with ExitStack() as stack:
        tape = Tape()
        tape.watch_modules(module, stack)
        stack.enter_context(tape)
        tape.note(x)
        output = module(x)
        return tape, tape.finish(output), output


def propagate_to_input(module, x, table, stabiliser="signed", seed=None):
    """Give relevance (or quotients) to a module's output; return what its input gets."""
    tape, outlet, output = record(module, x)
    seed = torch.ones_like(output) if seed is None else seed
    found = propagate_tape(
        tape,
        table,
        STABILISERS[stabiliser],
        seeds={outlet: seed.detach()},
        leaves=[0],
        requested=[0],
    )
    return found[0], output.detach()


class Do(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x)


class Hidden(torch.autograd.Function):
    """An operation that PyTorch's function modes do not see."""

    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad
