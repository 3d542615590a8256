"""Experiment: distance of predictions when attention weights are permuted (Jain & Wallace 2019)."""

from typing import Annotated

import numpy as np
import torch

from whence.core.params import Range
from whence.studies.audit.attention_variants import COPIES, replay_permutations, tvd
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import build_violin, group_by_class, summarise
from whence.studies.audit.subject import AuditSubject


@experiment(
    "permutation",
    hypothesis="It matters which word gets which weight: with the weights permuted, the prediction changes.",
    measure="mean over examples of the median total variation distance between the prediction and that with the "
    "weights permuted",
    threshold=0.1,
    direction="above",
    labels=False,
    trains=False,
    calls=lambda plan, params: (
        plan.n * plan.sites * (COPIES + params["permutations"] * plan.replay)
    ),
    cite="Jain & Wallace 2019, arXiv:1902.10186",
    misleads_when="attention is nearly uniform, so that a permutation changes nothing worth the name, or the words "
    "of a text all say the same; and a model that was never trained with such weights may change its mind for that "
    "reason alone",
    presets={"jain_wallace": {"permutations": 100}},
)
def permutation(
    subject: AuditSubject, *, permutations: Annotated[int, Range(1, 10_000)] = 100
) -> Finding:
    """Permute the weights of the text's tokens, and see how far the prediction goes.

    One permutation is for all heads that a site has. The threshold is a tenth of what a prediction can move by: less
    than that seldom turns one.
    """
    task = subject.loaded.task
    medians = {site.name: np.full(len(subject), np.nan) for site in subject.sites}
    for replayed in subject.build_replays(subject.sites, copies=COPIES):
        with torch.no_grad():
            _, answers = replay_permutations(subject, replayed, permutations)
            moved = tvd(answers, replayed.base[:, None], task).double().cpu().numpy()
        for number, site, row in zip(replayed.numbers, replayed.sites, moved, strict=True):
            medians[site.name][number] = np.median(row)
        subject.tick(len(replayed) * (COPIES + permutations * subject.replay))
    first, *others = subject.sites
    values = medians[first.name]
    largest = np.array([weights.max() for weights in subject.attention()])
    return Finding(
        values,
        by_site={site.name: medians[site.name] for site in others},
        by_class=group_by_class(subject, values),
        detail={
            "largest_weight": summarise(largest, "largest weight", subject.seed),
            "median": float(np.median(values)),
        },
        plots=[
            build_violin(
                subject,
                "How far the prediction goes when the weights are permuted",
                "median TVD",
                values,
                largest,
            )
        ],
    )
