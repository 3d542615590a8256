"""Testing what explanations of one input claim, on this very input."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from whence.capture import Answers
from whence.capture.asking.counted import Runs, counted
from whence.core.errors import BadEncoding, BadParameter
from whence.core.types import Passes
from whence.data import Encoded, Policy
from whence.data.removal import MANY, Removal, deletable, possible, resolve
from whence.explainer.aims import Aimed, Asked, aim
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, warn_of_unknown
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.verify.again import Remaker
from whence.explainer.verify.restored import item_of
from whence.explainer.verify.testing import Unit, trial_of
from whence.explainer.work import Progress, Tally
from whence.models import Loaded
from whence.trust import Meter, Trust, assess
from whence.view import merge


def trusted(
    maker: Maker,
    what: Any,
    about: Asked,
    *,
    method: str | Sequence[str] | None,
    params: Mapping[str, Any] | None,
    remove: Removal | Literal["all"] | None,
    unit: Unit,
    budget: int | None,
    seed: int,
    progress: Progress | None,
) -> Trust:
    """Explain one input and test what is claimed, or test an explanation as it is; see `Explainer.trust`."""
    started = time.perf_counter()
    maker.require_head()
    finished = what if isinstance(what, Explanation) else None
    reads = about.reads if finished is None else finished.shown is None
    loaded, sharing = maker.suited(reads), maker.sharing
    if finished is None:
        asked = requests(maker.method(reads) if method is None else method, params, loaded.fillers)
        aimed = _aimed(loaded, what, about)
        item = aimed.items[0]
    else:
        item = item_of(finished, loaded)
    ways = _ways(remove, item, loaded)
    policy = sharing.policy([item], tests=True)
    answers = maker.answers(sharing.variants(policy, [item]))
    made = Passes(0, 0)
    with counted(loaded.model) as runs:
        if finished is None:
            (by_name,) = maker.explain(
                [item],
                asked,
                spec=aimed.spec,
                policy=sharing.small_enough(policy, [item], asked),
                facts=maker.facts(),
                tally=Tally(progress, [item], asked),
                answers=answers,
                before=aimed.forwards,
            )
            found = list(by_name.values())
            made = Passes(aimed.forwards, _backwards(found))
        else:
            found = [finished]
        return _tested(
            loaded,
            item,
            found,
            ways=ways,
            unit=unit,
            policy=policy,
            answers=answers,
            runs=runs,
            made=made,
            started=started,
            budget=budget,
            seed=seed,
            progress=progress,
        )


def _aimed(loaded: Loaded, given: Any, about: Asked) -> Aimed:
    """Return the one input, and the one thing about it that is tested."""
    items, single = take(given, loaded, truncate=about.truncate, reads=about.reads)
    warn_of_unknown(items, loaded)
    if not single:
        raise BadEncoding(
            f"trust takes one input at a time. Got {len(items)}: call it for each, or whence.evaluate."
        )
    aimed = aim(loaded, items, about)
    if aimed.join is not None:
        raise BadEncoding(
            "Two answers of several tokens are held against each other by the difference of two explanations, which "
            "no model can be asked about. Test each answer: answer='...'."
        )
    if len(aimed.items) != 1:
        raise BadEncoding(
            f"trust tests one explanation at a time, and the model says {len(aimed.items)} things about "
            "this input. Say which one: at=..., or test each explanation: explanation.trust()."
        )
    return aimed


def _ways(remove: Removal | Literal["all"] | None, item: Encoded, loaded: Loaded) -> list[Removal]:
    """Return the ways of removal to test with, the one of the verdicts first."""
    known = [*get_args(Removal), "all"]
    if remove is not None and remove not in known:
        raise BadParameter(f"remove must be one of {', '.join(known)}. Got {remove!r}.")
    if remove != "all":
        return [resolve(remove, loaded.fillers, MANY)]
    have = [
        way
        for way in possible(loaded.fillers)
        if way != "delete" or deletable(item, loaded.anchors)
    ]
    return sorted(have, key=lambda way: MANY.index(way) if way in MANY else len(MANY))


def _backwards(explanations: Sequence[Explanation]) -> int:
    """Return the backward passes behind explanations that were made together: that of the trace is shared."""
    made = [one.passes.backward for one in explanations]
    return int(any(made)) + sum(one - 1 for one in made if one > 1)


def _tested(
    loaded: Loaded,
    item: Encoded,
    explanations: Sequence[Explanation],
    *,
    ways: list[Removal],
    unit: Unit,
    policy: Policy,
    answers: Answers,
    runs: Runs,
    made: Passes,
    started: float,
    budget: int | None,
    seed: int,
    progress: Progress | None,
) -> Trust:
    """Test explanations of one input. `runs` counts the model's forwards; `made` is what else making these took."""
    meter = Meter(progress)
    trial = trial_of(
        loaded,
        item,
        explanations,
        how=ways[0],
        unit=unit,
        policy=policy,
        remaker=Remaker(loaded, policy, meter.add),
        seed=seed,
        answers=answers,
        progress=meter.add,
    )

    def spent() -> Passes:
        drawn = 0 if answers.infill is None else answers.infill.forwards
        forward = made.forward + runs.forward + drawn
        return Passes(forward, made.backward + trial.again.passes.backward)

    return assess(
        trial,
        merge([one.to_dict() for one in explanations]),
        prices=trial.again.prices,
        spent=spent,
        started=started,
        removals=ways,
        unit=unit,
        budget=budget,
        meter=meter,
    )
