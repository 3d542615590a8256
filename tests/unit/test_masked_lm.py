"""Masked language models: predicted words, targets, contrasts and leave-one-out by hand; bad masks refused."""

import copy

import numpy as np
import pytest
import torch

import whence
from tests.task_models import ARCHITECTURES, explainer, run_model
from tests.unit.small_tokenizers import byte_level, wordpiece
from whence.core.errors import BadEncoding, BadParameter, BadTokenizer, UnknownTarget
from whence.data.readout import REST_LABEL

TEXT = "a gripping [MASK] film: the plot"
NEAR = 1e-10  # float64, the same sums in another order


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_masked_lm_prediction_has_the_models_own_probabilities_of_twenty_words(name):
    e = explainer(name, "MaskedLM")
    found = e.explain(TEXT, method="gradient")
    (place,) = found.read
    assert found.item.ids[place] == e.tokenizer.mask_token_id
    shares = run_model(e, TEXT).logits[0, place].softmax(0)
    named = found.prediction.probabilities
    assert len(named) == 21 and list(named)[-1] == REST_LABEL
    best = shares.argsort(descending=True)[:20]
    assert list(named.values())[:20] == pytest.approx(shares[best].tolist(), rel=NEAR)
    assert sum(named.values()) == pytest.approx(1, rel=NEAR)
    assert found.prediction.probability == pytest.approx(float(shares.max()), rel=NEAR)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_masked_lm_target_word_has_the_models_own_logit_and_probability(name):
    e = explainer(name, "MaskedLM")
    found = e.explain(TEXT, target="thin", method="gradient")
    row = run_model(e, TEXT).logits[0, found.read[0]]
    identity = e.tokenizer.convert_tokens_to_ids("thin")
    assert found.target.label == "thin"
    assert found.prediction.logits[0] == pytest.approx(float(row[identity]), rel=NEAR)
    share = float(row.softmax(0)[identity])
    assert found.prediction.probabilities["thin"] == pytest.approx(share, rel=NEAR)
    assert found.prediction.label == e.predict(TEXT).label


@pytest.mark.parametrize("target", [("thin", "plot"), "thin:plot"])
def test_masked_lm_contrast_of_two_words_is_complete_and_has_the_models_logits(target):
    e = explainer("bert", "MaskedLM")
    found = e.explain(TEXT, target=target, method="integrated_gradients")
    assert str(found.target) == "thin rather than plot"
    assert abs(found.axioms["completeness"]) < 1e-6
    row = run_model(e, TEXT).logits[0, found.read[0]]
    ids = e.tokenizer.convert_tokens_to_ids(["thin", "plot"])
    assert found.prediction.logits[:2] == pytest.approx(row[ids].tolist(), rel=NEAR)


def test_masked_lm_target_of_a_byte_level_tokenizer_has_a_leading_space():
    tokenizer = copy.deepcopy(byte_level())
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    e = explainer("roberta", "MaskedLM", tokenizer=tokenizer)
    e.model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    known = tokenizer.get_vocab()
    word = next(w[1:] for w in sorted(known) if w.startswith("Ġ") and w[1:] in known)
    found = e.explain("the plot<mask> and", target=word, method="gradient")
    assert tokenizer.convert_ids_to_tokens(found.item.reading.ids[0]) == "Ġ" + word
    assert found.target.label.startswith(word)


def test_leave_one_out_of_masked_lm_equals_a_loop_and_never_removes_the_mask():
    e = explainer("distilbert", "MaskedLM")
    (place,) = e.explain(TEXT, method="gradient").read
    for how, filler in (("mask", "mask_token_id"), ("pad", "pad_token_id"), ("delete", None)):
        found = e.explain(TEXT, target="thin", method="leave_one_out", params={"remove": how})
        base = found.prediction.probabilities["thin"]
        column = e.tokenizer.convert_tokens_to_ids("thin")
        for hole in range(len(found.item)):
            ids, at = list(found.item.ids), place
            if hole == place:
                assert found.scores[hole] == pytest.approx(0, abs=NEAR)
                continue
            if filler is None:
                del ids[hole]
                at -= hole < place
            else:
                ids[hole] = getattr(e.tokenizer, filler)
            given = torch.tensor([ids])
            with torch.no_grad():
                row = e.model(input_ids=given, attention_mask=torch.ones_like(given)).logits[0, at]
            left = float(row.softmax(0)[column])
            assert found.scores[hole] == pytest.approx(base - left, abs=NEAR)


def test_masked_lm_explanation_treats_masks_as_special_tokens_with_zero_scores():
    e = explainer("bert", "MaskedLM")
    found = e.explain("[MASK] film [MASK]", at=1, method="kernel_shap")
    assert [word.text for word in found.spans] == ["film"]
    masks = [i for i, t in enumerate(found.item.ids) if t == e.tokenizer.mask_token_id]
    assert found.read == (masks[1],)
    assert all(found.tokens[i].special for i in masks)
    assert not found.scores[masks].any()
    assert "film" in found.to_html(flows=False)


def test_masked_lm_batch_equals_its_single_inputs():
    e = explainer("bert", "MaskedLM")
    texts = [TEXT, "the [MASK] is thin", "[MASK] acted"]
    methods = ["attcat", "integrated_gradients", "leave_one_out", "attn_lrp"]
    for text, together in zip(texts, e.explain(texts, method=methods), strict=True):
        alone = e.explain(text, method=methods)
        for name in methods:
            assert alone[name].target.label == together[name].target.label
            np.testing.assert_allclose(alone[name].scores, together[name].scores, atol=1e-9)


def test_masked_lm_with_a_bad_text_mask_or_target_is_refused():
    e = explainer("bert", "MaskedLM")
    with pytest.raises(BadEncoding, match=r"no mask in the text: write \[MASK\]"):
        e.explain("a gripping film")
    with pytest.raises(BadParameter, match=r"2 masks\. Say which one"):
        e.explain("[MASK] and [MASK]")
    with pytest.raises(BadParameter, match="from 0 to 1"):
        e.explain("[MASK] and [MASK]", at=2)
    with pytest.raises(BadParameter, match="which mask"):
        e.explain("[MASK] and [MASK]", at="first")
    with pytest.raises(UnknownTarget, match="not one token of this model: it would be"):
        e.explain(TEXT, target="beautifulest")
    with pytest.raises(UnknownTarget, match="two different"):
        e.explain(TEXT, target=("thin", "thin"))
    with pytest.raises(UnknownTarget, match="A word is asked about"):
        e.explain(TEXT, target=7)
    bare = copy.deepcopy(wordpiece())
    bare.mask_token = None
    with pytest.raises(BadTokenizer, match="has no mask token"):
        explainer("bert", "MaskedLM", tokenizer=bare).explain("a film")


def test_builtin_reviews_base_predicts_the_models_own_word_for_a_mask():
    e = whence.load("reviews-base", dtype="float64")
    text = "a truly [MASK] film"
    found = e.explain(text, target=("great", "bad"), method="leave_one_out")
    row = run_model(e, text).logits[0, found.read[0]]
    ids = e.tokenizer.convert_tokens_to_ids(["great", "bad"])
    assert found.prediction.logits[:2] == pytest.approx(row[ids].tolist(), rel=1e-9)
    assert found.prediction.label == e.tokenizer.decode([int(row.argmax())]).strip()
