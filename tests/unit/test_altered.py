"""Models that are changed for a moment, and then are what they were."""

import copy
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.capture.altered import dropped_out, noisy, randomised, stages
from whence.capture.stages import grouped
from whence.core.errors import BadParameter, NotCapturable
from whence.methods import method
from whence.models import fingerprint

TEXT = "the plot is thin, but the actors are wonderful"
EVERY = (*zoo.ARCHITECTURES, "vit")
# Modules that drop out with p > 0 in the zoo: the others have p = 0, none, or functions instead of modules.
WITH_DROPOUT = frozenset(zoo.ARCHITECTURES) - {
    "modernbert", "llama", "qwen3", "gemma3", "bart",
}  # fmt: skip


def make(name):
    return zoo.make_vit() if name == "vit" else zoo.make(name)


def logits_of(model, name, row=0):
    if name == "vit":
        pixels = torch.randn(1, *zoo.PIXELS, generator=torch.Generator().manual_seed(row)).double()
        inputs = {"pixel_values": pixels}
    else:
        inputs = {"input_ids": torch.tensor([zoo.rows(name)[row]["input_ids"]])}
    with torch.no_grad():
        return model(**inputs).logits


def changes(model, name):
    """Return every change that can be made to a model, and that changes its answers."""
    last = len(stages(model)) - 1
    made = {
        "head": lambda seed=0: randomised(model, 0, seed),
        "weights": lambda seed=0: randomised(model, last, seed),
    }
    if name != "vit":
        ids = zoo.rows(name)[0]["input_ids"]
        made["noise"] = lambda seed=0: noisy(model, ids, 0.2, seed)
    if name in WITH_DROPOUT:
        made["dropout"] = lambda seed=0: dropped_out(model, seed)
    return made


def weights_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same_weights(one, other):
    """Bit for bit: `equal` would take -0.0 for 0.0 and NaN for nothing."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert (value.numpy().tobytes()) == other[name].numpy().tobytes(), name


# --- left as found ---


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", EVERY)
def test_left_as_found(name, error):
    model = make(name).train()
    for number, weight in enumerate(model.parameters()):
        weight.requires_grad_(number % 3 > 0)
    model.eval()
    before, weights, said = snapshot(model), weights_of(model), logits_of(model, name)
    for kind, change in changes(model, name).items():
        if error is None:
            with change():
                assert not torch.equal(logits_of(model, name), said), kind
        else:
            with pytest.raises(error), change():
                raise error("in the middle")
        assert_unchanged(before, snapshot(model))
        assert_same_weights(weights_of(model), weights)
        assert torch.equal(logits_of(model, name), said), kind


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_one_change_within_another(name):
    model = make(name)
    before, weights, said = snapshot(model), weights_of(model), logits_of(model, name)
    own = fingerprint(model)
    ids = zoo.rows(name)[0]["input_ids"]
    with randomised(model, 1, 0):
        outer, print_outer = logits_of(model, name), fingerprint(model)
        with noisy(model, ids, 0.1, 0), dropped_out(model, 0):
            assert not torch.equal(logits_of(model, name), outer)
            assert fingerprint(model) not in {own, print_outer}
        assert torch.equal(logits_of(model, name), outer)
        assert fingerprint(model) == print_outer
    assert torch.equal(logits_of(model, name), said)
    assert_unchanged(before, snapshot(model))
    assert_same_weights(weights_of(model), weights)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inside_a_mode_of_the_caller(mode):
    """Gradients flow through weights that were drawn in it."""
    model = make("bert")
    explainer, row = whence.load(model), zoo.rows("bert")[0]
    for change in changes(model, "bert").values():
        with change():
            wanted = explainer.explain(row, method="attcat")
        with mode(), change():
            found = explainer.explain(row, method="attcat")
        assert (found.scores == wanted.scores).all()


def test_another_thread_waits_for_its_turn():
    model = make("bert")
    explainer, row = whence.load(model), zoo.rows("bert")[0]
    wanted = explainer.explain(row, method="leave_one_out")
    started = Event()

    def explain():
        started.set()
        return explainer.explain(row, method="leave_one_out")

    with ThreadPoolExecutor(1) as pool:
        with randomised(model, 0, 0):
            waiting = pool.submit(explain)
            assert started.wait(10)
            altered = explainer.explain(row, method="leave_one_out")
            assert not waiting.done()
        found = waiting.result(60)
    assert (found.scores == wanted.scores).all()
    assert not (altered.scores == wanted.scores).all()
    assert found.model == wanted.model


def test_a_thread_that_runs_the_model_itself_meets_no_dropout():
    model = make("bert")
    said = logits_of(model, "bert")
    with ThreadPoolExecutor(1) as pool, dropped_out(model, 0):
        assert torch.equal(pool.submit(logits_of, model, "bert").result(60), said)
        assert not torch.equal(logits_of(model, "bert"), said)


# --- seeds ---


@pytest.mark.parametrize("name", ["bert", "albert", "gpt2", "t5"])
def test_a_seed_is_all_the_chance_there_is(name):
    model, twin = make(name), make(name)
    for kind, change in changes(model, name).items():
        said = []
        for seed in (0, 0, 1):
            with change(seed):
                said.append(logits_of(model, name))
        with changes(twin, name)[kind](1):
            said.append(logits_of(twin, name))
        assert torch.equal(said[0], said[1]), kind
        assert not torch.equal(said[0], said[2]), kind
        assert torch.equal(said[2], said[3]), kind


# --- noise ---


@pytest.mark.parametrize("name", zoo.ARCHITECTURES)
def test_noise_has_the_length_it_should_have(name):
    model = make(name)
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        table[7] = 0
    before = table.detach().clone()
    with noisy(model, [5, 7, 9, 9], 0.3, 0):
        moved = (table - before).norm(dim=1)
    # Sums of 32 squares in float64: rounding is about 1e-15 of the length.
    assert torch.allclose(moved[[5, 9]], 0.3 * before[[5, 9]].norm(dim=1), rtol=1e-12)
    rest = [i for i in range(len(table)) if i not in (5, 9)]
    assert (moved[rest] == 0).all()


def test_noise_of_a_token_does_not_depend_on_the_others():
    model = make("bert")
    table = model.get_input_embeddings().weight
    with noisy(model, [5], 0.3, 0):
        alone = table[5].detach().clone()
    with noisy(model, range(64), 0.3, 0):
        assert torch.equal(table[5], alone)


def test_directions_are_spread_evenly():
    """The mean of n unit vectors in d dimensions, if all directions are as likely, has a square of about 1/n."""
    model = make("bert")
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        table.copy_(torch.nn.functional.normalize(table))
    before = table.detach().clone()
    found = []
    for seed in range(20):
        with noisy(model, range(64), 1.0, seed):
            found.append((table - before).detach())
    unit = torch.cat(found)
    # 1280 x 32 products: the squared length of the mean, times n, is chi-square of 32 over 32: 1 +- 0.25.
    assert 0 < len(unit) * unit.mean(0).square().sum() < 2


def test_no_table_no_noise():
    with pytest.raises(NotCapturable, match="ViTForImageClassification has no table of token emb"), \
            noisy(zoo.make_vit(), [1], 0.1, 0):  # fmt: skip
        pass
    model = make("bert")
    model.get_input_embeddings = lambda: torch.nn.Identity()
    with pytest.raises(NotCapturable, match="not quantised"), noisy(model, [1], 0.1, 0):
        pass


@pytest.mark.parametrize("wrong", [-1, 64])
def test_noise_on_a_token_that_is_not_there(wrong):
    with pytest.raises(BadParameter, match=f"no token {wrong}: .* 0 to 63"), \
            noisy(make("bert"), [3, wrong], 0.1, 0):  # fmt: skip
        pass


# --- weights ---


@pytest.mark.parametrize("name", EVERY)
def test_stages_hold_every_parameter_once(name):
    model = make(name)
    found = [one for group in grouped(model).values() for one in group.items()]
    assert len({key for key, _ in found}) == len({id(p) for _, p in found}) == len(found)
    assert {id(p) for _, p in found} == {id(p) for p in model.parameters()}
    assert dict(found) == dict(model.named_parameters())


STAGES = {
    "albert": 3,  # one layer, used three times
    "bart": 6,  # two of each stream
    "t5": 6,
}


@pytest.mark.parametrize("name", EVERY)
def test_stages_go_from_the_output_to_the_input(name):
    model = make(name)
    order = stages(model)
    assert len(order) == STAGES.get(name, 5)
    assert (order[0], order[-1]) == ("head", "embeddings")
    numbers = [int(stage.rpartition(".")[2]) for stage in order[1:-1]]
    one = [0] if name == "albert" else [1, 0, 1, 0] if name in zoo.TWO_STREAMS else [2, 1, 0]
    assert numbers == one
    if name in zoo.TWO_STREAMS:
        assert ["decoder" in stage for stage in order[1:-1]] == [True, True, False, False]
    groups = grouped(model)
    # The head of every model in the zoo is one of these, and its embeddings are what tokens (or patches) enter by.
    assert any(
        n.split(".")[0] in {"classifier", "score", "classification_head"} for n in groups["head"]
    )
    assert not any("embed" in n for n in groups["head"])
    if name != "vit":
        table = model.get_input_embeddings().weight
        assert any(one is table for one in groups["embeddings"].values())


def test_what_head_and_embeddings_share_belongs_to_the_embeddings():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(4, 8, bias=True)
            self.embed_tokens = torch.nn.Embedding(8, 4)
            self.out.weight = self.embed_tokens.weight

    groups = grouped(Tied())
    assert {stage: list(group) for stage, group in groups.items()} == {
        "head": ["out.bias"], "embeddings": ["out.weight"],
    }  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_each_stage_is_added_to_those_before(name):
    model = make(name)
    before, groups = weights_of(model), list(grouped(model).values())
    said = [logits_of(model, name)]
    for stage in range(len(groups)):
        with randomised(model, stage, 0):
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


def test_weights_keep_their_mean_and_deviation():
    model = whence.load("reviews").model
    weight = model.bert.encoder.layer[0].intermediate.dense.weight
    with torch.no_grad():
        mean, deviation = weight.mean().item(), weight.std().item()
    with randomised(model, len(stages(model)) - 1, 0), torch.no_grad():
        # 65536 draws: five standard errors of the mean and of the deviation.
        assert abs(weight.mean().item() - mean) < 5 * deviation / 256
        assert abs(weight.std().item() - deviation) < 5 * deviation / 256 / 2**0.5


def test_the_same_weights_in_any_dtype():
    """float32 rounds the entries, their mean and their deviation: some 1e-7 of the largest."""
    model = make("bert")
    narrow = copy.deepcopy(model).float()
    with randomised(model, 4, 3), randomised(narrow, 4, 3):
        for one, other in zip(model.parameters(), narrow.parameters(), strict=True):
            assert torch.allclose(one.float(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stage", [-1, 5])
def test_a_stage_that_is_not_there(stage):
    with pytest.raises(BadParameter, match=f"no stage {stage}: .* has 5"), \
            randomised(make("bert"), stage, 0):  # fmt: skip
        pass


def test_weights_that_are_no_numbers_to_draw():
    model = make("bert")
    model.classifier.packed = torch.nn.Parameter(
        torch.zeros(3, dtype=torch.int8), requires_grad=False
    )
    with (
        pytest.raises(NotCapturable, match=r"'classifier\.packed' .* int8"),
        randomised(model, 0, 0),
    ):
        pass


# --- dropout ---


@pytest.mark.parametrize("name", EVERY)
def test_dropout_says_whether_there_is_any(name):
    model = make(name)
    said = logits_of(model, name)
    with dropped_out(model, 0) as number:
        assert (number > 0) == (name in WITH_DROPOUT)
        assert torch.equal(logits_of(model, name), said) == (number == 0)


class Twice(torch.nn.Module):
    """One dropout, used twice, and a weight, as every model has one."""

    def __init__(self, p):
        super().__init__()
        self.drop = torch.nn.Dropout(p)
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.eval()

    def forward(self, x):
        return self.drop(x), self.drop(x)


def test_dropout_is_that_of_training():
    """A share p of the features is gone, and the others are larger by 1 / (1 - p)."""
    module = Twice(0.25)
    with dropped_out(module, 0):
        found, _ = module(torch.ones(3, 40, 100))
    assert set(found.unique().tolist()) == {0.0, np.float32(4 / 3)}
    # 4000 draws, the same for each input: five standard errors of sqrt(p (1 - p) / n).
    assert abs((found[0] == 0).float().mean() - 0.25) < 5 * (0.25 * 0.75 / 4000) ** 0.5
    assert torch.equal(found[0], found[1])
    with dropped_out(nothing := Twice(1.0), 0):
        assert (nothing(torch.ones(2, 3))[0] == 0).all()


def test_a_layer_that_is_used_again_drops_other_features():
    module = Twice(0.5)
    with dropped_out(module, 0):
        one, other = module(torch.ones(1, 200))
        again, _ = module(torch.ones(1, 200))
    assert not torch.equal(one, other)
    assert torch.equal(one, again)


@pytest.mark.parametrize("name", sorted(WITH_DROPOUT))
def test_a_batch_equals_its_singles_also_with_dropout(name):
    explainer, rows = whence.load(make(name)), zoo.rows(name)
    with dropped_out(explainer.model, 0):
        together = explainer.explain(rows, method=["gradient", "leave_one_out"])
        for row, found in zip(rows, together, strict=True):
            alone = explainer.explain(row, method=["gradient", "leave_one_out"])
            for key in alone:
                # The order of summation differs: as in tests/contract, 1e-9 of scores of about 1 in float64.
                assert np.allclose(found[key].scores, alone[key].scores, rtol=1e-9, atol=1e-9)


# --- every method, and provenance ---


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


def test_every_method_works_on_a_changed_model(reviews):
    names = method.names()
    plain = reviews.explain(TEXT, method=names)
    ids = {token.id for token in plain["random"].tokens} | set(reviews.fillers.values())
    last = len(stages(reviews.model)) - 1
    for change in (
        noisy(reviews.model, ids, 0.1, 0), randomised(reviews.model, last, 0), dropped_out(reviews.model, 0),
    ):  # fmt: skip
        with change:
            found = reviews.explain(TEXT, method=names)
        for name in names:
            same = (found[name].scores == plain[name].scores).all()
            assert same == (name == "random"), name
            assert found[name].model["fingerprint"] != plain[name].model["fingerprint"]
        # What is exact stays exact: these methods account for all of the logit, whatever the weights.
        assert abs(found["decompx"].axioms["completeness"]) < 1e-9
    after = reviews.explain(TEXT, method=names)
    for name in names:
        assert (after[name].scores == plain[name].scores).all()
        assert after[name].model == plain[name].model


def test_fingerprints_tell_changes_apart(reviews):
    model, own = reviews.model, fingerprint(reviews.model)
    seen = {own}
    made = [
        noisy(model, [5, 6], 0.1, 0), noisy(model, [5, 6], 0.1, 1), noisy(model, [5, 6], 0.2, 0),
        noisy(model, [5, 7], 0.1, 0), randomised(model, 0, 0), randomised(model, 1, 0), randomised(model, 0, 1),
        dropped_out(model, 0), dropped_out(model, 1),
    ]  # fmt: skip
    for change in made:
        with change:
            seen.add(fingerprint(model))
        assert fingerprint(model) == own
    assert len(seen) == 1 + len(made)
    with noisy(model, [6, 5, 5], 0.1, 0):
        assert fingerprint(model) in seen
