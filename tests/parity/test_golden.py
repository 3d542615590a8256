"""Equal to the authors' own numbers: float64, 1e-9, on a stock Hugging Face model."""

import numpy as np
import pytest

import whence

A = [2, 17, 45, 8, 99, 63, 3]
PADDED = {"input_ids": [[*A, 0, 0, 0]], "attention_mask": [[1] * 7 + [0] * 3]}
MASKS = {"mask_ones": [1] * 7, "mask_special_off": [0, 1, 1, 1, 1, 1, 0]}
TARGETS = (0, 1, 2)


@pytest.fixture(scope="module")
def chefer(golden):
    return np.load(golden / "chefer_bert.npz")


@pytest.fixture(scope="module")
def attcat(golden):
    return np.load(golden / "attcat_bert.npz")


@pytest.fixture(scope="module")
def explainer(golden):
    return whence.load(golden / "bert", dtype="float64")


def close(got, wanted, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=tolerance)


def test_logits(explainer, chefer):
    close(explainer.trace({"input_ids": [A]}).logits, chefer["f64/bert/A/logits"])


@pytest.mark.parametrize("given", [{"input_ids": [A]}, PADDED], ids=["A", "A_padded"])
def test_rollout_and_last_layer(explainer, chefer, given):
    case = "A" if given is not PADDED else "A_padded"
    found = explainer.explain(given, method=["rollout", "raw_attention"])
    # The authors set the classification token to 0 afterwards; whence leaves scores alone.
    close(found["rollout"].scores[1:], chefer[f"f64/bert/{case}/rollout_start0"][0, 1:7])
    close(found["raw_attention"].scores[1:], chefer[f"f64/bert/{case}/attn_last_layer"][0, 1:7])
    later = explainer.explain(given, method="rollout", params={"start_layer": 1})
    close(later.scores[1:], chefer[f"f64/bert/{case}/rollout_start1"][0, 1:7])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("given", [{"input_ids": [A]}, PADDED], ids=["A", "A_padded"])
def test_generic_attention(explainer, chefer, given, target):
    case = "A" if given is not PADDED else "A_padded"
    found = explainer.explain(given, method="generic_attention", target=target)
    close(found.scores, chefer[f"f64/bert/{case}/t{target}/generic_attention_R"][0, :7])


@pytest.mark.parametrize("target", TARGETS)
def test_maps_and_their_gradients(explainer, chefer, target):
    trace = explainer.trace({"input_ids": [A]}, target=target)
    for i in range(3):
        known = f"f64/bert/A/t{target}/layer{i}"
        close(trace.layer(i).map(), chefer[f"{known}/attn"])
        close(trace.layer(i).map_grad(), chefer[f"{known}/attn_grad"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mask", MASKS)
def test_attcat_and_cat(explainer, attcat, mask, target):
    given = {"input_ids": [A], "attention_mask": [MASKS[mask]]}
    known = f"f64/A/{mask}/t{target}"
    found = explainer.explain(given, method=["attcat", "cat"], target=target)
    close(found["attcat"].scores, attcat[f"{known}/AttCAT"])
    close(found["cat"].scores, attcat[f"{known}/CAT_sum_layer_inputs"])
    absolute = explainer.explain(given, method="attcat", target=target, params={"absolute": True})
    close(absolute.scores, attcat[f"{known}/AttCAT_abs"])
    for layer in range(3):
        one = explainer.explain(
            given, method=["attcat", "cat"], target=target, params={"layer": layer}
        )
        close(one["cat"].scores, attcat[f"{known}/hs{layer}/CAT"])
        close(one["attcat"].scores, attcat[f"{known}/hs{layer}/AttCAT"])


@pytest.mark.parametrize("mask", MASKS)
def test_attcat_baselines(explainer, attcat, mask):
    given = {"input_ids": [A], "attention_mask": [MASKS[mask]]}
    found = explainer.explain(given, method=["raw_attention", "rollout"])
    close(found["raw_attention"].scores[1:], attcat[f"f64/A/{mask}/RawAtt"][1:])
    close(found["rollout"].scores[1:], attcat[f"f64/A/{mask}/Rollout"][1:])


def test_float32_drifts_no_further_than_the_reference_itself(golden, chefer, attcat):
    # Attention and gradient methods: the reference's own float32 run is within 2e-5 of its float64 run,
    # relative to the largest score (reference figures of the authors' code); so must ours be.
    single = whence.load(golden / "bert", dtype="float32")
    found = single.explain({"input_ids": [A]}, method=["generic_attention", "attcat"], target=1)
    for scores, wanted in (
        (found["generic_attention"].scores, chefer["f64/bert/A/t1/generic_attention_R"][0]),
        (found["attcat"].scores, attcat["f64/A/mask_ones/t1/AttCAT"]),
    ):
        assert scores.dtype == np.float32
        close(scores, wanted, tolerance=2e-5 * np.abs(wanted).max())
