"""Targets of extractive question answering: start, end or span of an answer in the context."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor

from whence.core.errors import BadEncoding, UnknownTarget
from whence.data.readout import REST_LABEL, SpanPart, SpanReadout
from whence.data.tokens import EncodedInput
from whence.explain.tasks import (
    TargetedInputs,
    TargetRequest,
    compute_token_outputs,
    list_targets,
)
from whence.models.model import LoadedModel
from whence.tracing.target import TargetSpec

MAX_ANSWER_TOKENS = 30  # the usual limit in code for SQuAD
NO_ANSWER = "(no answer)"  # SQuAD 2: the span of the classification token

AnswerSpan = tuple[int, int]  # the first and the last token of an answer


@dataclass(frozen=True, eq=False)
class _AnswerLogits:
    """The start and end logits for one question and its context."""

    item: EncodedInput
    start: Tensor  # (tokens,)
    end: Tensor
    context: list[int]  # positions of the context's tokens
    null: int | None  # the position that stands for "no answer"

    def score(self, place: AnswerSpan) -> float:
        return float(self.start[place[0]] + self.end[place[1]])

    def text(self, place: AnswerSpan) -> str:
        if self.null is not None and place == (self.null, self.null):
            return NO_ANSWER
        first, last = self.item.tokens[place[0]], self.item.tokens[place[1]]
        source = self.item.source.pair
        if source is None or first.start is None or last.end is None:
            return " ".join(token.text for token in self.item.tokens[place[0] : place[1] + 1])
        return source[first.start : last.end]


def resolve_answer(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Resolve the target of question answering: the best answer, or the requested one."""
    part, answers = _parse_target(request.target, [item.source.pair or "" for item in items])
    spec = TargetSpec(0, 1 if len(answers) == 2 else None, request.of)
    outputs = compute_token_outputs(loaded, items, "start_logits", "end_logits")
    targeted, token = [], getattr(loaded.tokenizer, "cls_token_id", None)
    for item, (start, end) in zip(items, outputs, strict=True):
        # The position of the classification token, which stands for "no answer".
        special = ((i, t.id) for i, t in enumerate(item.tokens) if t.special)
        null = next((i for i, identity in special if identity == token), None)
        read = _AnswerLogits(item, start, end, _list_context_positions(item), null)
        best = rank_answers(start, end, read.context, read.null)
        places = [_find_answer_span(answer, read, best) for answer in answers]
        if len(set(places)) < len(places):
            raise UnknownTarget(f"A contrast needs two different answers. Got {request.target!r}.")
        places += {best[0]} - {*places}
        names = [read.text(place) for place in places]
        names = [
            name if names.count(name) == 1 else f"{name} (token {place[0]})"
            for name, place in zip(names, places, strict=True)
        ]
        if part != "span":
            names = [f"{part} of {name}" for name in names]
        reading = SpanReadout(*places[0], part, tuple(places[1:]))
        targeted.append(replace(item, reading=reading, labels=(*names, REST_LABEL)))
    return TargetedInputs(targeted, spec, forwards=1)


def rank_answers(
    start: Tensor, end: Tensor, context: Sequence[int], null: int | None = None
) -> list[AnswerSpan]:
    """Return the best answer span, and the best that shares no token with it, if there is one.

    All spans of at most MAX_ANSWER_TOKENS tokens are scored; of equal ones
    the first is taken. "No answer" counts as an answer.
    """
    own = torch.tensor(context)
    sums = start[own][:, None] + end[own]
    order = torch.arange(len(own))
    apart = order - order[:, None]
    sums[(apart < 0) | (apart >= MAX_ANSWER_TOKENS)] = -torch.inf
    spans: list[AnswerSpan] = []
    if null is not None and float(start[null] + end[null]) > float(sums.max()):
        spans.append((null, null))
    while len(spans) < 2 and float(sums.max()) > -torch.inf:
        first, last = divmod(int(sums.argmax()), len(own))
        spans.append((context[first], context[last]))
        # Rule out all spans that overlap it.
        sums[: last + 1, first:] = -torch.inf
    if null is not None and (null, null) not in spans:
        others = [*spans[1:], (null, null)]
        spans[1:] = sorted(others, key=lambda place: -float(start[place[0]] + end[place[1]]))
    return spans[:2]


def _parse_target(target: Any, contexts: Sequence[str]) -> tuple[SpanPart, list[Any]]:
    """Return the explained part of the span, and the requested answers: one, or two of a contrast."""
    if isinstance(target, str):
        for part in get_args(SpanPart):
            if target == part:
                return part, ["predicted"]
        target = _split_contrast(target, contexts)
    return "span", list_targets(target, "answers")


def _split_contrast(target: str, contexts: Sequence[str]) -> str | tuple[str, str]:
    """Split "a:b" into a contrast, if "a:b" is not itself an answer and both parts can be."""

    def can_be_answer(text: str) -> bool:
        known = text in ("predicted", "runner-up", NO_ANSWER)
        return known or all(text.strip() and text.strip() in context for context in contexts)

    pairs = [(target[:i], target[i + 1 :]) for i, letter in enumerate(target) if letter == ":"]
    whole = can_be_answer(target) or not pairs
    return target if whole else next((p for p in pairs if all(map(can_be_answer, p))), target)


def _list_context_positions(item: EncodedInput) -> list[int]:
    places = [i for i, token in enumerate(item.tokens) if token.segment == 1 and not token.special]
    if not places:
        raise BadEncoding(
            "A model that answers questions takes a question and a context, and there is no context. Give "
            '(question, context), or {"question": ..., "context": ...}; on the command line --pair CONTEXT.'
        )
    return places


def _find_answer_span(answer: Any, read: _AnswerLogits, best: Sequence[AnswerSpan]) -> AnswerSpan:
    """Return the token span of an answer: the likeliest, if it occurs several times."""
    if not isinstance(answer, str):
        raise UnknownTarget(
            f"There is no answer {answer!r}. Give 'span', 'start', 'end', or a text that stands in the context."
        )
    if answer == "predicted":
        return best[0]
    if answer == "runner-up" and len(best) > 1:
        return best[1]
    if answer == NO_ANSWER and read.null is not None:
        return (read.null, read.null)
    spans = list(_find_occurrences(answer.strip(), read))
    return max(spans, key=lambda place: (read.score(place), -place[0]))


def _find_occurrences(answer: str, read: _AnswerLogits) -> Iterator[AnswerSpan]:
    """Yield the token spans of a text in the context; refuse one that cuts through a token."""
    source, tokens = read.item.source.pair, read.item.tokens
    if source is None:
        raise UnknownTarget(
            f"The answer {answer!r} cannot be found: the input came encoded, and its text is not known. Give the "
            "question and the context as text."
        )
    at = [i for i in range(len(source)) if answer and source.startswith(answer, i)]
    if not at:
        longer = ", which is shorter than it" if len(answer) > len(source) else ""
        raise UnknownTarget(
            f"The answer {answer[:60]!r} does not stand in the context{longer}. Give a text that does, letter by "
            "letter, or 'span', 'start', 'end', 'runner-up'."
        )
    starts = {tokens[i].start: i for i in reversed(read.context)}
    ends = {tokens[i].end: i for i in read.context}
    whole = [i for i in at if i in starts and i + len(answer) in ends]
    if not whole:
        visible_end = max((token.end or 0 for token in tokens if token.segment == 1), default=0)
        if read.item.source.dropped and all(i + len(answer) > visible_end for i in at):
            raise UnknownTarget(
                f"The answer {answer[:60]!r} stands in a part of the context that was cut off. Shorten the context."
            )
        raise UnknownTarget(
            f"The answer {answer[:60]!r} begins or ends inside of a token, and the model points at whole ones. Give "
            "the whole word."
        )
    for i in whole:
        yield starts[i], ends[i + len(answer)]
