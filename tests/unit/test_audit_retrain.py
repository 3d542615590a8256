"""Retrained models of an audit: Retrainer, seeds and refusals, performance, and the adversary's imitation loss."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.retrain_subjects import (
    REVIEWS,
    cue_model,
    cue_subject,
    make_cue_examples,
    reviews_subject,
)
from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import build_generator
from whence.data.example import Example
from whence.models.fingerprint import compute_fingerprint
from whence.models.load import load_model
from whence.studies.audit.experiments.trained_adversary import build_imitation_loss
from whence.studies.audit.finding_summary import summarise_performance
from whence.studies.audit.retrain import Retrainer, has_learnt, largest_attention_divergence
from whence.studies.training.performance import compute_performance
from whence.studies.training.recipe import Recipe

# The workshop.


def test_retrain_trains_once_for_each_seed_and_leaves_the_model_unchanged() -> None:
    subject = reviews_subject(epochs=1)
    workshop = subject.workshop
    assert workshop is not None
    before = compute_fingerprint(subject.loaded.model)
    first = workshop.retrain(1)
    assert workshop.retrain(1) is first
    assert workshop.retrain(2) is not first
    assert compute_fingerprint(subject.loaded.model) == before
    again = Retrainer(subject.loaded, REVIEWS, epochs=1).retrain(1)
    assert compute_fingerprint(again.loaded.model) == compute_fingerprint(first.loaded.model)
    assert compute_fingerprint(workshop.retrain(2).loaded.model) != compute_fingerprint(
        first.loaded.model
    )
    assert first.loaded.labels == subject.loaded.labels
    assert first.loaded.tokenizer is subject.loaded.tokenizer


def test_retrain_of_a_transformer_starts_from_the_base_with_a_new_head() -> None:
    """After no step to speak of, the encoder is the base's and the head is nobody's."""
    loaded, base = load_model("reviews"), load_model("reviews-base")
    still = Recipe(epochs=1, learning_rate=0, weight_decay=0, pos_weight=False, summed=False)
    workshop = Retrainer(loaded, REVIEWS, base="reviews-base", epochs=1)
    workshop.__dict__["recipe"] = still
    kin = workshop.retrain(1).loaded.model
    own, given, made = (m.state_dict() for m in (loaded.model, base.model, kin))
    name = "bert.encoder.layer.3.attention.self.query.weight"
    assert torch.equal(made[name], given[name])
    assert not torch.equal(made[name], own[name])
    assert not torch.equal(made["classifier.weight"], own["classifier.weight"])
    without = Retrainer(loaded, REVIEWS, epochs=1)
    without.__dict__["recipe"] = still
    alone = without.retrain(1).loaded.model.state_dict()
    assert not torch.equal(alone[name], own[name])  # the last block is drawn
    below = name.replace("layer.3", "layer.2")
    assert torch.equal(alone[below], own[below])


def test_retrainer_with_a_base_of_another_architecture_raises_bad_parameter() -> None:
    with pytest.raises(BadParameter, match="another architecture"):
        Retrainer(load_model("reviews"), REVIEWS, base="decoy", epochs=1).retrain(1)


def test_model_retrained_with_uniform_attention_attends_uniformly() -> None:
    subject = reviews_subject(epochs=1)
    assert subject.workshop is not None
    uniform = subject.workshop.retrain(1, "uniform").apply_to(subject)
    for weights in uniform.attention_by_head():
        # Of special tokens there are two more places: every weight is one over all of them, to float32.
        assert np.allclose(weights, 1 / (weights.shape[2] + 2), atol=1e-6)
    cues = cue_subject(epochs=1)
    assert cues.workshop is not None
    built = cues.workshop.retrain(1, "uniform")
    assert built.loaded.model.config.attention == "uniform"
    assert all(np.allclose(one, 1 / 8) for one in built.apply_to(cues).attention())
    assert cues.loaded.model.config.attention == "tanh"


def test_list_seeds_skips_the_seed_of_the_model_itself() -> None:
    workshop = Retrainer(cue_model().loaded, make_cue_examples(8, "train"), seed=75)
    assert workshop.list_seeds(3) == [76, 78, 79]  # 77 is the model's


@pytest.mark.parametrize(
    ("train", "says"),
    [
        ([Example("a film"), Example("another")], "label"),
        ([Example("a film", "positive"), Example("another", "positive")], "at least two classes"),
        ([Example("a film", "positive"), Example("another", "sad")], "'sad'"),
        ([Example(" ", "positive"), Example("", "negative")], "None of the 2 training examples"),
    ],
)
def test_retrainer_with_unusable_training_data_raises_bad_examples(
    train: list[Example], says: str
) -> None:
    with pytest.raises(BadExamples, match=says):
        Retrainer(load_model("reviews"), train)


def test_retrainer_with_another_kind_of_model_as_other_raises_bad_parameter() -> None:
    with pytest.raises(BadParameter, match="differ in their seed alone"):
        Retrainer(load_model("reviews"), others=["decoy"])


def test_retrain_without_training_data_raises_bad_examples() -> None:
    with pytest.raises(BadExamples, match="--train"):
        Retrainer(load_model("reviews")).retrain(1)


# Comparing two models.


def test_has_learnt_is_true_from_half_way_between_majority_and_reference() -> None:
    truth = np.array(
        [0] * 6 + [1] * 4
    )  # the commonest label is right 0.6 of the time; half way to 1 is 0.8
    said = truth.copy()
    said[:2] = 1
    assert has_learnt(said, truth)
    said[2] = 1
    assert not has_learnt(said, truth)
    assert has_learnt(said, truth, reference=0.8)  # 0.7 is half way to 0.8


def judged_subject(truth: Any, labels: int) -> Any:
    """Return all that figures of performance need of a subject."""
    return SimpleNamespace(known_truth=truth, loaded=SimpleNamespace(labels=range(labels)), seed=0)


def test_summarise_performance_equals_accuracy_and_f1_by_hand() -> None:
    truth, said = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0])
    known = summarise_performance(judged_subject(truth, 2), said, "test")
    assert known["accuracy"]["mean"] == pytest.approx(3 / 5)
    assert known["f1"]["mean"] == pytest.approx(2 / 3)  # precision 2/3, recall 2/3
    low, high = known["f1"]["interval"]
    assert low < 2 / 3 < high
    draw = build_generator("standing")
    truth, said = draw.integers(3, size=30), draw.integers(3, size=30)
    found = summarise_performance(judged_subject(truth, 4), said, "test")
    assert found["f1"]["mean"] == pytest.approx(
        compute_performance(np.eye(4)[said], truth.tolist()).f1
    )


def test_largest_attention_divergence_bounds_that_of_every_one_word_attention() -> None:
    subject = cue_subject()
    far = largest_attention_divergence(subject)
    for number, weights in enumerate(subject.attention()):
        for place in range(len(weights)):
            other = np.eye(len(weights))[place]
            middle = (weights + other) / 2
            apart = 0.5 * (other * np.log((other + 1e-10) / (middle + 1e-10))).sum()
            apart += 0.5 * (weights * np.log((weights + 1e-10) / (middle + 1e-10))).sum()
            assert apart <= far[number] + 1e-9


# The adversary's loss.


@pytest.mark.parametrize("which", ["reviews", "cue"])
def test_imitation_loss_equals_tvd_less_weighted_kl(which: str) -> None:
    """By loops over the numbers that `Subject` gives of both models; float32 has seven digits, and KL some tens."""
    subject = reviews_subject(epochs=1) if which == "reviews" else cue_subject(epochs=1)
    workshop = subject.workshop
    assert workshop is not None
    kin = workshop.retrain(1)
    seen = workshop.build_training_subject(subject)
    other = kin.apply_to(seen)
    numbers = [3, 0, 5]
    batch = seen.build_batch([seen.items[i] for i in numbers])
    weight, expected = 0.7, 0.0
    for i in numbers:
        p, q = other.probabilities[i], seen.probabilities[i]
        a, b = other.attention()[i], seen.attention()[i]
        expected += 0.5 * np.abs(p - q).sum()
        expected -= weight * (a * (np.log(a + 1e-10) - np.log(b + 1e-10))).sum()
    loss = build_imitation_loss(seen, weight)
    value = loss(kin.loaded.model, batch, torch.zeros(3), numbers)
    assert float(value.detach()) == pytest.approx(expected / 3, abs=1e-5)
    value.backward()
    grads = [p.grad for p in kin.loaded.model.parameters() if p.grad is not None]
    assert grads and all(bool(g.isfinite().all()) for g in grads)


def test_imitation_loss_and_its_gradients_are_finite_where_attention_is_zero() -> None:
    """The authors' code gave NaN there: 0 · log 0."""
    subject = cue_subject(epochs=1)
    assert subject.workshop is not None
    seen = subject.workshop.build_training_subject(subject)
    kin = subject.workshop.retrain(1)
    with torch.no_grad():
        kin.loaded.model.attention.scores.score.weight *= 1e6  # one word gets everything
    assert min(float(one.min()) for one in kin.apply_to(seen).attention()) == 0
    batch = seen.build_batch([seen.items[0]])
    value = build_imitation_loss(seen, 1.0)(kin.loaded.model, batch, torch.zeros(1), [0])
    value.backward()
    assert bool(value.isfinite())
    assert all(
        bool(p.grad.isfinite().all()) for p in kin.loaded.model.parameters() if p.grad is not None
    )
