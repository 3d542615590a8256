"""Extractive question answering: where in the context the answer starts, where it ends, or both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor

from whence.capture import TargetSpec
from whence.core.errors import BadEncoding, UnknownTarget
from whence.data import Encoded
from whence.data.reading import REST, Part, Span
from whence.explainer.aims import Aimed, Asked
from whence.explainer.aims.outputs import outputs
from whence.models import Loaded

LONGEST = 30  # tokens of an answer, as everybody's code for SQuAD has it
NONE = "(no answer)"  # what a model of SQuAD 2 says by pointing at the classification token

Place = tuple[int, int]  # the first and the last token of an answer


@dataclass(frozen=True, eq=False)
class _Read:
    """What the model said about one question and its context."""

    item: Encoded
    start: Tensor  # (tokens,)
    end: Tensor
    context: list[int]  # the places of its tokens
    null: int | None  # the place that says that there is no answer

    def score(self, place: Place) -> float:
        return float(self.start[place[0]] + self.end[place[1]])

    def text(self, place: Place) -> str:
        if self.null is not None and place == (self.null, self.null):
            return NONE
        first, last = self.item.tokens[place[0]], self.item.tokens[place[1]]
        source = self.item.source.pair
        if source is None or first.start is None or last.end is None:
            return " ".join(token.text for token in self.item.tokens[place[0] : place[1] + 1])
        return source[first.start : last.end]


def answer(loaded: Loaded, items: list[Encoded], asked: Asked) -> Aimed:
    """Read the best answer, or the one that is asked about."""
    part, wanted = _wanted(asked.target, [item.source.pair or "" for item in items])
    spec = TargetSpec(0, 1 if len(wanted) == 2 else None, asked.of)
    given = outputs(loaded, items, "start_logits", "end_logits")
    aimed = []
    for item, (start, end) in zip(items, given, strict=True):
        read = _Read(item, start, end, _context(item), _null(item, loaded))
        best = ranked(start, end, read.context, read.null)
        places = [_place(one, read, best) for one in wanted]
        if len(set(places)) < len(places):
            raise UnknownTarget(f"A contrast needs two different answers. Got {asked.target!r}.")
        aimed.append(_aimed(read, part, [*places, *({best[0]} - {*places})]))
    return Aimed(aimed, spec, forwards=1)


def ranked(
    start: Tensor, end: Tensor, context: Sequence[int], null: int | None = None
) -> list[Place]:
    """Return the best answer and the best that shares no token with it, as far as there are.

    All pairs of places are weighed, the start no later than the end and at most LONGEST tokens long; of equal ones
    the first counts. That there is no answer counts as one.
    """
    own = torch.tensor(context)
    sums = start[own][:, None] + end[own]
    order = torch.arange(len(own))
    apart = order - order[:, None]
    sums[(apart < 0) | (apart >= LONGEST)] = -torch.inf
    found: list[Place] = []
    if null is not None and float(start[null] + end[null]) > float(sums.max()):
        found.append((null, null))
    while len(found) < 2 and float(sums.max()) > -torch.inf:
        first, last = divmod(int(sums.argmax()), len(own))
        found.append((context[first], context[last]))
        # All that begin before its end and end after its start.
        sums[: last + 1, first:] = -torch.inf
    if null is not None and (null, null) not in found:
        found = [found[0], *sorted([*found[1:], (null, null)], key=lambda p: -_sum(start, end, p))]
    return found[:2]


def _sum(start: Tensor, end: Tensor, place: Place) -> float:
    return float(start[place[0]] + end[place[1]])


def _wanted(target: Any, contexts: Sequence[str]) -> tuple[Part, list[Any]]:
    """Return the part of the answer that is explained, and the answers: one, or two to hold against each other."""
    if isinstance(target, str):
        for part in get_args(Part):
            if target == part:
                return part, ["predicted"]
        target = _cut(target, contexts)
    if target is None:
        return "span", ["predicted"]
    if not isinstance(target, tuple):
        return "span", [target]
    if len(target) != 2:
        raise UnknownTarget(f"A contrast has two answers. Got {len(target)}: {target!r}.")
    return "span", [*target]


def _cut(target: str, contexts: Sequence[str]) -> str | tuple[str, str]:
    """Cut "a:b" into two, where it is not itself an answer and both parts may be."""

    def stands(text: str) -> bool:
        known = text in ("predicted", "runner-up", NONE)
        return known or all(text.strip() and text.strip() in context for context in contexts)

    pairs = [(target[:i], target[i + 1 :]) for i, letter in enumerate(target) if letter == ":"]
    whole = stands(target) or not pairs
    return target if whole else next((p for p in pairs if all(map(stands, p))), target)


def _context(item: Encoded) -> list[int]:
    places = [i for i, token in enumerate(item.tokens) if token.segment == 1 and not token.special]
    if not places:
        raise BadEncoding(
            "A model that answers questions takes a question and a context, and there is no context. Give "
            '(question, context), or {"question": ..., "context": ...}; on the command line --pair CONTEXT.'
        )
    return places


def _null(item: Encoded, loaded: Loaded) -> int | None:
    """Return the place of the classification token, by which a model can say that there is no answer."""
    token = getattr(loaded.tokenizer, "cls_token_id", None)
    return next((i for i, t in enumerate(item.tokens) if t.special and t.id == token), None)


def _place(wanted: Any, read: _Read, best: Sequence[Place]) -> Place:
    """Return where an answer stands: the likeliest place, if there are several."""
    if not isinstance(wanted, str):
        raise UnknownTarget(
            f"There is no answer {wanted!r}. Give 'span', 'start', 'end', or a text that stands in the context."
        )
    if wanted == "predicted":
        return best[0]
    if wanted == "runner-up" and len(best) > 1:
        return best[1]
    if wanted == NONE and read.null is not None:
        return (read.null, read.null)
    found = list(_occurrences(wanted.strip(), read))
    return max(found, key=lambda place: (read.score(place), -place[0]))


def _occurrences(wanted: str, read: _Read) -> Iterator[Place]:
    """Yield the places of a text in the context, in whole tokens."""
    source, tokens = read.item.source.pair, read.item.tokens
    if source is None:
        raise UnknownTarget(
            f"The answer {wanted!r} cannot be found: the input came encoded, and its text is not known. Give the "
            "question and the context as text."
        )
    at = [i for i in range(len(source)) if wanted and source.startswith(wanted, i)]
    if not at:
        longer = ", which is shorter than it" if len(wanted) > len(source) else ""
        raise UnknownTarget(
            f"The answer {wanted[:60]!r} does not stand in the context{longer}. Give a text that does, letter by "
            "letter, or 'span', 'start', 'end', 'runner-up'."
        )
    starts = {tokens[i].start: i for i in reversed(read.context)}
    ends = {tokens[i].end: i for i in read.context}
    whole = [i for i in at if i in starts and i + len(wanted) in ends]
    if not whole:
        seen = max((token.end or 0 for token in tokens if token.segment == 1), default=0)
        if read.item.source.dropped and all(i + len(wanted) > seen for i in at):
            raise UnknownTarget(
                f"The answer {wanted[:60]!r} stands in a part of the context that was cut off. Shorten the context."
            )
        raise UnknownTarget(
            f"The answer {wanted[:60]!r} begins or ends inside of a token, and the model points at whole ones. Give "
            "the whole word."
        )
    for i in whole:
        yield starts[i], ends[i + len(wanted)]


def _aimed(read: _Read, part: Part, places: Sequence[Place]) -> Encoded:
    first, *others = places
    names = [read.text(place) for place in places]
    names = [
        name if names.count(name) == 1 else f"{name} (token {place[0]})"
        for name, place in zip(names, places, strict=True)
    ]
    if part != "span":
        names = [f"{part} of {name}" for name in names]
    reading = Span(*first, part, tuple(others))
    return replace(read.item, reading=reading, labels=(*names, REST))
