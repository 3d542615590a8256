"""Attention as a guide for a model without context (Wiegreffe & Pinter 2019)."""

from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from whence.audit.compare import standing
from whence.audit.experiments import Finding, experiment
from whence.audit.figures import Plot, by_class, summary
from whence.audit.guided import (
    FEWEST_STEPS,
    SHARE_OF_ATTENTIVE,
    SHARE_OF_TRANSFORMER,
    Guide,
    Guided,
)
from whence.audit.plan import Plan
from whence.audit.subject import Subject
from whence.audit.workshop import training_passes
from whence.core.params import Range

Labels = NDArray[np.int64]
Arm = Literal["uniform", "tanh"] | Guide

_BATCH = 32  # of the usual recipe
_ARMS = 4


def _calls(plan: Plan, params: Mapping[str, Any]) -> float:
    """Two passes over the examples for the attention, and the small models, whose passes are shorter."""
    share = SHARE_OF_ATTENTIVE if plan.layers == 1 else SHARE_OF_TRANSFORMER
    epochs = max(8, ceil(FEWEST_STEPS / max(1, ceil(plan.train / _BATCH))))
    trained = training_passes(plan.train, 1) * epochs * params["runs"] * _ARMS
    return float(plan.train + share * trained)


@experiment(
    "guides",
    hypothesis="The model's attention points at words that tell the label: a model without context that is told to "
    "look there does better than one that looks everywhere alike.",
    measure="mean over examples of right (1) or wrong (0) of a model without context guided by the model's "
    "attention, less that of one with uniform weights: the difference of their accuracies",
    threshold=0.01,
    direction="above",
    labels=True,
    trains=True,
    calls=_calls,
    cite="Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="single words tell the label so well that the model without context needs no guide; or what "
    "matters is how words stand together, which a model without context cannot see wherever it looks",
)
def guides(
    subject: Subject,
    *,
    runs: Annotated[int, Range(1, 100)] = 3,
    vectors: Literal["model", "drawn"] = "model",
) -> Finding:
    """Train a model without context whose attention is fixed to uniform, to the model's, or to the adversary's.

    `runs`: how often each is trained, from another seed each time; the effect is the mean. `vectors`: the word
    vectors that all start from: the model's own table, or drawn ones, which need many more examples. Beside these,
    one learns its attention with the rest. The adversary is the one that trained_adversary found, if that was part of
    the audit: where it guides as well as the model, its attention is as good an explanation.
    """
    workshop, truth = subject.workshop, subject.truth
    assert workshop is not None and truth is not None, "not run without labels and a workshop"
    seen = workshop.training(subject)
    guided = Guided(subject, workshop, vectors)
    arms: dict[str, Arm] = {
        "uniform": "uniform",
        "learned": "tanh",
        "guide": Guide(seen.attention(), subject.attention()),
    }
    adversary = subject.memo.get("adversary")
    if adversary is not None:
        arms["adversary"] = Guide(adversary.on(seen).attention(), adversary.on(subject).attention())
    said: dict[str, list[Labels]] = {name: [] for name in arms}
    for seed in workshop.seeds(runs):
        for name, arm in arms.items():
            said[name].append(guided.said(seed, arm, subject.tick))
    right = {name: np.mean([one == truth for one in every], axis=0) for name, every in said.items()}
    values = right["guide"] - right["uniform"]
    labels, seed = len(subject.loaded.labels), subject.seed
    detail: dict[str, Any] = {
        name: {
            "accuracy": summary(right[name], "accuracy", name, seed),
            "f1": _mean([standing(one, truth, labels, name, seed)["f1"] for one in every]),
        }
        for name, every in said.items()
    }
    for name in set(arms) - {"uniform", "guide"}:
        gain = right[name] - right["uniform"]
        detail[name]["gain"] = summary(gain, "gain", name, seed)
    return Finding(
        values,
        by_class=by_class(subject, values),
        chance=0.0,
        detail=detail,
        plots=[_bars(detail)],
        notes=["The interval is over examples; the accuracies are means over the runs."],
        undecided=_undecided(detail, truth),
    )


def _mean(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of several figures of the same examples, and of the ends of their intervals."""
    ends = [one["interval"] for one in found if one["interval"]]
    interval = [float(np.mean([end[at] for end in ends])) for at in (0, 1)] if ends else None
    mean = float(np.mean([one["mean"] for one in found]))
    return {"mean": mean, "interval": interval, "n": found[0]["n"]}


def _undecided(detail: dict[str, Any], truth: Labels) -> str | None:
    """Say so if no model learnt anything: if not even the best one's interval is above the commonest label."""
    commonest = float(np.bincount(truth).max() / len(truth))
    best = max((found["accuracy"] for found in detail.values()), key=lambda one: one["mean"])
    if best["interval"] is None or best["interval"][0] > commonest:
        return None
    return (
        f"No model without context does better than always saying the commonest label ({commonest:.2f}), wherever it "
        "looks: guides cannot be told apart. Give more training examples."
    )


def _bars(detail: dict[str, Any]) -> Plot:
    names = {
        "uniform": "uniform",
        "learned": "learned with it",
        "guide": "the model's attention",
        "adversary": "the adversary's",
    }
    bars = []
    for name, found in detail.items():
        low, high = found["accuracy"]["interval"] or (None, None)
        value = found["accuracy"]["mean"]
        bars.append({"name": names[name], "value": value, "low": low, "high": high})
    return {
        "kind": "bars",
        "title": "A model without context, told where to look",
        "y": "accuracy",
        "bars": bars,
        "threshold": None,
    }
