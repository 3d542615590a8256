"""Other weights in the place of a model's own: the weight on places that may not be touched stays where it is.

A *part* is what a row of attention gives to the places that may be moved, as a distribution of its own: it adds up to
1, and is 0 elsewhere. Experiments exchange parts; the whole that they are put into keeps its sum. Whatever is drawn
at random is keyed by the example and the site: the batch changes nothing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.audit.replayed import Replayed
from whence.audit.subject import Subject
from whence.core.seed import generator

COPIES = 5  # of each row, answered at once

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray[Any, np.dtype[np.float64]]]


def part(weights: Tensor, movable: Tensor) -> Tensor:
    """Return what is on the movable places, (rows, tokens), scaled to add up to 1: `weights` (rows, ..., tokens).

    A row that has nothing there is as good as one that has the same everywhere.
    """
    free = _fitted(movable, weights)
    held = weights * free
    mass = held.sum(-1, keepdim=True)
    return torch.where(mass > 0, held / torch.where(mass > 0, mass, 1), uniform(free))


def framed(own: Tensor, movable: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function that puts parts into the place of the model's own: what may not be moved stays.

    `own` is (rows, channels, reads, tokens); parts and the weights made of them have copies, too: (rows, copies,
    channels, reads, tokens).
    """
    free = _fitted(movable, own)
    rest, mass = (own * (1 - free))[:, None], (own * free).sum(-1, keepdim=True)[:, None]
    return lambda parts: rest + mass * parts.to(own.dtype)


def uniform(free: Tensor) -> Tensor:
    """Return the part that is the same on all movable places; `free` (..., tokens) is 1 there, else 0."""
    return free / free.sum(-1, keepdim=True)


def last(free: Tensor) -> Tensor:
    """Return the part that is all on the last of the movable places."""
    after = free.flip(-1).cumsum(-1).flip(-1)
    return free * (after == 1)


def orders(subject: Subject, replayed: Replayed, count: int) -> Tensor:
    """Draw so many permutations of the movable places of each row, (rows, count, tokens); others stay in their place.

    One permutation is for all channels and reads of a row, and for all sites of an example.
    """
    rows, tokens = replayed.movable.shape
    index = torch.arange(tokens).expand(rows, count, tokens).clone()
    for row, number in enumerate(replayed.numbers):
        free = replayed.movable[row].nonzero().squeeze(1).cpu()
        draw = generator("permutation", subject.seed, subject.items[number].key)
        for copy in range(count):
            index[row, copy, free] = free[torch.from_numpy(draw.permutation(len(free)))]
    return index.to(replayed.own.device)


def permuted(subject: Subject, replayed: Replayed, count: int) -> tuple[Tensor, Tensor]:
    """Return so many random orders of each row's movable places, and the answers with weights in these orders.

    The orders are (rows, count, tokens), for `dealt`; the answers (rows, count, labels).
    """
    drawn = orders(subject, replayed, count)
    return drawn, answered(replayed, count, lambda some: dealt(replayed.own, drawn[:, some]))


def dealt(own: Tensor, index: Tensor) -> Tensor:
    """Return weights of which place t has what place index[t] had, (rows, copies, channels, reads, tokens)."""
    every = own[:, None].expand(-1, index.shape[1], -1, -1, -1)
    return every.gather(-1, index[:, :, None, None].expand(every.shape))


def answered(replayed: Replayed, count: int, weights: Callable[[slice], Tensor]) -> Tensor:
    """Return the answers for so many copies of each row, (rows, count, labels), a few copies at a time.

    `weights` gives those of some copies. To get a batch ready takes a forward pass for every copy that it can hold,
    so it holds few, and is asked several times.
    """
    found = []
    for start in range(0, count, replayed.copies):
        some = weights(slice(start, min(start + replayed.copies, count)))
        missing = replayed.copies - some.shape[1]
        full = torch.cat([some, some[:, -1:].expand(-1, missing, -1, -1, -1)], dim=1)
        found.append(replayed(full)[:, : some.shape[1]])
    return torch.cat(found, dim=1)


def drawn(subject: Subject, replayed: Replayed, purpose: str, count: int, draw: Draw) -> Tensor:
    """Draw a number for every movable place, channel and read, `count` times; 0 elsewhere.

    Returns (rows, count, channels, reads, tokens).
    """
    rows, channels, reads, tokens = replayed.own.shape
    found = np.zeros((rows, count, channels, reads, tokens))
    movable, shares = replayed.movable.cpu().numpy(), replayed.shares.cpu().numpy()
    for row, (number, site) in enumerate(zip(replayed.numbers, replayed.sites, strict=True)):
        source = generator(purpose, subject.seed, site.name, subject.items[number].key)
        real, free = np.flatnonzero(shares[row] > 0), np.flatnonzero(movable[row])
        values = draw(source, (count, channels, len(real), len(free)))
        found[row][:, :, real[:, None], free] = values
    wide = torch.promote_types(replayed.own.dtype, torch.float32)
    return torch.from_numpy(found).to(replayed.own.device, wide)


def random(subject: Subject, replayed: Replayed, count: int) -> Tensor:
    """Return parts drawn uniformly from all that there are, (rows, count, channels, reads, tokens)."""
    # Exponential variables, scaled to add up to 1, are uniform on the simplex.
    waits = drawn(
        subject, replayed, "random attention", count, np.random.Generator.standard_exponential
    )
    return part(waits, replayed.movable)


def _fitted(movable: Tensor, weights: Tensor) -> Tensor:
    """Return 1 and 0 for the movable places and the others, to be multiplied with weights."""
    between = (1,) * (weights.dim() - 2)
    return movable.reshape(len(movable), *between, movable.shape[1]).to(weights.dtype)


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
