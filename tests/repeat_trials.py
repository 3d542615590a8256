"""Trials made by hand, for tests of repeat metrics: given scores, and given scores of repeats after a change."""

from types import SimpleNamespace

import numpy as np

from whence.core.types import InputText, PassCount, Target, Token
from whence.data.tokens import EncodedInput
from whence.metrics import metric
from whence.metrics._requests import RemovalPredictions, RepeatedExplanations
from whence.metrics._trial import Trial

PREDICTED = 1
WHOLE = np.array([0.0, 1.0])


class ScriptedRepeats:
    """Explains anew as a function says: rows of scores by change, a sentence in the place of a row that cannot be."""

    prices = (1,)
    passes = PassCount(0, 0)

    def __init__(self, shape, anew, stages):
        self.shape, self.anew, self.stages = shape, anew, stages
        self.asked = []  # changes, and for which rows

    def make(self, changes, rows=None):
        """Do nothing: the repeats of one change are made when they are asked for."""

    def __call__(self, change, rows=None):
        self.asked.append((change, tuple(rows)))
        scores, predicted = self.anew(change)
        found, why_not = np.full(self.shape, np.nan), {}
        for row in rows:
            if isinstance(scores[row], str):
                why_not[row] = scores[row]
            else:
                found[row] = scores[row]
        return RepeatedExplanations(found, predicted, why_not)


def build_trial(scores, anew=None, *, units=None, stages=(), axioms=None, seed=0, slope=1.0):
    """Put rows of scores on trial; `anew` maps a change to the rows made anew and what the model then predicts."""
    rows = np.atleast_2d(np.array(scores, dtype=float))
    number, length = rows.shape
    places = tuple((place,) for place in range(length)) if units is None else units
    tokens = tuple(Token("x", None, None, 0, special=False, id=place) for place in range(length))
    return Trial(
        item=EncodedInput({"input_ids": tuple(range(length))}, tokens, (), InputText(None)),
        task="single_label",
        names=tuple(f"toy{row}" for row in range(number)),
        scores=rows,
        signed=(True,) * number,
        axioms=tuple(axioms or [{}] * number),
        units=places,
        removed=RemovalPredictions(
            SimpleNamespace(rest=False),
            0,
            places,
            "mask",
            Target("yes", PREDICTED),
            WHOLE,
            "single_label",
        ),
        again=ScriptedRepeats(rows.shape, anew, stages),
        marked=None,
        seed=seed,
        slope=slope,
    )


def outcome(name, trial, **params):
    """Run a metric, and see that it has a value or a sentence for every explanation."""
    found = metric.get(name).fn(trial, **params)
    low, high = metric.get(name).facts["range"]
    assert found.values.shape == (len(trial.names),)
    assert set(found.why_not) == set(np.flatnonzero(np.isnan(found.values)).tolist())
    known = found.values[~np.isnan(found.values)]
    assert ((low <= known) & (known <= high)).all()
    assert all(why.endswith(".") for why in found.why_not.values())
    return found
