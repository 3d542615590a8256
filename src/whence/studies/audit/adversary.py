"""Attention that is as far as possible from a model's own, and leaves the prediction where it is.

Jain and Wallace's optimiser, as one optimisation over all rows of a batch and all candidates of a row. Rows do not
know of each other: the loss is a sum over them, and Adam moves every number by its own gradients alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence.audit.distance import jsd, spread, tvd
from whence.audit.moving import drawn, framed, part
from whence.audit.replayed import Replayed
from whence.audit.site import Site
from whence.audit.subject import Subject
from whence.core.types import Task

Numbers = NDArray[np.float64]

_SPREAD = 3.0  # of the normal distribution that the scores of candidates start from
_UNDER_LOG = 1e-10


@dataclass(frozen=True)
class Search:
    """How to search: what Jain and Wallace's code has is the default."""

    candidates: int = 5
    steps: int = 500
    rate: float = 0.01
    weight: float = 500.0  # of the distance between predictions beyond epsilon
    epsilon: float = 0.01  # how far the prediction may go without a price


@dataclass(frozen=True, eq=False)
class Distributions:
    """The model's own attention and the candidates, over the places that may be moved."""

    own: Numbers  # (channels, reads, movable)
    candidates: Numbers  # (candidates, channels, reads, movable)
    shares: Numbers  # (reads,): how much of the prediction each read is
    places: NDArray[np.int64]  # (movable,)


@dataclass(frozen=True, eq=False)
class Found:
    """What the search found for one example at one site."""

    jsd: Numbers  # (candidates,): how far each is from the model's own attention
    tvd: Numbers  # (candidates,): how far its prediction is from the model's own
    distributions: Distributions | None  # kept of the first site only

    @property
    def kept(self) -> Distributions:
        """The distributions, of the first site."""
        assert self.distributions is not None, "they are kept of the first site only"
        return self.distributions

    def feasible(self, epsilon: float) -> NDArray[np.bool_]:
        """Say which candidates leave the prediction within epsilon."""
        kept: NDArray[np.bool_] = self.tvd <= epsilon
        return kept

    def farthest(self, epsilon: float) -> float:
        """Return the largest divergence of a candidate that is feasible; the model's own, at 0, always is."""
        return float(np.max(self.jsd[self.feasible(epsilon)], initial=0.0))

    def best(self, epsilon: float) -> int | None:
        """Return the candidate that is farthest, if any is feasible."""
        feasible = self.feasible(epsilon)
        return int(np.where(feasible, self.jsd, -1.0).argmax()) if feasible.any() else None


def adversaries(subject: Subject, search: Search, sites: tuple[Site, ...]) -> list[list[Found]]:
    """Search for every example at every site: by site, then by example. What was found before is not searched again.

    Distributions are kept of the first of the subject's sites alone.
    """
    known: dict[tuple[Search, str], list[Found]] = subject.memo.setdefault("adversarial", {})
    new = tuple(site for site in sites if (search, site.name) not in known)
    if new:
        made: dict[str, dict[int, Found]] = {site.name: {} for site in new}
        for replayed in subject.replays(new, copies=search.candidates):
            for number, site, found in _searched(subject, replayed, search):
                made[site.name][number] = found
        for name, by_number in made.items():
            known[search, name] = [by_number[number] for number in range(len(subject.items))]
    return [known[search, site.name] for site in sites]


def _searched(
    subject: Subject, replayed: Replayed, search: Search
) -> list[tuple[int, Site, Found]]:
    task = subject.loaded.task
    noise = drawn(
        subject,
        replayed,
        "adversary",
        search.candidates,
        np.random.Generator.standard_normal,
    )
    rows = len(replayed.numbers) * search.candidates
    parts = searched(replayed, noise, search, task, lambda: subject.tick(3 * rows * subject.replay))
    with torch.no_grad():
        own = part(replayed.own.to(parts.dtype), replayed.movable)
        shares = replayed.shares.to(parts.dtype)
        far = spread(jsd(parts, own[:, None]), shares).double().cpu().numpy()
        answers = replayed(framed(replayed.own, replayed.movable)(parts))
        moved = tvd(answers, replayed.base[:, None], task).double().cpu().numpy()
    result = []
    for row, (number, site) in enumerate(zip(replayed.numbers, replayed.sites, strict=True)):
        kept = None
        if site == subject.sites[0]:
            free, real = replayed.movable[row], replayed.shares[row] > 0
            kept = Distributions(
                own[row][:, real][..., free].double().cpu().numpy(),
                parts[row][:, :, real][..., free].double().cpu().numpy(),
                replayed.shares[row][real].double().cpu().numpy(),
                free.nonzero().squeeze(1).cpu().numpy(),
            )
        result.append((number, site, Found(far[row], moved[row], kept)))
    return result


@torch.inference_mode(False)
@torch.enable_grad()
def searched(
    replayed: Replayed,
    noise: Tensor,
    search: Search,
    task: Task,
    tick: Callable[[], None] = lambda: None,
) -> Tensor:
    """Return parts that were optimised from noise, (rows, candidates, channels, reads, tokens).

    For each row, over its candidates k, this is made as small as it will be:

        Σ_k [ -JSD(α_k, α) + weight · max(0, |ŷ(α_k) - ŷ| - epsilon) ] - mean over all k, k' of JSD(α_k, α_k')
    """
    movable, frame = replayed.movable[:, None, None, None], framed(replayed.own, replayed.movable)
    own = part(replayed.own.to(noise.dtype), replayed.movable)
    base, shares = replayed.base[:, None], replayed.shares.to(noise.dtype)
    # Theirs start from the logarithm of the uniform distribution, a constant that the softmax takes away again.
    scores = (_SPREAD * noise).requires_grad_()
    adam = Adam(scores, search.rate)
    for _ in range(search.steps):
        parts = _parts(scores, movable)
        answers = replayed(frame(parts))
        beyond = (_moved(answers, base, task) - search.epsilon).relu()
        far = _divergences(parts, own, shares)
        loss = (search.weight * beyond).sum() - far.sum()
        (slope,) = torch.autograd.grad(loss, scores)
        adam.step(slope)
        tick()
    return _parts(scores, movable).detach()


def _parts(scores: Tensor, movable: Tensor) -> Tensor:
    return scores.masked_fill(~movable, -torch.inf).softmax(-1)


def _moved(answers: Tensor, base: Tensor, task: Task) -> Tensor:
    """Return how far the prediction went, as Jain and Wallace measure it while they optimise.

    That is the sum of what all outputs differ by. Their models of two labels have one output, whose difference is
    half of that sum over both labels; for three labels or more it is twice the total variation distance.
    """
    apart = (answers - base).abs().sum(-1)
    return apart / 2 if task == "single_label" and answers.shape[-1] == 2 else apart


def _divergences(parts: Tensor, own: Tensor, shares: Tensor) -> Tensor:
    """Return, for each row, the divergences of its candidates from its own, and the mean of those between all pairs.

    With f(x) = Σ x log(x + 1e-10), JSD(p, q) = f(p) / 2 + f(q) / 2 - f((p + q) / 2): of every distribution and
    every middle there is one logarithm to take, and pairs are gone through once.
    """
    count = parts.shape[1]
    mine, theirs = _negative_entropy(parts), _negative_entropy(own)[:, None]
    middle = _negative_entropy((parts + own[:, None]) / 2)
    far = spread((mine + theirs) / 2 - middle, shares).sum(1)
    pairs = list(combinations(range(count), 2))
    if not pairs:
        return far
    one, two = ([pair[side] for pair in pairs] for side in (0, 1))
    middle = _negative_entropy((parts[:, one] + parts[:, two]) / 2)
    between = spread((mine[:, one] + mine[:, two]) / 2 - middle, shares).sum(1)
    return far + 2 * between / count**2


def _negative_entropy(p: Tensor) -> Tensor:
    return (p * (p + _UNDER_LOG).log()).sum(-1)


class Adam:
    """Adam with AMSGrad (Kingma & Ba 2015; Reddi et al. 2018), in place: the sizes of slopes never fade."""

    def __init__(self, values: Tensor, rate: float) -> None:
        self._values = values
        self._rate = rate
        self._steps = 0
        self._mean, self._square, self._most = (torch.zeros_like(values) for _ in range(3))

    @torch.no_grad()
    def step(self, slope: Tensor) -> None:
        """Move the values down the slope."""
        self._steps += 1
        self._mean.lerp_(slope, 0.1)
        self._square.mul_(0.999).addcmul_(slope, slope, value=0.001)
        torch.maximum(self._most, self._square, out=self._most)
        size = (self._most.sqrt() / (1 - 0.999**self._steps) ** 0.5).add_(1e-8)
        self._values.addcdiv_(self._mean, size, value=-self._rate / (1 - 0.9**self._steps))
