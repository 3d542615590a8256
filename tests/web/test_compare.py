"""Comparison of two models on one input: cut at one place, and explained for one class."""

import copy

import numpy as np
import pytest
import torch

import whence
from tests.web.serving import ask
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.errors import NotCapturable
from whence.explain.explainer import Explainer

TEXT = "a fine film with a dull ending and wonderful actors in a thin plot"


@pytest.fixture(scope="module")
def flipped_model_folder(tmp_path_factory):
    """The model reviews with its labels' outputs exchanged, and eight tokens as its longest input."""
    folder = tmp_path_factory.mktemp("models") / "turned"
    own = whence.load("reviews")
    model, tokenizer = copy.deepcopy(own.model), copy.deepcopy(own.tokenizer)
    with torch.no_grad():
        for parameter in (model.classifier.weight, model.classifier.bias):
            parameter.copy_(parameter.flip(0))
    tokenizer.model_max_length = 8
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def two_model_app(flipped_model_folder):
    app = create_app(Settings(models=("reviews", str(flipped_model_folder))))
    yield app
    assert app.state.app_state.close(10)


def compare(app, **asked):
    answer = ask(app, "POST", "/api/compare", json={"text": TEXT, "method": "attcat", **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_compare_endpoint_cuts_both_models_at_the_shorter_maximum(two_model_app):
    for a, b in (("reviews", "turned"), ("turned", "reviews")):
        found = compare(two_model_app, a=a, b=b)
        assert len(found["tokens"]) == 8
        words = len(found["words"])
        assert [len(one["word_scores"]) for one in found["explanations"]] == [words, words]
    # What is known of the cut text is not taken for the whole one.
    flow = ask(
        two_model_app, "POST", "/api/flow", json={"input": {"model": "reviews", "text": TEXT}}
    ).json()
    assert len(flow["tokens"]) > 8
    assert len(compare(two_model_app, a="reviews", b="turned")["tokens"]) == 8


def test_compare_endpoint_explains_both_models_for_the_class_of_the_second(two_model_app):
    own = whence.load("reviews")
    found = compare(two_model_app, a="reviews", b="turned", weight="gradient_x_attention")
    first, second = (one["label"] for one in found["predictions"])
    assert first != second
    assert [flow["target"]["label"] for flow in found["flows"]] == [second, second]
    cut = " ".join(word["text"] for word in found["words"])
    # float32: a batch of another length rounds differently.
    why = own.explain(cut, method="attcat", target=second)
    np.testing.assert_allclose(found["explanations"][0]["word_scores"], why.word_scores, atol=1e-5)
    other = own.explain(cut, method="attcat", target=first)
    assert np.abs(np.array(other.word_scores) - why.word_scores).max() > 1e-3
    asked = compare(two_model_app, a="reviews", b="turned", target=first)
    assert [flow["target"]["label"] for flow in asked["flows"]] == [first, first]
    # A model and itself agree: nothing is asked about but what is predicted.
    same = compare(two_model_app, a="reviews", b="reviews")
    assert same["flows"][0]["target"]["label"] == own.predict(TEXT).label


def test_compare_endpoint_warns_when_one_model_cannot_be_explained(two_model_app, monkeypatch):
    compare(two_model_app, a="reviews", b="turned")  # default methods are tried once, and here
    explain = Explainer.explain

    def failing(explainer, *given, **asked):
        if explainer.loaded.name.endswith("turned"):
            raise NotCapturable("there is no way in")
        return explain(explainer, *given, **asked)

    monkeypatch.setattr(Explainer, "explain", failing)
    found = compare(two_model_app, a="reviews", b="turned")
    assert found["explanations"][0]["method"] == "attcat"
    assert found["explanations"][1] is None
    last = found["warnings"][-1]
    assert last["code"] == "not-capturable"
    assert "turned could not be explained by attcat: there is no way in" in last["message"]
