"""Audit verdicts from intervals and enough examples; choice of experiments and parameters by name."""

import numpy as np
import pytest

from whence.core.errors import BadParameter, UnknownExperiment
from whence.studies.audit.audit import format_duration, resolve_names, select_experiments
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import summarise
from whence.studies.audit.verdict import MIN_EXAMPLES, judge

PERMUTATION = experiment.get("permutation")  # holds above 0.1
ADVERSARIAL = experiment.get("adversarial")  # holds below 0.4


def test_judge_is_undecided_unless_the_whole_interval_is_on_one_side():
    values = np.array([0.0, 0.3] * 15)  # mean 0.15, interval about 0.10 to 0.20
    found = judge(PERMUTATION, Finding(values - 0.02), 0)
    assert found["interval"][0] < 0.1 < found["effect"] and found["verdict"] == "undecided"
    below = judge(PERMUTATION, Finding(values - 0.09), 0)
    assert below["interval"][1] > 0.1 > below["effect"] and below["verdict"] == "undecided"
    assert judge(PERMUTATION, Finding(values + 0.1), 0)["verdict"] == "holds"
    assert judge(PERMUTATION, Finding(values - 0.15), 0)["verdict"] == "fails"


def test_judge_with_direction_below_holds_under_the_threshold():
    values = np.linspace(0.1, 0.2, MIN_EXAMPLES)
    assert judge(ADVERSARIAL, Finding(values), 0)["verdict"] == "holds"
    assert judge(ADVERSARIAL, Finding(values + 0.4), 0)["verdict"] == "fails"


@pytest.mark.parametrize(
    ("n", "verdict"), [(MIN_EXAMPLES - 1, "undecided"), (MIN_EXAMPLES, "fails")]
)
def test_judge_with_too_few_examples_is_undecided_even_if_all_are_equal(n, verdict):
    found = judge(PERMUTATION, Finding(np.zeros(n)), 0)
    assert found["verdict"] == verdict
    assert (found["why"] is None) == (verdict == "fails")


def test_judge_does_not_count_examples_whose_value_is_nan():
    values = np.r_[np.zeros(MIN_EXAMPLES), np.nan, np.nan]
    assert judge(PERMUTATION, Finding(values), 0)["n"] == MIN_EXAMPLES
    nothing = judge(PERMUTATION, Finding(np.full(3, np.nan)), 0)
    assert (nothing["effect"], nothing["interval"], nothing["n"]) == (None, None, 0)


def test_judge_does_not_depend_on_the_order_of_the_examples():
    values = np.random.default_rng(0).random(MIN_EXAMPLES)
    one, other = (
        judge(PERMUTATION, Finding(v, by_site={"x": v}, by_class={"y": v}), 0)
        for v in (values, values[::-1])
    )
    assert one == other
    assert summarise(values, "k") == summarise(values[::-1], "k")
    rows = np.column_stack([values, values**2])

    def difference(some):
        return float(some[:, 0].mean() - some[:, 1].mean())

    first, second = (
        judge(PERMUTATION, Finding(r, statistic=difference), 0) for r in (rows, rows[::-1])
    )
    assert first == second


def test_resolve_names_selects_default_experiments_and_refuses_unknown_names():
    untrained = ["correlation", "permutation", "replacement", "adversarial", "diversity"]
    assert resolve_names(None, can_train=False) == untrained
    assert resolve_names(None, can_train=False, others=True) == [*untrained, "seeds"]
    assert sorted(resolve_names(None, can_train=True)) == experiment.names()
    assert resolve_names(["seeds", "correlation"], can_train=False) == ["correlation", "seeds"]
    assert sorted(resolve_names("all", can_train=False)) == experiment.names()
    with pytest.raises(UnknownExperiment, match="Did you mean 'permutation'"):
        resolve_names("permutatoin", can_train=False)
    with pytest.raises(BadParameter, match="No experiment was named"):
        resolve_names([], can_train=False)


def test_select_experiments_gives_parameters_to_the_experiments_that_take_them():
    chosen = select_experiments(
        ["adversarial", "diversity"],
        {"steps": "7", "adversarial.candidates": "2", "preset": "jain_wallace"},
        can_train=False,
        from_text=True,
    )
    by_name = {one.name: one.params for one in chosen}
    assert by_name["adversarial"]["steps"] == by_name["diversity"]["steps"] == 7
    assert (by_name["adversarial"]["candidates"], by_name["diversity"]["candidates"]) == (2, 5)
    with pytest.raises(BadParameter, match="None of the experiments has a parameter 'steps'"):
        select_experiments(["permutation", "replacement"], {"steps": 3}, can_train=False)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "less than a second"),
        (1, "about 1 second"),
        (89, "about 89 seconds"),
        (90, "about 2 minutes"),
        (5400, "about 2 hours"),
    ],
)
def test_format_duration_rounds_to_seconds_minutes_or_hours(seconds, words):
    assert format_duration(seconds) == words
