"""Putting a whole data set on trial: what a method asks and what a metric asks is asked once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from whence.data import batches
from whence.data.removal import MANY, Removal, resolve
from whence.explainer.aims import Asked
from whence.explainer.aims.each import Failed, aim_each
from whence.explainer.explanation import Explanation
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.sharing import INPUTS
from whence.explainer.verify.again import Remaker
from whence.explainer.verify.rehearsing import rehearse
from whence.explainer.verify.testing import Known, Marks, Unit, explained, inputs_of, trial_of
from whence.explainer.work import Progress, Tally
from whence.trial import Trial
from whence.trial.rehearsal import Part


def trials(
    maker: Maker,
    given: Any,
    about: Asked,
    *,
    method: str | Sequence[str],
    params: Mapping[str, Any] | None,
    remove: Removal | None,
    unit: Unit,
    marks: Marks | None,
    known: Sequence[Known] | None,
    seed: int,
    failed: Failed | None,
    parts: Sequence[Part],
    batch_size: int,
    progress: Progress | None,
) -> Iterator[tuple[int, Trial, dict[str, Explanation]]]:
    """Explain inputs and put each on trial; see `Explainer.trials`."""
    loaded, sharing = maker.loaded, maker.sharing
    asked = requests(method, params, loaded.fillers)
    maker.require_head()
    how = resolve(remove, loaded.fillers, MANY)
    inputs = inputs_of(given, loaded, about.truncate, failed)
    if not inputs.items:
        return
    aims = list(aim_each(loaded, inputs, about, failed))
    tally = Tally(progress, [item for _, aimed in aims for item in aimed.items], asked)
    facts = maker.facts()
    for numbers, aimed in aims:
        items = aimed.items
        # Metrics ask about many variants of different lengths, whatever the methods do.
        policy = sharing.policy(items, batch_size, tests=True)
        asking = sharing.variants(policy, items)
        if batch_size < INPUTS:
            asking = replace(asking, size=min(asking.size, batch_size))
        policy = sharing.small_enough(policy, items, asked)
        explain = partial(
            maker.explain,
            spec=aimed.spec,
            policy=policy,
            facts=facts,
            tally=tally,
            before=aimed.forwards,
            words=unit == "word",
        )
        for chosen in batches(items, policy):
            answers = maker.answers(asking)
            own, some = [numbers[i] for i in chosen], [items[i] for i in chosen]
            every = explained(partial(explain, answers=answers), some, own, asked, failed)
            remaker = Remaker(loaded, policy)
            tried = [one for one in zip(own, some, every, strict=True) if one[2]]
            # All of a batch before the first is used: what is made again for them is then made together.
            ready = [
                trial_of(
                    loaded,
                    item,
                    list(found.values()),
                    how=how,
                    unit=unit,
                    policy=asking,
                    remaker=remaker,
                    seed=seed,
                    answers=answers,
                    marks=None if marks is None else partial(marks, i),
                    known=None if known is None else known[i],
                )
                for i, item, found in tried
            ]
            rehearse(loaded, ready, parts, answers)
            for trial, (i, _, found) in zip(ready, tried, strict=True):
                yield i, trial, found
