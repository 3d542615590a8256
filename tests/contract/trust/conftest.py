"""Fixtures of the trust card tests: a card of one text, and the check of every card against its own figures."""

import json
from math import factorial

import pytest

import whence
from whence.trust.card import Trust

TEXT = "the plot is thin but the actors are great"
TESTS = [
    "deletion", "sufficiency", "leave_one_out", "stability", "randomisation", "class_sensitivity", "completeness",
    "conservation",
]  # fmt: skip
RANDOM = ("deletion", "sufficiency", "leave_one_out")
AXIOMS = ("completeness", "conservation")


@pytest.fixture(scope="session")
def explainer():
    return whence.load("reviews", dtype="float64")


@pytest.fixture(scope="session")
def explanation(explainer):
    return explainer.explain(TEXT)


@pytest.fixture(scope="session")
def card(explainer):
    return explainer.trust(
        TEXT, method=["attcat", "raw_attention", "integrated_gradients", "cp_lrp", "random"]
    )


def assert_alike(tests, others):
    """Padding, and how attention is computed, move the last bits of float64; all that is counted stays."""
    for one, other in zip(tests, others, strict=True):
        for exact in ("name", "verdict", "why", "percentile", "interval", "beaten", "tied", "of"):
            assert one[exact] == other[exact]
        if one["value"] is not None:
            assert one["value"] == pytest.approx(other["value"], abs=1e-9)
            assert one["null"] == pytest.approx(other["null"], abs=1e-9)


# --- shape and verdicts --------------------------------------------------------------------------


def check(card: Trust) -> None:
    """Check what must be true of every card, whatever is on it."""
    told = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    assert told["version"] == 1
    assert told["methods"] and told["sentence"] and told["sentence"].endswith(".")
    assert [rule["name"] for rule in told["rules"]] == TESTS
    for one in told["methods"]:
        assert {"method", "verdict", "tests"} <= one.keys()
        assert list(dict.fromkeys(test["name"] for test in one["tests"])) == TESTS
        assert one["sentence"].startswith(one["method"])
        for test in one["tests"]:
            assert {"name", "value", "null", "percentile", "verdict"} <= test.keys()
            assert test["why"].endswith(".") and "nan" not in test["why"].lower().split()
            if test["verdict"] != "not tested":
                assert isinstance(test["value"], float)
                assert set(test["null"]) == {"mean", "low", "high"}
                assert test["null"]["low"] <= test["null"]["high"]
            if test["percentile"] is not None:
                assert test["percentile"] == pytest.approx(
                    100 * (test["beaten"] + test["tied"] / 2) / test["of"]
                )
                low, high = test["interval"]
                assert 0 <= low <= test["percentile"] <= high <= 100
            assert test["verdict"] == judge_test(test, told["units"]), test["name"]
        main = {
            t["name"]: t["verdict"]
            for t in one["tests"]
            if t["remove"] in (None, told["remove"][0])
        }
        assert one["verdict"] == judge_card(main)
    assert card.verdicts == {one["method"]: one["verdict"] for one in told["methods"]}
    # Whatever is on it, it can be shown.
    assert str(card) and repr(card) and "<" in card.to_html()


def judge_test(test, units):
    """Judge a test again, from the numbers on the card and what docs/reference/trust.md says."""
    value, null, name = test["value"], test["null"], test["name"]
    if value is None:
        return "not tested"

    def by(number, holds, weak):
        return "holds" if number <= holds else "weak" if number <= weak else "fails"

    if name in RANDOM:
        as_good = test["of"] - test["beaten"]
        # All rankings there are, the explanation's among them; else it is one more draw.
        if name != "leave_one_out" and test["of"] == factorial(units):
            return by(as_good / test["of"], 0.05, 0.25)
        return by((as_good + 1) / (test["of"] + 1), 0.05, 0.25)
    if name == "stability":
        return by(value / null["mean"], 0.25, 0.5) if null and null["mean"] else "not tested"
    if name == "randomisation":
        if null["high"] > 0.6 and value <= null["high"]:
            return "not tested"
        return by(value, max(0.3, null["high"]), 0.6)
    if name == "class_sensitivity":
        return by(value, 0.5, 0.9)
    return by(value, 0.01, 0.1)


def judge_card(verdicts):
    """Holds, fails, weak or not tested, as docs/reference/trust.md says; axioms are not held against it."""
    faithful = [verdicts["deletion"], verdicts["sufficiency"]]
    if "fails" in faithful or verdicts["randomisation"] == "fails":
        return "fails"
    if faithful == ["not tested", "not tested"]:
        return "not tested"
    behaviour = [verdict for name, verdict in verdicts.items() if name not in AXIOMS]
    if faithful == ["holds", "holds"] and "fails" not in behaviour:
        return "holds"
    return "weak"
