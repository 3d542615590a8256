"""Explanations payload: agreement between methods, failed methods and the runner-up label."""

import pytest

import whence
from whence.app.schema import Explanations
from whence.explain.page import build_explanations_data, compute_agreement


def build_scores(method, *scores):
    return {"method": method, "word_scores": list(scores)}


def test_compute_agreement_equals_tau_and_top_overlap_computed_by_hand():
    # Of six words the three strongest count. |a| ranks words 0, 1, 2 first; |b| ranks 0, 1, 5 first: two of three.
    # Signed orders: pairs (i, j) of a fall in 15 of 15 cases; b = 9 8 1 2 3 -7 falls in 12 of 15 and rises in
    # (2, 3), (2, 4), (3, 4): tau = (12 - 3) / 15.
    (one,) = compute_agreement(
        [build_scores("a", 6, 5, 4, 3, 2, 1), build_scores("b", 9, 8, 1, 2, 3, -7)]
    )
    assert one == {
        "a": "a", "b": "b", "tau": pytest.approx(9 / 15), "top": pytest.approx(2 / 3), "k": 3, "chance": 0.5
    }  # fmt: skip


def test_compute_agreement_of_constant_scores_has_no_tau_and_overlap_of_chance():
    (one,) = compute_agreement([build_scores("a", 1, 1, 1, 1), build_scores("b", 4, 3, 2, 1)])
    assert one["tau"] is None
    assert one["top"] == one["chance"] == 0.5


def test_compute_agreement_of_one_word_overlaps_fully_and_without_pairs_is_empty():
    (one,) = compute_agreement([build_scores("a", 1), build_scores("b", 2)])
    assert (one["tau"], one["top"], one["k"], one["chance"]) == (None, 1.0, 1, 1.0)
    assert compute_agreement([build_scores("a"), build_scores("b")]) == []
    assert compute_agreement([build_scores("a", 1, 2)]) == []


def test_build_explanations_data_of_three_methods_has_three_pairs_and_fits_the_schema():
    explainer = whence.load("reviews")
    found = explainer.explain("a dull film", method=["attcat", "rollout", "gradient"])
    payload = build_explanations_data(
        list(found.values()),
        {"lime": "Too dear."},
        [{"code": "near-tie", "message": "It is close."}],
    )
    assert Explanations.model_validate(payload)
    assert [(one["a"], one["b"]) for one in payload["agreement"]] == [
        ("attcat", "rollout"), ("attcat", "gradient"), ("rollout", "gradient")
    ]  # fmt: skip
    assert payload["failed"] == [{"method": "lime", "message": "Too dear."}]
    assert payload["runner_up"] == "positive"
    assert found["attcat"].prediction.label == "negative"
