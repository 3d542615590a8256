"""Fixtures of the tests of nulls: the metrics by kind, one shared trial, and replacement of its scores."""

from dataclasses import replace

import numpy as np
import pytest

import whence
from whence.metrics import NULLS, metric

# Not of one explanation and one model: these make the explanation again, and `random` made again is what it was.
TAKERS = [entry for entry in metric if entry.facts.get("takes") != "picture"]
AGAIN = {entry.name for entry in TAKERS if entry.facts.get("again")}
DRAWN = {entry.name for entry in TAKERS if entry.facts["null"] in NULLS} - AGAIN
PLACED = ("deletion", "sufficiency", "comprehensiveness", "loo_correlation")


def marks(number, item, units):
    """Call every third unit evidence, beginning anywhere."""
    return [(number + unit) % 3 == 0 for unit in range(len(units))]


@pytest.fixture(scope="session")
def trial():
    explainer = whence.load("reviews", dtype="float64")
    text = "the plot is thin but great"
    return next(t for _, t, _ in explainer.trials([text], method="random", marks=marks))


def with_unit_scores(trial, scores, signed=True):
    """Put other scores, of units, on the same trial."""
    places = np.zeros((len(scores), len(trial.item)))
    for unit, own in enumerate(trial.units):
        places[:, list(own)] = np.asarray(scores)[:, unit, None] / len(own)
    return with_token_scores(trial, places, signed)


def with_token_scores(trial, scores, signed=True):
    rows = len(scores)
    return replace(
        trial,
        names=("mine",) * rows,
        scores=np.asarray(scores),
        signed=(signed,) * rows,
        axioms=({},) * rows,
    )


def is_higher_better(entry):
    return entry.facts["direction"] == "higher"
