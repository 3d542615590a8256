"""Audit on every architecture: replay of own weights gives own predictions, and every experiment gives numbers."""

from functools import cache

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.audit_subjects import subject_of
from tests.contract.state import assert_unchanged, snapshot
from whence.core.errors import NotCapturable
from whence.studies.audit.experiments import experiment

MEAN = "modernbert, mean"  # the prediction reads all rows, not that of the first token
MODELS = [*(n for n in zoo.ARCHITECTURES if n not in zoo.TWO_STREAMS), MEAN, *zoo.POOLING]
# Llama, Qwen3 and Gemma 3 compute their norms in float32 whatever the model's dtype.
ROUGH = {"llama", "qwen3", "gemma3"}
LENGTHS = (9, 5, 7)
QUICK = {
    "correlation": {"steps": 2},
    "permutation": {"permutations": 6},
    "replacement": {"draws": 2},
    "adversarial": {"steps": 2, "candidates": 2},
    "diversity": {"steps": 2, "candidates": 2, "permutations": 2},
}

# Rows that see through windows of their own have no words in common to exchange weights between.
WINDOWS = (MEAN, "all")
everywhere = pytest.mark.parametrize(
    ("name", "site"),
    [(name, site) for name in MODELS for site in ("last", "all") if (name, site) != WINDOWS],
)


@cache
def load_explainer(name):
    model = zoo.make("modernbert" if name == MEAN else name)
    if name == MEAN:
        model.config.classifier_pooling = "mean"
    return whence.load(model)


def subject(name, site):
    return subject_of(load_explainer(name), zoo.rows(name, LENGTHS), (0, 1, 2), site=site)


def count_read_rows(name, length):
    """How many rows of the last map the prediction rests on."""
    return length if name == MEAN else 1


@everywhere
def test_replay_of_own_weights_gives_own_predictions_and_other_weights_change_predictions(
    name, site
):
    on_trial = subject(name, site)
    model = load_explainer(name).model
    before = snapshot(model)
    seen = []
    for replayed in on_trial.build_replays(copies=2):
        own = replayed.own[:, None].expand(-1, 2, -1, -1, -1)
        same = replayed(own)
        # A batch of another shape adds up in another order; other weights move predictions by far more.
        within = 1e-5 if name in ROUGH else 1e-9
        wanted = torch.from_numpy(on_trial.probabilities[replayed.numbers])[:, None]
        torch.testing.assert_close(same, wanted.expand_as(same), rtol=0, atol=within)
        sums = replayed.own.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=within)
        for row, number in enumerate(replayed.numbers):
            real = LENGTHS[number]
            assert (replayed.shares[row] > 0).sum() == count_read_rows(name, real)
            assert replayed.shares[row].sum().item() == pytest.approx(1, abs=1e-6)
            places = replayed.movable[row].nonzero().squeeze(1)
            assert set(places.tolist()) <= set(on_trial.content[number].tolist())
            # All weight of the text on one of its words, in the rows that are read.
            other = own.clone()
            mass = other[row][..., places].sum(-1)
            other[row][..., places] = 0
            other[row][..., places[0]] = mass
            moved = replayed(other)
            rest = [r for r in range(len(replayed)) if r != row]
            assert (moved[row] - same[row]).abs().max() > 100 * within
            torch.testing.assert_close(moved[rest], same[rest], rtol=0, atol=within)
        seen += replayed.numbers
    assert sorted(seen) == [0, 1, 2]
    assert_unchanged(before, snapshot(model))


@everywhere
def test_every_experiment_without_training_has_a_number_for_each_input(name, site):
    on_trial = subject(name, site)
    before = snapshot(load_explainer(name).model)
    untrained = {entry.name for entry in experiment if not entry.facts["trains"]}
    assert untrained == QUICK.keys()
    for chosen, params in QUICK.items():
        found = experiment.get(chosen).fn(on_trial, **params)
        assert found.values.shape == (3,) and np.isfinite(found.values).all(), chosen
    assert_unchanged(before, snapshot(load_explainer(name).model))


@pytest.mark.parametrize("name", sorted(zoo.TWO_STREAMS))
def test_audit_subject_of_an_encoder_decoder_raises_not_capturable(name):
    """There is no single row of attention that its prediction reads."""
    explainer = whence.load(zoo.make(name))
    before = snapshot(explainer.model)
    with pytest.raises(NotCapturable, match="row"):
        subject_of(explainer, zoo.rows(name), (0, 1, 2)).attention()
    assert_unchanged(before, snapshot(explainer.model))


def test_replay_of_rows_with_disjoint_windows_raises_not_capturable():
    with pytest.raises(NotCapturable, match="no two tokens of a text in common"):
        list(subject(*WINDOWS).build_replays())
