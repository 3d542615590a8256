"""Experiment: number and divergence of the attention distributions that give the same prediction."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from whence.core.params import Range
from whence.studies.audit.adversary import Distributions, SearchOptions, find_adversaries
from whence.studies.audit.attention_variants import (
    COPIES,
    entropy,
    jsd,
    kl,
    normalise_movable,
    permute_weights,
    replay_permutations,
)
from whence.studies.audit.audit import AuditCostEstimate
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import (
    build_histogram,
    build_violin,
    group_by_class,
    summarise,
)
from whence.studies.audit.subject import AuditSubject, Numbers, ReplayBatch

THRESHOLD = 0.2
# Smaller divergences count as equal; rounding of float32 weights, squared, is far below.
SAME_DIVERGENCE = 1e-9
_TITLE = "How different attention with the same prediction is"


def _count_calls(plan: AuditCostEstimate, params: Mapping[str, Any]) -> float:
    """Return the estimated forward passes; a search shared with `adversarial` is not counted again."""
    usual = SearchOptions()
    expected = {name: params[name] for name in ("candidates", "steps")}
    expected |= {"rate": usual.rate, "weight": usual.weight, "optimise_epsilon": usual.epsilon}
    shared = any(
        choice.name == "adversarial" and expected.items() <= choice.params.items()
        for choice in plan.chosen
    )
    search = 0 if shared else params["candidates"] * (1 + 3 * params["steps"] * plan.replay)
    return float(plan.n * (COPIES + params["permutations"] * plan.replay + search))


@experiment(
    "diversity",
    hypothesis="There is one attention for one prediction: distributions that give the same prediction are alike.",
    measure="mean over examples of the mean Jensen-Shannon divergence (at most 0.693) between all pairs of "
    "distributions that were found and give the same prediction, the model's own among them",
    threshold=THRESHOLD,
    direction="below",
    labels=False,
    trains=False,
    calls=_count_calls,
    cite="Jain & Wallace 2019, arXiv:1902.10186; Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="few distributions were found: what was not tried is not counted; and permutations of attention "
    "that is nearly uniform are nearly alike, whatever the model",
    presets={"jain_wallace": {"epsilon": 0.05, "candidates": 5, "steps": 500}},
)
def diversity(
    subject: AuditSubject,
    *,
    epsilon: Annotated[float, Range(0, 1)] = 0.05,
    permutations: Annotated[int, Range(1, 1000)] = 5,
    candidates: Annotated[int, Range(1, 100)] = 5,
    steps: Annotated[int, Range(1, 100_000)] = 500,
) -> Finding:
    """Compare all distributions of attention that give an example's prediction, within epsilon.

    They are the model's own, the adversary's candidates (`candidates`, `steps`: see adversarial, which shares them)
    and permutations of the model's own, as many, so that neither kind outweighs the other; what is the same to
    rounding, as permutations of equal weights are, counts once. The threshold, 0.2, is what two distributions have
    that were drawn at random and have nothing to do with each other (0.19 for long texts). Where nothing but the
    model's own gives the prediction, the divergence is 0: there is one attention for it. Only the first site is
    looked at.
    """
    (results,) = find_adversaries(subject, SearchOptions(candidates, steps), subject.sites[:1])
    same = _find_feasible_permutations(subject, permutations, epsilon)
    figures = []
    for result, permuted in zip(results, same, strict=True):
        known, feasible = result.first_site_distributions, result.find_feasible(epsilon)
        alike = np.concatenate([known.own[None], known.candidates[feasible], permuted])
        nats = float(known.average(entropy(torch.from_numpy(known.own))[None]))
        most = np.log(known.own.shape[-1])
        share = nats / most if most else np.nan  # NaN for a single token
        figures.append((*_compare_pairs(known, torch.from_numpy(alike)), nats, share))
    values, divergences, counts, entropies, shares = (
        np.array(column, dtype=np.float64) for column in zip(*figures, strict=True)
    )
    return Finding(
        values,
        by_class=group_by_class(subject, values),
        detail={
            "entropy": summarise(entropies, "entropy", subject.seed),
            "entropy_of_the_most": summarise(shares, "relative entropy", subject.seed),
            "kl": summarise(divergences, "kl", subject.seed),
            "distributions": summarise(counts, "distributions", subject.seed),
            "only_the_original": float((counts == 1).mean()),
        },
        plots=[
            build_histogram(
                _TITLE,
                "mean JSD of pairs",
                group_by_class(subject, values),
                low=0,
                high=0.7,
                threshold=THRESHOLD,
            ),
            build_histogram(
                "How spread out attention is",
                "entropy, as a share of the most",
                group_by_class(subject, shares),
                low=0,
                high=1,
            ),
            build_violin(subject, f"{_TITLE}, by the largest weight", "mean JSD of pairs", values),
        ],
    )


def _find_feasible_permutations(subject: AuditSubject, count: int, epsilon: float) -> list[Numbers]:
    """Return the permutations of each example that keep its prediction: (permutations, channels, reads, movable)."""

    def find(replayed: ReplayBatch) -> list[Numbers]:
        drawn, moved = replay_permutations(subject, replayed, count)
        own, permutations = normalise_movable(replayed.own, replayed.movable), []
        for row, (real, free) in enumerate(zip(replayed.shares > 0, replayed.movable, strict=True)):
            weights = permute_weights(own[row, None], drawn[row, None, moved[row] <= epsilon])[0]
            permutations.append(weights[:, :, real][..., free].double().cpu().numpy())
        return permutations

    (permutations,) = subject.map_replays(subject.sites[:1], COPIES, find, count)
    return permutations


def _compare_pairs(known: Distributions, weights: Tensor) -> tuple[float, float, int]:
    """Return the mean pairwise JSD and KL, and the number of different distributions."""
    # One row of the pairwise matrix at a time: all pairs at once would not fit into memory.
    apart = torch.stack([known.average(jsd(row, weights)) for row in weights])
    first = (apart <= SAME_DIVERGENCE).int().argmax(1)  # the first equal one, at the latest itself
    different = first == torch.arange(len(weights))
    count = int(different.sum())
    if count < 2:
        return 0.0, 0.0, count
    weights = weights[different]
    one_way = sum(float(known.average(kl(row, weights)).sum()) for row in weights)
    pairs = count * (count - 1)  # ordered pairs; the diagonal is 0
    return float(apart[different][:, different].sum()) / pairs, one_way / pairs, count
