"""The room `flow` equals its slow twins: paths one by one, and weights from plain tensor code."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from tests import zoo
from tests.reference import twins_flow as twins
from tests.reference.test_twins import case
from whence.flow.classic import ClassicSettings, compute_influence
from whence.flow.graph import select_edges, trace_flow
from whence.flow.heads import compute_gradient_importance, compute_head_entropy, jensen_shannon
from whence.flow.weights import EdgeWeights, compute_attention_weights

shapes = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
seeds = st.integers(0, 2**20)


def rows(draw, *shape):
    """Draw distributions along the last axis, some of their entries zero."""
    some = draw.random(shape) * (draw.random(shape) > 0.3) + 1e-3 * (np.arange(shape[-1]) == 0)
    return some / some.sum(-1, keepdims=True)


def random_weights(draw, layers, heads, tokens):
    """Draw weights whose edges are shared out in one row by all heads, and skip connections from none to all."""
    edge = rows(draw, layers, tokens, heads * tokens).reshape(layers, tokens, heads, tokens)
    measure = draw.random((layers, tokens)) + 0.5
    edge = edge.transpose(0, 2, 1, 3) * measure[:, None, :, None]
    residual = draw.choice([0.0, 0.3, 0.8, 1.0], (layers, tokens))
    return EdgeWeights("norm", edge, 1 / measure, residual, heads, True, "")


def graph_of(weights):
    return twins.Graph(weights.maps.tolist(), weights.residual.tolist())


def same(traced, found):
    # Sums of at most 7 ** 3 * 3 products of numbers up to 1, in another order: 1000 roundings of 1e-16.
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(traced.nodes, found.nodes, **close)
    np.testing.assert_allclose(traced.residual, found.past, **close)
    edges = select_edges(traced, most=10**6)
    keys = edges.keys()
    carried = {key: value for key, value in found.edges.items() if value > 0}
    assert set(keys) == set(carried)
    np.testing.assert_allclose(edges.flow, [carried[key] for key in keys], **close)
    written = np.stack([traced.flow(layer) for layer in range(traced.layers)])
    assert edges.count == np.count_nonzero(written)
    np.testing.assert_allclose([edges.total, edges.total_flow], traced.whole, **close)


@settings(max_examples=40, deadline=None)
@given(shape=shapes, seed=seeds)
def test_back_from_the_decision_adds_up_all_paths(shape, seed):
    draw = np.random.default_rng(seed)
    weights, root = random_weights(draw, *shape), rows(draw, shape[2])
    traced = trace_flow(weights, root)
    same(traced, twins.along(graph_of(weights), root.tolist()))
    np.testing.assert_allclose(traced.nodes.sum(1), 1, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(shape=shapes, seed=seeds)
def test_back_from_a_token_begins_above_the_last_layer(shape, seed):
    draw = np.random.default_rng(seed)
    weights, token = random_weights(draw, *shape), int(draw.integers(shape[2]))
    traced = trace_flow(weights, rows(draw, shape[2]), "back", token)
    same(traced, twins.along(graph_of(weights), np.eye(shape[2])[token].tolist()))


@settings(max_examples=40, deadline=None)
@given(shape=shapes, seed=seeds)
def test_through_a_token_are_the_paths_that_end_there(shape, seed):
    draw = np.random.default_rng(seed)
    weights, root = random_weights(draw, *shape), rows(draw, shape[2])
    token = int(draw.integers(shape[2]))
    traced = trace_flow(weights, root, "through", token)
    same(traced, twins.along(graph_of(weights), root.tolist(), end=token))
    share = trace_flow(weights, root).shares[token]
    np.testing.assert_allclose(traced.nodes.sum(1), share, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(shape=shapes, seed=seeds)
def test_forward_from_a_token_goes_up_all_paths(shape, seed):
    draw = np.random.default_rng(seed)
    weights, token = random_weights(draw, *shape), int(draw.integers(shape[2]))
    traced = trace_flow(weights, rows(draw, shape[2]), "forward", token)
    same(traced, twins.forward(graph_of(weights), token))
    assert np.array_equal(traced.shares, traced.nodes[-1])


@settings(max_examples=60, deadline=None)
@given(
    shape=shapes,
    seed=seeds,
    threshold=st.sampled_from([0.05, 0.3, 0.5, 1.0]),
    decay=st.sampled_from([0.0, 0.5, 1.0]),
    carry=st.booleans(),
)
def test_the_classic_definition_line_by_line(shape, seed, threshold, decay, carry):
    draw = np.random.default_rng(seed)
    layers, heads, tokens = shape
    maps, root = rows(draw, layers, heads, tokens, tokens), rows(draw, tokens)
    found = compute_influence(maps, root, ClassicSettings(threshold, decay, carry))
    begin = set(np.flatnonzero(root).tolist())
    reached, values, edges = twins.classic(maps.tolist(), begin, threshold, decay, carry)
    for level in range(layers + 1):
        assert set(np.flatnonzero(found.reached[level]).tolist()) == reached[level]
        # Counts and powers of one half: exact.
        assert found.values[level].tolist() == [values[level][j] for j in range(tokens)]
    there = {
        (layer, *(int(n) for n in place))
        for layer in range(layers)
        for place in np.argwhere(found.edges(layer))
    }
    assert there == edges
    # All that is reached is reached by edges of some weight or by the skip connection, and rollout has both.
    shown = select_edges(trace_flow(compute_attention_weights(maps), root), within=found.edges)
    assert set(shown.keys()) == edges and shown.count == len(edges)


ARCHITECTURES = ["bert", "roberta", "distilbert", "gpt2", "deberta-v2"]


def seen(architecture, name):
    explainer, ids, row, run = case(architecture)
    inside = explainer.inside({"input_ids": [ids]}, target=1)
    return inside.weights(name), row, run


def assert_shares(weights, expected):
    # One rounding in each of a few hundred operations on numbers around 1.
    np.testing.assert_allclose(weights.edge, expected, rtol=1e-9, atol=1e-12)
    total = weights.maps.sum((1, 3))
    np.testing.assert_allclose(total[weights.residual < 1], 1, atol=1e-12)


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_norms_are_those_of_the_vectors_that_heads_add(architecture):
    weights, _, run = seen(architecture, "norm")
    edges, own = twins.norm_edges(run)
    assert_shares(weights, np.stack([one.numpy() for one in edges]))
    for layer, (edge, lengths) in enumerate(zip(edges, own, strict=True)):
        for i in run.tokens:
            share = lengths[i] / (lengths[i] + edge[:, i].sum().item())
            assert weights.residual[layer, i] == pytest.approx(share, rel=1e-9)


def test_norms_behind_a_norm_of_their_own_are_followed_to_every_place():
    # Gemma norms what attention gives before it is added: the same vector is shorter where more arrives.
    model = zoo.make("gemma3")
    ids = zoo.rows("gemma3", lengths=(6,))[0]["input_ids"]
    inside = whence.load(model).inside({"input_ids": [ids]}, target=1)
    weights = inside.weights("norm")
    trace = inside._run_trace({"attention", "steps"})
    for layer, block in enumerate(model.model.layers):
        matrices = block.self_attn.o_proj.weight.detach().split(8, dim=1)
        norm, values = block.post_attention_layernorm, trace.layers[layer].v[0]
        maps = trace.layers[layer].map()[0]
        sent = torch.zeros(len(matrices), len(ids), len(ids), 32, dtype=torch.float64)
        for h, matrix in enumerate(matrices):
            for i in range(len(ids)):
                for j in range(len(ids)):
                    sent[h, i, j] = maps[h, i, j] * (matrix @ values[h // 2, j])
        whole = sent.sum((0, 2))
        spread = (whole.square().mean(-1) + norm.eps).sqrt()
        scaled = sent * (1 + norm.weight.detach()) / spread[:, None, None]
        # Gemma's norm computes in float32 whatever the model's dtype.
        np.testing.assert_allclose(weights.edge[layer], scaled.norm(dim=-1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gradient_times_attention_is_its_formula(architecture):
    weights, _, run = seen(architecture, "gradient_x_attention")
    positive = [
        (one * grad).clamp(min=0) for one, grad in zip(run.maps, run.map_grads, strict=True)
    ]
    np.testing.assert_allclose(weights.edge, torch.stack(positive), rtol=1e-9, atol=1e-12)
    for layer, one in enumerate(positive):
        for i in run.tokens:
            mean = sum(one[h, i, j].item() for h in range(len(one)) for j in run.tokens) / len(one)
            assert weights.residual[layer, i] == pytest.approx(1 / (1 + mean), rel=1e-9)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_gradient_of_a_head_is_that_of_its_whole_map(architecture):
    explainer, ids, _, run = case(architecture)
    inside = explainer.inside({"input_ids": [ids]}, target=1)
    found = compute_gradient_importance(inside._run_trace({"attention", "attention_grad"}))
    for layer, (one, grad) in enumerate(zip(run.maps, run.map_grads, strict=True)):
        for head in range(len(one)):
            total = sum((one[head, i] @ grad[head, i]).item() for i in run.tokens)
            assert found[layer, head] == pytest.approx(abs(total), rel=1e-9, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(tokens=st.integers(1, 5), seed=seeds)
def test_entropy_and_divergence_by_loops(tokens, seed):
    draw = np.random.default_rng(seed)
    maps = rows(draw, 2, 2, tokens, tokens)
    found = compute_head_entropy(maps)
    for layer in range(2):
        some = (maps[layer, 0] > 0) | (maps[layer, 1] > 0)
        keys = [sum(row) for row in some.tolist()]
        for head in range(2):
            expected = twins.entropy(maps[layer, head].tolist(), keys)
            assert found[layer, head] == pytest.approx(expected, abs=1e-12)
    apart = jensen_shannon(maps[0], maps[1])
    for place in np.ndindex(apart.shape):
        expected = twins.jensen_shannon(maps[0][place].tolist(), maps[1][place].tolist())
        assert apart[place] == pytest.approx(expected, abs=1e-12)
