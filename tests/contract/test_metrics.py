"""Contract of every registered metric: facts, outcomes, nulls, removals, refused inputs and cost in queries."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

import whence
from tests import zoo
from tests.model_inputs import record_model_inputs
from whence.metrics import build_null_trial, metric

# What is measured on pixels has its own file: test_picture_metrics.py.
TAKERS = [entry for entry in metric if entry.facts.get("takes") != "picture"]
METRICS = [entry.name for entry in TAKERS]
FAITHFULNESS = [entry.name for entry in TAKERS if entry.facts["kind"] == "faithfulness"]
# What a person marked is compared with the ranking alone, and so is what the model loses.
OF_RANKS = [
    entry.name
    for entry in TAKERS
    if entry.facts["kind"] in {"faithfulness", "plausibility"} and entry.facts["null"] != "shuffles"
]
ALONE = [entry.name for entry in TAKERS if entry.facts["kind"] != "agreement"]
METHODS = [
    "attcat",
    "gradient",
    "raw_attention",
    "leave_one_out",
    "integrated_gradients",
    "attn_lrp",
    "random",
]
TEXT = "the plot is thin, but the actors are wonderful"

# float64; explanations side by side are summed in another order than alone: some 1e-16 a term.
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def marks(number, item, units):
    return [unit % 3 == 0 for unit in range(len(units))]


def trial_of(explainer, given=TEXT, method=METHODS, **more):
    ((_, trial, _),) = explainer.trials([given], method=method, **{"marks": marks, **more})
    return trial


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


@pytest.fixture(scope="module")
def trial(reviews):
    return trial_of(reviews)


def assert_well_formed(entry, outcome, rows, *, ranged=True):
    """Check the shapes; that a value is missing exactly where a sentence says why; and the stated range."""
    assert outcome.values.shape == (rows,)
    assert outcome.values.dtype == np.float64
    unknown = np.isnan(outcome.values)
    assert set(outcome.why_not) == set(np.flatnonzero(unknown))
    for why in outcome.why_not.values():
        assert why[0].isupper()
        assert why.endswith(".")
        assert "nan" not in why
    if ranged:
        low, high = entry.facts["range"]
        inside = outcome.values[~unknown]
        assert ((low - 1e-12 <= inside) & (inside <= high + 1e-12)).all()
    assert (outcome.at is None) == (outcome.curves is None)
    if outcome.curves is not None:
        assert outcome.curves.shape == (rows, len(outcome.at))
        assert (np.isnan(outcome.curves).any(1) == unknown).all()
        assert (np.diff(outcome.at) > 0).all()
        assert 0 <= outcome.at[0] <= outcome.at[-1] <= 1
    for part in outcome.parts.values():
        assert part.shape == (rows,)
    if outcome.pairs is not None:
        assert outcome.pairs.shape == (rows, rows)


# --- facts ---


def test_metric_registry_contains_the_documented_names():
    assert set(METRICS) >= {
        "comprehensiveness", "sufficiency", "aopc", "log_odds", "deletion", "insertion", "flip", "loo_correlation",
        "infidelity", "precision_at_k", "token_f1", "iou_f1", "auprc", "sensitivity", "consistency",
        "class_sensitivity", "randomisation", "completeness", "conservation",
    }  # fmt: skip


@pytest.mark.parametrize("name", metric.names())
def test_metric_facts_are_complete_and_well_formed(name):
    entry = metric.get(name)
    assert entry.facts.get("takes") in (None, "text", "picture")
    low, high = entry.facts["range"]
    assert low < high
    for fact in ("cite", "formula", "cost", "misleads_when"):
        assert entry.facts[fact].strip()
    assert entry.summary.endswith(".")
    assert not entry.facts["misleads_when"].endswith(".")  # it goes on from "misleads when"


# --- outcomes ---


@pytest.mark.parametrize("name", METRICS)
def test_metric_outcomes_are_well_formed_with_and_without_presets(trial, name):
    entry = metric.get(name)
    outcome = entry.fn(trial)
    assert_well_formed(entry, outcome, len(METHODS))
    assert len(outcome.why_not) < len(METHODS)
    for preset in entry.presets.values():
        assert_well_formed(entry, entry.fn(trial, **preset), len(METHODS))


@pytest.mark.parametrize("name", METRICS)
def test_metric_values_of_two_equal_trials_are_identical(reviews, name):
    # Two new trials: what is known already is not asked again, and other batches round in another order.
    first, again = (metric.get(name).fn(trial_of(reviews)).values for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("name", ALONE)
def test_metric_value_of_an_explanation_does_not_depend_on_the_others(trial, name):
    together = metric.get(name).fn(trial)
    for row in range(len(METHODS)):
        alone = metric.get(name).fn(trial.select_rows([row]))
        np.testing.assert_allclose(alone.values[0], together.values[row], **EXACT)
        assert alone.why_not.get(0) == together.why_not.get(row)


@pytest.mark.parametrize("name", ALONE)
def test_metric_outcomes_of_300_null_explanations_are_well_formed(trial, name):
    """Explanations that know nothing are tested like any other, by the hundred."""
    entry = metric.get(name)
    if isinstance(entry.facts["null"], str):
        assert_well_formed(entry, entry.fn(build_null_trial(entry, trial, 0, 300)), 300)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("how", ["mask", "delete", "pad", "unk"])
@pytest.mark.parametrize("name", FAITHFULNESS)
def test_faithfulness_metrics_are_well_formed_for_every_removal_and_unit(reviews, name, how, unit):
    trial = trial_of(reviews, "a unpretentious film", remove=how, unit=unit)
    assert len(trial.units) < len(trial.item) - 2 or unit == "token"
    entry = metric.get(name)
    assert_well_formed(entry, entry.fn(trial), len(METHODS))


@pytest.mark.parametrize(
    "transform", [lambda s: 3 * s + 7, np.arctan, lambda s: rankdata(s, axis=1)]
)
@pytest.mark.parametrize("name", OF_RANKS)
def test_monotone_transforms_change_no_rank_metric(trial, name, transform):
    entry = metric.get(name)
    moved = replace(trial, scores=transform(trial.scores))
    for params in ({}, *entry.presets.values()):
        outcomes = entry.fn(trial, **params), entry.fn(moved, **params)
        np.testing.assert_array_equal(*(outcome.values for outcome in outcomes))


# --- a model that does not listen ---


@pytest.fixture(scope="module", params=["float64", "float32"])
def constant_explainer(request):
    model = zoo.make("bert", dtype=getattr(torch, request.param))
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.3, 1.1, -0.4]))
    return whence.load(model)


@pytest.mark.parametrize("name", sorted({*FAITHFULNESS} - {"precision_at_k"}))
def test_faithfulness_metrics_on_a_constant_model_equal_the_null(constant_explainer, name):
    """Whatever is removed, it says the same: every explanation gets what those get that know nothing."""
    entry = metric.get(name)
    trial = trial_of(constant_explainer, zoo.rows("bert")[0], ["raw_attention", "norm", "random"])
    outcome = entry.fn(trial)
    if name == "loo_correlation":
        assert set(outcome.why_not) == {0, 1, 2}
        return
    p = trial.removed.base
    wanted = {"deletion": p, "insertion": p, "flip": 1}.get(name, 0)
    for row in range(3):
        null = entry.fn(build_null_trial(entry, trial, row, 50)).values
        # float32: the whole input was run by itself, the others in batches, and softmax rounds.
        np.testing.assert_allclose([outcome.values[row], *null], wanted, rtol=0, atol=1e-7)
        if constant_explainer.model.dtype == torch.float64:
            np.testing.assert_allclose([outcome.values[row], *null], wanted, rtol=0, atol=1e-15)


# --- bad input ---


def assert_no_values_because(outcome, start):
    assert np.isnan(outcome.values).all()
    for row in range(len(outcome.values)):
        assert outcome.why_not[row].startswith(start)


@pytest.mark.parametrize("name", FAITHFULNESS)
def test_faithfulness_metrics_on_one_removable_token_have_a_reason_and_no_value(reviews, name):
    trial = trial_of(reviews, "film")
    assert len(trial.units) == 1
    assert_no_values_because(
        metric.get(name).fn(trial), "The input has only one token that can be removed"
    )


@pytest.mark.parametrize("name", FAITHFULNESS)
def test_faithfulness_metrics_on_no_removable_token_have_a_reason_and_no_value(reviews, name):
    frame = reviews.tokenizer("film")["input_ids"]
    trial = trial_of(reviews, {"input_ids": [frame[0], frame[-1]]}, ["attcat", "random"])
    assert not trial.units
    assert_no_values_because(
        metric.get(name).fn(trial), "The input has no token that can be removed."
    )


@pytest.mark.parametrize("name", FAITHFULNESS)
def test_faithfulness_metrics_of_equal_scores_have_a_reason_and_no_value(trial, name):
    tied = replace(trial, scores=np.full_like(trial.scores, 0.25))
    with_one = replace(trial, scores=np.vstack([tied.scores[:1], trial.scores[1:]]))
    assert_no_values_because(metric.get(name).fn(tied), "All scores are equal")
    assert set(metric.get(name).fn(with_one).why_not) == {0}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("text", ["film", "a film"])
def test_metrics_on_short_texts_have_values_or_reasons(reviews, name, text):
    entry = metric.get(name)
    assert_well_formed(entry, entry.fn(trial_of(reviews, text)), len(METHODS))


def test_faithfulness_metrics_on_regressions_and_contrasts_are_well_formed(reviews):
    model = zoo.make("bert")
    model.config.problem_type = "regression"
    value = trial_of(whence.load(model), zoo.rows("bert")[0], ["attcat", "random"])
    contrast = trial_of(reviews, method=["attcat", "random"], target=("positive", "negative"))
    for name in FAITHFULNESS:
        entry = metric.get(name)
        # A range is one of probabilities: a value of its own, or a difference, may pass it.
        for one in (value, contrast):
            assert_well_formed(entry, entry.fn(one), 2, ranged=False)


# --- what it costs ---


def test_methods_and_metrics_ask_the_model_about_every_variant_once(reviews):
    """By the methods and by all metrics that remove something, also by a hundred random rankings."""
    trial_of(reviews)  # how inputs can share a batch is found out once per explainer
    with record_model_inputs(reviews.model) as asked:
        trial = trial_of(reviews, method=["leave_one_out", "occlusion", "kernel_shap"])
        for name in FAITHFULNESS:
            entry = metric.get(name)
            entry.fn(trial)
            entry.fn(build_null_trial(entry, trial, 0, 100))
    counts = Counter(asked)
    assert len(asked) > 500
    assert max(counts.values()) == 1


def test_loo_correlation_reuses_the_queries_of_leave_one_out(reviews):
    with record_model_inputs(reviews.model) as asked:
        trial = trial_of(reviews, method=["leave_one_out", "attcat"])
        before = len(asked)
        outcome = metric.get("loo_correlation").fn(trial)
        assert len(asked) == before
        metric.get("loo_correlation").fn(trial_of(reviews, method="leave_one_out", remove="pad"))
        assert len(asked) > before  # another kind of removal is another question
    assert outcome.values[0] == 1


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("comprehensiveness", 3), ("sufficiency", 3), ("deletion", 10), ("insertion", 10), ("aopc", 10),
        ("log_odds", 10), ("loo_correlation", 10), ("infidelity", 64), ("precision_at_k", 0),
    ],
)  # fmt: skip
def test_metric_asks_about_no_more_variants_than_its_definition_needs(reviews, name, needed):
    """Of 10 tokens: shares of 1%, 5% and 10% are one token, 20% two, 50% five; the end of the curve is one more."""
    trial = trial_of(reviews, method="attcat")
    assert len(trial.units) == 10
    with record_model_inputs(reviews.model) as asked:
        metric.get(name).fn(trial)
    assert len(asked) == needed
