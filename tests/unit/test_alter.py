"""A model that is changed for a while: left as found, seeded, with noise on its embeddings, and traced."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

import whence
from tests import zoo
from tests.alterations import EVERY, WITH_DROPOUT, logits_of, make, weights_of
from tests.contract.state import assert_unchanged, snapshot
from tests.few import FEW
from whence.capture.changed.altered import dropped_out, noisy, randomised, stages
from whence.core.errors import BadParameter, NotCapturable
from whence.methods import method
from whence.models import fingerprint

TEXT = "the plot is thin, but the actors are wonderful"


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


# --- every method, and provenance ---


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


def test_every_method_works_on_a_changed_model(reviews):
    names = method.names()
    how = {"method": names, "params": FEW}
    plain = reviews.explain(TEXT, **how)
    ids = {token.id for token in plain["random"].tokens} | set(reviews.fillers.values())
    last = len(stages(reviews.model)) - 1
    for change in (
        noisy(reviews.model, ids, 0.1, 0), randomised(reviews.model, last, 0), dropped_out(reviews.model, 0),
    ):  # fmt: skip
        with change:
            found = reviews.explain(TEXT, **how)
        for name in names:
            same = (found[name].scores == plain[name].scores).all()
            assert same == (name == "random"), name
            assert found[name].model["fingerprint"] != plain[name].model["fingerprint"]
        # What is exact stays exact: these methods account for all of the logit, whatever the weights.
        assert abs(found["decompx"].axioms["completeness"]) < 1e-9
    after = reviews.explain(TEXT, **how)
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
