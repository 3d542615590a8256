"""Token classification: each entity that the model tags, or one token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import torch
from torch import Tensor

from whence.capture import TargetSpec
from whence.core.errors import BadParameter, did_you_mean, short
from whence.data import Encoded
from whence.data.reading import AtPlace, Entity
from whence.explainer.aims import Aimed, Asked
from whence.explainer.aims.outputs import outputs
from whence.explainer.aims.schemes import Scheme, scheme
from whence.models import Loaded


@dataclass(frozen=True)
class Tagged:
    """An entity that a model found: words that follow each other with tags of one kind.

    `probability` is the softmax over the kinds of the mean of its words' logits, as its explanation has it.
    """

    text: str
    label: str
    start: int | None  # characters of its segment
    end: int | None
    segment: int
    tokens: tuple[int, ...]  # all of its words' pieces
    probability: float
    reading: Entity


def tags(loaded: Loaded, items: list[Encoded], asked: Asked) -> Aimed:
    """Read every entity of each input, or one token."""
    if asked.at is not None and not _names_entity(items, asked.at):
        reads = [
            replace(item, reading=AtPlace(_token(item, asked.at)), labels=loaded.labels)
            for item in items
        ]
        return Aimed(reads, TargetSpec.parse(asked.target, loaded.labels, asked.of))
    names = scheme(loaded.labels)
    aimed, owners = [], []
    for owner, (item, found) in enumerate(zip(items, entities(loaded, items), strict=True)):
        chosen = found if asked.at is None else [_called(found, asked.at)]
        if not chosen:
            raise BadParameter(
                f"{loaded.name!r} tags nothing in {_short(item)!r}: every token is {names.outside or 'untagged'!r}. "
                "Say which token to explain: at=, a word or a token's number; --at."
            )
        aimed += [replace(item, reading=one.reading, labels=names.kinds) for one in chosen]
        owners += [owner] * len(chosen)
    spec = TargetSpec.parse(asked.target, names.kinds, asked.of)
    return Aimed(aimed, spec, tuple(owners) if asked.at is None and items else None, forwards=1)


def entities(loaded: Loaded, items: Sequence[Encoded]) -> list[list[Tagged]]:
    """Return what the model tags in each input, in the order of the text."""
    names = scheme(loaded.labels)
    every = outputs(loaded, items, "logits")
    return [
        list(_entities(item, logits, names)) for item, (logits,) in zip(items, every, strict=True)
    ]


def _entities(item: Encoded, logits: Tensor, names: Scheme) -> Iterator[Tagged]:
    """Yield the entities of one input; a word has the tag of its first piece."""
    firsts = [word.tokens[0] for word in item.words]
    best = logits[firsts].argsort(dim=-1, descending=True, stable=True)[:, 0].tolist()
    runs: list[list[int]] = []
    before = -2  # the number of the word before, if it was within an entity
    for number, tag in enumerate(best):
        kind = names.kind(tag)
        if kind is None:
            before = -2
            continue
        same = item.words[number].segment == item.words[runs[-1][-1]].segment if runs else False
        if before == number - 1 and same and names.goes_on(best[before], tag):
            runs[-1].append(number)
        else:
            runs.append([number])
        before = number
    for run in runs:
        yield _tagged(item, run, [best[number] for number in run], logits, names)


def _tagged(
    item: Encoded, run: Sequence[int], tags: Sequence[int], logits: Tensor, names: Scheme
) -> Tagged:
    words = [item.words[number] for number in run]
    reading = Entity(
        tuple(word.tokens[0] for word in words), tuple(names.columns(tag) for tag in tags)
    )
    columns = torch.tensor(reading.columns)
    means = logits[list(reading.places)].gather(1, columns).mean(0)
    kind = names.kind(tags[0])
    assert kind is not None
    first, last = words[0], words[-1]
    source = item.source.pair if first.segment else item.source.text
    known = source is not None and first.start is not None
    return Tagged(
        source[first.start : last.end] if source and known else " ".join(w.text for w in words),
        kind,
        first.start,
        last.end,
        first.segment,
        tuple(place for word in words for place in word.tokens),
        float(means.softmax(0)[names.kinds.index(kind)]),
        reading,
    )


def _names_entity(items: Sequence[Encoded], at: Any) -> bool:
    """Say whether `at` can only be an entity: several tokens, or more than a word."""
    if isinstance(at, tuple | list):
        return True
    if not isinstance(at, str):
        return False
    words = {word.text for item in items for word in item.words}
    return at not in words and len(at.split()) > 1


def _called(found: Sequence[Tagged], at: Any) -> Tagged:
    """Return the entity of a text, or the one that is read at some tokens."""
    if not isinstance(at, str):
        same = [one for one in found if tuple(at) in (one.reading.places, one.tokens)]
    else:
        same = [one for one in found if one.text == at]
    if not same:
        known = ", ".join(f"{one.text!r} {list(one.tokens)}" for one in found) or "none"
        near = did_you_mean(str(at), [one.text for one in found])
        raise BadParameter(
            f"No entity is {at!r}.{near} Found, with their tokens: {known}. For one token, give a word or a number."
        )
    if len(same) > 1:
        raise BadParameter(
            f"There are {len(same)} entities {at!r}. Give the tokens of one: at= one of "
            f"{', '.join(str(list(one.tokens)) for one in same)}."
        )
    return same[0]


def _token(item: Encoded, at: Any) -> int:
    """Return the place of a token by its number, or of the first piece of a word."""
    if isinstance(at, str) and not at.isdecimal():
        return _first_piece(item, at)
    try:
        number = int(at) if isinstance(at, str) else index(at)
    except TypeError:
        raise BadParameter(f"at is a word or a token's number. Got {at!r}.") from None
    if isinstance(at, str) and any(word.text == at for word in item.words):
        return _first_piece(item, at)
    if isinstance(at, bool) or not 0 <= number < len(item):
        raise BadParameter(
            f"There is no token {at!r}: the text has {len(item)}, counted from 0 with the special ones."
        )
    if item.tokens[number].special:
        raise BadParameter(
            f"Token {number} is {item.tokens[number].text}, which is not part of the text. Give another."
        )
    return number


def _first_piece(item: Encoded, at: str) -> int:
    same = [word.tokens[0] for word in item.words if word.text == at]
    if not same:
        near = did_you_mean(at, [word.text for word in item.words])
        raise BadParameter(
            f"The word {at!r} does not stand in {_short(item)!r}.{near} Give a word of it, or a token's number."
        )
    if len(same) > 1:
        raise BadParameter(
            f"The word {at!r} stands in the text {len(same)} times. Give the token's number: at= one of "
            f"{', '.join(map(str, same))}."
        )
    return same[0]


def _short(item: Encoded) -> str:
    text = item.source.text or " ".join(token.text for token in item.tokens)
    return short(text)


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
