"""Experiment: performance of the model retrained with uniform attention (Wiegreffe & Pinter 2019)."""

from typing import Annotated, Any

import numpy as np

from whence.core.params import Range
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import build_bars, group_by_class, summarise_performance
from whence.studies.audit.retrain import AttentionMode, count_training_passes, has_learnt
from whence.studies.audit.subject import AuditSubject, Labels


@experiment(
    "uniform_training",
    hypothesis="The model needs its attention: trained with the same weight on every word, it does worse.",
    measure="mean over examples of right (1) or wrong (0) of a model trained as ever, less that of one trained with "
    "uniform attention: the difference of their accuracies",
    threshold=0.02,
    direction="above",
    labels=True,
    trains=True,
    calls=lambda plan, params: (
        2 * params["runs"] * (count_training_passes(plan.train, plan.epochs) + plan.n)
    ),
    cite="Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="the training examples are so few that neither model learns what attention would be good for; or "
    "the model makes up elsewhere (in its recurrence, or its feed-forward layers) for the attention it is denied; "
    "and uniform weights are trained without the dropout of attention that a Transformer may have",
)
def uniform_training(subject: AuditSubject, *, runs: Annotated[int, Range(1, 100)] = 1) -> Finding:
    """Train the model twice on the same data, once with uniform attention, and compare.

    `runs`: how often, each time from another seed; the effect is the mean. The control is trained here, too, because
    the examined model may have seen more, or other data. In a Transformer all layers attend uniformly, special tokens
    included. In Wiegreffe and Pinter's own table the data divide at 0.02: three of them lose less than 0.01 of
    F1 without attention, the other three 0.02 and more.
    """
    workshop, truth = subject.workshop, subject.known_truth
    assert workshop is not None, "an experiment that trains is not run without a workshop"
    arms: tuple[AttentionMode, ...] = ("own", "uniform")
    predictions: dict[str, list[Labels]] = {attention: [] for attention in arms}
    for seed in workshop.list_seeds(runs):
        for attention in arms:
            model = workshop.retrain(seed, attention, tick=subject.tick)
            predictions[attention].append(model.apply_to(subject).predictions)
    right = {
        name: np.mean([row == truth for row in rows], axis=0) for name, rows in predictions.items()
    }
    values = right["own"] - right["uniform"]
    detail: dict[str, Any] = {
        "model": summarise_performance(subject, subject.predictions, "model"),
        "majority": float(np.bincount(truth).max() / len(truth)),
    }
    for name, attention in (("control", "own"), ("uniform", "uniform")):
        detail[name] = [summarise_performance(subject, row, name) for row in predictions[attention]]
    own = float((subject.predictions == truth).mean())
    weak = [row for row in predictions["own"] if not has_learnt(row, truth, own)]
    return Finding(
        values,
        by_class=group_by_class(subject, values),
        chance=0.0,
        detail=detail,
        plots=[
            build_bars(
                "With attention and without",
                "accuracy",
                [
                    ("the examined model", detail["model"]["accuracy"]),
                    *(("trained as ever", arm["accuracy"]) for arm in detail["control"]),
                    *(("trained uniform", arm["accuracy"]) for arm in detail["uniform"]),
                ],
            )
        ],
        notes=[
            "Attention that is not needed cannot be what a prediction is due to: where this fails, the other "
            "experiments have little to say about this data.",
            "The interval is over examples; what another seed would change shows in several runs.",
        ],
        undecided=_explain_weak_control(weak, truth, own) if weak else None,
    )


def _explain_weak_control(weak: list[Labels], truth: Labels, own: float) -> str:
    reached = float(np.mean([(row == truth).mean() for row in weak]))
    return (
        f"The control reached an accuracy of {reached:.2f} where the examined model has {own:.2f}: it was trained "
        "too little to show what attention is good for. Give more training examples, or more epochs (--epochs)."
    )
