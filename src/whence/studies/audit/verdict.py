"""Verdict of an experiment from its interval, and an audit's conclusion (yes, no, undecided) with its paragraph.

The verdict of an experiment compares the whole 95% interval of its effect with the threshold that was stated
before; fewer than 20 examples give no verdict (bench/verdicts.py).

The rules of the conclusion are fixed before any result is known:

**no**, if one of `DECISIVE` fails. Each of these changes attention and looks at what comes out, so that its
failure is a fact about the model and the task, not about another method. Weights that may be permuted
(`permutation`), exchanged for random ones (`replacement`) or for far different ones that were looked for
(`adversarial`), and the predictions stay, are not what the predictions rest on. Where a model without
attention does as well (`uniform_training`), there is nothing for attention to explain (Wiegreffe & Pinter
2019).

**yes**, if all of `NEEDED` hold and nothing that was run fails. That the predictions depend on the weights is
not enough: the weights must also rank the words as measures of importance do (`correlation`). And the model
must do better than always saying the most frequent class: predictions that know nothing of the text have
nothing in it to explain.

**undecided** otherwise.

Why `correlation` alone never makes it no: a low tau is no evidence against attention, since gradients,
leave-one-out and the like disagree with each other, too (Neely et al. 2022). The experiment takes this into
account, and measures attention by how these agree among themselves; but they may be wrong together, so that
even then one side is wrong and it is not known which. Why it is needed for a yes: that side may be attention.

Why the others (`diversity`, `seeds`, `guides`, `trained_adversary`) prevent a yes and never make it no: they
look at other models, or at how many ways of attending lead to one prediction; they say how far attention is
the only account, not whether this model's predictions rest on it.

The verdicts come from 95% intervals, one by one and uncorrected. An effect exactly at its threshold fails by
chance about one time in forty; so the four decisive ones together make a false no about one time in ten.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import mode
from typing import Any, Literal

import numpy as np

from whence.core.registry import Entry
from whence.stats.intervals import Interval, bootstrap
from whence.studies.audit.experiments import Finding, Numbers
from whence.studies.audit.report import (
    format_condition,
    format_effect,
    format_effect_summary,
    to_one_line,
)

NEEDED = ("correlation", "permutation", "replacement", "adversarial")
DECISIVE = ("permutation", "replacement", "adversarial", "uniform_training")

# The meaning of an experiment's verdict, for readers who do not know the experiment.
_MEANING = {
    "correlation": {
        "holds": "the weights agree with gradients and leave-one-out nearly as well as these with each other",
        "fails": "the weights agree with gradients and leave-one-out less well than these with each other",
    },
    "permutation": {
        "holds": "predictions change when the weights are dealt out to other words",
        "fails": "predictions hardly change when the weights are dealt out to other words",
    },
    "replacement": {
        "holds": "predictions change when random weights are put in their place",
        "fails": "predictions seldom change when random weights are put in their place",
    },
    "adversarial": {
        "holds": "no far different weights were found that give the same predictions",
        "fails": "far different weights were found that give the same predictions",
    },
    "uniform_training": {
        "holds": "a model trained without attention does worse",
        "fails": "a model trained without attention does as well",
    },
}
_CONSEQUENCES = {
    "no": (
        "So the weights are not to be given as the reasons for the predictions; what the predictions do rest on is "
        "not said by this."
    ),
    "yes": (
        "So the weights may be read as an account of which words the predictions rest on, though not as the only one "
        "possible, nor as the reason why these words matter."
    ),
    "undecided": (
        "So neither may be claimed: the weights are not to be given as the reasons for the predictions, and they are "
        "not shown to be none."
    ),
}
_LIMITS = (
    "This holds for this model, this attention and data like these; it is no statement about attention in general, "
    "or about other explanations of the same model."
)
# Experiments that replace the model's own weights.
_ATTENTION_REPLACING = ("permutation", "replacement", "adversarial", "diversity")
# Caveat of a failing correlation.
_DISAGREEMENT = ", which alone is no evidence against attention, as those may be wrong together"


def conclude(
    experiments: Sequence[Mapping[str, Any]],
    *,
    model: str = "this model",
    data: str = "this data",
    site: str = "its attention",
    rest: str = "",
    performance: Mapping[str, Any] | None = None,
    not_run: Sequence[str] = (),
) -> tuple[str, str]:
    """Return the answer ("yes", "no" or "undecided") and a paragraph for an auditor.

    `site` names the attention that was audited ("layer 5"), `rest` the model's other attention ("the other 5 layers"),
    `not_run` the experiments that were not run. `performance`: accuracy, majority (the accuracy of always saying the
    most frequent class) and n, if true labels are known.
    """
    useless = _describe_poor_performance(performance)
    answer = _resolve_answer(experiments, useful=not useless)
    deciding = [result for result in experiments if _is_deciding(result, answer)]
    others = [result for result in experiments if result not in deciding]
    usual = mode(result["n"] for result in experiments) if experiments else 0
    sentences = [
        f"The question is whether {_format_site(site)} may be read as an explanation of what {to_one_line(model)} "
        f"predicts on {to_one_line(data)}; the answer, from {_format_count(usual)}, is {answer}.",
        _format_reasons(answer, deciding, experiments, usual, useless),
        useless if answer == "no" else "",
        _format_other_findings(others, usual),
        _describe_other_attention(experiments, rest),
        _describe_open_questions(
            [result for result in others if result["verdict"] == "undecided"], experiments, not_run
        ),
        _CONSEQUENCES[answer],
        _LIMITS,
    ]
    return answer, " ".join(filter(None, sentences))


def _describe_poor_performance(performance: Mapping[str, Any] | None) -> str:
    """Return a sentence if the model does no better than the most frequent class."""
    figures = performance or {}
    accuracy, majority = figures.get("accuracy"), figures.get("majority")
    if accuracy is None or majority is None or accuracy > majority:
        return ""
    return (
        f"The model is right in {accuracy:.1%} of {_format_count(figures['n'])}, no better than always saying the most "
        f"frequent class ({majority:.1%}): of such predictions no explanation is worth much."
    )


def _resolve_answer(experiments: Sequence[Mapping[str, Any]], *, useful: bool) -> str:
    verdicts = {result["name"]: result["verdict"] for result in experiments}
    if any(verdicts.get(name) == "fails" for name in DECISIVE):
        return "no"
    holds = all(verdicts.get(name) == "holds" for name in NEEDED)
    return "yes" if holds and useful and "fails" not in verdicts.values() else "undecided"


def _is_deciding(result: Mapping[str, Any], answer: str) -> bool:
    """Return whether an experiment decides the answer."""
    name, verdict = result["name"], result["verdict"]
    if answer == "no":
        return name in DECISIVE and verdict == "fails"
    if answer == "yes":
        return name in NEEDED
    return verdict == "fails" or (verdict == "undecided" and name in NEEDED)


def _format_site(site: str) -> str:
    name = to_one_line(site)
    return name if "attention" in name else f"the attention of {name}"


def _format_count(n: int) -> str:
    return f"{n:,} example{'' if n == 1 else 's'}"


def _format_reasons(
    answer: str,
    deciding: Sequence[Mapping[str, Any]],
    experiments: Sequence[Mapping[str, Any]],
    usual: int,
    useless: str,
) -> str:
    reasons = [
        _format_reason(result, usual) for result in deciding if result["verdict"] != "undecided"
    ]
    reasons += _list_undecided(
        [result for result in deciding if result["verdict"] == "undecided"], usual
    )
    present = {result["name"] for result in experiments}
    missing = [name for name in NEEDED if name not in present]
    if answer == "undecided" and missing:
        reasons.append(f"a yes would also need {_join_list(missing)}")
    if answer == "undecided" and useless:
        reasons.append(f"{useless[:1].lower()}{useless[1:-1]}")
    return f"It is {answer} because {_join_list(reasons)}." if reasons else ""


def _format_other_findings(others: Sequence[Mapping[str, Any]], usual: int) -> str:
    """Describe the other findings, grouped by the side they support."""
    sides: dict[str, list[str]] = {}
    for result in sorted(others, key=lambda result: result["verdict"] == "fails"):
        if result["verdict"] != "undecided":
            sides.setdefault(_format_side(result), []).append(_format_reason(result, usual))
    text = "; ".join(f"{side} {_join_list(reasons)}" for side, reasons in sides.items())
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _format_side(result: Mapping[str, Any]) -> str:
    if result["verdict"] == "holds":
        return "for such a reading speaks that"
    return "besides," if result["name"] == "correlation" else "against such a reading speaks that"


def _describe_other_attention(experiments: Sequence[Mapping[str, Any]], rest: str) -> str:
    """Return a sentence on the attention that stayed, if only a part was replaced."""
    if not rest or not any(result["name"] in _ATTENTION_REPLACING for result in experiments):
        return ""
    return (
        f"Only these weights were exchanged, while {to_one_line(rest)} went on as ever: predictions may have stayed "
        "because of those."
    )


def _describe_open_questions(
    undecided: Sequence[Mapping[str, Any]],
    experiments: Sequence[Mapping[str, Any]],
    not_run: Sequence[str],
) -> str:
    """Describe the open questions: experiments without a verdict, and those not run."""
    present = {result["name"] for result in experiments}
    expected = dict.fromkeys([*NEEDED, *DECISIVE, *not_run])
    missing = [to_one_line(name) for name in expected if name not in present]
    parts = _list_undecided(undecided)
    parts += (
        [f"{_join_list(missing)} {'was' if len(missing) == 1 else 'were'} not tested"]
        if missing
        else []
    )
    return f"What is left open: {_join_list(parts)}." if parts else ""


def _list_undecided(
    experiments: Sequence[Mapping[str, Any]], usual: int | None = None
) -> list[str]:
    """List experiments without a verdict by reason; with figures if `usual` is given."""
    by_reason: dict[str, list[str]] = {}
    for result in experiments:
        numbers = (
            ""
            if usual is None
            else f" ({_format_figures(result, usual)}; asked for: {format_condition(result)})"
        )
        # The first sentence only: the rest is advice, shown with the experiment.
        why = re.split(r"\.(?: |$)", to_one_line(result.get("why") or ""))[0]
        by_reason.setdefault(why, []).append(to_one_line(result["name"]) + numbers)
    return [
        f"{_join_list(names)} came to no verdict"
        + (f" ({why[:1].lower()}{why[1:]})" if why else "")
        for why, names in by_reason.items()
    ]


def _format_reason(result: Mapping[str, Any], usual: int) -> str:
    text = _MEANING.get(result["name"], {}).get(result["verdict"])
    name, numbers = (
        to_one_line(result["name"]),
        f"{_format_figures(result, usual)}; asked for: {format_condition(result)}",
    )
    reason = f"{text} ({name} {numbers})" if text else f"{name} {result['verdict']} ({numbers})"
    disagrees = result["name"] == "correlation" and result["verdict"] == "fails"
    return reason + _DISAGREEMENT if disagrees else reason


def _format_figures(result: Mapping[str, Any], usual: int) -> str:
    if result["effect"] is None:
        return "no value"
    return format_effect(result) if result["n"] == usual else format_effect_summary(result)


def _join_list(parts: Sequence[str]) -> str:
    """Join parts with commas and "and"; a comma precedes "and" if a part has commas itself."""
    if len(parts) < 2:
        return "".join(parts)
    between = ", " if any("," in part for part in parts) or len(parts) > 2 else " "
    return f"{', '.join(parts[:-1])}{between}and {parts[-1]}"


Verdict = Literal["holds", "fails", "undecided"]

# Bootstrap intervals of few examples are too narrow, most of all if nearly all examples are alike. With a true share
# of changed predictions of 0.1, exactly the threshold, the whole interval is below it in 55% of draws of 5 examples,
# in 32% for 10, in 13% for 20 and in 4% for 30 or 60, instead of 2.5%; with a true share of 0.2, in 33%, 10%, 1% and
# 0% (bench/verdicts.py).
MIN_EXAMPLES = 20


def judge(entry: Entry, finding: Finding, seed: int) -> dict[str, Any]:
    """Return verdict, effect, interval and n; only a whole interval makes a hypothesis hold or fail."""
    interval = _bootstrap_interval(finding.values, finding, (entry.name, seed))
    verdict, why = _resolve_verdict(entry, finding, interval)
    return {
        "verdict": verdict,
        "why": why,
        **_describe_interval(interval),
        "chance": finding.chance,
        "by_site": _describe_groups("site", finding.by_site, finding, entry.name, seed),
        "by_class": _describe_groups("class", finding.by_class, finding, entry.name, seed),
    }


def _resolve_verdict(
    entry: Entry, finding: Finding, interval: Interval | None
) -> tuple[Verdict, str | None]:
    if finding.undecided is not None:
        return "undecided", finding.undecided
    if interval is None:
        return "undecided", "No example gave a number."
    if interval.n < MIN_EXAMPLES or interval.low is None or interval.high is None:
        count = f"{interval.n} example{'s are' if interval.n > 1 else ' is'}"
        return "undecided", f"{count} too few: {MIN_EXAMPLES} are needed for a verdict."
    above = entry.facts["direction"] == "above"
    threshold = float(entry.facts["threshold"])
    if interval.low > threshold:
        return ("holds" if above else "fails"), None
    if interval.high < threshold:
        return ("fails" if above else "holds"), None
    return (
        "undecided",
        f"The interval contains the threshold {threshold:g}: more examples may decide.",
    )


def _bootstrap_interval(
    values: Numbers, finding: Finding, key: tuple[str | int, ...]
) -> Interval | None:
    known = np.isfinite(values) if values.ndim == 1 else np.isfinite(values).all(1)
    if not known.any():
        return None
    # The order of the examples must not change the draws of the bootstrap.
    rows = values[known]
    rows = rows[np.lexsort(rows.T[::-1])] if rows.ndim > 1 else np.sort(rows)
    return bootstrap(rows, ("audit", *key), statistic=finding.statistic)


def _describe_interval(interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return {"effect": None, "interval": None, "n": 0}
    known = interval.low is not None
    return {
        "effect": interval.mean,
        "interval": [interval.low, interval.high] if known else None,
        "n": interval.n,
    }


def _describe_groups(
    kind: str, groups: Mapping[str, Numbers], finding: Finding, name: str, seed: int
) -> list[dict[str, Any]]:
    return [
        {
            kind: group,
            **_describe_interval(_bootstrap_interval(values, finding, (name, group, seed))),
        }
        for group, values in groups.items()
    ]
