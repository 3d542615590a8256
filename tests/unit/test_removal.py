"""Taking tokens away, and choosing which."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.errors import BadParameter
from whence.core.seed import generator
from whence.core.types import Source, Token
from whence.data import Encoded
from whence.data.coalitions import Stratum, presence, spread
from whence.data.removal import MANY, players, resolve, without

FILLERS = {"mask": 4, "pad": 0}
ITEM = Encoded(
    {"input_ids": (2, 17, 45, 8, 3), "attention_mask": (1, 1, 1, 1, 1), "token_type_ids": (0, 0, 0, 1, 1)},
    tuple(Token(str(i), None, None, 0, i in (2, 3), i) for i in (2, 17, 45, 8, 3)),
    (),
    Source(None),
)  # fmt: skip


def test_filled():
    found = without(ITEM, {3, 1}, "mask", FILLERS)
    assert found.ids == (2, 4, 45, 4, 3)
    assert found.features["token_type_ids"] == ITEM.features["token_type_ids"]
    assert without(ITEM, (), "mask", FILLERS).features == ITEM.features


def test_deleted():
    found = without(ITEM, [3, 1], "delete", FILLERS)
    assert found.features == {
        "input_ids": (2, 45, 3), "attention_mask": (1, 1, 1), "token_type_ids": (0, 0, 1),
    }  # fmt: skip
    assert without(ITEM, [1, 1], "delete", FILLERS).ids == (2, 45, 8, 3)


def test_something_must_stay():
    assert without(ITEM, range(5), "pad", FILLERS).ids == (0,) * 5
    with pytest.raises(BadParameter, match=r"nothing of an input of 5 .* instead: mask, pad\."):
        without(ITEM, range(5), "delete", FILLERS)
    with pytest.raises(BadParameter, match="Give a longer text"):
        without(ITEM, range(5), "delete", {})


@pytest.mark.parametrize(
    ("fillers", "one", "many"),
    [
        ({"mask": 4, "pad": 0, "unk": 1}, "mask", "mask"),
        ({"pad": 0, "unk": 1}, "delete", "pad"),
        ({"unk": 1}, "delete", "unk"),
        ({}, "delete", "delete"),
    ],
)
def test_the_way_that_is_preferred(fillers, one, many):
    assert resolve(None, fillers) == one
    assert resolve(None, fillers, MANY) == many


def test_a_way_that_is_not_there():
    with pytest.raises(BadParameter, match="Possible here: mask, delete, pad"):
        resolve("unk", FILLERS, MANY)


def test_players_are_of_the_text_and_can_be_spared():
    assert players(ITEM, anchors=()) == [1, 2, 3]
    assert players(ITEM, anchors={45}) == [1, 3]


def by_size(number):
    return [Stratum(number, size, 1 / number) for size in range(1, number + 1)]


@settings(max_examples=60, deadline=None)
@given(
    number=st.integers(1, 9),
    budget=st.integers(1, 700),
    masses=st.lists(st.floats(0.01, 100), min_size=9, max_size=9),
    seed=st.integers(0, 99),
)
def test_sets_are_different_and_as_many_as_asked_for(number, budget, masses, seed):
    strata = [Stratum(number, size, masses[size - 1]) for size in range(1, number + 1)]
    found = spread(strata, budget, generator("test", seed))
    sets = [frozenset(one) for one, _ in found]
    assert len(set(sets)) == len(found) == min(budget, 2**number - 1)
    assert all(one <= set(range(number)) for one in sets)
    # Every part of the mass is there, by rounding error at most.
    assert sum(share for _, share in found) == pytest.approx(sum(masses[:number]), rel=1e-9)


@pytest.mark.parametrize(("number", "budget"), [(8, 40), (8, 200), (5, 3)])
def test_a_sample_speaks_for_all(number, budget):
    """The weighted sum of any function has the expectation of the sum over all sets."""
    value = dict(zip(
        [one for stratum in by_size(number) for one in stratum.all()],
        generator("values").standard_normal(2**number),
        strict=False,
    ))  # fmt: skip
    exact = sum(s.mass / s.count * value[one] for s in by_size(number) for one in s.all())
    drawn = [
        sum(share * value[one] for one, share in spread(by_size(number), budget, generator(seed)))
        for seed in range(400)
    ]
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert abs(np.mean(drawn) - exact) < 4 * error  # 6 in 100 000, and the seeds are fixed


def test_halves_that_hold_the_first():
    half = Stratum(6, 3, 1.0, with_first=True)
    assert half.count == comb(6, 3) // 2 == len(list(half.all()))
    for number in (3, 8):
        some = half.some(number, generator(0))
        assert len(set(some)) == number
        assert set(some) <= set(half.all())


def test_many_players_take_no_time():
    found = spread(by_size(2000), 50, generator(0))
    assert len(found) == 50
    sizes = sorted(len(one) for one, _ in found)
    assert np.allclose(np.diff(sizes), 40, atol=1)  # evenly from few to all


def test_presence():
    assert presence(3, [(), (0, 2)]).tolist() == [[1, 1, 1], [0, 1, 0]]
