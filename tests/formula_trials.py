"""Trials on a model given by a formula, for tests of faithfulness metrics against values computed by hand."""

from types import SimpleNamespace

import numpy as np
import torch

from whence.core.types import InputText, Target, Token
from whence.data.tokens import EncodedInput
from whence.metrics import metric
from whence.metrics._requests import RemovalPredictions
from whence.metrics._trial import Trial

FALLS = (0.4, 0.2, 0.1, 0.0)  # of the probability, by unit; they add up
DOWN, UP = [4, 3, 2, 1], [1, 2, 3, 4]  # the ranking that follows the falls, and its opposite


class FormulaModel:
    """A model: what each label gets, by the set of units that are gone. It remembers what it was asked."""

    eps = 2**-52  # it answers in float64
    rest = False  # every label has a name

    def __init__(self, shares, first):
        self.shares = shares
        self.first = first  # the place of the first unit
        self.asked = []

    def compute_probabilities_without(self, holes, how):
        gone = [frozenset(place - self.first for place in hole) for _, hole in holes]
        self.asked.append(gone)
        return torch.tensor([self.shares(one) for one in gone], dtype=torch.float64)


def falling_probabilities(falls, start=0.9):
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
    model = FormulaModel(shares or falling_probabilities(FALLS), first=frame)
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
        item=EncodedInput({"input_ids": tuple(range(len(tokens)))}, tokens, (), InputText(None)),
        task=task,
        names=("made",) * number,
        scores=scores,
        signed=(signed,) * number if isinstance(signed, bool) else signed,
        axioms=({},) * number,
        units=units,
        removed=RemovalPredictions(
            model, 0, units, how, target, np.array(model.shares(frozenset())), task
        ),
        again=SimpleNamespace(stages=()),  # nothing here explains again
        marked=marked,
    )
    return trial, model


def outcome(name, scores, shares=None, *, params=None, **more):
    return metric.get(name).fn(trial_of(scores, shares, **more)[0], **(params or {}))


def assert_close(found, wanted):
    # A handful of sums of numbers below 1: some 1e-16 each.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)
