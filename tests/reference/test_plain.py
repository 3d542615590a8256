"""The twins' own ground: plain models equal the stock ones, and the rules give the authors' numbers."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

from tests import zoo
from tests.reference.plain import plain
from tests.reference.test_twins import case, stirred
from tests.reference.twins import Eager
from tests.reference.twins_relevance import chefer, full_lrp, partial_lrp, transformer_attribution
from tests.reference.twins_vectors import decompx

GOLDEN = Path(__file__).parents[1] / "parity" / "golden"
A = [2, 17, 45, 8, 99, 63, 3]  # the authors' input


# Llama's own norms and rotations are float32, the plain ones float64.
@pytest.mark.parametrize(
    ("architecture", "apart"), [("bert", 1e-13), ("gpt2", 1e-13), ("llama", 1e-5)]
)
def test_plain_model_equals_the_stock_one(architecture, apart):
    model = stirred(zoo.make(architecture))
    ids = zoo.rows(architecture, lengths=(8,))[0]["input_ids"]
    with torch.no_grad():
        known = model(input_ids=torch.tensor([ids])).logits[0]
    torch.testing.assert_close(plain(model, ids).run().logits, known, rtol=0, atol=apart)


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_parts_add_up_to_the_logit(architecture):
    _, ids, row, run = case(architecture)
    logit = plain(run.model, ids).run().logits[run.target]
    assert sum(decompx(run, row)) == pytest.approx(logit.item(), rel=1e-12)


@cache
def golden():
    with np.load(GOLDEN / "chefer_bert.npz") as known:
        return {name: known[name] for name in known.files if name.startswith("f64/bert/A/")}


@cache
def run(target):
    model = hf.BertForSequenceClassification.from_pretrained(GOLDEN / "bert", dtype=torch.float64)
    return Eager(model.eval(), A, target)


# The same rules and the same epsilon at the same places: only rounding is left, which small divisors can
# multiply by a thousand. Measured: 2e-13 of the largest.
def close(found, known):
    found, known = np.array(found), known.reshape(np.shape(found))
    np.testing.assert_allclose(found, known, rtol=0, atol=1e-11 * np.abs(known).max())


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize(("rules", "short"), [("ours", "ours"), ("original", "orig")])
def test_relevance_of_attention_equals_the_authors(target, rules, short):
    maps, _ = chefer(run(target), rules)
    for layer, relevance in enumerate(maps):
        close(relevance.tolist(), golden()[f"f64/bert/A/t{target}/layer{layer}/attn_R_{short}"])


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize(
    ("array", "twin", "params"),
    [
        ("transformer_attribution_start0", transformer_attribution, {"own": "min"}),
        (
            "transformer_attribution_start_last",
            transformer_attribution,
            {"start_layer": -1, "own": "min"},
        ),
        ("full_lrp", full_lrp, {"own": "zero"}),
        ("full_lrp_ours", full_lrp, {"rules": "ours", "own": "zero"}),
        ("partial_lrp", partial_lrp, {"own": "zero"}),
        ("partial_lrp_ours", partial_lrp, {"rules": "ours", "own": "zero"}),
    ],
)
def test_twin_equals_the_authors_numbers(target, array, twin, params):
    close(twin(run(target), 0, **params), golden()[f"f64/bert/A/t{target}/{array}"])
