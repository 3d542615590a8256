"""How the outputs of a model become a few that can be told apart: where to look, and for what.

A classifier gives one row of logits, and needs no reading. Every other model does: a tagger says something about each
token, a language model weighs its whole vocabulary, a question answerer points at two places. A reading picks what is
explained and makes it a small classification, so that every method, metric and page works as it does for a
classifier. Where what is left over is a column of its own, the last one, the columns' softmax is the model's
own probability.

Places count the input's tokens; negative ones count from its end, and stay right when tokens before them are deleted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Part = Literal["span", "start", "end"]


@dataclass(frozen=True)
class AtPlace:
    """The outputs at one token: those of `ids`, and all others together; without ids, each of them."""

    place: int
    ids: tuple[int, ...] = ()

    @property
    def rest(self) -> bool:
        """Whether the last column is all that was not named."""
        return bool(self.ids)

    @property
    def places(self) -> tuple[int, ...]:
        """The tokens at which the model is read."""
        return (self.place,)

    def at(self, places: Sequence[int]) -> "AtPlace":
        """Return the same reading at other places."""
        return replace(self, place=places[0])


@dataclass(frozen=True)
class Column:
    """One output of a classifier, and all others together.

    Where it is one question of several (is it about sport? about money?), `beside` names the other ones and says what
    the output is for each: what was predicted is the best of them all, what is explained this one.
    """

    index: int
    beside: tuple[tuple[str, float], ...] = ()
    rest: Literal[True] = True
    places: tuple[int, ...] = ()

    def at(self, places: Sequence[int]) -> "Column":
        """Return the same reading: it has no places."""
        return self


@dataclass(frozen=True)
class Entity:
    """The mean over an entity's tokens; `columns` says which output of each token stands for each kind."""

    places: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]  # by place, by kind
    rest: Literal[False] = False

    def at(self, places: Sequence[int]) -> "Entity":
        """Return the same reading at other places."""
        return replace(self, places=tuple(places))


@dataclass(frozen=True)
class Span:
    """An answer in a text: where it starts, where it ends, or both; against all other places.

    `others` are further answers with a column of their own.
    """

    start: int
    end: int
    part: Part = "span"
    others: tuple[tuple[int, int], ...] = ()
    rest: Literal[True] = True

    @property
    def places(self) -> tuple[int, ...]:
        """The tokens at which the model is read."""
        return (self.start, self.end, *(place for other in self.others for place in other))

    def at(self, places: Sequence[int]) -> "Span":
        """Return the same reading at other places."""
        others = tuple(zip(places[2::2], places[3::2], strict=True))
        return replace(self, start=places[0], end=places[1], others=others)


@dataclass(frozen=True)
class Continuation:
    """The log-probability of a whole answer, token by token; against that of any other."""

    places: tuple[int, ...]  # where each token is foretold: one before it
    ids: tuple[int, ...]
    rest: Literal[True] = True

    def at(self, places: Sequence[int]) -> "Continuation":
        """Return the same reading at other places."""
        return replace(self, places=tuple(places))


@dataclass(frozen=True, eq=False)
class Similarity:
    """How well a picture goes with each of some texts, or a text with a picture."""

    # What the model is given beside the input: the other side, by the name of the keyword.
    beside: Mapping[str, object]
    output: Literal["logits_per_image", "logits_per_text"] = "logits_per_image"
    rest: Literal[False] = False
    places: tuple[int, ...] = ()

    def at(self, places: Sequence[int]) -> "Similarity":
        """Return the same reading: it has no places."""
        return self


Reading = AtPlace | Column | Entity | Span | Continuation | Similarity
REST = "(anything else)"  # the name of what is left over
NAMED = 20  # of a vocabulary: so many outputs have a column of their own


"""A reading as a file keeps it, so that the model can be asked again about what was explained."""

from collections.abc import Mapping
from typing import Any, get_args

from whence.data.reading import (
    AtPlace,
    Column,
    Continuation,
    Entity,
    Part,
    Reading,
    Similarity,
    Span,
)

# Each kind's name in a file, and what must be kept. A picture or the texts that an input was held against are not.
_KINDS: dict[type[Reading], tuple[str, tuple[str, ...]]] = {
    AtPlace: ("place", ("place", "ids")),
    Column: ("column", ("index", "beside")),
    Entity: ("entity", ("places", "columns")),
    Span: ("span", ("start", "end", "part", "others")),
    Continuation: ("continuation", ("places", "ids")),
    Similarity: ("similarity", ()),
}


def recorded(reading: Reading) -> dict[str, Any]:
    """Return what a file says of a reading."""
    kind, names = _KINDS[type(reading)]
    return {"kind": kind} | {name: _listed(getattr(reading, name)) for name in names}


def reread(facts: Mapping[str, Any]) -> Reading | None:
    """Return the reading that a file tells of; None for one that cannot be made again from it.

    What is no reading is a TypeError, a ValueError or a KeyError.
    """
    made = next((made for made, (kind, _) in _KINDS.items() if kind == facts["kind"]), None)
    if made is None:
        raise ValueError(f"a reading of the kind {facts['kind']!r}")
    if made is Similarity:
        return None
    found = {name: _tupled(facts[name]) for name in _KINDS[made][1]}
    if made is Span and found["part"] not in get_args(Part):
        raise ValueError(f"the part {found['part']!r} of an answer")
    return made(**found)


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tupled(one) for one in value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"{value!r} in a reading")
    return value
