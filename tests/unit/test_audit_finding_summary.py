"""Figures of audit findings: F1, paired intervals, summaries, histograms and quantiles."""

import numpy as np
import pytest
import sklearn.metrics

from tests.audit_subjects import reviews, subject_of
from whence.studies.audit.experiments.replacement import replacement
from whence.studies.audit.finding_summary import build_histogram, compute_quantiles, summarise
from whence.studies.training.performance import compute_f1, count_confusion


def score_f1(rows, labels, label):
    return compute_f1(count_confusion(rows[:, 0], rows[:, 1:], labels), label).mean()


def test_f1_of_several_draws_equals_that_of_scikit_learn():
    draw = np.random.default_rng(0)
    for labels in (2, 3, 5):
        rows = draw.integers(labels, size=(20, 4))
        columns = rows[:, 1:].T
        wanted = [sklearn.metrics.f1_score(rows[:, 0], one, average="macro") for one in columns]
        assert score_f1(rows, labels, None) == pytest.approx(np.mean(wanted))
        if labels == 2:
            wanted = [sklearn.metrics.f1_score(rows[:, 0], one) for one in columns]
            assert score_f1(rows, 2, 1) == pytest.approx(np.mean(wanted))
    # A label that occurs nowhere does not count: of labels 0 and 1, all right.
    assert score_f1(np.array([[0, 0], [1, 1]]), 5, None) == 1


def test_replacement_fall_has_a_paired_interval_of_zero_width_if_nothing_changes():
    """Two models that are wrong in the same places differ by nothing, for sure, though each is uncertain."""
    finding = replacement(subject_of(reviews()), draws=2)
    found = finding.detail["uniform"]
    assert found["changed"]["mean"] == 0
    assert found["falls"]["accuracy"]["interval"] == [0, 0]
    low, high = found["accuracy"]["interval"]
    assert low < high


# Figures


def test_summarise_ignores_nan_and_the_order_of_values():
    found = summarise(np.array([1.0, np.nan, 3.0]), "some")
    assert found == {"mean": 2.0, "interval": None, "std": 1.0, "n": 2}  # too few for an interval
    assert summarise(np.array([np.nan]), "none") == {
        "mean": None, "interval": None, "std": None, "n": 0,
    }  # fmt: skip
    values = np.random.default_rng(0).random(30)
    assert summarise(values, "all") == summarise(values[::-1], "all")  # the order is not the data


def test_build_histogram_counts_values_slightly_beyond_the_edges():
    plot = build_histogram(
        "t", "x", {"a": np.array([-1e-17, 0, 0.35, 0.7 + 1e-9, np.nan])}, low=0, high=0.7, bins=2
    )
    assert plot["series"] == [{"name": "a", "counts": [2, 2], "n": 4}]


def test_compute_quantiles_gives_at_most_101_sorted_values():
    assert compute_quantiles(np.array([])) == []
    assert compute_quantiles(np.array([3.0, 1.0])) == [1.0, 3.0]
    assert compute_quantiles(np.arange(1000.0))[50] == pytest.approx(499.5)
    assert len(compute_quantiles(np.arange(1000.0))) == 101
