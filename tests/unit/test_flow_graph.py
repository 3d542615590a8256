"""Edge weights and the flow along them: toys by hand, and equality of shares with the scores of methods."""

from functools import cache

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.attention_traces import trace_of
from whence.core.errors import BadParameter, NotFinite
from whence.flow.graph import trace_flow
from whence.flow.weights import (
    EDGE_WEIGHT_CARDS,
    EDGE_WEIGHT_NAMES,
    EDGE_WEIGHT_NEEDS,
    collect_attention_maps,
    compute_attention_weights,
    compute_edge_weights,
)

TEXTS = ["The film is never dull, and the acting is a joy to watch.", "bad", "a wonderful mess"]


@cache
def model(name):
    return whence.load(name, dtype="float64")


# Products of a few matrices in another order: 1e-15 is what is seen, and 1e-9 far below any share.
EXACT = {"rtol": 0, "atol": 1e-9}


# The models set by hand know few words: these texts are unknown to some, and the shares must agree all the same.
@pytest.mark.filterwarnings("ignore:The tokenizer does not know:UserWarning")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["reviews", "decoy", "spotlight"])
@pytest.mark.parametrize(
    ("weight", "method"),
    [(name, card.equals) for name, card in EDGE_WEIGHT_CARDS.items() if " " not in card.equals],
)
def test_flow_shares_equal_the_scores_of_the_method_on_the_card(weight, method, name, text):
    inside = model(name).inside(text)
    traced = trace_flow(inside.weights(weight), inside.rows)
    scores = model(name).explain(text, method=method).scores
    np.testing.assert_allclose(traced.shares, scores, **EXACT)


def test_cards_of_three_edge_weights_name_an_equal_method():
    equal = {
        name: card.equals for name, card in EDGE_WEIGHT_CARDS.items() if " " not in card.equals
    }
    assert equal == {
        "attention": "rollout",
        "value_zeroing": "value_zeroing",
        "relevance": "transformer_attribution",
    }


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "modernbert"])
def test_flow_shares_of_attention_equal_rollout_on_other_architectures(architecture):
    explainer = whence.load(zoo.make(architecture))
    given = {"input_ids": [zoo.rows(architecture, lengths=(7,))[0]["input_ids"]]}
    inside = explainer.inside(given)
    scores = explainer.explain(given, method="rollout").scores
    np.testing.assert_allclose(trace_flow(inside.weights(), inside.rows).shares, scores, **EXACT)


@pytest.mark.parametrize("residual", [0.0, 0.2, 1.0])
def test_flow_shares_with_a_given_residual_equal_rollout_with_that_residual(residual):
    inside = model("reviews").inside(TEXTS[0])
    traced = trace_flow(inside.weights("attention", residual), inside.rows)
    explained = model("reviews").explain(TEXTS[0], method="rollout", params={"residual": residual})
    np.testing.assert_allclose(traced.shares, explained.scores, **EXACT)


@pytest.mark.parametrize("residual", [None, 0.3])
@pytest.mark.parametrize("weight", EDGE_WEIGHT_NAMES)
def test_trace_flow_back_conserves_a_total_of_one_in_every_layer(weight, residual):
    inside = model("reviews").inside(TEXTS[0])
    found = inside.weights(weight, residual)
    assert found.edge.dtype == np.float64 and (found.edge >= 0).all()
    assert found.edge.shape == (
        4,
        4 if found.per_head else 1,
        len(inside.tokens),
        len(inside.tokens),
    )
    for token in (None, 3):
        traced = trace_flow(found, inside.rows, "back", token)
        np.testing.assert_allclose(traced.nodes.sum(1), 1, **EXACT)
        np.testing.assert_allclose((traced.moved + traced.residual).sum(1), 1, **EXACT)


def test_trace_flow_through_one_layer_equals_values_by_hand_in_each_direction():
    # Two heads, two tokens, and the decision reads the first. Half goes past the layer:
    #   head 0 attends .8 and .2, head 1 .4 and .6; each head has half of the other half.
    maps = np.array([[[[0.8, 0.2], [0.5, 0.5]], [[0.4, 0.6], [0.0, 1.0]]]])
    traced = trace_flow(compute_attention_weights(maps), np.array([1.0, 0.0]))
    np.testing.assert_allclose(traced.flow(0)[:, 0], [[0.2, 0.05], [0.1, 0.15]])
    assert not traced.flow(0)[:, 1].any()
    np.testing.assert_allclose(traced.nodes, [[0.8, 0.2], [1, 0]])
    np.testing.assert_allclose(traced.residual, [[0.5, 0]])
    np.testing.assert_allclose(traced.moved, [[0.3, 0.2]])
    assert traced.whole == pytest.approx(0.5)
    # Forward from the second token: the first takes (.2 + .6) / 4 from it; it keeps half, and takes (.5 + 1) / 4.
    ahead = trace_flow(compute_attention_weights(maps), np.array([1.0, 0.0]), "forward", 1)
    np.testing.assert_allclose(ahead.shares, [0.2, 0.875])
    # Through it: of all that is .2 at the input.
    through = trace_flow(compute_attention_weights(maps), np.array([1.0, 0.0]), "through", 1)
    np.testing.assert_allclose(through.nodes, [[0, 0.2], [0.2, 0]])


def trace_with_one_positive_row():
    """Two tokens; the gradient speaks for the target in the first row alone."""
    maps = torch.tensor([[[[0.8, 0.2], [0.5, 0.5]], [[0.4, 0.6], [0.3, 0.7]]]], dtype=torch.float64)
    grads = torch.tensor([[[[1.0, -1], [-1, -2]], [[-3, 2], [0, 0]]]], dtype=torch.float64)
    return trace_of([maps], torch.tensor([[0.5, 0.5]], dtype=torch.float64), grads=[grads])


def test_gradient_x_attention_row_without_positive_edges_keeps_all_in_the_residual():
    found = compute_edge_weights(trace_with_one_positive_row(), "gradient_x_attention")
    # Row 0: .8 · 1 in head 0 and .6 · 2 in head 1, the mean of which adds up to 1: half goes past.
    np.testing.assert_allclose(found.edge[0, :, 0], [[0.8, 0], [0, 1.2]])
    np.testing.assert_allclose(found.residual, [[0.5, 1]])
    np.testing.assert_allclose(found.maps[0, :, 0], [[0.4, 0], [0, 0.6]])
    assert not found.maps[0, :, 1].any()
    traced = trace_flow(found, np.array([0.5, 0.5]))
    np.testing.assert_allclose(traced.residual, [[0.25, 0.5]])
    np.testing.assert_allclose(traced.shares, [0.25 + 0.1, 0.5 + 0.15])
    # Also where another share is asked for: there is nothing else it could go along.
    np.testing.assert_allclose(
        compute_edge_weights(trace_with_one_positive_row(), "gradient_x_attention", 0.2).residual,
        [[0.2, 1]],
    )


def test_trace_flow_loses_the_attention_that_goes_to_no_token():
    # A row that adds up to .6, as with a sink, loses .4 of its half; one of zeros keeps all.
    maps = np.array([[[[0.4, 0.2], [0.0, 0.0]]]])
    traced = trace_flow(compute_attention_weights(maps), np.array([0.5, 0.5]))
    np.testing.assert_allclose(traced.nodes[0], [0.25 + 0.1, 0.05 + 0.5])


def test_edge_weights_of_a_padded_row_equal_those_of_the_row_alone():
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    maps[1, :, :, 3] = 0
    maps /= maps.sum(-1, keepdim=True)
    grads = torch.randn(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    rows = torch.eye(4, dtype=torch.float64)[:2]
    both = trace_of([maps], rows, grads=[grads], lengths=[4, 3])
    alone = trace_of([maps[1:, :, :3, :3]], rows[1:, :3], grads=[grads[1:, :, :3, :3]])
    for name in ("attention", "gradient_x_attention"):
        one, other = compute_edge_weights(both, name, row=1), compute_edge_weights(alone, name)
        for part in ("edge", "scale", "residual"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def test_edge_weights_of_layers_with_fewer_heads_are_filled_with_zeros():
    wide, narrow = torch.full((1, 4, 2, 2), 0.5), torch.full((1, 2, 2, 2), 0.5)
    trace = trace_of([wide, narrow], torch.tensor([[1.0, 0.0]]))
    found = compute_edge_weights(trace, "attention")
    assert found.edge.shape == (2, 4, 2, 2) and found.heads == 4
    assert not found.edge[1, 2:].any()
    np.testing.assert_allclose(found.maps.sum((1, 3)), 1)


def test_collect_attention_maps_of_bfloat16_returns_float32():
    trace = trace_of(
        [torch.full((1, 1, 2, 2), 0.5, dtype=torch.bfloat16)], torch.tensor([[1.0, 0]])
    )
    assert collect_attention_maps(trace).dtype == np.float32


def test_edge_weights_of_nan_gradients_raise_not_finite():
    maps = torch.full((1, 1, 2, 2), 0.5)
    grads = torch.full((1, 1, 2, 2), float("nan"))
    trace = trace_of([maps], torch.tensor([[1.0, 0.0]]), grads=[grads])
    with pytest.raises(NotFinite, match="gradient_x_attention"):
        compute_edge_weights(trace, "gradient_x_attention")


def test_every_edge_weight_has_a_card_needs_and_a_note_with_its_summary():
    assert set(EDGE_WEIGHT_CARDS) == set(EDGE_WEIGHT_NEEDS) == set(EDGE_WEIGHT_NAMES)
    notes = [model("reviews").inside("good").weights(name).note for name in EDGE_WEIGHT_NAMES]
    assert all(
        EDGE_WEIGHT_CARDS[name].summary in note
        for name, note in zip(EDGE_WEIGHT_NAMES, notes, strict=True)
    )
    assert "30%" in model("reviews").inside("good").weights("norm", 0.3).note


def uniform_weights_and_root():
    return compute_attention_weights(np.full((1, 1, 2, 2), 0.5)), np.array([1.0, 0.0])


@pytest.mark.parametrize(
    ("direction", "token", "message"),
    [
        ("up", None, "no direction 'up'"),
        ("forward", None, "'forward' needs a token: 0 to 1"),
        ("through", None, "'through' needs a token"),
        ("back", 2, "no token 2"),
        ("back", -1, "no token -1"),
    ],
)
def test_trace_flow_with_a_bad_direction_or_token_raises_bad_parameter(direction, token, message):
    with pytest.raises(BadParameter, match=message):
        trace_flow(*uniform_weights_and_root(), direction, token)


def test_edge_weights_with_unknown_name_or_residual_above_one_raise_bad_parameter():
    with pytest.raises(BadParameter, match="no edge weight 'norms'"):
        compute_edge_weights(trace_with_one_positive_row(), "norms")
    for name in ("attention", "gradient_x_attention"):
        with pytest.raises(BadParameter, match=r"from 0 to 1, not 1\.5"):
            compute_edge_weights(trace_with_one_positive_row(), name, 1.5)
