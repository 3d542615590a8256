"""Methods on the built-in model `decoy`: which of them rank the decoy first, and which the evidence."""

import json

import pytest

import whence
from whence.methods import method
from whence.models.model_files import find_builtin_folder

TRUTH = json.loads((find_builtin_folder("decoy") / "truth.json").read_text())
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
# What looks at the last layer alone has nothing to say: the answer is ready one layer below. A slope that is averaged
# over noise is still a slope. A window gives the neighbours of the evidence a share of its score, and LIME's ridge
# moves a little of it to everybody.
# AttnLRP follows the weights back to the decoy, and does not know that LayerNorm undoes what they do. Chefer's rules
# follow positive contributions alone, and in a negative text the one pooled unit has none.
FOOLED = {"raw_attention", "rollout", "max_flow", "gradient", "smoothgrad", "attn_lrp"}
BLURRED = {"lime", "occlusion"}
SILENT = {"attention_gradcam", "norm", "partial_lrp"}
ONE_SIDED = {"full_lrp", "transformer_attribution"}
RIGHT = {
    "alti", "attcat", "attention_gradient", "cat", "cp_lrp", "decompx", "generic_attention", "globenc",
    "grad_x_input", "gradient_shap", "integrated_gradients", "kernel_shap", "leave_one_out", "value_zeroing",
}  # fmt: skip


@pytest.fixture(scope="module")
def explainer():
    return whence.load("decoy", dtype="float64")


def test_decoy_expectations_cover_every_registered_method():
    judged = {*FOOLED, *SILENT, *BLURRED, *ONE_SIDED, *RIGHT, "random"}
    assert judged == set(method.names())


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("name", sorted(FOOLED))
def test_attention_and_gradient_methods_rank_the_decoy_first(explainer, name, sentence):
    assert explainer.explain(sentence, method=name).top(1)[0].text == TRUTH["decoy"]


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("name", sorted(SILENT))
def test_last_layer_methods_score_every_word_zero(explainer, name, sentence):
    assert not any(word.score for word in explainer.explain(sentence, method=name).words())


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("name", sorted(ONE_SIDED))
def test_full_lrp_and_transformer_attribution_score_evidence_only_in_positive_texts(
    explainer, name, sentence
):
    found = explainer.explain(sentence, method=name)
    for word in found.words():
        seen = word.text in TRUTH["evidence"] and found.prediction.label == "positive"
        assert (abs(word.score) > 1e-6) == seen


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("name", sorted(RIGHT))
def test_correct_methods_rank_the_evidence_first_and_score_other_words_zero(
    explainer, name, sentence
):
    found = explainer.explain(sentence, method=name)
    best = found.top(1)[0]
    assert best.text in TRUTH["evidence"]
    for word in found.words():
        if word.text not in TRUTH["evidence"]:
            # Zero by construction, up to LayerNorm's epsilon.
            assert abs(word.score) < 1e-6 * abs(best.score)


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("name", sorted(BLURRED))
def test_lime_and_occlusion_rank_the_evidence_first(explainer, name, sentence):
    words = explainer.explain(sentence, method=name).words()
    (evidence,) = (word for word in words if word.text in TRUTH["evidence"])
    # A neighbour that is under the same windows has the same score, up to the order of summation.
    assert evidence.score > max(word.score for word in words) - 1e-12
    if name == "lime":
        # 1000 samples weigh about 400 within the kernel, and a token is there or not with a variance of at most a
        # quarter: against that 100, a ridge of 1 can move one part in a hundred.
        assert all(word is evidence or abs(word.score) < 0.01 * evidence.score for word in words)


def test_occlusion_with_window_one_equals_leave_one_out(explainer):
    for sentence in SENTENCES:
        narrow, alone = (
            explainer.explain(sentence, method=name, params=params).scores
            for name, params in (("occlusion", {"window": 1}), ("leave_one_out", {}))
        )
        assert (narrow == alone).all()


def test_integrated_gradients_are_complete_only_with_keep_special(explainer):
    """The truth is 1, half of the strength of `great`, if [SEP] stays where it is. Without it nothing is defined."""
    sentence = "the decoy film is great"
    for params, complete in (({"keep_special": True}, True), ({}, False)):
        found = explainer.explain(sentence, method="integrated_gradients", params=params)
        assert (abs(found.axioms["completeness"]) < 1e-9) == complete
        # 0.03% is how far the model's formula bends.
        assert (found.top(1)[0].score == pytest.approx(1, rel=3e-4)) == complete


@pytest.mark.parametrize(
    "name",
    ["attcat", "attention_gradient", "cat", "grad_x_input", "gradient_shap", "integrated_gradients", "kernel_shap",
     "leave_one_out", "lime", "occlusion"],
)  # fmt: skip
def test_signed_methods_score_great_positive_and_awful_negative(explainer, name):
    found = explainer.explain("the great film is awful decoy", method=name, target="positive")
    score = {word.text: word.score for word in found.words()}
    assert score["great"] > 0 > score["awful"]
