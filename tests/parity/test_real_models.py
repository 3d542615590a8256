"""Real models on real sentences: the explanations hold up where the right answer is plain."""

import csv

import numpy as np
import pytest
import torch

import whence
from whence.methods import method


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


def test_batch_equals_singles_in_float32(explainer, sentences):
    texts = [row["sentence"] for row in sentences]
    together = explainer.explain(texts, method=method.names())
    for text, found in zip(texts, together, strict=True):
        for name, alone in explainer.explain(text, method=method.names()).items():
            largest = np.abs(alone.scores).max()
            # Measured: at most 3e-5 of the largest score; probabilities (leave_one_out) are rounded at about 1e-7.
            np.testing.assert_allclose(
                found[name].scores, alone.scores, rtol=0, atol=2e-4 * largest + 1e-6
            )


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
