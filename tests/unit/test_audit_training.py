"""Experiments that train: made-up tasks whose answer is known, and the arithmetic of the losses."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import whence
from whence.audit.compare import has_learnt, looks_apart, reach, says_apart, standing
from whence.audit.experiments import experiment
from whence.audit.guided import Guide, Guided
from whence.audit.imitation import Imitation
from whence.audit.plan import Plan
from whence.audit.subject import Subject
from whence.audit.verdict import judged
from whence.audit.workshop import Workshop
from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import generator
from whence.data.examples import Example
from whence.explainer import Explainer
from whence.explainer.intake import take
from whence.models import fingerprint, load
from whence.models.attentive import AttentiveConfig, fresh, word_tokenizer
from whence.training import Recipe, Row, fit, performance

NOISE = [f"n{number}" for number in range(20)]
RECIPE = Recipe(epochs=10, batch_size=16, learning_rate=1e-2, seed=77)


def cue(count: int, key: str) -> list[Example]:
    """One word of eight tells the label, and stands anywhere among noise."""
    draw, made = generator("cue", key), []
    for number in range(count):
        words = [str(one) for one in draw.choice(NOISE, 7)]
        words.insert(int(draw.integers(8)), ("bad", "good")[number % 2])
        made.append(Example(" ".join(words), ("no", "yes")[number % 2]))
    return made


def redundant(count: int, key: str) -> list[Example]:
    """All words of a text say the same: it does not matter which of them is looked at."""
    draw, made = generator("redundant", key), []
    for number in range(count):
        words = [f"{'ab'[number % 2]}{one}" for one in draw.integers(6, size=8)]
        made.append(Example(" ".join(words), ("no", "yes")[number % 2]))
    return made


def marked(count: int, key: str) -> list[Example]:
    """Every text has both cues once, and the one after the star counts: without context nobody can tell."""
    draw, made = generator("marked", key), []
    for number in range(count):
        right, wrong = ("bad", "good") if number % 2 == 0 else ("good", "bad")
        parts = [["*", right], [wrong], *([str(one)] for one in draw.choice(NOISE, 4))]
        order = [parts[i] for i in draw.permutation(len(parts))]
        made.append(
            Example(" ".join(word for part in order for word in part), ("no", "yes")[number % 2])
        )
    return made


def asked(count: int, key: str) -> list[Example]:
    """The query names one of six colours, and the passage says yes or no to each, in any order."""
    colours = ["red", "blue", "green", "black", "white", "grey"]
    draw, made = generator("asked", key), []
    for number in range(count):
        signs = draw.integers(2, size=6)
        place = int(draw.integers(6))
        signs[place] = number % 2
        words = [f"{colour}{'-+'[sign]}" for colour, sign in zip(colours, signs, strict=True)]
        passage = " ".join(words[i] for i in draw.permutation(6))
        made.append(Example((passage, colours[place]), ("no", "yes")[number % 2]))
    return made


def trained(train: list[Example], recipe: Recipe = RECIPE, **parts: Any) -> Explainer:
    """Train a small model of Jain & Wallace."""
    texts = [
        text for one in train for text in ([one.given] if isinstance(one.given, str) else one.given)
    ]
    tokenizer = word_tokenizer(texts)
    config = AttentiveConfig(
        vocab_size=len(tokenizer),
        **{"embedding_size": 16, "hidden_size": 16, **parts},
        id2label={0: "no", 1: "yes"},
        training=recipe.to_dict(),
    )
    explainer = whence.load(fresh(config, recipe.seed), tokenizer=tokenizer)
    items = [take(one.given, explainer.loaded, truncate=True)[0][0] for one in train]
    rows = [Row(item, int(one.label == "yes")) for item, one in zip(items, train, strict=True)]
    fit(explainer.model, rows, recipe, pad_id=0)
    return explainer


def subject_of(
    explainer: Explainer, test: list[Example], train: list[Example], **how: Any
) -> Subject:
    items = [take(one.given, explainer.loaded, truncate=True)[0][0] for one in test]
    labels = list(explainer.labels)
    truth = np.array([labels.index(str(one.label)) for one in test])
    workshop = Workshop(explainer.loaded, train, **how)
    return Subject(explainer, test, items, truth, workshop=workshop)


def found(name: str, subject: Subject, **params: Any) -> tuple[Any, dict[str, Any]]:
    entry = experiment.get(name)
    finding = entry.fn(subject, **params)
    return finding, judged(entry, finding, 0)


@cache
def cue_model() -> Explainer:
    return trained(cue(96, "train"), encoder="average")


def cue_subject(**how: Any) -> Subject:
    return subject_of(cue_model(), cue(40, "test"), cue(96, "train"), **how)


REVIEWS = [
    Example("a gripping and moving film", "positive"),
    Example("dull and far too long", "negative"),
    Example("the actors are wonderful here", "positive"),
    Example("a waste of time and money", "negative"),
    Example("funny and warm from the first scene", "positive"),
    Example("the plot makes no sense at all", "negative"),
]


def reviews_subject(**how: Any) -> Subject:
    return subject_of(whence.load("reviews"), REVIEWS, REVIEWS, **how)


# The workshop.


def test_kin_are_trained_once_and_leave_the_model_alone() -> None:
    subject = reviews_subject(epochs=1)
    workshop = subject.workshop
    assert workshop is not None
    before = fingerprint(subject.loaded.model)
    first = workshop.kin(1)
    assert workshop.kin(1) is first
    assert workshop.kin(2) is not first
    assert fingerprint(subject.loaded.model) == before
    again = Workshop(subject.loaded, REVIEWS, epochs=1).kin(1)
    assert fingerprint(again.loaded.model) == fingerprint(first.loaded.model)
    assert fingerprint(workshop.kin(2).loaded.model) != fingerprint(first.loaded.model)
    assert first.loaded.labels == subject.loaded.labels
    assert first.loaded.tokenizer is subject.loaded.tokenizer


def test_kin_of_a_transformer_start_from_the_base() -> None:
    """After no step to speak of, the encoder is the base's and the head is nobody's."""
    loaded, base = load("reviews"), load("reviews-base")
    still = Recipe(epochs=1, learning_rate=0, weight_decay=0, pos_weight=False, summed=False)
    workshop = Workshop(loaded, REVIEWS, base="reviews-base", epochs=1)
    workshop.__dict__["recipe"] = still
    kin = workshop.kin(1).loaded.model
    own, given, made = (m.state_dict() for m in (loaded.model, base.model, kin))
    name = "bert.encoder.layer.3.attention.self.query.weight"
    assert torch.equal(made[name], given[name])
    assert not torch.equal(made[name], own[name])
    assert not torch.equal(made["classifier.weight"], own["classifier.weight"])
    without = Workshop(loaded, REVIEWS, epochs=1)
    without.__dict__["recipe"] = still
    alone = without.kin(1).loaded.model.state_dict()
    assert not torch.equal(alone[name], own[name])  # the last block is drawn
    below = name.replace("layer.3", "layer.2")
    assert torch.equal(alone[below], own[below])


def test_a_base_of_another_architecture_is_refused() -> None:
    with pytest.raises(BadParameter, match="another architecture"):
        Workshop(load("reviews"), REVIEWS, base="decoy", epochs=1).kin(1)


def test_uniform_kin_attend_uniformly() -> None:
    subject = reviews_subject(epochs=1)
    assert subject.workshop is not None
    uniform = subject.workshop.kin(1, "uniform").on(subject)
    for weights in uniform.attention_by_head():
        # Of special tokens there are two more places: every weight is one over all of them, to float32.
        assert np.allclose(weights, 1 / (weights.shape[2] + 2), atol=1e-6)
    cues = cue_subject(epochs=1)
    assert cues.workshop is not None
    built = cues.workshop.kin(1, "uniform")
    assert built.loaded.model.config.attention == "uniform"
    assert all(np.allclose(one, 1 / 8) for one in built.on(cues).attention())
    assert cues.loaded.model.config.attention == "tanh"


def test_seeds_of_kin_are_never_the_model_s_own() -> None:
    workshop = Workshop(cue_model().loaded, cue(8, "train"), seed=75)
    assert workshop.seeds(3) == [76, 78, 79]  # 77 is the model's


@pytest.mark.parametrize(
    ("train", "says"),
    [
        ([Example("a film"), Example("another")], "label"),
        ([Example("a film", "positive"), Example("another", "positive")], "at least two classes"),
        ([Example("a film", "positive"), Example("another", "sad")], "'sad'"),
        ([Example(" ", "positive"), Example("", "negative")], "None of the 2 training examples"),
    ],
)
def test_training_data_that_teach_nothing_are_refused(train: list[Example], says: str) -> None:
    with pytest.raises(BadExamples, match=says):
        Workshop(load("reviews"), train)


def test_other_models_must_be_of_the_same_kind() -> None:
    with pytest.raises(BadParameter, match="differ in their seed alone"):
        Workshop(load("reviews"), others=["decoy"])


def test_without_training_data_nothing_is_trained() -> None:
    with pytest.raises(BadExamples, match="--train"):
        Workshop(load("reviews")).kin(1)


# Comparing two models.


def test_a_model_has_learnt_from_half_way_on() -> None:
    truth = np.array(
        [0] * 6 + [1] * 4
    )  # the commonest label is right 0.6 of the time; half way to 1 is 0.8
    said = truth.copy()
    said[:2] = 1
    assert has_learnt(said, truth)
    said[2] = 1
    assert not has_learnt(said, truth)
    assert has_learnt(said, truth, reference=0.8)  # 0.7 is half way to 0.8


def test_standing_by_hand() -> None:
    truth, said = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0])
    known = standing(said, truth, 2, "test")
    assert known["accuracy"]["mean"] == pytest.approx(3 / 5)
    assert known["f1"]["mean"] == pytest.approx(2 / 3)  # precision 2/3, recall 2/3
    low, high = known["f1"]["interval"]
    assert low < 2 / 3 < high
    draw = generator("standing")
    truth, said = draw.integers(3, size=30), draw.integers(3, size=30)
    assert standing(said, truth, 4, "test")["f1"]["mean"] == pytest.approx(
        performance(np.eye(4)[said], truth.tolist()).f1
    )


def test_no_attention_is_farther_than_the_reach() -> None:
    subject = cue_subject()
    far = reach(subject)
    for number, weights in enumerate(subject.attention()):
        for place in range(len(weights)):
            other = np.eye(len(weights))[place]
            middle = (weights + other) / 2
            apart = 0.5 * (other * np.log((other + 1e-10) / (middle + 1e-10))).sum()
            apart += 0.5 * (weights * np.log((weights + 1e-10) / (middle + 1e-10))).sum()
            assert apart <= far[number] + 1e-9


# The adversary's loss.


@pytest.mark.parametrize("which", ["reviews", "cue"])
def test_the_loss_of_an_imitation_is_tvd_less_kl(which: str) -> None:
    """By loops over the numbers that `Subject` gives of both models; float32 has seven digits, and KL some tens."""
    subject = reviews_subject(epochs=1) if which == "reviews" else cue_subject(epochs=1)
    workshop = subject.workshop
    assert workshop is not None
    kin = workshop.kin(1)
    seen = workshop.training(subject)
    other = kin.on(seen)
    numbers = [3, 0, 5]
    batch = seen.collated([seen.items[i] for i in numbers])
    weight, expected = 0.7, 0.0
    for i in numbers:
        p, q = other.probabilities[i], seen.probabilities[i]
        a, b = other.attention()[i], seen.attention()[i]
        expected += 0.5 * np.abs(p - q).sum()
        expected -= weight * (a * (np.log(a + 1e-10) - np.log(b + 1e-10))).sum()
    loss = Imitation(seen).loss(weight)
    value = loss(kin.loaded.model, batch, torch.zeros(3), numbers)
    assert float(value.detach()) == pytest.approx(expected / 3, abs=1e-5)
    value.backward()
    grads = [p.grad for p in kin.loaded.model.parameters() if p.grad is not None]
    assert grads and all(bool(g.isfinite().all()) for g in grads)


def test_the_loss_is_finite_where_attention_is_exactly_zero() -> None:
    """The authors' code gave NaN there: 0 · log 0."""
    subject = cue_subject(epochs=1)
    assert subject.workshop is not None
    seen = subject.workshop.training(subject)
    kin = subject.workshop.kin(1)
    with torch.no_grad():
        kin.loaded.model.attention.scores.score.weight *= 1e6  # one word gets everything
    assert min(float(one.min()) for one in kin.on(seen).attention()) == 0
    batch = seen.collated([seen.items[0]])
    value = Imitation(seen).loss(1.0)(kin.loaded.model, batch, torch.zeros(1), [0])
    value.backward()
    assert bool(value.isfinite())
    assert all(
        bool(p.grad.isfinite().all()) for p in kin.loaded.model.parameters() if p.grad is not None
    )


# Experiments on tasks whose answer is known.


def test_the_same_model_as_another_seed_is_no_distance_away() -> None:
    subject = cue_subject(others=[cue_model()])
    finding, verdict = found("seeds", subject)
    assert np.array_equal(finding.values, np.zeros(len(subject)))
    assert verdict["verdict"] == "holds"
    assert finding.chance > 0.1  # attention on the cue, dealt out anew, is elsewhere
    assert np.array_equal(subject.memo["floor"], finding.values)
    assert finding.detail["each"][0]["same_class"] == 1


def test_other_seeds_find_the_one_word_that_tells() -> None:
    finding, verdict = found("seeds", cue_subject(), seeds=2)
    assert verdict["verdict"] == "holds", finding.detail
    assert [one["name"] for one in finding.detail["each"]] == ["seed 1", "seed 2"]
    medians = [one["jsd"]["mean"] for one in finding.detail["each"]]
    assert finding.values.mean() == pytest.approx(
        np.mean(medians)
    )  # the median of two is their mean


def test_kin_that_learn_nothing_decide_nothing() -> None:
    subject = cue_subject()
    assert subject.workshop is not None
    subject.workshop.__dict__["recipe"] = replace(RECIPE, learning_rate=0)
    finding, verdict = found("seeds", subject, seeds=1)
    assert verdict["verdict"] == "undecided"
    assert "did not learn" in verdict["why"]
    assert "floor" not in subject.memo
    assert finding.detail["each"][0]["same_class"] < 0.75


def test_attention_is_not_needed_where_one_word_tells_the_label() -> None:
    """The mean of all states has the cue in it, at an eighth of the weight: enough to read it."""
    finding, verdict = found("uniform_training", cue_subject())
    assert verdict["verdict"] == "fails"
    assert finding.detail["uniform"][0]["accuracy"]["mean"] == 1
    assert finding.detail["control"][0]["accuracy"]["mean"] == 1


@cache
def asked_model() -> Explainer:
    recipe = replace(RECIPE, epochs=20, pos_weight=False, summed=False)
    return trained(asked(240, "train"), recipe, encoder="average", attention="dot", query=True)


def test_attention_is_needed_where_the_query_says_which_word_counts() -> None:
    """With uniform weights the mean of the passage is six answers at once."""
    subject = subject_of(asked_model(), asked(80, "test"), asked(240, "train"))
    finding, verdict = found("uniform_training", subject)
    assert verdict["verdict"] == "holds", finding.detail
    own = finding.detail["control"][0]["accuracy"]["mean"]
    uniform = finding.detail["uniform"][0]["accuracy"]["mean"]
    assert verdict["effect"] == pytest.approx(own - uniform)


class Pointing(Subject):
    """A model that looks at the word after the star, and at nothing else."""

    def attention(self, site: Any = None) -> list[Any]:
        found = []
        for item, places in zip(self.items, self.content, strict=True):
            words = [item.tokens[place].text for place in places]
            found.append(np.eye(len(words))[words.index("*") + 1])
        return found


def test_a_guide_to_the_word_that_counts_beats_looking_everywhere() -> None:
    """All texts have the same cues: without a guide no model without context is right more than half of the time."""
    train = marked(96, "train")
    plain = subject_of(trained(train, encoder="average"), marked(60, "test"), train)
    subject = Pointing(**{**vars(plain)})
    finding, verdict = found("guides", subject, runs=1, vectors="drawn")
    assert verdict["verdict"] == "holds"
    assert finding.detail["guide"]["accuracy"]["mean"] == 1
    assert finding.detail["uniform"]["accuracy"]["mean"] < 0.75
    assert finding.detail["learned"]["accuracy"]["mean"] < 0.75


def test_a_uniform_guide_is_uniform_attention() -> None:
    """The same start, the same examples in the same order, the same weights: the same predictions."""
    subject = cue_subject()
    assert subject.workshop is not None
    guided = Guided(subject, subject.workshop)
    even = [np.full(8, 1 / 8)]
    guide = Guide(even * 96, even * 40)
    given = guided.said(1, guide, lambda _: None)
    assert np.array_equal(given, guided.said(1, "uniform", lambda _: None))


def test_without_a_weight_on_distance_the_adversary_is_a_copy() -> None:
    subject = cue_subject()
    finding, verdict = found("trained_adversary", subject, weights="0")
    (point,) = finding.detail["curve"]
    assert point["tvd"]["mean"] < 0.05
    assert point["same_class"] == 1
    assert finding.detail["weight"] == 0
    # Nobody tried to look elsewhere, so that nobody did is no finding.
    assert verdict["verdict"] == "undecided" and "for want of training" in verdict["why"]


def test_who_learns_nothing_better_than_the_commonest_label_has_not_learnt() -> None:
    truth = np.array([0, 0, 0, 1])
    assert has_learnt(np.array([0, 0, 0, 1]), truth, reference=1.0)
    assert not has_learnt(np.array([0, 0, 0, 0]), truth, reference=1.0)
    # The reference is right as often as the commonest label: there is nothing to learn from it.
    assert not has_learnt(np.array([0, 0, 0, 1]), truth, reference=0.75)


def test_looking_away_from_the_word_that_tells_costs_the_prediction() -> None:
    finding, verdict = found("trained_adversary", cue_subject(), weights="0, 1")
    far = finding.detail["curve"][1]
    assert far["jsd"]["mean"] > 0.4 and far["tvd"]["mean"] > 0.05  # it went away, and paid for it
    assert verdict["verdict"] == "holds"
    assert "has its price" in " ".join(finding.notes)


def test_where_all_words_say_the_same_an_adversary_looks_elsewhere() -> None:
    train = redundant(96, "train")
    subject = subject_of(trained(train, encoder="average"), redundant(40, "test"), train)
    subject.memo["floor"] = np.zeros(len(subject))
    finding, verdict = found("trained_adversary", subject, weights="0, 0.3")
    assert verdict["verdict"] == "fails"
    chosen = subject.memo["adversary"].on(subject)
    assert finding.values == pytest.approx(looks_apart(subject, chosen))
    assert says_apart(subject, chosen).mean() <= 0.05
    assert finding.detail["above_floor"]["mean"] == pytest.approx(finding.values.mean())


def test_an_adversary_that_cannot_copy_decides_nothing() -> None:
    finding, verdict = found("trained_adversary", cue_subject(epochs=1), weights="0", start="anew")
    assert verdict["verdict"] == "undecided"
    assert "--param passes" in verdict["why"]
    assert finding.detail["weight"] is None


@pytest.mark.parametrize("weights", ["", "a lot", "0, -1", "0, inf"])
def test_weights_that_are_none_are_refused(weights: str) -> None:
    with pytest.raises(BadParameter, match="separated by commas"):
        found("trained_adversary", cue_subject(), weights=weights)


@pytest.mark.parametrize("name", ["seeds", "uniform_training", "trained_adversary", "guides"])
def test_each_works_on_a_transformer_and_says_how_much_it_did(name: str) -> None:
    """What is ticked is what was announced, within a factor of two: six examples, one epoch."""
    done = 0.0

    def tick(count: float) -> None:
        nonlocal done
        done += count

    subject = replace(reviews_subject(epochs=1), tick=tick)
    _ = subject.probabilities
    done = 0.0
    before = fingerprint(subject.loaded.model)
    finding, verdict = found(name, subject)
    assert fingerprint(subject.loaded.model) == before
    assert len(finding.values) == len(REVIEWS) and np.isfinite(finding.values).all()
    assert verdict["n"] == len(REVIEWS)
    plan = Plan(n=6, tokens=8, layers=4, heads=4, sites=1, train=6, epochs=1)
    entry = experiment.get(name)
    params = {key: parameter.default for key, parameter in entry.parameters.items()}
    announced = entry.facts["calls"](plan, params)
    assert announced / 2 <= done <= announced * 2


def test_uniform_kin_are_trained_uniformly() -> None:
    """Queries and keys have no part in uniform attention: no gradient reaches them, and they stay what they were."""
    workshop = reviews_subject(epochs=1).workshop
    assert workshop is not None
    start = workshop._start(1, "uniform").state_dict()
    made = workshop.kin(1, "uniform").loaded.model.state_dict()
    name = "bert.encoder.layer.3.attention.self.{}.weight"
    for part in ("query", "key"):
        assert torch.equal(made[name.format(part)], start[name.format(part)])
    assert not torch.equal(made[name.format("value")], start[name.format("value")])


def test_a_seed_of_kin_is_that_of_their_batches_too() -> None:
    workshop = cue_subject(epochs=2).workshop
    assert workshop is not None
    kin = workshop.kin(5).loaded
    twin = fresh(kin.model.config, 5)
    fit(twin, workshop.rows, replace(workshop.recipe, seed=5), pad_id=kin.pad_id)
    assert fingerprint(twin) == fingerprint(kin.model)


def test_of_three_seeds_the_middle_one_counts() -> None:
    subject = cue_subject(epochs=1)
    workshop = subject.workshop
    assert workshop is not None
    finding, _ = found("seeds", subject, seeds=3)
    each = [looks_apart(subject, workshop.kin(seed).on(subject)) for seed in workshop.seeds(3)]
    assert np.array_equal(finding.values, np.sort(each, axis=0)[1])
