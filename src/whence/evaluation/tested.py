"""From an example to tested numbers: what each of its explanations gets by a metric, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from whence.core.errors import BadParameter, InputError, NoRule, NotCapturable, NotFinite
from whence.data import Encoded
from whence.data.sets.examples import Example, marked
from whence.evaluation.measures import Measure
from whence.explainer import Explainer, Explanation
from whence.explainer.request import Request
from whence.explainer.verify.testing import Marks
from whence.metrics import Outcome
from whence.trial import Trial
from whence.trial.rehearsal import Part

Numbers = tuple[float | None, ...]  # None: it could not be tested


@dataclass(frozen=True)
class Tested:
    """What one explanation of one example gets by one metric."""

    value: float | None
    null: float | None = None  # what explanations that know nothing get
    why: str | None = None  # there is no value
    error: str | None = None  # the code of the error, where that is why
    # Of metrics with a figure of their own for a data set: what the value is made of, and the same of each draw.
    part_names: tuple[str, ...] = ()
    parts: Numbers | None = None
    null_parts: tuple[Numbers, ...] | None = None


def tested(measure: Measure, trial: Trial, draws: int) -> list[Tested]:
    """Run a metric on all explanations of a trial, and on `draws` that know nothing."""
    found, nulls = _run(measure, draws, trial)
    return [
        Tested(
            _known(found.values[row]),
            _null(measure, nulls, row),
            found.why_not.get(row),
            found.error,
            *_parts(measure, found, nulls, row),
        )
        for row in range(len(trial.names))
    ]


def steps(measures: Sequence[Measure], draws: int) -> list[Part]:
    """Return what is done with every trial: run a metric, and then on explanations that know nothing."""
    return [partial(_run, measure, draws) for measure in measures]


def _run(measure: Measure, draws: int, trial: Trial) -> tuple[Outcome, list[Outcome] | None]:
    """Return what the explanations get by a metric, and others by chance; None where that need not be drawn."""
    found = measure.of(trial)
    if measure.constant is not None or np.isnan(found.values).all():
        return found, None
    return found, measure.nulls(trial, draws)


def _null(measure: Measure, nulls: list[Outcome] | None, row: int) -> float | None:
    if measure.constant is not None:
        return measure.constant
    if nulls is None:
        return None
    values = nulls[row if len(nulls) > 1 else 0].values
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _parts(
    measure: Measure, found: Outcome, nulls: list[Outcome] | None, row: int
) -> tuple[tuple[str, ...], Numbers | None, tuple[Numbers, ...] | None]:
    if not measure.aggregates:
        return (), None, None
    own, drawn = None, None
    names = tuple(found.parts)
    if found.parts:
        own = tuple(_known(found.parts[name][row]) for name in names)
    if nulls is not None and all(one.parts for one in nulls):
        chance = nulls[row if len(nulls) > 1 else 0]
        names = names or tuple(chance.parts)
        each = np.stack([chance.parts[name] for name in names], -1)
        drawn = tuple(tuple(map(_known, draw)) for draw in each)
    return names, own, drawn


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def marks_of(given: Sequence[Example]) -> Marks | None:
    """Return the function that says which units of an example its rationale marks."""
    if all(example.rationale is None for example in given):
        return None

    def marks(number: int, item: Encoded, units: Sequence[tuple[int, ...]]) -> list[bool] | None:
        spans = given[number].rationale
        return None if spans is None else marked(units, item.tokens, spans)

    return marks


class Unreadable(Exception):
    """No method can read this input: it says nothing about any of them."""


def tried(
    explainer: Explainer, text: Any, request: Request, target: Any, truncate: bool
) -> tuple[NotCapturable | NoRule | None, int]:
    """Try a method on one example; return why this kind of model cannot do it, if so, and the backward passes.

    Tried together with others, such a method would make every batch fail.
    """
    try:
        made: Explanation | list[Explanation] = explainer.explain(
            text, method=request.name, params=request.params, target=target, truncate=truncate
        )
    except InputError as error:
        raise Unreadable from error
    except (NotCapturable, NoRule) as error:
        return error, 0
    except (NotFinite, BadParameter):
        return (
            None,
            0,
        )  # of this example (it may be too short to remove anything); the others may be well
    # A tagger has one explanation for each entity.
    every = made if isinstance(made, list) else [made]
    return None, sum(one.passes.backward for one in every)
