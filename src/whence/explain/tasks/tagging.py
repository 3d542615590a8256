"""Targets of token classification: entities in BIO, BILOU or plain tags, or one token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any

import torch
from torch import Tensor

from whence.core.errors import BadParameter, shorten_quote, suggest_name
from whence.data.readout import EntityReadout, TokenReadout
from whence.data.tokens import EncodedInput
from whence.explain.tasks import TargetedInputs, TargetRequest, compute_token_outputs
from whence.models.model import LoadedModel
from whence.tracing.target import TargetSpec

# Tag prefixes of BIO, BILOU and BIOES that start an entity, stand alone, or end an entity.
_FIRST, _ALONE, _LAST = {"B", "S", "U"}, {"S", "U"}, {"L", "E", "S", "U"}
_PREFIXES = {"B", "I", "L", "E", "S", "U", "M"}
_OUTSIDE = {"O", "OUTSIDE", "OUT"}


@dataclass(frozen=True)
class TagScheme:
    """The tags of a model, split into prefix (if any) and kind."""

    tags: tuple[str, ...]
    # (prefix or "", kind) by tag; the kind of the outside tag is its own name.
    parts: tuple[tuple[str, str], ...]
    outside: str | None

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of entities in the order of the tags, the outside tag included."""
        return tuple(dict.fromkeys(kind for _, kind in self.parts))

    def kind(self, tag: int) -> str | None:
        """Return the entity kind of a tag, or None for the outside tag."""
        kind = self.parts[tag][1]
        return None if kind == self.outside else kind

    def goes_on(self, before: int, tag: int) -> bool:
        """Return whether a tag continues the entity of the tag before it."""
        (left, own), (prefix, kind) = self.parts[before], self.parts[tag]
        return own == kind and prefix not in _FIRST and left not in _LAST

    def columns(self, tag: int) -> tuple[int, ...]:
        """Return for each kind its tag with the same prefix as `tag`, or its first tag."""
        prefix, own = self.parts[tag]
        tags = []
        for kind in self.kinds:
            same = [i for i, (_, other) in enumerate(self.parts) if other == kind]
            exact = [i for i in same if self.parts[i][0] == prefix]
            tags.append(tag if kind == own else (exact or same)[0])
        return tuple(tags)


def parse_scheme(tags: tuple[str, ...]) -> TagScheme:
    """Split the tags of a model into prefixes and kinds.

    A prefix is a letter before "-" or "_" (B-PER), or after it (PER-B); without an outside tag, or where some tag has
    no prefix, every tag is a kind of its own.
    """
    outside = next((tag for tag in tags if tag.upper() in _OUTSIDE), None)
    inside = [tag for tag in tags if tag != outside]
    for at_end in (False, True):
        splits = {tag: _split_tag(tag, at_end=at_end) for tag in inside}
        if inside and all(splits.values()):
            return TagScheme(tags, tuple(splits.get(tag) or ("", tag) for tag in tags), outside)
    return TagScheme(tags, tuple(("", tag) for tag in tags), outside)


def _split_tag(tag: str, *, at_end: bool) -> tuple[str, str] | None:
    """Return the prefix, or suffix, of a tag and its kind, if there is one."""
    letter, sign, kind = tag[:1], tag[1:2], tag[2:]
    if at_end:
        letter, sign, kind = tag[-1:], tag[-2:-1], tag[:-2]
    known = kind and sign in "-_" and letter.upper() in _PREFIXES
    return (letter.upper(), kind) if known else None


@dataclass(frozen=True)
class TaggedEntity:
    """An entity that a model found: a run of words with tags of one kind.

    `probability` is the softmax over the kinds of the mean of its words' logits, as its explanation has it.
    """

    text: str
    label: str
    start: int | None  # character offset in its segment
    end: int | None
    segment: int
    tokens: tuple[int, ...]  # positions of all pieces of its words
    probability: float
    reading: EntityReadout


def resolve_tags(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Resolve the targets of a tagger: every entity of each input, or one token."""
    if request.at is not None and not _is_entity_query(items, request.at):
        reads = [
            replace(item, reading=TokenReadout(_find_token(item, request.at)), labels=loaded.labels)
            for item in items
        ]
        return TargetedInputs(reads, TargetSpec.parse(request.target, loaded.labels, request.of))
    names = parse_scheme(loaded.labels)
    targeted, owners = [], []
    for owner, (item, entities) in enumerate(zip(items, find_entities(loaded, items), strict=True)):
        chosen = entities if request.at is None else [_select_entity(entities, request.at)]
        if not chosen:
            raise BadParameter(
                f"{loaded.name!r} tags nothing in {_shorten_text(item)!r}: every token is {names.outside or 'untagged'!r}. "
                "Say which token to explain: at=, a word or a token's number; --at."
            )
        targeted += [replace(item, reading=entity.reading, labels=names.kinds) for entity in chosen]
        owners += [owner] * len(chosen)
    spec = TargetSpec.parse(request.target, names.kinds, request.of)
    return TargetedInputs(
        targeted, spec, tuple(owners) if request.at is None and items else None, forwards=1
    )


def find_entities(loaded: LoadedModel, items: Sequence[EncodedInput]) -> list[list[TaggedEntity]]:
    """Return the entities that the model tags in each input, in text order."""
    names = parse_scheme(loaded.labels)
    outputs = compute_token_outputs(loaded, items, "logits")
    return [
        list(_find_entities(item, logits, names))
        for item, (logits,) in zip(items, outputs, strict=True)
    ]


def _find_entities(item: EncodedInput, logits: Tensor, names: TagScheme) -> Iterator[TaggedEntity]:
    """Yield the entities of one input; a word has the tag of its first piece."""
    firsts = [word.tokens[0] for word in item.words]
    best = logits[firsts].argsort(dim=-1, descending=True, stable=True)[:, 0].tolist()
    runs: list[list[int]] = []
    before = -2  # number of the last word within an entity; -2: none
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
        yield _build_entity(item, run, [best[number] for number in run], logits, names)


def _build_entity(
    item: EncodedInput, run: Sequence[int], tags: Sequence[int], logits: Tensor, names: TagScheme
) -> TaggedEntity:
    words = [item.words[number] for number in run]
    reading = EntityReadout(
        tuple(word.tokens[0] for word in words), tuple(names.columns(tag) for tag in tags)
    )
    columns = torch.tensor(reading.columns)
    means = logits[list(reading.places)].gather(1, columns).mean(0)
    kind = names.kind(tags[0])
    assert kind is not None
    first, last = words[0], words[-1]
    source = item.source.pair if first.segment else item.source.text
    known = source is not None and first.start is not None
    return TaggedEntity(
        source[first.start : last.end] if source and known else " ".join(w.text for w in words),
        kind,
        first.start,
        last.end,
        first.segment,
        tuple(place for word in words for place in word.tokens),
        float(means.softmax(0)[names.kinds.index(kind)]),
        reading,
    )


def _is_entity_query(items: Sequence[EncodedInput], at: Any) -> bool:
    """Return whether `at` can only mean an entity: several tokens, or more than one word."""
    if isinstance(at, tuple | list):
        return True
    if not isinstance(at, str):
        return False
    words = {word.text for item in items for word in item.words}
    return at not in words and len(at.split()) > 1


def _select_entity(entities: Sequence[TaggedEntity], at: Any) -> TaggedEntity:
    """Return the entity with this text, or with these tokens."""
    if not isinstance(at, str):
        same = [one for one in entities if tuple(at) in (one.reading.places, one.tokens)]
    else:
        same = [one for one in entities if one.text == at]
    if not same:
        known = ", ".join(f"{one.text!r} {list(one.tokens)}" for one in entities) or "none"
        near = suggest_name(str(at), [one.text for one in entities])
        raise BadParameter(
            f"No entity is {at!r}.{near} Found, with their tokens: {known}. For one token, give a word or a number."
        )
    if len(same) > 1:
        raise BadParameter(
            f"There are {len(same)} entities {at!r}. Give the tokens of one: at= one of "
            f"{', '.join(str(list(one.tokens)) for one in same)}."
        )
    return same[0]


def _find_token(item: EncodedInput, at: Any) -> int:
    """Return the position of a token given by number, or of the first piece of a word."""
    if isinstance(at, str):
        same = [word.tokens[0] for word in item.words if word.text == at]
        if len(same) == 1:
            return same[0]
        if same:
            raise BadParameter(
                f"The word {at!r} stands in the text {len(same)} times. Give the token's number: at= one of "
                f"{', '.join(map(str, same))}."
            )
        if not at.isdecimal():
            near = suggest_name(at, [word.text for word in item.words])
            raise BadParameter(
                f"The word {at!r} does not stand in {_shorten_text(item)!r}.{near} Give a word of it, or a token's number."
            )
    try:
        number = int(at) if isinstance(at, str) else index(at)
    except TypeError:
        raise BadParameter(f"at is a word or a token's number. Got {at!r}.") from None
    if isinstance(at, bool) or not 0 <= number < len(item):
        raise BadParameter(
            f"There is no token {at!r}: the text has {len(item)}, counted from 0 with the special ones."
        )
    if item.tokens[number].special:
        raise BadParameter(
            f"Token {number} is {item.tokens[number].text}, which is not part of the text. Give another."
        )
    return number


def _shorten_text(item: EncodedInput) -> str:
    text = item.source.text or " ".join(token.text for token in item.tokens)
    return shorten_quote(text)
