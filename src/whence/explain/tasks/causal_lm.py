"""Language models: the next token, a whole answer, or one answer rather than another.

What is read at the end of a prompt is the vocabulary: what was asked for comes first, then the likeliest tokens, and
all others together are the last column. A whole answer has two columns, its log-probability and that of any other.
The decoder of an encoder-decoder model has tokens of its own, the second text of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from whence.capture import TargetSpec
from whence.capture.forward import bare
from whence.capture.memory.fitting import fitting_batches
from whence.core.errors import BadEncoding, BadParameter, NoTokenizer, TooLong, UnknownTarget
from whence.core.types import Of, Token
from whence.data import Encoded, collate
from whence.data.reading import NAMED, REST, AtPlace, Continuation
from whence.data.text.continuation import continuation, grown, led_by, opening
from whence.data.text.shorten import shortened
from whence.data.text.vocabulary import Vocabulary
from whence.explainer.aims import Aimed, Asked
from whence.explainer.aims.rather import rather
from whence.explainer.sharing import Sharing
from whence.models import Loaded

# Inputs at a time, few enough for the logits of a large vocabulary.
_AT_A_TIME = 16


def following(loaded: Loaded, items: list[Encoded], asked: Asked) -> Aimed:
    """Read the next token, or the whole of `asked.answer`."""
    starts = [begun(item, loaded) for item in items]
    if asked.answer is None:
        return _next(loaded, starts, asked.target, asked.of)
    if asked.target is not None:
        raise BadParameter(
            f"target={asked.target!r} asks about one token and answer={asked.answer!r} about several. Give "
            "one of them."
        )
    if isinstance(asked.answer, str):
        spec, every = TargetSpec(0, None, asked.of), Answers(loaded, starts, asked.truncate)
        ready = [every.item(row, asked.answer) for row in range(len(starts))]
        return Aimed(ready, spec, forwards=every.forwards)
    return _contrast(Answers(loaded, starts, asked.truncate), asked.answer, asked.of)


def begun(item: Encoded, loaded: Loaded) -> Encoded:
    """Return an input at whose end the model says how it goes on; a decoder is given what it starts with."""
    if item.source.pair is not None:
        raise BadEncoding(
            f"{type(loaded.model).__name__} goes on from one text and got a pair. Join the two texts, or give what "
            "follows as answer=..."
        )
    if loaded.task != "sequence" or item.answer:
        return item
    start = getattr(loaded.model.generation_config, "decoder_start_token_id", None)
    start = getattr(loaded.model.config, "decoder_start_token_id", None) if start is None else start
    if not isinstance(start, int):
        raise BadEncoding(
            f"{type(loaded.model).__name__} has no decoder_start_token_id, so its decoder has nothing to start from. "
            "Set it in the model's configuration."
        )
    tokenizer = loaded.tokenizer
    ids = (start, *(() if tokenizer is None else led_by(tokenizer)))
    words = Vocabulary(tokenizer)
    tokens = tuple(Token(words.piece(i), None, None, 1, True, i) for i in ids)
    return replace(item, answer=ids, tokens=(*item.tokens, *tokens))


def columns(logits: Tensor, first: Sequence[int]) -> tuple[int, ...]:
    """Return which tokens have a column: `first`, then the likeliest others; `logits` are (vocabulary,)."""
    likely = logits.topk(min(NAMED + len(first), len(logits) - 1)).indices.tolist()
    named = list(dict.fromkeys([*first, *likely]))
    return tuple(named[: max(min(NAMED, len(logits) - 1), len(first))])


def read_at_end(item: Encoded, ids: tuple[int, ...], words: Vocabulary) -> Encoded:
    """Return an input whose outputs are these tokens, read at its end, and all others."""
    return replace(item, reading=AtPlace(-1, ids), labels=(*words.labels(ids), REST))


def foretell(loaded: Loaded, items: Sequence[Encoded]) -> list[Tensor]:
    """Return the logits of the whole vocabulary at the end of each input."""
    read = [replace(item, reading=AtPlace(-1), labels=None) for item in items]
    found: list[Tensor] = [torch.empty(0)] * len(items)
    policy = Sharing(loaded).policy(read, _AT_A_TIME)
    with bare(loaded.model) as logits_of:
        work = fitting_batches(loaded.model, "next", read, policy)
        for chosen in work:
            with work.trying(chosen):
                some = [read[i] for i in chosen]
                batch = collate(some, pad_id=loaded.pad_id, device=loaded.device)
                for i, row in zip(chosen, logits_of(batch), strict=True):
                    found[i] = row
    return found


def _next(loaded: Loaded, items: list[Encoded], target: Any, of: Of) -> Aimed:
    words = Vocabulary(loaded.tokenizer, loaded.vocabulary)
    named = _named(target)
    spec = TargetSpec(0, 1 if len(named) == 2 else None, of)
    ready = []
    for item, logits in zip(items, foretell(loaded, items), strict=True):
        first = [_token(one, logits, words) for one in named]
        if len(set(first)) < len(first):
            raise UnknownTarget(f"A contrast needs two different tokens. Got {target!r}.")
        ready.append(read_at_end(item, columns(logits, first), words))
    return Aimed(ready, spec, forwards=1)


def _named(target: Any) -> list[Any]:
    """Return the token asked for, or the two of a contrast."""
    if isinstance(target, str) and target.count(":") == 1 and all(target.split(":")):
        target = tuple(target.split(":"))
    if not isinstance(target, tuple):
        return ["predicted" if target is None else target]
    if len(target) != 2:
        raise UnknownTarget(f"A contrast has two tokens. Got {len(target)}: {target!r}.")
    return list(target)


def _token(asked: Any, logits: Tensor, words: Vocabulary) -> int:
    """Return the token that was asked for; of several that are written so, the likeliest."""
    if asked in ("predicted", "runner-up"):
        order = logits.argsort(descending=True, stable=True)
        return int(order[0 if asked == "predicted" else 1])
    found = words.tokens(asked)
    return max(found, key=lambda identity: (float(logits[identity]), -identity))


@dataclass
class Answers:
    """Answers put behind prompts."""

    loaded: Loaded
    starts: list[Encoded]
    truncate: bool = False  # cut prompts that leave no room for an answer
    forwards: int = 0  # what each prompt took so far
    _logits: dict[int, Tensor] = field(default_factory=dict)

    def tokens(self, row: int, answer: str) -> tuple[tuple[Token, ...], str]:
        """Return an answer's tokens and its text, with a space before it where the model rather expects one."""
        loaded, start = self.loaded, self.starts[row]
        if not isinstance(answer, str):
            raise BadParameter(
                f"answer must be a text, or two to hold against each other. Got {answer!r}."
            )
        if loaded.tokenizer is None:
            raise NoTokenizer(
                f"The answer {answer!r} cannot be encoded: the model has no tokenizer. Pass one "
                "(whence.load(model, tokenizer=...))."
            )
        if start.answer:
            return opening(answer, loaded.tokenizer), answer
        plain = continuation(answer, loaded.tokenizer)
        before = (start.source.text or "")[-1:]
        if answer[0].isspace() or before.isspace():
            return plain, answer
        spaced = continuation(" " + answer, loaded.tokenizer)
        if spaced[0].id == plain[0].id:
            return plain, answer
        self.forwards = 1
        if row not in self._logits:
            self._logits[row] = foretell(loaded, [start])[0]
        logits = self._logits[row]
        if logits[spaced[0].id] > logits[plain[0].id]:
            return spaced, " " + answer
        return plain, answer

    def item(self, row: int, answer: str) -> Encoded:
        """Return the input with the answer behind it, and its log-probability as what is read."""
        tokens, text = self.tokens(row, answer)
        item = self.joined(row, tokens, text)
        ids = tuple(token.id for token in tokens)
        places = tuple(range(-len(ids) - 1, -1))
        return replace(
            item, reading=Continuation(places, ids), labels=(text.strip() or repr(text), REST)
        )

    def joined(self, row: int, tokens: Sequence[Token], text: str) -> Encoded:
        """Return the input with tokens behind it, if they fit."""
        self.make_room(row, len(tokens))
        fits(self.starts[row], len(tokens), self.loaded)
        return grown(self.starts[row], tokens, text)

    def make_room(self, row: int, count: int) -> None:
        """Cut a prompt that leaves no room for so many tokens, where that is allowed."""
        start, longest = self.starts[row], self.loaded.max_length
        if self.truncate and longest is not None and not start.answer:
            self.starts[row] = shortened(start, max(0, longest - count))


def fits(start: Encoded, count: int, loaded: Loaded) -> None:
    """Refuse an answer that goes beyond the context."""
    longest = loaded.max_length
    given = len(start.answer) or len(start)
    if longest is not None and given + count > longest:
        what = "the decoder has" if start.answer else "the prompt has"
        raise TooLong(
            f"The answer has {count} tokens and {what} {given}: {given + count} together, and {loaded.limit}. "
            f"Shorten the prompt or the answer{'' if start.answer else ', or pass truncate=True'}."
        )


def _contrast(every: Answers, answers: Any, of: Of) -> Aimed:
    """Hold two answers against each other: two tokens exactly, longer answers by two explanations."""
    if not isinstance(answers, tuple) or len(answers) != 2:
        raise BadParameter(
            f"answer must be a text, or a tuple of two to hold against each other. Got {answers!r}."
        )
    loaded, starts = every.loaded, every.starts
    both = [[every.tokens(row, one) for one in answers] for row in range(len(starts))]
    for (one, _), (other, _) in both:
        ids = [tuple(token.id for token in tokens) for tokens in (one, other)]
        short = min(map(len, ids))
        if ids[0][:short] == ids[1][:short]:
            raise UnknownTarget(
                f"One answer begins with the other: {answers!r}. A contrast needs two that exclude each other."
            )
    if all(len(tokens) == 1 for pair in both for tokens, _ in pair):
        words = Vocabulary(loaded.tokenizer, loaded.vocabulary)
        logits = foretell(loaded, starts)
        firsts = [[tokens[0].id for tokens, _ in pair] for pair in both]
        ready = [
            read_at_end(start, columns(row, first), words)
            for start, row, first in zip(starts, logits, firsts, strict=True)
        ]
        return Aimed(ready, TargetSpec(0, 1, of), forwards=1 + every.forwards)
    for row, pair in enumerate(both):  # the same prompt for both
        every.make_room(row, max(len(tokens) for tokens, _ in pair))
    ready = [every.item(row, one) for row in range(len(starts)) for one in answers]
    owners = tuple(row for row in range(len(starts)) for _ in answers)
    return Aimed(ready, TargetSpec(0, None, of), owners, rather, every.forwards)


"""What a language model goes on with, and what it thought of every other token on the way."""

from typing import Any

import torch
from torch import Tensor

from whence.capture.forward import run_alone
from whence.capture.found import as_found
from whence.capture.target import finite
from whence.data import Encoded, collate


def greedy(
    model: Any, item: Encoded, tokens: int, *, pad_id: int | None, device: torch.device
) -> tuple[list[int], Tensor]:
    """Let the model go on by its likeliest token, so many at most; keys and values are kept between them.

    Returns the tokens, up to and with the one that ends the text, and its logits before each, (tokens, vocabulary).
    """
    inputs = collate([item], pad_id=pad_id, device=device).inputs
    given = "decoder_input_ids" if item.answer else "input_ids"
    length = inputs[given].shape[1] + tokens
    # A padding token is only asked for so that generate need not make one up, and say so.
    filler = {} if pad_id is not None else {"pad_token_id": 0}
    with as_found(model), torch.inference_mode():
        made = model.generate(
            **inputs,
            **filler,
            **_plain(model.generation_config, tokens, length),
        )
        ids = made.sequences[0, inputs[given].shape[1] :].tolist()
        logits = torch.stack([step[0] for step in made.logits])[: len(ids)]
    return ids, finite(logits.clone(), "logits")


def _plain(own: Any, tokens: int, length: int) -> dict[str, Any]:
    """Return settings for the likeliest token, step by step, whatever a model's own settings ask for.

    What a model forbids, forces or penalises stays: that is part of which token it says.
    """
    least = {
        name: min(getattr(own, name), most)
        for name, most in (("min_length", length), ("min_new_tokens", tokens))
        if getattr(own, name, None)
    }
    off = dict.fromkeys(
        (
            "max_length", "max_time", "forced_eos_token_id", "stop_strings", "penalty_alpha", "dola_layers",
            "guidance_scale", "prompt_lookup_num_tokens", "assistant_early_exit", "watermarking_config",
            "cache_implementation", "prefill_chunk_size", "temperature", "top_k", "top_p", "length_penalty",
            "early_stopping",
        )
    )  # fmt: skip
    return {
        **off,
        **least,
        "max_new_tokens": tokens,
        "do_sample": False,
        "num_beams": 1,
        "num_return_sequences": 1,
        "token_healing": False,
        "use_cache": True,
        "return_dict_in_generate": True,
        "output_logits": True,
        "output_scores": False,
        "output_attentions": False,
        "output_hidden_states": False,
    }


def foretold(
    model: Any, item: Encoded, count: int, *, pad_id: int | None, device: torch.device
) -> Tensor:
    """Return the logits before each of the last `count` tokens of an input, (count, vocabulary), in one pass."""
    batch = collate([item], pad_id=pad_id, device=device)
    with as_found(model), torch.inference_mode():
        made = run_alone(model, batch)
        logits: Tensor = made.logits[0, -count - 1 : -1]
    return finite(logits.clone(), "logits")


"""One answer rather than another, where they are longer than a token: the difference of two explanations."""

from dataclasses import replace
from math import exp, log
from sys import float_info
from typing import TYPE_CHECKING

from whence.core.types import Passes, Prediction, Source, Target
from whence.data.reading import REST

if TYPE_CHECKING:
    from whence.explainer.explanation import Explanation

SAID = "the difference of two explanations over the prompt, one for each answer"


def rather(both: "list[Explanation]") -> "Explanation":
    """Return why one answer rather than the other: over the prompt, as the answers' own tokens differ.

    It keeps none of its method's promises, and its scores have a sign whatever the method's have.
    """
    one, other = both
    prompt = [i for i, token in enumerate(one.tokens) if token.segment == 0]
    names = [explanation.target.label for explanation in both]
    if names[0] == names[1]:  # they differ by a space
        names = [repr(explanation.source.pair) for explanation in both]
    said = _said(names, [explanation.prediction.logits[0] for explanation in both])
    of = one.target.of
    words = [i for i, word in enumerate(one.spans) if word.segment == 0]
    measured = None
    if one.measured is not None and other.measured is not None:
        measured = one.measured[words] - other.measured[: len(words)]
    return replace(
        one,
        scores=one.scores[prompt] - other.scores[prompt],
        tokens=tuple(one.tokens[i] for i in prompt),
        spans=tuple(one.spans[i] for i in words),
        measured=measured,
        source=Source(one.source.text, None, one.source.dropped),
        prediction=said,
        target=Target(names[0], 0, Target(names[1], 1, None, of), of),
        signed=True,
        axioms={},
        passes=Passes(
            one.passes.forward + other.passes.forward, one.passes.backward + other.passes.backward
        ),
        seconds=one.seconds + other.seconds,
        provenance={**one.provenance, "contrast": SAID},
        # What it takes to test an explanation is an input with two answers at once, which no model takes.
        item=None,
        read=(),
        reading=None,
        columns=None,
    )


def _said(names: list[str], logits: list[float]) -> Prediction:
    """Describe what the model thinks of both answers; they exclude each other, so what is left is any other."""
    shares = [exp(value) for value in logits]
    left = max(1 - sum(shares), float_info.min)
    best = 0 if shares[0] >= shares[1] else 1
    known = dict(zip([*names, REST], [*shares, left], strict=True))
    return Prediction(names[best], best, shares[best], known, (*logits, log(left)))
