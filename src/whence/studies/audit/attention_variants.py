"""Attention for experiments: permuted, uniform, random, last token; predictions with it; TVD, KL, JSD, entropy.

The movable part of a row of attention is its weights on the positions that may change, normalised to add up
to 1 and 0 elsewhere. Experiments exchange movable parts; the weights on other positions stay, and the whole
row keeps its sum. Random draws are keyed by the example and the site, so the batch changes nothing.

Distances follow Jain and Wallace: torch, differentiable, over the last dimension; natural logarithms, with
1e-10 added under them so that a weight of 0 is allowed; negative rounding errors become 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.seed import build_generator
from whence.core.types import Task
from whence.studies.audit.subject import AuditSubject, ReplayBatch

_LOG_EPSILON = 1e-10


def tvd(p: Tensor, q: Tensor, task: Task) -> Tensor:
    """Return the total variation distance of two predictions: half the sum of |differences|.

    For labels that do not exclude each other, and for regression values, which have no upper bound, it is the mean of
    the |differences|.
    """
    apart = (p - q).abs()
    return apart.sum(-1) / 2 if task == "single_label" else apart.mean(-1)


def kl(p: Tensor, q: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence Σ p (log(p + 1e-10) - log(q + 1e-10))."""
    p, q = p.clamp(0, 1), q.clamp(0, 1)
    terms = p * ((p + _LOG_EPSILON).log() - (q + _LOG_EPSILON).log())
    return terms.sum(-1).clamp(min=0)


def jsd(p: Tensor, q: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence, from 0 to ln 2: the mean divergence from the midpoint."""
    middle = (p + q) / 2
    return (kl(p, middle) + kl(q, middle)) / 2


def entropy(p: Tensor) -> Tensor:
    """Return the entropy -Σ p log(p + 1e-10), from 0 to the logarithm of the number of positions."""
    return -(p * (p + _LOG_EPSILON).log()).sum(-1).clamp(max=0)


def average_reads(values: Tensor, shares: Tensor) -> Tensor:
    """Average (rows, copies, channels, reads) over channels, and over reads by their `shares`, (rows, reads)."""
    return torch.einsum("rkcq,rq->rk", values, shares.to(values.dtype)) / values.shape[2]


COPIES = 5  # copies of each row in a batch

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray[Any, np.dtype[np.float64]]]


def normalise_movable(weights: Tensor, movable: Tensor) -> Tensor:
    """Return the movable part of `weights` (rows, ..., tokens), adding up to 1; uniform where there is no weight."""
    free = _expand_movable(movable, weights)
    part = weights * free
    mass = part.sum(-1, keepdim=True)
    return torch.where(mass > 0, part / torch.where(mass > 0, mass, 1), build_uniform(free))


def build_inserter(own: Tensor, movable: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function that replaces the movable part of the model's own weights.

    `own` is (rows, channels, reads, tokens); the movable parts and the resulting weights have copies, too: (rows,
    copies, channels, reads, tokens). Weights on other positions stay.
    """
    free = _expand_movable(movable, own)
    rest, mass = (own * (1 - free))[:, None], (own * free).sum(-1, keepdim=True)[:, None]
    return lambda parts: rest + mass * parts.to(own.dtype)


def build_uniform(free: Tensor) -> Tensor:
    """Return the uniform movable part; `free` (..., tokens) is 1 at movable positions, else 0."""
    return free / free.sum(-1, keepdim=True)


def build_last_token(free: Tensor) -> Tensor:
    """Return the movable part with all weight on the last movable position."""
    after = free.flip(-1).cumsum(-1).flip(-1)
    return free * (after == 1)


def draw_permutations(subject: AuditSubject, replayed: ReplayBatch, count: int) -> Tensor:
    """Draw permutations of each example's movable positions, (rows, count, tokens), the same for all its sites."""
    rows, tokens = replayed.movable.shape
    index = torch.arange(tokens).expand(rows, count, tokens).clone()
    for row, number in enumerate(replayed.numbers):
        free = replayed.movable[row].nonzero().squeeze(1).cpu()
        draw = build_generator("permutation", subject.seed, subject.items[number].key)
        for copy in range(count):
            index[row, copy, free] = free[torch.from_numpy(draw.permutation(len(free)))]
    return index.to(replayed.own.device)


@torch.no_grad()
def replay_permutations(
    subject: AuditSubject, replayed: ReplayBatch, count: int
) -> tuple[Tensor, Tensor]:
    """Return permutations of each row, (rows, count, tokens), and how far they move its prediction (TVD), (rows, count)."""
    drawn = draw_permutations(subject, replayed, count)
    answers = replay_copies(
        replayed, count, lambda some: permute_weights(replayed.own, drawn[:, some])
    )
    return drawn, tvd(answers, replayed.base[:, None], subject.loaded.task)


def permute_weights(own: Tensor, index: Tensor) -> Tensor:
    """Give position t the weight of position index[t]: (rows, copies, channels, reads, tokens)."""
    copies = own[:, None].expand(-1, index.shape[1], -1, -1, -1)
    return copies.gather(-1, index[:, :, None, None].expand(copies.shape))


def replay_copies(replayed: ReplayBatch, count: int, weights: Callable[[slice], Tensor]) -> Tensor:
    """Return the predictions for `count` copies of each row, (rows, count, labels).

    `weights` returns the weights of a slice of copies. Preparing a batch takes a forward pass for every copy it can
    hold, so it holds few and is replayed several times.
    """
    predictions = []
    for start in range(0, count, replayed.copies):
        some = weights(slice(start, min(start + replayed.copies, count)))
        missing = replayed.copies - some.shape[1]
        full = torch.cat([some, some[:, -1:].expand(-1, missing, -1, -1, -1)], dim=1)
        predictions.append(replayed(full)[:, : some.shape[1]])
    return torch.cat(predictions, dim=1)


def draw_values(
    subject: AuditSubject, replayed: ReplayBatch, purpose: str, count: int, draw: Draw
) -> Tensor:
    """Draw numbers for all movable positions, (rows, count, channels, reads, tokens); they are 0 elsewhere."""
    rows, channels, reads, tokens = replayed.own.shape
    result = np.zeros((rows, count, channels, reads, tokens))
    movable, shares = replayed.movable.cpu().numpy(), replayed.shares.cpu().numpy()
    for row, (number, site) in enumerate(zip(replayed.numbers, replayed.sites, strict=True)):
        source = build_generator(purpose, subject.seed, site.name, subject.items[number].key)
        real, free = np.flatnonzero(shares[row] > 0), np.flatnonzero(movable[row])
        values = draw(source, (count, channels, len(real), len(free)))
        result[row][:, :, real[:, None], free] = values
    wide = torch.promote_types(replayed.own.dtype, torch.float32)
    return torch.from_numpy(result).to(replayed.own.device, wide)


def draw_random_weights(subject: AuditSubject, replayed: ReplayBatch, count: int) -> Tensor:
    """Draw movable parts uniformly from the simplex, (rows, count, channels, reads, tokens)."""
    # Exponential variables, scaled to add up to 1, are uniform on the simplex.
    waits = draw_values(
        subject, replayed, "random attention", count, np.random.Generator.standard_exponential
    )
    return normalise_movable(waits, replayed.movable)


def _expand_movable(movable: Tensor, weights: Tensor) -> Tensor:
    """Return the mask of movable positions as 0 and 1, broadcastable to `weights`."""
    between = (1,) * (weights.dim() - 2)
    return movable.reshape(len(movable), *between, movable.shape[1]).to(weights.dtype)
