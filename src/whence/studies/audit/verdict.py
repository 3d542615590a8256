"""What the experiments come to: may attention be read as an explanation of this model on this data?

The rules are fixed, whatever is found:

**no**, if one of `DECISIVE` fails. Each of these changes attention and looks at what comes out, so that its failure
is a fact about the model and the task, not about another method. Weights that may be dealt out to other words
(`permutation`), exchanged for random ones (`replacement`) or for far different ones that were looked for
(`adversarial`), and the predictions stay, are not what the predictions rest on. Where a model without attention
does as well (`uniform_training`), there is nothing for attention to explain (Wiegreffe & Pinter 2019).

**yes**, if all of `NEEDED` hold and nothing that was run fails. That the predictions depend on the weights is not
enough: the weights must also rank the words as measures of importance do (`correlation`). And the model must do
better than always saying the most frequent class: predictions that know nothing of the text have nothing in it to
explain.

**undecided** otherwise.

Why `correlation` alone never makes it no: a low tau is no evidence against attention, since gradients,
leave-one-out and the like disagree with each other, too (Neely et al. 2022). The experiment takes this into
account, and measures attention by how these agree among themselves; but they may be wrong together, so that even
then one side is wrong and it is not known which. Why it is needed for a yes: that side may be attention.

Why the others (`diversity`, `seeds`, `guides`, `trained_adversary`) prevent a yes and never make it no: they look
at other models, or at how many ways of attending lead to one prediction; they say how far attention is the only
account, not whether this model's predictions rest on it.

The verdicts come from 95% intervals, one by one and uncorrected. An effect exactly at its threshold fails by chance
about one time in forty; so the four decisive ones together make a false no about one time in ten.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import mode
from typing import Any

from whence.report.audit.wording import asked, effect, figures, one_line

NEEDED = ("correlation", "permutation", "replacement", "adversarial")
DECISIVE = ("permutation", "replacement", "adversarial", "uniform_training")

# What an experiment's verdict says about the model, for readers who do not know the experiment.
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
_THEREFORE = {
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
# Those that put other weights in the place of the model's own.
_EXCHANGING = ("permutation", "replacement", "adversarial", "diversity")
# What a failing correlation does not say.
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

    `site` names where attention was read ("layer 5"), `rest` what other attention the model has ("the other 5
    layers"), `not_run` the experiments that were not made. `performance`: accuracy, majority (the accuracy of always
    saying the most frequent class) and n, where true labels are known.
    """
    useless = _useless(performance)
    answer = _answer(experiments, useful=not useless)
    deciding = [one for one in experiments if _decides(one, answer)]
    others = [one for one in experiments if one not in deciding]
    usual = mode(one["n"] for one in experiments) if experiments else 0
    sentences = [
        f"The question is whether {_attention(site)} may be read as an explanation of what {one_line(model)} "
        f"predicts on {one_line(data)}; the answer, from {_counted(usual)}, is {answer}.",
        _because(answer, deciding, experiments, usual, useless),
        useless if answer == "no" else "",
        _besides(others, usual),
        _untouched(experiments, rest),
        _open([one for one in others if one["verdict"] == "undecided"], experiments, not_run),
        _THEREFORE[answer],
        _LIMITS,
    ]
    return answer, " ".join(filter(None, sentences))


def _useless(performance: Mapping[str, Any] | None) -> str:
    """Say that the model does no better than one that reads nothing, if so."""
    found = performance or {}
    accuracy, majority = found.get("accuracy"), found.get("majority")
    if accuracy is None or majority is None or accuracy > majority:
        return ""
    return (
        f"The model is right in {accuracy:.1%} of {_counted(found['n'])}, no better than always saying the most "
        f"frequent class ({majority:.1%}): of such predictions no explanation is worth much."
    )


def _answer(experiments: Sequence[Mapping[str, Any]], *, useful: bool) -> str:
    verdicts = {one["name"]: one["verdict"] for one in experiments}
    if any(verdicts.get(name) == "fails" for name in DECISIVE):
        return "no"
    holds = all(verdicts.get(name) == "holds" for name in NEEDED)
    return "yes" if holds and useful and "fails" not in verdicts.values() else "undecided"


def _decides(one: Mapping[str, Any], answer: str) -> bool:
    """Whether the answer is what it is because of this experiment."""
    name, verdict = one["name"], one["verdict"]
    if answer == "no":
        return name in DECISIVE and verdict == "fails"
    if answer == "yes":
        return name in NEEDED
    return verdict == "fails" or (verdict == "undecided" and name in NEEDED)


def _attention(site: str) -> str:
    said = one_line(site)
    return said if "attention" in said else f"the attention of {said}"


def _counted(n: int) -> str:
    return f"{n:,} example{'' if n == 1 else 's'}"


def _because(
    answer: str,
    deciding: Sequence[Mapping[str, Any]],
    experiments: Sequence[Mapping[str, Any]],
    usual: int,
    useless: str,
) -> str:
    reasons = [_reason(one, usual) for one in deciding if one["verdict"] != "undecided"]
    reasons += _undecided([one for one in deciding if one["verdict"] == "undecided"], usual)
    made = {one["name"] for one in experiments}
    missing = [name for name in NEEDED if name not in made]
    if answer == "undecided" and missing:
        reasons.append(f"a yes would also need {_listed(missing)}")
    if answer == "undecided" and useless:
        reasons.append(f"{useless[:1].lower()}{useless[1:-1]}")
    return f"It is {answer} because {_listed(reasons)}." if reasons else ""


def _besides(others: Sequence[Mapping[str, Any]], usual: int) -> str:
    """Say what else was found, apart by what it speaks for."""
    sides: dict[str, list[str]] = {}
    for one in sorted(others, key=lambda one: one["verdict"] == "fails"):
        if one["verdict"] != "undecided":
            sides.setdefault(_side(one), []).append(_reason(one, usual))
    said = "; ".join(f"{side} {_listed(found)}" for side, found in sides.items())
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _side(one: Mapping[str, Any]) -> str:
    if one["verdict"] == "holds":
        return "for such a reading speaks that"
    return "besides," if one["name"] == "correlation" else "against such a reading speaks that"


def _untouched(experiments: Sequence[Mapping[str, Any]], rest: str) -> str:
    """Say that attention elsewhere went on, where only a part of it was exchanged."""
    if not rest or not any(one["name"] in _EXCHANGING for one in experiments):
        return ""
    return (
        f"Only these weights were exchanged, while {one_line(rest)} went on as ever: predictions may have stayed "
        "because of those."
    )


def _open(
    undecided: Sequence[Mapping[str, Any]],
    experiments: Sequence[Mapping[str, Any]],
    not_run: Sequence[str],
) -> str:
    """Say what is not known: what was tried without a result, and what was not tried."""
    made = {one["name"] for one in experiments}
    wanted = dict.fromkeys([*NEEDED, *DECISIVE, *not_run])
    missing = [one_line(name) for name in wanted if name not in made]
    parts = _undecided(undecided)
    parts += (
        [f"{_listed(missing)} {'was' if len(missing) == 1 else 'were'} not tested"]
        if missing
        else []
    )
    return f"What is left open: {_listed(parts)}." if parts else ""


def _undecided(experiments: Sequence[Mapping[str, Any]], usual: int | None = None) -> list[str]:
    """Say which experiments came to no verdict and why, a shared reason once; with figures if `usual` is given."""
    by_reason: dict[str, list[str]] = {}
    for one in experiments:
        numbers = "" if usual is None else f" ({_figures(one, usual)}; asked for: {asked(one)})"
        # The first sentence of it: the rest is advice, which stands beside the experiment.
        why = re.split(r"\.(?: |$)", one_line(one.get("why") or ""))[0]
        by_reason.setdefault(why, []).append(one_line(one["name"]) + numbers)
    return [
        f"{_listed(names)} came to no verdict" + (f" ({why[:1].lower()}{why[1:]})" if why else "")
        for why, names in by_reason.items()
    ]


def _reason(one: Mapping[str, Any], usual: int) -> str:
    said = _MEANING.get(one["name"], {}).get(one["verdict"])
    name, numbers = one_line(one["name"]), f"{_figures(one, usual)}; asked for: {asked(one)}"
    reason = f"{said} ({name} {numbers})" if said else f"{name} {one['verdict']} ({numbers})"
    disagrees = one["name"] == "correlation" and one["verdict"] == "fails"
    return reason + _DISAGREEMENT if disagrees else reason


def _figures(one: Mapping[str, Any], usual: int) -> str:
    if one["effect"] is None:
        return "no value"
    return effect(one) if one["n"] == usual else figures(one)


def _listed(parts: Sequence[str]) -> str:
    """Join parts as one says them; parts that have commas of their own are kept apart."""
    if len(parts) < 2:
        return "".join(parts)
    between = ", " if any("," in part for part in parts) or len(parts) > 2 else " "
    return f"{', '.join(parts[:-1])}{between}and {parts[-1]}"


"""From a finding and a threshold that was stated before it to one of three words."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from whence.audit.experiments import Finding, Numbers
from whence.core.registry import Entry
from whence.stats import Interval, bootstrap

Verdict = Literal["holds", "fails", "undecided"]

# The bootstrap of few examples is too narrow, most of all where nearly all of them are alike. Of predictions of which
# a tenth changes, just as many as are asked for, the whole interval lies below that in 55 of 100 draws of 5 examples,
# in 32 of 10, in 13 of 20 and in 4 of 30 or 60, where it should be in 2 or 3; of which a fifth changes, in 33, 10, 1
# and 0 (bench/verdicts.py).
FEWEST = 20


def judged(entry: Entry, finding: Finding, seed: int) -> dict[str, Any]:
    """Return the verdict, the effect, its interval and n; a hypothesis holds or fails by a whole interval only."""
    interval = _interval(finding.values, finding, (entry.name, seed))
    verdict, why = _verdict(entry, finding, interval)
    return {
        "verdict": verdict,
        "why": why,
        **_figures(interval),
        "chance": finding.chance,
        "by_site": _each("site", finding.by_site, finding, entry.name, seed),
        "by_class": _each("class", finding.by_class, finding, entry.name, seed),
    }


def _verdict(
    entry: Entry, finding: Finding, interval: Interval | None
) -> tuple[Verdict, str | None]:
    if finding.undecided is not None:
        return "undecided", finding.undecided
    if interval is None:
        return "undecided", "No example gave a number."
    if interval.n < FEWEST or interval.low is None or interval.high is None:
        said = f"{interval.n} example{'s are' if interval.n > 1 else ' is'}"
        return "undecided", f"{said} too few: {FEWEST} are needed for a verdict."
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


def _interval(values: Numbers, finding: Finding, key: tuple[str | int, ...]) -> Interval | None:
    known = np.isfinite(values) if values.ndim == 1 else np.isfinite(values).all(1)
    if not known.any():
        return None
    # The same examples in another order are the same data: the order must not change what is drawn.
    rows = values[known]
    rows = rows[np.lexsort(rows.T[::-1])] if rows.ndim > 1 else np.sort(rows)
    return bootstrap(rows, ("audit", *key), statistic=finding.statistic)


def _figures(interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return {"effect": None, "interval": None, "n": 0}
    known = interval.low is not None
    return {
        "effect": interval.mean,
        "interval": [interval.low, interval.high] if known else None,
        "n": interval.n,
    }


def _each(
    what: str, groups: Mapping[str, Numbers], finding: Finding, name: str, seed: int
) -> list[dict[str, Any]]:
    return [
        {what: group, **_figures(_interval(values, finding, (name, group, seed)))}
        for group, values in groups.items()
    ]
