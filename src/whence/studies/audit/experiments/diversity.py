"""How many ways of attending give the same prediction, and how different they are."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence.audit.adversary import Found, Search, adversaries
from whence.audit.distance import entropy, jsd, kl, spread, tvd
from whence.audit.experiments import Finding, experiment
from whence.audit.figures import Plot, by_class, histogram, summary, violin
from whence.audit.moving import COPIES, dealt, part, permuted
from whence.audit.plan import Plan
from whence.audit.subject import Subject
from whence.core.params import Range

Numbers = NDArray[np.float64]

THRESHOLD = 0.2
# A divergence that is no more than rounding: that of float32 weights, squared, is far below.
SAME = 1e-9


def _calls(plan: Plan, params: Mapping[str, Any]) -> float:
    """Return the passes it takes; what the adversary found before is not searched for again."""
    usual = Search()
    wanted = {name: params[name] for name in ("candidates", "steps")}
    wanted |= {"rate": usual.rate, "weight": usual.weight, "optimise_epsilon": usual.epsilon}
    shared = any(
        one.name == "adversarial" and wanted.items() <= one.params.items() for one in plan.chosen
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
    calls=_calls,
    cite="Jain & Wallace 2019, arXiv:1902.10186; Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="few distributions were found: what was not tried is not counted; and permutations of attention "
    "that is nearly uniform are nearly alike, whatever the model",
    presets={"jain_wallace": {"epsilon": 0.05, "candidates": 5, "steps": 500}},
)
def diversity(
    subject: Subject,
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
    (found,) = adversaries(subject, Search(candidates, steps), subject.sites[:1])
    same = _permuted(subject, permutations, epsilon)
    figures = [
        _compared(one, same[number], one.feasible(epsilon)) for number, one in enumerate(found)
    ]
    values, divergences, counts = (
        np.array(column, dtype=np.float64) for column in zip(*figures, strict=True)
    )
    nats, shares = _entropies(found)
    largest = np.array([weights.max() for weights in subject.attention()])
    return Finding(
        values,
        by_class=by_class(subject, values),
        detail={
            "entropy": summary(nats, "entropy", subject.seed),
            "entropy_of_the_most": summary(shares, "relative entropy", subject.seed),
            "kl": summary(divergences, "kl", subject.seed),
            "distributions": summary(counts, "distributions", subject.seed),
            "only_the_original": float((counts == 1).mean()),
        },
        plots=[*_histograms(subject, values, shares), _violins(subject, values, largest)],
    )


def _permuted(subject: Subject, count: int, epsilon: float) -> list[Numbers]:
    """Return the permutations of each example that leave its prediction within epsilon.

    Each is (some, channels, reads, movable).
    """
    found: list[Numbers] = [np.empty(0)] * len(subject)
    for replayed in subject.replays(copies=COPIES):
        with torch.no_grad():
            drawn, answers = permuted(subject, replayed, count)
            moved = tvd(answers, replayed.base[:, None], subject.loaded.task)
            own = part(replayed.own, replayed.movable)
        for row, number in enumerate(replayed.numbers):
            weights = dealt(own[row, None], drawn[row, None, moved[row] <= epsilon])[0]
            real, free = replayed.shares[row] > 0, replayed.movable[row]
            found[number] = weights[:, :, real][..., free].double().cpu().numpy()
        subject.tick(len(replayed) * (COPIES + count * subject.replay))
    return found


def _compared(
    found: Found, permutations: Numbers, feasible: NDArray[np.bool_]
) -> tuple[float, float, int]:
    """Return the mean divergences JSD and KL between all pairs, and how many distributions there are."""
    kept = found.kept
    every = np.concatenate([kept.own[None], kept.candidates[feasible], permutations])
    shares, given = torch.from_numpy(kept.shares)[None], torch.from_numpy(every)
    # One against all at a time: all against all would not fit.
    apart = torch.cat([spread(jsd(one, given)[None], shares) for one in given])
    first = (apart <= SAME).int().argmax(1)  # the first that is the same, itself at the latest
    different = first == torch.arange(len(given))
    count = int(different.sum())
    if count < 2:
        return 0.0, 0.0, count
    given = given[different]
    one_way = sum(float(spread(kl(one, given)[None], shares).sum()) for one in given)
    pairs = count * (count - 1)  # both ways; one's divergence from itself is 0
    return float(apart[different][:, different].sum()) / pairs, one_way / pairs, count


def _entropies(found: list[Found]) -> tuple[Numbers, Numbers]:
    """Return the entropy of each example's own attention, and the share of the most that it could be.

    Where there is one token there is no choice: the share is NaN.
    """
    nats, shares = [], []
    for one in found:
        own: Tensor = torch.from_numpy(one.kept.own)
        value = float(spread(entropy(own)[None, None], torch.from_numpy(one.kept.shares)[None]))
        nats.append(value)
        tokens = own.shape[-1]
        shares.append(value / np.log(tokens) if tokens > 1 else np.nan)
    return np.array(nats), np.array(shares)


def _histograms(subject: Subject, values: Numbers, shares: Numbers) -> list[Plot]:
    return [
        histogram(
            "How different attention with the same prediction is",
            "mean JSD of pairs",
            by_class(subject, values),
            low=0,
            high=0.7,
            threshold=THRESHOLD,
        ),
        histogram(
            "How spread out attention is",
            "entropy, as a share of the most",
            by_class(subject, shares),
            low=0,
            high=1,
        ),
    ]


def _violins(subject: Subject, values: Numbers, largest: Numbers) -> Plot:
    title = "How different attention with the same prediction is, by the largest weight"
    return violin(subject, title, "mean JSD of pairs", values, largest)
