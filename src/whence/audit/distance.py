"""How far apart two predictions are, and two distributions of attention: Jain and Wallace's conventions.

Everything is torch, differentiable, and over the last dimension. Logarithms are natural; 1e-10 is added to what is
under them, so that a weight of 0 is allowed; what rounding makes negative is 0.
"""

import torch
from torch import Tensor

from whence.core.types import Task

_UNDER_LOG = 1e-10


def tvd(p: Tensor, q: Tensor, task: Task) -> Tensor:
    """Return the total variation distance of two predictions: half of what all labels differ by, added up.

    Labels that do not exclude each other have a distribution each: theirs is the mean of the differences. So is that
    of a regression's value, which has no upper bound.
    """
    apart = (p - q).abs()
    return apart.sum(-1) / 2 if task == "single_label" else apart.mean(-1)


def kl(p: Tensor, q: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence Σ p (log(p + 1e-10) - log(q + 1e-10))."""
    p, q = p.clamp(0, 1), q.clamp(0, 1)
    terms = p * ((p + _UNDER_LOG).log() - (q + _UNDER_LOG).log())
    return terms.sum(-1).clamp(min=0)


def jsd(p: Tensor, q: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence, from 0 to ln 2 = 0.693: the mean divergence of both from their middle."""
    middle = (p + q) / 2
    return (kl(p, middle) + kl(q, middle)) / 2


def entropy(p: Tensor) -> Tensor:
    """Return the entropy -Σ p log(p + 1e-10), from 0 to the logarithm of the number of places."""
    return -(p * (p + _UNDER_LOG).log()).sum(-1).clamp(max=0)


def spread(values: Tensor, shares: Tensor) -> Tensor:
    """Return one number for each copy of a row, (rows, copies), of one for each channel and read of it.

    `values` is (rows, copies, channels, reads): the channels count the same, the reads by their `shares` of the
    prediction, (rows, reads).
    """
    return torch.einsum("rkcq,rq->rk", values, shares.to(values.dtype)) / values.shape[2]
