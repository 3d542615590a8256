"""Training with `fit`: recipes, batches, loss, Adam, seeds and refusals; performance as in scikit-learn."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import metrics

from tests.progress_news import NewsListener
from tests.trainings import QUICK, WORD, attentive, bert, row, same_weights, texts, weights
from whence.core.errors import BadExamples, BadParameter, NoHead, NotFinite
from whence.core.seed import build_generator
from whence.data.batches import collate
from whence.studies.training.fit import build_epoch_batches, fit
from whence.studies.training.performance import (
    compute_performance,
    measure_performance,
    predict_logits,
)
from whence.studies.training.recipe import RECIPES, Recipe, choose_recipe
from whence.tracing.forward import compute_logits

CPU = torch.device("cpu")


# --- the recipe ---


def test_recipes_have_the_settings_of_the_paper():
    text, query = RECIPES["text"], RECIPES["query"]
    assert (text.epochs, text.batch_size, text.learning_rate) == (8, 32, 1e-3)
    assert (text.weight_decay, text.attention_weight_decay, text.amsgrad) == (1e-5, 0.0, True)
    assert text.pos_weight and text.summed
    assert (query.epochs, query.batch_size, query.attention_weight_decay) == (25, 128, None)
    assert not query.pos_weight and not query.summed
    assert (RECIPES["babi"].epochs, RECIPES["babi"].batch_size) == (100, 50)
    assert choose_recipe(query=False, labels=2) == text
    assert choose_recipe(query=True, labels=2) == query
    assert not choose_recipe(query=False, labels=4).pos_weight
    assert Recipe.from_dict(json.loads(json.dumps(query.to_dict()))) == query


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epochs": 0}, "epochs must be a whole number, at least 1. Got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"learning_rate": math.nan}, "learning_rate must be a number"),
        ({"weight_decay": -1}, "weight_decay must be a number, at least 0. Got -1"),
        ({"seed": True}, "seed must be a whole number"),
        ({"momentum": 0.9}, "A recipe has no 'momentum'; it has epochs"),
    ],
)
def test_recipe_from_dict_with_a_bad_value_raises_bad_parameter(given, said):
    with pytest.raises(BadParameter, match=said.replace("?", r"\?")):
        Recipe.from_dict(given)


# --- batches ---


def test_build_epoch_batches_groups_equal_lengths_and_depends_on_seed_and_epoch():
    lengths = [10] * 40 + [100] * 40 + [1000] * 40
    batches = build_epoch_batches(lengths, 20, seed=0, epoch=1)
    assert sorted(i for batch in batches for i in batch) == list(range(120))
    # Noise of a tenth makes no 10 of a 100: every batch has one length.
    firsts = [{lengths[i] for i in batch} for batch in batches]
    assert all(len(found) == 1 for found in firsts)
    assert [min(found) for found in firsts] != sorted(min(found) for found in firsts)
    assert batches == build_epoch_batches(lengths, 20, seed=0, epoch=1)
    assert batches != build_epoch_batches(lengths, 20, seed=0, epoch=2)
    assert batches != build_epoch_batches(lengths, 20, seed=1, epoch=1)


def test_build_epoch_batches_mixes_similar_lengths_but_not_distant_ones():
    lengths = [100] * 50 + [115] * 50 + [150] * 50
    batches = build_epoch_batches(lengths, 1, seed=0, epoch=1)
    assert len(batches) == 150
    mixed = {
        frozenset(lengths[i] for i in batch) for batch in build_epoch_batches(lengths, 25, 0, 1)
    }
    # 100 to 110 and 103.5 to 126.5 overlap; 135 is the least that 150 becomes.
    assert frozenset({100, 115}) in mixed
    assert frozenset({115, 150}) not in mixed


# --- loss and optimiser ---


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def test_fit_loss_equals_binary_cross_entropy_weighted_and_summed_or_averaged():
    rows = [row([2, 7, 3], 0), row([2, WORD, 8, 3], 1), row([2, 9, 3], 0), row([2, 10, 3], 0)]
    model = attentive().double()
    z = [model(torch.tensor([r.item.ids])).logits[0] for r in rows]
    z = [float((two - one).detach()) for one, two in z]
    # One of four is positive: it counts 4 / 1 - 1 = 3 times. BCE = -log s(z) for it, -log(1 - s(z)) for the others.
    expected = -3 * math.log(sigmoid(z[1])) - sum(math.log(1 - sigmoid(z[i])) for i in (0, 2, 3))
    still = Recipe(epochs=1, batch_size=4, learning_rate=0.0)
    # The history has the mean over examples. Exact but for the rounding of float64: 1e-12 is a thousand times that.
    assert fit(model, rows, still, pad_id=0).history[0].loss == pytest.approx(
        expected / 4, abs=1e-12
    )
    # With a mean over each batch (of 3 and 1), and every example counting the same.
    plain = replace(still, batch_size=3, pos_weight=False, summed=False)
    expected = -math.log(sigmoid(z[1])) - sum(math.log(1 - sigmoid(z[i])) for i in (0, 2, 3))
    assert fit(model, rows, plain, pad_id=0).history[0].loss == pytest.approx(
        expected / 4, abs=1e-12
    )


def adam(weights, gradients, state, step, rate, decay):
    """Take a step of Adam with amsgrad, from the formulas of Reddi et al. 2018 with bias correction as in PyTorch."""
    for name, w in weights.items():
        g = gradients[name] + decay[name] * w
        m, v, top = state.get(name, (0.0, 0.0, np.zeros_like(w)))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        top = np.maximum(top, v)
        state[name] = m, v, top
        size = np.sqrt(top) / math.sqrt(1 - 0.999**step) + 1e-8
        weights[name] = w - rate / (1 - 0.9**step) * m / size


def test_fit_equals_adam_with_amsgrad_and_separate_decay_for_attention():
    rows = texts(12)
    recipe = Recipe(
        epochs=2, batch_size=5, learning_rate=0.01, weight_decay=0.1, attention_weight_decay=0.02
    )
    model = attentive(encoder="bilstm").double()
    twin = copy.deepcopy(model)
    values = {name: w.detach().numpy().copy() for name, w in twin.named_parameters()}
    decay = {name: 0.02 if name.startswith("attention.") else 0.1 for name in values}
    assert 0.02 in decay.values()
    state, step = {}, 0
    for epoch in (1, 2):
        for numbers in build_epoch_batches([len(r.item) for r in rows], 5, recipe.seed, epoch):
            step += 1
            with torch.no_grad():
                for name, w in twin.named_parameters():
                    w.copy_(torch.from_numpy(values[name]))
            batch = collate([rows[i].item for i in numbers], pad_id=0, device=CPU)
            log = torch.log_softmax(compute_logits(twin, batch), -1)
            # Half of the twelve are positive: they count 12 / 6 - 1 = 1 times.
            loss = -sum(log[place, rows[i].label] for place, i in enumerate(numbers))
            found = torch.autograd.grad(loss, list(twin.parameters()))
            names = [name for name, _ in twin.named_parameters()]
            gradients = {name: g.numpy() for name, g in zip(names, found, strict=True)}
            adam(values, gradients, state, step, 0.01, decay)
    fit(model, rows, recipe, pad_id=0)
    for name, w in model.named_parameters():
        # Adam divides by gradients that may be tiny, which magnifies rounding: 1e-9 of weights of about 1.
        np.testing.assert_allclose(w.detach().numpy(), values[name], atol=1e-9, err_msg=name)


def test_decoupled_weight_decay_without_gradient_shrinks_weights_by_rate_times_decay():
    rows = texts(4)
    recipe = Recipe(
        epochs=1, batch_size=4, learning_rate=0.1, weight_decay=0.5,
        attention_weight_decay=None, decoupled=True,
    )  # fmt: skip
    model = attentive()
    before = weights(model)
    fit(model, rows, recipe, pad_id=0, loss=lambda model, *_: 0 * run_all(model, rows))
    # Without a gradient AdamW takes rate x decay = 0.05 off every weight and no more.
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name] * 0.95, rtol=1e-6, atol=1e-7)


def run_all(model, rows):
    return compute_logits(model, collate([r.item for r in rows], pad_id=0, device=CPU)).sum()


def test_fit_passes_the_example_numbers_of_each_batch_to_a_custom_loss():
    rows, seen = texts(11), []

    def loss(model, batch, labels, numbers):
        assert [rows[i].item for i in numbers] == list(batch.items)
        assert [rows[i].label for i in numbers] == labels.tolist()
        seen.extend(numbers)
        return compute_logits(model, batch).square().sum()

    fit(attentive(), rows, replace(QUICK, epochs=1), pad_id=0, loss=loss)
    assert sorted(seen) == list(range(11))


# --- seeds, and what is left behind ---


def test_fit_depends_on_the_recipe_seed_and_not_on_the_global_generator():
    start = bert()
    recipe = replace(RECIPES["transformer"], batch_size=5, learning_rate=1e-3, epochs=2)
    found = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        model = copy.deepcopy(start)
        torch.manual_seed(noise)  # the caller's generator is none of the training's business
        before = torch.get_rng_state()
        fit(model, texts(12, vocabulary=60), replace(recipe, seed=seed), pad_id=0)
        assert torch.equal(torch.get_rng_state(), before)
        found.append(weights(model))
    assert same_weights(found[0], found[1])
    assert not same_weights(found[0], found[2])


def test_fit_applies_dropout_that_differs_between_epochs():
    model, rows = bert(), texts(6, vocabulary=60)
    seen = []

    def loss(model, batch, labels, numbers):
        order = np.argsort(numbers)
        seen.append(compute_logits(model, batch)[torch.from_numpy(order)].detach())
        return seen[-1].sum() * 0 + 0 * compute_logits(model, batch).sum()

    recipe = replace(RECIPES["transformer"], batch_size=6, epochs=2, weight_decay=0.0)
    fit(model, rows, recipe, pad_id=0, loss=loss)
    quiet = torch.from_numpy(predict_logits(model, [r.item for r in rows], pad_id=0)).float()
    assert not torch.allclose(seen[0], seen[1], atol=1e-3)
    assert not torch.allclose(seen[0], quiet, atol=1e-3)


@pytest.mark.parametrize("fails", [False, True])
def test_fit_restores_modes_and_leaves_no_gradients_after_success_or_error(fails):
    model = bert()
    model.bert.encoder.layer[0].train()
    modes = [module.training for module in model.modules()]
    model.classifier.weight.requires_grad_(False)
    frozen = model.classifier.weight.clone()

    def each(epoch):
        if fails:
            raise RuntimeError("stop")

    recipe = replace(RECIPES["transformer"], epochs=1, batch_size=6)
    with torch.no_grad():
        if fails:
            with pytest.raises(RuntimeError, match="stop"):
                fit(model, texts(6, vocabulary=60), recipe, pad_id=0, progress=NewsListener(each))
        else:
            fit(model, texts(6, vocabulary=60), recipe, pad_id=0, progress=NewsListener(each))
        assert not torch.is_grad_enabled()
    assert [module.training for module in model.modules()] == modes
    assert all(weight.grad is None for weight in model.parameters())
    assert torch.equal(model.classifier.weight, frozen)


# --- what cannot be trained ---


def test_fit_refuses_bad_labels_empty_data_and_models_without_classes():
    with pytest.raises(BadExamples, match="has the label 2, and the model has 2"):
        fit(attentive(), [row([2, 7, 3], 2)], QUICK, pad_id=0)
    with pytest.raises(BadExamples, match="no examples to train on"):
        fit(attentive(), [], QUICK, pad_id=0)
    with pytest.raises(BadExamples, match="All 3 examples have the same label"):
        fit(attentive(), [row([2, 7, 3], 1)] * 3, QUICK, pad_id=0)
    with pytest.raises(BadParameter, match="pos_weight is for two labels, and the model has 3"):
        fit(attentive(labels=3), texts(), QUICK, pad_id=0)
    with pytest.raises(NoHead, match="only such models are trained"):
        fit(attentive(problem_type="regression", labels=1), texts(), QUICK, pad_id=0)


def test_fit_with_a_loss_or_score_that_is_not_finite_raises_not_finite(tmp_path):
    # float32 ends at 3e38, and the logits are of the order of 1.
    bad = {
        "The logits are not finite": lambda model, *_: run_all(model, texts()) * 1e38 * 1e10,
        "The loss is nan": lambda model, *_: (
            run_all(model, texts()).detach().abs() * math.nan + 0 * run_all(model, texts())
        ),
    }
    for said, loss in bad.items():
        with pytest.raises(
            NotFinite, match=f"ran away in epoch 1: {said}.*Lower the learning rate; it is 0"
        ):
            fit(attentive(), texts(), QUICK, pad_id=0, loss=loss)
    with pytest.raises(NotFinite, match="An epoch was judged nan"):
        fit(attentive(), texts(), QUICK, pad_id=0, select=lambda *_: math.nan)


# --- how well a model does ---


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_compute_performance_equals_the_metrics_of_scikit_learn(labels):
    for seed in range(20):
        rng = build_generator("performance", labels, seed)
        n = int(rng.integers(3, 40))
        truth = [int(label) for label in rng.integers(0, labels, n)]
        logits = np.round(rng.normal(size=(n, labels)), 1)  # rounded: there are ties
        said = logits.argmax(1)
        found = compute_performance(logits, truth)
        assert found.n == n
        assert found.accuracy == pytest.approx(metrics.accuracy_score(truth, said))
        average = {"average": "binary"} if labels == 2 else {"average": "macro"}
        f1 = metrics.f1_score(truth, said, zero_division=0, **average)
        assert found.f1 == pytest.approx(f1)
        table = metrics.confusion_matrix(truth, said, labels=range(labels))
        assert found.confusion == tuple(map(tuple, table.tolist()))
        if labels == 2 and len(set(truth)) == 2:
            scores = logits[:, 1] - logits[:, 0]
            assert found.roc_auc == pytest.approx(metrics.roc_auc_score(truth, scores))
        else:
            assert found.roc_auc is None


def test_roc_auc_with_ties_equals_the_area_computed_by_hand():
    # Positive 1 and 3, negative 1 and 2: 1 ties with 1 (half), is below 2; 3 is above both. (0.5 + 0 + 1 + 1) / 4.
    logits = [[0, score] for score in (1, 3, 1, 2)]
    assert compute_performance(logits, [1, 1, 0, 0]).roc_auc == 0.625
    assert compute_performance(logits, [1, 1, 1, 1]).roc_auc is None


def test_predict_logits_does_not_depend_on_the_batch_size():
    rows, model = texts(), attentive(encoder="bilstm").double()
    one = predict_logits(model, [r.item for r in rows], pad_id=0, batch_size=1)
    many = predict_logits(model, [r.item for r in rows], pad_id=0, batch_size=7)
    np.testing.assert_allclose(one, many, atol=1e-12)  # float64, and sums of a dozen terms
    assert measure_performance(model, rows, pad_id=0) == compute_performance(
        one, [r.label for r in rows]
    )
