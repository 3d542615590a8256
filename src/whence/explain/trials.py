"""Putting explanations on trial: the model, the input and the claims, as the metrics take them."""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch

from whence.capture import Answers, Ask, Targets, TargetSpec, probabilities
from whence.core.errors import BadParameter, UnknownMethod, WhenceError
from whence.core.types import Task
from whence.data import Encoded, Policy, collate
from whence.data.removal import Removal, players
from whence.explainer.aims.each import Failed, Inputs
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, take_each
from whence.explainer.request import Request, requests
from whence.explainer.verify.again import Claim, Remaker, in_units
from whence.models import Loaded
from whence.trial import Removed, Trial

Unit = Literal["token", "word"]
Units = tuple[tuple[int, ...], ...]
Marks = Callable[[int, Encoded, Units], Sequence[bool] | None]


@dataclass(frozen=True)
class Known:
    """What people said about an input: the label they gave it, and what of a picture they outlined."""

    truth: int | None = None
    mask: np.ndarray[Any, np.dtype[np.int8]] | None = (
        None  # (height, width), see whence.trial.Trial
    )


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
    known: Known | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Trial:
    """Put explanations of one input and one target on trial."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadParameter(f"seed must be a whole number. Got {seed!r}.")
    first = explanations[0]
    against = None if first.target.against is None else first.target.against.index
    of = first.asked.of
    spec = TargetSpec(first.target.index, against, of)
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
        checkpoint=loaded.checkpoint,
        progress=progress,
    )
    units = units_of(item, unit, loaded)
    shares = probabilities(logits, loaded.task)[0].cpu().numpy()
    marked = None if marks is None else marks(item, units)
    return Trial(
        item=item,
        task=loaded.task,
        names=tuple(one.method for one in explanations),
        scores=np.stack([_scores(one, units, unit) for one in explanations]),
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
                of,
                units if unit == "word" else None,
            )
        ),
        marked=None if marked is None else tuple(marked),
        mask=None if known is None else known.mask,
        truth=None if known is None else known.truth,
        fine=tuple(None if one.shown is None else one.shown.fine for one in explanations),
        seed=seed,
        slope=_slope(first, spec, loaded.task),
    )


def _scores(explanation: Explanation, units: Units, unit: Unit) -> np.ndarray[Any, Any]:
    """Return the scores of an explanation's tokens, such that those of a unit add up to what the unit has."""
    scores = explanation.scores.astype(np.float64)
    if unit == "token" or explanation.words_by == "sum":
        return scores
    places = [frozenset(word.tokens) for word in explanation.spans]
    own = {
        place: score
        for word, score in zip(places, explanation.word_scores, strict=True)
        for place in word
    }
    return in_units(scores, units, [float(own[hole[0]]) for hole in units])


def inputs_of(texts: Any, loaded: Loaded, truncate: bool, failed: Failed | None) -> Inputs:
    """Return the inputs that can be taken, and how many there were; `failed` gets the others."""
    texts = texts if isinstance(texts, Sized) else list(texts)
    numbers, items = taken(cast(Iterable[Any], texts), loaded, truncate, failed)
    return Inputs(numbers, items, len(items) if failed is None else len(texts))


def taken(
    texts: Iterable[Any], loaded: Loaded, truncate: bool, failed: Failed | None
) -> tuple[list[int], list[Encoded]]:
    """Return the numbers of the inputs that can be taken, and these; `failed` gets the others."""
    if failed is None:
        items, _ = take(texts, loaded, truncate=truncate)
        return list(range(len(items))), items
    numbers, items = list[int](), list[Encoded]()
    if not loaded.sees:
        told = take_each(
            texts,
            loaded,
            truncate=truncate,
            refuse=lambda number, error: failed(number, None, error),
        )
        for number, item in told:
            numbers.append(number)
            items.append(item)
        return numbers, items
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
