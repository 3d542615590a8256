"""Faithfulness metrics loo_correlation, infidelity and precision_at_k by hand; rules common to all such metrics."""

import numpy as np
import pytest

from tests.formula_trials import (
    DOWN,
    FALLS,
    UP,
    assert_close,
    falling_probabilities,
    outcome,
    trial_of,
)
from whence.metrics import metric

FAITHFULNESS = [
    entry.name
    for entry in metric
    if entry.facts["kind"] == "faithfulness" and entry.facts.get("takes") != "picture"
]


# --- agreement with leave-one-out ---


def test_loo_correlation_equals_kendall_tau_by_hand_with_and_without_ties():
    # Of 6 pairs: all agree; none does; [4, 3, 1, 2] has one turned round: 5 - 1.
    found = outcome("loo_correlation", [DOWN, UP, [4, 3, 1, 2]])
    assert_close(found.values, [1, -1, 4 / 6])
    # One tie among the scores: 5 agree; 5 pairs differ in the scores, 6 in the falls.
    assert_close(outcome("loo_correlation", [2, 2, 1, 0]).values, [5 / (5 * 6) ** 0.5])


def test_loo_correlation_compares_unsigned_scores_with_magnitudes_of_falls():
    # Magnitudes 0.4 0.5 0.1 0 rank as the scores do; with signs, the second is lowest and loses its 3 pairs.
    falls = falling_probabilities((0.4, -0.5, 0.1, 0.0), start=0.5)
    found = outcome("loo_correlation", [[3, 4, 2, 1]] * 2, falls, signed=(False, True))
    assert_close(found.values, [1, (3 - 3) / 6])


def test_loo_correlation_with_equal_falls_gives_the_reason_and_no_value():
    why = "Removing any one token changes the model's answer by as much: there is nothing to agree with."
    found = outcome("loo_correlation", [DOWN, [1, 1, 1, 1]], falling_probabilities((0.1,) * 4))
    assert found.why_not == {0: why, 1: "All scores are equal: there is no ranking to test."}
    # Magnitudes that are all the same, of falls that are not.
    mixed = falling_probabilities((0.25, -0.25, 0.25, -0.25), start=0.5)
    found = outcome("loo_correlation", [DOWN, DOWN], mixed, signed=(False, True))
    assert found.why_not == {0: why}
    assert np.isnan(found.values).tolist() == [True, False]


# --- infidelity ---


# Two units that cost 0.4 and 0.2: the sets {0}, {1} and {0, 1} cost 0.4, 0.2 and 0.6. Both sizes weigh a half.
TWO = falling_probabilities((0.4, 0.2))


def test_infidelity_equals_values_by_hand_at_the_best_scale():
    # (2, 1) is right up to β = 0.2, in any unit. (1, 0) sums to 1, 0, 1: β = (0.4/4 + 0.6/2) / (1/4 + 1/2) = 8/15,
    # and (8/15 - 6/15)²/4 + 0.2²/4 + (8/15 - 9/15)²/2 = 1/225 + 1/100 + 1/450 = 1/60.
    found = outcome("infidelity", [[2, 1], [2000, 1000], [1, 0]], TWO)
    assert_close(found.values, [0, 0, 1 / 60])


def test_infidelity_of_reversed_scores_uses_scale_zero_and_no_negative_one():
    # The best β is negative, so 0: what is left is 0.4²/4 + 0.2²/4 + 0.6²/2.
    assert_close(outcome("infidelity", [-2, -1], TWO).values, [0.04 + 0.01 + 0.18])


def test_infidelity_without_normalise_takes_scores_unscaled():
    # (0.4 - 1)²/4 + 0.2²/4 + (0.6 - 1)²/2
    found = outcome("infidelity", [1, 0], TWO, params={"normalise": False})
    assert_close(found.values, [0.09 + 0.01 + 0.08])


def test_infidelity_draws_the_same_distinct_sets_for_all_explanations():
    rows = np.random.default_rng(0).normal(size=(5, 12))
    trial, model = trial_of(rows, falling_probabilities([0.01 * u for u in range(12)]))
    together = metric.get("infidelity").fn(trial, samples=100).values
    ((*asked,),) = model.asked
    assert len(asked) == len(set(asked)) == 100
    # 12 sizes share 100 sets; of the largest there are only 1 and 12, which all are there, and no set is empty.
    sizes = np.bincount([len(one) for one in asked], minlength=13)
    assert sizes[[0, 12]].tolist() == [0, 1]
    assert sizes[1:12].min() >= 8
    for row, value in zip(rows, together, strict=True):
        alone, _ = trial_of(row, falling_probabilities([0.01 * u for u in range(12)]))
        assert_close(metric.get("infidelity").fn(alone, samples=100).values, [value])


def test_infidelity_of_equal_scores_gives_the_reason_and_no_value():
    found = outcome("infidelity", [[1, 1], [2, 1]], TWO)
    assert list(found.why_not) == [0]
    assert found.why_not[0].startswith("All scores are equal: dealt out anew they are the same")


# --- precision at k ---


@pytest.mark.parametrize(
    ("k", "of", "wanted"),
    [
        # Units 0 and 2 are marked; DOWN ranks 0 1 2 3.
        (2, "precision", 1 / 2), (2, "count", 1), (2, "recall", 1 / 2),
        (3, "precision", 2 / 3), (3, "count", 2), (3, "recall", 1),
        (20, "precision", 2 / 4), (20, "count", 2), (20, "recall", 1),
    ],
)  # fmt: skip
def test_precision_at_k_as_precision_count_and_recall_equals_values_by_hand(k, of, wanted):
    marked = (True, False, True, False)
    found = outcome("precision_at_k", DOWN, marked=marked, params={"k": k, "of": of})
    assert_close(found.values, [wanted])


@pytest.mark.parametrize("marked", [None, (False,) * 4, (True,) * 4])
def test_precision_at_k_without_a_usable_rationale_gives_the_reason(marked):
    assert "human rationale" in outcome("precision_at_k", DOWN, marked=marked).why_not[0]


# --- all of them ---


@pytest.mark.parametrize("name", FAITHFULNESS)
@pytest.mark.parametrize(
    ("scores", "why"),
    [
        (np.empty((2, 0)), "The input has no token that can be removed."),
        ([[1.0], [2.0]], "The input has only one token that can be removed: there is nothing to rank."),
        ([[3.0] * 4, [0.0] * 4], "All scores are equal"),
    ],
)  # fmt: skip
def test_metrics_of_inputs_with_nothing_to_rank_give_nan_and_the_reason(name, scores, why):
    rows = np.asarray(scores)
    marked = (True, False, True, False)[: rows.shape[1]]
    found = outcome(name, rows, falling_probabilities([0.1] * rows.shape[1]), marked=marked)
    assert np.isnan(found.values).all()
    assert set(found.why_not) == {0, 1}
    assert all(sentence.startswith(why) for sentence in found.why_not.values())


@pytest.mark.parametrize("name", sorted({*FAITHFULNESS} - {"infidelity", "loo_correlation"}))
def test_ranking_metrics_of_equal_scores_ask_no_model_query(name):
    """Those two ask what has nothing to do with the ranking."""
    trial, model = trial_of([[3.0] * 4], marked=(True, False, True, False))
    metric.get(name).fn(trial)
    assert not model.asked


@pytest.mark.parametrize("name", FAITHFULNESS)
def test_metrics_beside_an_explanation_of_equal_scores_keep_their_value(name):
    marked = (True, False, True, False)
    alone = outcome(name, [DOWN], marked=marked)
    found = outcome(name, [[0.0] * 4, DOWN], marked=marked)
    assert list(found.why_not) == [0]
    assert found.values[1] == alone.values[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("flip", "A regression predicts no label that could change."),
        ("log_odds", "A regression has no probability to take the logarithm of."),
    ],
)
def test_flip_and_log_odds_of_a_regression_give_the_reason(name, why):
    found = outcome(name, [DOWN, UP], lambda gone: [5.0 - len(gone)], task="regression")
    assert dict(found.why_not) == {0: why, 1: why}


def test_comprehensiveness_of_a_contrast_doubles_and_log_odds_gives_the_reason():
    # p - (1 - p) = 2 p - 1 falls twice as fast.
    assert_close(outcome("comprehensiveness", DOWN, against=1).values, [2 * (4 * 0.4 + 0.6) / 5])
    why = "A difference of two labels is no probability to take the logarithm of."
    assert outcome("log_odds", DOWN, against=1).why_not == {0: why}


@pytest.mark.parametrize("name", sorted({*FAITHFULNESS} - {"flip", "precision_at_k"}))
def test_metrics_of_a_thousand_null_rankings_ask_one_batch_of_distinct_queries(name):
    trial, model = trial_of(np.arange(50), falling_probabilities([0.01] * 50))
    found = metric.get(name).fn(trial.null(1000))
    assert found.values.shape == (1000,)
    assert len(model.asked) == 1
    assert len(model.asked[0]) == len(set(model.asked[0]))


def test_removal_delete_without_special_tokens_leaves_one_token():
    """Where there are no special tokens, the last of the ranking stays: nothing at all cannot be asked about."""

    def shares(gone):
        assert len(gone) < 4
        return falling_probabilities(FALLS)(gone)

    trial, model = trial_of(DOWN, shares, how="delete", special=())
    assert_close(metric.get("deletion").fn(trial).curves, [[0.9, 0.5, 0.3, 0.2, 0.2]])
    assert_close(metric.get("insertion").fn(trial).curves, [[0.6, 0.6, 0.8, 0.9, 0.9]])
    for name in ("comprehensiveness", "sufficiency", "aopc", "log_odds", "flip", "infidelity"):
        assert np.isfinite(metric.get(name).fn(trial).values).all()
    assert max(len(gone) for some in model.asked for gone in some) == 3
