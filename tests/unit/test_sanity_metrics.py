"""Sanity metrics (randomisation, completeness, conservation) by hand, and against loops over real models."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import whence
from tests.contract.state import assert_unchanged, snapshot
from tests.repeat_trials import PREDICTED, build_trial, outcome
from whence.core.errors import BadParameter
from whence.core.registry import resolve_parameters
from whence.metrics import metric
from whence.metrics._requests import Randomised
from whence.tracing.alter import randomise_weights
from whence.tracing.structure import list_stages

TEXT = "the plot is thin, but the actors are wonderful"
METHODS = ("grad_x_input", "gradient", "raw_attention", "leave_one_out", "random")
# One number found by two ways of summation in float64, after four layers: far more than rounding, far less than a
# mistake.
CLOSE = {"rel": 1e-7, "abs": 1e-7}


# --- randomisation by hand ---

THREE = ("head", "layer", "embeddings")
OWN = [-1, 2, -3, 4]


def by_stage(*answers):
    """Answer by the stage, and by the seed where there are several answers."""

    def made(change):
        found = answers[change.stage]
        return [found[change.seed] if isinstance(found, tuple) else found], PREDICTED

    return made


def test_randomisation_equals_hand_computed_correlations_by_stage():
    # By size: the same ranking with all signs turned, 1; then 1 2 4 3 of 1 2 3 4, 1 - 6 · 2 / 60 = 0.8; then -1.
    made = by_stage([1, -2, 3, -4], [1, 2, 4, 3], [4, -3, 2, -1])
    trial = build_trial(OWN, made, stages=THREE)
    found = outcome("randomisation", trial)
    assert found.values == pytest.approx([0.8 / 3])
    assert found.curves == pytest.approx(np.array([[1, 0.8, -1]]))
    assert found.at == pytest.approx([1 / 3, 2 / 3, 1])
    assert [change for change, _ in trial.again.asked] == [Randomised(k, 0) for k in range(3)]


def test_randomisation_averages_several_draws_of_weights_by_stage():
    # Stage by stage the means over two draws: (1 + 0.8) / 2, then what is known of (flat, 1), then -1: 0.9 / 3.
    down = [4, 3, 2, 1]
    made = by_stage(([1, 2, 3, 4], [1, 2, 4, 3]), ([5, -5, 5, 5], [1, 2, 3, 4]), (down, down))
    trial = build_trial(OWN, made, stages=THREE)
    found = outcome("randomisation", trial, seeds=2)
    assert found.curves == pytest.approx(np.array([[0.9, 1, -1]]))
    assert found.values == pytest.approx([0.3])
    entry = metric.get("randomisation")
    assert len(trial.again.asked) == 6 == entry.facts["again"](3, {"seeds": 2})


def test_randomisation_leaves_out_stages_without_a_ranking():
    made = by_stage([1, 2, 3, 4], "Not finite.", [-6, 6, 6, 6])
    found = outcome("randomisation", build_trial(OWN, made, stages=THREE))
    assert found.values == [1]
    assert np.isnan(found.curves[0, 1:]).all()
    made = by_stage("Not finite.", [-6, 6, 6, 6], "Too large.")
    assert outcome("randomisation", build_trial(OWN, made, stages=THREE)).why_not == {
        0: "Not finite."
    }


def test_randomisation_gives_a_reason_where_weights_or_rankings_are_missing():
    for rows, stages_, units, why in [
        (OWN, (), None, "no weights"),
        ([-1, 1, 1, -1], THREE, None, "same size"),
        (OWN, THREE, ((1,),), "only one token"),
        (OWN, THREE, (), "no token"),
    ]:
        trial = build_trial(rows, lambda change: ([OWN], PREDICTED), stages=stages_, units=units)
        assert why in outcome("randomisation", trial).why_not[0]
    with pytest.raises(BadParameter):
        resolve_parameters("randomisation", metric.get("randomisation").parameters, {"seeds": 0})


# --- promises by hand ---


def test_completeness_equals_hand_computed_residual_shares():
    scores = [[1, 2, 0], [1, 2, -1], [0, 0, 0], [1, 2, 3], [0, 0, 0], [1, 2, 3]]
    axioms = [
        {"completeness": -0.5},  # 3 instead of 3.5
        {"completeness": 4},  # 2 instead of -2
        {"completeness": -7},  # nothing at all of 7
        {"sums_to_one": 5},
        {"completeness": 0},  # nothing of nothing
        {"completeness": 6 + 1e-9},  # 6 of what is 0 but for rounding
    ]
    found = outcome("completeness", build_trial(scores, axioms=axioms))
    assert found.values[:3] == pytest.approx([0.5 / 3.5, 2, 1])
    assert found.values[2] == metric.get("completeness").facts["null"]
    assert found.why_not[3] == "It makes no such promise."
    assert "should add up to is 0" in found.why_not[4]
    assert "should add up to is 0" in found.why_not[5]


def test_completeness_includes_the_scores_of_special_tokens():
    # The scores of all three tokens add up to 3, of the one unit to 2; they should have been 4.
    trial = build_trial([0.5, 2, 0.5], axioms=[{"completeness": -1}], units=((1,),))
    assert outcome("completeness", trial).values == pytest.approx([0.25])


def test_conservation_equals_the_hand_computed_worst_residual_share():
    layers = {"conservation.layer0": 0.1, "conservation.layer1": -0.4}
    scores = [[1, 1], [1, 1], [1, 1], [1, 1], [0, 0]]
    axioms = [
        layers,  # 1 was given: the worst layer loses 0.4
        {"conservation": -2, **layers},  # the tokens have 2 of 4, and that is the worst
        {"completeness": 1},
        {"conservation_of_mass": 1},
        {"conservation": 0, **layers},  # nothing was given
    ]
    found = outcome("conservation", build_trial(scores, axioms=axioms))
    assert found.values[:2] == pytest.approx([0.4, 0.5])
    assert found.why_not[2] == found.why_not[3] == "It makes no such promise."
    assert "should add up to is 0" in found.why_not[4]
    # Of a contrast, 1 is given to one logit and -1 to the other: 2 in all.
    twice = outcome("conservation", build_trial(scores, axioms=axioms, slope=2.0))
    assert twice.values[:2] == pytest.approx([0.2, 0.5])
    none = outcome("conservation", build_trial(scores, axioms=axioms, slope=0.0))
    assert "should add up to is 0" in none.why_not[0]


# --- on real models ---


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews", dtype="float64")


def build_trial_of_text(explainer, methods, **how):
    ((_, trial, found),) = explainer.trials([TEXT], method=methods, **how)
    return trial, found


def without_special_tokens(scores):
    """Leave the special tokens out: in this model the first and the last."""
    return np.asarray(scores, dtype=np.float64)[1:-1]


def test_randomisation_on_a_real_model_equals_a_loop_over_stages(explainer):
    """The changed model is explained as any other; grad_x_input in plain torch as well."""
    model, ids = explainer.model, torch.tensor([explainer.tokenizer(TEXT)["input_ids"]])

    def explained(name):
        return without_special_tokens(explainer.explain(TEXT, method=name, target=1).scores)

    def plain():
        vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
        (slope,) = torch.autograd.grad(model(inputs_embeds=vectors).logits[0, 1], vectors)
        return without_special_tokens((vectors * slope).sum(-1)[0].detach())

    makers = {name: lambda name=name: explained(name) for name in METHODS} | {"plain": plain}
    own = {name: abs(make()) for name, make in makers.items()}
    curves = {name: [] for name in makers}
    for stage in range(len(list_stages(model))):
        with randomise_weights(model, stage, 0):
            for name, make in makers.items():
                curves[name].append(spearmanr(own[name], abs(make())).statistic)
    trial, _ = build_trial_of_text(explainer, METHODS)
    found = outcome("randomisation", trial)
    for row, name in enumerate(METHODS):
        assert found.curves[row] == pytest.approx(curves[name], **CLOSE), name
        assert found.values[row] == pytest.approx(np.mean(curves[name]), **CLOSE), name
    assert found.curves[METHODS.index("grad_x_input")] == pytest.approx(curves["plain"], **CLOSE)
    # The head and six stages: head, four layers, embeddings. Chance does not look at the model.
    assert found.curves.shape == (5, 6)
    assert found.values[METHODS.index("random")] == 1
    # Attention comes before the head: it cannot know of it.
    assert found.curves[METHODS.index("raw_attention"), 0] == 1


def test_randomisation_leaves_the_model_unchanged_and_repeats_no_change(explainer):
    before = snapshot(explainer.model)
    weights = {name: value.clone() for name, value in explainer.model.state_dict().items()}
    trial, _ = build_trial_of_text(explainer, METHODS)
    first = outcome("randomisation", trial).values
    spent = trial.again.passes
    assert outcome("randomisation", trial).values == pytest.approx(first, rel=0, abs=0)
    assert trial.again.passes == spent
    assert_unchanged(before, snapshot(explainer.model))
    for name, value in explainer.model.state_dict().items():
        assert value.equal(weights[name]), name


def plain_logits(explainer, change=lambda vectors: vectors):
    ids = torch.tensor([explainer.tokenizer(TEXT)["input_ids"]])
    with torch.no_grad():
        vectors = explainer.model.get_input_embeddings()(ids)
        return explainer.model(inputs_embeds=change(vectors)).logits[0]


def test_completeness_equals_plain_transformers(explainer):
    """What should be added up to, asked of the model itself."""
    methods = ["integrated_gradients", "decompx", "kernel_shap", "gradient_shap", "attcat"]
    params = {
        "integrated_gradients": {"steps": 3, "baseline": "zero"},
        "kernel_shap": {"samples": 64, "remove": "mask"},
        "gradient_shap": {"baseline": "zero"},
    }
    trial, given = build_trial_of_text(explainer, methods, params=params)
    whole, nothing = plain_logits(explainer), plain_logits(explainer, torch.zeros_like)
    ids = torch.tensor([explainer.tokenizer(TEXT)["input_ids"]])
    ids[0, 1:-1] = explainer.tokenizer.mask_token_id
    with torch.no_grad():
        masked = explainer.model(input_ids=ids).logits[0]
    rise = float(whole[1] - nothing[1])
    wanted = {
        "integrated_gradients": rise,
        "decompx": float(whole[1]),
        "kernel_shap": float(whole.softmax(0)[1] - masked.softmax(0)[1]),
        "gradient_shap": rise,
    }
    found = outcome("completeness", trial)
    for row, name in enumerate(methods[:-1]):
        missed = abs(given[name].scores.sum() - wanted[name]) / abs(wanted[name])
        assert found.values[row] == pytest.approx(missed, **CLOSE), name
    assert found.values[0] > 1e-3  # three steps are few
    assert max(found.values[1:3]) < 1e-9  # these add up by construction
    assert found.why_not == {4: "It makes no such promise."}


@pytest.mark.parametrize(
    ("target", "of"),
    [(1, "logit"), (0, "logit"), (("positive", "negative"), "logit"), (1, "probability")],
)
def test_conservation_equals_the_worst_residual_over_the_given_relevance(explainer, target, of):
    methods = ["attn_lrp", "cp_lrp", "full_lrp", "transformer_attribution", "decompx"]
    trial, given = build_trial_of_text(explainer, methods, target=target, of=of)
    logits = plain_logits(explainer).requires_grad_()
    explained = logits.softmax(0) if of == "probability" else logits
    value = explained[1] - explained[0] if isinstance(target, tuple) else explained[target]
    (slope,) = torch.autograd.grad(value, logits)
    assert trial.slope == pytest.approx(float(slope.abs().sum()), **CLOSE)
    # AttnLRP and CP-LRP follow the value, split by the slopes; Chefer's tables give every logit its slope.
    followed = float((slope * logits).sum().detach())
    found = outcome("conservation", trial)
    for row, name in enumerate(methods[:-1]):
        total = followed if name in ("attn_lrp", "cp_lrp") else trial.slope
        worst = max(abs(v) for n, v in given[name].axioms.items() if n.startswith("conservation"))
        assert found.values[row] == pytest.approx(worst / abs(total), rel=1e-6), name
    assert found.values[methods.index("transformer_attribution")] < 1e-6  # its rules conserve
    assert found.why_not == {4: "It makes no such promise."}
