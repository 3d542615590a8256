"""Trust verdicts and their sentences: deciding test of each method, counts by verdict, effect of the removal."""

import pytest

from whence.trust.card import (
    describe_card_verdict,
    describe_method_verdict,
    describe_removal_effect,
)
from whence.trust.trust_rules import VERDICT_RULES, judge_method


def build_tests(**verdicts):
    """Every test with its verdict, "holds" by default, and its own name for a reason."""
    return [
        {"name": rule.name, "verdict": verdicts.get(rule.name, "holds"), "why": f"The {rule.name}."}
        for rule in VERDICT_RULES
    ]


def judge_and_describe(**verdicts):
    found = build_tests(**verdicts)
    verdict = judge_method({test["name"]: test["verdict"] for test in found})
    return verdict, describe_method_verdict("m", verdict, found)


@pytest.mark.parametrize(
    ("verdicts", "verdict", "reason"),
    [
        ({}, "holds", "the deletion, and the sufficiency."),
        ({"conservation": "fails"}, "holds", "the deletion, and the sufficiency."),
        ({"stability": "not tested"}, "holds", "sufficiency. Not tested: stability."),
        ({"deletion": "fails", "sufficiency": "fails"}, "fails", ": the deletion."),
        ({"deletion": "fails", "randomisation": "fails"}, "fails", ": the deletion."),
        ({"deletion": "weak", "randomisation": "fails"}, "fails", ": the randomisation."),
        ({"deletion": "fails", "sufficiency": "not tested"}, "fails", ": the deletion."),
        ({"deletion": "fails"}, "fails", ": the deletion."),
        ({"sufficiency": "fails"}, "fails", ": the sufficiency."),
        ({"deletion": "weak", "sufficiency": "fails"}, "fails", ": the sufficiency."),
        ({"deletion": "not tested", "sufficiency": "fails"}, "fails", ": the sufficiency."),
        ({"sufficiency": "weak", "stability": "fails"}, "weak", ": the stability."),
        ({"deletion": "weak", "conservation": "fails"}, "weak", ": the deletion."),
        ({"sufficiency": "not tested"}, "weak", ": the sufficiency."),
        (
            {"deletion": "not tested", "sufficiency": "not tested", "stability": "fails"},
            "not tested",
            ": the deletion.",
        ),
    ],
)
def test_judge_method_verdict_and_sentence_name_the_deciding_test(verdicts, verdict, reason):
    found, sentence = judge_and_describe(**verdicts)
    assert found == verdict
    assert sentence.endswith(reason)


def test_describe_card_verdict_counts_the_methods_by_verdict():
    methods = [
        {"method": "a", "verdict": "holds", "sentence": "x"},
        {"method": "b", "verdict": "fails", "sentence": "y"},
        {"method": "c", "verdict": "fails", "sentence": "z"},
    ]
    assert describe_card_verdict(methods) == (
        "Of 3 explanations of this prediction, 1 can be believed (a), 2 are not to be relied on (b, c)."
    )
    assert describe_card_verdict(methods[:1]) == "x"


def build_removal_test(how, percentile, verdict):
    return {"name": "deletion", "remove": how, "percentile": percentile, "verdict": verdict}


def test_describe_removal_effect_names_changed_verdicts_and_percentiles():
    alike = [build_removal_test("mask", 99.0, "holds"), build_removal_test("pad", 98.5, "holds")]
    apart = [build_removal_test("mask", 99.0, "holds"), build_removal_test("pad", 60.0, "fails")]
    none = [
        build_removal_test("mask", None, "not tested"),
        build_removal_test("pad", None, "not tested"),
    ]
    ways = ["mask", "pad"]
    assert describe_removal_effect([{"method": "m", "tests": alike}], ["mask"]) is None
    assert "next to nothing" in describe_removal_effect([{"method": "m", "tests": alike}], ways)
    sentence = describe_removal_effect([{"method": "m", "tests": apart}], ways)
    assert "changes 1 verdict;" in sentence
    assert "60% of random rankings with pad and 99% with mask" in sentence
    assert "nothing could be tested" in describe_removal_effect(
        [{"method": "m", "tests": none}], ways
    )


@pytest.mark.parametrize("other", ["holds", "weak", "fails", "not tested"])
@pytest.mark.parametrize("main", ["deletion", "sufficiency"])
def test_a_verdict_fails_when_a_main_test_fails_whatever_the_other_tests_say(main, other):
    verdicts = {rule.name: other for rule in VERDICT_RULES} | {main: "fails"}
    assert judge_method(verdicts) == "fails"
