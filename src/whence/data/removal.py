"""Removing tokens is one decision, made here: delete them, or put something else in their place.

That is a mask, a padding or an unknown token, or what a masked language model draws in their stead: then the answer
is the mean over several draws.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal, cast, get_args

from whence.core.errors import BadParameter
from whence.data.reading import AtPlace
from whence.data.text.encode import Encoded
from whence.data.vision.picture import FILLS, Fill

Removal = Literal["mask", "delete", "pad", "unk", "draw", "black", "mean", "blur"]

DRAWS = 5  # how often a hole is filled by "draw"

# Where many tokens go at once, deleting them makes a text of another length, and at last none at all: only where
# nothing can stand in for them.
MANY: tuple[Removal, ...] = ("mask", "pad", "unk", "delete")


def suited(fillers: Mapping[str, int], pictures: bool) -> Mapping[str, int]:
    """Return the fillers for pictures, or those for texts: a model that takes both has both."""
    return {name: value for name, value in fillers.items() if (name in FILLS) == pictures}


def resolve(
    how: Removal | None,
    fillers: Mapping[str, int],
    prefer: Collection[Removal] = ("mask", "delete"),
) -> Removal:
    """Return the way of removal: the one asked for, if this model has it; else the first possible in `prefer`."""
    if how is None and any(fill in fillers for fill in FILLS):
        return "mean"
    if how is None:
        return next(name for name in prefer if name == "delete" or name in fillers)
    if how == "draw" and how not in fillers:
        raise BadParameter(
            "remove='draw' needs a masked language model with the vocabulary of this one: whence.load(..., mlm=...), "
            f"--mlm. Possible without: {', '.join(possible(fillers))}."
        )
    if how in FILLS and how not in fillers:
        raise BadParameter(
            f"remove={how!r} is for pictures, and this model takes text. "
            f"Possible here: {', '.join(possible(fillers))}."
        )
    if how not in fillers and (how != "delete" or how not in possible(fillers)):
        if any(fill in fillers for fill in FILLS):
            raise BadParameter(
                f"remove={how!r} is for texts, and this model takes pictures. "
                f"Possible here: {', '.join(possible(fillers))}."
            )
        raise BadParameter(
            f"remove={how!r} needs a {how} token, and this model's tokenizer has none. "
            f"Possible here: {', '.join(possible(fillers))}."
        )
    return how


def without(
    item: Encoded, places: Collection[int], how: Removal, fillers: Mapping[str, int]
) -> Encoded:
    """Return `item` with the tokens at `places` removed; for "draw", with masks that are to be filled."""
    gone = frozenset(places) - questioned(item, fillers)
    if item.picture is not None:
        picture = item.picture.without(gone, cast(Fill, how))
        return replace(item, picture=picture, tokens=(), words=())
    sources = len(item) - len(item.answer)
    reading, answer = item.reading, item.answer
    if how == "delete":
        if gone.issuperset(range(sources)):
            others = [name for name in possible(fillers) if name != "delete"]
            instead = f"Possible instead: {', '.join(others)}." if others else "Give a longer text."
            raise BadParameter(
                f"remove='delete' would leave nothing of an input of {len(item)} token(s). {instead}"
            )
        stay = [place for place in range(sources) if place not in gone]
        features = {
            name: tuple(values[place] for place in stay) for name, values in item.features.items()
        }
        kept = [place for place in range(sources, len(item)) if place not in gone]
        answer = tuple(answer[place - sources] for place in kept)
        if answer != item.answer and kept[:1] != [sources]:
            raise BadParameter(
                "remove='delete' would delete the token with which the decoder starts. Use mask, pad or unk."
            )
        if reading is not None:
            # Where there is a decoder, its tokens are what a reading counts.
            read = [place - sources for place in kept] if answer else stay
            length = len(item.answer) or sources
            reading = reading.at([_moved(place, read, length) for place in reading.places])
    else:
        changed = list(item.ids)  # of a long text, much quicker than to ask about every place
        for place in gone:
            changed[place] = fillers[how]
        filled = tuple(changed)
        features = {**item.features, "input_ids": filled[:sources]}
        answer = filled[sources:]
    # What is left is for the model, not for a person: tokens and words would no longer fit.
    return Encoded(
        features, (), (), item.source, answer=answer, reading=reading, labels=item.labels
    )


def questioned(item: Encoded, fillers: Mapping[str, int]) -> frozenset[int]:
    """Return the place of the mask that is to be filled: it is the question, and stays."""
    reading = item.reading
    if isinstance(reading, AtPlace) and reading.ids and 0 <= reading.place < len(item):
        masks = {fillers.get("mask"), fillers.get("draw")}
        return frozenset({reading.place} if item.ids[reading.place] in masks else ())
    return frozenset()


def _moved(place: int, stay: list[int], length: int) -> int:
    """Return where a place is among those that stay.

    A place that counts from the end is one at which the next token is foretold: where its own token goes, that
    happens at the one before it.
    """
    if place < 0:
        before = [one for one in stay if one <= place + length]
        if before:
            return len(before) - 1 - len(stay)
    elif place in stay:
        return stay.index(place)
    raise BadParameter(
        "remove='delete' would delete the very token at which the model is read. Use mask, pad or unk."
    )


def calls_per_hole(how: Removal | None) -> int:
    """Return how many forward passes it takes to know what a model says without some tokens."""
    return 1 + DRAWS if how == "draw" else 1


def removable(item: Encoded, anchors: Collection[int]) -> list[int]:
    """Return the places of all tokens but those that the model cannot miss: its anchors, and a decoder's start."""
    start = len(item) - len(item.answer) if item.answer else None
    return [
        place
        for place, identity in enumerate(item.ids)
        if identity not in anchors and place != start
    ]


def players(item: Encoded, anchors: Collection[int]) -> list[int]:
    """Return the places of the tokens that can come and go: those of the text, less what the model cannot miss."""
    return [
        place
        for place, token in enumerate(item.tokens)
        if not token.special and token.id not in anchors
    ]


def deletable(item: Encoded, anchors: Collection[int]) -> bool:
    """Say whether every token that can go can be deleted: not one at which the model is read."""
    places = () if item.reading is None else item.reading.places
    return not set(players(item, anchors)).intersection(places)


def possible(fillers: Mapping[str, int]) -> list[Removal]:
    """Name the ways of removal that a model has."""
    if any(fill in fillers for fill in FILLS):
        return list(FILLS)
    return [name for name in get_args(Removal) if name == "delete" or name in fillers]


"""Sets of players, all different: every set where the budget allows, else a sample spread over the sizes."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Stratum:
    """All sets of one size, or those of them that hold player 0. `mass` is what they weigh together."""

    players: int
    size: int
    mass: float
    with_first: bool = False

    @property
    def count(self) -> int:
        """How many sets there are."""
        return comb(self.players - self.with_first, self.size - self.with_first)

    def all(self) -> Iterator[tuple[int, ...]]:
        """Every set, once."""
        head = (0,) * self.with_first
        others = range(self.with_first, self.players)
        for rest in combinations(others, self.size - self.with_first):
            yield head + rest

    def some(self, number: int, draw: np.random.Generator) -> list[tuple[int, ...]]:
        """So many different sets, each as likely as any other."""
        if self.count <= 4 * number:
            every = list(self.all())
            return [every[i] for i in draw.choice(len(every), number, replace=False)]
        head = (0,) * self.with_first
        found: dict[tuple[int, ...], None] = {}
        while len(found) < number:  # a draw is new three times out of four, or more often
            rest = draw.choice(
                self.players - self.with_first, self.size - self.with_first, replace=False
            )
            found[head + tuple(sorted(int(i) + self.with_first for i in rest))] = None
        return list(found)


def spread(
    strata: Sequence[Stratum], budget: int, draw: np.random.Generator
) -> list[tuple[tuple[int, ...], float]]:
    """Return `budget` different sets, or all if there are no more, each with its part of the mass.

    A stratum that has no more sets than its mass would get of the budget is taken whole, and what it leaves goes
    to the others; from those, sets are drawn in proportion to the mass. A weighted sum over the result has the
    expectation of as many independent draws and less variance, and no set comes twice.
    """
    chosen: list[tuple[tuple[int, ...], float]] = []
    rest, left = list(strata), budget
    while rest:
        mass = sum(stratum.mass for stratum in rest)
        whole = [s for s in rest if s.count <= left * s.mass / mass + 1e-9]
        if not whole:
            break
        for stratum in whole:
            chosen += [(one, stratum.mass / stratum.count) for one in stratum.all()]
            left -= stratum.count
        rest = [stratum for stratum in rest if stratum not in whole]
    if not rest or not left:
        return chosen
    # One random offset, then even steps through the mass: a stratum gets its fair number, rounded up or down.
    edges = np.cumsum([stratum.mass for stratum in rest]) / mass * left
    owners = np.searchsorted(edges[:-1], np.arange(left) + draw.random(), side="right")
    for stratum, number in zip(rest, np.bincount(owners, minlength=len(rest)), strict=True):
        chosen += [(one, mass / left) for one in stratum.some(int(number), draw)]
    return chosen


def presence(
    players: int, absent: Sequence[Collection[int]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a row for each set of absent players: 0 for them, 1 for the others."""
    rows = np.ones((len(absent), players))
    for row, gone in zip(rows, absent, strict=True):
        row[list(gone)] = 0
    return rows
