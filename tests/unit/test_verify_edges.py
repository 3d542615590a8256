"""Verification of flow edges by cutting: figures equal single cuts; random sets, warnings and sentences."""

from contextlib import contextmanager

import numpy as np
import pytest

import whence
from tests import zoo
from tests.unit.test_ablation import by_hand
from whence.explain import ablation
from whence.explain.ablation import (
    TargetValue,
    _build_cuts,
    _describe_both_tests,
    _draw_random_sets,
    _format_change,
)
from whence.tracing.alter import cut_edges

TEXT = "a gripping and beautifully acted film"
DRAWS = 7


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


def list_strongest_edges(inside, most=20):
    edges = inside.flow(most=most)["edges"]
    return list(zip(edges["layer"], edges["head"], edges["source"], edges["to"], strict=True))


def softmax(logits):
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


@pytest.mark.parametrize("target", ["negative", ("positive", "negative")])
def test_verify_figures_equal_those_of_one_cut_at_a_time(reviews, target):
    inside = reviews.inside(TEXT, target=target)
    edges = list_strongest_edges(inside)
    found = inside.verify(edges, draws=DRAWS, seed=5)
    sets = [np.array(sorted(edges)), *_draw_random_sets(inside, np.array(sorted(edges)), DRAWS, 5)]
    index = [reviews.labels.index(one) for one in ([target] if target == "negative" else target)]

    def values(cuts, renormalise):
        logits = by_hand(reviews.model, inside.copies(1), cuts, renormalise)[0].numpy()
        both = [output[index[0]] - sum(output[index[1:]]) for output in (softmax(logits), logits)]
        return np.array(both)

    before = values({}, False)
    assert found["before"] == pytest.approx(before[0], abs=1e-12)
    for test in found["tests"]:
        moved = np.array(
            [values(_build_cuts(inside, [one], ()), test["renormalised"]) - before for one in sets]
        )
        # float64 throughout: the two ways differ by rounding alone.
        assert test["change"] == pytest.approx(moved[0, 0], abs=1e-12)
        assert test["logit_change"] == pytest.approx(moved[0, 1], abs=1e-11)
        assert test["random"] == pytest.approx(moved[1:, 0], abs=1e-12)
        assert test["random_mean"] == pytest.approx(moved[1:, 0].mean(), abs=1e-12)
        assert test["random_logit_change"] == pytest.approx(moved[1:, 1].mean(), abs=1e-11)
        assert test["probability"] == pytest.approx(before[0] + moved[0, 0], abs=1e-12)
        assert test["beaten"] == sum(abs(one) < abs(moved[0, 0]) for one in moved[1:, 0])
        # Of 7 in order, 2.5% lies at place 0.025 x 6 = 0.15, and 97.5% at 5.85.
        order = np.sort(moved[1:, 0])
        low, high = order[0] + 0.15 * (order[1] - order[0]), order[5] + 0.85 * (order[6] - order[5])
        assert (test["random_low"], test["random_high"]) == pytest.approx((low, high), abs=1e-12)
        masses = [sum(inside.attention()[tuple(edge)] for edge in one) for one in sets]
        assert test["mass"] == pytest.approx(masses[0], rel=1e-9)
        assert test["random_mass"] == pytest.approx(np.mean(masses[1:]), rel=1e-9)


def test_describe_test_counts_random_changes_beaten_by_absolute_size():
    """Own change -0.3; random ones of 0.1, -0.2 and 0.4: it is larger than the first two."""
    values = [
        TargetValue(0.2, -1.0),
        TargetValue(0.6, 0.0),
        TargetValue(0.3, 0.0),
        TargetValue(0.9, 0.0),
    ]
    told = ablation._describe_test(
        TargetValue(0.5, 0.0), values, [1.0, 1, 1, 1], True, "x", "single_label"
    )
    assert (told["beaten"], told["of"]) == (2, 3)


def test_verify_with_another_seed_draws_other_random_sets(reviews):
    inside = reviews.inside(TEXT)
    one, same, other = (
        inside.verify(list_strongest_edges(inside), draws=5, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same
    assert one["tests"][0]["change"] == other["tests"][0]["change"]
    assert not set(one["tests"][0]["random"]) & set(other["tests"][0]["random"])


def test_random_sets_of_a_causal_model_have_distinct_edges_within_the_mask():
    inside = whence.load(zoo.make("gpt2")).inside({"input_ids": [[2, 11, 23, 5, 7, 3]]})
    rows, columns = np.tril_indices(6)  # what a causal model can attend to
    all_but_one = np.column_stack([np.zeros(20, int), np.zeros(20, int), rows[:20], columns[:20]])
    for drawn in _draw_random_sets(inside, all_but_one, 10, 0):
        assert len({tuple(edge) for edge in drawn.tolist()}) == 20
        assert (drawn[:, 3] <= drawn[:, 2]).all()


def test_random_sets_larger_than_the_read_rows_draw_all_their_edges(reviews):
    inside = reviews.inside(TEXT)
    n, last = len(inside.tokens), inside.layers - 1
    every = np.array([(last, h, i, j) for h in range(4) for i in range(n) for j in range(n)])
    (drawn,) = _draw_random_sets(inside, every, 1, 0)
    assert len({tuple(edge) for edge in drawn.tolist()}) == len(drawn) == 4 * n  # one row is read


def test_verify_warns_of_edges_with_more_attention_than_random_ones(reviews):
    inside = reviews.inside(TEXT)

    def codes(edges):
        return [one["code"] for one in inside.verify(edges, draws=5)["warnings"]]

    assert codes(list_strongest_edges(inside, 5)) == ["heavier-than-random"]
    heads, rows = inside.attention().shape[1:3]
    weakest = min(
        ((0, h, i, j) for h in range(heads) for i in range(rows) for j in range(rows)),
        key=lambda edge: inside.attention()[edge],
    )
    assert codes([weakest]) == []


def test_verify_and_ablation_write_out_the_same_layers_with_and_without_cuts(reviews, monkeypatch):
    """A layer that is cut computes with its weights written out: what is not cut must, too, to compare the two."""
    layers = []

    @contextmanager
    def watched(*given, **options):
        with cut_edges(*given, **options) as run:

            def running(batch, cuts):
                layers.append(sorted(cuts))
                return run(batch, cuts)

            yield running

    monkeypatch.setattr(ablation, "cut_edges", watched)
    inside = reviews.inside(TEXT)
    inside.verify([(1, 0, 0, 1), (3, -1, 0, 2)], draws=5)
    assert len(layers) >= 3
    assert all(one == [1, 3] for one in layers)
    layers.clear()
    inside.head_values("ablation")
    assert layers[0] == [0, 1, 2, 3]


def moved(change, logit, beaten=0):
    return {"change": change, "logit_change": logit, "beaten": beaten, "of": 30}


@pytest.mark.parametrize(
    ("one", "other", "task", "hardly"),
    [
        (moved(0.001, 0.01), moved(-0.002, -0.02), "single_label", True),
        (
            moved(0.001, 0.01),
            moved(0.095, 0.4),
            "single_label",
            False,
        ),  # cut in one way, not the other
        (moved(0.095, 0.4), moved(0.001, 0.01), "single_label", False),
        (
            moved(-0.0068, -1.1),
            moved(0.0, 0.0),
            "single_label",
            False,
        ),  # near 1: its logit moves
        (moved(0.001, 0.01), moved(-0.002, -0.02), "multi_label", True),
        (moved(0.001, 0.001), moved(0.0, 0.0), "regression", False),  # in whose unit?
    ],
)
def test_describe_both_tests_says_hardly_only_if_neither_cut_moves_a_classification(
    one, other, task, hardly
):
    said = _describe_both_tests(TargetValue(0.9, 2.0), [one, other], "positive", task)
    assert said.endswith("The decision hardly depends on them.") is hardly


def test_describe_both_tests_names_the_changes_of_both_cuts():
    said = _describe_both_tests(
        TargetValue(0.9, 2.0),
        [moved(-0.1, -0.5, 27), moved(-0.25, -1, 30)],
        "positive",
        "single_label",
    )
    assert said == (
        "Without these edges, positive moves from 0.9 by \u22120.1 (more than 27 of 30 random sets) where the rest "
        "of each row makes up for it and by \u22120.25 (more than 30 of 30 random sets) where nothing does."
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (-0.0068, "\u22120.0068"),
        (0.000006, "+0.000006"),
        (-3e-9, "0"),
        (0.0, "0"),
        (1234567.0, "+1200000"),
    ],
)
def test_format_change_writes_changes_without_exponents(value, written):
    assert _format_change(value) == written


def test_verify_of_a_regression_mentions_no_logit_and_no_hardly():
    model = zoo.make("bert")
    model.config.problem_type = "regression"
    inside = whence.load(model).inside({"input_ids": [[2, 11, 23, 5, 7, 3]]})
    found = inside.verify([(0, 0, 0, 1)], draws=5)
    for test in found["tests"]:
        assert test["change"] == test["logit_change"]
        assert "logit" not in test["sentence"]
    assert "hardly" not in found["sentence"]
