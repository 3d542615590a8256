"""Putting explanations on trial: the model, the input and the claims, as the metrics take them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch

from whence.capture import Answers, Ask, Targets, TargetSpec, probabilities
from whence.capture.counted import Runs
from whence.core.errors import BadParameter, CannotRead, UnknownMethod, WhenceError
from whence.core.types import Passes, Task
from whence.data import Encoded, Policy, collate
from whence.data.removal import MANY, Removal, players, possible, resolve
from whence.explainer.again import Claim, Remaker
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take
from whence.explainer.request import Request, requests
from whence.explainer.work import Progress
from whence.models import Loaded, fingerprint
from whence.trial import Removed, Trial
from whence.trust import Meter, Trust, assess
from whence.view import merge

Unit = Literal["token", "word"]
Units = tuple[tuple[int, ...], ...]
Failed = Callable[
    [int, str | None, WhenceError], None
]  # an input's number, and the method, if it was that
Marks = Callable[[int, Encoded, Units], Sequence[bool] | None]


def units_of(item: Encoded, unit: Unit, loaded: Loaded) -> Units:
    """Return the places that come and go together; special tokens are never removed."""
    free = set(players(item, loaded.anchors))
    if unit == "token":
        return tuple((place,) for place in sorted(free))
    if unit != "word":
        raise BadParameter(f"unit must be 'token' or 'word'. Got {unit!r}.")
    words = [tuple(place for place in word.tokens if place in free) for word in item.words]
    return tuple(word for word in words if word)


def trial_of(
    loaded: Loaded,
    item: Encoded,
    explanations: Sequence[Explanation],
    *,
    how: Removal,
    unit: Unit,
    policy: Policy,
    remaker: Remaker,
    seed: int,
    answers: Answers | None = None,
    marks: Callable[[Encoded, Units], Sequence[bool] | None] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Trial:
    """Put explanations of one input and one target on trial."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadParameter(f"seed must be a whole number. Got {seed!r}.")
    first = explanations[0]
    against = None if first.target.against is None else first.target.against.index
    spec = TargetSpec(first.target.index, against, first.target.of)
    logits = torch.tensor([first.prediction.logits], dtype=torch.float64, device=loaded.device)
    batch = collate([item], pad_id=loaded.pad_id, device=loaded.device)
    ask = Ask(
        loaded.model,
        batch,
        logits.to(loaded.dtype),
        Targets(*spec.resolve(logits), spec, loaded.task),
        fillers=loaded.fillers,
        anchors=loaded.anchors,
        pad_id=loaded.pad_id,
        policy=policy,
        answers=answers,
        infiller=loaded.infiller,
        progress=progress,
    )
    units = units_of(item, unit, loaded)
    shares = probabilities(logits, loaded.task)[0].cpu().numpy()
    marked = None if marks is None else marks(item, units)
    return Trial(
        item=item,
        task=loaded.task,
        names=tuple(one.method for one in explanations),
        scores=np.stack([one.scores.astype(np.float64) for one in explanations]),
        signed=tuple(one.signed for one in explanations),
        axioms=tuple(one.axioms for one in explanations),
        units=units,
        removed=Removed(ask, units, how, first.target, shares, loaded.task),
        again=remaker.add(
            Claim(
                item,
                {one.method: _request(one, loaded) for one in explanations},
                logits,
                first.target.index,
                against,
                first.target.of,
            )
        ),
        marked=None if marked is None else tuple(marked),
        seed=seed,
        slope=_slope(first, spec, loaded.task),
    )


def taken(
    texts: Iterable[Any], loaded: Loaded, truncate: bool, failed: Failed | None
) -> tuple[list[int], list[Encoded]]:
    """Return the numbers of the inputs that can be taken, and these; `failed` gets the others."""
    if failed is None:
        items, _ = take(texts, loaded, truncate=truncate)
        return list(range(len(items))), items
    numbers, items = [], []
    for number, text in enumerate(texts):
        try:
            (item,), _ = take([text], loaded, truncate=truncate)
        except WhenceError as error:
            failed(number, None, error)
        else:
            numbers.append(number)
            items.append(item)
    return numbers, items


def explained(
    explain: Callable[[Sequence[Encoded], Sequence[Request]], list[dict[str, Explanation]]],
    items: Sequence[Encoded],
    numbers: Sequence[int],
    asked: Sequence[Request],
    failed: Failed | None,
) -> list[dict[str, Explanation]]:
    """Explain a batch; where that fails and `failed` wants to know, one by one, without what cannot be done."""
    try:
        return explain(items, asked)
    except WhenceError:
        if failed is None:
            raise
    results: list[dict[str, Explanation]] = []
    for number, item in zip(numbers, items, strict=True):
        found: dict[str, Explanation] = {}
        for request in asked:
            try:
                found |= explain([item], [request])[0]
            except WhenceError as error:
                failed(number, request.name, error)
        results.append(found)
    return results


def ways_of(remove: Removal | Literal["all"] | None, loaded: Loaded) -> list[Removal]:
    """Return the ways of removal to test with, the one of the verdicts first."""
    known = [*get_args(Removal), "all"]
    if remove is not None and remove not in known:
        raise BadParameter(f"remove must be one of {', '.join(known)}. Got {remove!r}.")
    if remove != "all":
        return [resolve(remove, loaded.fillers, MANY)]
    have = possible(loaded.fillers)
    return sorted(have, key=lambda way: MANY.index(way) if way in MANY else len(MANY))


def item_of(explanation: Explanation, loaded: Loaded) -> Encoded:
    """Return the input that an explanation is of, if it is one of this model's."""
    made, here = explanation.model.get("fingerprint"), fingerprint(loaded.model)
    if made != here:
        raise BadParameter(
            f"The explanation is of the model {explanation.model.get('name')!r} ({made}), not of {loaded.name!r} "
            f"({here}). Give the model that it was made with."
        )
    scores = explanation.scores
    if scores.shape != (len(explanation.tokens),) or not np.isfinite(scores).all():
        raise BadParameter(
            f"An explanation to test must have one finite score for each of its {len(explanation.tokens)} tokens. "
            f"Its scores are {scores.shape} with {int((~np.isfinite(scores)).sum())} that are not finite."
        )
    if explanation.item is not None:
        return explanation.item
    source = explanation.source
    if source.text is None:
        raise CannotRead(
            "The explanation holds no text, so its input cannot be made again. Explain the input anew and test that."
        )
    given = source.text if source.pair is None else (source.text, source.pair)
    (item,), _ = take(given, loaded, truncate=True)
    if item.tokens != explanation.tokens:
        raise CannotRead(
            f"The tokenizer makes {len(item.tokens)} tokens of the text that are not the explanation's "
            f"{len(explanation.tokens)}. Give the tokenizer that it was made with."
        )
    return item


def backwards(explanations: Sequence[Explanation]) -> int:
    """Return the backward passes behind explanations that were made together: that of the trace is shared."""
    made = [one.passes.backward for one in explanations]
    return int(any(made)) + sum(one - 1 for one in made if one > 1)


def tested(
    loaded: Loaded,
    item: Encoded,
    explanations: Sequence[Explanation],
    *,
    ways: list[Removal],
    unit: Unit,
    policy: Policy,
    answers: Answers,
    runs: Runs,
    backward: int,
    started: float,
    budget: int | None,
    seed: int,
    progress: Progress | None,
) -> Trust:
    """Test explanations of one input. `runs` counts the model's forwards; making these took so many `backward`."""
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
        return Passes(runs.forward + drawn, backward + trial.again.passes.backward)

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


# The caller may sit in inference mode, and nothing that was made in it can be differentiated.
@torch.inference_mode(False)
def _slope(explanation: Explanation, spec: TargetSpec, task: Task) -> float:
    """Return how much the explained number moves with the logits: the sizes of its slopes, added up."""
    logits = torch.tensor([explanation.prediction.logits], dtype=torch.float64)
    return float(Targets(*spec.resolve(logits), spec, task).slope(logits).abs().sum())


def _request(explanation: Explanation, loaded: Loaded) -> Request | str:
    """Return how to make the explanation again, or why that cannot be."""
    try:
        (request,) = requests(explanation.method, dict(explanation.params), loaded.fillers)
    except UnknownMethod:
        return f"It cannot be made again: there is no method {explanation.method!r}."
    except BadParameter as error:
        return f"It cannot be made again. {error}"
    return request
