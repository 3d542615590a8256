"""How a trust card says things, on every surface the same."""

from collections.abc import Sequence
from math import factorial
from typing import Any

NOTHING = "-"

_GONE = {
    "delete": "deleted",
    "mask": "replaced by the mask token",
    "pad": "replaced by padding",
    "unk": "replaced by the token for unknown words",
    "draw": "replaced by what a masked language model draws",
    "black": "painted black",
    "mean": "painted in the mean colour of the picture",
    "blur": "replaced by a blur of the picture",
}
# What the curves of a test are drawn over, and how a good explanation looks there.
_CURVES = {
    "deletion": ("removed", "below the band is good"),
    "sufficiency": ("kept", "above the band is good"),
}


def in_words(name: str) -> str:
    """Name a test in words."""
    return name.replace("_", " ")


def gone(remove: str) -> str:
    """Say what became of the tokens or patches that were removed."""
    return _GONE.get(remove, remove)


def figures(values: Sequence[float], digits: int = 2) -> list[str]:
    """Write figures that belong together shortly, all to the same place."""
    largest = max(map(abs, values), default=0.0)
    if largest == 0 or 10**-digits <= largest < 1000:
        # Adding nothing makes the zero of a small negative number a plain zero.
        return [f"{round(value, digits) + 0.0:.{digits}f}" for value in values]
    return [f"{value:.2g}" for value in values]


def number(value: float | None, digits: int = 2) -> str:
    """Write a figure shortly, or a dash where there is none."""
    return NOTHING if value is None else figures([value], digits)[0]


def measured(test: dict[str, Any], digits: int = 2) -> str:
    """Write the value of a test, to the same place as what chance gets."""
    value, null = test["value"], test["null"]
    if value is None or null is None or null["low"] == null["high"]:
        return number(value, digits)
    return figures([value, null["mean"], null["low"], null["high"]], digits)[0]


def chance(test: dict[str, Any], digits: int = 2) -> tuple[str, str]:
    """Write what explanations that know nothing get: the mean, and where 95 of 100 lie if not all at one place."""
    null = test["null"]
    if null is None:
        return NOTHING, ""
    mean, low, high = figures([null[name] for name in ("mean", "low", "high")], digits)
    return mean, f"{low} to {high}" if null["low"] < null["high"] else ""


def by_chance(test: dict[str, Any]) -> str:
    """Write the same as one text."""
    mean, spread = chance(test)
    return f"{mean} ({spread})" if spread else mean


def is_ranked(test: dict[str, Any]) -> bool:
    """Whether a test was held against random rankings; other chances are no share that is beaten."""
    return test["percentile"] is not None and test["remove"] is not None


def percentile(test: dict[str, Any]) -> str:
    """Write the share of random rankings that are beaten, with its interval."""
    if not is_ranked(test):
        return NOTHING
    share = f"{round(test['percentile'], 1):g}%"
    if test["interval"] is None:
        return share
    low, high = (f"{round(end, 1):g}" for end in test["interval"])
    return f"{share} ({low} to {high})"


def beaten(test: dict[str, Any]) -> str:
    """Write the count behind a percentile."""
    if test["beaten"] is None or test["of"] is None:
        return ""
    tied = test.get("tied")
    ties = f", {tied:g} {_many('tie', tied)}" if tied else ""
    return f"{test['beaten']:g} of {test['of']:g}{ties}"


def by_name(tests: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Put tests of one name together: the same test under other kinds of removal."""
    found: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        found.setdefault(test["name"], []).append(test)
    return found


def deciding(payload: dict[str, Any], method: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tests that the verdicts rest on, by name: those under the first kind of removal."""
    first = payload["remove"][0]
    return {test["name"]: test for test in method["tests"] if test["remove"] in (None, first)}


def reasons(payload: dict[str, Any], method: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return why the verdicts are what they are, each reason once, with its tests."""
    found: dict[str, list[dict[str, Any]]] = {}
    for test in deciding(payload, method).values():
        if test["why"]:
            found.setdefault(test["why"], []).append(test)
    return found


def all_names(payload: dict[str, Any]) -> list[str]:
    """Return the names of all tests, in the order they come."""
    return list(dict.fromkeys(t["name"] for m in payload["methods"] for t in m["tests"]))


def own_sentence(payload: dict[str, Any], method: dict[str, Any]) -> str:
    """Return what is said of a method, unless it is all that the card says and was said already."""
    return "" if method["sentence"] == payload["sentence"] else str(method["sentence"])


def drawn(method: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tests whose curve shows the prediction as tokens go or come."""
    return [t for t in method["tests"] if t["curve"] is not None and t["name"] in _CURVES]


def axis(test: dict[str, Any]) -> str:
    """Say what a curve is drawn over."""
    return _CURVES[test["name"]][0]


def good(test: dict[str, Any]) -> str:
    """Say how the curve of a good explanation looks."""
    return _CURVES[test["name"]][1]


def bounds(tests: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Return the lowest and highest value to draw: 0 and 1 for probabilities, whatever their range."""
    curves = [test["curve"] for test in tests]
    known = [v for c in curves for name in ("values", "null_low", "null_high") for v in c[name]]
    if all(0 <= value <= 1 for value in known):
        return 0.0, 1.0
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, low + 1)


def tick(value: float, ends: tuple[float, float]) -> str:
    """Label a place on the axis of values."""
    return f"{value:.0%}" if ends == (0.0, 1.0) else f"{value:.3g}"


def value_name(payload: dict[str, Any], ends: tuple[float, float]) -> str:
    """Say what a curve shows."""
    # A contrast of two labels has no probability of its own: it is the first label's that is watched.
    label = str(payload["target"]["label"])
    return f"probability of {label}" if ends == (0.0, 1.0) else label


def setup(payload: dict[str, Any]) -> str:
    """Say what was removed, and what the figures are compared with."""
    units, unit, rankings = payload["units"], payload["unit"], payload["rankings"]
    first, *others = payload["remove"]
    away = f"{units:,} {_many(unit, units)}, {gone(first)}"
    if others:
        away += f" (the verdicts rest on this), and for comparison by {', '.join(others)}"
    if not rankings:
        return f"{away}; no random rankings to compare with"
    if units < 12 and rankings == factorial(units):
        return f"{away}; compared with all {rankings:,} rankings of them"
    same = "picture" if payload.get("picture") else "text"
    return f"{away}; compared with {rankings:,} random rankings of the same {same}"


def counted(payload: dict[str, Any], test: dict[str, Any]) -> str:
    """Say what the axis of a curve counts."""
    return f"{_many(payload['unit'], 2)} {axis(test)}"


def cost(payload: dict[str, Any]) -> str:
    """Say what the card cost."""
    spent = payload["cost"]
    return (
        f"{spent['forward']:,} forward and {spent['backward']:,} backward passes, {spent['seconds']:.1f} s; "
        f"the tests took {spent['tests']:,} forward passes of their budget of {payload['budget']:,}"
    )


def _many(word: str, count: int) -> str:
    if count == 1:
        return word
    return f"{word}es" if word.endswith("ch") else f"{word}s"
