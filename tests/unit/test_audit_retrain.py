"""The workshop that trains kin of a model, two models compared, and the adversary's loss."""

import numpy as np
import pytest
import torch

from tests.kin import REVIEWS, cue, cue_model, cue_subject, reviews_subject
from whence.audit.compare import has_learnt, reach, standing
from whence.audit.imitation import Imitation
from whence.audit.workshop import Workshop
from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import generator
from whence.data.sets.examples import Example
from whence.models import fingerprint, load
from whence.training import Recipe, performance

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
