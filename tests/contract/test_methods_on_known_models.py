"""Which method recovers the truth: every method on every model whose answer is known.

The verdicts themselves stand in bench/results/truth.json, which must say what the methods do today; the page
docs/science/truth.md and the methods' cards are made of it.
"""

from dataclasses import replace

import build_docs
import numpy as np
import pytest
from bench.science import truth
from bench.science.truth import MODELS, Case, recovers, right_signs

import whence
from whence.methods import method


@pytest.fixture(scope="module")
def verdicts():
    return truth.judgements()


def test_what_is_kept_is_what_the_methods_do(verdicts):
    kept, today = truth.stored(), truth.to_dict(verdicts)
    assert kept["methods"] == today["methods"], (
        "bench/results/truth.json is out of date: run `python -m bench.science.truth` and `make docs`, and read "
        "what has changed"
    )
    # Sums of fractions: the last digit is the order's.
    assert kept["chance"] == pytest.approx(today["chance"], rel=1e-12)


def test_every_method_is_judged_on_every_model(verdicts):
    assert set(verdicts) == set(method.names())
    for entry in method:
        assert tuple(verdicts[entry.name].models) == MODELS
        for verdict in verdicts[entry.name].models.values():
            assert 0 <= verdict.recovered <= verdict.sentences == 6
            assert 0 <= verdict.right_signs <= verdict.signs
            assert bool(verdict.signs) == entry.facts["signed"]


def test_every_model_fools_somebody_and_nobody_is_fooled_by_all(verdicts):
    """A model that everybody gets right, or everybody wrong, would test nothing."""
    for model in MODELS:
        found = [verdicts[name].models[model] for name in verdicts if name != "random"]
        assert any(one.recovered < one.sentences for one in found)
        assert any(one.recovered == one.sentences for one in found)


def test_what_asks_about_all_selections_of_words_gives_the_others_nothing():
    """Shapley values of words that never change anything are zero; the texts are short enough to ask about all."""
    for model in MODELS[1:]:
        explainer = whence.load(model, dtype="float64")
        for case in truth.cases(model):
            found = explainer.explain(case.text, method="kernel_shap")
            for word in found.words():
                if word.text not in case.evidence:
                    assert abs(word.score) < 1e-9


def test_leave_one_out_cannot_see_what_can_be_spared():
    explainer = whence.load("redundancy", dtype="float64")
    for case in truth.cases("redundancy"):
        found = explainer.explain(case.text, method="leave_one_out")
        counts = [word for word in found.words() if word.text in case.evidence]
        assert all((abs(word.score) < 1e-9) == (len(counts) > 1) for word in counts)


# --- the judge -------------------------------------------------------------------------------

CASE = Case("the film is not good", {"not": -1, "good": 0})


@pytest.fixture(scope="module")
def found():
    return whence.load("negation", dtype="float64").explain(CASE.text, method="leave_one_out")


@pytest.mark.parametrize(
    ("scores", "right"),
    [
        ([0, 0, 0, 0, 1, 2, 0], True),
        ([9, 0, 0, 0, -1, 2, 9], True),  # special tokens are not judged, and size is what counts
        ([0, 0, 0, 0, 1, 0, 0], False),
        ([0, 0, -2, 0, 1, 2, 0], False),
        ([0, 1, 1, 1, 1, 1, 1], False),
        ([0, 0, 0, 0, 1e-9, 1, 0], False),  # rounding
    ],
)
def test_a_sentence_is_recovered_if_what_counts_stands_above_the_rest(found, scores, right):
    given = replace(found, scores=np.array(scores, dtype=float), measured=None)
    assert recovers(given, CASE, rounding=1e-8) is right


@pytest.mark.parametrize(
    ("score", "target", "right"),
    [
        (1, "negative", True),
        (-1, "negative", False),
        (-1, "positive", True),
        (0, "negative", False),
    ],
)
def test_signs_are_judged_towards_the_target(found, score, target, right):
    given = replace(
        found,
        scores=np.array([0, 0, 0, 0, score, 5, 0], dtype=float),
        measured=None,
        target=replace(found.target, label=target),
    )
    assert right_signs(given, CASE, rounding=1e-8) == [right]
    assert right_signs(replace(given, signed=False), CASE, rounding=1e-8) == []


def test_chance():
    assert CASE.chance == pytest.approx(1 / 10)  # two of five words


def test_a_page_without_markers_is_refused():
    with pytest.raises(SystemExit, match="needs the lines"):
        build_docs.with_table("nothing here", "truth", "| a |")
    page = "before\n<!-- begin: x -->\nold\n<!-- end: x -->\nafter\n"
    new = build_docs.with_table(page, "x", "| new |")
    assert "old" not in new and new.startswith("before\n") and new.endswith("\nafter\n")
    assert build_docs.with_table(new, "x", "| new |") == new
