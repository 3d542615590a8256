"""Targets of language models (next token, answer, contrast of answers), greedy decoding, next-token logits.

Columns at the end of a prompt: requested tokens, likeliest tokens, all others together. A whole answer has
two columns, its log-probability and that of any other. A contrast of longer answers is the difference of
two explanations. A decoder's tokens are the second text of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from sys import float_info
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.core.errors import BadEncoding, BadParameter, NoTokenizer, TooLong, UnknownTarget
from whence.core.types import InputText, OutputScale, PassCount, Prediction, Target, Token
from whence.data.batches import collate
from whence.data.prompts import (
    Vocabulary,
    append_tokens,
    encode_continuation,
    encode_decoder_text,
    find_decoder_prefix,
    truncate_prompt,
)
from whence.data.readout import REST_LABEL, TOP_TOKENS, ContinuationReadout, TokenReadout
from whence.data.tokens import EncodedInput
from whence.explain.batch_policy import choose_batch_policy, map_batches
from whence.explain.tasks import TargetedInputs, TargetRequest, list_targets
from whence.models.model import LoadedModel
from whence.tracing.forward import open_plain_forward, run_unobserved
from whence.tracing.restore import restore_on_exit
from whence.tracing.target import TargetSpec, check_finite

if TYPE_CHECKING:
    from whence.explain.explanation import Explanation


def decode_greedily(
    model: Any, item: EncodedInput, tokens: int, *, pad_id: int | None, device: torch.device
) -> tuple[list[int], Tensor]:
    """Generate at most `tokens` tokens greedily, with a key-value cache.

    Return the tokens, including the end token, and the logits before each, (tokens, vocabulary).
    """
    inputs = collate([item], pad_id=pad_id, device=device).inputs
    input_name = "decoder_input_ids" if item.answer else "input_ids"
    length = inputs[input_name].shape[1] + tokens
    # Without a padding token, `generate` would choose one and log a message.
    filler = {} if pad_id is not None else {"pad_token_id": 0}
    with restore_on_exit(model), torch.inference_mode():
        output = model.generate(
            **inputs,
            **filler,
            **_build_greedy_settings(model.generation_config, tokens, length),
        )
        ids = output.sequences[0, inputs[input_name].shape[1] :].tolist()
        logits = torch.stack([step[0] for step in output.logits])[: len(ids)]
    return ids, check_finite(logits.clone(), "logits")


def _build_greedy_settings(config: Any, tokens: int, length: int) -> dict[str, Any]:
    """Return generation settings for greedy decoding, whatever the model's own settings are.

    Forbidden, forced and penalised tokens stay: they are part of the model's choice.
    """
    least = {
        name: min(getattr(config, name), most)
        for name, most in (("min_length", length), ("min_new_tokens", tokens))
        if getattr(config, name, None)
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


def compute_token_logits(
    model: Any, item: EncodedInput, count: int, *, pad_id: int | None, device: torch.device
) -> Tensor:
    """Return the logits before each of the last `count` tokens of an input, (count, vocabulary), in one pass."""
    batch = collate([item], pad_id=pad_id, device=device)
    with restore_on_exit(model), torch.inference_mode():
        output = run_unobserved(model, batch)
        logits: Tensor = output.logits[0, -count - 1 : -1]
    return check_finite(logits.clone(), "logits")


# Inputs per batch, few because of the logits of a large vocabulary.
_INPUTS_PER_BATCH = 16


def resolve_continuation(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Resolve the target of a language model: the next token, or the whole of `request.answer`."""
    starts = [with_decoder_start(item, loaded) for item in items]
    if request.answer is None:
        return _resolve_next_token(loaded, starts, request.target, request.of)
    if request.target is not None:
        raise BadParameter(
            f"target={request.target!r} asks about one token and answer={request.answer!r} about several. Give "
            "one of them."
        )
    prompts = PromptAnswers(loaded, starts, request.truncate)
    if not isinstance(request.answer, str):
        return _resolve_contrast(prompts, request.answer, request.of)
    spec = TargetSpec(0, None, request.of)
    ready = [prompts.encode_answer(row, request.answer) for row in range(len(starts))]
    return TargetedInputs(ready, spec, forwards=prompts.forwards)


def with_decoder_start(item: EncodedInput, loaded: LoadedModel) -> EncodedInput:
    """Return the input ready for generation; a decoder gets its start tokens."""
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
    ids = (start, *(() if tokenizer is None else find_decoder_prefix(tokenizer)))
    words = Vocabulary(tokenizer)
    tokens = tuple(Token(words.find_piece(i), None, None, 1, True, i) for i in ids)
    return replace(item, answer=ids, tokens=(*item.tokens, *tokens))


def select_columns(logits: Tensor, first: Sequence[int]) -> tuple[int, ...]:
    """Return the tokens with a column of their own: `first`, then the likeliest of (vocabulary,)."""
    likely = logits.topk(min(TOP_TOKENS + len(first), len(logits) - 1)).indices.tolist()
    named = list(dict.fromkeys([*first, *likely]))
    return tuple(named[: max(min(TOP_TOKENS, len(logits) - 1), len(first))])


def read_at_end(item: EncodedInput, ids: tuple[int, ...], words: Vocabulary) -> EncodedInput:
    """Return the input with a readout of these tokens at its last position, and of all others together."""
    return replace(
        item, reading=TokenReadout(-1, ids), labels=(*words.format_labels(ids), REST_LABEL)
    )


def compute_next_logits(loaded: LoadedModel, items: Sequence[EncodedInput]) -> list[Tensor]:
    """Return the next-token logits over the whole vocabulary for each input."""
    read = [replace(item, reading=TokenReadout(-1), labels=None) for item in items]
    policy = choose_batch_policy(loaded, read, _INPUTS_PER_BATCH)
    with open_plain_forward(loaded.model) as logits_of:
        return map_batches(loaded, "next", read, policy, lambda _, batch: logits_of(batch))


def _resolve_next_token(
    loaded: LoadedModel, items: list[EncodedInput], target: Any, of: OutputScale
) -> TargetedInputs:
    words = Vocabulary(loaded.tokenizer, loaded.vocabulary_size)
    if isinstance(target, str) and target.count(":") == 1 and all(target.split(":")):
        target = tuple(target.split(":"))
    named = list_targets(target, "tokens")
    spec = TargetSpec(0, 1 if len(named) == 2 else None, of)
    ready = []
    for item, logits in zip(items, compute_next_logits(loaded, items), strict=True):
        first = [_resolve_token(token, logits, words) for token in named]
        if len(set(first)) < len(first):
            raise UnknownTarget(f"A contrast needs two different tokens. Got {target!r}.")
        ready.append(read_at_end(item, select_columns(logits, first), words))
    return TargetedInputs(ready, spec, forwards=1)


def _resolve_token(token: Any, logits: Tensor, words: Vocabulary) -> int:
    """Return the id of the requested token; the likeliest of several with the same spelling."""
    if token in ("predicted", "runner-up"):
        order = logits.argsort(descending=True, stable=True)
        return int(order[0 if token == "predicted" else 1])
    ids = words.find_tokens(token)
    return max(ids, key=lambda identity: (float(logits[identity]), -identity))


@dataclass
class PromptAnswers:
    """Appends answers to prompts."""

    loaded: LoadedModel
    starts: list[EncodedInput]
    truncate: bool = False  # cut prompts that leave no room for an answer
    forwards: int = 0  # forward passes per prompt so far
    _logits: dict[int, Tensor] = field(default_factory=dict)

    def tokens(self, row: int, answer: str) -> tuple[tuple[Token, ...], str]:
        """Return an answer's tokens and text, with a leading space where the model finds that likelier."""
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
            return encode_decoder_text(answer, loaded.tokenizer), answer
        plain = encode_continuation(answer, loaded.tokenizer)
        before = (start.source.text or "")[-1:]
        if answer[0].isspace() or before.isspace():
            return plain, answer
        spaced = encode_continuation(" " + answer, loaded.tokenizer)
        if spaced[0].id == plain[0].id:
            return plain, answer
        self.forwards = 1
        if row not in self._logits:
            self._logits[row] = compute_next_logits(loaded, [start])[0]
        logits = self._logits[row]
        if logits[spaced[0].id] > logits[plain[0].id]:
            return spaced, " " + answer
        return plain, answer

    def encode_answer(self, row: int, answer: str) -> EncodedInput:
        """Return the prompt with the answer appended, and its log-probability as readout."""
        tokens, text = self.tokens(row, answer)
        item = self.append_tokens(row, tokens, text)
        ids = tuple(token.id for token in tokens)
        places = tuple(range(-len(ids) - 1, -1))
        return replace(
            item,
            reading=ContinuationReadout(places, ids),
            labels=(text.strip() or repr(text), REST_LABEL),
        )

    def append_tokens(self, row: int, tokens: Sequence[Token], text: str) -> EncodedInput:
        """Return the prompt with tokens appended; refuse more than the context takes."""
        self.make_room(row, len(tokens))
        start, longest, count = self.starts[row], self.loaded.max_length, len(tokens)
        length = len(start.answer) or len(start)
        if longest is not None and length + count > longest:
            what = "the decoder has" if start.answer else "the prompt has"
            raise TooLong(
                f"The answer has {count} tokens and {what} {length}: {length + count} together, and "
                f"{self.loaded.length_limit}. Shorten the prompt or the answer"
                f"{'' if start.answer else ', or pass truncate=True'}."
            )
        return append_tokens(start, tokens, text)

    def make_room(self, row: int, count: int) -> None:
        """Cut the prompt to leave room for `count` tokens, if truncation is allowed."""
        start, longest = self.starts[row], self.loaded.max_length
        if self.truncate and longest is not None and not start.answer:
            self.starts[row] = truncate_prompt(start, max(0, longest - count))


def _resolve_contrast(prompts: PromptAnswers, answers: Any, of: OutputScale) -> TargetedInputs:
    """Contrast two answers: two single tokens exactly, longer answers by two explanations."""
    if not isinstance(answers, tuple) or len(answers) != 2:
        raise BadParameter(
            f"answer must be a text, or a tuple of two to hold against each other. Got {answers!r}."
        )
    loaded, starts = prompts.loaded, prompts.starts
    both = [[prompts.tokens(row, answer) for answer in answers] for row in range(len(starts))]
    for (left, _), (right, _) in both:
        ids = [tuple(token.id for token in tokens) for tokens in (left, right)]
        short = min(map(len, ids))
        if ids[0][:short] == ids[1][:short]:
            raise UnknownTarget(
                f"One answer begins with the other: {answers!r}. A contrast needs two that exclude each other."
            )
    if all(len(tokens) == 1 for pair in both for tokens, _ in pair):
        words = Vocabulary(loaded.tokenizer, loaded.vocabulary_size)
        logits = compute_next_logits(loaded, starts)
        firsts = [[tokens[0].id for tokens, _ in pair] for pair in both]
        ready = [
            read_at_end(start, select_columns(row, first), words)
            for start, row, first in zip(starts, logits, firsts, strict=True)
        ]
        return TargetedInputs(ready, TargetSpec(0, 1, of), forwards=1 + prompts.forwards)
    for row, pair in enumerate(both):  # the same prompt for both
        prompts.make_room(row, max(len(tokens) for tokens, _ in pair))
    ready = [prompts.encode_answer(row, answer) for row in range(len(starts)) for answer in answers]
    owners = tuple(row for row in range(len(starts)) for _ in answers)
    return TargetedInputs(
        ready, TargetSpec(0, None, of), owners, subtract_explanations, prompts.forwards
    )


CONTRAST_NOTE = "the difference of two explanations over the prompt, one for each answer"


def subtract_explanations(both: "list[Explanation]") -> "Explanation":
    """Return the contrast of two answers: the difference of their explanations over the prompt.

    Only the prompt's tokens are common to both. The difference satisfies no axiom of the method, and is signed.
    """
    left, right = both
    prompt = [i for i, token in enumerate(left.tokens) if token.segment == 0]
    names = [explanation.target.label for explanation in both]
    if names[0] == names[1]:  # the answers differ by a space only
        names = [repr(explanation.source.pair) for explanation in both]
    # A prediction over the two answers and the rest; they exclude each other.
    logits = [explanation.prediction.logits[0] for explanation in both]
    shares = [exp(value) for value in logits]
    rest = max(1 - sum(shares), float_info.min)
    best = 0 if shares[0] >= shares[1] else 1
    known = dict(zip([*names, REST_LABEL], [*shares, rest], strict=True))
    prediction = Prediction(names[best], best, shares[best], known, (*logits, log(rest)))
    of = left.target.of
    words = [i for i, word in enumerate(left.spans) if word.segment == 0]
    measured = None
    if left.measured is not None and right.measured is not None:
        measured = left.measured[words] - right.measured[: len(words)]
    return replace(
        left,
        scores=left.scores[prompt] - right.scores[prompt],
        tokens=tuple(left.tokens[i] for i in prompt),
        spans=tuple(left.spans[i] for i in words),
        measured=measured,
        source=InputText(left.source.text, None, left.source.dropped),
        prediction=prediction,
        target=Target(names[0], 0, Target(names[1], 1, None, of), of),
        signed=True,
        axioms={},
        passes=PassCount(
            left.passes.forward + right.passes.forward, left.passes.backward + right.passes.backward
        ),
        seconds=left.seconds + right.seconds,
        provenance={**left.provenance, "contrast": CONTRAST_NOTE},
        # No input: a test would need one with both answers at once, which no model takes.
        item=None,
        read=(),
        reading=None,
        columns=None,
    )
