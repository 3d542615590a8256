"""Temporary changes of a model: noise, random weights and dropout are seeded, traced and undone."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

import whence
from tests import zoo
from tests.alterations import EVERY, WITH_DROPOUT, logits_of, make, weights_of
from tests.contract.state import assert_unchanged, snapshot
from tests.reduced_params import FEW
from whence.core.errors import BadParameter, NotCapturable
from whence.methods import method
from whence.models.fingerprint import compute_fingerprint
from whence.tracing.alter import add_embedding_noise, apply_dropout, randomise_weights
from whence.tracing.structure import list_stages

TEXT = "the plot is thin, but the actors are wonderful"


def changes(model, name):
    """Return every change that can be made to a model, and that changes its answers."""
    last = len(list_stages(model)) - 1
    made = {
        "head": lambda seed=0: randomise_weights(model, 0, seed),
        "weights": lambda seed=0: randomise_weights(model, last, seed),
    }
    if name != "vit":
        ids = zoo.rows(name)[0]["input_ids"]
        made["noise"] = lambda seed=0: add_embedding_noise(model, ids, 0.2, seed)
    if name in WITH_DROPOUT:
        made["dropout"] = lambda seed=0: apply_dropout(model, seed)
    return made


def assert_same_weights(one, other):
    """Bit for bit: `equal` would take -0.0 for 0.0 and NaN for nothing."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert (value.numpy().tobytes()) == other[name].numpy().tobytes(), name


# --- left as found ---


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", EVERY)
def test_model_changes_are_undone_also_after_an_error(name, error):
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
def test_nested_changes_of_a_model_are_undone_one_by_one(name):
    model = make(name)
    before, weights, said = snapshot(model), weights_of(model), logits_of(model, name)
    own = compute_fingerprint(model)
    ids = zoo.rows(name)[0]["input_ids"]
    with randomise_weights(model, 1, 0):
        outer, print_outer = logits_of(model, name), compute_fingerprint(model)
        with add_embedding_noise(model, ids, 0.1, 0), apply_dropout(model, 0):
            assert not torch.equal(logits_of(model, name), outer)
            assert compute_fingerprint(model) not in {own, print_outer}
        assert torch.equal(logits_of(model, name), outer)
        assert compute_fingerprint(model) == print_outer
    assert torch.equal(logits_of(model, name), said)
    assert_unchanged(before, snapshot(model))
    assert_same_weights(weights_of(model), weights)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_changes_made_under_no_grad_or_inference_mode_give_the_same_scores(mode):
    """Gradients flow through weights that were drawn in it."""
    model = make("bert")
    explainer, row = whence.load(model), zoo.rows("bert")[0]
    for change in changes(model, "bert").values():
        with change():
            wanted = explainer.explain(row, method="attcat")
        with mode(), change():
            found = explainer.explain(row, method="attcat")
        assert (found.scores == wanted.scores).all()


def test_explain_in_another_thread_waits_until_the_weights_are_restored():
    model = make("bert")
    explainer, row = whence.load(model), zoo.rows("bert")[0]
    wanted = explainer.explain(row, method="leave_one_out")
    started = Event()

    def explain():
        started.set()
        return explainer.explain(row, method="leave_one_out")

    with ThreadPoolExecutor(1) as pool:
        with randomise_weights(model, 0, 0):
            waiting = pool.submit(explain)
            assert started.wait(10)
            altered = explainer.explain(row, method="leave_one_out")
            assert not waiting.done()
        found = waiting.result(60)
    assert (found.scores == wanted.scores).all()
    assert not (altered.scores == wanted.scores).all()
    assert found.model == wanted.model


def test_apply_dropout_does_not_affect_another_thread_that_runs_the_model():
    model = make("bert")
    said = logits_of(model, "bert")
    with ThreadPoolExecutor(1) as pool, apply_dropout(model, 0):
        assert torch.equal(pool.submit(logits_of, model, "bert").result(60), said)
        assert not torch.equal(logits_of(model, "bert"), said)


# --- seeds ---


@pytest.mark.parametrize("name", ["bert", "albert", "gpt2", "t5"])
def test_changes_with_the_same_seed_give_the_same_logits_also_on_a_twin_model(name):
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
def test_add_embedding_noise_moves_given_tokens_by_their_share_of_the_norm(name):
    model = make(name)
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        table[7] = 0
    before = table.detach().clone()
    with add_embedding_noise(model, [5, 7, 9, 9], 0.3, 0):
        moved = (table - before).norm(dim=1)
    # Sums of 32 squares in float64: rounding is about 1e-15 of the length.
    assert torch.allclose(moved[[5, 9]], 0.3 * before[[5, 9]].norm(dim=1), rtol=1e-12)
    rest = [i for i in range(len(table)) if i not in (5, 9)]
    assert (moved[rest] == 0).all()


def test_embedding_noise_of_a_token_does_not_depend_on_the_other_tokens():
    model = make("bert")
    table = model.get_input_embeddings().weight
    with add_embedding_noise(model, [5], 0.3, 0):
        alone = table[5].detach().clone()
    with add_embedding_noise(model, range(64), 0.3, 0):
        assert torch.equal(table[5], alone)


def test_embedding_noise_directions_are_spread_evenly():
    """The mean of n unit vectors in d dimensions, if all directions are as likely, has a square of about 1/n."""
    model = make("bert")
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        table.copy_(torch.nn.functional.normalize(table))
    before = table.detach().clone()
    found = []
    for seed in range(20):
        with add_embedding_noise(model, range(64), 1.0, seed):
            found.append((table - before).detach())
    unit = torch.cat(found)
    # 1280 x 32 products: the squared length of the mean, times n, is chi-square of 32 over 32: 1 +- 0.25.
    assert 0 < len(unit) * unit.mean(0).square().sum() < 2


def test_add_embedding_noise_without_an_embedding_table_raises_not_capturable():
    with pytest.raises(NotCapturable, match="ViTForImageClassification has no table of token emb"), \
            add_embedding_noise(zoo.make_vit(), [1], 0.1, 0):  # fmt: skip
        pass
    model = make("bert")
    model.get_input_embeddings = lambda: torch.nn.Identity()
    with (
        pytest.raises(NotCapturable, match="not quantised"),
        add_embedding_noise(model, [1], 0.1, 0),
    ):
        pass


@pytest.mark.parametrize("wrong", [-1, 64])
def test_add_embedding_noise_for_an_unknown_token_id_raises_bad_parameter(wrong):
    with pytest.raises(BadParameter, match=f"no token {wrong}: .* 0 to 63"), \
            add_embedding_noise(make("bert"), [3, wrong], 0.1, 0):  # fmt: skip
        pass


# --- every method, and provenance ---


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


def test_every_method_except_random_gives_other_scores_on_a_changed_model(reviews):
    names = method.names()
    how = {"method": names, "params": FEW}
    plain = reviews.explain(TEXT, **how)
    ids = {token.id for token in plain["random"].tokens} | set(reviews.fillers.values())
    last = len(list_stages(reviews.model)) - 1
    for change in (
        add_embedding_noise(reviews.model, ids, 0.1, 0), randomise_weights(reviews.model, last, 0), apply_dropout(reviews.model, 0),
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


def test_compute_fingerprint_differs_for_every_change_of_a_model(reviews):
    model, own = reviews.model, compute_fingerprint(reviews.model)
    seen = {own}
    made = [
        add_embedding_noise(model, [5, 6], 0.1, 0), add_embedding_noise(model, [5, 6], 0.1, 1), add_embedding_noise(model, [5, 6], 0.2, 0),
        add_embedding_noise(model, [5, 7], 0.1, 0), randomise_weights(model, 0, 0),
        randomise_weights(model, 1, 0), randomise_weights(model, 0, 1),
        apply_dropout(model, 0), apply_dropout(model, 1),
    ]  # fmt: skip
    for change in made:
        with change:
            seen.add(compute_fingerprint(model))
        assert compute_fingerprint(model) == own
    assert len(seen) == 1 + len(made)
    with add_embedding_noise(model, [6, 5, 5], 0.1, 0):
        assert compute_fingerprint(model) in seen
