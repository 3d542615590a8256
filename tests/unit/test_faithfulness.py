"""Every metric of faithfulness by hand, on a model that is a formula."""

from decimal import Decimal
from math import log
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from whence.core.errors import BadParameter
from whence.core.types import Source, Target, Token
from whence.data import Encoded
from whence.metrics import metric
from whence.trial import Removed, Trial
from whence.trial.steps import count_of, evenly

FALLS = (0.4, 0.2, 0.1, 0.0)  # of the probability, by unit; they add up
DOWN, UP = [4, 3, 2, 1], [1, 2, 3, 4]  # the ranking that follows the falls, and its opposite
FAITHFULNESS = [
    entry.name
    for entry in metric
    if entry.facts["kind"] == "faithfulness" and entry.facts.get("takes") != "picture"
]


class Formula:
    """A model: what each label gets, by the set of units that are gone. It remembers what it was asked."""

    eps = 2**-52  # it answers in float64
    rest = False  # every label has a name

    def __init__(self, shares, first):
        self.shares = shares
        self.first = first  # the place of the first unit
        self.asked = []

    def shares_without(self, row, holes, how):
        gone = [frozenset(place - self.first for place in hole) for hole in holes]
        self.asked.append(gone)
        return torch.tensor([self.shares(one) for one in gone], dtype=torch.float64)


def falling(falls, start=0.9):
    """Return the two shares of a label whose probability falls by so much for every unit that goes."""

    def shares(gone):
        p = start - sum(falls[unit] for unit in gone)
        return [p, 1 - p]

    return shares


def trial_of(scores, shares=None, *, signed=True, marked=None, special=(0.0, 0.0), task="single_label",
             against=None, how="mask"):  # fmt: skip
    """Put scores of units, a row per explanation, on trial; special tokens with their own scores stand around."""
    rows = np.atleast_2d(np.array(scores, dtype=np.float64))
    number, frame = len(rows), len(special) // 2
    model = Formula(shares or falling(FALLS), first=frame)
    units = tuple((place + frame,) for place in range(rows.shape[1]))
    around = np.tile(special, (number, 1))
    scores = np.hstack([around[:, :frame], rows, around[:, frame:]])
    inside = {place for unit in units for place in unit}
    tokens = tuple(
        Token("x", None, None, 0, special=place not in inside, id=place)
        for place in range(scores.shape[1])
    )
    target = Target("yes", 0, None if against is None else Target("no", against))
    trial = Trial(
        item=Encoded({"input_ids": tuple(range(len(tokens)))}, tokens, (), Source(None)),
        task=task,
        names=("made",) * number,
        scores=scores,
        signed=(signed,) * number if isinstance(signed, bool) else signed,
        axioms=({},) * number,
        units=units,
        removed=Removed(model, units, how, target, np.array(model.shares(frozenset())), task),
        again=SimpleNamespace(stages=()),  # nothing here explains again
        marked=marked,
    )
    return trial, model


def outcome(name, scores, shares=None, *, params=None, **more):
    return metric.get(name).fn(trial_of(scores, shares, **more)[0], **(params or {}))


def close(found, wanted):
    # A handful of sums of numbers below 1: some 1e-16 each.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


# --- comprehensiveness and sufficiency ---


def test_comprehensiveness():
    # A quarter of 4 is 1 unit, a half is 2. DOWN loses 0.4, then 0.4 + 0.2; UP loses 0.0, then 0.0 + 0.1.
    found = outcome("comprehensiveness", [DOWN, UP], params={"bins": "0.25,0.5"})
    close(found.values, [(0.4 + 0.6) / 2, (0.0 + 0.1) / 2])
    close(found.at, [0, 0.25, 0.5])
    close(found.curves, [[0.9, 0.5, 0.3], [0.9, 0.9, 0.8]])
    # The paper divides by 3: the share 0 counts.
    found = outcome("comprehensiveness", DOWN, params={"bins": "0.25,0.5", "averaging": "paper"})
    close(found.values, [(0 + 0.4 + 0.6) / 3])


def test_comprehensiveness_rounds_shares_up():
    # 0.01, 0.05, 0.1 and 0.2 of 4 units are 1 unit each, a half is 2.
    close(outcome("comprehensiveness", DOWN).values, [(4 * 0.4 + 0.6) / 5])


def test_sufficiency():
    # DOWN keeps the unit of 0.4: 0.2 + 0.1 go; then those of 0.4 and 0.2: 0.1 goes. UP keeps 0.0: 0.7 goes; then 0.6.
    found = outcome("sufficiency", [DOWN, UP], params={"bins": "0.25,0.5"})
    close(found.values, [(0.3 + 0.1) / 2, (0.7 + 0.6) / 2])
    close(found.at, [0.25, 0.5, 1])
    close(found.curves, [[0.6, 0.8, 0.9], [0.2, 0.3, 0.9]])
    found = outcome("sufficiency", DOWN, params={"bins": "0.25,0.5", "averaging": "paper"})
    close(found.values, [(0 + 0.3 + 0.1) / 3])


def test_shares_are_exact():
    assert 0.07 * 100 > 7  # so it is in floating point, and would be rounded up to 8
    assert count_of(Decimal("0.07"), 100) == 7
    assert count_of(Decimal("0.1"), 30) == 3
    assert count_of(Decimal("0.01"), 101) == 2
    assert [count_of(Decimal(share), 7) for share in ("0", "1")] == [0, 7]


@pytest.mark.parametrize("name", ["comprehensiveness", "sufficiency"])
@pytest.mark.parametrize(
    "bins", ["", "half", "1.5", "-0.1", "0.1,", "0.5,0.1", "0.1,0.1", "nan", "inf", "1e999999999"]
)
def test_bad_bins(name, bins):
    with pytest.raises(BadParameter) as caught:
        outcome(name, DOWN, params={"bins": bins})
    assert f"The 'bins' parameter of {name} must be rising shares" in str(caught.value)
    assert str(caught.value).endswith(f"Got {bins!r}.")


# --- deletion and insertion ---


def test_deletion_and_insertion():
    # DOWN: 0.9 0.5 0.3 0.2 0.2, a quarter apart: 0.25 (0.45 + 0.5 + 0.3 + 0.2 + 0.1).
    found = outcome("deletion", DOWN, params={"steps": 4})
    close(found.at, [0, 0.25, 0.5, 0.75, 1])
    close(found.curves, [[0.9, 0.5, 0.3, 0.2, 0.2]])
    close(found.values, [0.25 * 1.55])
    # And back in: 0.2 0.6 0.8 0.9 0.9: 0.25 (0.1 + 0.6 + 0.8 + 0.9 + 0.45).
    found = outcome("insertion", DOWN, params={"steps": 4})
    close(found.at, [0, 0.25, 0.5, 0.75, 1])
    close(found.curves, [[0.2, 0.6, 0.8, 0.9, 0.9]])
    close(found.values, [0.25 * 2.85])


def test_steps_are_rounded_up_and_insertion_goes_them_backwards():
    assert evenly(4, 3) == [2, 3, 4]  # 4/3, 8/3, 12/3
    # 0.9 at 0, 0.3 at 2/4, 0.2 at 3/4, 0.2 at 1: 0.5 · 0.6 + 0.25 · 0.25 + 0.25 · 0.2
    close(outcome("deletion", DOWN, params={"steps": 3}).values, [0.3 + 0.0625 + 0.05])
    # 4, 3, 2 and 0 are missing: 0.2 at 0, 0.6 at 1/4, 0.8 at 2/4, 0.9 at 1: 0.25 · 0.4 + 0.25 · 0.7 + 0.5 · 0.85
    close(outcome("insertion", DOWN, params={"steps": 3}).values, [0.1 + 0.175 + 0.425])


@pytest.mark.parametrize("name", ["deletion", "insertion", "aopc", "log_odds"])
def test_no_more_steps_than_units(name):
    assert evenly(4, 10) == evenly(4, 4) == [1, 2, 3, 4]
    many, few = (outcome(name, DOWN, params={"steps": steps}) for steps in (10, 4))
    assert many.values.tolist() == few.values.tolist()
    assert many.at.tolist() == few.at.tolist()


def test_a_random_ranking_and_its_reverse_share_their_questions():
    trial, model = trial_of(np.arange(37), falling([0.01] * 37))
    metric.get("deletion").fn(trial.null(50))
    before = len(model.asked)
    metric.get("insertion").fn(trial.null(50, reverse=True))
    assert len(model.asked) == before


# --- AOPC and log-odds ---


def test_aopc():
    # DOWN: 0.4, 0.6, 0.7 and 0.7 are lost.
    found = outcome("aopc", DOWN, params={"steps": 4})
    close(found.values, [(0.4 + 0.6 + 0.7 + 0.7) / 4])
    close(found.at, [0, 0.25, 0.5, 0.75, 1])
    close(found.curves, [[0.9, 0.5, 0.3, 0.2, 0.2]])


def test_a_rise_is_no_fall_unless_so_wished():
    # UP: -0.05, 0.05, 0.25 and 0.65 are lost.
    rising = falling((0.4, 0.2, 0.1, -0.05))
    close(outcome("aopc", UP, rising).values, [(-0.05 + 0.05 + 0.25 + 0.65) / 4])
    found = outcome("aopc", UP, rising, params={"absolute": True})
    close(found.values, [(0.05 + 0.05 + 0.25 + 0.65) / 4])


def test_log_odds():
    # ln of 0.5, 0.3, 0.2 and 0.2, each over 0.9
    wanted = (log(0.5 / 0.9) + log(0.3 / 0.9) + 2 * log(0.2 / 0.9)) / 4
    close(outcome("log_odds", DOWN).values, [wanted])


def test_log_odds_of_nothing_left():
    # 0.5, then 0 three times, which counts as the smallest that float32 holds: 2^-126.
    found = outcome("log_odds", [1, 2, 3, 4], falling((0, 0, 0.5, 0.5), start=1.0))
    close(found.values, [(log(0.5) + 3 * -126 * log(2)) / 4])


@pytest.mark.parametrize(
    ("special", "reached"),
    [
        # 10 places, 9 steps: round(10 i / 9) = 1 2 3 4 6 7 8 9 10. A special token is last: all 8 units can go.
        ((0.5, -1.0), [1, 2, 3, 4, 6, 7, 8, 8, 8]),
        # The last place is a unit, which stays.
        ((1.5, 99.0), [1, 2, 3, 4, 6, 7, 7, 7, 7]),
    ],
)
def test_counting_as_the_authors_of_attcat_do(special, reached):
    more = {"special": special, "shares": falling([0.1] * 8)}
    found = outcome("aopc", range(8, 0, -1), params={"steps": 9, "counting": "attcat"}, **more)
    close(found.curves, [[0.9, *(0.9 - 0.1 * gone for gone in reached)]])
    close(found.values, [0.1 * sum(reached) / 9])
    close(found.at, [0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1])
    found = outcome("log_odds", range(8, 0, -1), params={"steps": 9, "counting": "attcat"}, **more)
    close(found.values, [sum(log((0.9 - 0.1 * gone) / 0.9) for gone in reached) / 9])


@pytest.mark.parametrize("name", ["aopc", "log_odds"])
def test_the_authors_of_attcat_skip_short_inputs(name):
    found = outcome(name, range(7), falling([0.1] * 7), params={"steps": 9, "counting": "attcat"})
    assert found.why_not[0] == (
        "The input has 9 tokens with special ones; the authors of AttCAT skip inputs of fewer than 10."
    )


# --- flip ---


def test_flip():
    # DOWN: 0.6, then 0.4: two of four units. UP: 0.9, 0.8, 0.6, 0.3: all four.
    close(outcome("flip", [DOWN, UP], falling((0.3, 0.2, 0.1, 0.0))).values, [0.5, 1.0])


def test_a_prediction_that_never_flips_counts_as_one():
    close(outcome("flip", DOWN, falling((0, 0, 0, 0))).values, [1.0])


def test_the_first_flip_counts():
    def there_and_back(gone):
        return [0.4, 0.6] if len(gone) == 30 else [0.6, 0.4]

    close(outcome("flip", np.arange(40), there_and_back).values, [30 / 40])


def test_flip_asks_little_more_than_it_needs():
    # The n-th explanation flips when unit 0 goes, which it ranks n-th.
    places = [1, 2, 10, 25, 50, 99]
    rows = [[101.5 - place, *range(100, 1, -1)] for place in places]
    trial, model = trial_of(rows, lambda gone: [0.4, 0.6] if 0 in gone else [0.6, 0.4])
    found = metric.get("flip").fn(trial)
    close(found.values, [place / 100 for place in places])
    asked = sum(map(len, model.asked))
    # The rankings share what they have in common: the longest needs 99, and every other one question of its own.
    needed = 99 + len(places) - 1
    assert needed <= asked <= 1.1 * needed
    assert len(model.asked) < 45  # all explanations at a time, and blocks that grow


# --- agreement with leave-one-out ---


def test_loo_correlation():
    # Of 6 pairs: all agree; none does; [4, 3, 1, 2] has one turned round: 5 - 1.
    found = outcome("loo_correlation", [DOWN, UP, [4, 3, 1, 2]])
    close(found.values, [1, -1, 4 / 6])
    # One tie among the scores: 5 agree; 5 pairs differ in the scores, 6 in the falls.
    close(outcome("loo_correlation", [2, 2, 1, 0]).values, [5 / (5 * 6) ** 0.5])


def test_like_is_held_against_like():
    # Magnitudes 0.4 0.5 0.1 0 rank as the scores do; with signs, the second is lowest and loses its 3 pairs.
    falls = falling((0.4, -0.5, 0.1, 0.0), start=0.5)
    found = outcome("loo_correlation", [[3, 4, 2, 1]] * 2, falls, signed=(False, True))
    close(found.values, [1, (3 - 3) / 6])


def test_nothing_to_agree_with():
    why = "Removing any one token changes the model's answer by as much: there is nothing to agree with."
    found = outcome("loo_correlation", [DOWN, [1, 1, 1, 1]], falling((0.1,) * 4))
    assert found.why_not == {0: why, 1: "All scores are equal: there is no ranking to test."}
    # Magnitudes that are all the same, of falls that are not.
    mixed = falling((0.25, -0.25, 0.25, -0.25), start=0.5)
    found = outcome("loo_correlation", [DOWN, DOWN], mixed, signed=(False, True))
    assert found.why_not == {0: why}
    assert np.isnan(found.values).tolist() == [True, False]


# --- infidelity ---

# Two units that cost 0.4 and 0.2: the sets {0}, {1} and {0, 1} cost 0.4, 0.2 and 0.6. Both sizes weigh a half.
TWO = falling((0.4, 0.2))


def test_infidelity():
    # (2, 1) is right up to β = 0.2, in any unit. (1, 0) sums to 1, 0, 1: β = (0.4/4 + 0.6/2) / (1/4 + 1/2) = 8/15,
    # and (8/15 - 6/15)²/4 + 0.2²/4 + (8/15 - 9/15)²/2 = 1/225 + 1/100 + 1/450 = 1/60.
    found = outcome("infidelity", [[2, 1], [2000, 1000], [1, 0]], TWO)
    close(found.values, [0, 0, 1 / 60])


def test_infidelity_does_not_turn_a_claim_round():
    # The best β is negative, so 0: what is left is 0.4²/4 + 0.2²/4 + 0.6²/2.
    close(outcome("infidelity", [-2, -1], TWO).values, [0.04 + 0.01 + 0.18])


def test_infidelity_as_the_scores_are():
    # (0.4 - 1)²/4 + 0.2²/4 + (0.6 - 1)²/2
    found = outcome("infidelity", [1, 0], TWO, params={"normalise": False})
    close(found.values, [0.09 + 0.01 + 0.08])


def test_infidelity_draws_the_same_sets_for_all():
    rows = np.random.default_rng(0).normal(size=(5, 12))
    trial, model = trial_of(rows, falling([0.01 * u for u in range(12)]))
    together = metric.get("infidelity").fn(trial, samples=100).values
    ((*asked,),) = model.asked
    assert len(asked) == len(set(asked)) == 100
    # 12 sizes share 100 sets; of the largest there are only 1 and 12, which all are there, and no set is empty.
    sizes = np.bincount([len(one) for one in asked], minlength=13)
    assert sizes[[0, 12]].tolist() == [0, 1]
    assert sizes[1:12].min() >= 8
    for row, value in zip(rows, together, strict=True):
        alone, _ = trial_of(row, falling([0.01 * u for u in range(12)]))
        close(metric.get("infidelity").fn(alone, samples=100).values, [value])


def test_infidelity_of_ties():
    found = outcome("infidelity", [[1, 1], [2, 1]], TWO)
    assert list(found.why_not) == [0]
    assert found.why_not[0].startswith("All scores are equal: dealt out anew they are the same")


# --- precision at k ---


@pytest.mark.parametrize(
    ("k", "of", "wanted"),
    [
        # Units 0 and 2 are marked; DOWN ranks 0 1 2 3.
        (2, "precision", 1 / 2), (2, "count", 1), (2, "recall", 1 / 2),
        (3, "precision", 2 / 3), (3, "count", 2), (3, "recall", 1),
        (20, "precision", 2 / 4), (20, "count", 2), (20, "recall", 1),
    ],
)  # fmt: skip
def test_precision_at_k(k, of, wanted):
    marked = (True, False, True, False)
    found = outcome("precision_at_k", DOWN, marked=marked, params={"k": k, "of": of})
    close(found.values, [wanted])


@pytest.mark.parametrize("marked", [None, (False,) * 4, (True,) * 4])
def test_no_precision_without_an_answer(marked):
    assert "human rationale" in outcome("precision_at_k", DOWN, marked=marked).why_not[0]


# --- all of them ---


@pytest.mark.parametrize("name", FAITHFULNESS)
@pytest.mark.parametrize(
    ("scores", "why"),
    [
        (np.empty((2, 0)), "The input has no token that can be removed."),
        ([[1.0], [2.0]], "The input has only one token that can be removed: there is nothing to rank."),
        ([[3.0] * 4, [0.0] * 4], "All scores are equal"),
    ],
)  # fmt: skip
def test_what_cannot_be_tested_is_said(name, scores, why):
    rows = np.asarray(scores)
    marked = (True, False, True, False)[: rows.shape[1]]
    found = outcome(name, rows, falling([0.1] * rows.shape[1]), marked=marked)
    assert np.isnan(found.values).all()
    assert set(found.why_not) == {0, 1}
    assert all(sentence.startswith(why) for sentence in found.why_not.values())


@pytest.mark.parametrize("name", sorted({*FAITHFULNESS} - {"infidelity", "loo_correlation"}))
def test_nothing_is_asked_for_ties(name):
    """Those two ask what has nothing to do with the ranking."""
    trial, model = trial_of([[3.0] * 4], marked=(True, False, True, False))
    metric.get(name).fn(trial)
    assert not model.asked


@pytest.mark.parametrize("name", FAITHFULNESS)
def test_a_tie_is_no_neighbours_business(name):
    marked = (True, False, True, False)
    alone = outcome(name, [DOWN], marked=marked)
    found = outcome(name, [[0.0] * 4, DOWN], marked=marked)
    assert list(found.why_not) == [0]
    assert found.values[1] == alone.values[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("flip", "A regression predicts no label that could change."),
        ("log_odds", "A regression has no probability to take the logarithm of."),
    ],
)
def test_regressions(name, why):
    found = outcome(name, [DOWN, UP], lambda gone: [5.0 - len(gone)], task="regression")
    assert dict(found.why_not) == {0: why, 1: why}


def test_contrasts():
    # p - (1 - p) = 2 p - 1 falls twice as fast.
    close(outcome("comprehensiveness", DOWN, against=1).values, [2 * (4 * 0.4 + 0.6) / 5])
    why = "A difference of two labels is no probability to take the logarithm of."
    assert outcome("log_odds", DOWN, against=1).why_not == {0: why}


@pytest.mark.parametrize("name", sorted({*FAITHFULNESS} - {"flip", "precision_at_k"}))
def test_a_thousand_rankings_are_asked_about_at_once(name):
    trial, model = trial_of(np.arange(50), falling([0.01] * 50))
    found = metric.get(name).fn(trial.null(1000))
    assert found.values.shape == (1000,)
    assert len(model.asked) == 1
    assert len(model.asked[0]) == len(set(model.asked[0]))


def test_deleting_leaves_a_token():
    """Where there are no special tokens, the last of the ranking stays: nothing at all cannot be asked about."""

    def shares(gone):
        assert len(gone) < 4
        return falling(FALLS)(gone)

    trial, model = trial_of(DOWN, shares, how="delete", special=())
    close(metric.get("deletion").fn(trial).curves, [[0.9, 0.5, 0.3, 0.2, 0.2]])
    close(metric.get("insertion").fn(trial).curves, [[0.6, 0.6, 0.8, 0.9, 0.9]])
    for name in ("comprehensiveness", "sufficiency", "aopc", "log_odds", "flip", "infidelity"):
        assert np.isfinite(metric.get(name).fn(trial).values).all()
    assert max(len(gone) for some in model.asked for gone in some) == 3
