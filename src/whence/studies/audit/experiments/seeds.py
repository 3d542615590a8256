"""Attention under other seeds of the same model (Wiegreffe & Pinter 2019)."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from whence.audit.compare import has_learnt, looks_apart, looks_apart_by_chance, says_apart
from whence.audit.experiments import Finding, experiment
from whence.audit.figures import by_class, summary, violin
from whence.audit.subject import Subject
from whence.audit.workshop import training_passes
from whence.core.params import Range

Numbers = NDArray[np.float64]

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
        params["seeds"] * (training_passes(plan.train, plan.epochs) + plan.n)
    ),
    cite="Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="two words say the same, and it is a matter of luck which of them is looked at; or attention is so "
    "flat that all divergences are small",
    presets={"wiegreffe_pinter": {"seeds": 8}},
)
def seeds(subject: "Subject", *, seeds: Annotated[int, Range(1, 100)] = 3) -> Finding:
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
        kin = [subject.kin(other) for other in workshop.others]
    else:
        numbers = workshop.seeds(seeds)
        names = [f"seed {number}" for number in numbers]
        kin = [workshop.kin(number, tick=subject.tick).on(subject) for number in numbers]
    apart = np.stack([looks_apart(subject, other) for other in kin])
    moved = np.stack([says_apart(subject, other) for other in kin])
    dealt = np.median([looks_apart_by_chance(subject, other) for other in kin], axis=0)
    values = np.median(apart, axis=0)
    lost = [
        name
        for name, other in zip(names, kin, strict=True)
        if not has_learnt(other.predicted, subject.predicted)
    ]
    if not lost:
        subject.memo["floor"] = values
    largest = np.array([weights.max() for weights in subject.attention()])
    return Finding(
        values,
        by_class=by_class(subject, values),
        chance=float(dealt.mean()),
        detail={
            "each": [
                {
                    "name": name,
                    "jsd": summary(apart[at], "jsd", at, subject.seed),
                    "tvd": summary(moved[at], "tvd", at, subject.seed),
                    "same_class": float((kin[at].predicted == subject.predicted).mean()),
                }
                for at, name in enumerate(names)
            ],
            "tvd": summary(moved.mean(0), "tvd", subject.seed),
            "median": float(np.median(values)),
        },
        plots=[violin(subject, "Attention under other seeds", "median JSD", values, largest)],
        notes=[
            "Chance is the divergence when the other seed's weights are dealt out anew over the words of each text."
        ],
        undecided=_undecided(values, dealt, lost, len(kin)),
    )


def _undecided(values: Numbers, dealt: Numbers, lost: list[str], count: int) -> str | None:
    if lost:
        return (
            f"{len(lost)} of {count} other models ({', '.join(lost)}) did not learn to predict what this one does: "
            "where they look says nothing. Train longer (--epochs), or on more examples."
        )
    if dealt.mean() / 2 <= values.mean() < THRESHOLD:
        return (
            f"Attention is so flat that weights dealt out at random over the words are only {dealt.mean():.3f} away: "
            f"that other seeds are {values.mean():.3f} away does not mean that they look at the same words."
        )
    return None
