"""Relevance equal to the authors' own code: every array of theirs, and every intermediate of one case."""

import re
from functools import cache

import numpy as np
import pytest
import torch

import whence
from tests.parity import covered
from tests.parity.covered import golden
from whence.lrp.node import STABILISERS
from whence.lrp.propagate import compute_relevance, propagate_trace
from whence.lrp.tables import CHEFER, ORIGINAL_LRP

A = [2, 17, 45, 8, 99, 63, 3]
INPUTS = {
    "A": {"input_ids": [A]},
    "A_padded": {"input_ids": [[*A, 0, 0, 0]], "attention_mask": [[1] * 7 + [0] * 3]},
    "mask_ones": {"input_ids": [A], "attention_mask": [[1] * 7]},
    "mask_special_off": {"input_ids": [A], "attention_mask": [[0, 1, 1, 1, 1, 1, 0]]},
}
RULES = {"ours": "ours", "orig": "original"}
SCORES = {
    "transformer_attribution_start0": ("transformer_attribution", "chefer_bert_notebook", {}),
    "transformer_attribution_start_last": ("transformer_attribution", "chefer_bert", {}),
    "full_lrp": ("full_lrp", "chefer", {}),
    "full_lrp_ours": ("full_lrp", "chefer", {"rules": "ours"}),
    "partial_lrp": ("partial_lrp", "chefer", {}),
    "partial_lrp_ours": ("partial_lrp", "chefer", {"rules": "ours"}),
    "TransAtt_start0": ("transformer_attribution", "attcat", {}),
    "PartialLRP": ("partial_lrp", "attcat", {}),
}
# How far the reference's own float32 run is from its float64 run, relative to the largest: 3e-4 for maps, 2e-4 for
# full LRP, 9e-5 for attribution. Two float32 programs may drift apart by the sum of that.
DRIFT = {"transformer_attribution": 2 * 9e-5, "full_lrp": 2 * 2e-4, "partial_lrp": 2 * 3e-4}
MAP_DRIFT = 2 * 3e-4
ARRAYS = [
    (file, name)
    for file in covered.FILES
    for name in covered.arrays("test_relevance.py", file)
    if "bert_trace" not in name
]


@cache
def explainer(dtype):
    return whence.load(
        covered.FOLDER / "golden" / "bert", dtype={"f32": "float32", "f64": "float64"}[dtype]
    )


@cache
def trace(dtype, given, target):
    needs = {"attention", "relevance"}
    return explainer(dtype).trace(INPUTS[given], target=target, needs=needs)


def close(got, wanted, tolerance=1e-9):
    """Hold to `tolerance`, of the largest value where that is above one: `original` grows to thousands."""
    size = max(1.0, np.abs(wanted).max()) if tolerance == 1e-9 else np.abs(wanted).max()
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize(("file", "name"), ARRAYS)
def test_array(file, name):
    dtype, *_, given, target, rest = re.fullmatch(
        r"(f\d\d)/(?:bert/|A/)(\w+)/t(\d)/(.*)", name
    ).groups()
    exact, target = dtype == "f64", int(target)
    if layer := re.fullmatch(r"layer(\d)/attn_R_(\w+)", rest):
        seen = trace(dtype, given, target)
        one = seen.layers[int(layer[1])]
        found = compute_relevance(seen, RULES[layer[2]], "paper")
        got = one.weights_relevance(found.quotient(one))
        return close(got, golden(file)[name][:, :, :7, :7], 1e-9 if exact else MAP_DRIFT)
    method, preset, params = SCORES[rest]
    found = explainer(dtype).explain(
        INPUTS[given], method=method, target=target, params={"preset": preset, **params}
    )
    # The authors' smallest score is that of their padding, which whence does not count.
    first = 1 if given == "A_padded" and method == "transformer_attribution" else 0
    wanted = golden(file)[name].reshape(-1)[first:7]
    return close(found.scores[first:], wanted, 1e-9 if exact else DRIFT[method])


@pytest.mark.parametrize("name", RULES)
def test_every_intermediate(name):
    """What each module of the authors' BERT hands on, module by module, from the logit to the embeddings."""
    seen = trace("f64", "A", 1)
    chefer = golden("chefer_bert.npz")
    stabiliser = STABILISERS["paper"]
    handed: dict[tuple[str, str], list] = {}

    def watch(node, carried, given):
        path = ".".join(node.step.module).removeprefix("bert.").removeprefix("encoder.")
        handed[path.replace("layer.", "layer"), node.step.name.rsplit(".", 1)[-1]] = given

    table = {"ours": CHEFER, "orig": ORIGINAL_LRP}[name]
    found = propagate_trace(seen, table, stabiliser, watch=watch)
    known = {
        key.removeprefix(f"f64/bert_trace_A_t1/{name}/"): chefer[key]
        for key in chefer
        if key.startswith(f"f64/bert_trace_A_t1/{name}/")
    }
    got = {
        "classifier/0": handed["classifier", "linear"][0],
        "pooler/0": handed["pooler", "__getitem__"][0],
    }
    for index, layer in enumerate(seen.layers):
        at = f"layer{index}"
        hidden = seen.tape.value(layer.places.hidden)
        q, k, v = handed[f"{at}.attention.self", "attend"]
        shares = [
            handed[f"{at}.attention.self.{one}", "linear"][0] for one in ("query", "key", "value")
        ]
        joined = stabiliser.copied(sum(shares), hidden)
        got |= {
            f"{at}.output/0": handed[f"{at}.output.dense", "linear"][0],
            f"{at}.output/1": handed[f"{at}.output", "add"][1],
            f"{at}.intermediate/0": handed[f"{at}.intermediate.dense", "linear"][0],
            f"{at}.attention.output/0": handed[f"{at}.attention.output.dense", "linear"][0],
            f"{at}.attention.output/1": handed[f"{at}.attention.output", "add"][1],
            # Products are recorded before they are halved.
            f"{at}.attention.self.matmul2/0": 2 * layer.weights_relevance(found.quotient(layer)),
            f"{at}.attention.self.matmul2/1": 2 * v,
            f"{at}.attention.self.matmul1/0": 2 * q,
            f"{at}.attention.self.matmul1/1": 2 * k.transpose(-1, -2),
            f"{at}.attention.self.query/0": shares[0],
            f"{at}.attention.self.key/0": shares[1],
            f"{at}.attention.self.value/0": shares[2],
            f"{at}.attention.self.clone/0": joined,
            f"{at}.attention.self/0": joined,
            f"{at}.attention.clone/0": found.of(layer.places.hidden),
            f"{at}.attention/0": found.of(layer.places.hidden),
            f"{at}/0": found.of(layer.places.hidden),
        }
        # The output of the first norm of the block goes two ways.
        inside = ("layer", str(index), "attention", "output", "LayerNorm")
        (norm,) = [step for step in seen.tape.steps if step.module[-5:] == inside]
        both = got[f"{at}.intermediate/0"] + got[f"{at}.output/1"]
        got[f"{at}.clone/0"] = stabiliser.copied(both, seen.tape.value(norm.outputs[0]))
    assert got.keys() == known.keys()
    for key, wanted in known.items():
        close(torch.as_tensor(got[key]).reshape(wanted.shape), wanted)
