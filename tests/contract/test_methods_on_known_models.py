"""Methods on models of known attribution: verdicts equal bench/results/truth.json; the rules of judging.

The verdicts are stored in bench/results/truth.json, which must equal what the methods give today; the page
docs/science/truth.md and the methods' cards are generated from the file.
"""

from dataclasses import replace

import build_docs
import numpy as np
import pytest
from bench.science import truth
from bench.science.truth import MODELS, Case, check_signs, is_recovered

import whence
from whence.methods import method


@pytest.fixture(scope="module")
def verdicts():
    return truth.judge_methods()


def test_stored_truth_json_equals_the_verdicts_of_the_methods(verdicts):
    kept, today = truth.collect_results(), truth.to_dict(verdicts)
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


def test_every_known_model_is_recovered_by_one_method_and_failed_by_another(verdicts):
    """A model that everybody gets right, or everybody wrong, would test nothing."""
    for model in MODELS:
        found = [verdicts[name].models[model] for name in verdicts if name != "random"]
        assert any(one.recovered < one.sentences for one in found)
        assert any(one.recovered == one.sentences for one in found)


def test_kernel_shap_scores_words_without_influence_zero():
    """Shapley values of words that never change anything are zero; the texts are short enough to ask about all."""
    for model in MODELS[1:]:
        explainer = whence.load(model, dtype="float64")
        for case in truth.list_cases(model):
            found = explainer.explain(case.text, method="kernel_shap")
            for word in found.words():
                if word.text not in case.evidence:
                    assert abs(word.score) < 1e-9


def test_leave_one_out_scores_redundant_evidence_zero():
    explainer = whence.load("redundancy", dtype="float64")
    for case in truth.list_cases("redundancy"):
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
def test_recovers_is_true_only_if_evidence_scores_exceed_all_other_words(found, scores, right):
    given = replace(found, scores=np.array(scores, dtype=float), measured=None)
    assert is_recovered(given, CASE, rounding=1e-8) is right


@pytest.mark.parametrize(
    ("score", "target", "right"),
    [
        (1, "negative", True),
        (-1, "negative", False),
        (-1, "positive", True),
        (0, "negative", False),
    ],
)
def test_right_signs_are_judged_towards_the_target(found, score, target, right):
    given = replace(
        found,
        scores=np.array([0, 0, 0, 0, score, 5, 0], dtype=float),
        measured=None,
        target=replace(found.target, label=target),
    )
    assert check_signs(given, CASE, rounding=1e-8) == [right]
    assert check_signs(replace(given, signed=False), CASE, rounding=1e-8) == []


def test_chance_of_two_evidence_words_among_five_is_one_tenth():
    assert CASE.chance == pytest.approx(1 / 10)  # two of five words


def test_with_table_refuses_a_page_without_markers_and_replaces_a_marked_table():
    with pytest.raises(SystemExit, match="needs the lines"):
        build_docs.replace_table("nothing here", "truth", "| a |")
    page = "before\n<!-- begin: x -->\nold\n<!-- end: x -->\nafter\n"
    new = build_docs.replace_table(page, "x", "| new |")
    assert "old" not in new and new.startswith("before\n") and new.endswith("\nafter\n")
    assert build_docs.replace_table(new, "x", "| new |") == new
