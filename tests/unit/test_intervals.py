"""Bootstrap and Clopper-Pearson intervals, percentiles, sign-flip tests and Holm: by hand, scipy and coverage."""

from itertools import product
from math import comb

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.seed import build_generator
from whence.stats.intervals import (
    Interval,
    adjust_holm,
    bootstrap,
    clopper_pearson_interval,
    count_needed_examples,
    percentile,
    sign_flip_columns,
    smallest_p_value,
)

# Quotients of sums of at most some hundred terms of one size: a hundred roundings of 1e-16, and a few more.
ROUNDING = 1e-12


# Intervals


def test_bootstrap_interval_of_six_values_equals_quantiles_by_hand():
    # Of 0 and five times 1, drawn six times: at most one 0 with chance (5/6)^6 + (5/6)^5 = 0.74, at most two 0.94, at
    # most three 0.991, none 0.33. A tail of 2.5% ends at three and at none of them.
    assert bootstrap([0, 1, 1, 1, 1, 1], ("toy",)) == Interval(5 / 6, 0.5, 1.0, 6)
    # A tail of 20%: at most one, 0.74, is not yet 80%, so two; none, 0.33, is more than that.
    assert bootstrap([0, 1, 1, 1, 1, 1], ("toy",), level=0.6) == Interval(5 / 6, 4 / 6, 1.0, 6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_bootstrap_of_fewer_than_five_values_has_no_interval(n):
    # Two or three draw nothing but their least with chance 1/4 or 1/27, more than a tail of 2.5%: the interval would
    # be from the least to the greatest, whatever they are. Of four, with 1/256, it is hardly better.
    assert bootstrap(np.arange(n), ("few",)) == Interval((n - 1) / 2, None, None, n)
    assert bootstrap([0.3] * n, ("few",)).low is None
    assert bootstrap(np.arange(5), ("few",)).low is not None


def test_bootstrap_of_no_values_raises_and_of_equal_values_has_no_width():
    assert bootstrap([0.1] * 7, ("same",)).low == bootstrap([0.1] * 7, ("same",)).mean
    with pytest.raises(ValueError, match="no observations"):
        bootstrap([], ("none",))


def test_bootstrap_with_the_same_key_is_equal_and_with_another_differs():
    values = build_generator("values").normal(size=30)
    assert bootstrap(values, ("a", 1)) == bootstrap(values, ("a", 1))
    assert bootstrap(values, ("a", 1)) != bootstrap(values, ("a", 2))


def test_bootstrap_with_a_statistic_draws_whole_rows():
    rows = build_generator("rows").random((20, 2))
    plain = bootstrap(rows[:, 0], ("rows",))
    # The same rows are drawn; a mean along another axis may round differently.
    column = bootstrap(rows, ("rows",), statistic=lambda drawn: float(drawn[:, 0].mean()))
    assert (column.mean, column.low, column.high) == pytest.approx(
        (plain.mean, plain.low, plain.high), abs=ROUNDING
    )
    # A pair is drawn as a pair: the difference of equal columns is 0 in every draw.
    twice = np.stack([rows[:, 0]] * 2, axis=1)
    drawn = bootstrap(twice, ("pair",), statistic=lambda x: float((x[:, 0] - x[:, 1]).sum()))
    assert (drawn.low, drawn.high) == (0.0, 0.0)


def test_bootstrap_interval_covers_the_mean_as_often_as_theory_predicts():
    # Of 40 normal values it is the interval mean ± 1.96 s sqrt(39/40) / sqrt(40), which covers with the chance that
    # |t|, 39 degrees of freedom, is below 1.96 sqrt(39/40) = 1.935: 94.0%. In 1,000 trials that is 940, with a
    # standard deviation of sqrt(1000 · 0.94 · 0.06) = 7.5; four of them on either side.
    wanted = 1000 * (2 * scipy.stats.t(39).cdf(1.96 * np.sqrt(39 / 40)) - 1)
    samples = build_generator("coverage").normal(size=(1000, 40))
    found = [bootstrap(sample, ("coverage", i), draws=500) for i, sample in enumerate(samples)]
    assert abs(sum(one.low <= 0 <= one.high for one in found) - wanted) < 30


@pytest.mark.parametrize("of", [1, 7, 60])
def test_proportions_are_those_of_scipy(of):
    for count in range(of + 1):
        theirs = scipy.stats.binomtest(count, of).proportion_ci(0.95, "exact")
        # scipy searches for the ends to 1e-12 or so; here they are inverted directly.
        assert clopper_pearson_interval(count, of) == pytest.approx(
            (theirs.low, theirs.high), abs=1e-9
        )


def test_clopper_pearson_interval_covers_at_least_its_level():
    # No simulation: the chance of every count is known.
    of = 25
    ends = [clopper_pearson_interval(count, of, 0.9) for count in range(of + 1)]
    covered = [
        sum(
            comb(of, count) * p**count * (1 - p) ** (of - count)
            for count, (low, high) in enumerate(ends)
            if low <= p <= high
        )
        for p in np.linspace(0.005, 0.995, 199)
    ]
    assert min(covered) >= 0.9
    # And not by being too wide: at a half, where counts are fine-grained enough, by little.
    assert covered[99] < 0.96


def test_clopper_pearson_interval_of_half_a_count_spans_both_neighbouring_counts():
    assert clopper_pearson_interval(3.5, 10) == (
        clopper_pearson_interval(3, 10)[0],
        clopper_pearson_interval(4, 10)[1],
    )
    assert clopper_pearson_interval(0.5, 10)[0] == 0.0
    assert clopper_pearson_interval(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match=r"from 0 to 3\. Got 4"):
        clopper_pearson_interval(4, 3)


def test_percentile_counts_ties_as_half_in_both_directions():
    found = percentile(2.0, [1.0, 2.0, 3.0, 0.0], higher_is_better=True)
    assert (found.percent, found.beaten, found.tied, found.of) == (62.5, 2, 1, 4)  # (2 + 1/2) / 4
    # Two of four at least, three at most.
    assert (found.low, found.high) == pytest.approx(
        (100 * clopper_pearson_interval(2, 4)[0], 100 * clopper_pearson_interval(3, 4)[1])
    )
    assert percentile(2.0, [1.0, 2.0, 3.0, 0.0], higher_is_better=False).percent == 37.5
    assert percentile(0.0, [0.0] * 9, higher_is_better=True).percent == 50


def test_percentile_of_values_equal_up_to_rounding_is_a_tie():
    thirds = (0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1)
    assert thirds[0] != thirds[1]
    assert percentile(thirds[0], [thirds[1]], higher_is_better=True).tied == 1
    # Also where what is left of two probabilities is nothing but rounding.
    assert percentile(thirds[0] - thirds[1], [0.0, 0.5, -0.5], higher_is_better=True).percent == 50


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=20))
@settings(deadline=None)
def test_percentiles_of_values_among_the_others_are_uniform_without_ties(values):
    # Each of m + 1 values in turn, among the m others: without ties 0/m, 1/m ... m/m, once each.
    m = len(values) - 1
    found = [
        percentile(value, values[:i] + values[i + 1 :], higher_is_better=True).percent
        for i, value in enumerate(values)
    ]
    assert np.mean(found) == pytest.approx(50)
    if len(set(values)) == len(values):
        assert sorted(found) == pytest.approx([100 * beaten / m for beaten in range(m + 1)])


@pytest.mark.parametrize(("value", "null"), [(1.0, []), (np.nan, [1.0]), (1.0, [np.nan])])
def test_percentile_of_nan_or_of_an_empty_null_raises_value_error(value, null):
    with pytest.raises(ValueError, match="cannot be placed"):
        percentile(value, null, higher_is_better=True)


# Paired tests


def sign_flip(differences, key, draws=10_000):
    """Return the p value of a single column."""
    return sign_flip_columns(np.array(differences, dtype=float)[:, None], key, draws)[0]


def test_sign_flip_of_few_differences_equals_counts_by_hand():
    # Sums of ±1 ±2 ±3: 6 and -6 are as far as 6, of eight ways.
    assert sign_flip([1, 2, 3], ()) == 2 / 8
    # -1 + 2 + 3 = 4: also 6 and -6 and -4.
    assert sign_flip([-1, 2, 3], ()) == 4 / 8
    assert sign_flip([1, 2, 0, 3, 0], ()) == 2 / 8
    assert sign_flip([0.0] * 5, ()) == 1
    assert sign_flip([0.1, 0.2, -0.3], ()) == 1  # the sum is 5e-17 by rounding, and 0 by right


def test_sign_flip_p_value_equals_the_permutation_test_of_scipy():
    differences = build_generator("differences").normal(0.4, 1, 12)
    theirs = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip(differences, ()) == pytest.approx(theirs.pvalue, abs=ROUNDING)


def test_sign_flip_by_draws_is_reproducible_and_near_the_exact_p_value():
    differences = build_generator("differences").normal(0.4, 1, 12)
    exactly = sign_flip(differences, ())
    drawn = sign_flip(differences, ("drawn", 1), draws=4000)
    assert drawn == sign_flip(differences, ("drawn", 1), draws=4000)
    assert drawn != exactly
    # Four standard deviations of a share of 4,000 draws, and the one that is added.
    assert abs(drawn - exactly) < 4 * np.sqrt(exactly * (1 - exactly) / 4000) + 1 / 4000


def test_sign_flip_by_draws_returns_at_least_one_over_draws_plus_one():
    # None of 1,000 draws out of 2^40 has all signs alike.
    assert sign_flip([1.0] * 40, ("zero",), draws=1000) == 1 / 1001


def test_sign_flip_p_values_are_uniform_without_a_difference():
    # Every way to set six signs is as likely, and no two sums but those of opposite signs are as large: each of the
    # 32 values of p that are possible comes twice.
    sizes = np.array([1, 2, 4, 8, 16, 32])
    found = [sign_flip(sizes * signs, ()) for signs in product([-1, 1], repeat=6)]
    assert sorted(found) == sorted(2 * [2 * rank / 64 for rank in range(1, 33)])


def test_smallest_p_value_equals_sign_flip_of_all_positive_differences():
    for n in range(1, 12):
        assert smallest_p_value(n) == sign_flip(np.arange(1, n + 1), ())


def test_count_needed_examples_is_the_least_that_can_be_significant_after_holm():
    # One comparison: 2 / 2^6 = 0.031, and 2 / 2^5 = 0.0625. Three: 6 / 2^7 = 0.047, and 6 / 2^6 = 0.094.
    assert [count_needed_examples(1, 0.05), count_needed_examples(3, 0.05)] == [6, 7]
    # 24 methods: 24 + 276 = 300 comparisons, 600 / 2^14 = 0.037, and 600 / 2^13 = 0.073.
    assert count_needed_examples(300, 0.05) == 14
    for comparisons in range(1, 40):
        n = count_needed_examples(comparisons, 0.05)
        assert min(adjust_holm([smallest_p_value(n)] * comparisons)) < 0.05
        assert min(adjust_holm([smallest_p_value(n - 1)] * comparisons)) >= 0.05


def test_adjust_holm_of_few_p_values_equals_values_by_hand():
    # In order 0.01 · 4, 0.02 · 3, 0.03 · 2 (no smaller than 0.06), 0.5 · 1.
    assert adjust_holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert adjust_holm([0.9, 0.8]) == [1.0, 1.0]
    assert adjust_holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(deadline=None)
def test_adjust_holm_keeps_the_order_and_corrects_no_more_than_bonferroni(p_values):
    found = np.array(adjust_holm(p_values))
    order = np.argsort(p_values)
    assert (np.diff(found[order]) >= 0).all()
    assert (found >= p_values).all()
    assert (found <= np.minimum(1, len(p_values) * np.array(p_values))).all()
