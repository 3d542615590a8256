"""Requests of metrics: run in lock step, answered together, errors where they belong; metrics that ask at once."""

import numpy as np
import pytest

from tests.formula_trials import FALLS, trial_of
from whence.core.errors import BadParameter
from whence.metrics import ALL_EQUAL, Outcome, metric
from whence.metrics._requests import run_together
from whence.metrics._trial import Trial

SCORES = [[4, 3, 2, 1], [1, 1, 1, 1]]


@pytest.fixture
def register(monkeypatch):
    """Register a metric for the time of a test."""
    metric.names()  # all others are there
    monkeypatch.setattr(metric, "_entries", dict(metric._entries))
    facts = {"kind": "faithfulness", "direction": "higher", "range": (-1, 1), "null": "rankings"}
    texts = dict.fromkeys(("cite", "formula", "cost", "misleads_when"), "-")
    return lambda fn: metric(fn.__name__, **facts, **texts)(fn)


def ask_in_two_rounds(trial: Trial):
    """Ask for the first fall, and then for a list of two things."""
    (first,) = yield trial.without([(0,)])
    each, highest = yield [trial.without_each(), trial.without_highest([0, 4])]
    return first, each, highest


def test_run_together_answers_the_requests_of_a_round_by_one_call_of_the_model():
    trial, model = trial_of(SCORES)
    one, other, plain = run_together([ask_in_two_rounds(trial), ask_in_two_rounds(trial), "plain"])
    assert len(model.asked) == 2  # rounds, whatever the number of steps
    assert sum(map(len, model.asked)) == len({hole for asked in model.asked for hole in asked})
    assert plain == "plain"
    for found in (one, other):
        np.testing.assert_allclose(found[0], 0.5)
        np.testing.assert_allclose(found[1], FALLS, atol=1e-15)
        np.testing.assert_allclose(found[2], [[0.9, 0.2], [np.nan, np.nan]])


def test_error_of_one_request_is_raised_where_its_answer_is_expected_and_nowhere_else():
    trial, model = trial_of(SCORES)
    shares = model.shares

    def fail(gone):
        if 3 in gone:
            raise BadParameter("There is no fourth unit.")
        return shares(gone)

    model.shares = fail

    def ask(units):
        try:
            return (yield trial.without([units]))
        except BadParameter as error:
            return str(error)

    fine, wrong = run_together([ask((0,)), ask((3,))])
    np.testing.assert_allclose(fine, 0.5)
    assert wrong == "There is no fourth unit."

    def careless():
        yield trial.without([(3,)])

    with pytest.raises(BadParameter, match="fourth"):
        run_together([careless()])


def test_metric_that_asks_at_once_gives_what_one_that_yields_gives(register):
    @register
    def asks_by_yielding(trial):
        """Take the probability without the highest unit."""
        return (yield trial.without_highest([1]))[:, 0]

    @register
    def asks_at_once(trial):
        """Take the probability without the highest unit."""
        return trial.removed.probability([order[:1] for order in trial.orders])

    found = [
        metric.get(name).fn(trial_of(SCORES)[0]) for name in ("asks_at_once", "asks_by_yielding")
    ]
    for outcome in (*found, asks_by_yielding(trial_of(SCORES)[0])):
        np.testing.assert_allclose(outcome.values, [0.5, np.nan])
        assert outcome.why_not == {1: ALL_EQUAL}


def test_metric_that_returns_a_sentence_has_no_values_and_that_reason(register):
    @register
    def says_why(trial):
        """Ask, and then say that it cannot be tested."""
        yield trial.without_each()
        return "It cannot be tested."

    outcome = says_why(trial_of(SCORES)[0])
    assert isinstance(outcome, Outcome)
    assert np.isnan(outcome.values).all()
    assert outcome.why_not == dict.fromkeys((0, 1), "It cannot be tested.")
