"""Trust cards of short and unusual inputs, refused options, other models and other targets."""

from dataclasses import replace

import numpy as np
import pytest
import transformers as hf

import whence
from tests import zoo
from tests.contract.trust.conftest import RANDOM, TEXT, check
from tests.model_inputs import record_model_inputs

# --- odd inputs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "units", "said"),
    [
        ("good", 1, "only one token"),
        ("!", 1, "only one token"),
        ("good film", 2, "2 ways"),
        ("a good film", 3, "6 ways"),
    ],
)
def test_trust_of_up_to_three_tokens_has_ranking_tests_not_tested(explainer, text, units, said):
    found = explainer.trust(text, method=["attcat", "leave_one_out", "random"])
    check(found)
    assert found.to_dict()["units"] == units
    for name in ("deletion", "sufficiency", "leave_one_out"):
        for method in found.verdicts:
            test = found.test(name, method)
            assert test["verdict"] == "not tested" and said in test["why"]
            assert test["value"] is None and test["null"] is None and test["percentile"] is None


def test_trust_of_four_tokens_compares_with_all_24_rankings(explainer):
    found = explainer.trust("dull but good film")
    check(found)
    assert found.to_dict()["rankings"] == found.test("deletion")["of"] == 24
    assert found.test("deletion")["tied"] >= 1  # itself


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_trust_of_an_empty_text_raises_whence_error(explainer, text):
    with pytest.raises(whence.WhenceError, match="empty"):
        explainer.trust(text)


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_trust_of_equal_scores_has_verdict_not_tested(explanation, score):
    found = replace(explanation, scores=np.full_like(explanation.scores, score)).trust(400)
    check(found)
    assert found.verdicts == {"attcat": "not tested"}
    for name in RANDOM:
        assert "equal" in found.test(name)["why"]


def test_trust_of_an_unknown_method_with_budget_one_runs_no_forward_pass(explainer, explanation):
    explanation.trust(1)
    with record_model_inputs(explainer.model) as asked:
        found = replace(explanation, method="mine", params={}).trust(1)
    check(found)
    assert asked == [] and found.to_dict()["cost"]["forward"] == 0


def test_trust_of_an_unknown_method_has_repeat_tests_not_tested(explanation):
    found = replace(explanation, method="mine", params={}).trust()
    check(found)
    for name in ("stability", "randomisation", "class_sensitivity"):
        assert found.test(name)["verdict"] == "not tested"
        assert "cannot be made again" in found.test(name)["why"]
    assert found.test("deletion") == explanation.trust().test("deletion")


@pytest.mark.parametrize("wrong", ["nan", "infinite", "short"])
def test_trust_of_nan_infinite_or_missing_scores_raises_whence_error(explanation, wrong):
    scores = explanation.scores.copy()
    if wrong == "short":
        scores = scores[:3]
    else:
        scores[3] = np.nan if wrong == "nan" else np.inf
    with pytest.raises(whence.WhenceError, match="score"):
        replace(explanation, scores=scores).trust(400)


@pytest.mark.parametrize("size", [1e-300, 1e250])
def test_trust_of_scaled_scores_of_an_unknown_method_gives_the_same_ranking_tests(
    explanation, size
):
    mine = replace(explanation, method="mine", params={})
    plain, scaled = mine.trust(400), replace(mine, scores=mine.scores * size).trust(400)
    for name in RANDOM:
        for figure in ("value", "percentile", "verdict"):
            assert scaled.test(name)[figure] == plain.test(name)[figure]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": True}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"remove": "zap"}, "zap"),
        ({"remove": "draw"}, "mlm"),
        ({"unit": "sentence"}, "sentence"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_trust_with_bad_options_raises_whence_error(explanation, options, said):
    with pytest.raises(whence.WhenceError, match=said):
        explanation.trust(**options)


def test_trust_of_two_inputs_at_once_raises_whence_error(explainer):
    with pytest.raises(whence.WhenceError, match="one input at a time"):
        explainer.trust(["a good film", "a bad film"])


# --- other models and targets --------------------------------------------------------------------


def load_classifier(**more):
    config = hf.BertConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=64,
        max_position_embeddings=48, pad_token_id=0, **more,
    )  # fmt: skip
    model = zoo.seeded(lambda: hf.BertForSequenceClassification(config))
    return whence.load(model.double().eval())


def test_trust_of_a_regression_reports_no_other_class_and_tests_deletion():
    found = load_classifier(num_labels=1, problem_type="regression").trust(
        zoo.rows("bert")[0], method=["attcat", "integrated_gradients"]
    )
    check(found)
    assert "no other class" in found.test("class_sensitivity")["why"]
    assert found.test("deletion")["verdict"] != "not tested"


def test_trust_of_a_multi_label_model_tests_class_sensitivity_for_every_target():
    explainer = load_classifier(num_labels=3, problem_type="multi_label_classification")
    for target in (0, 1, 2, "runner-up"):
        found = explainer.trust(zoo.rows("bert")[0], target=target)
        check(found)
        assert found.test("class_sensitivity")["verdict"] != "not tested"


def test_trust_of_a_contrast_names_the_contrast_under_class_sensitivity(explainer):
    found = explainer.trust(TEXT, target=("positive", "negative"))
    check(found)
    assert "against each other" in found.test("class_sensitivity")["why"]


def test_trust_of_a_probability_or_the_runner_up_gives_a_consistent_card(explainer):
    check(explainer.trust(TEXT, of="probability"))
    check(explainer.trust(TEXT, target="runner-up"))


def test_trust_of_a_pair_counts_the_tokens_of_both_texts(explainer):
    found = explainer.trust(("the plot is thin", "but it is great"))
    check(found)
    assert found.to_dict()["input"]["pair"] == "but it is great" and found.to_dict()["units"] == 8


@pytest.mark.parametrize("name", ["gpt2", "bart", "t5", "deberta-v2", "gemma3"])
@pytest.mark.parametrize("remove", [None, "all"])
def test_trust_of_models_without_a_mask_token_removes_by_padding(name, remove):
    explainer = whence.load(zoo.make(name))
    assert "mask" not in explainer.fillers
    (row,) = zoo.rows(name, lengths=(6,))
    with record_model_inputs(explainer.model) as asked:
        found = explainer.trust(row, method=["leave_one_out", "random"], remove=remove, budget=900)
    check(found)
    told = found.to_dict()
    assert told["remove"][0] == "pad"
    assert ("delete" in told["remove"]) == (remove == "all")
    if name in zoo.TWO_STREAMS:  # the end of the sequence cannot be missed
        assert told["units"] == 5 and all(3 in ids for ids in asked)
    assert found.test("deletion", "leave_one_out")["verdict"] != "not tested"
