"""The trust card: its shape, its verdicts from its own numbers, its counts, and every odd input."""

import json
from dataclasses import replace
from itertools import pairwise, permutations
from math import factorial

import numpy as np
import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from tests.asked import listening
from tests.contract.state import assert_unchanged, snapshot
from whence.explainer.explanation import Explanation
from whence.trust import Trust

TEXT = "the plot is thin but the actors are great"
TESTS = [
    "deletion", "sufficiency", "leave_one_out", "stability", "randomisation", "class_sensitivity", "completeness",
    "conservation",
]  # fmt: skip
RANDOM = ("deletion", "sufficiency", "leave_one_out")
AXIOMS = ("completeness", "conservation")


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews", dtype="float64")


@pytest.fixture(scope="module")
def explanation(explainer):
    return explainer.explain(TEXT)


@pytest.fixture(scope="module")
def card(explainer):
    return explainer.trust(
        TEXT, method=["attcat", "raw_attention", "integrated_gradients", "cp_lrp", "random"]
    )


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


def assert_alike(tests, others):
    """Padding, and how attention is computed, move the last bits of float64; all that is counted stays."""
    for one, other in zip(tests, others, strict=True):
        for exact in ("name", "verdict", "why", "percentile", "interval", "beaten", "tied", "of"):
            assert one[exact] == other[exact]
        if one["value"] is not None:
            assert one["value"] == pytest.approx(other["value"], abs=1e-9)
            assert one["null"] == pytest.approx(other["null"], abs=1e-9)


# --- shape and verdicts --------------------------------------------------------------------------


def check(card: Trust) -> None:
    """Check what must be true of every card, whatever is on it."""
    told = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    assert told["version"] == 1
    assert told["methods"] and told["sentence"] and told["sentence"].endswith(".")
    assert [rule["name"] for rule in told["rules"]] == TESTS
    for one in told["methods"]:
        assert {"method", "verdict", "tests"} <= one.keys()
        assert list(dict.fromkeys(test["name"] for test in one["tests"])) == TESTS
        assert one["sentence"].startswith(one["method"])
        for test in one["tests"]:
            assert {"name", "value", "null", "percentile", "verdict"} <= test.keys()
            assert test["why"].endswith(".") and "nan" not in test["why"].lower().split()
            if test["verdict"] != "not tested":
                assert isinstance(test["value"], float)
                assert set(test["null"]) == {"mean", "low", "high"}
                assert test["null"]["low"] <= test["null"]["high"]
            if test["percentile"] is not None:
                assert test["percentile"] == pytest.approx(
                    100 * (test["beaten"] + test["tied"] / 2) / test["of"]
                )
                low, high = test["interval"]
                assert 0 <= low <= test["percentile"] <= high <= 100
            assert test["verdict"] == judged(test, told["units"]), test["name"]
        main = {
            t["name"]: t["verdict"]
            for t in one["tests"]
            if t["remove"] in (None, told["remove"][0])
        }
        assert one["verdict"] == judged_overall(main)
    assert card.verdicts == {one["method"]: one["verdict"] for one in told["methods"]}
    # Whatever is on it, it can be shown.
    assert str(card) and repr(card) and "<" in card.to_html()


def judged(test, units):
    """Judge a test again, from the numbers on the card and what docs/reference/trust.md says."""
    value, null, name = test["value"], test["null"], test["name"]
    if value is None:
        return "not tested"

    def by(number, holds, weak):
        return "holds" if number <= holds else "weak" if number <= weak else "fails"

    if name in RANDOM:
        as_good = test["of"] - test["beaten"]
        # All rankings there are, the explanation's among them; else it is one more draw.
        if name != "leave_one_out" and test["of"] == factorial(units):
            return by(as_good / test["of"], 0.05, 0.25)
        return by((as_good + 1) / (test["of"] + 1), 0.05, 0.25)
    if name == "stability":
        return by(value / null["mean"], 0.25, 0.5) if null and null["mean"] else "not tested"
    if name == "randomisation":
        if null["high"] > 0.6 and value <= null["high"]:
            return "not tested"
        return by(value, max(0.3, null["high"]), 0.6)
    if name == "class_sensitivity":
        return by(value, 0.5, 0.9)
    return by(value, 0.01, 0.1)


def judged_overall(verdicts):
    """Holds, fails, weak or not tested, as docs/reference/trust.md says; axioms are not held against it."""
    faithful = [verdicts["deletion"], verdicts["sufficiency"]]
    if faithful == ["fails", "fails"] or verdicts["randomisation"] == "fails":
        return "fails"
    if faithful == ["not tested", "not tested"]:
        return "not tested"
    behaviour = [verdict for name, verdict in verdicts.items() if name not in AXIOMS]
    if faithful == ["holds", "holds"] and "fails" not in behaviour:
        return "holds"
    return "weak"


def test_a_card_of_several_methods(card):
    check(card)
    assert [one["method"] for one in card.to_dict()["methods"]] == list(card.verdicts)
    # Those that promise something are held to it, and only those.
    for name, promise in (
        ("integrated_gradients", "completeness"),
        ("cp_lrp", "conservation"),
    ):
        assert card.test(promise, name)["verdict"] != "not tested"
    for promise in ("completeness", "conservation"):
        assert card.test(promise, "random")["verdict"] == "not tested"
    # What does not look at the model cannot pass.
    assert card.verdicts["random"] == "fails"
    assert card.test("stability", "random")["value"] == 0
    for name in ("randomisation", "class_sensitivity"):
        assert card.test(name, "random")["value"] == pytest.approx(1)
        assert card.test(name, "random")["verdict"] == "fails"


def test_the_card_of_an_explanation_is_that_of_its_method(explainer, explanation, card):
    check(explanation.trust())
    alone, among = explanation.trust().to_dict()["methods"][0], card.to_dict()["methods"][0]
    assert_alike(alone["tests"], among["tests"])


def test_a_card_is_saved_and_read(card, tmp_path):
    again = Trust.load(card.save(tmp_path / "card.json"))
    assert again.to_dict() == json.loads(json.dumps(card.to_dict()))
    assert str(again) == str(card)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("remove", ["mask", "pad", "unk", "delete"])
def test_each_kind_of_removal(explainer, remove, unit):
    found = explainer.explain("xylophones in the rain").trust(400, remove=remove, unit=unit)
    check(found)
    told = found.to_dict()
    assert (told["remove"], told["unit"]) == ([remove], unit)
    assert {test["remove"] for test in told["methods"][0]["tests"]} == {remove, None}


def test_words_are_removed_whole(explainer):
    found = explainer.explain("xylophones in the rain")
    assert len(found.spans) < sum(not token.special for token in found.tokens)
    assert found.trust(unit="word", budget=400).to_dict()["units"] == len(found.spans)
    allowed = {word.tokens for word in found.spans}
    mask = explainer.tokenizer.mask_token_id
    with listening(explainer.model) as asked:
        found.trust(unit="word", budget=400)
    for ids in asked:
        gone = {place for place, one in enumerate(ids) if one == mask}
        assert gone == {p for word in allowed if word[0] in gone for p in word}


def test_all_kinds_of_removal_at_once(explanation):
    found = explanation.trust(3000, remove="all")
    check(found)
    told = found.to_dict()
    assert (
        sorted(told["remove"]) == ["delete", "mask", "pad", "unk"] and told["remove"][0] == "mask"
    )
    tests = told["methods"][0]["tests"]
    for name in RANDOM:
        assert [test["remove"] for test in tests if test["name"] == name] == told["remove"]
    assert told["removal_matters"]
    # Each is what it is alone, with as many rankings.
    one = explanation.trust(3000, remove="pad")
    assert one.to_dict()["removal_matters"] is None
    (pad,) = (t for t in tests if t["name"] == "leave_one_out" and t["remove"] == "pad")
    assert pad == one.test("leave_one_out")


# --- by brute force ------------------------------------------------------------------------------


def test_percentiles_by_brute_force():
    """All 24 rankings of four tokens, each variant put together by hand and asked of the plain model."""
    explainer = whence.load("reviews", dtype="float64")
    found = explainer.explain("dull but good film", method="grad_x_input")
    tokenizer, model = explainer.tokenizer, explainer.model
    ids = tokenizer("dull but good film")["input_ids"]
    assert len(ids) == 6

    def probability(gone):
        filled = [
            tokenizer.mask_token_id if place in gone else one for place, one in enumerate(ids)
        ]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([filled])).logits[0]
        return float(logits.softmax(-1)[found.target.index])

    def deletion(order):
        heights = [probability(order[:count]) for count in range(5)]
        return sum((a + b) / 2 / 4 for a, b in pairwise(heights))

    def sufficiency(order):
        """Tenths of the tokens are kept, from none to nine, rounded down."""
        kept = [tenth * 4 // 10 for tenth in range(10)]
        return sum(probability(()) - probability(order[count:]) for count in kept) / 10

    content = range(1, 5)
    mine = sorted(content, key=lambda place: -found.scores[place])
    every = list(permutations(content))
    trust = found.trust()
    for name, area in (("deletion", deletion), ("sufficiency", sufficiency)):
        test = trust.test(name)
        value, null = area(mine), np.array([area(order) for order in every])
        assert test["value"] == pytest.approx(value, abs=1e-12)
        assert test["null"]["mean"] == pytest.approx(null.mean(), abs=1e-12)
        assert [test["null"]["low"], test["null"]["high"]] == pytest.approx(
            np.quantile(null, [0.025, 0.975]), abs=1e-12
        )
        gain = null - value
        assert (test["beaten"], test["tied"], test["of"]) == (
            (gain > 1e-12).sum(), (abs(gain) <= 1e-12).sum(), 24,
        )  # fmt: skip
    falls = [probability(()) - probability((place,)) for place in content]
    signs = [
        np.sign(found.scores[a] - found.scores[b]) * np.sign(falls[a - 1] - falls[b - 1])
        for a in content
        for b in content
        if a < b
    ]
    assert trust.test("leave_one_out")["value"] == pytest.approx(np.mean(signs))


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


# --- odd inputs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "units", "said"),
    [
        ("good", 1, "only one token"),
        ("!", 1, "only one token"),
        ("good film", 2, "2 ways"),
        ("a good film", 3, "6 ways"),
    ],
)
def test_texts_too_short_to_tell(explainer, text, units, said):
    found = explainer.trust(text, method=["attcat", "leave_one_out", "random"])
    check(found)
    assert found.to_dict()["units"] == units
    for name in ("deletion", "sufficiency", "leave_one_out"):
        for method in found.verdicts:
            test = found.test(name, method)
            assert test["verdict"] == "not tested" and said in test["why"]
            assert test["value"] is None and test["null"] is None and test["percentile"] is None


def test_four_tokens_are_ranked_in_every_way(explainer):
    found = explainer.trust("dull but good film")
    check(found)
    assert found.to_dict()["rankings"] == found.test("deletion")["of"] == 24
    assert found.test("deletion")["tied"] >= 1  # itself


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_a_text_of_nothing(explainer, text):
    with pytest.raises(whence.WhenceError, match="empty"):
        explainer.trust(text)


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_an_explanation_that_ranks_nothing(explanation, score):
    found = replace(explanation, scores=np.full_like(explanation.scores, score)).trust(400)
    check(found)
    assert found.verdicts == {"attcat": "not tested"}
    for name in RANDOM:
        assert "equal" in found.test(name)["why"]


def test_what_cannot_be_made_again_costs_nothing(explainer, explanation):
    explanation.trust(1)
    with listening(explainer.model) as asked:
        found = replace(explanation, method="mine", params={}).trust(1)
    check(found)
    assert asked == [] and found.to_dict()["cost"]["forward"] == 0


def test_an_explanation_by_nobody_knows_whom(explanation):
    found = replace(explanation, method="mine", params={}).trust()
    check(found)
    for name in ("stability", "randomisation", "class_sensitivity"):
        assert found.test(name)["verdict"] == "not tested"
        assert "cannot be made again" in found.test(name)["why"]
    assert found.test("deletion") == explanation.trust().test("deletion")


@pytest.mark.parametrize("wrong", ["nan", "infinite", "short"])
def test_scores_that_are_none_are_refused(explanation, wrong):
    scores = explanation.scores.copy()
    if wrong == "short":
        scores = scores[:3]
    else:
        scores[3] = np.nan if wrong == "nan" else np.inf
    with pytest.raises(whence.WhenceError, match="score"):
        replace(explanation, scores=scores).trust(400)


@pytest.mark.parametrize("size", [1e-300, 1e250])
def test_the_size_of_scores_that_are_not_made_again_does_not_matter(explanation, size):
    mine = replace(explanation, method="mine", params={})
    plain, scaled = mine.trust(400), replace(mine, scores=mine.scores * size).trust(400)
    for name in RANDOM:
        for figure in ("value", "percentile", "verdict"):
            assert scaled.test(name)[figure] == plain.test(name)[figure]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": True}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"remove": "zap"}, "zap"),
        ({"remove": "draw"}, "mlm"),
        ({"unit": "sentence"}, "sentence"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_options_that_are_none(explanation, options, said):
    with pytest.raises(whence.WhenceError, match=said):
        explanation.trust(**options)


def test_one_input_at_a_time(explainer):
    with pytest.raises(whence.WhenceError, match="one input at a time"):
        explainer.trust(["a good film", "a bad film"])


# --- other models and targets --------------------------------------------------------------------


def head(**more):
    config = hf.BertConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=64,
        max_position_embeddings=48, pad_token_id=0, **more,
    )  # fmt: skip
    model = zoo.seeded(lambda: hf.BertForSequenceClassification(config))
    return whence.load(model.double().eval())


def test_a_regression_has_no_other_class():
    found = head(num_labels=1, problem_type="regression").trust(
        zoo.rows("bert")[0], method=["attcat", "integrated_gradients"]
    )
    check(found)
    assert "no other class" in found.test("class_sensitivity")["why"]
    assert found.test("deletion")["verdict"] != "not tested"


def test_several_labels_at_once():
    explainer = head(num_labels=3, problem_type="multi_label_classification")
    for target in (0, 1, 2, "runner-up"):
        found = explainer.trust(zoo.rows("bert")[0], target=target)
        check(found)
        assert found.test("class_sensitivity")["verdict"] != "not tested"


def test_a_contrast(explainer):
    found = explainer.trust(TEXT, target=("positive", "negative"))
    check(found)
    assert "against each other" in found.test("class_sensitivity")["why"]


def test_a_probability_and_the_runner_up(explainer):
    check(explainer.trust(TEXT, of="probability"))
    check(explainer.trust(TEXT, target="runner-up"))


def test_a_pair(explainer):
    found = explainer.trust(("the plot is thin", "but it is great"))
    check(found)
    assert found.to_dict()["input"]["pair"] == "but it is great" and found.to_dict()["units"] == 8


@pytest.mark.parametrize("name", ["gpt2", "bart", "t5", "deberta-v2", "gemma3"])
@pytest.mark.parametrize("remove", [None, "all"])
def test_models_without_a_mask(name, remove):
    explainer = whence.load(zoo.make(name))
    assert "mask" not in explainer.fillers
    (row,) = zoo.rows(name, lengths=(6,))
    with listening(explainer.model) as asked:
        found = explainer.trust(row, method=["leave_one_out", "random"], remove=remove, budget=900)
    check(found)
    told = found.to_dict()
    assert told["remove"][0] == "pad"
    assert ("delete" in told["remove"]) == (remove == "all")
    if name in zoo.TWO_STREAMS:  # the end of the sequence cannot be missed
        assert told["units"] == 5 and all(3 in ids for ids in asked)
    assert found.test("deletion", "leave_one_out")["verdict"] != "not tested"


# --- truth, and chance ---------------------------------------------------------------------------


def test_attention_to_a_decoy_does_not_hold():
    """Ten tokens or more, so that there is room to hold: the evidence is found by others, not by attention."""
    explainer = whence.load("decoy", dtype="float64")
    for text in (
        "the decoy film is great and the story of it was so long",
        "a film the decoy is awful to and it has a plot there",
    ):
        found = explainer.trust(
            text, method=["raw_attention", "rollout", "leave_one_out", "integrated_gradients"]
        )
        check(found)
        for name in ("raw_attention", "rollout"):
            assert found.verdicts[name] != "holds"
            assert found.test("deletion", name)["verdict"] != "holds"
        for name in ("leave_one_out", "integrated_gradients"):
            place = found.test("deletion", name)
            assert place["beaten"] + place["tied"] == place["of"]
            ahead = place["percentile"] - found.test("deletion", "raw_attention")["percentile"]
            assert ahead > 0


def test_random_holds_one_time_in_twenty():
    """Over 60 inputs: with 100 rankings and no ties each holds with a chance of 5/101.

    Their number is binomial. More than 9 come once in a thousand times, and none at all once in twenty: the seed is
    one that has some.
    """
    explainer = whence.load(zoo.make("bert"))
    rows = zoo.rows("bert", lengths=(6,) * 60, seed=7)
    counts = dict.fromkeys(("holds", "weak", "fails"), 0)
    percents = []
    for found in explainer.explain(rows, method="random", params={"seed": 3}):
        found = replace(found, method="mine", params={}).trust()
        test = found.test("deletion")
        counts[test["verdict"]] += 1
        percents.append(test["percentile"])
        assert found.to_dict()["rankings"] == 100
    assert sum(counts.values()) == 60
    assert 1 <= counts["holds"] <= 9
    # A quarter at most are not failed: binomial, 60 of 25/101, over 26 once in a thousand times.
    assert counts["holds"] + counts["weak"] <= 26
    # Uniform numbers: Kolmogorov's distance passes 1.95 / sqrt(60) once in a thousand times; a step for the grid.
    ranked = np.sort(percents) / 100
    places = np.arange(60) / 60
    apart = max((places + 1 / 60 - ranked).max(), (ranked - places).max())
    assert apart <= 1.95 / np.sqrt(60) + 0.01
