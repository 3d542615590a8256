"""Each method equals its slow twin, on several architectures."""

import numpy as np
import pytest

import whence
from tests import zoo
from tests.reference.twins import TWINS, Eager
from whence.methods import method

# Plain eager code in float64 throughout. (Llama's eager attention and norms cast to float32 on the way.)
ARCHITECTURES = ["bert", "roberta", "distilbert", "electra", "albert", "gpt2", "deberta-v2"]


def test_every_method_has_a_twin():
    # `random` is its own definition: its contract tests say what can be said of it.
    assert set(method.names()) == {*TWINS, "random"}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def case(request):
    model = zoo.make(request.param)
    ids = zoo.rows(request.param, lengths=(8,))[0]["input_ids"]
    row = len(ids) - 1 if request.param in zoo.CAUSAL else 0
    return whence.load(model), ids, row, Eager(model, ids, target=1)


@pytest.mark.parametrize("name", sorted(TWINS))
def test_method_equals_its_twin(case, name):
    explainer, ids, row, run = case
    found = explainer.explain({"input_ids": [ids]}, method=name, target=1)
    wanted = np.array(TWINS[name](run, row))
    # Both sum a few hundred float64 terms of size up to |wanted|; 1e-10 relative is far above that error.
    np.testing.assert_allclose(
        found.scores, wanted, rtol=1e-10, atol=1e-12 * max(1, np.abs(wanted).max())
    )
