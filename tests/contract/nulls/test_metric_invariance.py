"""Invariance of metrics: constant models, monotone transforms, reversed rankings, ties, words without influence."""

from dataclasses import replace
from itertools import permutations
from math import ceil, sqrt

import numpy as np
import pytest
import torch

import whence
from tests.contract.nulls.conftest import (
    DRAWN,
    PLACED,
    TAKERS,
    is_higher_better,
    marks,
    with_token_scores,
    with_unit_scores,
)
from whence.core.registry import resolve_parameters
from whence.methods import method
from whence.metrics import build_null_trial, metric
from whence.stats.intervals import percentile

FAITHFULNESS = {entry.name for entry in TAKERS if entry.facts["kind"] == "faithfulness"}


# --- a model that says the same to everything ----------------------------------------------------


@pytest.fixture(scope="module")
def constant_explainer():
    """Return an explainer whose model has a head without weights: its bias is all it says."""
    loaded = whence.load("reviews", dtype="float64")
    with torch.no_grad():
        loaded.model.classifier.weight.zero_()
        loaded.model.classifier.bias.copy_(torch.tensor([0.3, -0.2], dtype=torch.float64))
    return loaded


def test_faithfulness_metrics_on_a_constant_model_equal_their_null(constant_explainer):
    text = "the plot is thin but the actors are wonderful"
    names = [name for name in method.names() if name not in {"lime", "kernel_shap"}]
    ((_, trial, _),) = constant_explainer.trials([text], method=names, marks=marks)
    assert len(trial.names) == len(names)
    # What the model says must not have been looked up where it is not: softmax of (0.3, -0.2).
    p = 1 / (1 + np.exp(-0.5))
    assert trial.removed.base == pytest.approx(p, abs=1e-15)
    ranks = ~trial.flat
    assert ranks[names.index("random")] and ranks[names.index("rollout")]
    assert not ranks[names.index("leave_one_out")]  # nothing falls
    expected = {
        "comprehensiveness": 0.0, "sufficiency": 0.0, "aopc": 0.0, "log_odds": 0.0, "deletion": p, "insertion": p,
        "flip": 1.0, "infidelity": 0.0,
    }  # fmt: skip
    assert {*expected, "loo_correlation", "precision_at_k"} == FAITHFULNESS
    for name, value in expected.items():
        for preset in (None, *metric.get(name).presets):
            entry = metric.get(name)
            given = {} if preset is None else {"preset": preset}
            params = resolve_parameters(name, entry.parameters, given, presets=entry.presets)
            outcome = entry.fn(trial, **params)
            null = entry.fn(build_null_trial(entry, trial, names.index("random"), 20), **params)
            for row in range(len(names)):
                if not ranks[row]:
                    assert "All scores are equal" in outcome.why_not[row]
                    assert np.isnan(outcome.values[row])
                    continue
                assert row not in outcome.why_not
                assert outcome.values[row] == pytest.approx(value, abs=1e-15)
                assert (null.values == outcome.values[row]).all()
                place = percentile(outcome.values[row], null.values, is_higher_better(entry))
                assert (place.percent, place.beaten, place.tied) == (50, 0, 20)


def test_loo_correlation_on_a_constant_model_has_no_value_and_a_reason(constant_explainer):
    ((_, trial, _),) = constant_explainer.trials(
        ["the plot is thin"], method=["random", "rollout", "leave_one_out"]
    )
    found = metric.get("loo_correlation").fn(trial)
    assert np.isnan(found.values).all()
    assert ["nothing to agree with" in found.why_not[row] for row in (0, 1)] == [True, True]
    assert "All scores are equal" in found.why_not[2]


def test_trust_card_of_random_on_a_constant_model_fails_deletion_and_sufficiency(
    constant_explainer,
):
    card = constant_explainer.trust(
        "the plot is thin but the actors are wonderful", method="random"
    )
    for name in ("deletion", "sufficiency"):
        test = card.test(name)
        assert (
            test["percentile"] == 50 and test["tied"] == test["of"] and test["verdict"] == "fails"
        )
    assert card.test("leave_one_out")["verdict"] == "not tested"
    assert card.verdicts == {"random": "fails"}


# --- only the order counts -----------------------------------------------------------------------


TRANSFORMS = {
    "exp": np.exp,
    "cube": lambda s: s**3,
    "more": lambda s: s + 4,
    "times": lambda s: 3.7 * s,
    "arctan": np.arctan,
}
# Infidelity adds scores up, and Pearson correlates them as they are: neither is a metric of rankings.
BY_SIZE = {"infidelity", "pearson"}


@pytest.mark.parametrize("name", sorted(DRAWN - BY_SIZE))
def test_rank_metrics_are_unchanged_by_monotone_transforms_of_scores(trial, name):
    """Bit for bit, for every preset; `signed` stays, as it is a fact about the method and not about the scores."""
    entry = metric.get(name)
    scores = np.random.default_rng(3).standard_normal((6, len(trial.item)))
    for preset in (None, *entry.presets):
        given = {} if preset is None else {"preset": preset}
        params = resolve_parameters(name, entry.parameters, given, presets=entry.presets)
        for signed in (True, False):
            base = entry.fn(with_token_scores(trial, scores, signed), **params)
            for transform in TRANSFORMS.values():
                found = entry.fn(with_token_scores(trial, transform(scores), signed), **params)
                assert np.array_equal(found.values, base.values, equal_nan=True)
                assert found.why_not == base.why_not
                if base.curves is not None:
                    assert (found.curves == base.curves).all()


def test_infidelity_and_pearson_are_unchanged_by_scaling_but_not_by_exp(trial):
    scores = np.random.default_rng(3).standard_normal((6, len(trial.item)))
    for name, kept, changed in (
        ("infidelity", lambda s: 4 * s, np.exp),
        ("pearson", lambda s: 4 * s + 8, np.exp),
    ):
        entry = metric.get(name)
        base = entry.fn(with_token_scores(trial, scores)).values
        assert entry.fn(with_token_scores(trial, kept(scores))).values == pytest.approx(
            base, rel=1e-9
        )
        assert (
            np.abs(entry.fn(with_token_scores(trial, changed(scores))).values - base).max() > 1e-3
        )


def test_insertion_of_a_ranking_equals_deletion_of_the_reversed_ranking(trial):
    """What the one removes first the other puts back last: the same texts, so the same areas, up to summation."""
    scores = np.random.default_rng(4).standard_normal((8, len(trial.units)))
    up, down = with_unit_scores(trial, scores), with_unit_scores(trial, -scores)
    deletion, insertion = metric.get("deletion").fn, metric.get("insertion").fn
    assert insertion(up).values == pytest.approx(deletion(down).values, abs=1e-14)
    assert insertion(down).values == pytest.approx(deletion(up).values, abs=1e-14)
    assert (insertion(up).curves[:, ::-1] == deletion(down).curves).all()
    # And what removes a half keeps the other half: 3 of 6 units.
    half = {"bins": "0.5"}
    comprehensiveness, sufficiency = (
        metric.get("comprehensiveness").fn,
        metric.get("sufficiency").fn,
    )
    assert len(trial.units) == 6
    assert (comprehensiveness(down, **half).values == sufficiency(up, **half).values).all()
    # The agreement with leave-one-out turns its sign round.
    loo = metric.get("loo_correlation").fn
    assert (loo(down).values == -loo(up).values).all()


def test_best_ranking_for_deletion_is_worst_for_insertion_when_reversed(trial):
    """Of all 720 rankings: the steepest fall, turned round, is the slowest rise."""
    every = np.array(list(permutations(range(6))), dtype=float)
    falls = metric.get("deletion").fn(with_unit_scores(trial, every)).values
    rises = metric.get("insertion").fn(with_unit_scores(trial, -every)).values
    assert falls.argmin() == rises.argmin() and falls.argmax() == rises.argmax()
    null = metric.get("deletion").fn(trial.null(720)).values
    best, worst = (percentile(value, null, False) for value in (falls.min(), falls.max()))
    assert best.beaten + best.tied == 720 and worst.beaten == 0
    assert best.percent >= 100 * (1 - ceil(best.tied / 2) / 720)


# --- explanations with ties ----------------------------------------------------------------------


@pytest.mark.parametrize("name", PLACED)
def test_percentiles_of_random_explanations_with_ties_average_to_50(trial, name):
    """Point at two of six tokens, at random, and give the others nothing: that knows nothing either.

    All 15 ways, each with 40 ways to break the ties: the mean percentile of all of them is 50. Ties broken by lot
    make each a random ranking, so only the 40 draws of 15 rows leave something to chance: 600 percentiles, at most
    all alike within a way; 3.3 · 29 / sqrt(40).
    """
    entry = metric.get(name)
    pairs = np.array(
        [[u in (i, j) for u in range(6)] for i in range(6) for j in range(i)], dtype=float
    )
    percents = []
    null = entry.fn(
        build_null_trial(entry, with_unit_scores(trial, pairs), 0, 720)
    ).values  # all of them, whatever the seed
    for seed in range(40):
        mine = replace(with_unit_scores(trial, pairs), seed=seed)
        percents += [
            percentile(v, null, is_higher_better(entry)).percent for v in entry.fn(mine).values
        ]
    assert abs(np.mean(percents) - 50) <= 3.3 * 29 / sqrt(40)
    # 95 of 100 is passed by one in twenty; up to one in ten where a tenth of all rankings tie for best.
    share = np.mean(np.array(percents) >= 95)
    assert share <= 0.1 + 3 * sqrt(0.1 * 0.9 / 40)


def test_loo_correlation_of_one_token_explanations_reaches_95_percent_in_at_most_a_tenth():
    """Pointing at one token at random must not hold more often than one time in ten."""
    explainer = whence.load("reviews", dtype="float64")
    entry = metric.get("loo_correlation")
    texts = ["a gripping film but dull", "the plot is not thin", "a great but slow film here"]
    held = []
    for _, trial, _ in explainer.trials(texts, method="random"):
        units = len(trial.units)
        mine = with_unit_scores(trial, np.eye(units))
        for row in range(units):
            null = entry.fn(build_null_trial(entry, mine, row, 720)).values
            value = entry.fn(mine).values[row]
            held.append(percentile(value, null, True).percent >= 95)
    assert np.mean(held) <= 0.1


@pytest.mark.parametrize(
    ("model", "text", "counts"),
    [
        ("copy", "the acting is awful overall", "awful"),
        ("copy", "overall a great film", "great"),
        ("decoy", "a film the decoy is awful", "awful"),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_leave_one_out_drops_of_words_without_influence_are_exactly_zero(
    model, text, counts, dtype
):
    """One word counts; that the others come out different in the last bit makes no order of them."""
    explainer = whence.load(model, dtype=dtype)
    ((_, trial, _),) = explainer.trials([text], method="random")
    falls = dict(zip(text.split(), trial.removed.loo, strict=True))
    assert falls.pop(counts) > 0.3
    assert set(falls.values()) == {0}
    mine = with_unit_scores(trial, [[word == counts for word in text.split()]])
    assert metric.get("loo_correlation").fn(mine).values[0] == pytest.approx(1)


def test_loo_correlation_on_redundant_words_has_no_value_and_a_reason():
    """In float32 nothing falls, exactly."""
    explainer = whence.load("redundancy", dtype="float32")
    text = "the story is moving and superb"
    ((_, trial, _),) = explainer.trials([text], method=["random", "attcat"])
    found = metric.get("loo_correlation").fn(trial)
    assert np.isnan(found.values).all()
    assert all("nothing to agree with" in found.why_not[row] for row in (0, 1))
