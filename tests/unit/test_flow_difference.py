"""Comparison of two flows: possible edges, Jaccard index by chance, and the edges that differ."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

import whence
from whence.core.errors import BadParameter
from whence.flow.graph import (
    EdgeQuery,
    compute_chance_jaccard,
    compute_flow_difference,
    count_possible_edges,
    trace_flow,
)
from whence.flow.weights import compute_attention_weights


def trace_random_flow(seed, tokens=4):
    draw = np.random.default_rng(seed)
    maps = draw.random((3, 2, tokens, tokens)) ** 4
    maps /= maps.sum(-1, keepdims=True)
    return trace_flow(compute_attention_weights(maps), np.eye(tokens)[0])


def test_count_possible_edges_counts_edges_that_carry_flow_in_either_flow():
    # Two tokens, one head, two layers; the first token is the root. A goes from 0 to 0 alone, B from 0 to 1 alone.
    one, other = (
        trace_flow(compute_attention_weights(np.array([[maps]] * 2, dtype=float)), np.eye(2)[0])
        for maps in ([[1, 0], [1, 0]], [[0, 1], [0, 1]])
    )
    # Above the last layer only token 0 is reached: 0>0 in A, 0>1 in B. Below it, B has reached token 1 as well.
    assert count_possible_edges(one, one) == [1, 1]
    assert count_possible_edges(one, other) == count_possible_edges(other, one) == [3, 2]
    assert count_possible_edges(one, other, EdgeQuery(specials=False), np.array([True, False])) == [
        2,
        1,
    ]
    assert count_possible_edges(one, other, EdgeQuery(layers=(1, 1))) == [0, 2]
    assert count_possible_edges(one, other, EdgeQuery(least=1.5)) == [0, 0]


def test_flow_difference_of_a_flow_and_itself_is_empty():
    assert len(compute_flow_difference(trace_random_flow(0), trace_random_flow(0))["layer"]) == 0


@pytest.mark.parametrize(
    ("a", "b", "possible"), [(2, 3, 5), (1, 1, 4), (4, 4, 5), (0, 3, 4), (5, 5, 5)]
)
def test_chance_jaccard_is_the_mean_over_all_pairs_of_sets(a, b, possible):
    values = [
        len(set(one) & set(two)) / len(set(one) | set(two))
        for one in combinations(range(possible), a)
        for two in combinations(range(possible), b)
    ]
    assert compute_chance_jaccard(a, b, possible) == pytest.approx(np.mean(values), rel=1e-12)


def test_chance_jaccard_among_millions_of_edges_equals_the_hypergeometric_mean():
    a, b, possible = 5000, 3000, 12 * 12 * 512 * 512
    k = np.arange(0, 50)
    # scipy's own logarithms of factorials of tens of millions are good to 1e-7.
    expected = (hypergeom.pmf(k, possible, a, b) * k / (a + b - k)).sum()
    assert compute_chance_jaccard(a, b, possible) == pytest.approx(expected, rel=1e-6)
    assert compute_chance_jaccard(0, 0, possible) == 1


def test_chance_jaccard_of_a_set_larger_than_all_edges_raises_bad_parameter():
    with pytest.raises(BadParameter, match="cannot be drawn out of 4"):
        compute_chance_jaccard(5, 1, 4)


@pytest.mark.parametrize(
    "query", [EdgeQuery(), EdgeQuery(layers=(1, 2), specials=False, least=0.1)]
)
def test_flow_difference_lists_edges_within_the_query_by_falling_difference(query):
    a, b = trace_random_flow(0), trace_random_flow(1)
    special = np.array([True, False, False, False])
    expected = []
    for layer in range(3):
        for head, source, to in np.ndindex(2, 4, 4):
            key = (layer, head, source, to)
            one, two = (traced.flow(layer)[key[1:]] for traced in (a, b))
            weight = max(a.weights.edge[key], b.weights.edge[key])
            inside = query.layers is None or layer >= 1
            wanted = inside and weight >= query.least and (query.specials or not special[to])
            if wanted and one != two:
                expected.append((-abs(two - one), key, one, two))
    expected.sort()
    found = compute_flow_difference(a, b, 20, query, special, np.zeros(4))
    columns = zip(*(found[name] for name in ("layer", "head", "source", "to")), strict=True)
    assert list(columns) == [key for _, key, _, _ in expected[:20]]
    # The same three factors, multiplied in another order.
    np.testing.assert_allclose(found["a"], [one for *_, one, _ in expected[:20]], rtol=1e-14)
    np.testing.assert_allclose(found["b"], [two for *_, two in expected[:20]], rtol=1e-14)


def test_flow_difference_of_flows_of_different_shapes_raises_bad_parameter():
    with pytest.raises(BadParameter, match="no edges in common"):
        compute_flow_difference(trace_random_flow(0), trace_random_flow(0, tokens=5))


def test_flow_difference_of_value_zeroing_numbers_all_heads_together_as_minus_one():
    inside = whence.load("reviews", dtype="float64").inside("a fine film")
    back, token = (
        trace_flow(inside.weights("value_zeroing"), inside.rows, "back", start)
        for start in (None, 2)
    )
    assert set(compute_flow_difference(back, token)["head"]) == {-1}
