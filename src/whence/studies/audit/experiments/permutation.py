"""Experiment: distance of predictions when attention weights are permuted (Jain & Wallace 2019)."""

from typing import Annotated

import numpy as np

from whence.core.params import Range
from whence.studies.audit.attention_variants import COPIES, replay_permutations
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import build_violin, group_by_class, summarise
from whence.studies.audit.subject import AuditSubject, Numbers, ReplayBatch


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

    def measure(replayed: ReplayBatch) -> Numbers:
        _, moved = replay_permutations(subject, replayed, permutations)
        medians: Numbers = np.median(moved.double().cpu().numpy(), axis=1)
        return medians

    sites = subject.sites
    values, *others = map(np.array, subject.map_replays(sites, COPIES, measure, permutations))
    return Finding(
        values,
        by_site={site.name: other for site, other in zip(sites[1:], others, strict=True)},
        by_class=group_by_class(subject, values),
        detail={
            "largest_weight": summarise(subject.largest_weights, "largest weight", subject.seed),
            "median": float(np.median(values)),
        },
        plots=[
            build_violin(
                subject,
                "How far the prediction goes when the weights are permuted",
                "median TVD",
                values,
            )
        ],
    )
