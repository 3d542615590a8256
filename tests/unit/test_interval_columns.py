"""Column-wise bootstrap and sign-flip tests: each column agrees with the single-column function."""

from math import isclose

import numpy as np

from whence.stats.intervals import bootstrap, bootstrap_columns, sign_flip_columns

DRAW = np.random.default_rng(0)
KEY = ("here", 1)


def columns(n):
    found = DRAW.normal(0.2, 1, size=(n, 4))
    found[::7, 1] = np.nan
    found[:, 2] = np.nan
    found[:, 3] = 0.25
    return found


def test_bootstrap_columns_agrees_with_bootstrap_of_each_column():
    given = columns(40)
    found = bootstrap_columns(given, KEY)
    for place in (0, 1):
        known = given[~np.isnan(given[:, place]), place]
        one = bootstrap(known, KEY)
        assert found[place].n == len(known)
        assert isclose(found[place].mean, one.mean, rel_tol=1e-12)
        # Other draws of the same distribution: the ends of 10,000 draws vary by some hundredths of the spread,
        # which is about 1 / sqrt(40) = 0.16 here.
        assert abs(found[place].low - one.low) < 0.03
        assert abs(found[place].high - one.high) < 0.03
    assert found[2] is None
    assert (found[3].mean, found[3].low, found[3].high, found[3].n) == (0.25, 0.25, 0.25, 40)


def test_bootstrap_columns_of_fewer_than_five_values_has_no_interval():
    given = np.array([[1.5, 1.0, 2.0], [np.nan, 2.0, 2.0], [np.nan, np.nan, 2.0]])
    for found, known in zip(bootstrap_columns(given, KEY), ([1.5], [1, 2], [2, 2, 2]), strict=True):
        assert found == bootstrap(known, KEY)
        assert (found.low, found.high, found.n) == (None, None, len(known))
    assert bootstrap_columns(np.arange(5.0)[:, None], KEY)[0].low is not None


def test_bootstrap_and_sign_flip_columns_do_not_depend_on_other_columns():
    given = columns(30)
    alone, together = bootstrap_columns(given[:, [1]], KEY)[0], bootstrap_columns(given, KEY)[1]
    # Products of matrices of another width are summed in another order.
    assert isclose(together.low, alone.low, rel_tol=1e-12)
    assert isclose(together.high, alone.high, rel_tol=1e-12)
    assert sign_flip_columns(given, KEY)[0] == sign_flip_columns(given[:, [0]], KEY)[0]


def test_sign_flip_columns_of_few_examples_gives_the_exact_p_value():
    # All 2^3 ways to set the signs of 1, 2, 3: the sum is 6 or -6 in two of eight.
    given = np.array([[1.0, 1.0], [2.0, -2.0], [3.0, np.nan]])
    # 1 - 2 = -1: of the sums 3, 1, -1, -3 all are as far from zero.
    assert sign_flip_columns(given, KEY) == [0.25, 1.0]
    assert sign_flip_columns(np.full((3, 1), np.nan), KEY) == [None]
    assert sign_flip_columns(np.zeros((30, 1)), KEY) == [1.0]


def test_sign_flip_columns_of_1500_examples_does_not_overflow():
    # 2 ** 1500 is no float; all differences speak for the same side, so no draw of signs comes as far.
    (p,) = sign_flip_columns(np.ones((1500, 1)), ("many",), draws=50)
    assert p == 1 / 51
