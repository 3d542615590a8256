"""What is explained of each input of a data set: one thing, and one input that has none does not stop the others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from whence.core.errors import WhenceError
from whence.data import Encoded
from whence.explainer.aims import Aimed, Asked, aim, by_target
from whence.models import Loaded

# Told of an input that failed: its number, the method, if it was that, and why.
Failed = Callable[[int, str | None, WhenceError], None]


@dataclass(frozen=True)
class Inputs:
    """The inputs of a data set that could be taken, by their numbers in it, and how many were given."""

    numbers: list[int]
    items: list[Encoded]
    given: int


def aim_each(
    loaded: Loaded, inputs: Inputs, asked: Asked, failed: Failed | None
) -> Iterator[tuple[list[int], Aimed]]:
    """Yield the inputs that can be read, by their numbers, with what is explained of each; one target at a time.

    Of several things that could be explained of an input, a tagger's entities, it is the first. With `failed`, what
    cannot be read is reported there.
    """
    items = dict(zip(inputs.numbers, inputs.items, strict=True))
    for rows, own in by_target(asked, inputs.given):
        numbers = [row for row in rows if row in items]
        kept, aimed = _aim_some(loaded, [items[row] for row in numbers], numbers, own, failed)
        if aimed is not None:
            yield kept, aimed


def _aim_some(
    loaded: Loaded,
    items: list[Encoded],
    numbers: Sequence[int],
    asked: Asked,
    failed: Failed | None,
) -> tuple[list[int], Aimed | None]:
    if not items:
        return [], None
    try:
        return _first(aim(loaded, items, asked), numbers)
    except WhenceError:
        if failed is None:
            raise
    kept: list[int] = []
    found: list[Aimed] = []
    for number, item in zip(numbers, items, strict=True):
        try:
            own, aimed = _first(aim(loaded, [item], asked), [number])
        except WhenceError as error:
            failed(number, None, error)
            continue
        kept += own
        found.append(aimed)
    if not found:
        return [], None
    # What was asked is the same for all of them, and so is the target; only the inputs differ.
    return kept, replace(found[0], items=[item for one in found for item in one.items])


def _first(aimed: Aimed, numbers: Sequence[int]) -> tuple[list[int], Aimed]:
    if aimed.owners is None:
        return list(numbers), aimed
    firsts: dict[int, Encoded] = {}
    for owner, item in zip(aimed.owners, aimed.items, strict=True):
        firsts.setdefault(owner, item)
    kept = [numbers[owner] for owner in firsts]
    return kept, replace(aimed, items=list(firsts.values()), owners=None)
