"""What is explained of each input of a data set: one thing, and one input that has none does not stop the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from whence.core.errors import WhenceError
from whence.data import Encoded
from whence.explainer.aims import Aimed, Asked, aim
from whence.models import Loaded

# Told of an input that failed: its number, the method, if it was that, and why.
Failed = Callable[[int, str | None, WhenceError], None]


def aim_each(
    loaded: Loaded,
    items: list[Encoded],
    numbers: Sequence[int],
    asked: Asked,
    failed: Failed | None,
) -> tuple[list[int], Aimed | None]:
    """Return the inputs that can be read, by their numbers, with what is explained of each; None if there are none.

    Of several things that could be explained of an input, a tagger's entities, it is the first. With `failed`, what
    cannot be read is reported there.
    """
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
