"""Faithfulness metrics of removal (comprehensiveness, deletion, AOPC, log-odds, flip ...) equal values by hand."""

from decimal import Decimal
from math import log

import numpy as np
import pytest

from tests.formula_trials import DOWN, UP, assert_close, falling_probabilities, outcome, trial_of
from whence.core.errors import BadParameter
from whence.metrics import metric
from whence.metrics._steps import build_even_counts, count_units

# --- comprehensiveness and sufficiency ---


def test_comprehensiveness_with_two_bins_equals_values_by_hand():
    # A quarter of 4 is 1 unit, a half is 2. DOWN loses 0.4, then 0.4 + 0.2; UP loses 0.0, then 0.0 + 0.1.
    found = outcome("comprehensiveness", [DOWN, UP], params={"bins": "0.25,0.5"})
    assert_close(found.values, [(0.4 + 0.6) / 2, (0.0 + 0.1) / 2])
    assert_close(found.at, [0, 0.25, 0.5])
    assert_close(found.curves, [[0.9, 0.5, 0.3], [0.9, 0.9, 0.8]])
    # The paper divides by 3: the share 0 counts.
    found = outcome("comprehensiveness", DOWN, params={"bins": "0.25,0.5", "averaging": "paper"})
    assert_close(found.values, [(0 + 0.4 + 0.6) / 3])


def test_comprehensiveness_rounds_shares_up_to_whole_features():
    # 0.01, 0.05, 0.1 and 0.2 of 4 units are 1 unit each, a half is 2.
    assert_close(outcome("comprehensiveness", DOWN).values, [(4 * 0.4 + 0.6) / 5])


def test_sufficiency_with_two_bins_equals_values_by_hand():
    # DOWN keeps the unit of 0.4: 0.2 + 0.1 go; then those of 0.4 and 0.2: 0.1 goes. UP keeps 0.0: 0.7 goes; then 0.6.
    found = outcome("sufficiency", [DOWN, UP], params={"bins": "0.25,0.5"})
    assert_close(found.values, [(0.3 + 0.1) / 2, (0.7 + 0.6) / 2])
    assert_close(found.at, [0.25, 0.5, 1])
    assert_close(found.curves, [[0.6, 0.8, 0.9], [0.2, 0.3, 0.9]])
    found = outcome("sufficiency", DOWN, params={"bins": "0.25,0.5", "averaging": "paper"})
    assert_close(found.values, [(0 + 0.3 + 0.1) / 3])


def test_count_units_of_decimal_shares_has_no_rounding_error():
    assert 0.07 * 100 > 7  # so it is in floating point, and would be rounded up to 8
    assert count_units(Decimal("0.07"), 100) == 7
    assert count_units(Decimal("0.1"), 30) == 3
    assert count_units(Decimal("0.01"), 101) == 2
    assert [count_units(Decimal(share), 7) for share in ("0", "1")] == [0, 7]


@pytest.mark.parametrize("name", ["comprehensiveness", "sufficiency"])
@pytest.mark.parametrize(
    "bins", ["", "half", "1.5", "-0.1", "0.1,", "0.5,0.1", "0.1,0.1", "nan", "inf", "1e999999999"]
)
def test_bins_that_are_no_rising_shares_raise_bad_parameter(name, bins):
    with pytest.raises(BadParameter) as caught:
        outcome(name, DOWN, params={"bins": bins})
    assert f"The 'bins' parameter of {name} must be rising shares" in str(caught.value)
    assert str(caught.value).endswith(f"Got {bins!r}.")


# --- deletion and insertion ---


def test_deletion_and_insertion_in_four_steps_equal_values_by_hand():
    # DOWN: 0.9 0.5 0.3 0.2 0.2, a quarter apart: 0.25 (0.45 + 0.5 + 0.3 + 0.2 + 0.1).
    found = outcome("deletion", DOWN, params={"steps": 4})
    assert_close(found.at, [0, 0.25, 0.5, 0.75, 1])
    assert_close(found.curves, [[0.9, 0.5, 0.3, 0.2, 0.2]])
    assert_close(found.values, [0.25 * 1.55])
    # And back in: 0.2 0.6 0.8 0.9 0.9: 0.25 (0.1 + 0.6 + 0.8 + 0.9 + 0.45).
    found = outcome("insertion", DOWN, params={"steps": 4})
    assert_close(found.at, [0, 0.25, 0.5, 0.75, 1])
    assert_close(found.curves, [[0.2, 0.6, 0.8, 0.9, 0.9]])
    assert_close(found.values, [0.25 * 2.85])


def test_deletion_rounds_steps_up_and_insertion_takes_the_steps_in_reverse():
    assert build_even_counts(4, 3) == [2, 3, 4]  # 4/3, 8/3, 12/3
    # 0.9 at 0, 0.3 at 2/4, 0.2 at 3/4, 0.2 at 1: 0.5 · 0.6 + 0.25 · 0.25 + 0.25 · 0.2
    assert_close(outcome("deletion", DOWN, params={"steps": 3}).values, [0.3 + 0.0625 + 0.05])
    # 4, 3, 2 and 0 are missing: 0.2 at 0, 0.6 at 1/4, 0.8 at 2/4, 0.9 at 1: 0.25 · 0.4 + 0.25 · 0.7 + 0.5 · 0.85
    assert_close(outcome("insertion", DOWN, params={"steps": 3}).values, [0.1 + 0.175 + 0.425])


@pytest.mark.parametrize("name", ["deletion", "insertion", "aopc", "log_odds"])
def test_metrics_with_more_steps_than_features_equal_one_step_per_feature(name):
    assert build_even_counts(4, 10) == build_even_counts(4, 4) == [1, 2, 3, 4]
    many, few = (outcome(name, DOWN, params={"steps": steps}) for steps in (10, 4))
    assert many.values.tolist() == few.values.tolist()
    assert many.at.tolist() == few.at.tolist()


def test_insertion_of_reversed_null_rankings_asks_no_query_beyond_those_of_deletion():
    trial, model = trial_of(np.arange(37), falling_probabilities([0.01] * 37))
    metric.get("deletion").fn(trial.null(50))
    before = len(model.asked)
    metric.get("insertion").fn(trial.null(50, reverse=True))
    assert len(model.asked) == before


# --- AOPC and log-odds ---


def test_aopc_in_four_steps_equals_the_mean_fall_by_hand():
    # DOWN: 0.4, 0.6, 0.7 and 0.7 are lost.
    found = outcome("aopc", DOWN, params={"steps": 4})
    assert_close(found.values, [(0.4 + 0.6 + 0.7 + 0.7) / 4])
    assert_close(found.at, [0, 0.25, 0.5, 0.75, 1])
    assert_close(found.curves, [[0.9, 0.5, 0.3, 0.2, 0.2]])


def test_aopc_subtracts_a_rise_by_default_and_adds_the_rise_with_absolute_true():
    # UP: -0.05, 0.05, 0.25 and 0.65 are lost.
    rising = falling_probabilities((0.4, 0.2, 0.1, -0.05))
    assert_close(outcome("aopc", UP, rising).values, [(-0.05 + 0.05 + 0.25 + 0.65) / 4])
    found = outcome("aopc", UP, rising, params={"absolute": True})
    assert_close(found.values, [(0.05 + 0.05 + 0.25 + 0.65) / 4])


def test_log_odds_equals_the_mean_logarithm_of_ratios_by_hand():
    # ln of 0.5, 0.3, 0.2 and 0.2, each over 0.9
    wanted = (log(0.5 / 0.9) + log(0.3 / 0.9) + 2 * log(0.2 / 0.9)) / 4
    assert_close(outcome("log_odds", DOWN).values, [wanted])


def test_log_odds_of_probability_zero_counts_as_smallest_float32():
    # 0.5, then 0 three times, which counts as the smallest that float32 holds: 2^-126.
    found = outcome("log_odds", [1, 2, 3, 4], falling_probabilities((0, 0, 0.5, 0.5), start=1.0))
    assert_close(found.values, [(log(0.5) + 3 * -126 * log(2)) / 4])


@pytest.mark.parametrize(
    ("special", "reached"),
    [
        # 10 places, 9 steps: round(10 i / 9) = 1 2 3 4 6 7 8 9 10. A special token is last: all 8 units can go.
        ((0.5, -1.0), [1, 2, 3, 4, 6, 7, 8, 8, 8]),
        # The last place is a unit, which stays.
        ((1.5, 99.0), [1, 2, 3, 4, 6, 7, 7, 7, 7]),
    ],
)
def test_aopc_and_log_odds_with_counting_attcat_equal_values_by_hand(special, reached):
    more = {"special": special, "shares": falling_probabilities([0.1] * 8)}
    found = outcome("aopc", range(8, 0, -1), params={"steps": 9, "counting": "attcat"}, **more)
    assert_close(found.curves, [[0.9, *(0.9 - 0.1 * gone for gone in reached)]])
    assert_close(found.values, [0.1 * sum(reached) / 9])
    assert_close(found.at, [0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1])
    found = outcome("log_odds", range(8, 0, -1), params={"steps": 9, "counting": "attcat"}, **more)
    assert_close(found.values, [sum(log((0.9 - 0.1 * gone) / 0.9) for gone in reached) / 9])


@pytest.mark.parametrize("name", ["aopc", "log_odds"])
def test_counting_attcat_skips_inputs_of_fewer_than_ten_tokens(name):
    found = outcome(
        name, range(7), falling_probabilities([0.1] * 7), params={"steps": 9, "counting": "attcat"}
    )
    assert found.why_not[0] == (
        "The input has 9 tokens with special ones; the authors of AttCAT skip inputs of fewer than 10."
    )


# --- flip ---


def test_flip_equals_the_share_of_features_removed_until_the_label_changes():
    # DOWN: 0.6, then 0.4: two of four units. UP: 0.9, 0.8, 0.6, 0.3: all four.
    assert_close(
        outcome("flip", [DOWN, UP], falling_probabilities((0.3, 0.2, 0.1, 0.0))).values, [0.5, 1.0]
    )


def test_flip_of_a_prediction_that_never_changes_is_one():
    assert_close(outcome("flip", DOWN, falling_probabilities((0, 0, 0, 0))).values, [1.0])


def test_flip_counts_the_first_change_of_a_label_that_changes_back():
    def there_and_back(gone):
        return [0.4, 0.6] if len(gone) == 30 else [0.6, 0.4]

    assert_close(outcome("flip", np.arange(40), there_and_back).values, [30 / 40])


def test_flip_asks_at_most_ten_percent_more_queries_than_needed():
    # The n-th explanation flips when unit 0 goes, which it ranks n-th.
    places = [1, 2, 10, 25, 50, 99]
    rows = [[101.5 - place, *range(100, 1, -1)] for place in places]
    trial, model = trial_of(rows, lambda gone: [0.4, 0.6] if 0 in gone else [0.6, 0.4])
    found = metric.get("flip").fn(trial)
    assert_close(found.values, [place / 100 for place in places])
    asked = sum(map(len, model.asked))
    # The rankings share what they have in common: the longest needs 99, and every other one question of its own.
    needed = 99 + len(places) - 1
    assert needed <= asked <= 1.1 * needed
    assert len(model.asked) < 45  # all explanations at a time, and blocks that grow
