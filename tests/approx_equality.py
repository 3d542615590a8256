"""Assertion that nested lists and dicts are equal, with a relative tolerance for their numbers.

Sums are added in the same order only where the same instructions run on the same alignment of memory. A batch of
another size, weights at another offset of a file, or another machine may change the last bits. So equality to the bit
is asserted only where it is promised: the bytes of a store, and a run that was resumed on one machine.
"""

from collections.abc import Mapping, Sequence
from numbers import Real

import pytest

# A few hundred roundings of float64, of which the widths of the test models are sums.
ROUNDED = 1e-12


def assert_nearly_equal(found, wanted, rel: float = ROUNDED, at: str = "") -> None:
    """Check that two results have the same keys, lengths and words, and numbers that differ by `rel` at the most."""
    if isinstance(wanted, Mapping):
        assert found.keys() == wanted.keys(), at
        for name in wanted:
            assert_nearly_equal(found[name], wanted[name], rel, f"{at}.{name}")
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        assert len(found) == len(wanted), at
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_nearly_equal(one, other, rel, f"{at}[{number}]")
    elif isinstance(wanted, Real) and not isinstance(wanted, bool):
        # Differences of numbers near 1 round like 1, so the tolerance is absolute, too.
        assert found == pytest.approx(wanted, rel=rel, abs=rel, nan_ok=True), at
    else:
        assert found == wanted, at
