"""The methods. Each is one file, registers itself, and knows no other.

A *trace method* is `fn(trace, *, ...)` and reads one trace that all trace methods share. A *query method* is
`fn(ask, batch, *, ...)` and calls the model again through a counted, batched `ask`. Both return scores of
(batch, tokens), or those and a mapping of axiom residuals, each (batch,).

The conventions, the same in all of them: the target's logit is explained unless another scale is requested;
gradients are taken at the output of `get_input_embeddings()`; attention methods read the row that the
prediction reads; layers count from 0 at the input; every token has a score, special ones included.
"""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, Literal

import torch
from torch import Tensor

from whence.core.errors import BadMethod, UnknownMethod
from whence.core.registry import Entry, Registry
from whence.data.removal import Removal, resolve_removal
from whence.tracing.ask import resolve_baseline
from whence.tracing.trace import NEEDS, Trace

Scores = Tensor | tuple[Tensor, Mapping[str, Tensor]]

# The rows of an attention map that stand for the prediction: those it reads, the last token's, the mean of all, or
# for each token the largest of all.
Query = Literal["read", "last", "mean", "max"]
# The score that the read row gives to its own token: kept, set to 0, or to the smallest score.
OwnScore = Literal["keep", "zero", "min"]
# The units of scores that a method can declare.
ScoreUnit = Literal["output", "weighted", "share", "relative"]
SCORE_UNITS: tuple[ScoreUnit, ...] = ("output", "weighted", "share", "relative")


def is_trace_method(entry: Entry) -> bool:
    """Return whether a method is a trace method: its first argument is `trace`."""
    return entry.takes == "trace"


def query_rows(trace: Trace, query: Query) -> list[Tensor]:
    """Return the weights of the rows to contract a map with, each (batch, tokens).

    For "max" there is one for every token, to take the largest result of; it is zero where that is padding. Where
    one row pools the tokens, there is no other: it is the last, the mean and the largest. The rows of an
    encoder-decoder are the decoder's.
    """
    real = trace.queries.to(trace.rows.dtype)
    if query == "read" or trace.pooled:
        return [trace.rows]
    if query == "mean":
        return [real / real.sum(1, keepdim=True)]
    if query == "max":
        return list(torch.diag_embed(real).unbind(1))
    last = real.cumsum(1).argmax(1)
    return [torch.nn.functional.one_hot(last, real.shape[1]).to(real)]


def with_own_score(scores: Tensor, rows: Tensor, real: Tensor, own: OwnScore) -> Tensor:
    """Return the scores with the read row's entry for its own token kept, zeroed or set to the minimum.

    `rows` (batch, tokens) is not zero at the rows that were read. Where there are several of them (mean pooling),
    none of the entries is the row's own, and nothing changes. Axioms are to be measured before this.
    """
    if own == "keep":
        return scores
    place = rows.ne(0)
    place &= place.sum(1, keepdim=True) == 1
    smallest = scores.masked_fill(~real, torch.inf).amin(1, keepdim=True)
    return torch.where(place, smallest if own == "min" else torch.zeros_like(smallest), scores)


def settle_removal(
    parameters: dict[str, Any],
    fillers: Mapping[str, int],
    prefer: Sequence[Removal] = ("mask", "delete"),
) -> dict[str, Any]:
    """Fill in the way of removal: the first of `prefer` that the model has."""
    return {**parameters, "remove": resolve_removal(parameters["remove"], fillers, prefer)}


def settle_baseline(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    """Fill in the baseline that the model has."""
    return {**parameters, "baseline": resolve_baseline(parameters["baseline"], fillers)}


def _check(entry: Entry) -> None:
    """Refuse a method with a wrong signature, unknown needs or an unknown unit, at registration."""
    where = f"The method {entry.name!r} ({entry.fn.__module__}.{entry.fn.__qualname__})"
    positional = [
        p.name for p in signature(entry.fn).parameters.values() if p.kind is not p.KEYWORD_ONLY
    ]
    if positional not in (["trace"], ["ask", "batch"]):
        raise BadMethod(
            f"{where} must take (trace, *, ...) or (ask, batch, *, ...). It takes {positional}."
        )
    needs = entry.facts["needs"]
    if not isinstance(needs, set | frozenset) or not needs <= NEEDS:
        raise BadMethod(f"{where} must need a set out of {sorted(NEEDS)}. It needs {needs!r}.")
    if entry.facts.get("unit", "relative") not in SCORE_UNITS:
        raise BadMethod(
            f"{where} must state a unit out of {', '.join(SCORE_UNITS)}. It states {entry.facts['unit']!r}."
        )


def resolve_score_unit(name: str, parameters: Mapping[str, Any]) -> ScoreUnit:
    """Return the unit that a method states for its scores; "relative" if it is not installed here."""
    try:
        facts = method.get(name).facts
        unit: ScoreUnit = facts["unit_when"](parameters) if "unit_when" in facts else facts["unit"]
    except (UnknownMethod, KeyError):  # no unit is stated, or parameters of an older file
        return "relative"
    return unit


# The facts that a method states:
# needs: parts of the trace that it reads (whence.tracing.trace.NEEDS).
# signed: whether a score can be negative.
# cite, formula, cost (in passes), misleads_when (how it goes wrong): texts for its card.
# Optional facts:
# presets: name of a setting (of a paper or its code) -> parameters and their values.
# settle(parameters, fillers): fills in parameters that depend on the model.
# calls(n, parameters): extra forward passes for an input of n tokens, or a slight overestimate.
# unsure_in_half: the scores in half precision are mostly rounding (docs/reference/precision.md).
# signed_when(parameters): whether scores are signed, if that depends on the parameters.
# notice: a text that users must see before they use it.
# words: how token scores make a word's score: "sum" (default), or "mean" if effects of tokens do not add up.
# measure_words(ask, batch, scores, parameters): word scores of each input, measured on whole words (query methods).
# of: the output scale that the method always explains, such as "probability".
# unit: the unit of the scores, which scales colours (explain/word_scores.py): "output", that of the explained output;
#   "weighted", the same times attention; "share", parts of a whole; "relative", none (default).
# unit_when(parameters): the unit, if it depends on the parameters.
method = Registry(
    kind="method",
    package="whence.methods",
    check=_check,
    required=frozenset({"family", "needs", "signed", "cite", "formula", "cost", "misleads_when"}),
)

__all__ = [
    "OwnScore",
    "Query",
    "Scores",
    "is_trace_method",
    "method",
    "query_rows",
    "resolve_score_unit",
    "settle_baseline",
    "settle_removal",
    "with_own_score",
]
