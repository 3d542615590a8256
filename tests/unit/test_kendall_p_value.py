"""P value of Kendall's tau: counted by hand, and equal to scipy's with and without ties."""

from itertools import permutations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.stats.intervals import kendall_p_value

# A sum of integers divided by another, or one value of erfc: a few roundings, in parts of the value.
ROUNDED = 1e-12


def scipy_p_value(a, b):
    with np.errstate(all="ignore"):
        return scipy.stats.kendalltau(a, b).pvalue


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


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_kendall_p_value_with_ties_equals_scipy(data):
    n = data.draw(st.integers(2, 45))
    most = data.draw(st.sampled_from([1, 3, 10, 1000]))
    row = st.lists(st.integers(0, most), min_size=n, max_size=n)
    a, b = data.draw(row), data.draw(row)
    wanted, found = scipy_p_value(a, b), kendall_p_value(a, b)[0]
    assert np.isnan(found) if np.isnan(wanted) else found == pytest.approx(wanted, rel=ROUNDED)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 33, 34, 35, 60, 180, 400])
def test_kendall_p_value_without_ties_equals_scipy(n):
    """Up to 33 entries are counted, above only where one pair at most is apart."""
    draw = np.random.default_rng(n)
    a = np.arange(n, dtype=float)
    swapped = a.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    rows = [a, a[::-1], swapped, swapped[::-1], *(draw.permutation(n) for _ in range(20))]
    found = kendall_p_value(np.stack(rows), a)
    for one, row in zip(found, rows, strict=True):
        # scipy adds up floats where we add integers.
        assert one == pytest.approx(scipy_p_value(row, a), rel=1e-9)
