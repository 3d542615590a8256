"""Search for adversarial attention (far from the model's own, same prediction): results and optimisation.

Jain and Wallace's optimiser, as one optimisation over all rows of a batch and all candidates of a row. Rows
are independent: the loss is a sum over them, and Adam updates every number by its own gradients alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence.core.types import Task
from whence.studies.audit.attention_variants import (
    average_reads,
    build_inserter,
    draw_values,
    jsd,
    normalise_movable,
    tvd,
)
from whence.studies.audit.subject import AttentionSite, AuditSubject, Numbers, ReplayBatch

_START_STD = 3.0  # standard deviation of the normal distribution of the initial scores
_LOG_EPSILON = 1e-10


@dataclass(frozen=True)
class SearchOptions:
    """The settings of the adversarial search; the defaults are those of Jain and Wallace's code."""

    candidates: int = 5
    steps: int = 500
    rate: float = 0.01
    weight: float = 500.0  # penalty on the distance between predictions beyond epsilon
    epsilon: float = 0.01  # distance of the prediction without penalty


@dataclass(frozen=True, eq=False)
class Distributions:
    """The model's own attention and the candidates, over the movable positions."""

    own: Numbers  # (channels, reads, movable)
    candidates: Numbers  # (candidates, channels, reads, movable)
    shares: Numbers  # (reads,): the share of each read in the prediction
    places: NDArray[np.int64]  # (movable,)

    def average(self, values: Tensor) -> Tensor:
        """Average values, (some, channels, reads), over channels and reads, to (some,)."""
        return average_reads(values[None], torch.from_numpy(self.shares)[None])[0]

    def measure_divergence(self, other: Numbers) -> float:
        """Return the divergence of other attention from the model's own."""
        far = jsd(torch.from_numpy(self.own), torch.from_numpy(other))
        return float(self.average(far[None]))


@dataclass(frozen=True, eq=False)
class AdversarialResult:
    """The candidates found for one example at one site, with their distances from the model."""

    jsd: Numbers  # (candidates,): divergence from the model's own attention
    tvd: Numbers  # (candidates,): distance of the prediction from the model's own
    distributions: Distributions | None  # kept of the first site only

    @property
    def first_site_distributions(self) -> Distributions:
        """The distributions, which are kept for the first site only."""
        assert self.distributions is not None, "they are kept of the first site only"
        return self.distributions

    def find_feasible(self, epsilon: float) -> NDArray[np.bool_]:
        """Return a mask of the candidates that keep the prediction within epsilon."""
        feasible: NDArray[np.bool_] = self.tvd <= epsilon
        return feasible

    def largest_divergence(self, epsilon: float) -> float:
        """Return the largest divergence of a feasible candidate, or 0 if there is none."""
        return float(np.max(self.jsd[self.find_feasible(epsilon)], initial=0.0))

    def find_best(self, epsilon: float) -> int | None:
        """Return the index of the feasible candidate with the largest divergence, if there is one."""
        feasible = self.find_feasible(epsilon)
        return int(np.where(feasible, self.jsd, -1.0).argmax()) if feasible.any() else None


def find_adversaries(
    subject: AuditSubject, search: SearchOptions, sites: tuple[AttentionSite, ...]
) -> list[list[AdversarialResult]]:
    """Search for adversarial attention; return the results, which the subject remembers, by site, then by example."""
    known: dict[tuple[SearchOptions, str], list[AdversarialResult]]
    known = subject.remember("adversarial", dict)
    new = [site for site in sites if (search, site.name) not in known]
    found = subject.map_replays(
        new, search.candidates, lambda replayed: _search_batch(subject, replayed, search)
    )
    known |= {(search, site.name): results for site, results in zip(new, found, strict=True)}
    return [known[search, site.name] for site in sites]


def _search_batch(
    subject: AuditSubject, replayed: ReplayBatch, search: SearchOptions
) -> list[AdversarialResult]:
    task, count = subject.loaded.task, search.candidates
    noise = draw_values(subject, replayed, "adversary", count, np.random.Generator.standard_normal)
    passes = 3 * len(replayed) * count * subject.replay
    parts = optimise_attention(replayed, noise, search, task, lambda: subject.tick(passes))
    with torch.no_grad():
        own = normalise_movable(replayed.own.to(parts.dtype), replayed.movable)
        shares = replayed.shares.to(parts.dtype)
        far = average_reads(jsd(parts, own[:, None]), shares).double().cpu().numpy()
        answers = replayed(build_inserter(replayed.own, replayed.movable)(parts))
        moved = tvd(answers, replayed.base[:, None], task).double().cpu().numpy()
    results = []
    for row, site in enumerate(replayed.sites):
        distributions = None
        if site == subject.sites[0]:
            free, real = replayed.movable[row], shares[row] > 0
            distributions = Distributions(
                own[row][:, real][..., free].double().cpu().numpy(),
                parts[row][:, :, real][..., free].double().cpu().numpy(),
                replayed.shares[row][real].double().cpu().numpy(),
                free.nonzero().squeeze(1).cpu().numpy(),
            )
        results.append(AdversarialResult(far[row], moved[row], distributions))
    return results


@torch.inference_mode(False)
@torch.enable_grad()
def optimise_attention(
    replayed: ReplayBatch,
    noise: Tensor,
    search: SearchOptions,
    task: Task,
    tick: Callable[[], None] = lambda: None,
) -> Tensor:
    """Return candidate attention optimised from noise, (rows, candidates, channels, reads, tokens).

    The loss of each row, over its candidates k, is:

        Σ_k [ -JSD(α_k, α) + weight · max(0, |ŷ(α_k) - ŷ| - epsilon) ] - mean over all k, k' of JSD(α_k, α_k')
    """
    movable = replayed.movable[:, None, None, None]
    insert = build_inserter(replayed.own, replayed.movable)
    own = normalise_movable(replayed.own.to(noise.dtype), replayed.movable)
    base, shares = replayed.base[:, None], replayed.shares.to(noise.dtype)
    # Jain and Wallace add the log of the uniform distribution, a constant that the softmax cancels.
    scores = (_START_STD * noise).requires_grad_()
    adam = torch.optim.Adam([scores], lr=search.rate, amsgrad=True)
    for _ in range(search.steps):
        parts = scores.masked_fill(~movable, -torch.inf).softmax(-1)
        answers = replayed(insert(parts))
        apart = (answers - base).abs().sum(-1)
        # Jain and Wallace sum over all outputs. Their models of two labels have one output, whose difference is half of
        # the sum over both labels; for three labels or more the sum is twice the total variation distance.
        if task == "single_label" and answers.shape[-1] == 2:
            apart = apart / 2
        beyond = (apart - search.epsilon).relu()
        far = _compute_divergences(parts, own, shares)
        loss = (search.weight * beyond).sum() - far.sum()
        (scores.grad,) = torch.autograd.grad(loss, scores)
        adam.step()
        tick()
    return scores.masked_fill(~movable, -torch.inf).softmax(-1).detach()


def _compute_divergences(parts: Tensor, own: Tensor, shares: Tensor) -> Tensor:
    """Return, by row, the candidates' divergences from the model's attention, and from each other.

    The latter are averaged over pairs. With f(x) = Σ x log(x + 1e-10), JSD(p, q) = f(p) / 2 + f(q) / 2 - f((p + q) / 2):
    one logarithm for every distribution and every midpoint, and each pair is computed once.
    """
    count = parts.shape[1]
    mine, theirs = _negative_entropy(parts), _negative_entropy(own)[:, None]
    middle = _negative_entropy((parts + own[:, None]) / 2)
    far = average_reads((mine + theirs) / 2 - middle, shares).sum(1)
    pairs = list(combinations(range(count), 2))
    if not pairs:
        return far
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    middle = _negative_entropy((parts[:, first] + parts[:, second]) / 2)
    between = average_reads((mine[:, first] + mine[:, second]) / 2 - middle, shares).sum(1)
    return far + 2 * between / count**2


def _negative_entropy(p: Tensor) -> Tensor:
    return (p * (p + _LOG_EPSILON).log()).sum(-1)
