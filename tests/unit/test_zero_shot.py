"""Zero-shot classification by an entailment model: probabilities, scores, batches, truncation, refusals."""

import numpy as np
import pytest
import torch

from tests.task_models import ARCHITECTURES, NLI, explainer, run_model
from whence.core.errors import BadEncoding, BadParameter, NoHead, TooLong, UnknownTarget
from whence.data.readout import REST_LABEL

TEXT = "a gripping, beautifully acted film"
LABELS = ["thin", "well-made", "café"]
NEAR = 1e-10  # float64, the same sums in another order


def entailment(e, label, template="This example is {}."):
    return run_model(e, TEXT, template.replace("{}", label)).logits[0]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_zero_shot_prediction_is_the_softmax_of_the_entailment_logits(name):
    e = explainer(name, "SequenceClassification", NLI)
    found = e.explain(TEXT, labels=LABELS, method="gradient")
    logits = torch.stack([entailment(e, label)[2] for label in LABELS])
    shares = dict(zip(LABELS, logits.softmax(0).tolist(), strict=True))
    assert found.prediction.probabilities == pytest.approx(shares, rel=NEAR)
    assert found.prediction.label == found.target.label == max(shares, key=shares.get)
    assert found.prediction.index == found.target.index == 0
    assert e.predict(TEXT, labels=LABELS).probabilities == pytest.approx(shares, rel=NEAR)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_zero_shot_explanation_targets_the_entailment_logit_of_the_label_sentence(name):
    e = explainer(name, "SequenceClassification", NLI)
    # DistilBERT's head has a kink (ReLU): there the error falls as 1 / steps, from up to 0.1 at 50.
    steps = {"steps": 400} if name == "distilbert" else None
    for label in (*LABELS, "runner-up"):
        found = e.explain(
            TEXT, labels=LABELS, target=label, method="integrated_gradients", params=steps
        )
        row = entailment(e, found.target.label)
        rest = float(torch.logsumexp(row[:2], 0))
        assert found.prediction.logits == pytest.approx([float(row[2]), rest], rel=NEAR)
        assert found.source.pair == f"This example is {found.target.label}."
        # The rule of integration is exact to 1e-6 along smooth paths.
        assert abs(found.axioms["completeness"]) < (0.05 if name == "distilbert" else 1e-6)
    order = sorted(LABELS, key=lambda one: -float(entailment(e, one)[2]))
    assert found.target.label == order[1]
    assert found.prediction.label == order[0]


def test_zero_shot_scores_equal_those_of_the_text_pair_with_target_entailment():
    e = explainer("bert", "SequenceClassification", NLI)
    methods = ["attcat", "leave_one_out", "integrated_gradients", "attn_lrp", "lime"]
    found = e.explain(TEXT, labels=LABELS, target="café", template="It is {}!", method=methods)
    pair = e.explain((TEXT, "It is café!"), target="entailment", method=methods)
    for name in methods:
        np.testing.assert_allclose(found[name].scores, pair[name].scores, atol=1e-9)


def test_zero_shot_with_one_label_gives_its_entailment_probability_and_the_rest():
    e = explainer("bert", "SequenceClassification", NLI)
    found = e.explain(TEXT, labels=["thin"], method="gradient")
    share = float(entailment(e, "thin").softmax(0)[2])
    assert found.prediction.probabilities == pytest.approx({"thin": share, REST_LABEL: 1 - share})


def test_zero_shot_batch_equals_its_singles():
    e = explainer("bert", "SequenceClassification", NLI)
    texts = [TEXT, "the plot is thin", "café"]
    methods = ["attcat", "leave_one_out"]
    for text, together in zip(texts, e.explain(texts, labels=LABELS, method=methods), strict=True):
        alone = e.explain(text, labels=LABELS, method=methods)
        for name in methods:
            assert alone[name].prediction.label == together[name].prediction.label
            np.testing.assert_allclose(alone[name].scores, together[name].scores, atol=1e-9)


def test_zero_shot_truncation_cuts_the_text_and_not_the_label_sentence():
    e = explainer("bert", "SequenceClassification", NLI)
    long = "thin plot " * 40
    with pytest.raises(TooLong):
        e.explain(long, labels=LABELS)
    found = e.explain(long, labels=LABELS, truncate=True, method="gradient")
    said = " ".join(t.text for t in found.tokens if t.segment == 1 and not t.special)
    assert said.endswith(".") and found.source.dropped


def test_trust_card_of_a_zero_shot_explanation_has_the_same_probabilities():
    e = explainer("bert", "SequenceClassification", NLI)
    found = e.explain(TEXT, labels=LABELS, method="leave_one_out")
    card = found.trust().to_dict()
    assert card["prediction"]["probabilities"] == dict(found.prediction.probabilities)


def test_zero_shot_with_bad_labels_template_target_or_model_is_refused():
    e = explainer("bert", "SequenceClassification", NLI)
    with pytest.raises(NoHead, match="models of entailment"):
        explainer("bert", "SequenceClassification", ("bad", "good")).explain(TEXT, labels=LABELS)
    with pytest.raises(BadParameter, match="at least one label"):
        e.explain(TEXT, labels=[])
    with pytest.raises(BadParameter, match="no empty one"):
        e.explain(TEXT, labels=["thin", " "])
    with pytest.raises(BadParameter, match="'thin' is given twice"):
        e.explain(TEXT, labels=["thin", "thin "])
    with pytest.raises(BadParameter, match="a list of texts"):
        e.explain(TEXT, labels="thin")
    with pytest.raises(BadParameter, match="a list of texts"):
        e.explain(TEXT, labels=[1, 2])
    with pytest.raises(BadParameter, match="a list of texts"):
        e.explain(TEXT, labels=3)
    for template in ("It is so.", "{} or {}", ""):
        with pytest.raises(BadParameter, match="template is a sentence"):
            e.explain(TEXT, labels=LABELS, template=template)
    with pytest.raises(UnknownTarget, match="There is no target 'entailment'"):
        e.explain(TEXT, labels=LABELS, target="entailment")
    with pytest.raises(BadParameter, match="one label at a time"):
        e.explain(TEXT, labels=LABELS, target=("thin", "café"))
    with pytest.raises(BadEncoding, match="takes one text"):
        e.explain((TEXT, "café"), labels=LABELS)
    with pytest.raises(BadParameter, match="template"):
        e.explain(TEXT, template="It is {}.")
