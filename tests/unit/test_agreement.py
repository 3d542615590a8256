"""Agreement metrics between explanations: values computed by hand, and scipy's on real explanations."""

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

import whence
from tests.repeat_trials import build_trial, outcome
from whence.core.errors import BadParameter
from whence.core.registry import resolve_parameters
from whence.metrics import build_null_trial, metric

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
def test_agreement_metric_of_three_explanations_equals_hand_computed_pairs(name):
    found = outcome(name, build_trial(ROWS), **params_of(name))
    pairs = np.array(PAIRS[name])
    assert found.pairs == pytest.approx(pairs)
    # The mean of the two others in each row.
    assert found.values == pytest.approx((pairs.sum(1) - 1) / 2)


def test_pearson_depends_on_score_sizes_and_spearman_only_on_ranks():
    # Less their means of 1 the rows are -1 0 1 and -1 -1 2: covariance 3, lengths √2 and √6, so 3 / √12.
    found = outcome("pearson", build_trial([[0, 1, 2], [0, 0, 3]]))
    assert found.values == pytest.approx([3 / 12**0.5] * 2)
    found = outcome("pearson", build_trial([[0, 1, 2], [0, 1, 20]]))
    assert found.values[0] < 0.9
    assert outcome("spearman", build_trial([[0, 1, 2], [0, 1, 20]])).values == pytest.approx([1, 1])


@pytest.mark.parametrize("name", AGREEMENT)
def test_agreement_with_an_explanation_of_equal_scores_has_no_value(name):
    found = outcome(name, build_trial([*ROWS[:2], [5, 5, 5, 5]]), **params_of(name))
    assert found.values[:2] == pytest.approx([PAIRS[name][0][1]] * 2)
    assert "All scores are equal" in found.why_not[2]
    assert np.isnan(found.pairs[2, :2]).all() and np.isnan(found.pairs[:2, 2]).all()
    alone = outcome(name, build_trial([ROWS[0], [5, 5, 5, 5]]), **params_of(name))
    assert "No other explanation" in alone.why_not[0]


@pytest.mark.parametrize("name", AGREEMENT)
def test_agreement_of_one_explanation_or_one_token_gives_a_reason(name):
    assert "only explanation" in outcome(name, build_trial([range(9)])).why_not[0]
    assert (
        "only one token" in outcome(name, build_trial([[1, 2], [2, 1]], units=((1,),))).why_not[1]
    )
    assert "no token" in outcome(name, build_trial([[1, 2], [2, 1]], units=())).why_not[1]


def test_top_k_overlap_with_k_above_the_token_count_gives_a_reason():
    said = "The input has 4 tokens: all of them are among the 5 highest."
    assert set(outcome("top_k_overlap", build_trial(ROWS)).why_not.values()) == {said}
    assert not outcome("top_k_overlap", build_trial(ROWS), k=3).why_not
    with pytest.raises(BadParameter):
        resolve_parameters("top_k_overlap", metric.get("top_k_overlap").parameters, {"k": 0})


def test_top_k_overlap_shares_the_last_place_among_tied_tokens():
    # One place for the tokens 0 and 1, which score the same: half of it meets the other's token 0.
    found = outcome("top_k_overlap", build_trial([[2, 2, 1], [3, 1, 2]]), k=1)
    assert found.values == pytest.approx([0.5, 0.5])
    assert found.pairs.diagonal().tolist() == [1, 1]


@pytest.mark.parametrize("name", AGREEMENT)
def test_agreement_is_unchanged_by_affine_and_for_ranks_by_monotone_transforms(name):
    rows = np.array(ROWS, dtype=float)
    moved = outcome(name, build_trial([rows[0], rows[1] * 3 + 7, rows[2]]), **params_of(name))
    assert moved.pairs == pytest.approx(np.array(PAIRS[name]))
    if name != "pearson":
        moved = outcome(
            name, build_trial([np.exp(rows[0]), rows[1], rows[2] ** 3]), **params_of(name)
        )
        assert moved.pairs == pytest.approx(np.array(PAIRS[name]))


@pytest.mark.parametrize("name", AGREEMENT)
def test_agreement_null_over_all_24_rankings_equals_the_exact_value(name):
    # All 24 rankings of 4 tokens, each once: against the 23 others, -1/23 on average for a correlation, as all 24
    # cancel. Of 2 places in 4 half overlap with all 24, itself with 2 of 2: (24 · 1/2 - 1) / 23.
    entry = metric.get(name)
    null = entry.fn(build_null_trial(entry, build_trial(ROWS), 0, 24), **params_of(name))
    wanted = 11 / 23 if name == "top_k_overlap" else -1 / 23
    assert null.values == pytest.approx([wanted] * 24)


@pytest.mark.parametrize("name", sorted(SCIPY))
def test_correlations_of_real_explanations_equal_those_of_scipy(name):
    methods = ["attcat", "gradient", "integrated_gradients", "raw_attention"]
    ((_, trial, given),) = whence.load("reviews", dtype="float64").trials([TEXT], method=methods)
    found = outcome(name, trial)
    scores = [given[one].scores[1:-1] for one in methods]  # without [CLS] and [SEP]
    for a in range(4):
        pairs = [SCIPY[name](scores[a], scores[b]).statistic for b in range(4)]
        assert found.pairs[a] == pytest.approx(pairs, abs=1e-12)
        assert found.values[a] == pytest.approx((sum(pairs) - 1) / 3, abs=1e-12)
