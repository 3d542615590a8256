"""The authors' numbers again, with tiles of one row of one head; `make kernels` runs all golden tests in this way."""

import pytest

from tests.parity import test_golden, test_relevance
from whence.kernels.tiled import use_tile_size

# What is read from a map or handed on by a layer is no contraction, and was compared already.
CONTRACTED = ("generic_attention_R", "att_colmean", "AttCAT", "rollout_start0", "Rollout", "RawAtt")


@pytest.mark.parametrize(
    ("file", "name"), [one for one in test_golden.ARRAYS if one[1].endswith(CONTRACTED)]
)
def test_contractions(file, name):
    with use_tile_size(1):
        test_golden.test_array(file, name)


@pytest.mark.parametrize(
    ("file", "name"), [one for one in test_relevance.ARRAYS if "attn_R" not in one[1]]
)
def test_relevance_and_its_contractions(file, name):
    with use_tile_size(1):
        test_relevance.test_array(file, name)
