"""The `Trust` card of an explanation, and `assess`, which runs all tests and fills the card.

The tests share a budget of forward passes: by default 2,000 for one explanation and 1,000 for each
further one, for every way of removing tokens.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from whence.core.errors import BadParameter, CannotRead
from whence.core.files import read_json, write_text
from whence.core.progress import ProgressCounter
from whence.core.types import PassCount
from whence.data.removal import Removal, count_passes_per_removal
from whence.metrics._trial import Trial
from whence.render.colour import format_target
from whence.render.document import RESULT_VERSION, Result
from whence.trust.report import (
    describe_card_verdict,
    describe_method_verdict,
    describe_removal_effect,
    to_patch_wording,
)
from whence.trust.trust_rules import VERDICT_RULES, judge_method
from whence.trust.trust_tests import TrustTestRunner


class Trust(Result):
    """The trust card: results of the tests of one input's explanations."""

    _writers: ClassVar[Mapping[str, str]] = {
        "page": "whence.trust.report:render_trust_html",
        "fragment": "whence.trust.report:render_trust_fragment",
        "text": "whence.trust.report:format_trust_text",
        "terminal": "whence.trust.report:render_trust_terminal",
    }

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return str(self.payload["sentence"])

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each method: holds, weak, fails or not tested."""
        return {row["method"]: row["verdict"] for row in self.payload["methods"]}

    def test(self, name: str, method: str | None = None) -> dict[str, Any]:
        """Return the result of one test for a method, by default the first."""
        for row in self.payload["methods"]:
            if method in (None, row["method"]):
                for test in row["tests"]:
                    if test["name"] == name:
                        return dict(test)
        known = sorted({test["name"] for row in self.payload["methods"] for test in row["tests"]})
        raise BadParameter(
            f"There is no test {name!r} of {method or 'any method'}. There are {', '.join(known)}; the methods are "
            f"{', '.join(self.verdicts)}."
        )

    def save(self, path: str | Path) -> Path:
        """Write the card as JSON."""
        return write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Trust":
        """Read a card from a file that `save` wrote."""
        payload = read_json(path, "trust card")
        if not isinstance(payload, dict) or not isinstance(payload.get("methods"), list):
            raise CannotRead(f"{str(path)!r} is not a trust card. Give a file that save() wrote.")
        if payload.get("version") != RESULT_VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the card; this whence reads {RESULT_VERSION}."
            )
        return cls(payload)

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
    tests = TrustTestRunner(
        trial, list(prices), budget, spent, removals, _describe_measured_output(trial, payload)
    )
    before = spent()
    results: list[list[dict[str, Any]]] = [[] for _ in trial.names]
    agenda = [
        (rule, how)
        for rule in VERDICT_RULES
        for how in (removals if rule.removes else removals[:1])
    ]
    for place, (rule, how) in enumerate(agenda):
        meter.expect(sum(tests.count_calls(*ahead) for ahead in agenda[place:]))
        for own, test in zip(results, tests.run(rule, how), strict=True):
            own.append(test)
    meter.expect(0)
    methods = [
        _build_method_result(explanation, own, removals[0])
        for explanation, own in zip(payload["explanations"], results, strict=True)
    ]
    cost = spent()
    shared = ["model", "input", "tokens", "words", "prediction", "target"]
    rules, matters = (
        [rule.to_dict() for rule in VERDICT_RULES],
        describe_removal_effect(methods, removals),
    )
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


def _describe_measured_output(trial: Trial, payload: Mapping[str, Any]) -> str:
    """Return the name of the measured output: the probability or value of the target."""
    what = "the value" if trial.task == "regression" else "the probability"
    return f"{what} of {format_target(payload['target'])}"


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
