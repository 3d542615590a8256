"""What a card says in a sentence: the result that decided, and no other."""

import pytest

from whence.trust.rules import RULES, overall
from whence.trust.words import card_sentence, method_sentence, removal_sentence


def every(**verdicts):
    """Every test with its verdict, "holds" by default, and its own name for a reason."""
    return [
        {"name": rule.name, "verdict": verdicts.get(rule.name, "holds"), "why": f"The {rule.name}."}
        for rule in RULES
    ]


def said(**verdicts):
    found = every(**verdicts)
    verdict = overall({test["name"]: test["verdict"] for test in found})
    return verdict, method_sentence("m", verdict, found)


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
def test_the_verdict_and_what_decided(verdicts, verdict, reason):
    found, sentence = said(**verdicts)
    assert found == verdict
    assert sentence.endswith(reason)


def test_several_methods_are_counted():
    methods = [
        {"method": "a", "verdict": "holds", "sentence": "x"},
        {"method": "b", "verdict": "fails", "sentence": "y"},
        {"method": "c", "verdict": "fails", "sentence": "z"},
    ]
    assert card_sentence(methods) == (
        "Of 3 explanations of this prediction, 1 can be believed (a), 2 are not to be relied on (b, c)."
    )
    assert card_sentence(methods[:1]) == "x"


def removed(how, percentile, verdict):
    return {"name": "deletion", "remove": how, "percentile": percentile, "verdict": verdict}


def test_how_much_removal_matters():
    alike = [removed("mask", 99.0, "holds"), removed("pad", 98.5, "holds")]
    apart = [removed("mask", 99.0, "holds"), removed("pad", 60.0, "fails")]
    none = [removed("mask", None, "not tested"), removed("pad", None, "not tested")]
    ways = ["mask", "pad"]
    assert removal_sentence([{"method": "m", "tests": alike}], ["mask"]) is None
    assert "next to nothing" in removal_sentence([{"method": "m", "tests": alike}], ways)
    sentence = removal_sentence([{"method": "m", "tests": apart}], ways)
    assert "changes 1 verdict;" in sentence
    assert "60% of random rankings with pad and 99% with mask" in sentence
    assert "nothing could be tested" in removal_sentence([{"method": "m", "tests": none}], ways)


@pytest.mark.parametrize("other", ["holds", "weak", "fails", "not tested"])
@pytest.mark.parametrize("main", ["deletion", "sufficiency"])
def test_a_verdict_fails_when_a_main_test_fails_whatever_the_other_tests_say(main, other):
    verdicts = {rule.name: other for rule in RULES} | {main: "fails"}
    assert overall(verdicts) == "fails"
