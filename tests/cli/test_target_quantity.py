"""Target quantity (field `of`): probability for perturbation methods, the requested logit for other methods."""

import json

import pytest
import torch
import transformers as hf

import whence
from tests.unit.small_tokenizers import wordpiece
from whence.explain.word_scores import merge_payloads

FALLS = ["leave_one_out", "occlusion", "lime", "kernel_shap"]
TEXT = "a dull film"
FEW = {"lime": {"samples": 20}, "kernel_shap": {"samples": 20}}


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.mark.parametrize("method", FALLS)
def test_explain_by_a_perturbation_method_has_target_of_probability(explainer, method):
    for of in ("logit", "probability"):
        why = explainer.explain(
            TEXT, method=method, params=FEW.get(method), of=of, target=("positive", "negative")
        )
        assert why.target.of == why.target.against.of == "probability"
        payload = why.to_dict()
        assert payload["target"]["of"] == payload["explanations"][0]["of"] == "probability"
        assert "of the probability of positive rather than negative" in why._repr_html_()


def test_explain_by_attcat_has_target_of_logit_unless_probability_is_asked_for(explainer):
    why = explainer.explain(TEXT, method="attcat")
    assert why.target.of == why.to_dict()["explanations"][0]["of"] == "logit"
    assert "of the logit of negative" in why._repr_html_()
    assert explainer.explain(TEXT, method="attcat", of="probability").target.of == "probability"


def test_explain_with_two_methods_reports_the_quantity_of_each_method(explainer, run):
    status, out, _ = run(
        "explain", TEXT, "--method", "attcat", "--method", "leave_one_out", "--json"
    )
    assert status == 0
    said = {one["method"]: one["of"] for one in json.loads(out)["explanations"]}
    assert said == {"attcat": "logit", "leave_one_out": "probability"}
    found = explainer.explain(TEXT, method=["leave_one_out", "attcat"])
    payload = merge_payloads([one.to_dict() for one in found.values()])
    assert [one["of"] for one in payload["explanations"]] == ["probability", "logit"]


def test_explain_of_a_regression_by_leave_one_out_has_target_of_logit():
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=400,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        num_labels=1,
    )
    model = hf.BertForSequenceClassification(config).eval()
    explainer = whence.load(model, tokenizer=wordpiece())
    assert explainer.explain("a gripping film", method="leave_one_out").target.of == "logit"


def test_inside_and_trust_after_leave_one_out_use_the_original_logit_target(explainer):
    why = explainer.explain(TEXT, method="leave_one_out")
    assert why.original_target.of == "logit"
    inside = explainer.inside(why)
    assert inside.target.of == "logit"
    # Beside a method that measures, the other one is made again for the logit that it explained.
    card = explainer.trust(TEXT, method=["leave_one_out", "attcat"], budget=300).to_dict()
    alone = explainer.trust(TEXT, method=["attcat", "leave_one_out"], budget=300).to_dict()
    tests = [
        {one["name"]: one["value"] for one in part["tests"]}
        for side in (card, alone)
        for part in side["methods"]
        if part["method"] == "attcat"
    ]
    assert tests[0] == tests[1]
