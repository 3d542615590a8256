"""The `Trust` card of an explanation, and `assess`, which runs all tests and fills the card.

The tests share a budget of forward passes: by default 2,000 for one explanation and 1,000 for each
further one, for every way of removing tokens.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whence.core.errors import BadParameter
from whence.core.progress import ProgressCounter
from whence.core.result import RESULT_VERSION, Result
from whence.core.types import PassCount
from whence.data.removal import Removal, count_passes_per_removal
from whence.metrics import Trial
from whence.metrics._requests import run_together
from whence.render.colour import format_target
from whence.render.document import Document
from whence.trust.report import build_document
from whence.trust.trust_rules import (
    AXIOM_TESTS,
    MAIN_TESTS,
    VERDICT_RULES,
    judge_method,
    to_patch_wording,
)
from whence.trust.trust_tests import TrustTestRunner


class Trust(Result):
    """The trust card: results of the tests of one input's explanations."""

    kind = "trust card"

    @classmethod
    def _is_kind(cls, data: Mapping[str, Any]) -> bool:
        return isinstance(data.get("methods"), list)

    def document(self) -> Document:
        """Return the blocks that every surface shows."""
        return build_document(self.data)

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return str(self.data["sentence"])

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each method: holds, weak, fails or not tested."""
        return {row["method"]: row["verdict"] for row in self.data["methods"]}

    def test(self, name: str, method: str | None = None) -> dict[str, Any]:
        """Return the result of one test for a method, by default the first."""
        for row in self.data["methods"]:
            if method in (None, row["method"]):
                for test in row["tests"]:
                    if test["name"] == name:
                        return dict(test)
        known = sorted({test["name"] for row in self.data["methods"] for test in row["tests"]})
        raise BadParameter(
            f"There is no test {name!r} of {method or 'any method'}. There are {', '.join(known)}; the methods are "
            f"{', '.join(self.verdicts)}."
        )

    def __repr__(self) -> str:
        return f"<Trust {', '.join(f'{name}: {word}' for name, word in self.verdicts.items())}>"


# The default budget in forward passes: for one explanation, and for each further one. Every further removal gets
# the same.
_FIRST_BUDGET, _FURTHER_BUDGET = 2000, 1000


def assess(
    trial: Trial,
    payload: Mapping[str, Any],
    *,
    prices: Sequence[int],
    spent: Callable[[], PassCount],
    started: float,
    removals: Sequence[Removal],
    unit: str,
    budget: int | None,
    meter: ProgressCounter,
) -> Trust:
    """Test every explanation of a trial and return the trust card.

    `payload` is the payload of the explanations; `prices` the forward passes that repeating each of them takes; `spent`
    returns the passes so far, and `started` is the start time, both including the explaining.
    """
    if budget is None:
        ways = sum(count_passes_per_removal(how) for how in removals)
        budget = ways * (_FIRST_BUDGET + _FURTHER_BUDGET * (len(trial.names) - 1))
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise BadParameter(
            f"budget must be a whole number of model calls, at least 1. Got {budget!r}."
        )
    measured = "the value" if trial.task == "regression" else "the probability"
    subject = f"{measured} of {format_target(payload['target'])}"
    tests = TrustTestRunner(trial, prices, budget, spent, removals, subject)
    before = spent()
    # All tests that remove something run together; each of the others takes what the budget still leaves.
    agenda = [[(rule, how) for rule in VERDICT_RULES if rule.removes for how in removals]]
    agenda += [[(rule, removals[0])] for rule in VERDICT_RULES if not rule.removes]
    results: list[list[dict[str, Any]]] = []
    for place, phase in enumerate(agenda):
        meter.expect(sum(tests.count_calls(*test) for later in agenda[place:] for test in later))
        results += run_together(tests.run(rule, how) for rule, how in phase)
    meter.expect(0)
    methods = [
        _build_method_result(explanation, own, removals[0])
        for explanation, *own in zip(payload["explanations"], *results, strict=True)
    ]
    cost = spent()
    shared = ["model", "input", "tokens", "words", "prediction", "target"]
    rules = [rule.to_dict() for rule in VERDICT_RULES]
    matters = describe_removal_effect(methods, removals)
    if payload.get("picture"):
        shared, unit = [*shared, "picture"], "patch"
        rules = [{**rule, "question": to_patch_wording(rule["question"])} for rule in rules]
        matters = matters and to_patch_wording(matters)
    return Trust(
        {
            "version": RESULT_VERSION,
            **{name: payload[name] for name in shared},
            "remove": list(removals),
            "unit": unit,
            "units": len(trial.units),
            "rankings": tests.rankings,
            "seed": trial.seed,
            "budget": budget,
            "cost": {
                "forward": cost.forward,
                "backward": cost.backward,
                "seconds": time.perf_counter() - started,
                "tests": cost.forward - before.forward,
            },
            "sentence": describe_card_verdict(methods),
            "removal_matters": matters,
            "rules": rules,
            "methods": methods,
            "provenance": payload["provenance"],
        }
    )


def _build_method_result(
    explanation: Mapping[str, Any], tests: list[dict[str, Any]], first: Removal
) -> dict[str, Any]:
    """Return the results of one method; its verdict is that under the first removal."""
    main = [test for test in tests if test["remove"] in (None, first)]
    verdict = judge_method({test["name"]: test["verdict"] for test in main})
    keys = ("method", "params", "signed", "scores", "word_scores", "scale", "passes")
    return {
        **{name: explanation[name] for name in keys if name in explanation},
        "verdict": verdict,
        "sentence": describe_method_verdict(explanation["method"], verdict, main),
        "tests": tests,
    }


_VERDICT_ADVICE = {
    "holds": "can be believed here",
    "weak": "is to be taken with care",
    "fails": "is not to be relied on",
    "not tested": "could not be tested",
}
# The result that decides each verdict: the first entry (result, tests) that occurs.
_BEHAVIOUR_TESTS = tuple(rule.name for rule in VERDICT_RULES if rule.name not in AXIOM_TESTS)
_DECISIVE_RESULTS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "fails": [("fails", MAIN_TESTS), ("fails", ("randomisation",))],
    "weak": [("fails", _BEHAVIOUR_TESTS), ("weak", _BEHAVIOUR_TESTS), ("not tested", MAIN_TESTS)],
    "not tested": [("not tested", MAIN_TESTS)],
}


def describe_method_verdict(method: str, verdict: str, tests: Sequence[Mapping[str, Any]]) -> str:
    """Describe the verdict on a method, with the result that decided it."""
    head = f"{method} {_VERDICT_ADVICE[verdict]}: "
    if verdict == "holds":
        index = {test["name"]: test for test in tests}
        untested = [name for name in _BEHAVIOUR_TESTS if index[name]["verdict"] == "not tested"]
        missing = f" Not tested: {', '.join(untested).replace('_', ' ')}." if untested else ""
        first, second = (index[name]["why"] for name in MAIN_TESTS)
        first, second = first.removesuffix("."), second[:1].lower() + second[1:]
        return f"{head}{first[:1].lower()}{first[1:]}, and {second}{missing}"
    for result, names in _DECISIVE_RESULTS[verdict]:
        for test in tests:
            if test["verdict"] == result and test["name"] in names:
                return f"{head}{test['why'][:1].lower()}{test['why'][1:]}"
    return head + "no test was decisive."


def describe_card_verdict(methods: Sequence[Mapping[str, Any]]) -> str:
    """Describe the verdicts on all methods in one sentence."""
    if len(methods) == 1:
        return str(methods[0]["sentence"])
    parts = []
    for verdict, advice in _VERDICT_ADVICE.items():
        names = [method["method"] for method in methods if method["verdict"] == verdict]
        phrase = advice.removesuffix(" here")
        if len(names) > 1:
            phrase = phrase.replace("is ", "are ", 1)
        if names:
            parts.append(f"{len(names)} {phrase} ({', '.join(names)})")
    return f"Of {len(methods)} explanations of this prediction, {', '.join(parts)}."


def describe_removal_effect(
    methods: Sequence[Mapping[str, Any]], removals: Sequence[str]
) -> str | None:
    """Describe how much the verdicts depend on the removal, if several were tried."""
    if len(removals) < 2:
        return None
    changed, spreads = 0, [(-1.0, "")]
    for method in methods:
        for name in dict.fromkeys(test["name"] for test in method["tests"] if test["remove"]):
            placed = sorted(
                (test["percentile"], test["remove"], test["verdict"])
                for test in method["tests"]
                if test["name"] == name and test["percentile"] is not None
            )
            if placed:
                changed += len({verdict for _, _, verdict in placed}) > 1
                (least, worst, _), (most, best, _) = placed[0], placed[-1]
                phrase = (
                    f"it matters most for {name.replace('_', ' ')} of {method['method']}, which beats {least:.0f}% of "
                    f"random rankings with {worst} and {most:.0f}% with {best}"
                )
                spreads.append((most - least, phrase))
    widest, phrase = max(spreads, key=lambda spread: spread[0])
    if widest < 0:
        return "How tokens are removed could not be compared: nothing could be tested."
    if not changed and widest < 1:
        return "How tokens are removed changes no verdict here, and next to nothing in the percentiles."
    many = f"{changed} verdict{'s' * (changed > 1)}" if changed else "no verdict"
    return f"How tokens are removed changes {many}; {phrase}."
