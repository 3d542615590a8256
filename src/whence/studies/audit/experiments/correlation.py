"""Attention beside measures of feature importance (Jain & Wallace 2019)."""

from itertools import combinations
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from whence.audit import importance
from whence.audit.experiments import Finding, experiment
from whence.audit.figures import Plot, by_class, histogram, matrix, summary
from whence.audit.subject import Subject
from whence.core.params import Range
from whence.data.removal import Removal, calls_per_hole
from whence.stats import kendall, kendall_p, pearson, spearman
from whence.stats.known import mean_of_known

Numbers = NDArray[np.float64]
Scores = dict[str, list[Numbers]]
Pair = tuple[str, str]

ATTENTION = "attention"
SIGNIFICANT = 0.05
# Where the others agree with each other no better than this, they are no yardstick.
YARDSTICK = 0.2
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
        plan.n * (3 + 3 * params["steps"] + 3 + plan.tokens * calls_per_hole(params["remove"]))
    ),
    cite="Jain & Wallace 2019, arXiv:1902.10186",
    misleads_when="the others are wrong together: gradients and leave-one-out share their blindness to words "
    "that say the same; and rank correlation counts the order of words that do not matter as much as that of the few "
    "that do",
    presets={"jain_wallace": {"detach": True, "remove": "delete"}},
)
def correlation(
    subject: Subject,
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
        "leave_one_out": importance.loo(subject, remove=remove),
        "integrated_gradients": importance.integrated_gradients(subject, steps=steps),
    }
    scores = {ATTENTION: subject.attention(), **others}
    pairs = list(combinations(scores, 2))
    taus = {pair: _each(kendall, scores, pair) for pair in pairs}
    among = _mean_of([taus[pair] for pair in combinations(others, 2)])
    effects = _mean_of([taus[ATTENTION, name] for name in others]) - among
    by_site = {}
    for site in subject.sites[1:]:
        here = {ATTENTION: subject.attention(site), **others}
        own = [_each(kendall, here, (ATTENTION, name)) for name in others]
        by_site[site.name] = _mean_of(own) - among
    yardstick = summary(among, "yardstick", subject.seed)
    by_head = {name: _by_head(subject, others[name]) for name in ("gradient", "leave_one_out")}
    unknown = int(np.isnan(effects).sum())
    return Finding(
        effects,
        by_site=by_site,
        by_class=by_class(subject, effects),
        chance=None if yardstick["mean"] is None else -yardstick["mean"],
        detail={
            "pairs": [_pair(subject, scores, pair, taus[pair]) for pair in pairs],
            "others_among_themselves": yardstick,
            "heads": {name: _heads(values) for name, values in by_head.items()},
        },
        plots=_plots(subject, list(scores), taus, by_head),
        notes=[_constant(scores, unknown, len(effects))] if unknown else [],
        undecided=_no_yardstick(yardstick),
    )


def _each(measure: Any, scores: Scores, pair: Pair) -> Numbers:
    """Return the correlation of two measures for each example; NaN where one of them ranks nothing."""
    both = zip(scores[pair[0]], scores[pair[1]], strict=True)
    return np.array([measure(one, other)[0] for one, other in both])


def _mean_of(columns: list[Numbers]) -> Numbers:
    """Return the mean for each example; NaN where one of the columns has it."""
    return np.asarray(np.mean(columns, axis=0))


def _pair(subject: Subject, scores: Scores, pair: Pair, taus: Numbers) -> dict[str, Any]:
    """Return all figures of two measures, over all examples and by predicted class."""
    p = _each(kendall_p, scores, pair)
    found: dict[str, Any] = {"one": pair[0], "other": pair[1], **_taus(subject, taus, p, *pair)}
    for name in ("pearson", "spearman"):
        values = _each(_MEASURES[name], scores, pair)
        found[name] = summary(values, name, *pair, subject.seed)
    classes = by_class(subject, taus)
    levels = by_class(subject, p)
    found["by_class"] = [
        {"class": name, **_taus(subject, values, levels[name], *pair, name)}
        for name, values in classes.items()
    ]
    return found


def _taus(subject: Subject, taus: Numbers, p: Numbers, *key: str) -> dict[str, Any]:
    known = np.isfinite(taus)
    return {
        **summary(taus, "tau", *key, subject.seed),
        "significant": float((p[known] <= SIGNIFICANT).mean()) if known.any() else None,
        "constant": int((~known).sum()),
    }


def _by_head(subject: Subject, others: list[Numbers]) -> Numbers:
    """Return the mean tau of each layer's heads with another measure, (layers, heads)."""
    found = []
    for weights, other in zip(subject.attention_by_head(), others, strict=True):
        layers, heads, tokens = weights.shape
        found.append(kendall(weights.reshape(-1, tokens), other).reshape(layers, heads))
    return mean_of_known(np.stack(found))


def _heads(values: Numbers) -> dict[str, Any]:
    """Return the matrix of layers and heads, and the best and the worst of them."""
    cells = [[float(one) if np.isfinite(one) else None for one in row] for row in values]
    if not np.isfinite(values).any():
        return {"tau": cells, "best": None, "worst": None}
    places = {"best": np.nanargmax(values), "worst": np.nanargmin(values)}
    named = {}
    for name, place in places.items():
        layer, head = np.unravel_index(place, values.shape)
        named[name] = {"layer": int(layer), "head": int(head), "tau": float(values[layer, head])}
    return {"tau": cells, **named}


def _plots(
    subject: Subject,
    names: list[str],
    taus: dict[Pair, Numbers],
    by_head: dict[str, Numbers],
) -> list[Plot]:
    plots = [
        histogram(
            f"Attention and {_said(other)}",
            "Kendall tau",
            by_class(subject, taus[ATTENTION, other]),
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
    said = [_said(name) for name in names]
    plots.append(matrix("Mean tau of all pairs", said, said, means, low=-1, high=1))
    for name, values in by_head.items():
        if values.size > 1:
            rows = [f"layer {layer}" for layer in range(values.shape[0])]
            columns = [f"head {head}" for head in range(values.shape[1])]
            title = f"Mean tau with {_said(name)}, by layer and head"
            plots.append(matrix(title, rows, columns, values, low=-1, high=1))
    return plots


def _said(name: str) -> str:
    return name.replace("leave_one_out", "leave-one-out").replace("_", " ")


def _constant(scores: Scores, unknown: int, n: int) -> str:
    """Say how many examples have no correlation, and because of which measures."""
    flat = {
        _said(name): sum(len(set(row.tolist())) < 2 or not np.isfinite(row).all() for row in rows)
        for name, rows in scores.items()
    }
    because = ", ".join(f"{name} in {count}" for name, count in flat.items() if count)
    return (
        f"{unknown} of {n} examples do not count: a measure gives all their tokens the same, or there is only one "
        f"token ({because})."
    )


def _no_yardstick(among: dict[str, Any]) -> str | None:
    high = among["interval"][1] if among["interval"] else among["mean"]
    if high is None or high >= YARDSTICK:
        return None
    return (
        "Gradients, leave-one-out and integrated gradients do not agree with each other (their mean tau is "
        f"{among['mean']:.2f}, surely below {YARDSTICK:g}): there is nothing to hold attention against."
    )
