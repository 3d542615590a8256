"""Comparison of a model with itself, with a headless base, and over samples, pairs, labels and batches."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from tests.unit.comparison.conftest import (
    TEXTS,
    compute_edge_flows_by_loops,
    load_sign_flipped_model,
    measure_heads_by_loops,
    select_counted_edges,
)
from tests.unit.small_tokenizers import wordpiece
from whence.app.schema import Comparison as Schema
from whence.app.schema import InputComparison
from whence.core.errors import EmptyText, NoHead
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.flow.graph import EdgeQuery
from whence.studies.compare.compare import compare, compare_on_input
from whence.studies.compare.pair_measures import describe_incomparability

# A model and itself


def test_compare_of_a_model_with_itself_finds_no_difference(tuned):
    found = compare(tuned, tuned, TEXTS).to_dict()
    Schema.model_validate(found)
    nothing = {"mean": 0, "low": 0, "high": 0, "n": len(TEXTS)}
    everything = {"mean": 1, "low": 1, "high": 1, "n": len(TEXTS)}
    for one in found["heads"]:
        assert one["divergence"] == one["decision"] == nothing
        assert one["special"]["change"] == one["entropy"]["change"] == nothing
    for one in found["layers"]:
        assert (one["divergence"], one["overlap"]) == (nothing, everything)
        assert one["chance"]["mean"] < 1
        assert one["strangers"]["mean"] > 0
    assert found["overlap"]["jaccard"] == everything
    assert found["overlap"]["only_a"] == found["overlap"]["only_b"] == nothing
    assert found["attribution"]["tau"] == everything
    assert (found["attribution"]["top"]["mean"], found["attribution"]["k"]) == (1, 5)
    assert found["attribution"]["chance"]["mean"] < 1
    assert found["predictions"]["agreement"] == everything
    assert found["changed"]["special"]["more"] == found["changed"]["special"]["less"] == []
    assert "attend alike to the last bit" in found["sentence"]


def test_compare_on_input_of_a_model_with_itself_finds_no_difference(tuned):
    inside = tuned.inside(TEXTS[0])
    found = compare_on_input(inside, tuned.inside(TEXTS[0]))
    InputComparison.model_validate(found)
    assert np.all(np.array(found["divergence"]) == 0)
    assert np.all(np.array(found["decision"]) == 0)
    assert found["changed"] == []
    assert found["difference"] == {name: [] for name in ("layer", "head", "source", "to", "a", "b")}
    assert found["flows"][0]["edges"] == found["flows"][1]["edges"]


def test_compare_on_input_of_two_models_equals_plain_loops(base, tuned):
    text = TEXTS[1]
    why = tuned.explain(text)
    a, b = base.inside(text), tuned.inside(text)
    found = compare_on_input(a, b, explanations=(None, why))
    InputComparison.model_validate(found)
    assert found["predictions"][0] is None
    assert found["predictions"][1]["label"] == why.prediction.label
    assert found["explanations"][0] is None
    assert found["explanations"][1]["scores"] == why.scores.tolist()
    divergence, decision, _, _ = measure_heads_by_loops(
        a.attention(), b.attention(), b.special, b.rows
    )
    assert np.array(found["divergence"]) == pytest.approx(divergence, abs=1e-9)
    assert np.array(found["decision"]) == pytest.approx(decision, abs=1e-9)
    assert found["layers"] == pytest.approx(divergence.mean(1))
    first = found["changed"][0]
    assert first["divergence"] == pytest.approx(divergence.max())
    one, other = (
        compute_edge_flows_by_loops(a.attention(), b.rows),
        compute_edge_flows_by_loops(b.attention(), b.rows),
    )
    own = found["difference"]
    keys = list(zip(own["layer"], own["head"], own["source"], own["to"], strict=True))
    assert own["a"] == pytest.approx([one[key] for key in keys])
    assert own["b"] == pytest.approx([other[key] for key in keys])
    apart = [abs(x - y) for x, y in zip(own["a"], own["b"], strict=True)]
    assert apart == sorted(apart, reverse=True)
    assert {warned["code"] for warned in found["warnings"]} == {"no-head"}


def test_compare_on_input_with_different_read_rows_weighs_by_their_mean():
    # The first reads all rows alike, the second the first one: the divergence of the decision's rows is by both.
    a, b = (pooled(kind, seed).inside(TEXTS[0]) for kind, seed in (("mean", 0), ("cls", 1)))
    assert a.rows.tolist() != b.rows.tolist()
    found = compare_on_input(a, b)
    rows = (a.rows + b.rows) / 2
    _, decision, _, _ = measure_heads_by_loops(a.attention(), b.attention(), b.special, rows)
    assert np.array(found["decision"]) == pytest.approx(decision, abs=1e-9)


def pooled(kind, seed):
    model = zoo.make("modernbert", seed=seed)
    model.config.classifier_pooling = kind
    model.resize_token_embeddings(400)
    return whence.load(model, tokenizer=wordpiece())


@pytest.mark.parametrize("specials", [False, True])
def test_compare_on_input_counts_the_possible_edges_of_each_layer(base, tuned, specials):
    a, b = base.inside(TEXTS[1]), tuned.inside(TEXTS[1])
    found = compare_on_input(a, b, query=EdgeQuery(specials=specials))
    carried = [select_counted_edges(side, b.rows, specials) for side in (a, b)]
    wanted = [
        sum(edge[0] == layer and any(side[edge] > 0 for side in carried) for edge in carried[0])
        for layer in range(a.layers)
    ]
    assert found["possible"] == wanted
    assert wanted[-1] < wanted[0]  # of the last layer only the row that is read


# A pre-trained model without a head


def test_compare_with_a_headless_base_gives_reasons_for_missing_figures(found):
    payload = found.to_dict()
    Schema.model_validate(payload)
    assert payload["attribution"] is None
    assert payload["without_attribution"].startswith("'reviews-base' has no classification head")
    assert payload["predictions"]["agreement"] is None
    assert payload["predictions"]["without_agreement"] == (
        "The first model has no classification head, and predicts nothing."
    )
    assert payload["predictions"]["accuracy"] is None
    assert "no labels" in payload["predictions"]["without_accuracy"]
    assert "the decision of reviews reads" in payload["setting"]["decision"]
    assert payload["calls"]["forward"] >= 2 * len(TEXTS)


def test_compare_with_labels_reports_accuracy_over_the_labelled_examples(base, tuned):
    labels = ["1", "0", "1", "0", "1", None]
    given = [Example(text, label) for text, label in zip(TEXTS, labels, strict=True)]
    right = [
        tuned.predict(text).index == int(own) for text, own in zip(TEXTS, labels[:5], strict=False)
    ]
    found = compare(base, tuned, given, method=None).to_dict()["predictions"]["accuracy"]
    assert (found["a"], found["change"]) == (None, None)
    assert (found["b"]["mean"], found["b"]["n"]) == (np.mean(right), 5)
    both = compare(tuned, tuned, given, method=None).to_dict()
    assert both["predictions"]["accuracy"]["change"]["mean"] == 0
    assert both["attribution"] is None
    assert both["without_attribution"] == "no method was asked for."


def test_compare_accuracy_change_is_second_model_minus_first(tuned):
    wrong = load_sign_flipped_model()
    given = [Example(text, tuned.predict(text).label) for text in TEXTS]
    found = compare(wrong, tuned, given, method=None).to_dict()["predictions"]["accuracy"]
    assert [found[side]["mean"] for side in ("a", "b", "change")] == [0, 1, 1]


def test_describe_incomparability_names_missing_heads_other_labels_and_other_tasks(base, tuned):
    assert describe_incomparability(tuned, tuned) is None
    assert "no classification head" in describe_incomparability(tuned, base)
    assert "have no classification head" in describe_incomparability(base, base)
    other = Explainer(replace(tuned.loaded, labels=("bad", "good")))
    assert "different labels (negative, positive; bad, good)" in describe_incomparability(
        tuned, other
    )
    scorer = Explainer(replace(tuned.loaded, task="multi_label"))
    assert "different tasks" in describe_incomparability(tuned, scorer)


def test_compare_explains_both_models_for_the_class_that_the_second_predicts(tuned):
    found = compare(tuned, load_sign_flipped_model(), TEXTS, method="grad_x_input").to_dict()
    assert found["predictions"]["agreement"]["mean"] == 0
    assert all(one["divergence"]["mean"] == 0 for one in found["heads"])
    # Both are explained for what the second one predicts: the scores have opposite signs, so the order is reversed.
    assert found["attribution"]["tau"]["mean"] == pytest.approx(-1)
    assert found["attribution"]["top"]["mean"] == pytest.approx(1)


# Data


def test_compare_in_any_order_gives_equal_figures(base, tuned, found):
    again = compare(base, tuned, TEXTS[::-1]).to_dict()
    for what in ("heads", "layers", "specials", "overlap"):
        for one, two in zip(numbers(found.to_dict()[what]), numbers(again[what]), strict=True):
            assert one == pytest.approx(two, abs=1e-9)  # float64, sums in another order
    assert again["changed"]["heads"][0]["head"] == found.to_dict()["changed"]["heads"][0]["head"]


def test_compare_of_a_padding_sensitive_model_equals_inputs_one_by_one():
    minding = whence.load("reviews", dtype="float64")
    minding.model.register_forward_pre_hook(
        lambda module, given, named: (given, {**named, "attention_mask": None}), with_kwargs=True
    )
    found = compare(minding, minding, TEXTS, method=None).to_dict()
    each = [minding.inside(text) for text in TEXTS]
    mass = np.mean([one.head_values("special") for one in each], axis=0)
    for one in found["heads"]:
        wanted = pytest.approx(mass[one["layer"], one["head"]], abs=1e-9)
        assert one["special"]["a"]["mean"] == wanted


def numbers(facts):
    if isinstance(facts, dict):
        return [one for value in facts.values() for one in numbers(value)]
    if isinstance(facts, list):
        return [one for value in facts for one in numbers(value)]
    return [] if isinstance(facts, str) or facts is None else [facts]


def test_compare_draws_a_sample_and_counts_empty_and_too_long_texts(base, tuned):
    found = compare(base, tuned, [*TEXTS, "  ", ""], limit=8, seed=3).to_dict()["data"]
    assert (found["given"], found["drawn"], found["used"]) == (8, 8, 6)
    assert found["why_not"] == [{"why": "empty text", "count": 2}]
    few = [compare(base, tuned, TEXTS, limit=2, seed=seed).to_dict()["data"] for seed in range(4)]
    assert {one["used"] for one in few} == {2}
    assert len({one["tokens"] for one in few}) > 1  # other seeds, other draws
    with pytest.raises(EmptyText, match="None of the 2 examples can be used"):
        compare(base, tuned, ["", " "])
    long = " ".join(TEXTS * 200)
    found = compare(base, tuned, [long, *TEXTS[:1]]).to_dict()["data"]
    assert (found["used"], found["cut"]) == (2, 1)
    found = compare(base, tuned, [long, *TEXTS[:1]], truncate=False).to_dict()["data"]
    assert (found["used"], found["why_not"]) == (1, [{"why": "too long", "count": 1}])


def test_compare_of_text_pairs_reports_attention_between_segments(tuned, base):
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    found = compare(base, tuned, pairs).to_dict()
    assert [one["name"] for one in found["segments"]] == ["A>A", "A>B", "B>A", "B>B"]
    inside = tuned.inside(pairs[0])
    mean = inside.attention().mean((0, 1))
    words = [~inside.special & (inside.segments == side) for side in (0, 1)]
    single = compare(base, tuned, pairs[:1]).to_dict()["segments"]
    for one, (i, j) in zip(single, product((0, 1), (0, 1)), strict=True):
        expected = mean[np.ix_(words[i], words[j])].sum(1).mean()
        assert one["figures"]["b"]["mean"] == pytest.approx(expected)


@pytest.mark.parametrize("weight", ["norm", "value_zeroing", "gradient_x_attention", "relevance"])
def test_compare_with_each_edge_weight_works_or_raises_no_head(tuned, base, weight):
    found = compare(tuned, tuned, TEXTS[:2], weight=weight, method=None).to_dict()
    assert found["overlap"]["jaccard"]["mean"] == 1
    if weight in ("norm", "value_zeroing"):
        found = compare(base, tuned, TEXTS[:2], weight=weight).to_dict()
        assert 0 <= found["overlap"]["jaccard"]["mean"] < 1
    else:
        with pytest.raises(NoHead, match="no decision that the weight"):
            compare(base, tuned, TEXTS[:2], weight=weight)


def test_compare_reports_progress_and_leaves_models_unchanged_when_interrupted(base, tuned):
    told = []
    compare(tuned, tuned, TEXTS, progress=lambda *done: told.append(done))
    assert told == sorted(told)
    assert told[-1] == (18, 18)  # attention, and attributions by each model
    before = [snapshot(one.model) for one in (base, tuned)]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(base, tuned, TEXTS, progress=stop)
    for one, state in zip((base, tuned), before, strict=True):
        assert_unchanged(state, snapshot(one.model))
