"""Verdict of an experiment from its interval, and the answer of an audit from the verdicts.

The verdict of an experiment compares the whole 95% interval of its effect with the threshold that was stated
before; fewer than 20 examples give no verdict (bench/verdicts.py). The verdicts are uncorrected: at its
threshold an effect fails by chance one time in forty, so the four decisive ones make a false no one time in ten.

The rules of the conclusion are fixed before any result is known: **no**, if one of `DECISIVE` fails; **yes**, if
all of `NEEDED` hold, nothing that was run fails, and the model does better than always saying the most frequent
class (predictions that know nothing of the text have nothing in it to explain); **undecided** otherwise. Why
each experiment has its part is in docs/reference/audit.md, "What it comes to".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from whence.core.registry import Entry
from whence.studies.audit.experiments import Finding
from whence.studies.audit.finding_summary import estimate
from whence.studies.audit.subject import Numbers

NEEDED = ("correlation", "permutation", "replacement", "adversarial")
DECISIVE = ("permutation", "replacement", "adversarial", "uniform_training")

Verdict = Literal["holds", "fails", "undecided"]

# Bootstrap intervals of few examples are too narrow, most of all if nearly all examples are alike. With a true share
# of changed predictions of 0.1, exactly the threshold, the whole interval is below it in 55% of draws of 5 examples,
# in 32% for 10, in 13% for 20 and in 4% for 30 or 60, instead of 2.5%; with a true share of 0.2, in 33%, 10%, 1% and
# 0% (bench/verdicts.py).
MIN_EXAMPLES = 20


def resolve_answer(experiments: Sequence[Mapping[str, Any]], *, useful: bool = True) -> str:
    """Return the answer of an audit; `useful`: whether the model does better than the most frequent class."""
    verdicts = {result["name"]: result["verdict"] for result in experiments}
    if any(verdicts.get(name) == "fails" for name in DECISIVE):
        return "no"
    holds = all(verdicts.get(name) == "holds" for name in NEEDED)
    return "yes" if holds and useful and "fails" not in verdicts.values() else "undecided"


def judge(entry: Entry, finding: Finding, seed: int) -> dict[str, Any]:
    """Return verdict, effect, interval and n; only a whole interval makes a hypothesis hold or fail."""

    def describe(values: Numbers, *group: str) -> dict[str, Any]:
        figures = estimate(values, entry.name, *group, seed, statistic=finding.statistic)
        return {"effect": figures["mean"], "interval": figures["interval"], "n": figures["n"]}

    effect = describe(finding.values)
    verdict, why = _resolve_verdict(entry, finding, **effect)
    groups = {"site": finding.by_site, "class": finding.by_class}
    return {
        "verdict": verdict,
        "why": why,
        **effect,
        "chance": finding.chance,
        **{
            f"by_{kind}": [{kind: name, **describe(values, name)} for name, values in parts.items()]
            for kind, parts in groups.items()
        },
    }


def _resolve_verdict(
    entry: Entry, finding: Finding, *, effect: float | None, interval: list[float] | None, n: int
) -> tuple[Verdict, str | None]:
    if finding.undecided is not None:
        return "undecided", finding.undecided
    if effect is None:
        return "undecided", "No example gave a number."
    if n < MIN_EXAMPLES or interval is None:
        count = f"{n} example{'s are' if n > 1 else ' is'}"
        return "undecided", f"{count} too few: {MIN_EXAMPLES} are needed for a verdict."
    above = entry.facts["direction"] == "above"
    threshold = float(entry.facts["threshold"])
    if interval[0] > threshold:
        return ("holds" if above else "fails"), None
    if interval[1] < threshold:
        return ("fails" if above else "holds"), None
    return (
        "undecided",
        f"The interval contains the threshold {threshold:g}: more examples may decide.",
    )
