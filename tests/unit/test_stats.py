"""Ranks, intervals, paired tests, spans: by hand, against scipy and scikit-learn, and by what must hold of them."""

import sys
from itertools import combinations, pairwise, product
from math import comb
from subprocess import check_output

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.seed import generator
from whence.stats import (
    Counts,
    Interval,
    Rates,
    auprc,
    average_precision,
    bootstrap,
    entropy,
    exact,
    holm,
    kendall,
    kl,
    least_p,
    macro,
    macro_of_means,
    micro,
    needed,
    over_bins,
    overlapping,
    pearson,
    percentile,
    proportion,
    ranks,
    roc_auc,
    runs,
    sign_flip,
    spearman,
    tokens,
    top_k_overlap,
)

CORRELATIONS = {
    kendall: scipy.stats.kendalltau,
    spearman: scipy.stats.spearmanr,
    pearson: scipy.stats.pearsonr,
}
# Quotients of sums of at most some hundred terms of one size: a hundred roundings of 1e-16, and a few more.
ROUNDING = 1e-12


FEW = st.integers(-3, 3)


def varied(values):
    return len(set(values)) > 1


@st.composite
def two_rows(draw, values=FEW):
    """Two rows of one length with many ties, neither of them constant."""
    n = draw(st.integers(2, 12))
    row = st.lists(values, min_size=n, max_size=n).filter(varied)
    return draw(row), draw(row)


def test_importing_it_is_cheap():
    # scipy.stats takes most of a second, and torch more.
    code = "import sys, whence.stats; print([m for m in ('scipy', 'torch') if m in sys.modules])"
    assert check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# Ranks


def test_kendall_by_hand():
    # Pairs of (1, 2, 3) and (1, 3, 2): two in order, one not: (2 - 1) / 3.
    assert kendall([1, 2, 3], [1, 3, 2]) == pytest.approx([1 / 3])
    # (1, 1, 2) and (1, 2, 3): two in order, one tied on the left: 2 / sqrt(2 · 3).
    assert kendall([1, 1, 2], [1, 2, 3]) == pytest.approx([2 / np.sqrt(6)])


@given(two_rows())
@settings(deadline=None)
def test_correlations_are_those_of_scipy(rows):
    a, b = rows
    for ours, theirs in CORRELATIONS.items():
        assert ours(a, b) == pytest.approx([theirs(a, b).statistic], abs=ROUNDING)


@given(two_rows(st.floats(-1e3, 1e3)))
@settings(deadline=None)
def test_ranks_are_those_of_scipy(rows):
    assert (ranks(rows) == scipy.stats.rankdata(rows, axis=1)).all()


@pytest.mark.parametrize("ours", CORRELATIONS)
def test_many_rows_are_each_row(ours):
    draw = generator("many rows")
    a, b = draw.integers(0, 40, (2, 50, 64)).astype(float)
    one_by_one = [ours(x, y)[0] for x, y in zip(a, b, strict=True)]
    assert (ours(a, b) == one_by_one).all()
    assert (ours(a, b[0]) == [ours(x, b[0])[0] for x in a]).all()
    assert ours(a[0], b[0])[0] == pytest.approx(
        CORRELATIONS[ours](a[0], b[0]).statistic, abs=ROUNDING
    )


@given(two_rows())
@settings(deadline=None)
def test_monotone_transforms_change_no_rank(rows):
    a, b = (np.array(row, dtype=float) for row in rows)
    bent = a**3 + 2 * a - 7  # rises everywhere, and is exact for small integers
    for measure in (kendall, spearman, lambda x, y: top_k_overlap(x, y, 2)):
        assert (measure(bent, b) == measure(a, b)).all()
    assert (kendall(-a, b) == -kendall(a, b)).all()


@pytest.mark.parametrize("measure", [*CORRELATIONS, lambda a, b: top_k_overlap(a, b, 1)])
def test_where_nothing_can_be_ranked_nothing_is_said(measure):
    rows = [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [np.nan, 2.0, 3.0], [np.inf, 2.0, 3.0]]
    assert np.isnan(measure(rows, [1, 2, 4])).tolist() == [True, False, True, True]
    assert np.isnan(measure(rows, [2, 2, 2])).all()
    assert np.isnan(measure([[1.0], [2.0]], [1.0])).all()
    assert np.isnan(measure(np.empty((2, 0)), [])).all()


def test_small_scores_correlate_as_large_ones_do():
    # Their squares are too small to be numbers.
    a, b = np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 3.0, 2.0, 5.0])
    assert pearson(a * 1e-200, b) == pytest.approx(pearson(a, b), abs=ROUNDING)


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="3 entries cannot be compared with rows of 2"):
        kendall([[1, 2, 3]], [1, 2])
    with pytest.raises(ValueError, match="2 rows cannot be compared with 3"):
        kendall(np.eye(2, 3), np.eye(3))


def test_top_k_by_hand():
    # The two highest of a are 0 and 1; of b 1 and 2: one of two.
    assert top_k_overlap([4, 3, 2, 1], [2, 4, 3, 1], 2) == [0.5]
    # b: 0 is in, one of 1, 2, 3 is drawn: 0 is shared for sure, 1 with chance 1/3. (1 + 1/3) / 2.
    assert top_k_overlap([4, 3, 2, 1], [5, 1, 1, 1], 2) == pytest.approx([2 / 3])
    assert top_k_overlap([1, 2], [2, 1], 5) == [1.0]
    with pytest.raises(ValueError, match="Got 0"):
        top_k_overlap([1, 2], [2, 1], 0)


@given(two_rows(), st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_top_k_is_what_drawing_lots_gives_on_average(rows, k):
    k = min(k, len(rows[0]))

    def choices(row):
        """Return every set of k that could be called the highest."""
        edge = sorted(row)[-k]
        above = {i for i, x in enumerate(row) if x > edge}
        level = [i for i, x in enumerate(row) if x == edge]
        return [above | set(rest) for rest in combinations(level, k - len(above))]

    shares = [len(one & two) / k for one, two in product(*map(choices, rows))]
    assert top_k_overlap(*rows, k) == pytest.approx([np.mean(shares)], abs=ROUNDING)


# Intervals


def test_the_bootstrap_by_hand():
    # Of 0 and five times 1, drawn six times: at most one 0 with chance (5/6)^6 + (5/6)^5 = 0.74, at most two 0.94, at
    # most three 0.991, none 0.33. A tail of 2.5% ends at three and at none of them.
    assert bootstrap([0, 1, 1, 1, 1, 1], ("toy",)) == Interval(5 / 6, 0.5, 1.0, 6)
    # A tail of 20%: at most one, 0.74, is not yet 80%, so two; none, 0.33, is more than that.
    assert bootstrap([0, 1, 1, 1, 1, 1], ("toy",), level=0.6) == Interval(5 / 6, 4 / 6, 1.0, 6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_few_observations_have_no_interval(n):
    # Two or three draw nothing but their least with chance 1/4 or 1/27, more than a tail of 2.5%: the interval would
    # be from the least to the greatest, whatever they are. Of four, with 1/256, it is hardly better.
    assert bootstrap(np.arange(n), ("few",)) == Interval((n - 1) / 2, None, None, n)
    assert bootstrap([0.3] * n, ("few",)).low is None
    assert bootstrap(np.arange(5), ("few",)).low is not None


def test_no_observation_has_no_mean():
    assert bootstrap([0.1] * 7, ("same",)).low == bootstrap([0.1] * 7, ("same",)).mean
    with pytest.raises(ValueError, match="no observations"):
        bootstrap([], ("none",))


def test_the_bootstrap_follows_its_key_alone():
    values = generator("values").normal(size=30)
    assert bootstrap(values, ("a", 1)) == bootstrap(values, ("a", 1))
    assert bootstrap(values, ("a", 1)) != bootstrap(values, ("a", 2))


def test_a_statistic_of_rows():
    rows = generator("rows").random((20, 2))
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


def test_the_bootstrap_covers_the_mean_as_often_as_it_should():
    # Of 40 normal values it is the interval mean ± 1.96 s sqrt(39/40) / sqrt(40), which covers with the chance that
    # |t|, 39 degrees of freedom, is below 1.96 sqrt(39/40) = 1.935: 94.0%. In 1,000 trials that is 940, with a
    # standard deviation of sqrt(1000 · 0.94 · 0.06) = 7.5; four of them on either side.
    wanted = 1000 * (2 * scipy.stats.t(39).cdf(1.96 * np.sqrt(39 / 40)) - 1)
    samples = generator("coverage").normal(size=(1000, 40))
    found = [bootstrap(sample, ("coverage", i), draws=500) for i, sample in enumerate(samples)]
    assert abs(sum(one.low <= 0 <= one.high for one in found) - wanted) < 30


@pytest.mark.parametrize("of", [1, 7, 60])
def test_proportions_are_those_of_scipy(of):
    for count in range(of + 1):
        theirs = scipy.stats.binomtest(count, of).proportion_ci(0.95, "exact")
        # scipy searches for the ends to 1e-12 or so; here they are inverted directly.
        assert proportion(count, of) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_proportions_cover_at_least_as_often_as_they_say():
    # No simulation: the chance of every count is known.
    of = 25
    ends = [proportion(count, of, 0.9) for count in range(of + 1)]
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


def test_half_a_count_is_taken_both_ways():
    assert proportion(3.5, 10) == (proportion(3, 10)[0], proportion(4, 10)[1])
    assert proportion(0.5, 10)[0] == 0.0
    assert proportion(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match=r"from 0 to 3\. Got 4"):
        proportion(4, 3)


def test_percentiles_by_hand():
    found = percentile(2.0, [1.0, 2.0, 3.0, 0.0], higher_is_better=True)
    assert (found.percent, found.beaten, found.tied, found.of) == (62.5, 2, 1, 4)  # (2 + 1/2) / 4
    # Two of four at least, three at most.
    assert (found.low, found.high) == pytest.approx(
        (100 * proportion(2, 4)[0], 100 * proportion(3, 4)[1])
    )
    assert percentile(2.0, [1.0, 2.0, 3.0, 0.0], higher_is_better=False).percent == 37.5
    assert percentile(0.0, [0.0] * 9, higher_is_better=True).percent == 50


def test_rounding_wins_nothing():
    thirds = (0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1)
    assert thirds[0] != thirds[1]
    assert percentile(thirds[0], [thirds[1]], higher_is_better=True).tied == 1
    # Also where what is left of two probabilities is nothing but rounding.
    assert percentile(thirds[0] - thirds[1], [0.0, 0.5, -0.5], higher_is_better=True).percent == 50


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=20))
@settings(deadline=None)
def test_percentiles_of_what_is_null_itself_are_uniform(values):
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
def test_no_percentile_of_nothing(value, null):
    with pytest.raises(ValueError, match="cannot be placed"):
        percentile(value, null, higher_is_better=True)


# Paired tests


def test_sign_flip_by_hand():
    # Sums of ±1 ±2 ±3: 6 and -6 are as far as 6, of eight ways.
    assert sign_flip([1, 2, 3], ()) == 2 / 8
    # -1 + 2 + 3 = 4: also 6 and -6 and -4.
    assert sign_flip([-1, 2, 3], ()) == 4 / 8
    assert sign_flip([1, 2, 0, 3, 0], ()) == 2 / 8
    assert sign_flip([0.0] * 5, ()) == 1
    assert sign_flip([0.1, 0.2, -0.3], ()) == 1  # the sum is 5e-17 by rounding, and 0 by right


def test_sign_flip_is_that_of_scipy():
    differences = generator("differences").normal(0.4, 1, 12)
    theirs = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip(differences, ()) == pytest.approx(theirs.pvalue, abs=ROUNDING)


def test_sign_flip_drawn_is_near_all_ways():
    differences = generator("differences").normal(0.4, 1, 12)
    exactly = sign_flip(differences, ())
    drawn = sign_flip(differences, ("drawn", 1), draws=4000)
    assert drawn == sign_flip(differences, ("drawn", 1), draws=4000)
    assert drawn != exactly
    # Four standard deviations of a share of 4,000 draws, and the one that is added.
    assert abs(drawn - exactly) < 4 * np.sqrt(exactly * (1 - exactly) / 4000) + 1 / 4000


def test_sign_flip_never_says_zero():
    # None of 1,000 draws out of 2^40 has all signs alike.
    assert sign_flip([1.0] * 40, ("zero",), draws=1000) == 1 / 1001


def test_sign_flip_is_uniform_where_there_is_no_difference():
    # Every way to set six signs is as likely, and no two sums but those of opposite signs are as large: each of the
    # 32 values of p that are possible comes twice.
    sizes = np.array([1, 2, 4, 8, 16, 32])
    found = [sign_flip(sizes * signs, ()) for signs in product([-1, 1], repeat=6)]
    assert sorted(found) == sorted(2 * [2 * rank / 64 for rank in range(1, 33)])


def test_the_least_p_is_the_least():
    for n in range(1, 12):
        assert least_p(n) == sign_flip(np.arange(1, n + 1), ())


def test_how_many_examples_are_needed():
    # One comparison: 2 / 2^6 = 0.031, and 2 / 2^5 = 0.0625. Three: 6 / 2^7 = 0.047, and 6 / 2^6 = 0.094.
    assert [needed(1, 0.05), needed(3, 0.05)] == [6, 7]
    # 24 methods: 24 + 276 = 300 comparisons, 600 / 2^14 = 0.037, and 600 / 2^13 = 0.073.
    assert needed(300, 0.05) == 14
    for comparisons in range(1, 40):
        n = needed(comparisons, 0.05)
        assert min(holm([least_p(n)] * comparisons)) < 0.05
        assert min(holm([least_p(n - 1)] * comparisons)) >= 0.05


def test_holm_by_hand():
    # In order 0.01 · 4, 0.02 · 3, 0.03 · 2 (no smaller than 0.06), 0.5 · 1.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(deadline=None)
def test_holm_keeps_the_order_and_corrects_no_more_than_bonferroni(p_values):
    found = np.array(holm(p_values))
    order = np.argsort(p_values)
    assert (np.diff(found[order]) >= 0).all()
    assert (found >= p_values).all()
    assert (found <= np.minimum(1, len(p_values) * np.array(p_values))).all()


# Spans


def test_runs():
    assert runs([]) == []
    assert runs([False, False]) == []
    assert runs([True, True, False, True]) == [(0, 2), (3, 4)]


@given(st.lists(st.booleans(), max_size=20))
@settings(deadline=None)
def test_runs_hold_what_was_chosen_and_do_not_touch(chosen):
    found = runs(chosen)
    assert [p for start, end in found for p in range(start, end)] == list(np.flatnonzero(chosen))
    assert all(one[1] < other[0] for one, other in pairwise(found))


def test_counts_by_hand():
    predicted, gold = [(0, 4), (9, 10)], [(0, 5), (6, 9)]
    # Tokens 0 to 3 of the five predicted, and of the eight that are gold.
    assert tokens(predicted, gold) == Counts(4, 5, 8)
    assert exact(predicted, [(0, 4), (6, 9)]) == Counts(1, 2, 2)
    # (0, 4) covers 4 of 5; (9, 10) touches (6, 9) and shares nothing.
    assert overlapping(predicted, gold, 0.8) == Counts(1, 2, 2)
    assert overlapping(predicted, gold, 0.81) == Counts(0, 2, 2)
    assert tokens([(0, 2), (1, 3)], [(1, 2)]) == Counts(
        1, 3, 1
    )  # token 1 lies in both and counts once


@given(*[st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=4)] * 2)
@settings(deadline=None)
def test_overlaps_are_those_of_sets(one, other):
    predicted, gold = ([(start, start + size) for start, size in side] for side in (one, other))

    def iou(x, y):
        x, y = set(range(*x)), set(range(*y))
        return len(x & y) / len(x | y)

    hits = sum(any(iou(x, y) >= 0.5 for y in gold) for x in set(predicted))
    assert overlapping(predicted, gold) == Counts(hits, len(set(predicted)), len(set(gold)))


def test_averages_by_hand():
    # P, R, F1: 1/2, 1, 2/3 · nothing predicted: 0, 0, 0 · nothing gold: 0, 0, 0 · neither: does not count.
    instances = [Counts(1, 2, 1), Counts(0, 0, 3), Counts(0, 2, 0), Counts(0, 0, 0)]
    assert macro(instances) == Rates(
        pytest.approx(1 / 6), pytest.approx(1 / 3), pytest.approx(2 / 9)
    )
    # P over the two with predictions: 1/4; R over the two with gold: 1/2; F1 of these (1/4) / (3/4).
    assert macro_of_means(instances) == Rates(0.25, 0.5, pytest.approx(1 / 3))
    assert micro(instances) == Rates(0.25, 0.25, 0.25)  # 1 of 4, 1 of 4


@pytest.mark.parametrize("average", [micro, macro, macro_of_means])
@pytest.mark.parametrize("instances", [[], [Counts(0, 0, 0)], [Counts(0, 0, 2)], [Counts(0, 2, 0)]])
def test_where_nothing_is_found_the_rates_are_zero(average, instances):
    assert average(instances) == Rates(0, 0, 0)


# Areas


def test_areas_by_hand():
    # In falling order: marked, not, marked. Precision 1, 1/2, 2/3 at recall 1/2, 1/2, 1.
    marked, scores = [True, False, True], [3, 2, 1]
    # From (0, 1): 1/2 · 1, nothing, 1/2 · (1/2 + 2/3) / 2.
    assert auprc(marked, scores) == pytest.approx([1 / 2 + 7 / 24])
    assert average_precision(marked, scores) == pytest.approx([1 / 2 + 1 / 3])
    assert roc_auc(marked, scores) == [0.5]  # of two pairs one is in order


@given(two_rows(), st.integers(0, 2**12 - 1))
@settings(deadline=None)
def test_areas_are_those_of_scikit_learn(rows, bits):
    marked = [bool(bits >> place & 1) for place in range(len(rows[0]))]
    if not any(marked):
        marked[0] = True
    for row, ours in zip(rows, auprc(marked, rows), strict=True):
        precision, recall, _ = sklearn.metrics.precision_recall_curve(marked, row)
        assert ours == pytest.approx(sklearn.metrics.auc(recall, precision), abs=ROUNDING)
    for ours, theirs in (
        (average_precision, sklearn.metrics.average_precision_score),
        (roc_auc, sklearn.metrics.roc_auc_score),
    ):
        found = ours(marked, rows)
        if all(marked):
            assert found is None
        else:
            assert found == pytest.approx([theirs(marked, row) for row in rows], abs=ROUNDING)


def test_areas_where_one_kind_is_missing():
    assert auprc([True, True], [1, 2]) == [1.0]
    assert auprc([False, False], [1, 2]) == [0.5]  # scikit-learn says so too, with a warning
    assert average_precision([False, False], [1, 2]) is None
    assert roc_auc([False, False], [1, 2]) is None
    with pytest.raises(ValueError, match="3 scores do not fit 2"):
        auprc([True, False], [1, 2, 3])


# Bins


def test_bins_by_hand():
    assert over_bins([0.1, 0.2, 0.6]) == pytest.approx(0.3)
    assert over_bins([[0.1, 0.2, 0.6], [0, 0, 0]], "paper") == pytest.approx([0.225, 0])
    # A half and a half: log 2. From it, all on one side differs by log 2 as well.
    assert entropy([0.5, 0.5]) == pytest.approx(np.log(2))
    assert entropy([2, 0]) == 0
    assert kl([1, 0], [0.5, 0.5]) == pytest.approx(np.log(2))
    assert kl([0.5, 0.5], [1, 0]) == np.inf
    p, q = generator("shares").random((2, 5, 4))
    assert kl(p, q) == pytest.approx(scipy.stats.entropy(p, q, axis=1), abs=ROUNDING)
