"""The card itself: a documented JSON object that can be shown, saved and read back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from whence.core.errors import BadParameter, CannotRead
from whence.core.io import read_json, write_text
from whence.report.shown import VERSION, Shown

__all__ = ["VERSION", "Trust"]


@dataclass(frozen=True, eq=False)
class Trust(Shown):
    """How the explanations of one input fared when they were tested."""

    _report: ClassVar[str] = "card"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return str(self.payload["sentence"])

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each method: holds, weak, fails or not tested."""
        return {one["method"]: one["verdict"] for one in self.payload["methods"]}

    def test(self, name: str, method: str | None = None) -> dict[str, Any]:
        """Return what one test found about a method, by default the first."""
        for one in self.payload["methods"]:
            if method in (None, one["method"]):
                for test in one["tests"]:
                    if test["name"] == name:
                        return dict(test)
        known = sorted({test["name"] for one in self.payload["methods"] for test in one["tests"]})
        raise BadParameter(
            f"There is no test {name!r} of {method or 'any method'}. There are {', '.join(known)}; the methods are "
            f"{', '.join(self.verdicts)}."
        )

    def save(self, path: str | Path) -> Path:
        """Write the card as JSON."""
        return write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Trust":
        """Read what `save` wrote."""
        payload = read_json(path, "trust card")
        if not isinstance(payload, dict) or not isinstance(payload.get("methods"), list):
            raise CannotRead(f"{str(path)!r} is not a trust card. Give a file that save() wrote.")
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the card; this whence reads {VERSION}."
            )
        return cls(payload)

    def __repr__(self) -> str:
        return f"<Trust {', '.join(f'{name}: {said}' for name, said in self.verdicts.items())}>"


"""Testing every explanation of a trial, and putting the results on a card."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadParameter
from whence.core.types import Passes
from whence.data.removal import Removal, calls_per_hole
from whence.trial import Trial
from whence.trust.card import VERSION, Trust
from whence.trust.rules import RULES, overall
from whence.trust.tests import Tests
from whence.trust.words import card_sentence, method_sentence, of_patches, removal_sentence
from whence.view.shade import target_name

# Forwards that tests may take if nothing else is said: for one explanation, and for each further one. Every further
# way of removal may take as many.
_BUDGET, _EACH_MORE = 2000, 1000

Progress = Callable[[int, int], None]


@dataclass
class Meter:
    """Counts the model's work, and tells who wants to know."""

    progress: Progress | None
    total: int = 0
    done: int = 0

    def expect(self, units: int) -> None:
        """Say how much is still to come, now that it is known better."""
        self.total = self.done + units
        self.add(0)

    def add(self, units: int) -> None:
        """Count work that is done."""
        self.done += units
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)


def assess(
    trial: Trial,
    payload: Mapping[str, Any],
    *,
    prices: Sequence[int],
    spent: Callable[[], Passes],
    started: float,
    removals: Sequence[Removal],
    unit: str,
    budget: int | None,
    meter: Meter,
) -> Trust:
    """Test every explanation of a trial and return the card.

    `payload` is what the explanations say of themselves; `prices` the forwards that making each of them again takes;
    `spent` says what was run so far, and `started` when, the explaining included.
    """
    if budget is None:
        ways = sum(calls_per_hole(how) for how in removals)
        budget = ways * (_BUDGET + _EACH_MORE * (len(trial.names) - 1))
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise BadParameter(
            f"budget must be a whole number of model calls, at least 1. Got {budget!r}."
        )
    tests = Tests(trial, list(prices), budget, spent, removals, _subject(trial, payload))
    before = spent()
    results: list[list[dict[str, Any]]] = [[] for _ in trial.names]
    agenda = [(rule, how) for rule in RULES for how in (removals if rule.removes else removals[:1])]
    for place, (rule, how) in enumerate(agenda):
        meter.expect(sum(tests.calls(*ahead) for ahead in agenda[place:]))
        for own, test in zip(results, tests.run(rule, how), strict=True):
            own.append(test)
    meter.expect(0)
    methods = [
        _method(one, own, removals[0])
        for one, own in zip(payload["explanations"], results, strict=True)
    ]
    cost = spent()
    shared = ["model", "input", "tokens", "words", "prediction", "target"]
    rules, matters = [rule.to_dict() for rule in RULES], removal_sentence(methods, removals)
    if payload.get("picture"):
        shared, unit = [*shared, "picture"], "patch"
        rules = [{**rule, "question": of_patches(rule["question"])} for rule in rules]
        matters = matters and of_patches(matters)
    return Trust(
        {
            "version": VERSION,
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
            "sentence": card_sentence(methods),
            "removal_matters": matters,
            "rules": rules,
            "methods": methods,
            "provenance": payload["provenance"],
        }
    )


def _subject(trial: Trial, payload: Mapping[str, Any]) -> str:
    """Name what is measured."""
    what = "the value" if trial.task == "regression" else "the probability"
    return f"{what} of {target_name(payload['target'])}"


def _method(
    explanation: Mapping[str, Any], tests: list[dict[str, Any]], first: Removal
) -> dict[str, Any]:
    """Put together what is known of one method; its verdict is that of the first kind of removal."""
    main = [test for test in tests if test["remove"] in (None, first)]
    verdict = overall({test["name"]: test["verdict"] for test in main})
    told = ("method", "params", "signed", "scores", "word_scores", "scale", "passes")
    return {
        **{name: explanation[name] for name in told if name in explanation},
        "verdict": verdict,
        "sentence": method_sentence(explanation["method"], verdict, main),
        "tests": tests,
    }
