"""Trust cards: cost in forward passes, equal cards from equal seeds, batches and files, and an unchanged model."""

import json

import pytest
import torch

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from tests.contract.trust.conftest import TEXT, assert_alike, check
from tests.model_inputs import record_model_inputs
from whence.explain.explanation import Explanation
from whence.trust.card import Trust


def payload_without_seconds(card: Trust):
    """Return a card that can be compared: how long it took is another each time."""
    told = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    del told["cost"]["seconds"]
    return told


def payload_without_cost(card: Trust):
    told = payload_without_seconds(card)
    del told["cost"]
    for one in told["methods"]:
        del one["passes"]
    return told


# --- what it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["attcat", "leave_one_out", "integrated_gradients"])
@pytest.mark.parametrize("budget", [1, 10, 50, 200, 2000])
def test_trust_stays_within_its_budget_and_counts_every_forward_pass(explainer, method, budget):
    found = explainer.explain(TEXT, method=method)
    found.trust(1)  # whatever must be found out about the model once is found out here
    with record_model_inputs(explainer.model) as asked:
        told = found.trust(budget)
    check(told)
    cost = told.to_dict()["cost"]
    assert cost["forward"] == len(asked) <= budget == told.to_dict()["budget"]
    tests = told.to_dict()["methods"][0]["tests"]
    for test in tests:
        if test["verdict"] == "not tested":
            reasons = (f"budget of {budget} ", "no such promise", "too short")
            assert any(reason in test["why"] for reason in reasons)
    short = [test["name"] for test in tests if "budget" in test["why"]]
    assert (not short) == (budget == 2000)


def test_trust_with_exactly_the_budget_named_as_needed_tests_deletion(explanation):
    why = explanation.trust(100).test("deletion")["why"]
    needed = int(why.split()[-1].rstrip("."))
    enough = explanation.trust(needed)
    assert enough.test("deletion")["verdict"] != "not tested"
    assert explanation.trust(needed - 1).test("deletion")["verdict"] == "not tested"
    assert enough.to_dict()["rankings"] == 20


def test_trust_of_several_methods_counts_the_forward_passes_that_ran(explainer):
    methods = ["attcat", "kernel_shap", "leave_one_out", "integrated_gradients"]
    explainer.trust("a slow film", budget=1)
    with record_model_inputs(explainer.model) as asked:
        told = explainer.trust("a slow but moving film", method=methods, budget=600)
    check(told)
    assert told.to_dict()["cost"]["forward"] == len(asked)


def test_trust_asks_about_no_variant_of_the_text_twice(explainer, explanation):
    """Variants of the text are asked once; what is made again is made of the text as it is."""
    with record_model_inputs(explainer.model) as asked:
        explanation.trust()
    whole = tuple(explainer.tokenizer(TEXT)["input_ids"])
    variants = [ids for ids in asked if ids != whole]
    assert len(variants) == len(set(variants))
    # Ten noises, one other class, one for each stage: head, layers and embeddings.
    stages = explainer.model.config.num_hidden_layers + 2
    assert asked.count(whole) == 10 + 1 + stages


@pytest.mark.parametrize("units", [12, 15, 21])
def test_deletion_and_sufficiency_of_a_trust_card_share_their_queries(units):
    """A ranking takes nine questions for both; nine more would be twice the price."""
    explainer = whence.load(zoo.make("bert"))
    found = explainer.explain(zoo.rows("bert", lengths=(units,))[0], method="random")
    found.trust(1)
    told = found.trust().to_dict()
    assert (told["units"], told["rankings"]) == (units, 100)
    # Two times nine for the explanation itself, all gone, leave-one-out, and what is made again.
    stages = explainer.model.config.num_hidden_layers + 2
    assert told["cost"]["forward"] <= 9 * 100 + 18 + 1 + units + 10 + 1 + stages


def test_trust_progress_rises_up_to_its_total():
    (row,) = zoo.rows("bert", lengths=(9,))
    explanation = whence.load(zoo.make("bert")).explain(row)
    for budget in (10, 400, 2000):
        seen = []
        explanation.trust(
            budget, progress=lambda done, total, seen=seen: seen.append((done, total))
        )
        dones = [done for done, _ in seen]
        assert dones == sorted(dones)
        assert all(0 <= done <= total for done, total in seen)
        assert seen[-1][0] == seen[-1][1]


# --- the same again ------------------------------------------------------------------------------


def test_trust_with_the_same_seed_gives_the_same_card_and_another_seed_other_nulls(explainer):
    def trust(seed):
        fresh = whence.load("reviews", dtype="float64")
        return fresh.trust(long, budget=600, seed=seed)

    # Long enough to tell the explanation of a randomised model from an unrelated one.
    long = (
        f"{TEXT}, and yet it moved me to tears in the end, and more than once at that, I must say"
    )
    one, same, other = trust(0), trust(0), trust(1)
    assert payload_without_seconds(one) == payload_without_seconds(same)
    for name in ("deletion", "sufficiency", "leave_one_out"):
        assert one.test(name)["value"] == other.test(name)["value"]
        assert one.test(name)["null"] != other.test(name)["null"]
    assert one.test("stability")["value"] != other.test("stability")["value"]
    assert one.test("randomisation")["value"] != other.test("randomisation")["value"]


def test_trust_twice_from_one_explainer_gives_the_same_card():
    found = whence.load("reviews", dtype="float64").explain(TEXT)
    assert payload_without_seconds(found.trust(400)) == payload_without_seconds(found.trust(400))


def test_trust_of_an_explanation_from_a_batch_equals_the_single_explanation(explainer, explanation):
    texts = [
        "a slow film",
        TEXT,
        "the ending is a long, dull and awful mess that nobody should see",
    ]
    among = explainer.explain(texts)[1]
    one, other = (
        payload_without_cost(explanation.trust(400)),
        payload_without_cost(among.trust(400)),
    )
    assert_alike(one["methods"][0]["tests"], other["methods"][0]["tests"])


def test_trust_of_a_loaded_explanation_equals_the_original_and_needs_its_explainer(
    explainer, explanation, tmp_path
):
    loaded = Explanation.load(explanation.save(tmp_path / "explanation.json"))
    again = loaded.trust(400, explainer=explainer)
    assert payload_without_seconds(again) == payload_without_seconds(explanation.trust(400))
    with pytest.raises(whence.WhenceError, match="explainer"):
        loaded.trust()
    with pytest.raises(whence.WhenceError, match="decoy"):
        loaded.trust(explainer=whence.load("decoy"))


def test_trust_of_a_loaded_pair_equals_the_original_card(explainer, tmp_path):
    found = explainer.explain(("the plot is thin", "but it is great"))
    loaded = Explanation.load(found.save(tmp_path / "pair.json"))
    assert payload_without_seconds(
        loaded.trust(400, explainer=explainer)
    ) == payload_without_seconds(found.trust(400))


# --- the model is left as it was -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_trust_leaves_the_model_and_its_weights_unchanged(name):
    model = zoo.make(name).train()
    for number, weight in enumerate(model.parameters()):
        weight.requires_grad_(number % 3 == 0)
    before, bits = snapshot(model), [w.detach().clone() for w in model.parameters()]
    found = whence.load(model).explain(zoo.rows(name)[0], method="leave_one_out")
    check(found.trust(600))
    assert_unchanged(before, snapshot(model))
    assert all(torch.equal(a, b) for a, b in zip(bits, model.parameters(), strict=True))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_trust_interrupted_at_many_moments_leaves_the_model_unchanged(error):
    """At many moments, whenever progress is told: while variants are asked, weights random, embeddings noisy."""
    model = zoo.make("bert")
    found = whence.load(model).explain(zoo.rows("bert")[0], method="grad_x_input")
    told = []
    wanted = found.trust(900, progress=lambda *_: told.append(1))
    before, bits = snapshot(model), [w.detach().clone() for w in model.parameters()]
    assert len(told) > 15
    for moment in range(1, len(told), 2 if error is KeyboardInterrupt else 7):
        left = moment

        def stop(done, total):
            nonlocal left
            left -= 1
            if not left:
                raise error

        with pytest.raises(error):
            found.trust(900, progress=stop)
        assert all(torch.equal(a, b) for a, b in zip(bits, model.parameters(), strict=True))
    assert_unchanged(before, snapshot(model))
    assert payload_without_cost(found.trust(900)) == payload_without_cost(wanted)
