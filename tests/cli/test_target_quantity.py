"""What an explanation is of: a probability where one is measured, a logit only where that is explained."""

import json

import pytest
import torch
import transformers as hf

import whence
from tests.unit.tokenizers import wordpiece
from whence.view import merge

FALLS = ["leave_one_out", "occlusion", "lime", "kernel_shap"]
TEXT = "a dull film"
FEW = {"lime": {"samples": 20}, "kernel_shap": {"samples": 20}}


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.mark.parametrize("method", FALLS)
def test_a_method_that_measures_probabilities_says_probability(explainer, method):
    for of in ("logit", "probability"):
        why = explainer.explain(
            TEXT, method=method, params=FEW.get(method), of=of, target=("positive", "negative")
        )
        assert why.target.of == why.target.against.of == "probability"
        payload = why.to_dict()
        assert payload["target"]["of"] == payload["explanations"][0]["of"] == "probability"
        assert "of the probability of positive rather than negative" in why._repr_html_()


def test_a_method_that_explains_a_logit_says_logit(explainer):
    why = explainer.explain(TEXT, method="attcat")
    assert why.target.of == why.to_dict()["explanations"][0]["of"] == "logit"
    assert "of the logit of negative" in why._repr_html_()
    assert explainer.explain(TEXT, method="attcat", of="probability").target.of == "probability"


def test_side_by_side_each_says_its_own(explainer, run):
    status, out, _ = run(
        "explain", TEXT, "--method", "attcat", "--method", "leave_one_out", "--json"
    )
    assert status == 0
    said = {one["method"]: one["of"] for one in json.loads(out)["explanations"]}
    assert said == {"attcat": "logit", "leave_one_out": "probability"}
    found = explainer.explain(TEXT, method=["leave_one_out", "attcat"])
    payload = merge([one.to_dict() for one in found.values()])
    assert [one["of"] for one in payload["explanations"]] == ["probability", "logit"]


def test_a_regression_has_no_probability():
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


def test_what_was_asked_for_is_asked_again(explainer):
    why = explainer.explain(TEXT, method="leave_one_out")
    assert why.asked.of == "logit"
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
