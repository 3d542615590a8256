"""Experiment: predictions, accuracy and F1 with random, uniform or last-token attention, without retraining."""

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import torch

from whence.core.params import Range
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
from whence.studies.audit.finding_summary import build_bars, group_by_class, summarise, summarise_f1
from whence.studies.audit.subject import AuditSubject, Labels, Numbers, ReplayBatch

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

    @torch.no_grad()
    def measure(replayed: ReplayBatch) -> Iterable[tuple[Labels, Numbers]]:
        drawn = draw_random_weights(subject, replayed, draws)
        free = replayed.movable[:, None, None, None].to(drawn.dtype).expand(-1, 1, *drawn.shape[2:])
        parts = torch.cat([drawn, build_uniform(free), build_last_token(free)], dim=1)
        insert = build_inserter(replayed.own, replayed.movable)
        answers = replay_copies(replayed, draws + 2, lambda some: insert(parts[:, some]))
        moved = tvd(answers, replayed.base[:, None], subject.loaded.task)
        answered, distances = (values.double().cpu().numpy() for values in (answers, moved))
        return zip(answered.argmax(-1), distances, strict=True)

    by_site = subject.map_replays(subject.sites, COPIES, measure, 2 + draws)
    predicted = [np.array([now for now, _ in rows]) for rows in by_site]
    changed = [now != subject.predictions[:, None] for now in predicted]
    values, *others = (rows[:, :draws].mean(1) for rows in changed)
    columns = {
        "random": slice(0, draws),
        "uniform": slice(draws, draws + 1),
        "last_token": slice(draws + 1, draws + 2),
    }
    moved = np.array([distances for _, distances in by_site[0]])
    # The share of changed predictions under random attention is the effect, and has its interval.
    shares = {
        kind: summarise(
            changed[0][:, some].mean(1),
            *(("replacement",) if kind == "random" else ("changed", kind)),
            subject.seed,
        )
        for kind, some in columns.items()
    }
    detail: dict[str, Any] = {"own": _compute_scores(subject, subject.predictions[:, None])}
    for kind, some in columns.items():
        now = predicted[0][:, some]
        detail[kind] = {
            "tvd": summarise(moved[:, some].mean(1), "tvd", kind, subject.seed),
            "changed": shares[kind],
            **_compute_scores(subject, now),
            "falls": _compute_scores(subject, subject.predictions[:, None], now),
        }
    return Finding(
        values,
        by_site={site.name: rest for site, rest in zip(subject.sites[1:], others, strict=True)},
        by_class=group_by_class(subject, values),
        detail=detail,
        plots=[
            build_bars(
                "Predictions that change under other attention",
                "share changed",
                [(kind.replace("_", " "), share) for kind, share in shares.items()],
                THRESHOLD,
            )
        ],
    )


def _compute_scores(subject: AuditSubject, *predicted: Labels) -> dict[str, Any]:
    """Return accuracy, macro F1 and, of two labels, F1 of the second, means over draws; their falls for two predictions."""
    truth, seed = subject.known_truth, subject.seed
    right, *after = ((some == truth[:, None]).mean(1) for some in predicted)
    name = "fall of accuracy" if after else "accuracy"
    scores = {"accuracy": summarise(right - sum(after), name, seed)}
    for name, label in {
        "f1_macro": None,
        **({"f1": 1} if len(subject.loaded.labels) == 2 else {}),
    }.items():
        scores[name] = summarise_f1(subject, *predicted, label=label, key=(name, seed))
    return scores
