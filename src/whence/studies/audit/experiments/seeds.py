"""Experiment: the model retrained from other seeds, and how far its attention moves (Wiegreffe & Pinter 2019)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.core.seed import build_generator
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import build_violin, group_by_class, summarise
from whence.studies.audit.retrain import (
    count_training_passes,
    has_learnt,
    measure_divergences,
    prediction_distance,
)
from whence.studies.audit.subject import AuditSubject, Numbers

THRESHOLD = 0.1


@experiment(
    "seeds",
    hypothesis="Trained again from another seed, the model attends to the same words.",
    measure="mean over examples of the median, over other seeds, of the Jensen-Shannon divergence (at most 0.693) "
    "between their attention and the model's",
    threshold=THRESHOLD,
    direction="below",
    labels=False,
    trains=True,
    calls=lambda plan, params: (
        params["seeds"] * (count_training_passes(plan.train, plan.epochs) + plan.n)
    ),
    cite="Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="two words say the same, and it is a matter of luck which of them is looked at; or attention is so "
    "flat that all divergences are small",
    presets={"wiegreffe_pinter": {"seeds": 8}},
)
def seeds(subject: AuditSubject, *, seeds: Annotated[int, Range(1, 100)] = 3) -> Finding:
    """Train the same model from other seeds and compare where they look.

    `seeds`: how many are trained, unless other models were given. A divergence of 0.1 is reached at the earliest when
    a seventh of the attention is on other words (no two distributions are farther apart than ln 2 times the share
    that has moved): what still varies less than that points to the same words. The mean is the floor under every
    adversary: attention that is no farther from the model's than another seed's is nothing to wonder at.
    """
    workshop = subject.workshop
    assert workshop is not None, "an experiment that trains is not run without a workshop"
    if workshop.others:
        names = [other.name for other in workshop.others]
        retrained = [subject.with_model(other) for other in workshop.others]
    else:
        numbers = workshop.list_seeds(seeds)
        names = [f"seed {number}" for number in numbers]
        retrained = [
            workshop.retrain(number, tick=subject.tick).apply_to(subject) for number in numbers
        ]
    apart = np.stack([measure_divergences(subject, other.attention()) for other in retrained])
    moved = np.stack([prediction_distance(subject, other) for other in retrained])
    chance = np.median([_measure_chance(subject, other) for other in retrained], axis=0)
    values = np.median(apart, axis=0)
    lost = [
        name
        for name, other in zip(names, retrained, strict=True)
        if not has_learnt(other.predictions, subject.predictions)
    ]
    if not lost:
        subject.memo["floor"] = values
    return Finding(
        values,
        by_class=group_by_class(subject, values),
        chance=float(chance.mean()),
        detail={
            "each": [
                {
                    "name": name,
                    "jsd": summarise(apart[at], "jsd", at, subject.seed),
                    "tvd": summarise(moved[at], "tvd", at, subject.seed),
                    "same_class": float((retrained[at].predictions == subject.predictions).mean()),
                }
                for at, name in enumerate(names)
            ],
            "tvd": summarise(moved.mean(0), "tvd", subject.seed),
            "median": float(np.median(values)),
        },
        plots=[build_violin(subject, "Attention under other seeds", "median JSD", values)],
        notes=[
            "Chance is the divergence when the other seed's weights are dealt out anew over the words of each text."
        ],
        undecided=_explain_undecided(values, chance, lost, len(retrained)),
    )


def _measure_chance(subject: AuditSubject, other: AuditSubject) -> Numbers:
    """Return the divergence of attention by example, with the other's weights permuted over words."""
    permuted = []
    for item, weights in zip(other.items, other.attention(), strict=True):
        order = build_generator("dealt out", subject.seed, item.key).permutation(len(weights))
        permuted.append(weights[order])
    return measure_divergences(subject, permuted)


def _explain_undecided(values: Numbers, chance: Numbers, lost: list[str], count: int) -> str | None:
    if lost:
        return (
            f"{len(lost)} of {count} other models ({', '.join(lost)}) did not learn to predict what this one does: "
            "where they look says nothing. Train longer (--epochs), or on more examples."
        )
    if chance.mean() / 2 <= values.mean() < THRESHOLD:
        return (
            f"Attention is so flat that weights dealt out at random over the words are only {chance.mean():.3f} away: "
            f"that other seeds are {values.mean():.3f} away does not mean that they look at the same words."
        )
    return None
