"""Readouts: which outputs of a model are explained, as a small classification; saved and restored.

A classifier gives one row of logits and needs no readout. Other models do: a tagger gives logits for each
token, a language model for its whole vocabulary, a question answering model for two positions. A readout
selects the explained outputs, so that every method, metric and page works as it does for a classifier. Where
the last column is all other outputs together, the softmax over the columns is the model's own probability.

Positions count the input's tokens; negative positions count from the end, and stay right when tokens before
them are deleted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

SpanPart = Literal["span", "start", "end"]


@dataclass(frozen=True)
class TokenReadout:
    """Readout of one token: the outputs of `ids` and all others together; without ids, each output."""

    place: int
    ids: tuple[int, ...] = ()

    @property
    def rest(self) -> bool:
        """Whether the last column is all other outputs together."""
        return bool(self.ids)

    @property
    def places(self) -> tuple[int, ...]:
        """The positions of the readout."""
        return (self.place,)

    def at(self, places: Sequence[int]) -> "TokenReadout":
        """Return the same readout at other positions."""
        return replace(self, place=places[0])


@dataclass(frozen=True)
class ClassReadout:
    """Readout of one output of a classifier, against all others together.

    In zero-shot classification, `beside` has the other candidate labels, each with its
    logit: the prediction is the best of all, the explanation is of this one.
    """

    index: int
    beside: tuple[tuple[str, float], ...] = ()
    rest: Literal[True] = True
    places: tuple[int, ...] = ()

    def at(self, places: Sequence[int]) -> "ClassReadout":
        """Return the readout unchanged: it has no positions."""
        return self


@dataclass(frozen=True)
class EntityReadout:
    """Readout of an entity: the mean over its tokens; `columns` has the output of each kind per token."""

    places: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]  # by position, by kind
    rest: Literal[False] = False

    def at(self, places: Sequence[int]) -> "EntityReadout":
        """Return the same readout at other positions."""
        return replace(self, places=tuple(places))


@dataclass(frozen=True)
class SpanReadout:
    """Readout of an answer span: its start, its end, or both; against all other positions.

    `others` are further answers with a column of their own.
    """

    start: int
    end: int
    part: SpanPart = "span"
    others: tuple[tuple[int, int], ...] = ()
    rest: Literal[True] = True

    @property
    def places(self) -> tuple[int, ...]:
        """The positions of the readout."""
        return (self.start, self.end, *(place for other in self.others for place in other))

    def at(self, places: Sequence[int]) -> "SpanReadout":
        """Return the same readout at other positions."""
        others = tuple(zip(places[2::2], places[3::2], strict=True))
        return replace(self, start=places[0], end=places[1], others=others)


@dataclass(frozen=True)
class ContinuationReadout:
    """Readout of the log-probability of a whole answer, against that of any other answer."""

    places: tuple[int, ...]  # the position before each token, where it is predicted
    ids: tuple[int, ...]
    rest: Literal[True] = True

    def at(self, places: Sequence[int]) -> "ContinuationReadout":
        """Return the same readout at other positions."""
        return replace(self, places=tuple(places))


@dataclass(frozen=True, eq=False)
class SimilarityReadout:
    """Readout of the similarity of an image to some texts, or of a text to some images."""

    # The other side of the comparison, as keywords of the model's forward.
    beside: Mapping[str, object]
    output: Literal["logits_per_image", "logits_per_text"] = "logits_per_image"
    rest: Literal[False] = False
    places: tuple[int, ...] = ()

    def at(self, places: Sequence[int]) -> "SimilarityReadout":
        """Return the readout unchanged: it has no positions."""
        return self


Readout = (
    TokenReadout
    | ClassReadout
    | EntityReadout
    | SpanReadout
    | ContinuationReadout
    | SimilarityReadout
)
REST_LABEL = "(anything else)"  # the name of the last column, all other outputs together
TOP_TOKENS = 20  # tokens of a vocabulary with a column of their own

# The name of each readout in a file, and its saved fields. The other side of a similarity is not saved.
_READOUT_FIELDS: dict[type[Readout], tuple[str, tuple[str, ...]]] = {
    TokenReadout: ("place", ("place", "ids")),
    ClassReadout: ("column", ("index", "beside")),
    EntityReadout: ("entity", ("places", "columns")),
    SpanReadout: ("span", ("start", "end", "part", "others")),
    ContinuationReadout: ("continuation", ("places", "ids")),
    SimilarityReadout: ("similarity", ()),
}


def dump_readout(reading: Readout) -> dict[str, Any]:
    """Return a readout as JSON data."""
    kind, names = _READOUT_FIELDS[type(reading)]
    return {"kind": kind} | {name: _convert_tuples(getattr(reading, name)) for name in names}


def parse_readout(facts: Mapping[str, Any]) -> Readout | None:
    """Return the readout from JSON data; None for a similarity, whose other side is not saved.

    Invalid data raise a TypeError, a ValueError or a KeyError.
    """
    cls = next((cls for cls, (kind, _) in _READOUT_FIELDS.items() if kind == facts["kind"]), None)
    if cls is None:
        raise ValueError(f"a reading of the kind {facts['kind']!r}")
    if cls is SimilarityReadout:
        return None
    values = {name: _parse_value(facts[name]) for name in _READOUT_FIELDS[cls][1]}
    if cls is SpanReadout and values["part"] not in get_args(SpanPart):
        raise ValueError(f"the part {values['part']!r} of an answer")
    return cls(**values)


def _convert_tuples(value: Any) -> Any:
    return [_convert_tuples(item) for item in value] if isinstance(value, tuple) else value


def _parse_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_parse_value(item) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"{value!r} in a reading")
    return value
