"""Measures of a model pair: head divergence, edge overlap, chance, significant columns, by loops and by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.comparison.conftest import (
    TEXTS,
    jsd,
    measure_heads_by_loops,
    select_counted_edges,
    tokens,
)
from whence.core.seed import build_generator
from whence.core.types import Token
from whence.studies.compare.compare import compare
from whence.studies.compare.pair_measures import (
    _compute_chance_overlap,
    compute_word_agreement,
    measure_heads,
    select_decision_rows,
)
from whence.studies.compare.summary import InputStatistics, find_moved_columns, rank_columns


def test_compare_head_and_layer_figures_equal_plain_loops(base, tuned, found):
    sides = [[one.inside(text) for text in TEXTS] for one in (base, tuned)]
    each = [
        measure_heads_by_loops(a.attention(), b.attention(), b.special, b.rows)
        for a, b in zip(*sides, strict=True)
    ]
    divergence, decision, mass, spread = (np.mean(part, axis=0) for part in zip(*each, strict=True))
    # float64 throughout; batches are padded, which changes the order of some sums.
    for one in found.heads:
        at = one["layer"], one["head"]
        assert one["divergence"]["mean"] == pytest.approx(divergence[at], abs=1e-9)
        assert one["decision"]["mean"] == pytest.approx(decision[at], abs=1e-9)
        for what, values in (("special", mass), ("entropy", spread)):
            assert one[what]["a"]["mean"] == pytest.approx(values[0][at], abs=1e-9)
            assert one[what]["b"]["mean"] == pytest.approx(values[1][at], abs=1e-9)
            change = values[1][at] - values[0][at]
            assert one[what]["change"]["mean"] == pytest.approx(change, abs=1e-9)
    for one in found.layers:
        assert one["divergence"]["mean"] == pytest.approx(divergence[one["layer"]].mean())
    kinds = {one["name"]: one["figures"]["b"]["mean"] for one in found.to_dict()["specials"]}
    assert set(kinds) == {"[CLS]", "[SEP]"}
    assert sum(kinds.values()) == pytest.approx(mass[1].mean())


def select_covering_edges(carried, share):
    total, kept, so_far = sum(carried.values()), set(), 0.0
    for edge in sorted(carried, key=lambda edge: (-carried[edge], edge)):
        if so_far >= share * total:
            break
        kept.add(edge)
        so_far += carried[edge]
    return kept


@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_compare_edge_overlap_equals_plain_loops(base, tuned, share, specials):
    text = TEXTS[2]
    found = compare(base, tuned, [text], coverage=share, specials=specials).to_dict()
    root = tuned.inside(text).rows
    sets, others = (
        [
            select_covering_edges(select_counted_edges(one.inside(text), root, kind), share)
            for one in (base, tuned)
        ]
        for kind in (specials, not specials)
    )
    both, union = sets[0] & sets[1], sets[0] | sets[1]
    assert found["setting"]["specials"] is found["overlap"]["specials"] is specials
    assert found["overlap"]["other"]["specials"] is not specials
    other = len(others[0] & others[1]) / len(others[0] | others[1])
    assert found["overlap"]["other"]["jaccard"]["mean"] == pytest.approx(other)
    named = "to words and special tokens that" if specials else "to words that"
    # A share of what these edges carry: the flow goes past them, too.
    assert (
        f"Of the edges {named} carry {share:.0%} of what all such edges carry" in found["sentence"]
    )
    assert found["overlap"]["jaccard"]["mean"] == pytest.approx(len(both) / len(union))
    assert found["overlap"]["only_a"]["mean"] == pytest.approx(len(sets[0] - both) / len(union))
    assert found["overlap"]["only_b"]["mean"] == pytest.approx(len(sets[1] - both) / len(union))
    for one in found["layers"]:
        own = [{edge for edge in side if edge[0] == one["layer"]} for side in sets]
        if own[0] | own[1]:
            alike = len(own[0] & own[1]) / len(own[0] | own[1])
            assert one["overlap"]["mean"] == pytest.approx(alike)
        else:
            assert one["overlap"] == {"mean": None, "low": None, "high": None, "n": 0}


def test_compare_overlap_excludes_edges_to_special_tokens_by_default(base, tuned):
    plain = compare(base, tuned, TEXTS[:2], method=None).to_dict()["overlap"]
    assert (
        plain == compare(base, tuned, TEXTS[:2], method=None, specials=False).to_dict()["overlap"]
    )
    turned = compare(base, tuned, TEXTS[:2], method=None, specials=True).to_dict()["overlap"]
    for what in ("jaccard", "chance"):
        assert plain["other"][what] == turned[what]
        assert turned["other"][what] == plain[what]


def test_compare_chance_and_stranger_figures_depend_on_the_seed(base, tuned):
    found = [compare(base, tuned, TEXTS, method=None, seed=seed).to_dict() for seed in (0, 0, 1)]
    chance = [one["overlap"]["chance"]["mean"] for one in found]
    assert chance[0] == chance[1] != chance[2]
    strangers = [[layer["strangers"]["mean"] for layer in one["layers"]] for one in found]
    assert strangers[0] == strangers[1] != strangers[2]


def test_chance_overlap_draws_as_many_edges_in_each_layer_as_the_given_sets():
    # One edge out of two in the first layer, all three out of three in the second: the first is the same in half of
    # the draws. Jaccard is 4/4 then and 3/5 otherwise, 0.8 in the mean; 200 draws are within 0.06 (four standard
    # errors, 0.2 / sqrt(200) = 0.014 each).
    found = _compute_chance_overlap(
        np.array([1, 3]), np.array([1, 3]), [2, 3], build_generator("test")
    )
    assert found == pytest.approx(0.8, abs=0.06)


# By hand


def test_measure_heads_of_two_small_maps_equals_hand_computed_values():
    # One layer, two heads, two tokens of which the first is special; the decision reads the second row.
    a = np.array([[[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]]])
    b = np.array([[[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    found = measure_heads(a, b, np.array([0.0, 1.0]), tokens("[CLS] good", {"[CLS]"}), 0)
    # [1, 0] and [0, 1] are a bit apart; of [1/2, 1/2] and [1, 0] the middle is [3/4, 1/4] with an entropy of 0.811278
    # bits, less the mean of 1 and 0 is 0.311278.
    assert found.divergence == pytest.approx(np.array([[(1 + 0.311278) / 2, 0]]), abs=1e-6)
    assert found.decision == pytest.approx(np.array([[0.311278, 0]]), abs=1e-6)
    assert found.special[:, 0] == pytest.approx(np.array([[0.75, 0], [0.5, 0]]))
    # Of the first model's first head one row has no entropy, the other all of it.
    assert found.entropy[:, 0] == pytest.approx(np.array([[0.5, 0], [0, 0]]))
    # Heads that are not twins: the first of a and the second of b, and the other way round.
    strangers = [jsd(a[0, h, i], b[0, 1 - h, i]) for h in range(2) for i in range(2)]
    assert found.strangers == pytest.approx(np.array([np.mean(strangers)]))
    # [CLS] gets (1 + 1/2 + 0 + 0) / 4 of the first model and (0 + 1 + 0 + 0) / 4 of the second.
    assert found.kinds["[CLS]"] == pytest.approx(np.array([0.375, 0.25]))
    assert found.segments == {}
    alone = measure_heads(a[:, :1], b[:, :1], np.array([0.0, 1.0]), tokens("a b"), 0)
    assert np.isnan(alone.strangers).all()  # there is no other head
    assert alone.kinds == {}


def test_measure_heads_never_draws_the_twin_of_a_head_as_stranger():
    # Two models that are the same, of three heads that differ: a head is at no distance from its twin alone.
    maps = np.eye(3)[np.arange(3)][None, :, None].repeat(3, axis=2)  # head h attends to token h
    drawn = [
        measure_heads(maps, maps, np.eye(3)[0], tokens(f"a b {n}"), n).strangers for n in range(40)
    ]
    assert np.array(drawn) == pytest.approx(np.ones((40, 1)))


def test_select_decision_rows_uses_the_model_with_a_head_or_each_models_own():
    last, first = np.eye(3)[2], np.eye(3)[0]
    headless, headed = (
        SimpleNamespace(rows=first, has_head=False),
        SimpleNamespace(rows=last, has_head=True),
    )
    for pair in ((headless, headed), (headed, headless)):
        assert [rows.tolist() for rows in select_decision_rows(*pair)] == [last.tolist()] * 2
    other = SimpleNamespace(rows=first, has_head=True)
    assert [rows.tolist() for rows in select_decision_rows(headed, other)] == [
        last.tolist(),
        first.tolist(),
    ]


def test_find_significant_corrects_for_the_number_of_columns_by_holm():
    # Six inputs, all of one sign: p = 2 / 2^6 = 0.031. Of two such columns Holm asks for half of 0.05.
    summary = InputStatistics(list(range(6)), 0)
    column = np.linspace(0.1, 0.6, 6)[:, None]
    assert summary.find_significant(column) == [True]
    assert summary.find_significant(np.hstack([column, column])) == [False, False]


def test_measure_heads_segment_shares_of_a_pair_equal_hand_computed_values():
    # [CLS] x [SEP] y: x gives 0.25 to itself and 0.5 to y, y gives all to [SEP].
    texts = (("[CLS]", 0, True), ("x", 0, False), ("[SEP]", 0, True), ("y", 1, False))
    own = [Token(text, None, None, s, special, i) for i, (text, s, special) in enumerate(texts)]
    maps = np.zeros((1, 1, 4, 4))
    maps[0, 0] = [[1, 0, 0, 0], [0.25, 0.25, 0, 0.5], [1, 0, 0, 0], [0, 0, 1, 0]]
    found = measure_heads(maps, maps, np.eye(4)[0], own, 0)
    assert {name: values.tolist() for name, values in found.segments.items()} == {
        "A>A": [0.25, 0.25],
        "A>B": [0.5, 0.5],
        "B>A": [0, 0],
        "B>B": [0, 0],
    }


def test_rank_columns_and_find_moved_columns_separate_only_significant_columns():
    # Twelve inputs: the second column is always 0.1 above the first (p = 2 / 2^12), the third as often above the
    # second as below it, and on average just beneath it.
    first = np.linspace(0.1, 0.5, 12)
    second = first + 0.1
    third = second + np.where(np.arange(12) % 2, 0.2, -0.21)
    values = np.column_stack([first, second, third])
    summary = InputStatistics(list(range(12)), 0)
    means = summary.means(values)
    assert rank_columns(summary, values, means) == [(1, True), (2, True), (0, False)]
    found = find_moved_columns(summary, np.zeros((12, 3)), values - second[:, None])
    assert found == {"more": [], "less": [0], "of": 3}
    assert means[0]["n"] == 12
    assert means[0]["low"] < means[0]["mean"] < means[0]["high"]


def test_compute_word_agreement_of_small_vectors_equals_hand_computed_values():
    scores = np.array([5.0, 4, 3, 2, 1, 0.5, 0.25])
    assert compute_word_agreement(scores, scores) == (1, 1)
    # Strength is by size: the sign turns the order round, and the strongest five stay.
    tau, top = compute_word_agreement(scores, -scores)
    assert (tau, top) == (-1, 1)
    ties = np.array([1.0, 0, 0, 0, 0, 0, 0])
    assert compute_word_agreement(ties, ties) == (1, 1)
    tau, top = compute_word_agreement(scores[:5], scores[:5])
    assert tau == 1
    assert math.isnan(top)  # five words are all among the five strongest
    assert all(math.isnan(one) for one in compute_word_agreement(np.ones(7), scores))
