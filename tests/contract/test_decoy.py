"""Truth we can make: which methods point at the decoy, and which at the evidence."""

import json

import pytest

import whence
from whence.methods import method
from whence.models import builtin_folder

TRUTH = json.loads((builtin_folder("decoy") / "truth.json").read_text())
SENTENCES = [
    "the decoy film is great",
    "decoy a good movie",
    "the movie is superb decoy",
    "a film the decoy is awful",
    "the dreadful decoy movie",
]

# The attention weights are nearly all on the decoy, so what reads them alone is fooled. The gradient's norm is
# fooled too: the decoy is silent, but what it *would* say if it were another word would be heard best. Anything
# that multiplies with what is really there (values, hidden states, embeddings), or takes it away, sees nothing.
FOOLED = {"raw_attention", "rollout", "gradient"}
RIGHT = {"attcat", "cat", "generic_attention", "grad_x_input", "leave_one_out"}


@pytest.fixture(scope="module")
def explainer():
    return whence.load("decoy", dtype="float64")


def test_every_method_has_been_judged():
    assert {*FOOLED, *RIGHT, "random"} == set(method.names())


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("name", sorted(FOOLED))
def test_attention_alone_and_slope_alone_are_fooled(explainer, name, sentence):
    assert explainer.explain(sentence, method=name).top(1)[0].text == TRUTH["decoy"]


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("name", sorted(RIGHT))
def test_the_others_find_the_evidence(explainer, name, sentence):
    found = explainer.explain(sentence, method=name)
    best = found.top(1)[0]
    assert best.text in TRUTH["evidence"]
    for word in found.words():
        if word.text not in TRUTH["evidence"]:
            # Zero by construction, up to LayerNorm's epsilon.
            assert abs(word.score) < 1e-6 * abs(best.score)


@pytest.mark.parametrize("name", ["attcat", "cat", "grad_x_input", "leave_one_out"])
def test_signs_are_right(explainer, name):
    found = explainer.explain("the great film is awful decoy", method=name, target="positive")
    score = {word.text: word.score for word in found.words()}
    assert score["great"] > 0 > score["awful"]
