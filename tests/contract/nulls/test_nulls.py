"""Nulls of metrics: random explanations score the null on average, and their percentiles are uniform."""

from dataclasses import replace
from itertools import permutations
from math import sqrt

import numpy as np
import pytest

import whence
from tests import zoo
from tests.contract.nulls.conftest import (
    AGAIN,
    DRAWN,
    PLACED,
    TAKERS,
    is_higher_better,
    marks,
    with_token_scores,
    with_unit_scores,
)
from whence.metrics import build_null_trial, metric
from whence.stats.intervals import percentile

AGREEMENT = {entry.name for entry in TAKERS if entry.facts["kind"] == "agreement"}
RANKINGS = 49
QUALITIES = ("gripping", "dull", "great", "awful", "moving", "slow", "funny")
THINGS = ("film", "story", "plot", "ending", "acting")
TEXTS = [
    f"the {thing} is {one} but {other} too"
    for thing in THINGS
    for one, other in zip(QUALITIES, QUALITIES[2:] + QUALITIES[:2], strict=True)
][::2]  # 18 texts of 7 words


@pytest.fixture(scope="module", params=["reviews", "bert"])
def case(request):
    """Return an explainer, its inputs and the trial of each."""
    if request.param == "reviews":
        explainer, inputs = whence.load("reviews", dtype="float64"), TEXTS
    else:
        explainer = whence.load(zoo.make("bert"))
        inputs = zoo.rows("bert", lengths=(8, 9) * 10)
    found = {i: trial for i, trial, _ in explainer.trials(inputs, method="random", marks=marks)}
    return explainer, inputs, [found[i] for i in range(len(inputs))]


def explain_by_random(explainer, inputs, seed):
    """Return the scores that the method `random` gives to each input."""
    found = explainer.explain(inputs, method="random", params={"seed": seed})
    return [one.scores.astype(np.float64) for one in found]


# --- random explanations score the null ----------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_metric_of_random_explanations_equals_the_null_mean_on_average(case, name):
    """The value of `random` is one more draw of the null, so it differs from the mean of D others by chance alone.

    Over inputs i, the differences have expectation 0 and the variance σ_i² (1 + 1/D), σ_i that of the null. Their sum
    is nearly normal: 3.5 of its deviations are passed once in two thousand times, if σ is known. It is estimated of
    49 values, which is a part in ten off for one input and, over all, nothing to speak of.
    """
    explainer, inputs, trials = case
    entry = metric.get(name)
    one, other = (explain_by_random(explainer, inputs, seed) for seed in (11, 12))
    off, variance, n = 0.0, 0.0, 0
    for number, trial in enumerate(trials):
        given = [one[number], other[number]] if name in AGREEMENT else [one[number]]
        mine = with_token_scores(trial, given)
        found, null = entry.fn(mine), entry.fn(build_null_trial(entry, mine, 0, RANKINGS))
        if found.why_not:
            assert set(found.why_not.values()) == set(null.why_not.values())
            continue
        assert not null.why_not and np.isfinite(null.values).all()
        low, high = entry.facts["range"]
        assert (
            low <= found.values[0] <= high
            and (low <= null.values).all()
            and (null.values <= high).all()
        )
        # A value of agreement is one pair; that of the null is the mean over many.
        spread = null.values if null.pairs is None else null.pairs[np.triu_indices(RANKINGS, 1)]
        off += found.values[0] - null.values.mean()
        variance += spread.var(ddof=1) * (1 + 1 / RANKINGS)
        n += 1
    assert n >= 10
    # Where nothing varies, as precision among all tokens does not, rounding is what is left.
    assert abs(off) <= 3.5 * sqrt(variance) + 1e-12 * n


@pytest.mark.parametrize("name", sorted(AGAIN))
def test_repeat_metric_of_random_finds_identical_scores_and_an_extreme_percentile(case, name):
    """`random` looks at nothing but the tokens and its seed: nothing that is done to the model moves it.

    So what asks for steadiness finds it perfect, and what asks for dependence on the model or the class finds none.
    """
    explainer, inputs, _ = case
    entry = metric.get(name)
    (trial,) = (trial for _, trial, _ in explainer.trials(inputs[:1], method="random"))
    found = entry.fn(trial)
    assert not found.why_not
    assert found.values[0] == pytest.approx(0 if name == "sensitivity" else 1, abs=1e-12)
    null = entry.fn(build_null_trial(entry, trial, 0, RANKINGS))
    place = percentile(found.values[0], null.values, is_higher_better(entry))
    assert place.percent == (
        100 if entry.facts["direction"] == "higher" or name == "sensitivity" else 0
    )


# --- percentiles are uniform ---------------------------------------------------------------------


def compute_random_percentiles(case, name):
    """Place `random` among random rankings, for every input and 12 seeds of both; seeds are independent."""
    explainer, inputs, trials = case
    entry = metric.get(name)
    for seed in range(12):
        drawn = explain_by_random(explainer, inputs, 100 + seed)
        for trial, scores in zip(trials, drawn, strict=True):
            mine = replace(with_token_scores(trial, [scores]), seed=seed)
            null = entry.fn(build_null_trial(entry, mine, 0, RANKINGS)).values
            yield percentile(entry.fn(mine).values[0], null, is_higher_better(entry))


@pytest.mark.parametrize("name", PLACED)
def test_percentiles_of_random_explanations_are_uniform(case, name):
    """By exchangeability each of the N + 1 places is as likely; a tie is as likely before as behind.

    (beaten + u (tied + 1)) / (N + 1) with u uniform is therefore uniform, exactly, ties or not. Kolmogorov's distance
    of n such numbers passes 1.95 / sqrt(n) once in a thousand times.
    """
    places = list(compute_random_percentiles(case, name))
    n = len(places)
    assert n >= 200 and all(place.of == RANKINGS for place in places)
    draw = np.random.default_rng(5)
    numbers = [(p.beaten + draw.random() * (p.tied + 1)) / (p.of + 1) for p in places]
    assert kolmogorov_distance(numbers) <= 1.95 / sqrt(n)

    # As printed, with ties counted half, the mean is 50 and the variance at most that of uniform numbers, 1/12 (and a
    # little for the grid): 3.3 deviations of the mean are passed once in a thousand times.
    percents = np.array([place.percent for place in places])
    assert abs(percents.mean() - 50) <= 3.3 * 100 * sqrt((1 / 12 + 1 / RANKINGS) / n)
    if max(place.tied for place in places) == 0:
        # A grid of N + 1 steps is at most one step off the straight line.
        assert kolmogorov_distance(percents / 100) <= 1.95 / sqrt(n) + 1 / RANKINGS


def kolmogorov_distance(numbers):
    """Return Kolmogorov's distance from the uniform distribution."""
    ranked = np.sort(numbers)
    n = len(ranked)
    return max((np.arange(1, n + 1) / n - ranked).max(), (ranked - np.arange(n) / n).max())


@pytest.mark.parametrize("name", sorted(DRAWN - AGREEMENT - {"infidelity", "loo_correlation"}))
@pytest.mark.parametrize("tied", [False, True])
def test_percentiles_of_all_rankings_of_four_tokens_average_to_50(name, tied):
    """With 4 tokens the null is every ranking once, so nothing is left to chance: the mean is 50.

    Also on a model on which most rankings tie.
    """
    model, text = ("decoy", "decoy a good movie") if tied else ("reviews", "dull but good film")
    explainer = whence.load(model, dtype="float64")
    (trial,) = (t for _, t, _ in explainer.trials([text], method="random", marks=marks))
    every = np.array(list(permutations(range(4))), dtype=float)
    entry = metric.get(name)
    null = entry.fn(build_null_trial(entry, trial, 0, 100)).values
    assert len(null) == 24
    values = entry.fn(with_unit_scores(trial, every)).values
    # The same values in another order, to the last bit: each ranking is asked once.
    assert sorted(values) == sorted(null)
    percents = [percentile(value, null, is_higher_better(entry)).percent for value in values]
    assert np.mean(percents) == pytest.approx(50, abs=1e-9)
