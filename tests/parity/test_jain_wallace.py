"""Equal to the code of Jain & Wallace on three sentences: attention, gradients, leave-one-out, tau, permutations.

Their figures were computed in float32, ours from the same weights in float64, so that all differences are their
rounding: a chain of some fifty operations on numbers below 1, each good to 6e-8, whose errors add up like a walk at
random, to about 4e-7.
"""

import json
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

import whence
from tests.conftest import ROOT
from whence.models.rnn import AttentiveConfig, initialise_model
from whence.tracing.attention_override import override_attention
from whence.tracing.replay import AttentionReplacement, AttentionReplay

ROUNDED = {"rtol": 0, "atol": 5e-7}

# Their names, and ours.
NAMES = {
    "encoder.embedding.weight": "embeddings.weight",
    "encoder.rnn.": "encoders.0.lstm.",
    "decoder.linear_1.": "decoder.output.",
}
ATTENTION = {
    "tanh": {"attn1.": "states.", "attn2.": "score."},
    "dot": {"attn1.": "vector."},
}


@cache
def golden():
    path = ROOT / "tests" / "parity" / "golden" / "jw_tiny.json"
    return {case["attention"]: case for case in json.loads(path.read_text())["cases"]}


@pytest.fixture(scope="module", params=["tanh", "dot"])
def case(request):
    return golden()[request.param]


@pytest.fixture(scope="module")
def explainer(case):
    return whence.load(model_of(case))


def model_of(case):
    """Make our model with their weights."""
    names = NAMES | {
        f"decoder.attention.{theirs}": f"attention.scores.{ours}"
        for theirs, ours in ATTENTION[case["attention"]].items()
    }
    weights = {}
    for name, values in case["state_dict"].items():
        (theirs,) = [start for start in names if name.startswith(start)]
        weights[names[theirs] + name.removeprefix(theirs)] = torch.tensor(
            values, dtype=torch.float64
        )
    vocabulary, features = weights["embeddings.weight"].shape
    config = AttentiveConfig(
        vocab_size=vocabulary,
        embedding_size=features,
        hidden_size=weights["encoders.0.lstm.weight_hh_l0"].shape[1],
        attention=case["attention"],
    )
    model = initialise_model(config, 0).double()
    model.load_state_dict(weights)  # strict: every weight has its place
    return model


def rows(case):
    return [{"input_ids": ids} for ids in case["X"]]


def padded(values, width=9):
    """Bring explanations of different length to the width of their batch."""
    return np.stack([np.pad(one, (0, width - len(one))) for one in values])


def inside(case, values):
    """Return what is compared: the words, between the special tokens."""
    return [np.asarray(row)[1 : len(ids) - 1] for row, ids in zip(values, case["X"], strict=True)]


def attention(case, explainer):
    return padded([e.scores for e in explainer.explain(rows(case), method="raw_attention")])


def raw_gradients(case, explainer):
    """Return the slope of the sigmoid at the embeddings, times these: attention counts as a constant."""
    with override_attention(explainer.model, "detached"):
        found = explainer.explain(rows(case), method="grad_x_input", target=1, of="probability")
    return padded([e.scores for e in found])


def gradients(case, explainer):
    sizes = np.abs(raw_gradients(case, explainer))
    return sizes / sizes.sum(1, keepdims=True)


def falls(case, explainer):
    """Return by how much the probability falls without each token."""
    found = explainer.explain(
        rows(case), method="leave_one_out", target=1, params={"remove": "delete"}
    )
    return padded([e.scores for e in found])


def test_prediction(case, explainer):
    found = [p.probabilities["LABEL_1"] for p in explainer.predict(rows(case))]
    np.testing.assert_allclose(found, case["yhat"], **ROUNDED)


def test_attention(case, explainer):
    found = attention(case, explainer)
    np.testing.assert_allclose(found, case["attn"], **ROUNDED)
    assert (found[np.asarray(case["attn"]) == 0] == 0).all()


def test_gradient_times_embedding(case, explainer):
    theirs = np.asarray(case["gradients_raw"]["XxE[X]"])[:, 0]
    np.testing.assert_allclose(raw_gradients(case, explainer), theirs, **ROUNDED)


def test_gradient_times_all_embeddings(case, explainer):
    """XxE: the slope at each token, times the sum of the whole table."""
    with override_attention(explainer.model, "detached"):
        trace = explainer.trace(rows(case), target=1, of="probability", needs={"embedding_grad"})
    table = explainer.model.get_input_embeddings().weight
    found = (trace.embedding_grad @ table.sum(0)).detach().numpy()
    # The table's columns add up to as much as 11, and so much larger is the rounding.
    theirs = np.asarray(case["gradients_raw"]["XxE"])[:, 0]
    np.testing.assert_allclose(found, theirs, rtol=0, atol=5e-6)


def test_gradient_at_the_states(case, explainer):
    """H: the slope at each state, summed over its features, is weight x slope of the sigmoid x sum of theta."""
    theta = sum(case["state_dict"]["decoder.linear_1.weight"][0])
    slope = np.asarray(case["yhat"]) * (1 - np.asarray(case["yhat"]))
    found = attention(case, explainer) * slope[:, None] * theta
    np.testing.assert_allclose(found, np.asarray(case["gradients_raw"]["H"])[:, 0], **ROUNDED)


def test_importance(case, explainer):
    found = gradients(case, explainer)
    # Divided by sums down to 0.06: so much larger is the rounding, at most.
    np.testing.assert_allclose(found, case["grad_importance_processed"], rtol=0, atol=8e-6)


def test_leave_one_out(case, explainer):
    without = np.asarray(case["yhat"])[:, None] - falls(case, explainer)
    theirs = inside(case, case["loo_outputs"])
    for one, other in zip(inside(case, without), theirs, strict=True):
        np.testing.assert_allclose(one, other, **ROUNDED)


def test_tau(case, explainer):
    """Ranks are exact: no two of the values are as close as their rounding, unless they are equal."""
    values = {
        "attn": inside(case, attention(case, explainer)),
        "grad": inside(case, gradients(case, explainer)),
        "loo": inside(case, np.abs(falls(case, explainer))),
    }
    for one, other in (("attn", "grad"), ("attn", "loo"), ("loo", "grad")):
        pairs = zip(values[one], values[other], strict=True)
        found = [tuple(stats.kendalltau(*pair)) for pair in pairs]
        np.testing.assert_allclose(found, case[f"tau_{one}_{other}"], rtol=0, atol=1e-12)


def test_the_third_sentence_ties(case, explainer):
    """Without either of two equal neighbours the same is left, exactly: that is what makes tau-b of tau there."""
    assert case["X"][2][1] == case["X"][2][2]
    found = falls(case, explainer)[2]
    assert found[1] == found[2]


def test_distance_of_the_top(case, explainer):
    pairs = zip(
        inside(case, attention(case, explainer)),
        inside(case, gradients(case, explainer)),
        strict=True,
    )
    found = [top_distance(a, b, 3) for a, b in pairs]
    np.testing.assert_allclose(found, case["kendall_top_k_attn_grad_k3_p05"], rtol=0, atol=1e-12)


def top_distance(a, b, k):
    """Count disagreements between two top lists (Fagin et al. 2003), as the authors' figures have it.

    Pairs of which one is in the first list only, and the other in the second only, do not count there.
    """
    first, second = (set(np.argsort(-values)[:k].tolist()) for values in (a, b))
    count = 0.0
    both = sorted(first & second)
    if len(both) > 1:
        tau = stats.kendalltau(a[both], b[both])[0]
        count += (1 - tau) / 2 * len(both) ** 2
    for values, mine, yours in ((a, first, second), (b, second, first)):
        alone = mine - yours
        count += sum(values[i] < values[j] for i in both for j in alone)
        count += 0.5 * len(list(combinations(alone, 2)))
    return count / len(first | second) ** 2


def test_permutations(case, explainer):
    """Their stream of random numbers: in each of a hundred rounds, one permutation of the words of each sentence."""
    batch = explainer.trace(rows(case)).batch
    replay = AttentionReplay(explainer.model, batch, [0], "single_label")
    everyone, stream = torch.arange(len(batch)), np.random.RandomState(case["perm_np_seed"])
    outputs = []
    for _ in range(100):
        places = np.tile(np.arange(batch.real.shape[1]), (len(batch), 1))
        for place, ids in zip(places, case["X"], strict=True):
            place[1 : len(ids) - 1] = 1 + stream.permutation(len(ids) - 2)
        weights = replay.own[0].gather(-1, torch.as_tensor(places)[:, None, None, :])
        outputs.append(
            replay({0: AttentionReplacement(everyone, weights)}).softmax(1)[:, 1].detach().numpy()
        )
    found = np.stack(outputs, axis=1)
    np.testing.assert_allclose(found[:, :3], case["perm_outputs_first3"], **ROUNDED)
    medians = np.median(np.abs(found - np.asarray(case["yhat"])[:, None]), axis=1)
    np.testing.assert_allclose(medians, case["perm_median_tvd"], **ROUNDED)


def test_every_figure_is_compared(case):
    assert case.keys() == {
        "attention", "X", "state_dict", "yhat", "attn", "gradients_raw", "grad_importance_processed", "loo_outputs",
        "tau_attn_grad", "tau_attn_loo", "tau_loo_grad", "kendall_top_k_attn_grad_k3_p05", "perm_np_seed",
        "perm_outputs_first3", "perm_median_tvd", "adversarial",
    }  # fmt: skip
    assert case["gradients_raw"].keys() == {"XxE", "XxE[X]", "H"}
