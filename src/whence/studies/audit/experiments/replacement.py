"""Experiment: predictions, accuracy and F1 with random, uniform or last-token attention, without retraining."""

from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.core.params import Range
from whence.stats.intervals import bootstrap
from whence.studies.audit.attention_variants import (
    COPIES,
    build_inserter,
    build_last_token,
    build_uniform,
    draw_random_weights,
    replay_copies,
    tvd,
)
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import group_by_class, summarise
from whence.studies.audit.subject import AuditSubject, ReplayBatch

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

THRESHOLD = 0.1


@experiment(
    "replacement",
    hypothesis="The prediction needs the model's own attention: with random weights in its place, it changes.",
    measure="mean over examples of the share of random attention distributions that change the predicted class",
    threshold=THRESHOLD,
    direction="above",
    labels=True,
    trains=False,
    calls=lambda plan, params: plan.n * plan.sites * (COPIES + (2 + params["draws"]) * plan.replay),
    cite="Jain & Wallace 2019, arXiv:1902.10186; Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="other weights are unlike anything the model was trained with, and break it for that reason alone; "
    "or the words of a text all say the same, and any of them will do",
)
def replacement(subject: AuditSubject, *, draws: Annotated[int, Range(1, 1000)] = 10) -> Finding:
    """Put random, uniform and last-token attention in the place of the model's own, without training it anew.

    `draws`: random distributions for each example, uniform over all that there are. The effect is the share of
    changed predictions under random attention, because random weights mean nothing by construction: the uniform ones
    are a fair summary of many texts, and the last token may be an important word. That accuracy falls is less clear
    a sign: a prediction that changes may become right. Falls of accuracy and F1 are in the details, with intervals
    of the differences of the same examples. The threshold is one prediction in ten.
    """
    changed: dict[str, Numbers] = {}
    moved: dict[str, Numbers] = {}
    predicted: Labels = np.zeros((len(subject), draws + 2), dtype=np.int64)
    first, *others = subject.sites
    for site in subject.sites:
        changed[site.name] = np.full((len(subject), draws + 2), np.nan)
        moved[site.name] = np.full((len(subject), draws + 2), np.nan)
    for replayed in subject.build_replays(subject.sites, copies=COPIES):
        answers, distances = _replay_replacements(subject, replayed, draws)
        for row, (number, site) in enumerate(zip(replayed.numbers, replayed.sites, strict=True)):
            now = answers[row].argmax(-1)
            changed[site.name][number] = now != subject.predictions[number]
            moved[site.name][number] = distances[row]
            if site == first:
                predicted[number] = now
        subject.tick(len(replayed) * (COPIES + (2 + draws) * subject.replay))
    values = changed[first.name][:, :draws].mean(1)
    return Finding(
        values,
        by_site={site.name: changed[site.name][:, :draws].mean(1) for site in others},
        by_class=group_by_class(subject, values),
        detail=_build_detail(subject, draws, changed[first.name], moved[first.name], predicted),
        plots=[_build_bars(subject, draws, changed[first.name])],
    )


@torch.no_grad()
def _replay_replacements(
    subject: AuditSubject, replayed: ReplayBatch, draws: int
) -> tuple[Numbers, Numbers]:
    """Return the predictions with each kind of attention, and their distances from the model's own."""
    drawn = draw_random_weights(subject, replayed, draws)
    free = replayed.movable[:, None, None, None].to(drawn.dtype).expand(-1, 1, *drawn.shape[2:])
    parts = torch.cat([drawn, build_uniform(free), build_last_token(free)], dim=1)
    frame = build_inserter(replayed.own, replayed.movable)
    answers = replay_copies(replayed, draws + 2, lambda some: frame(parts[:, some]))
    distances = tvd(answers, replayed.base[:, None], subject.loaded.task)
    return answers.double().cpu().numpy(), distances.double().cpu().numpy()


def _list_columns(draws: int) -> dict[str, slice]:
    return {
        "random": slice(0, draws),
        "uniform": slice(draws, draws + 1),
        "last_token": slice(draws + 1, draws + 2),
    }


def _build_detail(
    subject: AuditSubject, draws: int, changed: Numbers, moved: Numbers, predicted: Labels
) -> dict[str, Any]:
    truth = subject.truth
    assert truth is not None, "an experiment that needs labels is not run without"
    labels = len(subject.loaded.labels)
    own = subject.predictions[:, None]
    detail: dict[str, Any] = {"own": _compute_scores(truth, own, labels, subject.seed)}
    for kind, columns in _list_columns(draws).items():
        now = predicted[:, columns]
        detail[kind] = {
            "tvd": summarise(moved[:, columns].mean(1), "tvd", kind, subject.seed),
            "changed": _summarise_changed(subject, changed[:, columns].mean(1), kind),
            **_compute_scores(truth, now, labels, subject.seed),
            "falls": _compute_falls(truth, own, now, labels, subject.seed),
        }
    return detail


def _compute_scores(truth: Labels, predicted: Labels, labels: int, seed: int) -> dict[str, Any]:
    """Return accuracy and F1 with intervals; for several draws, their means."""
    rows = np.column_stack([truth, predicted]).astype(np.float64)
    scores = {"accuracy": summarise((predicted == truth[:, None]).mean(1), "accuracy", seed)}
    for name, label in _list_f1_scores(labels).items():
        scores[name] = _bootstrap_rows(
            rows, lambda some, label=label: _f1(some, labels, label), name, seed
        )
    return scores


def _compute_falls(
    truth: Labels, own: Labels, now: Labels, labels: int, seed: int
) -> dict[str, Any]:
    """Return the falls of accuracy and F1, with intervals of the paired differences."""
    right = (own == truth[:, None]).mean(1) - (now == truth[:, None]).mean(1)
    rows = np.column_stack([truth, own, now]).astype(np.float64)
    falls = {"accuracy": summarise(right, "fall of accuracy", seed)}

    def compute_fall(some: Numbers, label: int | None) -> float:
        after = np.delete(some, 1, axis=1)
        return _f1(some[:, :2], labels, label) - _f1(after, labels, label)

    for name, label in _list_f1_scores(labels).items():
        falls[name] = _bootstrap_rows(
            rows, lambda some, label=label: compute_fall(some, label), name, seed
        )
    return falls


def _list_f1_scores(labels: int) -> dict[str, int | None]:
    """Return the F1 scores to compute: the mean over labels, and for two labels that of the second."""
    return {"f1_macro": None, "f1": 1} if labels == 2 else {"f1_macro": None}


def _bootstrap_rows(rows: Numbers, statistic: Any, name: str, seed: int) -> dict[str, Any]:
    rows = rows[np.lexsort(rows.T[::-1])]  # the order of the examples must not change the bootstrap
    estimate = bootstrap(rows, ("audit", name, seed), statistic=statistic, draws=1000)
    interval = None if estimate.low is None else [estimate.low, estimate.high]
    return {"mean": estimate.mean, "interval": interval, "n": estimate.n}


def _f1(rows: Numbers, labels: int, label: int | None) -> float:
    """Return the F1 of one label, or the mean over the labels that occur.

    `rows` hold the true label and one or more predictions, over which it is averaged.
    """
    indices = rows.astype(np.int64)
    columns = indices.shape[1] - 1
    cells = (indices[:, :1] * labels + indices[:, 1:]) + labels**2 * np.arange(columns)
    confusion = np.bincount(cells.ravel(), minlength=columns * labels**2)
    confusion = confusion.reshape(columns, labels, labels)
    total = confusion.sum(1) + confusion.sum(2)  # predicted plus true examples of each label
    scores = 2 * confusion.diagonal(axis1=1, axis2=2) / np.maximum(total, 1)
    means = scores.sum(1) / (total > 0).sum(1)
    return float((means if label is None else scores[:, label]).mean())


def _summarise_changed(subject: AuditSubject, shares: Numbers, kind: str) -> dict[str, Any]:
    """Return the share of changed predictions; for random attention with the effect's interval."""
    key = ("replacement",) if kind == "random" else ("changed", kind)
    return summarise(shares, *key, subject.seed)


def _build_bars(subject: AuditSubject, draws: int, changed: Numbers) -> dict[str, Any]:
    bars = []
    for kind, columns in _list_columns(draws).items():
        figures = _summarise_changed(subject, changed[:, columns].mean(1), kind)
        low, high = figures["interval"] or (None, None)
        name = kind.replace("_", " ")
        bars.append({"name": name, "value": figures["mean"], "low": low, "high": high})
    return {
        "kind": "bars",
        "title": "Predictions that change under other attention",
        "y": "share changed",
        "bars": bars,
        "threshold": THRESHOLD,
    }
