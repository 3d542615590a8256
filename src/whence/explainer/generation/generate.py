"""What a language model goes on with, and why: every token of its answer explained by all that came before it.

The model generates once, by its own `generate` and with its keys and values kept. What it thought of every token on
the way is known then, so that each explained token takes the passes of its method and no other.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from whence.capture import TargetSpec
from whence.capture.asking.decode import foretold, greedy
from whence.core.errors import BadEncoding, BadParameter, NoHead, TooLong
from whence.core.types import Of, Token
from whence.data import Encoded, batches
from whence.data.text.continuation import grown
from whence.data.text.pieces import Granularity, Span, check, unmarked
from whence.data.text.spoken import spoken
from whence.data.text.vocabulary import Vocabulary
from whence.explainer.aims.next import Answers, begun, columns, read_at_end
from whence.explainer.explanation import Explanation
from whence.explainer.generation.generation import Generation, laid_out
from whence.explainer.intake import take, warn_of_unknown
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.work import Progress, Tally
from whence.models import Loaded

MOST = 1000  # tokens of one answer


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    tokens: int
    answer: str | None
    granularity: Granularity
    of: Of
    contrast: bool
    truncate: bool

    def __post_init__(self) -> None:
        check(self.granularity)
        if (
            isinstance(self.tokens, bool)
            or not isinstance(self.tokens, int)
            or not 1 <= self.tokens <= MOST
        ):
            raise BadParameter(
                f"tokens must be a whole number from 1 to {MOST}. Got {self.tokens!r}."
            )


def generated(
    maker: Maker,
    prompt: Any,
    wanted: Wanted,
    *,
    method: str | None,
    params: Mapping[str, Any] | None,
    batch_size: int,
    progress: Progress | None,
) -> Generation:
    """Let the model go on from a prompt, or take the answer given, and explain every token of it."""
    started = time.perf_counter()
    maker.require_head()
    spec = TargetSpec(0, 1 if wanted.contrast else None, wanted.of)
    loaded, sharing = maker.loaded, maker.sharing
    if loaded.task not in ("next", "sequence"):
        raise NoHead(
            f"{loaded.name!r} is a {type(loaded.model).__name__}: it does not generate. Load a model ...ForCausalLM "
            "or ...ForConditionalGeneration, or explain its prediction: explain(...)."
        )
    asked = requests(maker.method(reads=True) if method is None else method, params, loaded.fillers)
    if len(asked) != 1:
        raise BadParameter(f"generate takes one method at a time. Got {method!r}.")
    prompt, marks = _marked(prompt, wanted.granularity)
    items, single = take(prompt, _with_room(loaded, wanted), truncate=wanted.truncate)
    if not single:
        raise BadEncoding(
            f"generate takes one prompt at a time. Got {len(items)}: call it for each."
        )
    warn_of_unknown(items, loaded)
    start = begun(items[0], loaded)
    start, outputs, text, logits, steps = _spoken(loaded, start, wanted)
    words = Vocabulary(loaded.tokenizer, loaded.vocabulary)
    ready = [
        read_at_end(prefix, columns(row, [token.id]), words)
        for prefix, token, row in zip(prefixes(start, outputs, text), outputs, logits, strict=True)
    ]
    tally = Tally(progress, ready, asked)
    policy = sharing.policy(ready, batch_size, asks=not asked[0].reads)
    policy = sharing.small_enough(policy, ready, asked)
    facts = maker.facts()
    found: dict[int, Explanation] = {}
    for chosen in batches(ready, policy):
        some = maker.explain(
            [ready[i] for i in chosen], asked, spec=spec, policy=policy, facts=facts, tally=tally
        )
        found |= {i: one[asked[0].name] for i, one in zip(chosen, some, strict=True)}
    explanations = [found[i] for i in range(len(ready))]
    payload = laid_out(
        explanations,
        start,
        outputs,
        text,
        granularity=wanted.granularity,
        marks=marks,
        steps=steps,
        contrast=wanted.contrast,
    )
    # Given an answer, it is that; else fewer tokens than asked for are those that there was room for, or an end.
    taken = (len(start.answer) or len(start)) + len(outputs)
    short = wanted.answer is None and len(outputs) < wanted.tokens
    payload["full"] = short and taken == loaded.max_length
    payload["seconds"] = time.perf_counter() - started
    return Generation(payload, tuple(explanations))


def _with_room(loaded: Loaded, wanted: Wanted) -> Loaded:
    """Return the model as one that takes shorter inputs, where a prompt may be cut: there must be room to go on."""
    whole = wanted.answer is not None or not wanted.truncate
    if whole or loaded.max_length is None or loaded.task == "sequence":
        return loaded
    return replace(loaded, max_length=max(1, loaded.max_length - wanted.tokens))


def prefixes(start: Encoded, outputs: Sequence[Token], text: str | None) -> list[Encoded]:
    """Return what stands before each of the output tokens."""
    found = []
    for count in range(len(outputs)):
        before = outputs[:count]
        end = max((token.end or 0 for token in before), default=0)
        found.append(grown(start, before, None if text is None or not count else text[:end]))
    return found


def _marked(prompt: Any, granularity: Granularity) -> tuple[Any, tuple[Span, ...]]:
    if granularity != "passage":
        return prompt, ()
    if not isinstance(prompt, str):
        raise BadEncoding(
            "granularity='passage' takes a text in which passages are marked: [[a passage]]. Got a "
            f"{type(prompt).__name__}; give a text."
        )
    return unmarked(prompt)


def _spoken(
    loaded: Loaded, start: Encoded, wanted: Wanted
) -> tuple[Encoded, tuple[Token, ...], str | None, torch.Tensor, int]:
    """Return the prompt, the output tokens, their text, the logits before each, and the forward passes that took."""
    where: dict[str, Any] = {"pad_id": loaded.pad_id, "device": loaded.device}
    if wanted.answer is not None:
        answers = Answers(loaded, [start], wanted.truncate)
        outputs, text = answers.tokens(0, wanted.answer)
        whole = answers.joined(0, outputs, text)
        logits = foretold(loaded.model, whole, len(outputs), **where)
        return answers.starts[0], outputs, text, logits, 1 + answers.forwards
    longest = loaded.max_length
    room = wanted.tokens if longest is None else longest - (len(start.answer) or len(start))
    if room < 1:
        raise TooLong(
            f"The prompt has {len(start)} tokens and {loaded.limit}: there is no room for an answer. Shorten "
            "the prompt."
        )
    ids, logits = greedy(loaded.model, start, min(wanted.tokens, room), **where)
    before = None if start.answer else start.ids[-1]
    outputs, said = spoken(ids, before, loaded.tokenizer)
    return start, outputs, said, logits, len(ids)
