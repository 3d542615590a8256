"""A data set in portions: what of it is explained for the same target, and fits into memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadExamples, BadPicture, WhenceError, short
from whence.data.sets.examples import Example
from whence.data.sets.labels import label_places
from whence.data.vision.masks import fitted
from whence.explainer.aims import one_each
from whence.explainer.verify.testing import Known
from whence.models import Loaded

GOLD = "gold"  # the target that is each example's own label
PICTURES = 32  # unpacked at once

Refuse = Callable[[int, WhenceError], None]  # an example's number, and why it cannot be explained


@dataclass(frozen=True)
class Portion:
    """Some examples by their numbers, what to explain of them, and what people said of each."""

    numbers: list[int]
    target: Any
    known: list[Known]


def is_gold(target: Any, loaded: Loaded) -> bool:
    """Say whether this target is each example's own label, and none that the model calls so."""
    return bool(isinstance(target, str) and target == GOLD and GOLD not in loaded.labels)


def portions(
    given: Sequence[Example],
    loaded: Loaded,
    target: Any,
    refuse: Refuse,
    *,
    alone: bool = False,
) -> Iterator[Portion]:
    """Cut a data set: texts by target, pictures by target and a few at a time, as their pixels are large.

    The labels of a data set are all written in the same way. With `alone`, each is read by itself: what becomes of an
    example then depends on no other.
    """
    gold = is_gold(target, loaded)
    truths = _each(given, loaded) if alone else _truths(given, loaded, must=gold)
    for aim, numbers in _aims(given, truths, target, gold, refuse):
        seen = [number for number in numbers if given[number].seen]
        read = [number for number in numbers if not given[number].seen]
        if read:
            yield Portion(read, aim, [Known(truths[number]) for number in read])
        for start in range(0, len(seen), PICTURES):
            yield from _outlined(given, loaded, truths, seen[start : start + PICTURES], aim, refuse)


def _aims(
    given: Sequence[Example],
    truths: Sequence[int | None],
    target: Any,
    gold: bool,
    refuse: Refuse,
) -> Iterator[tuple[Any, list[int]]]:
    listed = one_each("target", target, len(given))
    if listed is not None:
        numbers: dict[str, list[int]] = {}
        for number, one in enumerate(listed):
            numbers.setdefault(repr(one), []).append(number)
        yield from ((listed[own[0]], own) for own in numbers.values())
        return
    if not gold:
        yield target, list(range(len(truths)))
        return
    for label in sorted({truth for truth in truths if truth is not None}):
        yield label, [number for number, truth in enumerate(truths) if truth == label]
    for number, truth in enumerate(truths):
        if truth is None:
            said = given[number].label
            has = (
                "no label"
                if said is None
                else f"the label {short(said)!r}, which is none of the model's"
            )
            why = f"The example has {has}, and its own was to be explained. Give it one, or another target."
            refuse(number, BadExamples(why))


def _truths(given: Sequence[Example], loaded: Loaded, *, must: bool) -> list[int | None]:
    """Return the number of each example's label among the model's; none, if they are not the model's labels."""
    try:
        places = label_places([one.label for one in given if one.label is not None], loaded.labels)
    except BadExamples:
        if must:
            raise
        return [None] * len(given)
    return [None if one.label is None else places[one.label] for one in given]


def _each(given: Sequence[Example], loaded: Loaded) -> list[int | None]:
    """Return the number of each example's label among the model's; none where it is not one of them."""
    return [truth for one in given for truth in _truths([one], loaded, must=False)]


def _outlined(
    given: Sequence[Example],
    loaded: Loaded,
    truths: Sequence[int | None],
    numbers: Sequence[int],
    aim: Any,
    refuse: Refuse,
) -> Iterator[Portion]:
    """Read the masks of some pictures; a picture whose mask cannot be read is none that can be tested."""
    kept, known = [], []
    for number in numbers:
        mask = given[number].mask
        try:
            outline = (
                None if mask is None or loaded.processor is None else fitted(mask, loaded.processor)
            )
        except BadPicture as error:
            refuse(number, error)
            continue
        kept.append(number)
        known.append(Known(truths[number], outline))
    if kept:
        yield Portion(kept, aim, known)
