"""Figures of attention heads: entropy, importance, special mass, divergence, habits and thumbnails."""

import numpy as np
import pytest

import whence
from whence.core.types import Token, Word
from whence.flow.heads import (
    POSITION_KINDS,
    build_thumbnails,
    compute_gradient_importance,
    compute_head_divergence,
    compute_head_entropy,
    compute_head_habits,
    compute_special_mass,
    jensen_shannon,
)


def test_head_entropy_is_a_share_of_the_largest_possible_entropy():
    uniform, one = np.full((4, 4), 0.25), np.eye(4)
    causal = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    # A layer's heads share a mask: what no head attends to is no choice.
    assert compute_head_entropy(np.stack([[uniform, one]])).tolist() == [[1.0, 0.0]]
    # Three rows with a choice are as wide as can be; the first has none and does not count.
    assert compute_head_entropy(np.stack([[causal, one]]))[0] == pytest.approx([1, 0])
    # Rows of 2, 3 and 4 keys, the last half and half: (1 + 1 + 1/2) / 3.
    narrow = np.vstack([causal[:3], [0.5, 0.5, 0, 0]])
    assert compute_head_entropy(np.stack([[causal, narrow]]))[0, 1] == pytest.approx(2.5 / 3)
    assert compute_head_entropy(np.stack([[one, one]])).tolist() == [
        [0.0, 0.0]
    ]  # nobody has a choice
    # Half and half out of four: 1 bit of 2.
    half = np.tile([0.5, 0.5, 0, 0], (4, 1))
    assert compute_head_entropy(np.stack([[half, uniform]]))[0, 0] == pytest.approx(0.5)
    # Rows that give half of their attention to no token are as wide as if they gave it all.
    assert compute_head_entropy(np.stack([[uniform / 2, half * 0]]))[0].tolist() == [1.0, 0.0]


def test_gradient_importance_sums_signed_products_so_that_opposite_signs_cancel():
    """A head that moves the target up here and down there by as much is of no importance as a whole."""
    inside = whence.load("reviews", dtype="float64").inside("a gripping film")
    trace = inside._run_trace({"attention", "attention_grad"})
    products = [layer.map()[0] * layer.map_grad()[0] for layer in trace.layers]
    found = compute_gradient_importance(trace)
    # The same numbers, added up at once and not in tiles.
    expected = np.stack([abs(one.sum((1, 2)).numpy()) for one in products])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert min(one.min() for one in products) < 0 < max(one.max() for one in products)
    assert (np.stack([one.abs().sum((1, 2)).numpy() for one in products]) > 1.1 * found).any()


def test_special_mass_is_the_mean_over_rows_of_attention_to_special_tokens():
    maps = np.array([[[[0.5, 0.2, 0.3], [0.1, 0.9, 0.0], [0.0, 1.0, 0.0]]]])
    # (.8 + .1 + 0) / 3
    assert compute_special_mass(maps, np.array([True, False, True]))[0, 0] == pytest.approx(0.3)
    assert compute_special_mass(maps, np.zeros(3, dtype=bool)).tolist() == [[0.0]]


def test_jensen_shannon_of_rows_is_one_bit_if_disjoint_and_zero_if_equal():
    a, b = np.array([[1.0, 0, 0], [0.2, 0.3, 0.5]]), np.array([[0, 0.5, 0.5], [0.2, 0.3, 0.5]])
    assert jensen_shannon(a, b).tolist() == [1.0, 0.0]
    # Where half of the attention goes to no token, what goes to tokens is compared.
    assert jensen_shannon(a / 2, b).tolist() == jensen_shannon(a / 2, b / 4).tolist() == [1.0, 0.0]
    mean, read = compute_head_divergence(a[None, None], b[None, None], np.array([0.0, 1.0]))
    assert (mean.tolist(), read.tolist()) == ([[0.5]], [[0.0]])


@pytest.mark.parametrize("tokens", [1, 5, 48, 49, 100])
def test_thumbnails_keep_the_largest_weight_of_each_cell(tokens):
    maps = np.random.default_rng(0).random((2, 3, tokens, tokens), dtype=np.float32)
    small = min(48, tokens)
    found = build_thumbnails(maps)
    assert found.shape == (2, 3, small, small) and found.dtype == np.uint8
    edges = [i * tokens // small for i in range(small + 1)]
    for i in range(small):
        for j in range(small):
            patch = maps[1, 2, edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
            assert found[1, 2, i, j] == round(255 * float(np.sqrt(np.float64(patch.max()))))


def token(text, special=False):
    return Token(text, None, None, 0, special, 0)


TOKENS = [
    token("[CLS]", special=True),
    token("Bad"),
    token("film"),
    token(","),
    token("ba"),
    token("##d"),
    token("."),
    token("[SEP]", special=True),
]
WORDS = [
    Word("Bad", 0, 3, 0, (1,)),
    Word("film", 4, 8, 0, (2,)),
    Word(",", 8, 9, 0, (3,)),
    Word("bad", 10, 13, 0, (4, 5)),
    Word(".", 13, 14, 0, (6,)),
]


def test_head_habits_count_each_position_under_exactly_one_kind():
    kinds = {
        0: "special next other punctuation other other punctuation special",
        1: "special itself next punctuation [same word] [same word] punctuation special",
        2: "special previous itself next other other punctuation special",
        4: "special [same word] other previous itself next punctuation special",
        5: "special [same word] other punctuation previous itself next special",
        7: "special other other punctuation other other previous special",
    }
    for row, line in kinds.items():
        names = line.replace("[same word]", "same_word").split()
        expected = dict.fromkeys(POSITION_KINDS, 0.0)
        maps = np.zeros((1, 1, 8, 8))
        # Powers of two: every sum of them tells which they were.
        maps[0, 0, row] = 2.0 ** np.arange(8)
        for place, name in enumerate(names):
            expected[name.replace("_", " ")] += 2.0**place / 8
        shares = compute_head_habits(maps, TOKENS, WORDS).shares
        assert {name: one[0, 0] for name, one in shares.items()} == expected


def test_head_habits_of_every_head_add_up_to_one():
    inside = whence.load("reviews", dtype="float64").inside("a film, a joy: a film")
    found = compute_head_habits(inside.attention(), inside.tokens, inside.words)
    assert list(found.shares) == list(POSITION_KINDS)
    assert all(one.shape == (inside.layers, inside.heads) for one in found.shares.values())
    # Rows of attention in float32 add up to 1 up to 1e-7.
    np.testing.assert_allclose(sum(found.shares.values()), 1, atol=1e-6)
    np.testing.assert_allclose(found.received.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(
        found.shares["special"], compute_special_mass(inside.attention(), inside.special), atol=1e-6
    )


def test_head_habits_of_tokens_without_words_have_no_same_word_share():
    found = compute_head_habits(np.full((1, 1, 8, 8), 0.125), TOKENS, [])
    assert found.shares["same word"].tolist() == [[0.0]]
