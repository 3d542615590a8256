"""Experiment: context-free models guided by the model's, uniform or adversarial attention (Wiegreffe & Pinter)."""

from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from whence.core.params import Range
from whence.studies.audit.audit import AuditCostEstimate
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import Plot, group_by_class, summarise
from whence.studies.audit.retrain import (
    MIN_GUIDED_STEPS,
    RNN_PASS_COST,
    TRANSFORMER_PASS_COST,
    AttentionGuide,
    ContextFreeTrainer,
    count_training_passes,
    summarise_performance,
)
from whence.studies.audit.subject import AuditSubject

Labels = NDArray[np.int64]
Arm = Literal["uniform", "tanh"] | AttentionGuide

_BATCH_SIZE = 32  # that of the default recipe
_ARMS = 4


def _count_calls(plan: AuditCostEstimate, params: Mapping[str, Any]) -> float:
    """Return the estimated forward passes: one per training example, and those of small models."""
    share = RNN_PASS_COST if plan.layers == 1 else TRANSFORMER_PASS_COST
    epochs = max(8, ceil(MIN_GUIDED_STEPS / max(1, ceil(plan.train / _BATCH_SIZE))))
    trained = count_training_passes(plan.train, 1) * epochs * params["runs"] * _ARMS
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
    calls=_count_calls,
    cite="Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="single words tell the label so well that the model without context needs no guide; or what "
    "matters is how words stand together, which a model without context cannot see wherever it looks",
)
def guides(
    subject: AuditSubject,
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
    training = workshop.build_training_subject(subject)
    guided = ContextFreeTrainer(subject, workshop, vectors)
    arms: dict[str, Arm] = {
        "uniform": "uniform",
        "learned": "tanh",
        "guide": AttentionGuide(training.attention(), subject.attention()),
    }
    adversary = subject.memo.get("adversary")
    if adversary is not None:
        arms["adversary"] = AttentionGuide(
            adversary.apply_to(training).attention(), adversary.apply_to(subject).attention()
        )
    predictions: dict[str, list[Labels]] = {name: [] for name in arms}
    for seed in workshop.list_seeds(runs):
        for name, arm in arms.items():
            predictions[name].append(guided.train_and_predict(seed, arm, subject.tick))
    right = {
        name: np.mean([row == truth for row in rows], axis=0) for name, rows in predictions.items()
    }
    values = right["guide"] - right["uniform"]
    labels, seed = len(subject.loaded.labels), subject.seed
    detail: dict[str, Any] = {
        name: {
            "accuracy": summarise(right[name], "accuracy", name, seed),
            "f1": _average_intervals(
                [summarise_performance(row, truth, labels, name, seed)["f1"] for row in rows]
            ),
        }
        for name, rows in predictions.items()
    }
    for name in set(arms) - {"uniform", "guide"}:
        gain = right[name] - right["uniform"]
        detail[name]["gain"] = summarise(gain, "gain", name, seed)
    return Finding(
        values,
        by_class=group_by_class(subject, values),
        chance=0.0,
        detail=detail,
        plots=[_build_bars(detail)],
        notes=["The interval is over examples; the accuracies are means over the runs."],
        undecided=_explain_undecided(detail, truth),
    )


def _average_intervals(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of several figures of the same examples, and of the ends of their intervals."""
    ends = [figure["interval"] for figure in figures if figure["interval"]]
    interval = [float(np.mean([end[at] for end in ends])) for at in (0, 1)] if ends else None
    mean = float(np.mean([figure["mean"] for figure in figures]))
    return {"mean": mean, "interval": interval, "n": figures[0]["n"]}


def _explain_undecided(detail: dict[str, Any], truth: Labels) -> str | None:
    """Return why there is no verdict, if no model is clearly better than the commonest label."""
    commonest = float(np.bincount(truth).max() / len(truth))
    best = max((arm["accuracy"] for arm in detail.values()), key=lambda accuracy: accuracy["mean"])
    if best["interval"] is None or best["interval"][0] > commonest:
        return None
    return (
        f"No model without context does better than always saying the commonest label ({commonest:.2f}), wherever it "
        "looks: guides cannot be told apart. Give more training examples."
    )


def _build_bars(detail: dict[str, Any]) -> Plot:
    names = {
        "uniform": "uniform",
        "learned": "learned with it",
        "guide": "the model's attention",
        "adversary": "the adversary's",
    }
    bars = []
    for name, arm in detail.items():
        low, high = arm["accuracy"]["interval"] or (None, None)
        value = arm["accuracy"]["mean"]
        bars.append({"name": names[name], "value": value, "low": low, "high": high})
    return {
        "kind": "bars",
        "title": "A model without context, told where to look",
        "y": "accuracy",
        "bars": bars,
        "threshold": None,
    }
