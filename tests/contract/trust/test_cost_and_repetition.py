"""What a trust card costs, that it is the same again, and that the model is left as it was."""

import json

import pytest
import torch

import whence
from tests import zoo
from tests.asked import listening
from tests.contract.state import assert_unchanged, snapshot
from tests.contract.trust.conftest import TEXT, assert_alike, check
from whence.explainer.explanation import Explanation
from whence.trust import Trust


def without_clock(card: Trust):
    """Return a card that can be compared: how long it took is another each time."""
    told = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    del told["cost"]["seconds"]
    return told


def apart_from_cost(card: Trust):
    told = without_clock(card)
    del told["cost"]
    for one in told["methods"]:
        del one["passes"]
    return told


# --- what it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["attcat", "leave_one_out", "integrated_gradients"])
@pytest.mark.parametrize("budget", [1, 10, 50, 200, 2000])
def test_the_budget_is_kept_and_the_count_is_right(explainer, method, budget):
    found = explainer.explain(TEXT, method=method)
    found.trust(1)  # whatever must be found out about the model once is found out here
    with listening(explainer.model) as asked:
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


def test_what_is_said_to_be_enough_is_enough(explanation):
    why = explanation.trust(100).test("deletion")["why"]
    needed = int(why.split()[-1].rstrip("."))
    enough = explanation.trust(needed)
    assert enough.test("deletion")["verdict"] != "not tested"
    assert explanation.trust(needed - 1).test("deletion")["verdict"] == "not tested"
    assert enough.to_dict()["rankings"] == 20


def test_the_count_of_several_methods_is_what_ran(explainer):
    methods = ["attcat", "kernel_shap", "leave_one_out", "integrated_gradients"]
    explainer.trust("a slow film", budget=1)
    with listening(explainer.model) as asked:
        told = explainer.trust("a slow but moving film", method=methods, budget=600)
    check(told)
    assert told.to_dict()["cost"]["forward"] == len(asked)


def test_no_question_is_asked_twice(explainer, explanation):
    """Variants of the text are asked once; what is made again is made of the text as it is."""
    with listening(explainer.model) as asked:
        explanation.trust()
    whole = tuple(explainer.tokenizer(TEXT)["input_ids"])
    variants = [ids for ids in asked if ids != whole]
    assert len(variants) == len(set(variants))
    # Ten noises, one other class, one for each stage: head, layers and embeddings.
    stages = explainer.model.config.num_hidden_layers + 2
    assert asked.count(whole) == 10 + 1 + stages


@pytest.mark.parametrize("units", [12, 15, 21])
def test_deletion_and_sufficiency_share_their_questions(units):
    """A ranking takes nine questions for both; nine more would be twice the price."""
    explainer = whence.load(zoo.make("bert"))
    found = explainer.explain(zoo.rows("bert", lengths=(units,))[0], method="random")
    found.trust(1)
    told = found.trust().to_dict()
    assert (told["units"], told["rankings"]) == (units, 100)
    # Two times nine for the explanation itself, all gone, leave-one-out, and what is made again.
    stages = explainer.model.config.num_hidden_layers + 2
    assert told["cost"]["forward"] <= 9 * 100 + 18 + 1 + units + 10 + 1 + stages


def test_progress_goes_up_to_the_end():
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


def test_the_same_seed_gives_the_same_card_and_another_seed_other_rankings(explainer):
    def trust(seed):
        fresh = whence.load("reviews", dtype="float64")
        return fresh.trust(long, budget=600, seed=seed)

    # Long enough to tell the explanation of a randomised model from an unrelated one.
    long = (
        f"{TEXT}, and yet it moved me to tears in the end, and more than once at that, I must say"
    )
    one, same, other = trust(0), trust(0), trust(1)
    assert without_clock(one) == without_clock(same)
    for name in ("deletion", "sufficiency", "leave_one_out"):
        assert one.test(name)["value"] == other.test(name)["value"]
        assert one.test(name)["null"] != other.test(name)["null"]
    assert one.test("stability")["value"] != other.test("stability")["value"]
    assert one.test("randomisation")["value"] != other.test("randomisation")["value"]


def test_twice_the_same_card_from_one_explainer():
    found = whence.load("reviews", dtype="float64").explain(TEXT)
    assert without_clock(found.trust(400)) == without_clock(found.trust(400))


def test_the_same_card_from_a_batch_and_alone(explainer, explanation):
    texts = [
        "a slow film",
        TEXT,
        "the ending is a long, dull and awful mess that nobody should see",
    ]
    among = explainer.explain(texts)[1]
    one, other = apart_from_cost(explanation.trust(400)), apart_from_cost(among.trust(400))
    assert_alike(one["methods"][0]["tests"], other["methods"][0]["tests"])


def test_the_same_card_after_saving(explainer, explanation, tmp_path):
    loaded = Explanation.load(explanation.save(tmp_path / "explanation.json"))
    again = loaded.trust(400, explainer=explainer)
    assert without_clock(again) == without_clock(explanation.trust(400))
    with pytest.raises(whence.WhenceError, match="explainer"):
        loaded.trust()
    with pytest.raises(whence.WhenceError, match="decoy"):
        loaded.trust(explainer=whence.load("decoy"))


def test_a_pair_is_saved_and_tested_again(explainer, tmp_path):
    found = explainer.explain(("the plot is thin", "but it is great"))
    loaded = Explanation.load(found.save(tmp_path / "pair.json"))
    assert without_clock(loaded.trust(400, explainer=explainer)) == without_clock(found.trust(400))


# --- the model is left as it was -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_the_model_is_left_as_found(name):
    model = zoo.make(name).train()
    for number, weight in enumerate(model.parameters()):
        weight.requires_grad_(number % 3 == 0)
    before, bits = snapshot(model), [w.detach().clone() for w in model.parameters()]
    found = whence.load(model).explain(zoo.rows(name)[0], method="leave_one_out")
    check(found.trust(600))
    assert_unchanged(before, snapshot(model))
    assert all(torch.equal(a, b) for a, b in zip(bits, model.parameters(), strict=True))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_model_is_left_as_found_when_interrupted(error):
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
    assert apart_from_cost(found.trust(900)) == apart_from_cost(wanted)
