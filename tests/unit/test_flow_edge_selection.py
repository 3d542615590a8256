"""Selection of the strongest edges of a flow: order, queries, coverage, payload and the classic mode."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from whence.app.schema import Flow
from whence.core.errors import BadParameter
from whence.flow.classic import ClassicSettings, compute_influence
from whence.flow.graph import (
    EdgeQuery,
    StrongestEdges,
    count_covering_edges,
    select_edges,
    trace_flow,
)
from whence.flow.payload import build_flow_payload
from whence.flow.weights import EdgeWeights, compute_attention_weights

LAYERS, HEADS, TOKENS = 3, 2, 4
SPECIAL = np.array([True, False, False, True])
SEGMENTS = np.array([0, 0, 1, 1])


def trace_random_flow(seed, direction="back", per_head=True):
    """Trace through weights of few different sizes, so that many flows are equal."""
    draw = np.random.default_rng(seed)
    shape = (LAYERS, HEADS if per_head else 1, TOKENS, TOKENS)
    edge = draw.choice([0.0, 0.25, 0.25, 0.5], shape)
    scale = np.full((LAYERS, TOKENS), 0.25)
    residual = np.full((LAYERS, TOKENS), 0.5)
    weights = EdgeWeights("norm", edge, scale, residual, HEADS, per_head, "")
    root = draw.choice([0.0, 0.5], TOKENS)
    return trace_flow(weights, root, direction, None if direction == "back" else 1)


def is_within_query(query, key, weight, per_head=True):
    """Say whether an edge is within a query, sentence by sentence of its definition."""
    layer, head, source, to = key
    if query.layers and not query.layers[0] <= layer <= query.layers[1]:
        return False
    if query.heads and not any(
        layer == one and (head == two or not per_head) for one, two in query.heads
    ):
        return False
    if query.tokens and source not in query.tokens and to not in query.tokens:
        return False
    names = ["A" if segment == 0 else "B" for segment in SEGMENTS]
    if query.segments and f"{names[source]}>{names[to]}" not in query.segments:
        return False
    if weight < query.least:
        return False
    return query.specials or not SPECIAL[to]


def list_edges_by_brute_force(traced, query):
    """Return every wanted edge that carries anything, sorted: flow falling, then the key."""
    found = []
    for layer in range(LAYERS):
        flow = traced.flow(layer)
        for head, source, to in np.ndindex(flow.shape):
            key = (layer, head, source, to)
            value = float(flow[head, source, to])
            if value > 0 and is_within_query(
                query, key, traced.weights.edge[key], traced.weights.per_head
            ):
                found.append((-value, key))
    return sorted(found)


queries = st.builds(
    EdgeQuery,
    layers=st.sampled_from([None, (0, 0), (1, 2), (0, 2)]),
    heads=st.sampled_from([(), ((0, 1),), ((2, 0), (1, 1), (2, 0))]),
    tokens=st.sampled_from([(), (1,), (0, 3)]),
    segments=st.sampled_from([(), ("A>B",), ("B>A", "A>A")]),
    least=st.sampled_from([0.0, 0.25, 0.3]),
    specials=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(
    query=queries,
    seed=st.integers(0, 2**20),
    most=st.sampled_from([1, 2, 5, 17, 1000]),
    direction=st.sampled_from(["back", "forward", "through"]),
    per_head=st.booleans(),
)
def test_select_edges_equals_the_sorted_list_of_all_edges_within_the_query(
    query, seed, most, direction, per_head
):
    traced = trace_random_flow(seed, direction, per_head)
    edges = select_edges(traced, query, most, SPECIAL, SEGMENTS)
    expected = list_edges_by_brute_force(traced, query)
    heads = [head if per_head else -1 for _, (_, head, _, _) in expected]
    shown = [(k[0], head, *k[2:]) for (_, k), head in zip(expected, heads, strict=True)]
    assert edges.keys() == shown[:most]
    assert edges.flow.tolist() == [-value for value, _ in expected[:most]]
    assert edges.weight.tolist() == [traced.weights.edge[key] for _, key in expected[:most]]
    assert edges.count == len(expected)
    # Some dozens of multiples of a power of two, added up: exact.
    assert edges.total == -sum(value for value, _ in expected)
    assert edges.total_flow == -sum(value for value, _ in expected[:most])


def test_select_edges_orders_equal_flows_by_layer_head_source_and_token():
    # All attention is equal and so are all edges of the one layer; of two layers the upper carries as much.
    weights = compute_attention_weights(np.full((2, 2, 2, 2), 0.5), residual=0.0)
    edges = select_edges(trace_flow(weights, np.array([0.5, 0.5])), most=10)
    assert edges.keys() == sorted(edges.keys())
    assert edges.keys()[-1] == (1, 0, 0, 1) and edges.count == 16


def make_edges(flows):
    column = np.arange(len(flows))
    return StrongestEdges(
        column, column, column, column, np.array(flows), np.array(flows), len(flows), sum(flows)
    )


@settings(max_examples=100, deadline=None)
@given(
    flows=st.lists(st.integers(1, 50), min_size=1, max_size=12),
    p=st.fractions(0, 1).map(float),
)
def test_count_covering_edges_is_the_fewest_edges_that_carry_the_share(flows, p):
    flows = sorted(flows, reverse=True)
    number = count_covering_edges(make_edges([float(f) for f in flows]), float(sum(flows)), p)
    # Whole numbers: sums are exact, and what falls short by less than 1e-12 of the total is rounding of p itself.
    slack = 1e-9
    assert sum(flows[:number]) >= p * sum(flows) - slack
    if number:
        assert sum(flows[: number - 1]) < p * sum(flows) + slack
    # No other set of fewer edges carries more than the strongest ones do, so that none carries enough.


def test_count_covering_edges_equals_counts_by_hand_despite_rounding():
    edges = make_edges([0.4, 0.3, 0.2, 0.1])
    assert [count_covering_edges(edges, 1.0, p) for p in (0, 0.1, 0.4, 0.5, 0.7, 0.71, 1)] == [
        0,
        1,
        1,
        2,
        2,
        3,
        4,
    ]
    # .7 + .1 is a rounding less than .8 of the total, and must count as enough.
    assert 0.7 + 0.1 < 0.8
    assert count_covering_edges(make_edges([0.7, 0.1, 0.1, 0.1]), 1.0, 0.8) == 2
    # Of 10, even all four carry too little: all that is there.
    assert count_covering_edges(edges, 10.0, 0.5) == 4
    assert count_covering_edges(make_edges([]), 0.0, 0.5) == 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (EdgeQuery(layers=(0, 3)), "no layers 0 to 3: the model has 3"),
        (EdgeQuery(layers=(2, 1)), "no layers 2 to 1"),
        (EdgeQuery(heads=((0, 2),)), "no head 0.2: the model has 3 layers of 2 heads"),
        (EdgeQuery(heads=((-1, 0),)), "no head -1.0"),
        (EdgeQuery(tokens=(4,)), "no token 4: the input has 4"),
        (EdgeQuery(segments=("A>C",)), "no segments 'A>C'"),
        (EdgeQuery(least=-0.1), "0 or more, not -0.1"),
        (EdgeQuery(least=float("nan")), "0 or more, not nan"),
    ],
)
def test_select_edges_with_a_query_out_of_range_raises_bad_parameter(query, message):
    with pytest.raises(BadParameter, match=message):
        select_edges(trace_random_flow(0), query, 10, SPECIAL, SEGMENTS)


def test_flow_payload_fits_the_schema_and_counts_edges_left_out_in_the_whole():
    inside = whence.load("reviews", dtype="float64").inside(("A fine film.", "It is not bad."))
    traced = trace_flow(inside.weights(), inside.rows)
    edges = select_edges(traced, EdgeQuery(specials=False), 50, inside.special, inside.segments)
    found = build_flow_payload(traced, edges, inside.special)
    Flow.model_validate({**found, "model": "m", "target": None, "tokens": []}, strict=True)
    assert len(found["edges"]["flow"]) == 50 < found["count"]
    # What is left out is not shared out between the others.
    special = sum(traced.flow(layer)[:, :, inside.special].sum() for layer in range(traced.layers))
    assert found["whole"] == pytest.approx(found["total"] + special)
    assert found["whole"] == pytest.approx(0.5 * traced.layers)
    assert found["sent"] == pytest.approx(sum(found["edges"]["flow"]))
    assert found["residual_share"] == pytest.approx([0.5] * traced.layers)
    for layer, share in enumerate(found["special_share"]):
        flow = traced.flow(layer)
        assert share == pytest.approx(flow[:, :, inside.special].sum() / flow.sum())
    assert sum(found["shares"]) == pytest.approx(1)


def test_flow_payload_of_a_layer_without_flow_has_special_share_none():
    weights = compute_attention_weights(np.full((1, 1, 2, 2), 0.5), residual=1.0)
    traced = trace_flow(weights, np.array([1.0, 0.0]))
    found = build_flow_payload(traced, select_edges(traced), np.array([True, False]))
    assert found["special_share"] == [None] and found["residual_share"] == [1.0]
    assert found["count"] == 0 and found["total"] == found["sent"] == found["whole"] == 0


def test_flow_payload_in_classic_mode_has_influence_and_reached_edges():
    # The second head looks at the other token strongly enough, the first at nothing else.
    maps = np.array([[[[0.9, 0.1], [0.0, 1.0]], [[0.2, 0.8], [0.5, 0.5]]]])
    root = np.array([1.0, 0.0])
    traced = trace_flow(compute_attention_weights(maps), root)
    reached = compute_influence(maps, root, ClassicSettings(threshold=0.5, decay=0.25, carry=False))
    edges = select_edges(traced, within=reached.edges)
    assert edges.keys() == [(0, 0, 0, 0), (0, 1, 0, 1)]
    found = build_flow_payload(traced, edges, np.array([False, False]), reached)
    assert found["influence"] == {
        "threshold": 0.5,
        "decay": 0.25,
        "carry": False,
        "values": [[1.25, 1.0], [1.0, 0.0]],
        "reached": [2, 1],
    }
    # A weight of all heads together has an edge where any head reaches.
    together = EdgeWeights(
        "value_zeroing", maps[:, :1], np.full((1, 2), 1.0), np.zeros((1, 2)), 2, False, ""
    )
    assert select_edges(trace_flow(together, root), within=reached.edges).keys() == [
        (0, -1, 0, 0),
        (0, -1, 0, 1),
    ]


@pytest.mark.parametrize(
    "setting",
    [ClassicSettings(threshold=0), ClassicSettings(threshold=1.1), ClassicSettings(decay=-1)],
)
def test_compute_influence_with_bad_threshold_or_decay_raises_bad_parameter(setting):
    with pytest.raises(BadParameter, match=r"threshold|decay"):
        compute_influence(np.ones((1, 1, 1, 1)), np.ones(1), setting)
