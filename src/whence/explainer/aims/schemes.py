"""How tags spell entities: BIO, BILOU and their kin, or the bare kinds."""

from dataclasses import dataclass
from functools import cached_property

# By what a tag of more than a kind begins with: a first, an inner and a last token, and one that is alone.
_FIRST, _ALONE, _LAST = {"B", "S", "U"}, {"S", "U"}, {"L", "E", "S", "U"}
_PREFIXES = {"B", "I", "L", "E", "S", "U", "M"}
_OUTSIDE = {"O", "OUTSIDE", "OUT"}


@dataclass(frozen=True)
class Scheme:
    """The tags of a model, taken apart: a prefix, where there is one, and a kind."""

    tags: tuple[str, ...]
    parts: tuple[
        tuple[str, str], ...
    ]  # (prefix or "", kind) by tag; the outside's kind is its name
    outside: str | None

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of entities in the order of the tags, and what lies outside of all."""
        return tuple(dict.fromkeys(kind for _, kind in self.parts))

    def kind(self, tag: int) -> str | None:
        """Return the kind of entity that a tag belongs to, or None outside of all."""
        kind = self.parts[tag][1]
        return None if kind == self.outside else kind

    def goes_on(self, before: int, tag: int) -> bool:
        """Say whether a tag goes on with the entity of the one before it, rather than begin another."""
        (left, own), (prefix, kind) = self.parts[before], self.parts[tag]
        return own == kind and prefix not in _FIRST and left not in _LAST

    def columns(self, tag: int) -> tuple[int, ...]:
        """Return for each kind the tag that would say it here: with the same prefix, if there is one."""
        prefix, own = self.parts[tag]
        found = []
        for kind in self.kinds:
            same = [i for i, (_, other) in enumerate(self.parts) if other == kind]
            exact = [i for i in same if self.parts[i][0] == prefix]
            found.append(tag if kind == own else (exact or same)[0])
        return tuple(found)


def scheme(tags: tuple[str, ...]) -> Scheme:
    """Take the tags of a model apart.

    A prefix is a letter before "-" or "_" (B-PER), or after it (PER-B); without an outside tag, or where some tag has
    no prefix, every tag is a kind of its own.
    """
    outside = next((tag for tag in tags if tag.upper() in _OUTSIDE), None)
    inside = [tag for tag in tags if tag != outside]
    for part in (_before, _after):
        found = {tag: part(tag) for tag in inside}
        if inside and all(found.values()):
            return Scheme(tags, tuple(found.get(tag) or ("", tag) for tag in tags), outside)
    return Scheme(tags, tuple(("", tag) for tag in tags), outside)


def _before(tag: str) -> tuple[str, str] | None:
    kind = tag[2:]
    return (
        (tag[0].upper(), kind) if kind and tag[1] in "-_" and tag[0].upper() in _PREFIXES else None
    )


def _after(tag: str) -> tuple[str, str] | None:
    kind = tag[:-2]
    return (
        (tag[-1].upper(), kind)
        if kind and tag[-2] in "-_" and tag[-1].upper() in _PREFIXES
        else None
    )
