"""The card's results in sentences that need no special knowledge."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.trust.rules import AXIOMS, MAIN, RULES

_ADVICE = {
    "holds": "can be believed here",
    "weak": "is to be taken with care",
    "fails": "is not to be relied on",
    "not tested": "could not be tested",
}


# By verdict: which result of which tests it rests on, the first that there is.
_BEHAVIOUR = tuple(rule.name for rule in RULES if rule.name not in AXIOMS)
_DECISIVE: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "weak": [("fails", _BEHAVIOUR), ("weak", _BEHAVIOUR), ("not tested", MAIN)],
    "not tested": [("not tested", MAIN)],
}

_COUNTED = (
    ("holds", "can be believed", "can be believed"),
    ("weak", "is to be taken with care", "are to be taken with care"),
    ("fails", "is not to be relied on", "are not to be relied on"),
    ("not tested", "could not be tested", "could not be tested"),
)


def method_sentence(method: str, verdict: str, tests: Sequence[Mapping[str, Any]]) -> str:
    """Say what a method's tests come to, with the result that decided."""
    found = {test["name"]: test for test in tests}
    said = f"{method} {_ADVICE[verdict]}: "
    if verdict == "holds":
        open_ = [name for name in _BEHAVIOUR if found[name]["verdict"] == "not tested"]
        missing = f" Not tested: {', '.join(open_).replace('_', ' ')}." if open_ else ""
        return said + _joined(found["deletion"]["why"], found["sufficiency"]["why"]) + missing
    for wanted, names in _DECISIVE.get(verdict) or [("fails", _failing(found))]:
        for test in tests:
            if test["verdict"] == wanted and test["name"] in names:
                return said + _lowered(test["why"])
    return said + "no test was decisive."


def _failing(found: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Name the tests by which a method fails: what it points at, or else that it does not come from the model."""
    by_main = any(found[name]["verdict"] == "fails" for name in MAIN)
    return MAIN if by_main else ("randomisation",)


def card_sentence(methods: Sequence[Mapping[str, Any]]) -> str:
    """Say what all of it comes to."""
    if len(methods) == 1:
        return str(methods[0]["sentence"])
    parts = []
    for verdict, one, several in _COUNTED:
        names = [method["method"] for method in methods if method["verdict"] == verdict]
        if names:
            parts.append(f"{len(names)} {one if len(names) == 1 else several} ({', '.join(names)})")
    return f"Of {len(methods)} explanations of this prediction, {', '.join(parts)}."


def removal_sentence(methods: Sequence[Mapping[str, Any]], removals: Sequence[str]) -> str | None:
    """Say how much it matters how tokens are removed, if several ways were tried."""
    if len(removals) < 2:
        return None
    widest, changed, said = -1.0, 0, ""
    for one in methods:
        for name in dict.fromkeys(test["name"] for test in one["tests"] if test["remove"]):
            placed = [
                (test["percentile"], test["remove"], test["verdict"])
                for test in one["tests"]
                if test["name"] == name and test["percentile"] is not None
            ]
            if not placed:
                continue
            changed += len({verdict for _, _, verdict in placed}) > 1
            (least, worst, _), (most, best, _) = min(placed), max(placed)
            if most - least > widest:
                widest = most - least
                said = (
                    f"most for {name.replace('_', ' ')} of {one['method']}, which beats {least:.0f}% of random "
                    f"rankings with {worst} and {most:.0f}% with {best}"
                )
    if widest < 0:
        return "How tokens are removed could not be compared: nothing could be tested."
    if not changed and widest < 1:
        return "How tokens are removed changes no verdict here, and next to nothing in the percentiles."
    if not changed:
        return f"How tokens are removed changes no verdict; it matters {said}."
    return (
        f"How tokens are removed changes {changed} verdict{'s' * (changed > 1)}; it matters {said}."
    )


def of_patches(sentence: str) -> str:
    """Say of the patches of a picture what was said of tokens; only for sentences that hold no text of a user."""
    return sentence.replace("tokens", "patches").replace("token", "patch")


def _joined(first: str, second: str) -> str:
    return f"{_lowered(first).removesuffix('.')}, and {_lowered(second)}"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
