"""Removing tokens is one decision, made here: delete them, or put something else in their place.

That is a mask, a padding or an unknown token, or what a masked language model draws in their stead: then the answer
is the mean over several draws.
"""

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from whence.core.errors import BadParameter
from whence.data.encode import Encoded

Removal = Literal["mask", "delete", "pad", "unk", "draw"]

DRAWS = 5  # how often a hole is filled by "draw"

# Where many tokens go at once, deleting them makes a text of another length, and at last none at all: only where
# nothing can stand in for them.
MANY: tuple[Removal, ...] = ("mask", "pad", "unk", "delete")


def resolve(
    how: Removal | None,
    fillers: Mapping[str, int],
    prefer: Collection[Removal] = ("mask", "delete"),
) -> Removal:
    """Return the way of removal: the one asked for, if this model has it; else the first possible in `prefer`."""
    if how is None:
        return next(name for name in prefer if name == "delete" or name in fillers)
    if how == "draw" and how not in fillers:
        raise BadParameter(
            "remove='draw' needs a masked language model with the vocabulary of this one: whence.load(..., mlm=...), "
            f"--mlm. Possible without: {', '.join(possible(fillers))}."
        )
    if how != "delete" and how not in fillers:
        raise BadParameter(
            f"remove={how!r} needs a {how} token, and this model's tokenizer has none. "
            f"Possible here: {', '.join(possible(fillers))}."
        )
    return how


def without(
    item: Encoded, places: Collection[int], how: Removal, fillers: Mapping[str, int]
) -> Encoded:
    """Return `item` with the tokens at `places` removed; for "draw", with masks that are to be filled."""
    gone = frozenset(places)
    if how == "delete":
        if len(gone) == len(item):
            others = [name for name in possible(fillers) if name != "delete"]
            instead = f"Possible instead: {', '.join(others)}." if others else "Give a longer text."
            raise BadParameter(
                f"remove='delete' would leave nothing of an input of {len(item)} token(s). {instead}"
            )
        stay = [place for place in range(len(item)) if place not in gone]
        features = {
            name: tuple(values[place] for place in stay) for name, values in item.features.items()
        }
    else:
        filler = fillers[how]
        filled = tuple(
            filler if place in gone else identity for place, identity in enumerate(item.ids)
        )
        features = {**item.features, "input_ids": filled}
    # What is left is for the model, not for a person: tokens and words would no longer fit.
    return Encoded(features, (), (), item.source)


def calls_per_hole(how: Removal | None) -> int:
    """Return how many forward passes it takes to know what a model says without some tokens."""
    return 1 + DRAWS if how == "draw" else 1


def players(item: Encoded, anchors: Collection[int]) -> list[int]:
    """Return the places of the tokens that can come and go: those of the text, less what the model cannot miss."""
    return [
        place
        for place, token in enumerate(item.tokens)
        if not token.special and token.id not in anchors
    ]


def possible(fillers: Mapping[str, int]) -> list[Removal]:
    """Name the ways of removal that a model has."""
    return [name for name in get_args(Removal) if name == "delete" or name in fillers]
