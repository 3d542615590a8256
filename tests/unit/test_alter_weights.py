"""Random weights by stage, from head to embeddings, and dropout switched on: what changes and by how much."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.alterations import EVERY, WITH_DROPOUT, logits_of, make, weights_of
from whence.core.errors import BadParameter, NotCapturable
from whence.tracing.alter import apply_dropout, randomise_weights
from whence.tracing.structure import group_parameters_by_stage, list_stages

# --- weights ---


@pytest.mark.parametrize("name", EVERY)
def test_group_parameters_by_stage_holds_every_parameter_once(name):
    model = make(name)
    found = [one for group in group_parameters_by_stage(model).values() for one in group.items()]
    assert len({key for key, _ in found}) == len({id(p) for _, p in found}) == len(found)
    assert {id(p) for _, p in found} == {id(p) for p in model.parameters()}
    assert dict(found) == dict(model.named_parameters())


STAGES = {
    "albert": 3,  # one layer, used three times
    "bart": 6,  # two of each stream
    "t5": 6,
}


@pytest.mark.parametrize("name", EVERY)
def test_list_stages_goes_from_the_head_to_the_embeddings(name):
    model = make(name)
    order = list_stages(model)
    assert len(order) == STAGES.get(name, 5)
    assert (order[0], order[-1]) == ("head", "embeddings")
    numbers = [int(stage.rpartition(".")[2]) for stage in order[1:-1]]
    one = [0] if name == "albert" else [1, 0, 1, 0] if name in zoo.TWO_STREAMS else [2, 1, 0]
    assert numbers == one
    if name in zoo.TWO_STREAMS:
        assert ["decoder" in stage for stage in order[1:-1]] == [True, True, False, False]
    groups = group_parameters_by_stage(model)
    # The head of every model in the zoo is one of these, and its embeddings are what tokens (or patches) enter by.
    assert any(
        n.split(".")[0] in {"classifier", "score", "classification_head"} for n in groups["head"]
    )
    assert not any("embed" in n for n in groups["head"])
    if name != "vit":
        table = model.get_input_embeddings().weight
        assert any(one is table for one in groups["embeddings"].values())


def test_group_parameters_by_stage_puts_tied_weights_with_the_embeddings():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(4, 8, bias=True)
            self.embed_tokens = torch.nn.Embedding(8, 4)
            self.out.weight = self.embed_tokens.weight

    groups = group_parameters_by_stage(Tied())
    assert {stage: list(group) for stage, group in groups.items()} == {
        "head": ["out.bias"], "embeddings": ["out.weight"],
    }  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_randomise_weights_changes_the_given_stage_and_all_stages_before(name):
    model = make(name)
    before, groups = weights_of(model), list(group_parameters_by_stage(model).values())
    said = [logits_of(model, name)]
    for stage in range(len(groups)):
        with randomise_weights(model, stage, 0):
            after = dict(model.named_parameters())
            for number, group in enumerate(groups):
                for key in group:
                    constant = before[key].min() == before[key].max()
                    stays = number > stage or constant
                    assert torch.equal(after[key], before[key]) == stays, key
            said.append(logits_of(model, name))
    assert all(torch.isfinite(one).all() for one in said)
    for one, other in pairwise(said):
        assert not torch.equal(one, other)


def test_randomise_weights_preserves_mean_and_deviation_of_a_weight():
    model = whence.load("reviews").model
    weight = model.bert.encoder.layer[0].intermediate.dense.weight
    with torch.no_grad():
        mean, deviation = weight.mean().item(), weight.std().item()
    with randomise_weights(model, len(list_stages(model)) - 1, 0), torch.no_grad():
        # 65536 draws: five standard errors of the mean and of the deviation.
        assert abs(weight.mean().item() - mean) < 5 * deviation / 256
        assert abs(weight.std().item() - deviation) < 5 * deviation / 256 / 2**0.5


def test_randomise_weights_draws_the_same_numbers_in_float32_and_float64():
    """float32 rounds the entries, their mean and their deviation: some 1e-7 of the largest."""
    model = make("bert")
    narrow = copy.deepcopy(model).float()
    with randomise_weights(model, 4, 3), randomise_weights(narrow, 4, 3):
        for one, other in zip(model.parameters(), narrow.parameters(), strict=True):
            assert torch.allclose(one.float(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stage", [-1, 5])
def test_randomise_weights_with_an_unknown_stage_raises_bad_parameter(stage):
    with pytest.raises(BadParameter, match=f"no stage {stage}: .* has 5"), \
            randomise_weights(make("bert"), stage, 0):  # fmt: skip
        pass


def test_randomise_weights_with_an_int8_parameter_raises_not_capturable():
    model = make("bert")
    model.classifier.packed = torch.nn.Parameter(
        torch.zeros(3, dtype=torch.int8), requires_grad=False
    )
    with (
        pytest.raises(NotCapturable, match=r"'classifier\.packed' .* int8"),
        randomise_weights(model, 0, 0),
    ):
        pass


# --- dropout ---


@pytest.mark.parametrize("name", EVERY)
def test_apply_dropout_yields_a_count_above_zero_only_if_logits_change(name):
    model = make(name)
    said = logits_of(model, name)
    with apply_dropout(model, 0) as number:
        assert (number > 0) == (name in WITH_DROPOUT)
        assert torch.equal(logits_of(model, name), said) == (number == 0)


class DropoutUsedTwice(torch.nn.Module):
    """One dropout, used twice, and a weight, as every model has one."""

    def __init__(self, p):
        super().__init__()
        self.drop = torch.nn.Dropout(p)
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.eval()

    def forward(self, x):
        return self.drop(x), self.drop(x)


def test_apply_dropout_zeroes_a_share_p_and_scales_the_rest_as_in_training():
    """A share p of the features is gone, and the others are larger by 1 / (1 - p)."""
    module = DropoutUsedTwice(0.25)
    with apply_dropout(module, 0):
        found, _ = module(torch.ones(3, 40, 100))
    assert set(found.unique().tolist()) == {0.0, np.float32(4 / 3)}
    # 4000 draws, the same for each input: five standard errors of sqrt(p (1 - p) / n).
    assert abs((found[0] == 0).float().mean() - 0.25) < 5 * (0.25 * 0.75 / 4000) ** 0.5
    assert torch.equal(found[0], found[1])
    with apply_dropout(nothing := DropoutUsedTwice(1.0), 0):
        assert (nothing(torch.ones(2, 3))[0] == 0).all()


def test_apply_dropout_drops_other_features_when_a_layer_is_used_twice():
    module = DropoutUsedTwice(0.5)
    with apply_dropout(module, 0):
        one, other = module(torch.ones(1, 200))
        again, _ = module(torch.ones(1, 200))
    assert not torch.equal(one, other)
    assert torch.equal(one, again)


@pytest.mark.parametrize("name", sorted(WITH_DROPOUT))
def test_explain_under_dropout_of_a_batch_equals_its_singles(name):
    explainer, rows = whence.load(make(name)), zoo.rows(name)
    with apply_dropout(explainer.model, 0):
        together = explainer.explain(rows, method=["gradient", "leave_one_out"])
        for row, found in zip(rows, together, strict=True):
            alone = explainer.explain(row, method=["gradient", "leave_one_out"])
            for key in alone.methods:
                # The order of summation differs: as in tests/contract, 1e-9 of scores of about 1 in float64.
                assert np.allclose(found[key].scores, alone[key].scores, rtol=1e-9, atol=1e-9)
