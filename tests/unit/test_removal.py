"""Removal of tokens, choice of the removal, and sampling of coalitions."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.errors import BadParameter
from whence.core.seed import build_generator
from whence.core.types import InputText, Token
from whence.data.batches import BatchRules, collate
from whence.data.removal import (
    BULK_REMOVALS,
    CoalitionStratum,
    build_presence_matrix,
    list_players,
    remove_sets,
    resolve_removal,
    sample_coalitions,
)
from whence.data.tokens import EncodedInput

FILLERS = {"mask": 4, "pad": 0}
ITEM = EncodedInput(
    {"input_ids": (2, 17, 45, 8, 3), "attention_mask": (1, 1, 1, 1, 1), "token_type_ids": (0, 0, 0, 1, 1)},
    tuple(Token(str(i), None, None, 0, i in (2, 3), i) for i in (2, 17, 45, 8, 3)),
    (),
    InputText(None),
)  # fmt: skip


def collate_without(items, owners, sets, how, fillers=FILLERS):
    """The batch of all variants, and the variants."""
    variants = remove_sets(items, owners, sets, how, fillers)
    rows = range(len(sets))
    return variants.collate(rows, pad_id=9, device=torch.device("cpu")), variants


def test_remove_sets_by_mask_replaces_ids_and_leaves_other_features():
    batch, _ = collate_without([ITEM], [0, 0], [{3, 1}, ()], "mask")
    assert batch.inputs["input_ids"].tolist() == [[2, 4, 45, 4, 3], [2, 17, 45, 8, 3]]
    assert batch.inputs["token_type_ids"].tolist() == [[0, 0, 0, 1, 1]] * 2
    assert batch.items == (ITEM, ITEM) and batch.real.all()


def test_remove_sets_by_delete_drops_positions_from_every_feature_and_pads():
    batch, _ = collate_without([ITEM], [0, 0], [[3, 1], [1, 1]], "delete")
    assert batch.inputs["input_ids"].tolist() == [[2, 45, 3, 9], [2, 45, 8, 3]]
    assert batch.inputs["token_type_ids"].tolist() == [[0, 0, 1, 0], [0, 0, 1, 1]]
    assert batch.inputs["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert torch.equal(batch.real, batch.inputs["attention_mask"].bool())


def test_remove_sets_of_inputs_of_several_lengths_equals_the_collated_inputs():
    """Also boxes, and any choice of rows: it is the batch of the inputs themselves."""
    boxes = {"bbox": tuple((i, i, i + 1, i + 2) for i in range(5))}
    wide = replace(ITEM, features={**ITEM.features, **boxes})
    short = replace(wide, features={name: own[:3] for name, own in wide.features.items()})
    for how in ("mask", "delete"):
        variants = remove_sets([wide, short], [1, 0, 1, 0], [(), (4,), (0,), ()], how, FILLERS)
        batch = variants.collate([0, 2, 3], pad_id=9, device=torch.device("cpu"))
        cut = {name: own[1:] for name, own in short.features.items()}
        masked = {**short.features, "input_ids": (4, 17, 45)}
        third = replace(short, features=cut if how == "delete" else masked)
        expected = collate([short, third, wide], pad_id=9, device=torch.device("cpu"))
        assert torch.equal(batch.real, expected.real)
        for name, values in expected.inputs.items():
            assert torch.equal(batch.inputs[name], values), (how, name)


def test_remove_sets_by_delete_refuses_to_remove_every_token():
    batch, _ = collate_without([ITEM], [0], [range(5)], "pad")
    assert batch.inputs["input_ids"].tolist() == [[0] * 5]
    with pytest.raises(BadParameter, match=r"nothing of an input of 5 .* instead: mask, pad\."):
        collate_without([ITEM], [0, 0], [(), range(5)], "delete")
    with pytest.raises(BadParameter, match="Give a longer text"):
        collate_without([ITEM], [0], [range(5)], "delete", {})


def test_keys_of_variants_are_equal_exactly_where_the_model_is_given_the_same():
    twice = replace(ITEM, features={**ITEM.features, "input_ids": (2, 17, 17, 8, 3)})
    sets = [(1,), (2,), (1, 2), ()]
    keys = collate_without([twice, twice], [0] * 4 + [1] * 4, sets * 2, "delete")[1].build_keys()
    assert keys[:4] == keys[4:] and len(set(keys)) == 3
    keys = collate_without([twice], [0] * 4, sets, "mask")[1].build_keys()
    assert len(set(keys)) == 4
    # The segment of the deleted token decides: the ids are the same.
    across = replace(ITEM, features={**ITEM.features, "input_ids": (2, 17, 8, 8, 3)})
    keys = collate_without([across], [0] * 2, [(2,), (3,)], "delete")[1].build_keys()
    assert len(set(keys)) == 2


def test_variants_with_another_count_of_anchors_are_of_another_kind():
    _, variants = collate_without([ITEM], [0] * 3, [(1,), (3,), (4,)], "pad")
    first, second, third = variants.list_kinds(BatchRules(8, 512, anchors=frozenset({3})))
    assert first == second != third
    _, variants = collate_without([ITEM], [0] * 3, [(1,), (3,), (1, 3)], "delete")
    assert len(set(variants.list_kinds(BatchRules(8, 512)))) == 1
    first, second, third = variants.list_kinds(BatchRules(8, 512, mixed=False))
    assert first == second != third


@pytest.mark.parametrize(
    ("fillers", "one", "many"),
    [
        ({"mask": 4, "pad": 0, "unk": 1}, "mask", "mask"),
        ({"pad": 0, "unk": 1}, "delete", "pad"),
        ({"unk": 1}, "delete", "unk"),
        ({}, "delete", "delete"),
    ],
)
def test_resolve_removal_by_default_takes_the_first_possible_preference(fillers, one, many):
    assert resolve_removal(None, fillers) == one
    assert resolve_removal(None, fillers, BULK_REMOVALS) == many


def test_resolve_removal_without_the_replacement_token_lists_possible_removals():
    with pytest.raises(BadParameter, match="Possible here: mask, delete, pad"):
        resolve_removal("unk", FILLERS, BULK_REMOVALS)


def test_list_players_leaves_out_special_tokens_and_anchors():
    assert list_players(ITEM, anchors=()) == [1, 2, 3]
    assert list_players(ITEM, anchors={45}) == [1, 3]


def strata_by_size(number):
    return [CoalitionStratum(number, size, 1 / number) for size in range(1, number + 1)]


@settings(max_examples=60, deadline=None)
@given(
    number=st.integers(1, 9),
    budget=st.integers(1, 700),
    masses=st.lists(st.floats(0.01, 100), min_size=9, max_size=9),
    seed=st.integers(0, 99),
)
def test_sample_coalitions_gives_distinct_sets_up_to_the_budget_with_all_mass(
    number, budget, masses, seed
):
    strata = [CoalitionStratum(number, size, masses[size - 1]) for size in range(1, number + 1)]
    found = sample_coalitions(strata, budget, build_generator("test", seed))
    sets = [frozenset(one) for one, _ in found]
    assert len(set(sets)) == len(found) == min(budget, 2**number - 1)
    assert all(one <= set(range(number)) for one in sets)
    # Every part of the mass is there, by rounding error at most.
    assert sum(share for _, share in found) == pytest.approx(sum(masses[:number]), rel=1e-9)


@pytest.mark.parametrize(("number", "budget"), [(8, 40), (8, 200), (5, 3)])
def test_sample_coalitions_estimates_the_sum_over_all_sets_without_bias(number, budget):
    """The weighted sum of any function has the expectation of the sum over all sets."""
    value = dict(zip(
        [one for stratum in strata_by_size(number) for one in stratum.iterate_all()],
        build_generator("values").standard_normal(2**number),
        strict=False,
    ))  # fmt: skip
    exact = sum(
        s.mass / s.count * value[one] for s in strata_by_size(number) for one in s.iterate_all()
    )
    drawn = [
        sum(
            share * value[one]
            for one, share in sample_coalitions(
                strata_by_size(number), budget, build_generator(seed)
            )
        )
        for seed in range(400)
    ]
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert abs(np.mean(drawn) - exact) < 4 * error  # 6 in 100 000, and the seeds are fixed


def test_coalition_stratum_with_first_lists_half_of_the_sets():
    half = CoalitionStratum(6, 3, 1.0, with_first=True)
    assert half.count == comb(6, 3) // 2 == len(list(half.iterate_all()))
    for number in (3, 8):
        some = half.draw_some(number, build_generator(0))
        assert len(set(some)) == number
        assert set(some) <= set(half.iterate_all())


def test_sample_coalitions_of_2000_players_spreads_sizes_evenly():
    found = sample_coalitions(strata_by_size(2000), 50, build_generator(0))
    assert len(found) == 50
    sizes = sorted(len(one) for one, _ in found)
    assert np.allclose(np.diff(sizes), 40, atol=1)  # evenly from few to all


def test_build_presence_matrix_has_zeros_at_absent_players():
    assert build_presence_matrix(3, [(), (0, 2)]).tolist() == [[1, 1, 1], [0, 1, 0]]
