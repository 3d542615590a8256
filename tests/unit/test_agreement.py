"""Agreement between explanations: by hand, and against scipy on real ones."""

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

import whence
from tests.remade import outcome, remade
from whence.core.errors import BadParameter
from whence.core.params import checked
from whence.metrics import metric, null_of

TEXT = "the plot is thin, but the actors are wonderful"
SCIPY = {"tau_b": kendalltau, "pearson": pearsonr, "spearman": spearmanr}
AGREEMENT = ("tau_b", "top_k_overlap", "pearson", "spearman")

# Three explanations of four tokens.
ROWS = [[1, 2, 3, 4], [1, 2, 4, 3], [4, 3, 2, 1]]
PAIRS = {
    # Of 6 pairs, rows 0 and 1 have one in opposite order: (5 - 1) / 6. Row 2 is row 0 upside down.
    "tau_b": [[1, 2 / 3, -1], [2 / 3, 1, -2 / 3], [-1, -2 / 3, 1]],
    # Differences of ranks 0 0 1 1: 1 - 6 · 2 / (4 · 15) = 0.8. The scores are ranks, so pearson is the same.
    "spearman": [[1, 0.8, -1], [0.8, 1, -0.8], [-1, -0.8, 1]],
    "pearson": [[1, 0.8, -1], [0.8, 1, -0.8], [-1, -0.8, 1]],
    # The highest two are 2 3, 2 3 and 0 1.
    "top_k_overlap": [[1, 1, 0], [1, 1, 0], [0, 0, 1]],
}


def params_of(name):
    return {"k": 2} if name == "top_k_overlap" else {}


@pytest.mark.parametrize("name", AGREEMENT)
def test_by_hand(name):
    found = outcome(name, remade(ROWS), **params_of(name))
    pairs = np.array(PAIRS[name])
    assert found.pairs == pytest.approx(pairs)
    # The mean of the two others in each row.
    assert found.values == pytest.approx((pairs.sum(1) - 1) / 2)


def test_pearson_sees_sizes():
    # Less their means of 1 the rows are -1 0 1 and -1 -1 2: covariance 3, lengths √2 and √6, so 3 / √12.
    found = outcome("pearson", remade([[0, 1, 2], [0, 0, 3]]))
    assert found.values == pytest.approx([3 / 12**0.5] * 2)
    found = outcome("pearson", remade([[0, 1, 2], [0, 1, 20]]))
    assert found.values[0] < 0.9
    assert outcome("spearman", remade([[0, 1, 2], [0, 1, 20]])).values == pytest.approx([1, 1])


@pytest.mark.parametrize("name", AGREEMENT)
def test_one_that_ranks_nothing_agrees_with_none(name):
    found = outcome(name, remade([*ROWS[:2], [5, 5, 5, 5]]), **params_of(name))
    assert found.values[:2] == pytest.approx([PAIRS[name][0][1]] * 2)
    assert "All scores are equal" in found.why_not[2]
    assert np.isnan(found.pairs[2, :2]).all() and np.isnan(found.pairs[:2, 2]).all()
    alone = outcome(name, remade([ROWS[0], [5, 5, 5, 5]]), **params_of(name))
    assert "No other explanation" in alone.why_not[0]


@pytest.mark.parametrize("name", AGREEMENT)
def test_nothing_to_agree_on(name):
    assert "only explanation" in outcome(name, remade([range(9)])).why_not[0]
    assert "only one token" in outcome(name, remade([[1, 2], [2, 1]], units=((1,),))).why_not[1]
    assert "no token" in outcome(name, remade([[1, 2], [2, 1]], units=())).why_not[1]


def test_all_tokens_are_among_the_highest():
    said = "The input has 4 tokens: all of them are among the 5 highest."
    assert set(outcome("top_k_overlap", remade(ROWS)).why_not.values()) == {said}
    assert not outcome("top_k_overlap", remade(ROWS), k=3).why_not
    with pytest.raises(BadParameter):
        checked("top_k_overlap", metric.get("top_k_overlap").parameters, {"k": 0})


def test_ties_at_the_edge_are_shared_out():
    # One place for the tokens 0 and 1, which score the same: half of it meets the other's token 0.
    found = outcome("top_k_overlap", remade([[2, 2, 1], [3, 1, 2]]), k=1)
    assert found.values == pytest.approx([0.5, 0.5])
    assert found.pairs.diagonal().tolist() == [1, 1]


@pytest.mark.parametrize("name", AGREEMENT)
def test_monotone_transforms(name):
    rows = np.array(ROWS, dtype=float)
    moved = outcome(name, remade([rows[0], rows[1] * 3 + 7, rows[2]]), **params_of(name))
    assert moved.pairs == pytest.approx(np.array(PAIRS[name]))
    if name != "pearson":
        moved = outcome(name, remade([np.exp(rows[0]), rows[1], rows[2] ** 3]), **params_of(name))
        assert moved.pairs == pytest.approx(np.array(PAIRS[name]))


@pytest.mark.parametrize("name", AGREEMENT)
def test_null(name):
    # All 24 rankings of 4 tokens, each once: against the 23 others, -1/23 on average for a correlation, as all 24
    # cancel. Of 2 places in 4 half overlap with all 24, itself with 2 of 2: (24 · 1/2 - 1) / 23.
    entry = metric.get(name)
    null = entry.fn(null_of(entry, remade(ROWS), 0, 24), **params_of(name))
    wanted = 11 / 23 if name == "top_k_overlap" else -1 / 23
    assert null.values == pytest.approx([wanted] * 24)


@pytest.mark.parametrize("name", sorted(SCIPY))
def test_equals_scipy_on_real_explanations(name):
    methods = ["attcat", "gradient", "integrated_gradients", "raw_attention"]
    ((_, trial, given),) = whence.load("reviews", dtype="float64").trials([TEXT], method=methods)
    found = outcome(name, trial)
    scores = [given[one].scores[1:-1] for one in methods]  # without [CLS] and [SEP]
    for a in range(4):
        pairs = [SCIPY[name](scores[a], scores[b]).statistic for b in range(4)]
        assert found.pairs[a] == pytest.approx(pairs, abs=1e-12)
        assert found.values[a] == pytest.approx((sum(pairs) - 1) / 3, abs=1e-12)
