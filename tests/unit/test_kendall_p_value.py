"""P value of Kendall's tau, counted by hand; NaN where nothing is ranked."""

from itertools import permutations

import numpy as np
import pytest
import scipy.stats

from whence.stats.intervals import kendall_p_value


def test_kendall_p_value_of_four_entries_equals_hand_counted_orders():
    # Of the 24 orders of four entries one has no pair apart, three have one, and as many are as near to the reverse.
    assert kendall_p_value([1, 2, 3, 4], [1, 2, 3, 4])[0] == pytest.approx(2 / 24)
    assert kendall_p_value([1, 2, 3, 4], [2, 1, 3, 4])[0] == pytest.approx(2 * (1 + 3) / 24)
    assert kendall_p_value([1, 2, 3, 4], [4, 3, 2, 1])[0] == pytest.approx(2 / 24)
    # Three pairs apart and three not: as near to chance as can be.
    assert kendall_p_value([1, 2, 3, 4], [4, 1, 2, 3])[0] == 1


def test_kendall_p_value_is_the_share_of_orders_at_least_as_extreme():
    a = np.arange(5)
    every = [scipy.stats.kendalltau(a, b).statistic for b in permutations(range(5))]
    for b in ([0, 1, 3, 2, 4], [4, 2, 3, 1, 0], [1, 0, 4, 3, 2]):
        tau = abs(scipy.stats.kendalltau(a, b).statistic)
        wanted = np.mean(np.abs(every) >= tau - 1e-12)
        assert kendall_p_value(a, b)[0] == pytest.approx(wanted)


def test_kendall_p_value_without_a_ranking_is_nan():
    assert np.isnan(kendall_p_value([[1, 1, 1], [1, 2, np.nan]], [1, 2, 3])).all()
    assert np.isnan(kendall_p_value([1], [2])).all()
