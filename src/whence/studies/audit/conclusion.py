"""The conclusion of an audit: its answer with a paragraph of reasons; effects with their intervals in words."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import floor, isfinite, log10
from statistics import mode
from typing import Any

from whence.render.document import TOO_FEW, choose_decimals, format_interval, format_number
from whence.render.text import sanitise_text
from whence.studies.audit.verdict import DECISIVE, NEEDED, resolve_answer

NO_VALUE = "-"
Results = Sequence[Mapping[str, Any]]

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
    experiments: Results,
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
    useless = _describe_poor_performance(performance or {})
    answer = resolve_answer(experiments, useful=not useless)
    deciding = [result for result in experiments if _is_deciding(result, answer)]
    others = [result for result in experiments if result not in deciding]
    usual = mode(result["n"] for result in experiments) if experiments else 0
    names = {result["name"] for result in experiments}
    where = to_one_line(site)
    where = where if "attention" in where else f"the attention of {where}"
    sentences = [
        f"The question is whether {where} may be read as an explanation of what {to_one_line(model)} "
        f"predicts on {to_one_line(data)}; the answer, from {_format_count(usual)}, is {answer}.",
        _format_reasons(answer, deciding, names, usual, useless),
        useless if answer == "no" else "",
        _format_other_findings(others, usual),
        # Only a part of the attention was replaced.
        f"Only these weights were exchanged, while {to_one_line(rest)} went on as ever: predictions may have stayed "
        "because of those."
        if rest and names.intersection(_ATTENTION_REPLACING)
        else "",
        _describe_open_questions(others, names, not_run),
        _CONSEQUENCES[answer],
        _LIMITS,
    ]
    return answer, " ".join(filter(None, sentences))


def _describe_poor_performance(performance: Mapping[str, Any]) -> str:
    """Return a sentence if the model does no better than the most frequent class."""
    accuracy, majority = performance.get("accuracy"), performance.get("majority")
    if accuracy is None or majority is None or accuracy > majority:
        return ""
    return (
        f"The model is right in {accuracy:.1%} of {_format_count(performance['n'])}, no better than always saying the "
        f"most frequent class ({majority:.1%}): of such predictions no explanation is worth much."
    )


def _is_deciding(result: Mapping[str, Any], answer: str) -> bool:
    """Return whether an experiment decides the answer."""
    name, verdict = result["name"], result["verdict"]
    if answer == "no":
        return name in DECISIVE and verdict == "fails"
    if answer == "yes":
        return name in NEEDED
    return verdict == "fails" or (verdict == "undecided" and name in NEEDED)


def _format_count(n: int) -> str:
    return f"{n:,} example{'' if n == 1 else 's'}"


def _format_reasons(
    answer: str, deciding: Results, names: set[str], usual: int, useless: str
) -> str:
    reasons = [
        _format_reason(result, usual) for result in deciding if result["verdict"] != "undecided"
    ]
    reasons += _list_undecided(deciding, lambda result: f" ({_format_figures(result, usual)})")
    missing = [name for name in NEEDED if name not in names]
    if answer == "undecided" and missing:
        reasons.append(f"a yes would also need {_join_list(missing)}")
    if answer == "undecided" and useless:
        reasons.append(f"{useless[:1].lower()}{useless[1:-1]}")
    return f"It is {answer} because {_join_list(reasons)}." if reasons else ""


def _format_other_findings(others: Results, usual: int) -> str:
    """Describe the other findings, grouped by the side they support."""
    sides: dict[str, list[str]] = {}
    for verdict, against in (("holds", "for such a reading speaks that"), ("fails", "")):
        for result in others:
            if result["verdict"] == verdict:
                alone = result["name"] == "correlation"
                side = against or ("besides," if alone else "against such a reading speaks that")
                sides.setdefault(side, []).append(_format_reason(result, usual))
    text = "; ".join(f"{side} {_join_list(reasons)}" for side, reasons in sides.items())
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _describe_open_questions(others: Results, names: set[str], not_run: Sequence[str]) -> str:
    """Describe the open questions: experiments without a verdict, and those not run."""
    expected = dict.fromkeys([*NEEDED, *DECISIVE, *not_run])
    missing = [to_one_line(name) for name in expected if name not in names]
    parts = _list_undecided(others, lambda _: "")
    if missing:
        parts.append(f"{_join_list(missing)} {'was' if len(missing) == 1 else 'were'} not tested")
    return f"What is left open: {_join_list(parts)}." if parts else ""


def _list_undecided(
    experiments: Results, describe: Callable[[Mapping[str, Any]], str]
) -> list[str]:
    """List the experiments without a verdict by reason."""
    by_reason: dict[str, list[str]] = {}
    for result in experiments:
        if result["verdict"] == "undecided":
            # The first sentence only: the rest is advice, shown with the experiment.
            why = re.split(r"\.(?: |$)", to_one_line(result.get("why") or ""))[0]
            name = to_one_line(result["name"]) + describe(result)
            by_reason.setdefault(why, []).append(name)
    return [
        f"{_join_list(names)} came to no verdict"
        + (f" ({why[:1].lower()}{why[1:]})" if why else "")
        for why, names in by_reason.items()
    ]


def _format_reason(result: Mapping[str, Any], usual: int) -> str:
    text = _MEANING.get(result["name"], {}).get(result["verdict"])
    name, figures = to_one_line(result["name"]), _format_figures(result, usual)
    reason = f"{text} ({name} {figures})" if text else f"{name} {result['verdict']} ({figures})"
    disagrees = result["name"] == "correlation" and result["verdict"] == "fails"
    return reason + _DISAGREEMENT if disagrees else reason


def _format_figures(result: Mapping[str, Any], usual: int) -> str:
    effect = format_effect_summary(result)
    if result["effect"] is not None and result["n"] == usual:
        effect = format_effect(result)
    return f"{effect}; asked for: {format_condition(result)}"


def _join_list(parts: Sequence[str]) -> str:
    """Join parts with commas and "and"; a comma precedes "and" if a part has commas itself."""
    if len(parts) < 2:
        return "".join(parts)
    between = ", " if any("," in part for part in parts) or len(parts) > 2 else " "
    return f"{', '.join(parts[:-1])}{between}and {parts[-1]}"


def to_one_line(text: Any) -> str:
    """Return a foreign text on one line, without control characters."""
    return " ".join(sanitise_text(str(text)).split())


def format_threshold(value: float | None) -> str:
    """Format a threshold or a chance level to three digits."""
    return NO_VALUE if value is None or not isfinite(value) else f"{value:.3g}"


def format_condition(result: Mapping[str, Any]) -> str:
    """Return the condition that the effect must meet."""
    return f"{result['direction']} {format_threshold(result['threshold'])}"


def build_effect_interval(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an effect as mean, interval and n; None without an effect."""
    if row.get("effect") is None or not isfinite(row["effect"]):
        return None
    low, high = row.get("interval") or (None, None)
    return {"mean": row["effect"], "low": low, "high": high, "n": row.get("n") or 0}


def format_effect(row: Mapping[str, Any], beside: Sequence[Mapping[str, Any]] = ()) -> str:
    """Format an effect with its interval, without n, to the same decimals as those in `beside`."""
    interval = build_effect_interval(row)
    if interval is None:
        return NO_VALUE
    known = [
        other for part in beside or [row] if (other := build_effect_interval(part)) is not None
    ]
    digits = (
        _choose_effect_decimals(known, row["threshold"])
        if row.get("threshold")
        else choose_decimals(known)
    )
    if interval["low"] is not None and interval["low"] == interval["high"]:
        return f"{format_number(interval['mean'], digits)} in every example"
    sizes = [abs(interval[end]) for end in ("mean", "low", "high") if interval[end] is not None]
    if digits is not None and 0 < max(sizes) < 0.5 * 10**-digits:
        return f"within {10**-digits:g} of 0"
    return format_interval(interval, digits, interval["n"])


def _choose_effect_decimals(known: Sequence[Mapping[str, Any]], threshold: float) -> int:
    """Return the decimals of effects beside a threshold: about three digits."""
    all_ends = [interval[end] for interval in known for end in ("mean", "low", "high")]
    values = [value for value in all_ends if value]
    finest = 3 - floor(log10(abs(threshold)))
    usual = choose_decimals(known)
    largest = max(map(abs, values), default=abs(threshold))
    digits = max(0, min(finest if usual is None else usual, finest, 2 - floor(log10(largest))))
    # A bound close to the threshold must not be rounded onto it.
    while digits <= finest and any(
        round(value, digits) == threshold != value and round(value, 8) != threshold
        for value in values
    ):
        digits += 1
    return digits


def format_sample_size(row: Mapping[str, Any]) -> str:
    """Return the number of examples of an effect, and whether it is too small."""
    few = build_effect_interval(row) is not None and not row.get("interval")
    return f"n={row['n']}: {TOO_FEW}" if few else f"n={row['n']}"


def format_effect_summary(row: Mapping[str, Any]) -> str:
    """Return an effect with its interval and n on one line."""
    if build_effect_interval(row) is None:
        return "no value"
    return f"{format_effect(row)}, {format_sample_size(row)}"
