"""Robustness metrics (sensitivity, consistency, class sensitivity) by hand, and against loops over real models."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import whence
from tests.contract.state import assert_unchanged, snapshot
from tests.repeat_trials import PREDICTED, build_trial, outcome
from whence.core.errors import BadParameter
from whence.core.registry import resolve_parameters
from whence.core.seed import build_generator
from whence.methods import method
from whence.metrics import build_null_trial, metric
from whence.metrics._requests import Beside, Dropout, Noise, OtherClass, Padded
from whence.tracing.alter import add_embedding_noise, apply_dropout

TEXT = "the plot is thin, but the actors are wonderful"
METHODS = ("grad_x_input", "attcat", "raw_attention", "leave_one_out", "random")
KINDS = ("sensitivity", "consistency", "class_sensitivity")
# One number found by two ways of summation in float64, after four layers: far more than rounding, far less than a
# mistake.
CLOSE = {"rel": 1e-7, "abs": 1e-7}


# --- by hand ---


def answer_by_seed(*answers):
    """Return what is made anew at each seed: rows of scores, and the prediction."""
    return lambda change: answers[change.seed]


def test_sensitivity_is_the_largest_change_among_draws_with_the_same_prediction():
    # ‖(3, 4)‖ = 5. The noise moves the scores by 1, then by 9 under another prediction, then by 2: 2/5.
    made = answer_by_seed(
        ([[3, 5]], PREDICTED), ([[3, 13]], 1 - PREDICTED), ([[3, 2]], PREDICTED)
    )  # fmt: skip
    trial = build_trial([3, 4], made)
    assert outcome("sensitivity", trial, draws=3).values == pytest.approx([0.4])
    assert outcome("sensitivity", trial, draws=1).values == pytest.approx([0.2])
    assert [change for change, _ in trial.again.asked] == [
        *(Noise(0.05, seed) for seed in range(3)), Noise(0.05, 0),
    ]  # fmt: skip


def test_sensitivity_does_not_depend_on_the_unit_of_the_scores():
    # Squares of 1e-200 are nothing in float64.
    made = answer_by_seed(([[3e-200, 5e-200]], PREDICTED))
    assert outcome(
        "sensitivity", build_trial([3e-200, 4e-200], made), draws=1
    ).values == pytest.approx([0.2])


def test_sensitivity_ignores_special_tokens_and_sums_scores_by_word():
    # The first token is special. The word of the next two has 3 + 0, then 1 + 2: nothing has moved.
    made = answer_by_seed(([[9, 1, 2, 4]], PREDICTED))
    trial = build_trial([0, 3, 0, 4], made, units=((1, 2), (3,)))
    assert outcome("sensitivity", trial, draws=1).values == [0]


def test_sensitivity_leaves_failed_draws_out_for_each_explanation():
    # Row 0 fails once and moves by 2 of 5 otherwise; row 1 always fails; row 2 has nothing to move.
    made = answer_by_seed(
        ([[3, 2], "No slope.", [1, 1]], PREDICTED), (["Broken.", "Late.", [1, 1]], PREDICTED)
    )
    trial = build_trial([[3, 4], [3, 4], [0, 0]], made)
    found = outcome("sensitivity", trial, draws=2)
    assert found.values[0] == pytest.approx(0.4)
    assert found.why_not[1] == "No slope."
    assert "All scores are 0" in found.why_not[2]
    assert {rows for _, rows in trial.again.asked} == {(0, 1)}  # what has no length is not made


def test_sensitivity_gives_a_reason_where_noise_always_changes_the_prediction():
    trial = build_trial([3, 4], lambda change: ([[3, 4]], 1 - PREDICTED))
    found = outcome("sensitivity", trial, radius=0.5)
    assert found.why_not == {0: "Noise of this size (0.5) changes the prediction every time."}


def test_sensitivity_of_another_seed_draws_other_noise():
    made = {}
    for seed in (0, 1, 2):
        trial = build_trial([3, 4], lambda change: ([[3, 4]], PREDICTED), seed=seed)
        outcome("sensitivity", trial, draws=3)
        made[seed] = {change.seed for change, _ in trial.again.asked}
    assert made == {0: {0, 1, 2}, 1: {3, 4, 5}, 2: {6, 7, 8}}


# Rank correlations with 1 2 3 4: 1 2 4 3 has differences 0 0 1 1, so 1 - 6 · 2 / (4 · 15) = 0.8; 2 1 4 3 has
# 1 1 1 1, so 1 - 6 · 4 / 60 = 0.6.
UP, NEAR, FAR, DOWN = [1, 2, 3, 4], [1, 2, 4, 3], [2, 1, 4, 3], [4, 3, 2, 1]


def answer_by_change(answers):
    """Answer by the kind of the change; dropout by its seed."""

    def made(change):
        found = answers[type(change)]
        return [found[change.seed] if isinstance(change, Dropout) else found], PREDICTED

    return made


def test_consistency_is_the_lowest_of_dropout_padding_and_batch():
    made = answer_by_change({Dropout: [UP, NEAR], Padded: FAR, Beside: UP})
    found = outcome("consistency", build_trial(UP, made), seeds=2)
    assert found.values == pytest.approx([0.6])
    assert {name: values[0] for name, values in found.parts.items()} == pytest.approx(
        {"dropout": 0.9, "padding": 0.6, "batch": 1.0}
    )


def test_consistency_leaves_out_parts_that_cannot_be_computed():
    made = answer_by_change({Dropout: [UP, NEAR], Padded: "Padding changes all.", Beside: UP})
    found = outcome("consistency", build_trial(UP, made), seeds=2)
    assert found.values == pytest.approx([0.9])
    assert np.isnan(found.parts["padding"][0])
    # A seed whose explanation ranks nothing: the other one counts.
    made = answer_by_change({Dropout: [[5, 5, 5, 5], NEAR], Padded: UP, Beside: UP})
    assert outcome("consistency", build_trial(UP, made), seeds=2).values == pytest.approx([0.8])
    made = answer_by_change(
        {Dropout: ["No dropout."] * 5, Padded: "No padding.", Beside: "No batch."}
    )
    assert outcome("consistency", build_trial(UP, made)).why_not == {0: "No dropout."}


def test_class_sensitivity_equals_hand_computed_rank_correlations():
    rows = [UP, UP, UP, [2, 2, 2, 2], UP]
    anew = [DOWN, UP, FAR, UP, [7, 7, 7, 7]]
    trial = build_trial(rows, lambda change: (anew, PREDICTED))
    found = outcome("class_sensitivity", trial)
    assert found.values[:3] == pytest.approx([-1, 1, 0.6])
    assert "All scores are equal" in found.why_not[3]
    assert "Made anew" in found.why_not[4]
    assert trial.again.asked == [(OtherClass(), (0, 1, 2, 4))]


@pytest.mark.parametrize("name", KINDS)
def test_robustness_metrics_of_too_few_tokens_give_a_reason(name):
    none = outcome(name, build_trial([1, 2], units=()))
    assert "no token that can be removed" in none.why_not[0]
    if name != "sensitivity":  # of a single score the change can still be told
        assert "only one token" in outcome(name, build_trial([1, 2], units=((1,),))).why_not[0]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("sensitivity", {"draws": 0}),
        ("sensitivity", {"radius": -0.1}),
        ("consistency", {"seeds": 0}),
        ("consistency", {"padding": 0}),
    ],
)
def test_robustness_metrics_refuse_parameters_out_of_range(name, params):
    with pytest.raises(BadParameter):
        resolve_parameters(name, metric.get(name).parameters, params)


@pytest.mark.parametrize(
    ("name", "params", "times"),
    [
        ("sensitivity", {"draws": 7}, 7),
        ("consistency", {"seeds": 3}, 5),
        ("class_sensitivity", {}, 1),
    ],
)
def test_robustness_metrics_repeat_explanations_as_often_as_their_facts_state(name, params, times):
    trial = build_trial(UP, lambda change: ([NEAR], PREDICTED))
    outcome(name, trial, **params)
    entry = metric.get(name)
    assert len(trial.again.asked) == times
    stated = entry.facts["again"](0, resolve_parameters(name, entry.parameters, params))
    assert stated == times


def test_null_of_class_sensitivity_has_a_mean_near_zero():
    # Any ranking of four is unrelated to any other: on average no correlation, in 200 draws to 5 · 0.58 / √200.
    trial = build_trial(UP, lambda change: ([UP], PREDICTED))
    entry = metric.get("class_sensitivity")
    null = entry.fn(build_null_trial(entry, trial, 0, 200))
    assert not null.why_not
    assert abs(null.values.mean()) < 0.21


def test_shuffled_scores_of_words_permute_word_sums_in_trial_and_repeat():
    # The word of three tokens has 6, the others 1 and 0. Dealt out anew, first and once more, they are 6, 1 and 0.
    scores = [2, 2, 2, 1, 0]
    trial = build_trial(scores, lambda _: ([scores], PREDICTED), units=((0, 1, 2), (3,), (4,)))
    null = trial.with_shuffled_scores(0, 20)
    anew = null.by_unit(null.again(OtherClass(), range(20)).scores)
    assert np.sort(null.values, axis=1) == pytest.approx(np.tile([0, 1, 6], (20, 1)))
    assert np.sort(anew, axis=1) == pytest.approx(np.tile([0, 1, 6], (20, 1)))
    assert (anew != null.values).any()


# --- on real models ---


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews", dtype="float64")


@pytest.fixture
def trial(explainer):
    ((_, trial, _),) = explainer.trials([TEXT], method=METHODS)
    return trial


def without_special_tokens(scores):
    """Leave the special tokens out: in this model the first and the last."""
    return np.asarray(scores, dtype=np.float64)[1:-1]


def explain_inner_tokens(explainer, name, target=1):
    return without_special_tokens(explainer.explain(TEXT, method=name, target=target).scores)


def ids_of(explainer):
    ids = explainer.tokenizer(TEXT)["input_ids"]
    return ids, {*ids, *explainer.fillers.values()}


def test_reviews_model_predicts_the_example_text_as_positive(explainer):
    assert explainer.predict(TEXT).index == 1  # the tests below name the class


def test_sensitivity_on_a_real_model_equals_a_loop_over_noise(explainer, trial):
    _, ids = ids_of(explainer)
    changes = {name: [] for name in METHODS}
    for seed in range(4):
        with add_embedding_noise(explainer.model, ids, 1.0, seed):
            kept = explainer.predict(TEXT).index == 1
            for name in METHODS if kept else ():
                changes[name].append(explain_inner_tokens(explainer, name))
    assert 0 < len(changes["attcat"]) < 4  # large enough that one draw changes the prediction
    found = outcome("sensitivity", trial, radius=1.0, draws=4)
    for row, name in enumerate(METHODS):
        own = explain_inner_tokens(explainer, name)
        moved = [np.linalg.norm(one - own) / np.linalg.norm(own) for one in changes[name]]
        assert found.values[row] == pytest.approx(max(moved), **CLOSE), name
    assert found.values[METHODS.index("random")] == 0


def plain_grad_x_input(model, ids, target):
    """Multiply the embeddings with their gradient, in plain transformers and torch."""
    vectors = model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    logits = model(inputs_embeds=vectors).logits[0]
    (slope,) = torch.autograd.grad(logits[target], vectors)
    return without_special_tokens((vectors * slope).sum(-1)[0].detach()), int(logits.argmax())


def test_sensitivity_equals_plain_transformers(explainer, trial):
    """Nothing of whence but the stream of random numbers: the noise is put into a copy of the model by hand."""
    ids, _ = ids_of(explainer)
    own, _ = plain_grad_x_input(explainer.model, ids, 1)
    moved = []
    for seed in range(6):
        model = copy.deepcopy(explainer.model)
        table = model.get_input_embeddings().weight.data
        for one in set(ids):
            direction = torch.from_numpy(
                build_generator("noise", seed, one).standard_normal(table.shape[1])
            )
            table[one] += 0.2 * table[one].norm() * direction / direction.norm()
        scores, predicted = plain_grad_x_input(model, ids, 1)
        if predicted == 1:
            moved.append(np.linalg.norm(scores - own) / np.linalg.norm(own))
    found = outcome("sensitivity", trial, radius=0.2, draws=6)
    assert found.values[METHODS.index("grad_x_input")] == pytest.approx(max(moved), **CLOSE)


def test_consistency_under_dropout_equals_a_loop_over_seeds(explainer, trial):
    found = outcome("consistency", trial, seeds=3)
    for row, name in enumerate(METHODS):
        own, alike = explain_inner_tokens(explainer, name), []
        for seed in range(3):
            with apply_dropout(explainer.model, seed):
                alike.append(spearmanr(own, explain_inner_tokens(explainer, name)).statistic)
        assert found.parts["dropout"][row] == pytest.approx(np.mean(alike), **CLOSE), name


def test_consistency_under_padding_and_batch_is_one_for_every_method(explainer):
    params = {"kernel_shap": {"samples": 64}, "lime": {"samples": 64}}
    ((_, trial, _),) = explainer.trials([TEXT], method=method.names(), params=params)
    found = outcome("consistency", trial, seeds=1)
    for part in ("padding", "batch"):
        for name, value in zip(trial.names, found.parts[part], strict=True):
            # One neighbouring pair of ten that changes places, by rounding, takes 6 · 2 / (10 · 99) = 0.012.
            assert value == pytest.approx(1, abs=1e-9), (name, part)


def test_class_sensitivity_on_a_real_model_equals_a_loop_over_classes(explainer, trial):
    found = outcome("class_sensitivity", trial)
    for row, name in enumerate(METHODS):
        pair = explain_inner_tokens(explainer, name, 1), explain_inner_tokens(explainer, name, 0)
        assert found.values[row] == pytest.approx(spearmanr(*pair).statistic, **CLOSE), name
    # Attention does not know which class is asked about, nor does chance; of two probabilities one falls as much as
    # the other rises, to the very end.
    assert found.values[METHODS.index("raw_attention")] == 1
    assert found.values[METHODS.index("random")] == 1
    assert found.values[METHODS.index("leave_one_out")] < -0.9


def test_class_sensitivity_of_the_runner_up_equals_that_of_the_prediction(explainer, trial):
    ((_, other, _),) = explainer.trials([TEXT], method=METHODS, target="runner-up")
    assert outcome("class_sensitivity", other).values == pytest.approx(
        outcome("class_sensitivity", trial).values, **CLOSE
    )


def test_class_sensitivity_of_a_contrast_gives_a_reason(explainer):
    ((_, trial, _),) = explainer.trials([TEXT], method="attcat", target=("positive", "negative"))
    found = outcome("class_sensitivity", trial)
    assert found.why_not == {0: "Two classes are held against each other already."}


def test_consistency_of_an_input_of_maximum_length_has_no_padding_part(explainer):
    longest = explainer.model.config.max_position_embeddings
    given = {"input_ids": [[2, *[7 + i % 90 for i in range(longest - 2)], 3]]}
    given["attention_mask"] = [[1] * longest]
    ((_, trial, _),) = explainer.trials([given, TEXT][:1], method="raw_attention")
    found = outcome("consistency", trial, seeds=1)
    assert np.isnan(found.parts["padding"][0])
    assert found.parts["batch"][0] == pytest.approx(1, abs=1e-9)


def test_robustness_metrics_leave_the_model_unchanged(explainer, trial):
    before = snapshot(explainer.model)
    weights = {name: value.clone() for name, value in explainer.model.state_dict().items()}
    for name in KINDS:
        outcome(name, trial)
    assert_unchanged(before, snapshot(explainer.model))
    for name, value in explainer.model.state_dict().items():
        assert value.equal(weights[name]), name


def test_robustness_metrics_computed_twice_spend_no_further_passes(trial):
    for name in KINDS:
        outcome(name, trial)
    spent = trial.again.passes
    assert spent.forward > 0
    for name in KINDS:
        outcome(name, trial)
    assert trial.again.passes == spent


def test_robustness_metrics_spend_one_forward_pass_per_repeat(explainer):
    ((_, trial, _),) = explainer.trials([TEXT], method="grad_x_input")
    outcome("sensitivity", trial, draws=6)
    assert trial.again.passes.forward == 6
    outcome("class_sensitivity", trial)
    assert trial.again.passes.forward == 7


def test_class_sensitivity_in_inference_mode_equals_that_outside(explainer, trial):
    with torch.inference_mode():
        ((_, other, _),) = explainer.trials([TEXT], method=METHODS)
        found = outcome("class_sensitivity", other)
    assert found.values == pytest.approx(outcome("class_sensitivity", trial).values, **CLOSE)


def test_robustness_metrics_of_a_batch_equal_those_of_single_texts(explainer):
    texts = [TEXT, "a dull and tiresome film", "not bad at all, I would watch it again"]
    alone = {}
    for number, text in enumerate(texts):
        ((_, trial, _),) = explainer.trials([text], method=METHODS)
        alone[number] = [outcome(name, trial).values for name in KINDS]
    for number, trial, _ in explainer.trials(texts, method=METHODS):
        for name, values in zip(KINDS, alone[number], strict=True):
            assert outcome(name, trial).values == pytest.approx(values, **CLOSE), name


def test_shuffled_trial_gives_the_reason_of_a_failed_repeat():
    trial = build_trial([3, 1, 2], lambda _: (["It cannot be."], 0))
    found = trial.with_shuffled_scores(0, 4).again(OtherClass())
    assert found.predicted == 0
    assert set(found.why_not.values()) == {"It cannot be."} and len(found.why_not) == 4
    assert np.isnan(found.scores).all()
