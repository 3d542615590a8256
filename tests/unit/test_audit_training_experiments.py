"""Experiments that train, on tasks whose answer is known."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.kin import (
    NOISE,
    RECIPE,
    REVIEWS,
    cue_model,
    cue_subject,
    reviews_subject,
    subject_of,
    trained,
)
from whence.audit.compare import has_learnt, looks_apart, says_apart
from whence.audit.experiments import experiment
from whence.audit.guided import Guide, Guided
from whence.audit.plan import Plan
from whence.audit.subject import Subject
from whence.audit.verdict import judged
from whence.core.errors import BadParameter
from whence.core.seed import generator
from whence.data.sets.examples import Example
from whence.explainer import Explainer
from whence.models import fingerprint
from whence.models.attentive import fresh
from whence.training import fit


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


def found(name: str, subject: Subject, **params: Any) -> tuple[Any, dict[str, Any]]:
    entry = experiment.get(name)
    finding = entry.fn(subject, **params)
    return finding, judged(entry, finding, 0)


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
