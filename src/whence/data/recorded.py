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
