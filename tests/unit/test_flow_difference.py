"""What two flows share, what chance would let them share, and where they differ."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

import whence
from whence.core.errors import BadParameter
from whence.flow import (
    Query,
    attention_weights,
    chance_jaccard,
    difference,
    possible,
    trace_flow,
)


def traced_of(seed, tokens=4):
    draw = np.random.default_rng(seed)
    maps = draw.random((3, 2, tokens, tokens)) ** 4
    maps /= maps.sum(-1, keepdims=True)
    return trace_flow(attention_weights(maps), np.eye(tokens)[0])


def test_what_could_be_is_what_carries_anything_in_either_flow():
    # Two tokens, one head, two layers; the first token is the root. A goes from 0 to 0 alone, B from 0 to 1 alone.
    one, other = (
        trace_flow(attention_weights(np.array([[maps]] * 2, dtype=float)), np.eye(2)[0])
        for maps in ([[1, 0], [1, 0]], [[0, 1], [0, 1]])
    )
    # Above the last layer only token 0 is reached: 0>0 in A, 0>1 in B. Below it, B has reached token 1 as well.
    assert possible(one, one) == [1, 1]
    assert possible(one, other) == possible(other, one) == [3, 2]
    assert possible(one, other, Query(specials=False), np.array([True, False])) == [2, 1]
    assert possible(one, other, Query(layers=(1, 1))) == [0, 2]
    assert possible(one, other, Query(least=1.5)) == [0, 0]


def test_a_flow_does_not_differ_from_itself():
    assert len(difference(traced_of(0), traced_of(0)).layer) == 0


@pytest.mark.parametrize(
    ("a", "b", "possible"), [(2, 3, 5), (1, 1, 4), (4, 4, 5), (0, 3, 4), (5, 5, 5)]
)
def test_chance_is_the_mean_over_all_pairs_of_sets(a, b, possible):
    values = [
        len(set(one) & set(two)) / len(set(one) | set(two))
        for one in combinations(range(possible), a)
        for two in combinations(range(possible), b)
    ]
    assert chance_jaccard(a, b, possible) == pytest.approx(np.mean(values), rel=1e-12)


def test_chance_among_millions():
    a, b, possible = 5000, 3000, 12 * 12 * 512 * 512
    k = np.arange(0, 50)
    # scipy's own logarithms of factorials of tens of millions are good to 1e-7.
    expected = (hypergeom.pmf(k, possible, a, b) * k / (a + b - k)).sum()
    assert chance_jaccard(a, b, possible) == pytest.approx(expected, rel=1e-6)
    assert chance_jaccard(0, 0, possible) == 1


def test_sets_larger_than_all_are_refused():
    with pytest.raises(BadParameter, match="cannot be drawn out of 4"):
        chance_jaccard(5, 1, 4)


@pytest.mark.parametrize("query", [Query(), Query(layers=(1, 2), specials=False, least=0.1)])
def test_the_difference_is_sorted_by_its_size(query):
    a, b = traced_of(0), traced_of(1)
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
    found = difference(a, b, 20, query, special, np.zeros(4)).to_dict()
    columns = zip(*(found[name] for name in ("layer", "head", "source", "to")), strict=True)
    assert list(columns) == [key for _, key, _, _ in expected[:20]]
    # The same three factors, multiplied in another order.
    np.testing.assert_allclose(found["a"], [one for *_, one, _ in expected[:20]], rtol=1e-14)
    np.testing.assert_allclose(found["b"], [two for *_, two in expected[:20]], rtol=1e-14)


def test_flows_of_different_shapes_are_refused():
    with pytest.raises(BadParameter, match="no edges in common"):
        difference(traced_of(0), traced_of(0, tokens=5))


def test_heads_together_have_no_number():
    inside = whence.load("reviews", dtype="float64").inside("a fine film")
    back, token = (
        trace_flow(inside.weights("value_zeroing"), inside.rows, "back", start)
        for start in (None, 2)
    )
    assert set(difference(back, token).head.tolist()) == {-1}
