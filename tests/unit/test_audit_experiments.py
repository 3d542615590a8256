"""Audit experiments without training (correlation, permutation, replacement, diversity) against loops and scipy."""

import json
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch

import whence
from tests.audit_subjects import TEXTS, TRUTH, attentive, reviews, subject_of
from tests.unit.test_replay import by_hand
from whence.core.seed import build_generator
from whence.studies.audit import importance
from whence.studies.audit.adversary import SearchOptions, find_adversaries
from whence.studies.audit.attention_variants import draw_permutations, draw_random_weights
from whence.studies.audit.experiments import correlation as correlation_module
from whence.studies.audit.experiments.adversarial import adversarial
from whence.studies.audit.experiments.correlation import correlation
from whence.studies.audit.experiments.diversity import diversity
from whence.studies.audit.experiments.permutation import permutation
from whence.studies.audit.experiments.replacement import replacement
from whence.studies.audit.finding_summary import build_violin
from whence.tracing.replay import AttentionReplay

# Answers of a float64 model, computed in another order.
ROUNDED = {"rtol": 0, "atol": 1e-10}
FEW = {"candidates": 2, "steps": 15}
EXPERIMENTS = {
    "correlation": lambda subject: correlation(subject, steps=2),
    "permutation": lambda subject: permutation(subject, permutations=6),
    "replacement": lambda subject: replacement(subject, draws=3),
    "adversarial": lambda subject: adversarial(subject, **FEW),
    "diversity": lambda subject: diversity(subject, permutations=6, **FEW),
}


def predict_with_weights(subject, number, weights):
    """Run a model of Jain and Wallace by hand on one text, with these weights on its words."""
    model, ids = subject.loaded.model, torch.tensor([subject.items[number].ids])
    with torch.no_grad():
        real, special = torch.ones_like(ids, dtype=torch.bool), (ids == 2) | (ids == 3)
        states, _ = model.encoders[0](model.embeddings(ids), real, special)
        context = torch.as_tensor(weights) @ states[0, subject.content[number]]
        return float(model.decoder.output(context).sigmoid())


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("model", [attentive, reviews])
def test_experiment_values_of_a_batch_equal_its_singles(name, model):
    run = EXPERIMENTS[name]
    together = run(subject_of(model())).values
    for number, text in enumerate(TEXTS):
        alone = run(subject_of(model(), [text], TRUTH[number : number + 1])).values
        np.testing.assert_allclose(alone[0], together[number], **ROUNDED)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_repeats_with_the_same_seed_and_random_ones_differ_with_another(name):
    run = EXPERIMENTS[name]
    first, again = (run(subject_of(reviews())) for _ in range(2))
    np.testing.assert_array_equal(first.values, again.values)
    assert json.dumps(first.detail) == json.dumps(again.detail)
    other = run(subject_of(reviews(), seed=1))
    drawn = {"permutation": "values", "adversarial": "values", "diversity": "values"}
    if name in drawn:
        assert not np.array_equal(first.values, other.values)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("site", ["last", "all", "heads", "1", "0.2"])
def test_experiment_at_every_site_gives_one_value_for_each_example(name, site):
    subject = subject_of(reviews(), TEXTS[:3], TRUTH[:3], site=site)
    finding = EXPERIMENTS[name](subject)
    assert finding.values.shape == (3,)
    others = [] if name == "diversity" else [one.name for one in subject.sites[1:]]
    assert list(finding.by_site) == others
    assert all(values.shape == (3,) for values in finding.by_site.values())
    json.dumps([finding.detail, list(finding.plots)], allow_nan=False)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_with_free_special_tokens_gives_finite_values(name):
    subject = subject_of(reviews(), TEXTS[:3], TRUTH[:3], special="free")
    finding = EXPERIMENTS[name](subject)
    assert np.isfinite(finding.values).all()
    for plot in finding.plots:
        for example in plot.get("examples", ()):
            assert all(len(r["weights"]) == len(example["tokens"]) for r in example["rows"])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_on_three_labels_and_a_query_gives_finite_values(name):
    pairs = [(text, "great fun") for text in TEXTS]
    finding = EXPERIMENTS[name](subject_of(attentive("cnn", 3, True), pairs))
    assert np.isfinite(finding.values).all()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_on_a_multi_label_model_gives_finite_values(name):
    explainer = attentive("average", 3, kind="multi_label_classification")
    assert explainer.loaded.task == "multi_label"
    finding = EXPERIMENTS[name](subject_of(explainer))
    assert np.isfinite(finding.values).all()


# Correlation


def test_correlation_finding_equals_statistics_of_scipy():
    subject = subject_of(attentive())
    finding = correlation(subject, steps=4)
    scores = {
        "attention": subject.attention(),
        "gradient": importance.gradient(subject),
        "leave_one_out": importance.leave_one_out(subject),
        "integrated_gradients": importance.integrated_gradients(subject, steps=4),
    }
    pairs = list(combinations(scores, 2))
    assert [(one["one"], one["other"]) for one in finding.detail["pairs"]] == pairs
    taus = {}
    for found in finding.detail["pairs"]:
        both = list(zip(scores[found["one"]], scores[found["other"]], strict=True))
        every = [scipy.stats.kendalltau(*pair) for pair in both]
        taus[found["one"], found["other"]] = np.array([one.statistic for one in every])
        own = taus[found["one"], found["other"]]
        assert found["mean"] == pytest.approx(own.mean())
        assert found["std"] == pytest.approx(own.std())
        assert found["n"] == len(TEXTS) and found["constant"] == 0
        assert found["significant"] == pytest.approx(np.mean([one.pvalue <= 0.05 for one in every]))
        for name, by in (("pearson", scipy.stats.pearsonr), ("spearman", scipy.stats.spearmanr)):
            wanted = np.mean([by(*pair).statistic for pair in both])
            assert found[name]["mean"] == pytest.approx(wanted)
        assert sum(one["n"] for one in found["by_class"]) == len(TEXTS)
        # The classes together are all: their means, weighed by how many they are.
        total = sum(one["n"] * one["mean"] for one in found["by_class"])
        assert total / len(TEXTS) == pytest.approx(found["mean"])
    mine = np.mean([taus["attention", name] for name in list(scores)[1:]], axis=0)
    among = np.mean([taus[pair] for pair in combinations(list(scores)[1:], 2)], axis=0)
    np.testing.assert_allclose(finding.values, mine - among, **ROUNDED)
    assert finding.chance == pytest.approx(-among.mean())


def test_correlation_of_each_head_equals_mean_kendall_tau_of_scipy():
    subject = subject_of(reviews(), TEXTS[:3], None)
    finding = correlation(subject, steps=2)
    grads, maps = importance.gradient(subject), subject.attention_by_head()
    found = finding.detail["heads"]["gradient"]
    layers, heads, _ = maps[0].shape
    best = (-2.0, None)
    for layer in range(layers):
        for head in range(heads):
            wanted = np.mean(
                [
                    scipy.stats.kendalltau(weights[layer, head], grad).statistic
                    for weights, grad in zip(maps, grads, strict=True)
                ]
            )
            assert found["tau"][layer][head] == pytest.approx(wanted)
            best = max(best, (wanted, (layer, head)))
    assert (found["best"]["layer"], found["best"]["head"]) == best[1]
    assert found["worst"]["tau"] == pytest.approx(min(map(min, found["tau"])))


def test_correlation_counts_and_names_examples_with_constant_scores():
    """A text of one word said four times: leave-one-out finds them all alike in a model that knows no order."""
    texts = ["dull dull dull dull", *TEXTS[:5]]
    finding = correlation(subject_of(attentive("average"), texts, None), steps=4)
    assert np.isnan(finding.values[0]) and np.isfinite(finding.values[1:]).all()
    (note,) = finding.notes
    assert note.startswith("1 of 6 examples do not count") and "leave-one-out in 1" in note
    pairs = {(one["one"], one["other"]): one for one in finding.detail["pairs"]}
    assert pairs["attention", "leave_one_out"]["constant"] == 1
    assert pairs["attention", "leave_one_out"]["n"] == 5
    json.dumps([finding.detail, list(finding.plots)], allow_nan=False)


def test_correlation_of_constant_scores_only_gives_no_chance_and_valid_json():
    finding = correlation(subject_of(attentive("average"), ["dull dull"] * 2, None), steps=2)
    assert np.isnan(finding.values).all() and finding.chance is None
    json.dumps([finding.detail, list(finding.plots)], allow_nan=False)


def test_explain_no_reference_gives_a_reason_only_if_measures_hardly_agree():
    said = correlation_module._explain_no_reference({"mean": 0.1, "interval": [0.05, 0.15]})
    assert said is not None and "0.10" in said
    assert (
        correlation_module._explain_no_reference({"mean": 0.15, "interval": [0.05, 0.25]}) is None
    )
    assert correlation_module._explain_no_reference({"mean": None, "interval": None}) is None
    assert correlation_module._explain_no_reference({"mean": 0.1, "interval": None}) is not None


# Permutation


def test_permutation_equals_a_loop_that_decodes_each_permutation():
    """By hand: the same permutations, one after the other, decoded by hand."""
    subject = subject_of(attentive())
    finding = permutation(subject, permutations=9)
    drawn = {}
    for replayed in subject.build_replays():
        for row, number in enumerate(replayed.numbers):
            drawn[number] = draw_permutations(subject, replayed, 9)[row].numpy()
    for number, weights in enumerate(subject.attention()):
        places = subject.content[number]
        where = {place: at for at, place in enumerate(places.tolist())}
        moved = []
        for order in drawn[number]:
            dealt = weights[[where[source] for source in order[places].tolist()]]
            moved.append(
                abs(predict_with_weights(subject, number, dealt) - subject.probabilities[number, 1])
            )
        assert finding.values[number] == pytest.approx(np.median(moved), abs=1e-12)


@pytest.mark.parametrize("site", ["last", "1", "all", "2.1"])
def test_permutation_equals_a_loop_that_runs_the_whole_transformer(site):
    """The whole Transformer run anew with a plain attention function, for each permutation of each text."""
    subject = subject_of(reviews(), TEXTS[:3], None, site=site)
    finding = permutation(subject, permutations=4)
    here = subject.sites[0]
    for number in range(3):
        batch = subject.build_batch([subject.items[number]])
        replay = AttentionReplay(reviews().model, batch, list(here.layers), "single_label")
        places = subject.content[number]
        key = ("permutation", subject.seed, subject.items[number].ids)
        draw, moved = build_generator(*key), []
        for _ in range(4):
            order = draw.permutation(len(places))
            weights = {}
            for layer in here.layers:
                weights[layer] = replay.own[layer].clone()
                heads = slice(None) if here.head is None else slice(here.head, here.head + 1)
                own = replay.own[layer][:, heads]
                weights[layer][:, heads, :, places] = own[..., places[order]]
            logits = by_hand(reviews().model, batch, replay.rows, weights)
            now = logits.softmax(-1)[0].numpy()
            moved.append(np.abs(now - subject.probabilities[number]).sum() / 2)
        assert finding.values[number] == pytest.approx(np.median(moved), abs=1e-12)


def test_permutation_of_equal_words_changes_no_prediction():
    subject = subject_of(attentive("average"), ["dull dull dull dull"], None)
    assert permutation(subject, permutations=5).values[0] == pytest.approx(0, abs=1e-15)


def test_build_violin_bins_examples_by_largest_weight_and_class():
    subject = subject_of(reviews())
    values = np.array([0.1, 0.2, 0.3, np.nan, 0.5, 0.6])
    subject.largest_weights = np.array([0.0, 0.2499, 0.25, 0.3, 0.75, 1.0])
    plot = build_violin(subject, "title", "y", values)
    counted = {
        series["name"]: [group["n"] for group in series["groups"]] for series in plot["series"]
    }
    labels = np.array(subject.loaded.labels)[subject.predictions]
    bins = [0, 0, 1, None, 3, 3]  # the edge belongs to the upper bin, 1 to the last
    for name, counts in counted.items():
        wanted = [
            sum(at == n and of == name for at, of in zip(bins, labels, strict=True))
            for n in range(4)
        ]
        assert counts == wanted
    assert plot["series"][0]["groups"][0]["name"] == "0 to 0.25"


# Replacement


def test_replacement_equals_a_loop_over_draws_scored_by_sklearn():
    subject = subject_of(attentive())
    finding = replacement(subject, draws=4)
    changed, labels = [], {"random": [], "uniform": [], "last_token": []}
    for number in range(len(TEXTS)):
        alone = subject_of(attentive(), TEXTS[number : number + 1], None)
        (replayed,) = alone.build_replays()
        n = len(subject.content[number])
        parts = draw_random_weights(alone, replayed, 4)[0, :, 0, 0][:, replayed.movable[0]].numpy()
        now = [predict_with_weights(subject, number, one) > 0.5 for one in parts]
        changed.append(np.mean(np.array(now) != subject.predictions[number]))
        labels["random"].append(now)
        labels["uniform"].append([predict_with_weights(subject, number, np.full(n, 1 / n)) > 0.5])
        labels["last_token"].append([predict_with_weights(subject, number, np.eye(n)[-1]) > 0.5])
    np.testing.assert_allclose(finding.values, changed)
    assert 0 < np.mean(changed) < 1  # or this shows nothing
    own = sklearn.metrics.accuracy_score(TRUTH, subject.predictions)
    assert finding.detail["own"]["accuracy"]["mean"] == pytest.approx(own)
    for kind, now in labels.items():
        columns = np.array(now, dtype=int).T
        accuracy = np.mean([sklearn.metrics.accuracy_score(TRUTH, one) for one in columns])
        macro = np.mean([sklearn.metrics.f1_score(TRUTH, one, average="macro") for one in columns])
        found = finding.detail[kind]
        assert found["accuracy"]["mean"] == pytest.approx(accuracy)
        assert found["f1_macro"]["mean"] == pytest.approx(macro)
        assert found["falls"]["accuracy"]["mean"] == pytest.approx(own - accuracy)
        of_own = sklearn.metrics.f1_score(TRUTH, subject.predictions, average="macro")
        assert found["falls"]["f1_macro"]["mean"] == pytest.approx(of_own - macro)


# Diversity


def test_diversity_equals_mean_jsd_over_pairs_of_distinct_feasible_distributions():
    subject = subject_of(attentive())
    finding = diversity(subject, epsilon=0.1, permutations=4, **FEW)
    (found,) = find_adversaries(subject, SearchOptions(2, 15), subject.sites[:1])
    drawn = {}
    for replayed in subject.build_replays():
        for row, number in enumerate(replayed.numbers):
            drawn[number] = draw_permutations(subject, replayed, 4)[row].numpy()
    counts = []
    for number, weights in enumerate(subject.attention()):
        places, base = subject.content[number], subject.probabilities[number, 1]
        where = {place: at for at, place in enumerate(places.tolist())}
        every = [weights]
        tried = [one[0, 0] for one in found[number].first_site_distributions.candidates]
        tried += [weights[[where[p] for p in order[places].tolist()]] for order in drawn[number]]
        for one in tried:
            is_new = not any(np.allclose(one, other, rtol=0, atol=1e-6) for other in every)
            if is_new and abs(predict_with_weights(subject, number, one) - base) <= 0.1:
                every.append(one)
        pairs = [scipy.spatial.distance.jensenshannon(a, b) ** 2 for a, b in combinations(every, 2)]
        counts.append(len(every))
        # 1e-10 under each logarithm.
        assert finding.values[number] == pytest.approx(np.mean(pairs) if pairs else 0, abs=1e-8)
    assert finding.detail["distributions"]["mean"] == pytest.approx(np.mean(counts))
    entropies = [scipy.stats.entropy(one) for one in subject.attention()]
    assert finding.detail["entropy"]["mean"] == pytest.approx(np.mean(entropies), abs=1e-8)
    shares = [one / np.log(len(w)) for one, w in zip(entropies, subject.attention(), strict=True)]
    assert finding.detail["entropy_of_the_most"]["mean"] == pytest.approx(np.mean(shares), abs=1e-8)


def test_diversity_counts_equal_distributions_only_once():
    """Equal weights: all permutations are the original, and only the candidates are others."""
    subject = subject_of(attentive("average"), ["dull dull dull dull"], None)
    finding = diversity(subject, permutations=6, candidates=3, steps=5)
    assert finding.detail["distributions"]["mean"] == 4


def test_diversity_is_zero_if_only_the_original_is_feasible():
    # Without the text of two words, which has a permutation that changes nothing.
    subject = subject_of(attentive(), TEXTS[:5], None)
    finding = diversity(subject, epsilon=0.0, permutations=2, **FEW)
    assert finding.values.tolist() == [0] * 5
    assert finding.detail["only_the_original"] == 1


def test_audit_adversarial_on_two_word_texts_is_undecided_as_too_short():
    """Of two words with 1/2 each, the farthest attention is all on one: JSD = ln 2 - 0.75 ln 3 + 0.5 ln 2 = 0.216."""
    explainer = whence.load("reviews")
    texts = ["a film", "good fun", "dull plot", "thin plot", "great cast", "poor cast"]
    found = whence.audit(
        explainer, texts, experiments="adversarial", params={"steps": 5, "candidates": 2}
    ).experiment("adversarial")
    assert found["detail"]["reach"]["mean"] < 0.4
    assert found["verdict"] == "undecided"
    assert "too short" in found["why"]
