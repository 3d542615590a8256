"""Experiment: rank correlation of attention, also by head, with feature importance (Jain & Wallace 2019)."""

from itertools import combinations
from typing import Annotated, Any

import numpy as np

from whence.core.params import Range
from whence.data.removal import Removal, count_passes_per_removal
from whence.stats.intervals import kendall_p_value, mean_of_known
from whence.stats.rank import kendall, pearson, spearman
from whence.studies.audit import importance
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import (
    Plot,
    build_histogram,
    build_matrix,
    group_by_class,
    list_known,
    summarise,
)
from whence.studies.audit.subject import AuditSubject, Numbers

Scores = dict[str, list[Numbers]]

ATTENTION = "attention"
SIGNIFICANCE_LEVEL = 0.05
# If the other measures agree with each other no better than this, they are no reference.
MIN_AGREEMENT = 0.2


@experiment(
    "correlation",
    hypothesis="Attention ranks the words of a text nearly as gradients, leave-one-out and integrated gradients do, "
    "measured by how these agree with each other.",
    measure="mean over examples of attention's mean Kendall tau with the three others, less the mean tau of these "
    "three with each other",
    threshold=-0.1,
    direction="above",
    labels=False,
    trains=False,
    calls=lambda plan, params: (
        plan.n
        * (3 + 3 * params["steps"] + 3 + plan.tokens * count_passes_per_removal(params["remove"]))
    ),
    cite="Jain & Wallace 2019, arXiv:1902.10186",
    misleads_when="the others are wrong together: gradients and leave-one-out share their blindness to words "
    "that say the same; and rank correlation counts the order of words that do not matter as much as that of the few "
    "that do",
    presets={"jain_wallace": {"detach": True, "remove": "delete"}},
)
def correlation(
    subject: AuditSubject,
    *,
    detach: bool = True,
    remove: Removal | None = None,
    steps: Annotated[int, Range(1, 1000)] = 50,
) -> Finding:
    """Correlate attention with other measures of importance, and these with each other.

    `detach`: to the gradient attention weights are constants, as Jain and Wallace have it. `remove`: how a token is
    left out. `steps`: of the integrated gradients. That attention differs from another measure says nothing where
    such measures differ from each other as much: so the effect is how much worse it agrees. Random weights agree with
    nothing, and have the others' agreement, less than 0, as their effect.
    """
    others: Scores = {
        "gradient": importance.gradient(subject, detached=detach),
        "leave_one_out": importance.leave_one_out(subject, remove=remove),
        "integrated_gradients": importance.integrated_gradients(subject, steps=steps),
    }
    scores = {ATTENTION: subject.attention(), **others}
    taus = {
        (one, other): _correlate(kendall, scores[one], scores[other])
        for one, other in combinations(scores, 2)
    }
    # NaN where any of the three is constant.
    among: Numbers = np.mean([taus[pair] for pair in combinations(others, 2)], axis=0)
    effects, *by_site = (
        np.mean(
            [_correlate(kendall, subject.attention(site), other) for other in others.values()],
            axis=0,
        )
        - among
        for site in subject.sites
    )
    yardstick = summarise(among, "yardstick", subject.seed)
    by_head = {
        name: _correlate_heads(subject, others[name]) for name in ("gradient", "leave_one_out")
    }
    unknown = int(np.isnan(effects).sum())
    return Finding(
        effects,
        by_site={site.name: rest for site, rest in zip(subject.sites[1:], by_site, strict=True)},
        by_class=group_by_class(subject, effects),
        chance=None if yardstick["mean"] is None else -yardstick["mean"],
        detail={
            "pairs": [_summarise_pair(subject, scores, *pair, taus[pair]) for pair in taus],
            "others_among_themselves": yardstick,
            "heads": {name: _describe_heads(values) for name, values in by_head.items()},
        },
        plots=_build_plots(subject, list(scores), taus, by_head),
        notes=[_describe_constant(scores, unknown, len(effects))] if unknown else [],
        undecided=_explain_no_reference(yardstick),
    )


def _correlate(measure: Any, scores: list[Numbers], others: list[Numbers]) -> Numbers:
    """Return the correlation of two measures for each example; NaN if one of them is constant."""
    return np.array([measure(one, other)[0] for one, other in zip(scores, others, strict=True)])


def _summarise_pair(
    subject: AuditSubject, scores: Scores, one: str, other: str, taus: Numbers
) -> dict[str, Any]:
    """Return the correlation statistics of two measures, over all examples and by predicted class."""
    p = _correlate(kendall_p_value, scores[one], scores[other])
    others = {
        measure.__name__: summarise(
            _correlate(measure, scores[one], scores[other]),
            *(measure.__name__, one, other, subject.seed),
        )
        for measure in (pearson, spearman)
    }
    levels = group_by_class(subject, p)
    return {
        "one": one,
        "other": other,
        **_summarise_taus(subject, taus, p, one, other),
        **others,
        "by_class": [
            {"class": name, **_summarise_taus(subject, values, levels[name], one, other, name)}
            for name, values in group_by_class(subject, taus).items()
        ],
    }


def _summarise_taus(subject: AuditSubject, taus: Numbers, p: Numbers, *key: str) -> dict[str, Any]:
    known = np.isfinite(taus)
    return {
        **summarise(taus, "tau", *key, subject.seed),
        "significant": float((p[known] <= SIGNIFICANCE_LEVEL).mean()) if known.any() else None,
        "constant": int((~known).sum()),
    }


def _correlate_heads(subject: AuditSubject, others: list[Numbers]) -> Numbers:
    """Return the mean tau of each head's attention with another measure, (layers, heads)."""
    taus = []
    for weights, other in zip(subject.attention_by_head(), others, strict=True):
        layers, heads, tokens = weights.shape
        taus.append(kendall(weights.reshape(-1, tokens), other).reshape(layers, heads))
    return mean_of_known(np.stack(taus))


def _describe_heads(values: Numbers) -> dict[str, Any]:
    """Return the tau of every head, with the best and the worst head."""
    named: dict[str, Any] = {"best": None, "worst": None}
    if np.isfinite(values).any():
        for name, find in (("best", np.nanargmax), ("worst", np.nanargmin)):
            layer, head = np.unravel_index(find(values), values.shape)
            tau = float(values[layer, head])
            named[name] = {"layer": int(layer), "head": int(head), "tau": tau}
    return {"tau": list_known(values), **named}


def _build_plots(
    subject: AuditSubject,
    names: list[str],
    taus: dict[tuple[str, str], Numbers],
    by_head: dict[str, Numbers],
) -> list[Plot]:
    plots = [
        build_histogram(
            f"Attention and {_format_name(other)}",
            "Kendall tau",
            group_by_class(subject, taus[ATTENTION, other]),
            low=-1,
            high=1,
        )
        for other in names[1:]
    ]
    means = np.eye(len(names))
    for (one, other), values in taus.items():
        mean = mean_of_known(values)
        means[names.index(one), names.index(other)] = mean
        means[names.index(other), names.index(one)] = mean
    captions = [_format_name(name) for name in names]
    plots.append(build_matrix("Mean tau of all pairs", captions, captions, means))
    for name, values in by_head.items():
        if values.size > 1:
            rows = [f"layer {layer}" for layer in range(values.shape[0])]
            columns = [f"head {head}" for head in range(values.shape[1])]
            title = f"Mean tau with {_format_name(name)}, by layer and head"
            plots.append(build_matrix(title, rows, columns, values))
    return plots


def _format_name(name: str) -> str:
    return name.replace("leave_one_out", "leave-one-out").replace("_", " ")


def _describe_constant(scores: Scores, unknown: int, n: int) -> str:
    """Describe how many examples have no correlation, and which measures cause this."""
    flat = {
        _format_name(name): sum(
            len(set(row.tolist())) < 2 or not np.isfinite(row).all() for row in rows
        )
        for name, rows in scores.items()
    }
    because = ", ".join(f"{name} in {count}" for name, count in flat.items() if count)
    return (
        f"{unknown} of {n} examples do not count: a measure gives all their tokens the same, or there is only one "
        f"token ({because})."
    )


def _explain_no_reference(among: dict[str, Any]) -> str | None:
    high = among["interval"][1] if among["interval"] else among["mean"]
    if high is None or high >= MIN_AGREEMENT:
        return None
    return (
        "Gradients, leave-one-out and integrated gradients do not agree with each other (their mean tau is "
        f"{among['mean']:.2f}, surely below {MIN_AGREEMENT:g}): there is nothing to hold attention against."
    )
