"""Pooling models (one attention row): batches, padding, targets, refused methods, plain references, trust card."""

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.contract.test_methods import assert_same_scores, scores
from whence.core.errors import NoRule, NotCapturable
from whence.methods import method
from whence.models.rnn import build_word_tokenizer

# Every method either works or says why not; what works is the same for every kind of model, but for relevance.
READ = ["raw_attention", "attention_gradient", "attention_gradcam"]
FREE = [
    "gradient", "grad_x_input", "integrated_gradients", "smoothgrad", "gradient_shap", "leave_one_out", "occlusion",
    "lime", "kernel_shap", "random",
]  # fmt: skip
RELEVANCE = ["attn_lrp", "cp_lrp", "partial_lrp"]  # where every operation has a rule: average
WORKS = [
    (model, name)
    for model in zoo.POOLING
    for name in READ + FREE + (RELEVANCE if model == "average" else [])
]
REFUSED = [
    (model, name) for model in zoo.POOLING for name in method.names() if (model, name) not in WORKS
]
works = pytest.mark.parametrize(("model", "name"), WORKS)


@pytest.fixture
def explainer(model):
    return whence.load(zoo.make(model))


@works
def test_batch_equals_singles_in_any_order(explainer, model, name):
    rows = zoo.rows(model, lengths=(7, 4, 5))
    singles = [explainer.explain(row, method=name).scores for row in rows]
    assert_same_scores(scores(explainer.explain(rows, method=name)), singles)
    assert_same_scores(
        scores(explainer.explain(rows[::-1], method=name, batch_size=2)), singles[::-1]
    )


@works
def test_scores_of_pooling_models_are_unchanged_by_padding(explainer, model, name):
    row = zoo.rows(model, lengths=(6,))[0]["input_ids"]
    padded = {
        "input_ids": torch.tensor([row + [0] * 4]),
        "attention_mask": torch.tensor([[1] * 6 + [0] * 4]),
    }
    alone = explainer.explain({"input_ids": row}, method=name)
    assert_same_scores([explainer.explain(padded, method=name).scores], [alone.scores])
    together = explainer.explain([{"input_ids": row}, *zoo.rows(model, (12,))], method=name)
    assert_same_scores([together[0].scores], [alone.scores])


@pytest.mark.parametrize("model", zoo.POOLING)
def test_pooling_model_scores_repeat_exactly_and_equal_those_of_single_methods(explainer, model):
    row = zoo.rows(model)[0]
    names = [name for one, name in WORKS if one == model]
    first, second = (explainer.explain(row, method=names) for _ in range(2))
    for name in names:
        assert (first[name].scores == second[name].scores).all()
        assert_same_scores([first[name].scores], [explainer.explain(row, method=name).scores])


@works
def test_pooling_model_scores_change_with_the_target_only_for_class_aware_methods(
    explainer, model, name
):
    rows = zoo.rows(model, lengths=(7, 4, 5))
    # All classes and several inputs: attention_gradcam is zero where the one head speaks against a class.
    found = [
        np.concatenate(scores(explainer.explain(rows, method=name, target=t))) for t in range(3)
    ]
    knows_no_class = method.get(name).facts["family"] in {"attention", "baseline"}
    assert all(np.array_equal(found[0], one) for one in found) == knows_no_class


@pytest.mark.parametrize(("model", "name"), REFUSED)
def test_unsupported_method_on_a_pooling_model_raises_and_suggests_alternatives(
    explainer, model, name
):
    with pytest.raises((NotCapturable, NoRule)) as refused:
        explainer.explain(zoo.rows(model), method=name)
    assert "grad_x_input" in str(refused.value)
    if refused.type is NotCapturable:
        assert "Use raw_attention, attention_gradient or attention_gradcam" in str(refused.value)


@pytest.mark.parametrize("model", zoo.POOLING)
def test_raw_attention_on_a_pooling_model_is_the_same_for_all_presets_and_queries(explainer, model):
    """It is the only row and no token's own: whichever query, layer or own entry is asked for, it is the same."""
    row = zoo.rows(model)[0]
    wanted = explainer.explain(row, method="raw_attention").scores
    for params in [
        *({"preset": preset} for preset in method.get("raw_attention").presets),
        {"layer": 0},
        {"query": "mean", "own": "min"},
    ]:
        found = explainer.explain(row, method="raw_attention", params=params).scores
        assert (found == wanted).all()
    with pytest.raises(whence.WhenceError, match="no layer 1: the model has 1"):
        explainer.explain(row, method="raw_attention", params={"layer": 1})
    with pytest.raises(NotCapturable, match="pools its tokens"):
        explainer.trace(row).layer(0)


@pytest.mark.parametrize("model", zoo.POOLING)
def test_leave_one_out_on_a_pooling_model_equals_a_plain_loop(explainer, model):
    row = zoo.rows(model)[0]["input_ids"]

    def probability(ids):
        with torch.no_grad():
            return explainer.model(torch.tensor([ids])).logits.softmax(1)[0, 1].item()

    found = explainer.explain(
        {"input_ids": row}, method="leave_one_out", target=1, params={"remove": "delete"}
    )
    whole = probability(row)
    wanted = [whole - probability(row[:t] + row[t + 1 :]) for t in range(len(row))]
    # float64; a batch and its inputs one by one differ in the order of sums.
    np.testing.assert_allclose(found.scores, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("model", zoo.POOLING)
def test_attention_gradient_and_bias_on_a_pooling_model_sum_to_the_logit(explainer, model):
    """The logit is linear in the weights, so that weights times slopes, and the bias, add up to it."""
    row = zoo.rows(model)[0]
    found = explainer.explain(row, method="attention_gradient", target=1)
    bias = explainer.model.decoder.output.bias[1].item()
    assert found.scores.sum() + bias == pytest.approx(found.prediction.logits[1], abs=1e-12)


@pytest.mark.parametrize("model", zoo.POOLING)
def test_trust_and_evaluate_on_a_pooling_model_give_verdicts_and_values(model):
    """The trust card and the evaluation run through, and give every method a verdict and numbers."""
    words = [f"w{number}" for number in range(60)]
    explainer = whence.load(zoo.make(model), tokenizer=build_word_tokenizer([" ".join(words)]))
    texts = [" ".join(words[start : start + 8]) for start in (0, 20, 40)]
    names = ["raw_attention", "gradient"]
    card = explainer.trust(texts[0], method=names)
    assert set(card.verdicts) == set(names)
    assert set(card.verdicts.values()) <= {"holds", "weak", "fails"}
    metrics = ["comprehensiveness", "loo_correlation", "randomisation", "sensitivity"]
    table = whence.evaluate(explainer, texts, methods=names, metrics=metrics)
    for name in names:
        for metric in metrics:
            assert table.cell(name, metric).value.n == 3, (name, metric)
