"""Asking about all inputs of a batch what their trials are going to ask, before the first of them begins.

A metric asks about a few variants of one input at a time, which fill no batch. What it will ask is known, as far as
it does not depend on answers: so it is asked of all inputs together, and metrics find the answers there.
"""

from collections.abc import Sequence
from itertools import islice

from whence.capture import Answers
from whence.core.errors import WhenceError
from whence.data import Encoded
from whence.data.removal import suited, without
from whence.models import Loaded
from whence.trial import Trial
from whence.trial.rehearsal import Part, wanted

# A metric that goes by its answers asks again and again; after so many times each input is left to itself.
_ROUNDS = 16
# How many holes are asked about at a time: enough to sort by length, few enough for a long text.
_AT_A_TIME = 2048

Hole = tuple[Encoded, list[int]]


def rehearse(
    loaded: Loaded, trials: Sequence[Trial], parts: Sequence[Part], answers: Answers
) -> None:
    """Ask what the parts of some trials will ask.

    Where the model fails on a variant, it is left to each trial to find that out.
    """
    waiting = [(trial, part) for trial in trials for part in parts]
    for _ in range(_ROUNDS):
        asked: dict[int, tuple[Trial, dict[frozenset[int], None]]] = {}
        still = []
        for trial, part in waiting:
            holes = wanted(trial, part)
            if holes is not None:
                asked.setdefault(id(trial), (trial, {}))[1].update(dict.fromkeys(holes))
                still.append((trial, part))
        if not asked:
            return
        every = [(trial, list(holes)) for trial, holes in asked.values()]
        try:
            _ask(loaded, every, answers)
        except WhenceError:
            return
        for trial, holes in every:
            trial.removed.shares(holes)  # known to `answers` by now
        waiting = still


def _ask(
    loaded: Loaded, every: Sequence[tuple[Trial, list[frozenset[int]]]], answers: Answers
) -> None:
    holes = (
        (trial.item, trial.removed.places(hole), trial.removed.how)
        for trial, some in every
        for hole in some
    )
    while chunk := list(islice(holes, _AT_A_TIME)):
        how = chunk[0][2]
        if how == "draw":
            assert answers.infill is not None, "without a language model, resolve refuses to draw"
            fillings = answers.infill([(item, places) for item, places, _ in chunk])
            answers([one for each in fillings for one in each])
        else:
            fillers = suited(loaded.fillers, chunk[0][0].picture is not None)
            answers([without(item, places, how, fillers) for item, places, _ in chunk])
