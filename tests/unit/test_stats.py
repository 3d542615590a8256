"""Ranks, spans, areas and bins: by hand, and as scipy and scikit-learn have them."""

import sys
from itertools import combinations, pairwise, product
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
    Rates,
    auprc,
    average_precision,
    entropy,
    exact,
    kendall,
    kl,
    macro,
    macro_of_means,
    micro,
    over_bins,
    overlapping,
    pearson,
    ranks,
    roc_auc,
    runs,
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
