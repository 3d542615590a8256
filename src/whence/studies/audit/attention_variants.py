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
