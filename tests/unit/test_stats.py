"""Rank correlations, spans, areas and bins: hand-computed, and equal to scipy and scikit-learn."""

import sys
from itertools import combinations, pairwise, product
from subprocess import check_output

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.seed import build_generator
from whence.stats.rank import kendall, pearson, rank_rows, spearman, top_k_overlap
from whence.stats.rationale import (
    RationaleCounts,
    RationaleRates,
    auprc,
    average_precision,
    count_exact_spans,
    count_overlapping_spans,
    count_tokens,
    entropy,
    find_spans,
    kl_divergence,
    macro_average,
    macro_average_of_means,
    mean_over_bins,
    micro_average,
    roc_auc,
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


def test_importing_whence_stats_loads_neither_scipy_nor_torch():
    # scipy.stats takes most of a second, and torch more.
    code = (
        "import sys, whence.stats.intervals, whence.stats.rank, whence.stats.rationale; "
        "print([m for m in ('scipy', 'torch') if m in sys.modules])"
    )
    assert check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# Ranks


def test_kendall_equals_hand_counted_pairs_with_and_without_ties():
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
    assert (rank_rows(rows) == scipy.stats.rankdata(rows, axis=1)).all()


@pytest.mark.parametrize("ours", CORRELATIONS)
def test_correlations_of_many_rows_equal_those_of_single_rows(ours):
    draw = build_generator("many rows")
    a, b = draw.integers(0, 40, (2, 50, 64)).astype(float)
    one_by_one = [ours(x, y)[0] for x, y in zip(a, b, strict=True)]
    assert (ours(a, b) == one_by_one).all()
    assert (ours(a, b[0]) == [ours(x, b[0])[0] for x in a]).all()
    assert ours(a[0], b[0])[0] == pytest.approx(
        CORRELATIONS[ours](a[0], b[0]).statistic, abs=ROUNDING
    )


@given(two_rows())
@settings(deadline=None)
def test_rank_correlations_are_unchanged_by_monotone_transforms(rows):
    a, b = (np.array(row, dtype=float) for row in rows)
    bent = a**3 + 2 * a - 7  # rises everywhere, and is exact for small integers
    for measure in (kendall, spearman, lambda x, y: top_k_overlap(x, y, 2)):
        assert (measure(bent, b) == measure(a, b)).all()
    assert (kendall(-a, b) == -kendall(a, b)).all()


@pytest.mark.parametrize("measure", [*CORRELATIONS, lambda a, b: top_k_overlap(a, b, 1)])
def test_correlations_without_a_ranking_are_nan(measure):
    rows = [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [np.nan, 2.0, 3.0], [np.inf, 2.0, 3.0]]
    assert np.isnan(measure(rows, [1, 2, 4])).tolist() == [True, False, True, True]
    assert np.isnan(measure(rows, [2, 2, 2])).all()
    assert np.isnan(measure([[1.0], [2.0]], [1.0])).all()
    assert np.isnan(measure(np.empty((2, 0)), [])).all()


def test_pearson_of_tiny_scores_equals_that_of_large_scores():
    # Their squares are too small to be numbers.
    a, b = np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 3.0, 2.0, 5.0])
    assert pearson(a * 1e-200, b) == pytest.approx(pearson(a, b), abs=ROUNDING)


def test_kendall_of_rows_of_different_shape_raises_value_error():
    with pytest.raises(ValueError, match="3 entries cannot be compared with rows of 2"):
        kendall([[1, 2, 3]], [1, 2])
    with pytest.raises(ValueError, match="2 rows cannot be compared with 3"):
        kendall(np.eye(2, 3), np.eye(3))


def test_top_k_overlap_equals_hand_computed_values_with_ties():
    # The two highest of a are 0 and 1; of b 1 and 2: one of two.
    assert top_k_overlap([4, 3, 2, 1], [2, 4, 3, 1], 2) == [0.5]
    # b: 0 is in, one of 1, 2, 3 is drawn: 0 is shared for sure, 1 with chance 1/3. (1 + 1/3) / 2.
    assert top_k_overlap([4, 3, 2, 1], [5, 1, 1, 1], 2) == pytest.approx([2 / 3])
    assert top_k_overlap([1, 2], [2, 1], 5) == [1.0]
    with pytest.raises(ValueError, match="Got 0"):
        top_k_overlap([1, 2], [2, 1], 0)


@given(two_rows(), st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_top_k_overlap_with_ties_is_the_mean_over_all_choices(rows, k):
    k = min(k, len(rows[0]))

    def choices(row):
        """Return every set of k that could be called the highest."""
        edge = sorted(row)[-k]
        above = {i for i, x in enumerate(row) if x > edge}
        level = [i for i, x in enumerate(row) if x == edge]
        return [above | set(rest) for rest in combinations(level, k - len(above))]

    shares = [len(one & two) / k for one, two in product(*map(choices, rows))]
    assert top_k_overlap(*rows, k) == pytest.approx([np.mean(shares)], abs=ROUNDING)


# Spans


def test_find_spans_gives_start_and_end_of_consecutive_true_values():
    assert find_spans([]) == []
    assert find_spans([False, False]) == []
    assert find_spans([True, True, False, True]) == [(0, 2), (3, 4)]


@given(st.lists(st.booleans(), max_size=20))
@settings(deadline=None)
def test_find_spans_cover_exactly_the_chosen_positions_without_touching(chosen):
    found = find_spans(chosen)
    assert [p for start, end in found for p in range(start, end)] == list(np.flatnonzero(chosen))
    assert all(one[1] < other[0] for one, other in pairwise(found))


def test_rationale_counts_equal_hand_counted_tokens_and_spans():
    predicted, gold = [(0, 4), (9, 10)], [(0, 5), (6, 9)]
    # Tokens 0 to 3 of the five predicted, and of the eight that are gold.
    assert count_tokens(predicted, gold) == RationaleCounts(4, 5, 8)
    assert count_exact_spans(predicted, [(0, 4), (6, 9)]) == RationaleCounts(1, 2, 2)
    # (0, 4) covers 4 of 5; (9, 10) touches (6, 9) and shares nothing.
    assert count_overlapping_spans(predicted, gold, 0.8) == RationaleCounts(1, 2, 2)
    assert count_overlapping_spans(predicted, gold, 0.81) == RationaleCounts(0, 2, 2)
    assert count_tokens([(0, 2), (1, 3)], [(1, 2)]) == RationaleCounts(
        1, 3, 1
    )  # token 1 lies in both and counts once


@given(*[st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=4)] * 2)
@settings(deadline=None)
def test_count_overlapping_spans_equals_iou_of_sets(one, other):
    predicted, gold = ([(start, start + size) for start, size in side] for side in (one, other))

    def iou(x, y):
        x, y = set(range(*x)), set(range(*y))
        return len(x & y) / len(x | y)

    hits = sum(any(iou(x, y) >= 0.5 for y in gold) for x in set(predicted))
    assert count_overlapping_spans(predicted, gold) == RationaleCounts(
        hits, len(set(predicted)), len(set(gold))
    )


def test_micro_and_macro_averages_equal_hand_computed_rates():
    # P, R, F1: 1/2, 1, 2/3 · nothing predicted: 0, 0, 0 · nothing gold: 0, 0, 0 · neither: does not count.
    instances = [
        RationaleCounts(1, 2, 1),
        RationaleCounts(0, 0, 3),
        RationaleCounts(0, 2, 0),
        RationaleCounts(0, 0, 0),
    ]
    assert macro_average(instances) == RationaleRates(
        pytest.approx(1 / 6), pytest.approx(1 / 3), pytest.approx(2 / 9)
    )
    # P over the two with predictions: 1/4; R over the two with gold: 1/2; F1 of these (1/4) / (3/4).
    assert macro_average_of_means(instances) == RationaleRates(0.25, 0.5, pytest.approx(1 / 3))
    assert micro_average(instances) == RationaleRates(0.25, 0.25, 0.25)  # 1 of 4, 1 of 4


@pytest.mark.parametrize("average", [micro_average, macro_average, macro_average_of_means])
@pytest.mark.parametrize(
    "instances",
    [[], [RationaleCounts(0, 0, 0)], [RationaleCounts(0, 0, 2)], [RationaleCounts(0, 2, 0)]],
)
def test_micro_and_macro_averages_without_hits_are_zero(average, instances):
    assert average(instances) == RationaleRates(0, 0, 0)


# Areas


def test_auprc_average_precision_and_roc_auc_equal_hand_computed_areas():
    # In falling order: marked, not, marked. Precision 1, 1/2, 2/3 at recall 1/2, 1/2, 1.
    marked, scores = [True, False, True], [3, 2, 1]
    # From (0, 1): 1/2 · 1, nothing, 1/2 · (1/2 + 2/3) / 2.
    assert auprc(marked, scores) == pytest.approx([1 / 2 + 7 / 24])
    assert average_precision(marked, scores) == pytest.approx([1 / 2 + 1 / 3])
    assert roc_auc(marked, scores) == [0.5]  # of two pairs one is in order


@given(two_rows(), st.integers(0, 2**12 - 1))
@settings(deadline=None)
def test_auprc_average_precision_and_roc_auc_equal_scikit_learn(rows, bits):
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


def test_areas_with_only_one_class_are_constant_or_none():
    assert auprc([True, True], [1, 2]) == [1.0]
    assert auprc([False, False], [1, 2]) == [0.5]  # scikit-learn says so too, with a warning
    assert average_precision([False, False], [1, 2]) is None
    assert roc_auc([False, False], [1, 2]) is None
    with pytest.raises(ValueError, match="3 scores do not fit 2"):
        auprc([True, False], [1, 2, 3])


# Bins


def test_bin_means_entropy_and_kl_divergence_equal_hand_computed_values():
    assert mean_over_bins([0.1, 0.2, 0.6]) == pytest.approx(0.3)
    assert mean_over_bins([[0.1, 0.2, 0.6], [0, 0, 0]], "paper") == pytest.approx([0.225, 0])
    # A half and a half: log 2. From it, all on one side differs by log 2 as well.
    assert entropy([0.5, 0.5]) == pytest.approx(np.log(2))
    assert entropy([2, 0]) == 0
    assert kl_divergence([1, 0], [0.5, 0.5]) == pytest.approx(np.log(2))
    assert kl_divergence([0.5, 0.5], [1, 0]) == np.inf
    p, q = build_generator("shares").random((2, 5, 4))
    assert kl_divergence(p, q) == pytest.approx(scipy.stats.entropy(p, q, axis=1), abs=ROUNDING)
