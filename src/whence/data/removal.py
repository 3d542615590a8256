"""Token removal by deletion or replacement, the removable positions, and coalition sampling for SHAP and LIME.

A removed token is deleted, or replaced by a mask, padding or unknown token, or by draws of a masked language
model; the answer is then the mean over several draws.

Coalitions are sets of features, all different: every set where the budget allows, else a sample spread over
the sizes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import comb
from typing import Any, Literal, cast, get_args

import numpy as np

from whence.core.errors import BadParameter
from whence.data.batches import Variants
from whence.data.images import IMAGE_FILLS, ImageFill
from whence.data.readout import TokenReadout
from whence.data.tokens import EncodedInput


@dataclass(frozen=True)
class CoalitionStratum:
    """All coalitions of one size, or those with player 0. `mass` is their total weight."""

    players: int
    size: int
    mass: float
    with_first: bool = False

    @property
    def count(self) -> int:
        """The number of coalitions."""
        return comb(self.players - self.with_first, self.size - self.with_first)

    def iterate_all(self) -> Iterator[tuple[int, ...]]:
        """Yield every coalition once."""
        others = range(self.with_first, self.players)
        for rest in combinations(others, self.size - self.with_first):
            yield (0,) * self.with_first + rest

    def draw_some(self, number: int, draw: np.random.Generator) -> list[tuple[int, ...]]:
        """Return `number` different coalitions, each equally likely."""
        if self.count <= 4 * number:
            pool = list(self.iterate_all())
            return [pool[i] for i in draw.choice(len(pool), number, replace=False)]
        head = (0,) * self.with_first
        coalitions: dict[tuple[int, ...], None] = {}
        while len(coalitions) < number:  # at least three draws of four are new
            rest = draw.choice(
                self.players - self.with_first, self.size - self.with_first, replace=False
            )
            coalitions[head + tuple(sorted(int(i) + self.with_first for i in rest))] = None
        return list(coalitions)


def sample_coalitions(
    strata: Sequence[CoalitionStratum], budget: int, draw: np.random.Generator
) -> list[tuple[tuple[int, ...], float]]:
    """Return `budget` different coalitions, or all if there are no more, each with its weight.

    A stratum with no more sets than its share of the budget is taken whole, and the unused budget goes
    to the others; from those, sets are drawn in proportion to the mass. A weighted sum over the result has the
    expectation of as many independent draws and less variance, and no set comes twice.
    """
    sample: list[tuple[tuple[int, ...], float]] = []
    rest, left = list(strata), budget
    while rest:
        mass = sum(stratum.mass for stratum in rest)
        whole = [s for s in rest if s.count <= left * s.mass / mass + 1e-9]
        if not whole:
            break
        for stratum in whole:
            sample += [(players, stratum.mass / stratum.count) for players in stratum.iterate_all()]
            left -= stratum.count
        rest = [stratum for stratum in rest if stratum not in whole]
    if not rest or not left:
        return sample
    # Systematic sampling, one random offset and even steps: each stratum gets its share, rounded up or down.
    edges = np.cumsum([stratum.mass for stratum in rest]) / mass * left
    owners = np.searchsorted(edges[:-1], np.arange(left) + draw.random(), side="right")
    for stratum, number in zip(rest, np.bincount(owners, minlength=len(rest)), strict=True):
        sample += [(players, mass / left) for players in stratum.draw_some(int(number), draw)]
    return sample


def build_presence_matrix(
    players: int, absent: Sequence[Collection[int]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a row per set of absent players: 0 for them, 1 for the others."""
    rows = np.ones((len(absent), players))
    for row, gone in zip(rows, absent, strict=True):
        row[list(gone)] = 0
    return rows


Removal = Literal["mask", "delete", "pad", "unk", "draw", "black", "mean", "blur"]

DRAWS_PER_REMOVAL = 5  # draws of replacement tokens per removal by "draw"

# The order of preference for removing many tokens at once. Deletion changes the length, and in the end leaves
# no text at all, so it comes last.
BULK_REMOVALS: tuple[Removal, ...] = ("mask", "pad", "unk", "delete")


def select_replacements(fillers: Mapping[str, int], pictures: bool) -> Mapping[str, int]:
    """Return the replacements for images, or those for texts; a model for both has both."""
    return {name: value for name, value in fillers.items() if (name in IMAGE_FILLS) == pictures}


def resolve_removal(
    how: Removal | None,
    fillers: Mapping[str, int],
    prefer: Collection[Removal] = ("mask", "delete"),
) -> Removal:
    """Return the way of removal: the requested one, if the model has it, else the first of `prefer`."""
    if how is None and any(fill in fillers for fill in IMAGE_FILLS):
        return "mean"
    if how is None:
        return next(name for name in prefer if name == "delete" or name in fillers)
    possible = list_removals(fillers)
    if how in fillers or how in possible:
        return how
    reason = f"needs a {how} token, and this model's tokenizer has none. Possible here"
    if how == "draw":
        reason = (
            "needs a masked language model with the vocabulary of this one: whence.load(..., mlm=...), --mlm. "
            "Possible without"
        )
    elif how in IMAGE_FILLS:
        reason = "is for pictures, and this model takes text. Possible here"
    elif possible[0] in IMAGE_FILLS:
        reason = "is for texts, and this model takes pictures. Possible here"
    raise BadParameter(f"remove={how!r} {reason}: {', '.join(possible)}.")


def delete_tokens(
    item: EncodedInput, places: Collection[int], fillers: Mapping[str, int]
) -> EncodedInput:
    """Return a text without the tokens at `places`; its readout moves with those that stay."""
    gone = frozenset(places) - find_queried_mask(item, fillers)
    sources = len(item) - len(item.answer)
    stay = [place for place in range(sources) if place not in gone]
    if not stay:
        others = [name for name in list_removals(fillers) if name != "delete"]
        instead = f"Possible instead: {', '.join(others)}." if others else "Give a longer text."
        raise BadParameter(
            f"remove='delete' would leave nothing of an input of {len(item)} token(s). {instead}"
        )
    answer_places = [place for place in range(sources, len(item)) if place not in gone]
    if len(answer_places) < len(item.answer) and answer_places[:1] != [sources]:
        raise BadParameter(
            "remove='delete' would delete the token with which the decoder starts. Use mask, pad or unk."
        )
    reading, answer = item.reading, tuple(item.ids[place] for place in answer_places)
    if reading is not None:
        # With a decoder, positions of a readout count its tokens.
        read = [place - sources for place in answer_places] if answer else stay
        length = len(item.answer) or sources
        reading = reading.at([_remap_position(place, read, length) for place in reading.places])
    features = {name: tuple(own[place] for place in stay) for name, own in item.features.items()}
    # The result is for the model only: tokens and words would no longer match.
    return EncodedInput(
        features, (), (), item.source, answer=answer, reading=reading, labels=item.labels
    )


def remove_sets(
    items: Sequence[EncodedInput],
    owners: Sequence[int],
    sets: Sequence[Collection[int]],
    how: Removal,
    fillers: Mapping[str, int],
) -> Variants:
    """Return variants of inputs: of each owner (an input's number) without one set of its tokens."""
    reads = any(item.answer or (item.reading and item.reading.places) for item in items)
    if how == "delete" and reads:  # the readout of each variant is at other positions
        pairs = zip(owners, sets, strict=True)
        return Variants.of([delete_tokens(items[row], places, fillers) for row, places in pairs])
    whole = Variants.of(items, owners)
    gone = np.zeros(whole.changed.shape, dtype=bool)
    rows = np.repeat(np.arange(len(sets)), [len(places) for places in sets])
    gone[rows, np.fromiter(chain.from_iterable(sets), np.int64, len(rows))] = True
    for row, item in enumerate(items):
        for place in find_queried_mask(item, fillers):
            gone[whole.owners == row, place] = False
    if items[0].picture is not None:
        return replace(whole, changed=gone, fill=cast(ImageFill, how))
    if how != "delete":
        return replace(whole, changed=np.where(gone, fillers[how], whole.changed))
    for row in (gone.sum(1) >= whole.lengths).nonzero()[0]:
        delete_tokens(items[owners[row]], sets[row], fillers)  # raises the error
    return whole.delete(gone)


def find_queried_mask(item: EncodedInput, fillers: Mapping[str, int]) -> frozenset[int]:
    """Return the position of the mask that the target is about: it is the question, and stays."""
    reading = item.reading
    if isinstance(reading, TokenReadout) and reading.ids and 0 <= reading.place < len(item):
        masks = {fillers.get("mask"), fillers.get("draw")}
        return frozenset({reading.place} if item.ids[reading.place] in masks else ())
    return frozenset()


def _remap_position(place: int, stay: list[int], length: int) -> int:
    """Return the new index of a position after deletion.

    At a position counted from the end the next token is predicted: if its own token is deleted, that
    happens at the one before it.
    """
    if place < 0:
        before = [position for position in stay if position <= place + length]
        if before:
            return len(before) - 1 - len(stay)
    elif place in stay:
        return stay.index(place)
    raise BadParameter(
        "remove='delete' would delete the very token at which the model is read. Use mask, pad or unk."
    )


def count_passes_per_removal(how: Removal | None) -> int:
    """Return the forward passes per removal: 1, or for "draw" 1 and one per draw."""
    return 1 + DRAWS_PER_REMOVAL if how == "draw" else 1


def list_removable_tokens(item: EncodedInput, anchors: Collection[int]) -> list[int]:
    """Return the positions of all tokens but the model's anchors and a decoder's start."""
    start = len(item) - len(item.answer) if item.answer else None
    return [
        place
        for place, identity in enumerate(item.ids)
        if identity not in anchors and place != start
    ]


def list_players(item: EncodedInput, anchors: Collection[int]) -> list[int]:
    """Return the positions of the features: tokens of the text, without special tokens and anchors."""
    return [
        place
        for place, token in enumerate(item.tokens)
        if not token.special and token.id not in anchors
    ]


def can_delete_tokens(item: EncodedInput, anchors: Collection[int]) -> bool:
    """Return whether every feature can be deleted: none is at a position of the readout."""
    places = () if item.reading is None else item.reading.places
    return not set(list_players(item, anchors)).intersection(places)


def list_removals(fillers: Mapping[str, int]) -> list[Removal]:
    """Return the ways of removal that a model has."""
    if any(fill in fillers for fill in IMAGE_FILLS):
        return list(IMAGE_FILLS)
    return [name for name in get_args(Removal) if name == "delete" or name in fillers]
