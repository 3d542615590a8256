"""Attention that looks elsewhere and predicts the same (Jain & Wallace 2019)."""

from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.audit.adversary import Found, Search, adversaries
from whence.audit.compare import too_short
from whence.audit.distance import jsd, spread
from whence.audit.experiments import Finding, experiment
from whence.audit.figures import Plot, by_class, histogram, summary, violin
from whence.audit.subject import Subject
from whence.core.params import Range
from whence.core.seed import generator

Numbers = NDArray[np.float64]

THRESHOLD = 0.4
_EXAMPLES = 6  # shown, from the least divergence to the greatest


@experiment(
    "adversarial",
    hypothesis="Attention that looks elsewhere predicts something else: no distribution far from the model's own "
    "gives the same prediction.",
    measure="mean over examples of the largest Jensen-Shannon divergence (at most 0.693) from the model's "
    "attention of a distribution that was found by optimisation and leaves the prediction within epsilon",
    threshold=THRESHOLD,
    direction="below",
    labels=False,
    trains=False,
    calls=lambda plan, params: (
        plan.n * plan.sites * params["candidates"] * (1 + 3 * params["steps"] * plan.replay)
    ),
    cite="Jain & Wallace 2019, arXiv:1902.10186",
    misleads_when="what is attended to says the same everywhere, so that any attention will do; and the distribution "
    "that was found for one text is no rule that a model could follow for all of them (see trained_adversary)",
    presets={
        "jain_wallace": {
            "epsilon": 0.05,
            "optimise_epsilon": 0.01,
            "candidates": 5,
            "steps": 500,
            "rate": 0.01,
            "weight": 500.0,
        }
    },
)
def adversarial(
    subject: Subject,
    *,
    epsilon: Annotated[float, Range(0, 1)] = 0.05,
    optimise_epsilon: Annotated[float, Range(0, 1)] = 0.01,
    candidates: Annotated[int, Range(1, 100)] = 5,
    steps: Annotated[int, Range(1, 100_000)] = 500,
    rate: Annotated[float, Range(1e-6, 10)] = 0.01,
    weight: Annotated[float, Range(0)] = 500.0,
) -> Finding:
    """Search for attention that is far from the model's own and leaves the prediction where it is.

    `epsilon`: how far, in total variation distance, a prediction may be from the model's own to count as the same.
    `optimise_epsilon`: from where on the optimiser pays for the distance; there, as in the authors' code, it is the
    sum of the differences of all outputs, which for three labels or more is twice the total variation distance.
    `candidates`: distributions searched for together, kept apart from each other; the farthest that counts is taken.
    `steps`, `rate`: of Adam. `weight`: the price of a distance beyond `optimise_epsilon`.

    Where a site has several heads, each gets a distribution of its own, and the divergence is their mean. The
    threshold, 0.4, is the divergence from which on Wiegreffe and Pinter speak of an adversary: twice what two
    distributions drawn at random are apart, and not yet the 0.693 of two that have no word in common.
    """
    search = Search(candidates, steps, rate, weight, optimise_epsilon)
    found = adversaries(subject, search, subject.sites)
    every = [np.array([one.farthest(epsilon) for one in site]) for site in found]
    values, largest = every[0], np.array([weights.max() for weights in subject.attention()])
    alone = np.array([not one.feasible(epsilon).any() for one in found[0]])
    reach = _reach(found[0])
    return Finding(
        values,
        by_site={site.name: far for site, far in zip(subject.sites[1:], every[1:], strict=True)},
        by_class=by_class(subject, values),
        detail={
            "median": float(np.median(values)),
            "at_least_0.6": float((values >= 0.6).mean()),
            "below_0.2": float((values < 0.2).mean()),
            "only_the_original": float(alone.mean()),
            "random_distribution": summary(_random(subject, found[0]), "random", subject.seed),
            "tvd": summary(_moved(found[0], epsilon), "tvd", subject.seed),
            "reach": summary(reach, "reach", subject.seed),
        },
        plots=[
            histogram(
                "How far attention can go without the prediction",
                "largest JSD",
                by_class(subject, values),
                low=0,
                high=0.7,
                threshold=THRESHOLD,
            ),
            violin(
                subject,
                "How far attention can go, by its largest weight",
                "largest JSD",
                values,
                largest,
            ),
            _shown(subject, found[0], values, epsilon),
        ],
        undecided=None if reach.mean() >= THRESHOLD else too_short(reach),
    )


def _reach(found: list[Found]) -> Numbers:
    """Return how far any distribution can be from each example's own: all of it where the model looks least.

    The divergence is convex, so that the farthest is a corner of the simplex.
    """
    result = []
    for one in found:
        own, shares = one.kept.own, torch.from_numpy(one.kept.shares)
        corner = np.eye(own.shape[-1])[own.argmin(-1)]
        apart = jsd(torch.from_numpy(own), torch.from_numpy(corner))
        result.append(float(spread(apart[None, None], shares[None])))
    return np.array(result)


def _random(subject: Subject, found: list[Found]) -> Numbers:
    """Return how far a distribution drawn at random is from each example's own, whatever it predicts."""
    result = []
    for number, one in enumerate(found):
        own, shares = one.kept.own, torch.from_numpy(one.kept.shares)
        draw = generator("random distance", subject.seed, subject.items[number].key)
        other = draw.dirichlet(np.ones(own.shape[-1]), size=own.shape[:-1])
        apart = jsd(torch.from_numpy(own), torch.from_numpy(other))
        result.append(float(spread(apart[None, None], shares[None])))
    return np.array(result)


def _moved(found: list[Found], epsilon: float) -> Numbers:
    """Return how far the prediction of the farthest that counts is from the model's own; of the original, 0."""
    best = [(one, one.best(epsilon)) for one in found]
    return np.array([0.0 if at is None else float(one.tvd[at]) for one, at in best])


def _shown(subject: Subject, found: list[Found], values: Numbers, epsilon: float) -> Plot:
    """Return examples of the model's own attention beside the farthest that counts, the mean over heads of both."""
    order = np.argsort(values, kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, _EXAMPLES).round().astype(int))
    examples = []
    for number in order[places].tolist():
        one, label = found[number], int(subject.predicted[number])
        rows: list[dict[str, Any]] = [_row(one, one.kept.own, "the model's own", "")]
        best = one.best(epsilon)
        if best is not None:
            note = f"JSD {one.jsd[best]:.2f}, TVD {one.tvd[best]:.3f}"
            rows.append(_row(one, one.kept.candidates[best], "adversarial", note))
        examples.append(
            {
                "tokens": subject.names(number, one.kept.places),
                "predicted": subject.loaded.labels[label],
                "probability": float(subject.probabilities[number, label]),
                "rows": rows,
            }
        )
    title = "Attention that looks elsewhere and predicts the same"
    return {"kind": "attention", "title": title, "examples": examples}


def _row(found: Found, weights: Numbers, name: str, note: str) -> dict[str, Any]:
    mean = np.einsum("crt,r->t", weights, found.kept.shares) / len(weights)
    return {"name": name, "weights": mean.tolist(), "note": note}
