"""Recommendations by measured seconds: slow methods are left out first, and quick methods are preferred."""

import time

import pytest

import whence
from tests.unit.evaluation.test_recommendation import table_of
from whence.data.example import Example
from whence.methods import method
from whence.methods.attcat import attcat
from whence.studies.evaluation.recommend import (
    Recommendation,
    apply_rule,
    plan_recommendation,
    recommend,
)

TEXTS = [
    f"a {word} film with {other} actors" for word in ("dull", "fine") for other in ("good", "bad")
]


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture
def slow_and_quick_methods():
    """Two methods of equal calls, the first of the alphabet slow."""

    def slow(trace):
        """Do as attcat does, and take long."""
        time.sleep(0.3)
        return attcat(trace)

    def quick(trace):
        """Do as attcat does."""
        return attcat(trace)

    facts = {name: value for name, value in method.get("attcat").facts.items() if name != "presets"}
    facts.pop("signed_when", None)
    method("aa_slow", **facts)(slow)
    method("zz_quick", **facts)(quick)
    yield ["aa_slow", "zz_quick"]
    for name in ("aa_slow", "zz_quick"):
        del method._entries[name]


def test_plan_recommendation_leaves_out_the_slower_of_two_methods_with_equal_calls(
    explainer, slow_and_quick_methods
):
    given = [Example(text) for text in TEXTS]
    both = plan_recommendation(explainer, given, budget=10**6, methods=slow_and_quick_methods)
    assert both.methods == ("aa_slow", "zz_quick")
    assert both.seconds["aa_slow"] > 0.3 > both.seconds["zz_quick"]
    # As many calls as one of them takes, and a few.
    one = plan_recommendation(explainer, given, budget=10**6, methods=["zz_quick"])
    tight = plan_recommendation(
        explainer, given, budget=one.calls - len(given) * 11 + 8, methods=slow_and_quick_methods
    )
    assert tight.methods == ("zz_quick",)
    assert list(tight.left_out) == ["aa_slow"]
    said = str(tight)
    assert "aa_slow (1 calls, 0.3" in said
    assert "depends on the seconds" in said
    assert tight.to_dict()["seconds"].keys() == {"aa_slow", "zz_quick"}


def test_apply_rule_between_indistinguishable_methods_takes_the_quicker():
    gain = {"mean": 0.1, "low": 0.0, "high": 0.2, "n": 9}
    table = table_of(
        {"a": "dear", "b": "cheap", "gain": gain, "p": 0.5},
        {"dear": (2.0, True, 2), "cheap": (1.0, True, 2)},
    )
    found = apply_rule(table, seconds={"dear": 6.4, "cheap": 0.14})
    assert found["method"] == "cheap"
    assert "is quicker, 0.14 s per example instead of 6.4 s" in found["sentence"]
    # What takes hardly longer is as quick, and then the larger effect decides.
    found = apply_rule(table, seconds={"dear": 0.15, "cheap": 0.14})
    assert found["method"] == "dear"
    assert "is as quick as any of them, 0.15 s per example" in found["sentence"]


def test_recommendation_and_its_saved_file_hold_the_measured_seconds(explainer, tmp_path):
    answer = recommend(explainer, TEXTS, methods=["attcat", "rollout"], budget=5000)
    assert answer.plan.seconds.keys() == {"attcat", "rollout"}
    assert all(0 < seconds < 60 for seconds in answer.plan.seconds.values())
    again = Recommendation.load(answer.save(tmp_path / "answer.json"))
    assert again.plan.seconds == answer.plan.seconds
    assert "depends on the seconds" in str(answer)
