"""Explanations side by side: how far they agree, who came second."""

import pytest

import whence
from whence.explainer.kept.told import agreement, told
from whence.web.schema.explain import Explanations


def scored(method, *scores):
    return {"method": method, "word_scores": list(scores)}


def test_agreement_by_hand():
    # Of six words the three strongest count. |a| ranks words 0, 1, 2 first; |b| ranks 0, 1, 5 first: two of three.
    # Signed orders: pairs (i, j) of a fall in 15 of 15 cases; b = 9 8 1 2 3 -7 falls in 12 of 15 and rises in
    # (2, 3), (2, 4), (3, 4): tau = (12 - 3) / 15.
    (one,) = agreement([scored("a", 6, 5, 4, 3, 2, 1), scored("b", 9, 8, 1, 2, 3, -7)])
    assert one == {
        "a": "a", "b": "b", "tau": pytest.approx(9 / 15), "top": pytest.approx(2 / 3), "k": 3, "chance": 0.5
    }  # fmt: skip


def test_what_ranks_nothing_agrees_as_chance_does():
    (one,) = agreement([scored("a", 1, 1, 1, 1), scored("b", 4, 3, 2, 1)])
    assert one["tau"] is None
    assert one["top"] == one["chance"] == 0.5


def test_one_word_and_none():
    (one,) = agreement([scored("a", 1), scored("b", 2)])
    assert (one["tau"], one["top"], one["k"], one["chance"]) == (None, 1.0, 1, 1.0)
    assert agreement([scored("a"), scored("b")]) == []
    assert agreement([scored("a", 1, 2)]) == []


def test_three_methods_make_three_pairs_and_the_shape_is_the_servers():
    explainer = whence.load("reviews")
    found = explainer.explain("a dull film", method=["attcat", "rollout", "gradient"])
    payload = told(
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
