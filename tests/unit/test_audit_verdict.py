"""From numbers to a word: by the whole interval, from enough examples, in any order."""

import numpy as np
import pytest

from whence.audit.chosen import choose, names
from whence.audit.experiments import Finding, experiment
from whence.audit.figures import summary
from whence.audit.plan import spoken
from whence.audit.verdict import FEWEST, judged
from whence.core.errors import BadParameter, UnknownExperiment

PERMUTATION = experiment.get("permutation")  # holds above 0.1
ADVERSARIAL = experiment.get("adversarial")  # holds below 0.4


def test_a_verdict_needs_the_whole_interval():
    values = np.array([0.0, 0.3] * 15)  # mean 0.15, interval about 0.10 to 0.20
    found = judged(PERMUTATION, Finding(values - 0.02), 0)
    assert found["interval"][0] < 0.1 < found["effect"] and found["verdict"] == "undecided"
    below = judged(PERMUTATION, Finding(values - 0.09), 0)
    assert below["interval"][1] > 0.1 > below["effect"] and below["verdict"] == "undecided"
    assert judged(PERMUTATION, Finding(values + 0.1), 0)["verdict"] == "holds"
    assert judged(PERMUTATION, Finding(values - 0.15), 0)["verdict"] == "fails"


def test_below_is_the_other_way_round():
    values = np.linspace(0.1, 0.2, FEWEST)
    assert judged(ADVERSARIAL, Finding(values), 0)["verdict"] == "holds"
    assert judged(ADVERSARIAL, Finding(values + 0.4), 0)["verdict"] == "fails"


@pytest.mark.parametrize(("n", "verdict"), [(FEWEST - 1, "undecided"), (FEWEST, "fails")])
def test_too_few_examples_decide_nothing_even_if_they_are_all_alike(n, verdict):
    found = judged(PERMUTATION, Finding(np.zeros(n)), 0)
    assert found["verdict"] == verdict
    assert (found["why"] is None) == (verdict == "fails")


def test_examples_without_a_number_are_not_counted():
    values = np.r_[np.zeros(FEWEST), np.nan, np.nan]
    assert judged(PERMUTATION, Finding(values), 0)["n"] == FEWEST
    nothing = judged(PERMUTATION, Finding(np.full(3, np.nan)), 0)
    assert (nothing["effect"], nothing["interval"], nothing["n"]) == (None, None, 0)


def test_examples_in_another_order_are_the_same_data():
    values = np.random.default_rng(0).random(FEWEST)
    one, other = (
        judged(PERMUTATION, Finding(v, by_site={"x": v}, by_class={"y": v}), 0)
        for v in (values, values[::-1])
    )
    assert one == other
    assert summary(values, "k") == summary(values[::-1], "k")
    rows = np.column_stack([values, values**2])

    def difference(some):
        return float(some[:, 0].mean() - some[:, 1].mean())

    first, second = (
        judged(PERMUTATION, Finding(r, statistic=difference), 0) for r in (rows, rows[::-1])
    )
    assert first == second


def test_what_is_run_by_default():
    untrained = ["correlation", "permutation", "replacement", "adversarial", "diversity"]
    assert names(None, can_train=False) == untrained
    assert names(None, can_train=False, others=True) == [*untrained, "seeds"]
    assert sorted(names(None, can_train=True)) == experiment.names()
    assert names(["seeds", "correlation"], can_train=False) == ["correlation", "seeds"]
    assert sorted(names("all", can_train=False)) == experiment.names()
    with pytest.raises(UnknownExperiment, match="Did you mean 'permutation'"):
        names("permutatoin", can_train=False)
    with pytest.raises(BadParameter, match="No experiment was named"):
        names([], can_train=False)


def test_parameters_find_their_experiment():
    chosen = choose(
        ["adversarial", "diversity"],
        {"steps": "7", "adversarial.candidates": "2", "preset": "jain_wallace"},
        can_train=False,
        from_text=True,
    )
    by_name = {one.name: one.params for one in chosen}
    assert by_name["adversarial"]["steps"] == by_name["diversity"]["steps"] == 7
    assert (by_name["adversarial"]["candidates"], by_name["diversity"]["candidates"]) == (2, 5)
    with pytest.raises(BadParameter, match="None of the experiments"):
        choose("permutation", {"steps": 3}, can_train=False)


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
def test_a_time_as_people_say_it(seconds, words):
    assert spoken(seconds) == words
