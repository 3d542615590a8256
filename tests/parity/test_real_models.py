"""Real models on real sentences: the explanations hold up where the right answer is plain."""

import csv

import numpy as np
import pytest
import torch

import whence
from tests.reduced_params import FEW
from whence.methods import is_trace_method, method


@pytest.fixture(scope="module")
def explainer(shared):
    return whence.load(shared / "models" / "minilm-sst2")


@pytest.fixture(scope="module")
def sentences(shared):
    with (shared / "data" / "sst2_glue" / "dev.tsv").open() as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return rows[::29]  # 31 sentences of every length


def test_predictions_are_those_of_the_plain_model(explainer, sentences):
    texts = [row["sentence"] for row in sentences]
    found = explainer.predict(texts)
    for text, said in zip(texts, found, strict=True):
        with torch.no_grad():
            logits = explainer.model(**explainer.tokenizer(text, return_tensors="pt")).logits[0]
        # float32, padded against alone: sums in another order
        np.testing.assert_allclose(said.logits, logits.numpy(), rtol=0, atol=1e-4)
    right = sum(said.index == int(row["label"]) for said, row in zip(found, sentences, strict=True))
    assert right >= 0.8 * len(sentences)


def _same_in_a_batch(explainer, texts, names):
    few = {name: given for name, given in FEW.items() if name in names}
    together = explainer.explain(texts, method=names, params=few)
    for text, found in zip(texts, together, strict=True):
        for name, alone in explainer.explain(text, method=names, params=few).items():
            largest = np.abs(alone.scores).max()
            # Measured: at most 3e-5 of the largest score; probabilities (leave_one_out) are rounded at about 1e-7.
            # Relevance by Chefer's rules divides by small sums: measured up to 3.4e-2 (partial_lrp).
            divides = name in {"transformer_attribution", "partial_lrp"}
            bound = (1e-1 if divides else 2e-4) * largest + 1e-6
            np.testing.assert_allclose(found[name].scores, alone.scores, rtol=0, atol=bound)


def test_batch_equals_singles_in_float32(explainer, sentences):
    # What runs a layer or the model again for each token is slow: a few short texts will do.
    slow = {"decompx", "alti", "globenc", "value_zeroing", "max_flow"}
    names = [name for name in method.names() if name != "full_lrp"]  # see the next test
    quick = [name for name in names if is_trace_method(method.get(name)) and name not in slow]
    texts = [row["sentence"] for row in sentences]
    _same_in_a_batch(explainer, texts, quick)
    short = sorted(texts, key=len)[:4]
    _same_in_a_batch(explainer, short, [name for name in names if name not in quick])


@pytest.mark.parametrize("rules", ["ours", "original"])
def test_full_lrp_of_a_real_model_wants_float64(shared, sentences, rules):
    """Where two terms of a sum cancel, relevance blows up, and with it the rounding of a float32 forward pass."""
    exact = whence.load(shared / "models" / "minilm-sst2", dtype="float64")
    texts = [row["sentence"] for row in sentences[:8]]
    together = exact.explain(texts, method="full_lrp", params={"rules": rules})
    for text, found in zip(texts, together, strict=True):
        alone = exact.explain(text, method="full_lrp", params={"rules": rules}).scores
        # Float32 is off by up to 3.8 of the largest score; float64 rounds 5e8 times finer. Measured: up to 1.1e-7.
        np.testing.assert_allclose(found.scores, alone, rtol=0, atol=1e-5 * np.abs(alone).max())


@pytest.mark.parametrize(
    ("text", "word", "label"),
    [
        ("a truly awful film", "awful", "negative"),
        ("this movie is wonderful", "wonderful", "positive"),
        ("boring from start to end", "boring", "negative"),
    ],
)
@pytest.mark.parametrize("name", ["leave_one_out", "attcat", "generic_attention", "gradient"])
def test_the_plain_word_is_found(explainer, name, text, word, label):
    found = explainer.explain(text, method=name)
    assert found.prediction.label == label
    best = [w.text for w in found.top(2)]
    assert word in best


def test_long_reviews(shared):
    explainer = whence.load(shared / "models" / "minilm-movies")
    text = "this is a wonderful film . " * 80
    found = explainer.explain(text, method=["attcat", "generic_attention", "rollout"])
    assert all(len(e.scores) > 450 for e in found.values())
