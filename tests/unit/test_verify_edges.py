"""The figures of a verified path: recomputed one cut at a time, and said as they are."""

from contextlib import contextmanager

import numpy as np
import pytest

import whence
from tests import zoo
from tests.unit.test_knockout import by_hand
from whence.capture.changed.knockout import cut_logits
from whence.explainer.inside import knocked
from whence.explainer.inside.knocked import Value, _both_ways, _cuts, _random_sets, _signed

TEXT = "a gripping and beautifully acted film"
DRAWS = 7


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


def strongest(inside, most=20):
    edges = inside.flow(most=most)["edges"]
    return list(zip(edges["layer"], edges["head"], edges["source"], edges["to"], strict=True))


def softmaxed(logits):
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


@pytest.mark.parametrize("target", ["negative", ("positive", "negative")])
def test_figures_are_those_of_one_cut_after_another(reviews, target):
    inside = reviews.inside(TEXT, target=target)
    edges = strongest(inside)
    found = inside.verify(edges, draws=DRAWS, seed=5)
    sets = [np.array(sorted(edges)), *_random_sets(inside, np.array(sorted(edges)), DRAWS, 5)]
    index = [reviews.labels.index(one) for one in ([target] if target == "negative" else target)]

    def values(cuts, renormalise):
        logits = by_hand(reviews.model, inside.copies(1), cuts, renormalise)[0].numpy()
        both = [output[index[0]] - sum(output[index[1:]]) for output in (softmaxed(logits), logits)]
        return np.array(both)

    before = values({}, False)
    assert found["before"] == pytest.approx(before[0], abs=1e-12)
    for test in found["tests"]:
        moved = np.array(
            [values(_cuts(inside, [one], ()), test["renormalised"]) - before for one in sets]
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


def test_a_change_beats_by_its_size_whatever_its_sign():
    """Own change -0.3; random ones of 0.1, -0.2 and 0.4: it is larger than the first two."""
    values = [Value(0.2, -1.0), Value(0.6, 0.0), Value(0.3, 0.0), Value(0.9, 0.0)]
    told = knocked._told(Value(0.5, 0.0), values, [1.0, 1, 1, 1], True, "x", "single_label")
    assert (told["beaten"], told["of"]) == (2, 3)


def test_another_seed_draws_other_edges(reviews):
    inside = reviews.inside(TEXT)
    one, same, other = (inside.verify(strongest(inside), draws=5, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one["tests"][0]["change"] == other["tests"][0]["change"]
    assert not set(one["tests"][0]["random"]) & set(other["tests"][0]["random"])


def test_random_sets_hold_no_edge_twice_and_none_without_weight():
    inside = whence.load(zoo.make("gpt2")).inside({"input_ids": [[2, 11, 23, 5, 7, 3]]})
    rows, columns = np.tril_indices(6)  # what a causal model can attend to
    all_but_one = np.column_stack([np.zeros(20, int), np.zeros(20, int), rows[:20], columns[:20]])
    for drawn in _random_sets(inside, all_but_one, 10, 0):
        assert len({tuple(edge) for edge in drawn.tolist()}) == 20
        assert (drawn[:, 3] <= drawn[:, 2]).all()


def test_where_fewer_edges_lead_on_than_were_cut_all_of_them_are_drawn(reviews):
    inside = reviews.inside(TEXT)
    n, last = len(inside.tokens), inside.layers - 1
    every = np.array([(last, h, i, j) for h in range(4) for i in range(n) for j in range(n)])
    (drawn,) = _random_sets(inside, every, 1, 0)
    assert len({tuple(edge) for edge in drawn.tolist()}) == len(drawn) == 4 * n  # one row is read


def test_edges_that_hold_more_than_random_ones_are_said_to(reviews):
    inside = reviews.inside(TEXT)

    def codes(edges):
        return [one["code"] for one in inside.verify(edges, draws=5)["warnings"]]

    assert codes(strongest(inside, 5)) == ["heavier-than-random"]
    heads, rows = inside.attention().shape[1:3]
    weakest = min(
        ((0, h, i, j) for h in range(heads) for i in range(rows) for j in range(rows)),
        key=lambda edge: inside.attention()[edge],
    )
    assert codes([weakest]) == []


def test_before_and_after_attention_is_computed_in_one_way(reviews, monkeypatch):
    """A layer that is cut computes with its weights written out: what is not cut must, too, to compare the two."""
    layers = []

    @contextmanager
    def watched(*given, **options):
        with cut_logits(*given, **options) as run:

            def running(batch, cuts):
                layers.append(sorted(cuts))
                return run(batch, cuts)

            yield running

    monkeypatch.setattr(knocked, "cut_logits", watched)
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
def test_hardly_is_said_where_neither_cut_moves_anything(one, other, task, hardly):
    said = _both_ways(Value(0.9, 2.0), [one, other], "positive", task)
    assert said.endswith("The decision hardly depends on them.") is hardly


def test_the_headline_names_both_ways_of_cutting():
    said = _both_ways(
        Value(0.9, 2.0), [moved(-0.1, -0.5, 27), moved(-0.25, -1, 30)], "positive", "single_label"
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
def test_changes_are_written_without_exponents(value, written):
    assert _signed(value) == written


def test_a_regression_has_no_logit_to_speak_of():
    model = zoo.make("bert")
    model.config.problem_type = "regression"
    inside = whence.load(model).inside({"input_ids": [[2, 11, 23, 5, 7, 3]]})
    found = inside.verify([(0, 0, 0, 1)], draws=5)
    for test in found["tests"]:
        assert test["change"] == test["logit_change"]
        assert "logit" not in test["sentence"]
    assert "hardly" not in found["sentence"]
