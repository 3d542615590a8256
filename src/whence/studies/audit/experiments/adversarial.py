"""Experiment: attention far from the model's own that gives the same prediction (Jain & Wallace 2019)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.core.seed import build_generator
from whence.studies.audit.adversary import AdversarialResult, SearchOptions, find_adversaries
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import (
    Plot,
    build_histogram,
    build_violin,
    describe_too_short,
    group_by_class,
    summarise,
)
from whence.studies.audit.subject import AuditSubject, Numbers

THRESHOLD = 0.4
_EXAMPLES = 6  # examples in the plot, from the smallest divergence to the largest


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
    subject: AuditSubject,
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
    search = SearchOptions(candidates, steps, rate, weight, optimise_epsilon)
    results = find_adversaries(subject, search, subject.sites)
    by_site = [
        np.array([result.largest_divergence(epsilon) for result in site]) for site in results
    ]
    values = by_site[0]
    best = [result.find_best(epsilon) for result in results[0]]
    shifts = [
        0.0 if at is None else float(result.tvd[at])
        for result, at in zip(results[0], best, strict=True)
    ]
    reach, drawn = [], []
    for item, result in zip(subject.items, results[0], strict=True):
        known = result.first_site_distributions
        tokens = known.own.shape[-1]
        # The divergence is convex, so that its maximum is at a corner: all weight on the token with the least.
        reach.append(known.measure_divergence(np.eye(tokens)[known.own.argmin(-1)]))
        draw = build_generator("random distance", subject.seed, item.key)
        other = draw.dirichlet(np.ones(tokens), size=known.own.shape[:-1])
        drawn.append(known.measure_divergence(other))
    farthest = np.array(reach)
    return Finding(
        values,
        by_site={site.name: far for site, far in zip(subject.sites[1:], by_site[1:], strict=True)},
        by_class=group_by_class(subject, values),
        detail={
            "median": float(np.median(values)),
            "at_least_0.6": float((values >= 0.6).mean()),
            "below_0.2": float((values < 0.2).mean()),
            "only_the_original": best.count(None) / len(best),
            "random_distribution": summarise(np.array(drawn), "random", subject.seed),
            "tvd": summarise(np.array(shifts), "tvd", subject.seed),
            "reach": summarise(farthest, "reach", subject.seed),
        },
        plots=[
            build_histogram(
                "How far attention can go without the prediction",
                "largest JSD",
                group_by_class(subject, values),
                low=0,
                high=0.7,
                threshold=THRESHOLD,
            ),
            build_violin(
                subject,
                "How far attention can go, by its largest weight",
                "largest JSD",
                values,
            ),
            _build_example_plot(subject, results[0], values, epsilon),
        ],
        undecided=None if farthest.mean() >= THRESHOLD else describe_too_short(farthest),
    )


def _build_example_plot(
    subject: AuditSubject, results: list[AdversarialResult], values: Numbers, epsilon: float
) -> Plot:
    """Return example rows of the model's attention and the best candidate's, means over heads."""
    order = np.argsort(values, kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, _EXAMPLES).round().astype(int))
    examples = []
    for number in order[places].tolist():
        result, label = results[number], int(subject.predictions[number])
        known, best = result.first_site_distributions, result.find_best(epsilon)
        shown = [("the model's own", known.own, "")]
        if best is not None:
            note = f"JSD {result.jsd[best]:.2f}, TVD {result.tvd[best]:.3f}"
            shown.append(("adversarial", known.candidates[best], note))
        rows = []
        for name, weights, note in shown:
            mean = np.einsum("crt,r->t", weights, known.shares) / len(weights)
            rows.append({"name": name, "weights": mean.tolist(), "note": note})
        examples.append(
            {
                "tokens": subject.name_tokens(number, known.places),
                "predicted": subject.loaded.labels[label],
                "probability": float(subject.probabilities[number, label]),
                "rows": rows,
            }
        )
    title = "Attention that looks elsewhere and predicts the same"
    return {"kind": "attention", "title": title, "examples": examples}
