"""Trust card: payload and verdicts, percentiles by brute force, the decoy model, and random scores."""

import json
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.contract.trust.conftest import RANDOM, assert_alike, check
from tests.model_inputs import record_model_inputs
from whence.trust.card import Trust


def test_trust_card_of_several_methods_tests_promised_axioms_and_fails_random(card):
    check(card)
    assert [one["method"] for one in card.to_dict()["methods"]] == list(card.verdicts)
    # Those that promise something are held to it, and only those.
    for name, promise in (
        ("integrated_gradients", "completeness"),
        ("cp_lrp", "conservation"),
    ):
        assert card.test(promise, name)["verdict"] != "not tested"
    for promise in ("completeness", "conservation"):
        assert card.test(promise, "random")["verdict"] == "not tested"
    # What does not look at the model cannot pass.
    assert card.verdicts["random"] == "fails"
    assert card.test("stability", "random")["value"] == 0
    for name in ("randomisation", "class_sensitivity"):
        assert card.test(name, "random")["value"] == pytest.approx(1)
        assert card.test(name, "random")["verdict"] == "fails"


def test_trust_of_an_explanation_equals_its_method_in_a_card_of_several_methods(
    explainer, explanation, card
):
    check(explanation.trust())
    alone, among = explanation.trust().to_dict()["methods"][0], card.to_dict()["methods"][0]
    assert_alike(alone["tests"], among["tests"])


def test_trust_card_saved_and_loaded_equals_the_original(card, tmp_path):
    again = Trust.load(card.save(tmp_path / "card.json"))
    assert again.to_dict() == json.loads(json.dumps(card.to_dict()))
    assert str(again) == str(card)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("remove", ["mask", "pad", "unk", "delete"])
def test_trust_with_each_removal_and_unit_names_both_in_the_payload(explainer, remove, unit):
    found = explainer.explain("xylophones in the rain").trust(400, remove=remove, unit=unit)
    check(found)
    told = found.to_dict()
    assert (told["remove"], told["unit"]) == ([remove], unit)
    assert {test["remove"] for test in told["methods"][0]["tests"]} == {remove, None}


def test_trust_with_unit_word_masks_only_whole_words(explainer):
    found = explainer.explain("xylophones in the rain")
    assert len(found.spans) < sum(not token.special for token in found.tokens)
    assert found.trust(unit="word", budget=400).to_dict()["units"] == len(found.spans)
    allowed = {word.tokens for word in found.spans}
    mask = explainer.tokenizer.mask_token_id
    with record_model_inputs(explainer.model) as asked:
        found.trust(unit="word", budget=400)
    for ids in asked:
        gone = {place for place, one in enumerate(ids) if one == mask}
        assert gone == {p for word in allowed if word[0] in gone for p in word}


def test_trust_with_remove_all_tests_every_removal_and_equals_pad_alone(explanation):
    found = explanation.trust(3000, remove="all")
    check(found)
    told = found.to_dict()
    assert (
        sorted(told["remove"]) == ["delete", "mask", "pad", "unk"] and told["remove"][0] == "mask"
    )
    tests = told["methods"][0]["tests"]
    for name in RANDOM:
        assert [test["remove"] for test in tests if test["name"] == name] == told["remove"]
    assert told["removal_matters"]
    # Each is what it is alone, with as many rankings.
    one = explanation.trust(3000, remove="pad")
    assert one.to_dict()["removal_matters"] is None
    (pad,) = (t for t in tests if t["name"] == "leave_one_out" and t["remove"] == "pad")
    assert pad == one.test("leave_one_out")


# --- by brute force ------------------------------------------------------------------------------


def test_trust_values_and_nulls_equal_brute_force_over_all_24_rankings():
    """All 24 rankings of four tokens, each variant put together by hand and asked of the plain model."""
    explainer = whence.load("reviews", dtype="float64")
    found = explainer.explain("dull but good film", method="grad_x_input")
    tokenizer, model = explainer.tokenizer, explainer.model
    ids = tokenizer("dull but good film")["input_ids"]
    assert len(ids) == 6

    def probability(gone):
        filled = [
            tokenizer.mask_token_id if place in gone else one for place, one in enumerate(ids)
        ]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([filled])).logits[0]
        return float(logits.softmax(-1)[found.target.index])

    def deletion(order):
        heights = [probability(order[:count]) for count in range(5)]
        return sum((a + b) / 2 / 4 for a, b in pairwise(heights))

    def sufficiency(order):
        """Tenths of the tokens are kept, from none to nine, rounded down."""
        kept = [tenth * 4 // 10 for tenth in range(10)]
        return sum(probability(()) - probability(order[count:]) for count in kept) / 10

    content = range(1, 5)
    mine = sorted(content, key=lambda place: -found.scores[place])
    every = list(permutations(content))
    trust = found.trust()
    for name, area in (("deletion", deletion), ("sufficiency", sufficiency)):
        test = trust.test(name)
        value, null = area(mine), np.array([area(order) for order in every])
        assert test["value"] == pytest.approx(value, abs=1e-12)
        assert test["null"]["mean"] == pytest.approx(null.mean(), abs=1e-12)
        assert [test["null"]["low"], test["null"]["high"]] == pytest.approx(
            np.quantile(null, [0.025, 0.975]), abs=1e-12
        )
        gain = null - value
        assert (test["beaten"], test["tied"], test["of"]) == (
            (gain > 1e-12).sum(), (abs(gain) <= 1e-12).sum(), 24,
        )  # fmt: skip
    falls = [probability(()) - probability((place,)) for place in content]
    signs = [
        np.sign(found.scores[a] - found.scores[b]) * np.sign(falls[a - 1] - falls[b - 1])
        for a in content
        for b in content
        if a < b
    ]
    assert trust.test("leave_one_out")["value"] == pytest.approx(np.mean(signs))


# --- truth, and chance ---------------------------------------------------------------------------


def test_trust_of_attention_methods_on_the_decoy_model_does_not_hold():
    """Ten tokens or more, so that there is room to hold: the evidence is found by others, not by attention."""
    explainer = whence.load("decoy", dtype="float64")
    for text in (
        "the decoy film is great and the story of it was so long",
        "a film the decoy is awful to and it has a plot there",
    ):
        found = explainer.trust(
            text, method=["raw_attention", "rollout", "leave_one_out", "integrated_gradients"]
        )
        check(found)
        for name in ("raw_attention", "rollout"):
            assert found.verdicts[name] != "holds"
            assert found.test("deletion", name)["verdict"] != "holds"
        for name in ("leave_one_out", "integrated_gradients"):
            place = found.test("deletion", name)
            assert place["beaten"] + place["tied"] == place["of"]
            ahead = place["percentile"] - found.test("deletion", "raw_attention")["percentile"]
            assert ahead > 0


def test_trust_deletion_of_random_scores_holds_about_one_time_in_twenty():
    """Over 60 inputs: with 100 rankings and no ties each holds with a chance of 5/101.

    Their number is binomial. More than 9 come once in a thousand times, and none at all once in twenty: the seed is
    one that has some.
    """
    explainer = whence.load(zoo.make("bert"))
    rows = zoo.rows("bert", lengths=(6,) * 60, seed=7)
    counts = dict.fromkeys(("holds", "weak", "fails"), 0)
    percents = []
    for found in explainer.explain(rows, method="random", params={"seed": 3}):
        found = replace(found, method="mine", params={}).trust()
        test = found.test("deletion")
        counts[test["verdict"]] += 1
        percents.append(test["percentile"])
        assert found.to_dict()["rankings"] == 100
    assert sum(counts.values()) == 60
    assert 1 <= counts["holds"] <= 9
    # A quarter at most are not failed: binomial, 60 of 25/101, over 26 once in a thousand times.
    assert counts["holds"] + counts["weak"] <= 26
    # Uniform numbers: Kolmogorov's distance passes 1.95 / sqrt(60) once in a thousand times; a step for the grid.
    ranked = np.sort(percents) / 100
    places = np.arange(60) / 60
    apart = max((places + 1 / 60 - ranked).max(), (ranked - places).max())
    assert apart <= 1.95 / np.sqrt(60) + 0.01
