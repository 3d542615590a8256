"""Weights of edges, and what flows along them: toys by hand, and the methods that the shares equal."""

from functools import cache

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.maps import trace_of
from whence.core.errors import BadParameter, NotFinite
from whence.flow import (
    CARDS,
    NAMES,
    NEEDS,
    attention_maps,
    attention_weights,
    trace_flow,
    weights,
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
    [(name, card.equals) for name, card in CARDS.items() if " " not in card.equals],
)
def test_shares_equal_those_of_the_method(weight, method, name, text):
    inside = model(name).inside(text)
    traced = trace_flow(inside.weights(weight), inside.rows)
    scores = model(name).explain(text, method=method).scores
    np.testing.assert_allclose(traced.shares, scores, **EXACT)


def test_three_weights_equal_a_method():
    equal = {name: card.equals for name, card in CARDS.items() if " " not in card.equals}
    assert equal == {
        "attention": "rollout",
        "value_zeroing": "value_zeroing",
        "relevance": "transformer_attribution",
    }


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "modernbert"])
def test_shares_equal_rollout_on_other_architectures(architecture):
    explainer = whence.load(zoo.make(architecture))
    given = {"input_ids": [zoo.rows(architecture, lengths=(7,))[0]["input_ids"]]}
    inside = explainer.inside(given)
    scores = explainer.explain(given, method="rollout").scores
    np.testing.assert_allclose(trace_flow(inside.weights(), inside.rows).shares, scores, **EXACT)


@pytest.mark.parametrize("residual", [0.0, 0.2, 1.0])
def test_the_share_of_the_skip_connection_is_that_of_rollout(residual):
    inside = model("reviews").inside(TEXTS[0])
    traced = trace_flow(inside.weights("attention", residual), inside.rows)
    explained = model("reviews").explain(TEXTS[0], method="rollout", params={"residual": residual})
    np.testing.assert_allclose(traced.shares, explained.scores, **EXACT)


@pytest.mark.parametrize("residual", [None, 0.3])
@pytest.mark.parametrize("weight", NAMES)
def test_nothing_is_lost_on_the_way_back(weight, residual):
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


def test_one_layer_by_hand():
    # Two heads, two tokens, and the decision reads the first. Half goes past the layer:
    #   head 0 attends .8 and .2, head 1 .4 and .6; each head has half of the other half.
    maps = np.array([[[[0.8, 0.2], [0.5, 0.5]], [[0.4, 0.6], [0.0, 1.0]]]])
    traced = trace_flow(attention_weights(maps), np.array([1.0, 0.0]))
    np.testing.assert_allclose(traced.flow(0)[:, 0], [[0.2, 0.05], [0.1, 0.15]])
    assert not traced.flow(0)[:, 1].any()
    np.testing.assert_allclose(traced.nodes, [[0.8, 0.2], [1, 0]])
    np.testing.assert_allclose(traced.residual, [[0.5, 0]])
    np.testing.assert_allclose(traced.moved, [[0.3, 0.2]])
    assert traced.whole == pytest.approx(0.5)
    # Forward from the second token: the first takes (.2 + .6) / 4 from it; it keeps half, and takes (.5 + 1) / 4.
    ahead = trace_flow(attention_weights(maps), np.array([1.0, 0.0]), "forward", 1)
    np.testing.assert_allclose(ahead.shares, [0.2, 0.875])
    # Through it: of all that is .2 at the input.
    through = trace_flow(attention_weights(maps), np.array([1.0, 0.0]), "through", 1)
    np.testing.assert_allclose(through.nodes, [[0, 0.2], [0.2, 0]])


def positive_case():
    """Two tokens; the gradient speaks for the target in the first row alone."""
    maps = torch.tensor([[[[0.8, 0.2], [0.5, 0.5]], [[0.4, 0.6], [0.3, 0.7]]]], dtype=torch.float64)
    grads = torch.tensor([[[[1.0, -1], [-1, -2]], [[-3, 2], [0, 0]]]], dtype=torch.float64)
    return trace_of([maps], torch.tensor([[0.5, 0.5]], dtype=torch.float64), grads=[grads])


def test_a_row_without_anything_positive_keeps_all():
    found = weights(positive_case(), "gradient_x_attention")
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
        weights(positive_case(), "gradient_x_attention", 0.2).residual, [[0.2, 1]]
    )


def test_what_attention_gives_to_no_token_is_lost():
    # A row that adds up to .6, as with a sink, loses .4 of its half; one of zeros keeps all.
    maps = np.array([[[[0.4, 0.2], [0.0, 0.0]]]])
    traced = trace_flow(attention_weights(maps), np.array([0.5, 0.5]))
    np.testing.assert_allclose(traced.nodes[0], [0.25 + 0.1, 0.05 + 0.5])


def test_padding_is_cut_off():
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    maps[1, :, :, 3] = 0
    maps /= maps.sum(-1, keepdim=True)
    grads = torch.randn(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    rows = torch.eye(4, dtype=torch.float64)[:2]
    both = trace_of([maps], rows, grads=[grads], lengths=[4, 3])
    alone = trace_of([maps[1:, :, :3, :3]], rows[1:, :3], grads=[grads[1:, :, :3, :3]])
    for name in ("attention", "gradient_x_attention"):
        one, other = weights(both, name, row=1), weights(alone, name)
        for part in ("edge", "scale", "residual"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def test_layers_may_differ_in_their_heads():
    wide, narrow = torch.full((1, 4, 2, 2), 0.5), torch.full((1, 2, 2, 2), 0.5)
    trace = trace_of([wide, narrow], torch.tensor([[1.0, 0.0]]))
    found = weights(trace, "attention")
    assert found.edge.shape == (2, 4, 2, 2) and found.heads == 4
    assert not found.edge[1, 2:].any()
    np.testing.assert_allclose(found.maps.sum((1, 3)), 1)


def test_half_precision_is_kept_in_float32():
    trace = trace_of(
        [torch.full((1, 1, 2, 2), 0.5, dtype=torch.bfloat16)], torch.tensor([[1.0, 0]])
    )
    assert attention_maps(trace).dtype == np.float32


def test_what_is_not_a_number_is_refused():
    maps = torch.full((1, 1, 2, 2), 0.5)
    grads = torch.full((1, 1, 2, 2), float("nan"))
    trace = trace_of([maps], torch.tensor([[1.0, 0.0]]), grads=[grads])
    with pytest.raises(NotFinite, match="gradient_x_attention"):
        weights(trace, "gradient_x_attention")


def test_every_weight_has_a_card_and_says_what_it_needs():
    assert set(CARDS) == set(NEEDS) == set(NAMES)
    notes = [model("reviews").inside("good").weights(name).note for name in NAMES]
    assert all(CARDS[name].summary in note for name, note in zip(NAMES, notes, strict=True))
    assert "30%" in model("reviews").inside("good").weights("norm", 0.3).note


def asks():
    return attention_weights(np.full((1, 1, 2, 2), 0.5)), np.array([1.0, 0.0])


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
def test_what_cannot_be_traced_is_refused(direction, token, message):
    with pytest.raises(BadParameter, match=message):
        trace_flow(*asks(), direction, token)


def test_wrong_weights_are_refused():
    with pytest.raises(BadParameter, match="no edge weight 'norms'"):
        weights(positive_case(), "norms")
    for name in ("attention", "gradient_x_attention"):
        with pytest.raises(BadParameter, match=r"from 0 to 1, not 1\.5"):
            weights(positive_case(), name, 1.5)
