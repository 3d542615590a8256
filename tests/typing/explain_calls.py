"""Calls of `explain` with the types that they have; mypy checks them, and nothing runs them."""

from typing import assert_type

from whence import Explainer, Explanation
from whence.explain.explanations import Explanations, ScoreArrays


def explain_in_every_way(
    explainer: Explainer, texts: list[str], pairs: list[tuple[str, str]]
) -> None:
    """Explain one input and several, by one method and several, as objects and as bare numbers."""
    pair = ("a film", "a mess")
    # One text, or pair, by one method.
    assert_type(explainer.explain("a film"), Explanation)
    assert_type(explainer.explain("a film", method="attcat"), Explanation)
    assert_type(explainer.explain(pair, method="attcat", target="positive"), Explanation)
    # Several of either.
    assert_type(explainer.explain(texts), Explanations)
    assert_type(explainer.explain(pairs, method="attcat", batch_size=8), Explanations)
    assert_type(explainer.explain("a film", method=["attcat", "rollout"]), Explanations)
    assert_type(explainer.explain(pair, method=("attcat",)), Explanations)
    assert_type(explainer.explain(texts, method=["attcat"]), Explanations)
    # An encoded mapping may have one row or several.
    assert_type(explainer.explain({"input_ids": [1, 2]}), Explanation | Explanations)
    # Bare numbers.
    assert_type(explainer.explain(texts, method="attcat", as_arrays=True), ScoreArrays)
    assert_type(explainer.explain("a film", as_arrays=True), ScoreArrays)
