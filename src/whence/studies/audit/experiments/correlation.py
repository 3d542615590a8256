"""Experiment: rank correlation of attention, also by head, with feature importance (Jain & Wallace 2019)."""

from itertools import combinations
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

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
    summarise,
)
from whence.studies.audit.subject import AuditSubject

Numbers = NDArray[np.float64]
Scores = dict[str, list[Numbers]]
Pair = tuple[str, str]

ATTENTION = "attention"
SIGNIFICANCE_LEVEL = 0.05
# If the other measures agree with each other no better than this, they are no reference.
MIN_AGREEMENT = 0.2
_MEASURES = {"kendall": kendall, "pearson": pearson, "spearman": spearman}


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
    pairs = list(combinations(scores, 2))
    taus = {pair: _correlate_examples(kendall, scores, pair) for pair in pairs}
    among = _average_columns([taus[pair] for pair in combinations(others, 2)])
    effects = _average_columns([taus[ATTENTION, name] for name in others]) - among
    by_site = {}
    for site in subject.sites[1:]:
        here = {ATTENTION: subject.attention(site), **others}
        own = [_correlate_examples(kendall, here, (ATTENTION, name)) for name in others]
        by_site[site.name] = _average_columns(own) - among
    yardstick = summarise(among, "yardstick", subject.seed)
    by_head = {
        name: _correlate_heads(subject, others[name]) for name in ("gradient", "leave_one_out")
    }
    unknown = int(np.isnan(effects).sum())
    return Finding(
        effects,
        by_site=by_site,
        by_class=group_by_class(subject, effects),
        chance=None if yardstick["mean"] is None else -yardstick["mean"],
        detail={
            "pairs": [_summarise_pair(subject, scores, pair, taus[pair]) for pair in pairs],
            "others_among_themselves": yardstick,
            "heads": {name: _describe_heads(values) for name, values in by_head.items()},
        },
        plots=_build_plots(subject, list(scores), taus, by_head),
        notes=[_describe_constant(scores, unknown, len(effects))] if unknown else [],
        undecided=_explain_no_reference(yardstick),
    )


def _correlate_examples(measure: Any, scores: Scores, pair: Pair) -> Numbers:
    """Return the correlation of two measures for each example; NaN if one of them is constant."""
    both = zip(scores[pair[0]], scores[pair[1]], strict=True)
    return np.array([measure(one, other)[0] for one, other in both])


def _average_columns(columns: list[Numbers]) -> Numbers:
    """Return the mean over columns for each example; NaN if any column is NaN."""
    return np.asarray(np.mean(columns, axis=0))


def _summarise_pair(
    subject: AuditSubject, scores: Scores, pair: Pair, taus: Numbers
) -> dict[str, Any]:
    """Return the correlation statistics of two measures, over all examples and by predicted class."""
    p = _correlate_examples(kendall_p_value, scores, pair)
    summary: dict[str, Any] = {
        "one": pair[0],
        "other": pair[1],
        **_summarise_taus(subject, taus, p, *pair),
    }
    for name in ("pearson", "spearman"):
        values = _correlate_examples(_MEASURES[name], scores, pair)
        summary[name] = summarise(values, name, *pair, subject.seed)
    classes = group_by_class(subject, taus)
    levels = group_by_class(subject, p)
    summary["by_class"] = [
        {"class": name, **_summarise_taus(subject, values, levels[name], *pair, name)}
        for name, values in classes.items()
    ]
    return summary


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
    cells = [[float(tau) if np.isfinite(tau) else None for tau in row] for row in values]
    if not np.isfinite(values).any():
        return {"tau": cells, "best": None, "worst": None}
    places = {"best": np.nanargmax(values), "worst": np.nanargmin(values)}
    named = {}
    for name, place in places.items():
        layer, head = np.unravel_index(place, values.shape)
        named[name] = {"layer": int(layer), "head": int(head), "tau": float(values[layer, head])}
    return {"tau": cells, **named}


def _build_plots(
    subject: AuditSubject,
    names: list[str],
    taus: dict[Pair, Numbers],
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
    plots.append(build_matrix("Mean tau of all pairs", captions, captions, means, low=-1, high=1))
    for name, values in by_head.items():
        if values.size > 1:
            rows = [f"layer {layer}" for layer in range(values.shape[0])]
            columns = [f"head {head}" for head in range(values.shape[1])]
            title = f"Mean tau with {_format_name(name)}, by layer and head"
            plots.append(build_matrix(title, rows, columns, values, low=-1, high=1))
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
