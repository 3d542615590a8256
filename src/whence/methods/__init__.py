"""The methods. Each is one file, registers itself, and knows no other.

A *reader* is `fn(trace, *, ...)` and reads one trace that all readers share. An *asker* is
`fn(ask, batch, *, ...)` and calls the model again through a counted, batched `ask`. Both return scores of
(batch, tokens), or those and a mapping of axiom residuals, each (batch,).

The conventions, the same in all of them: what is explained is the target's logit unless asked otherwise;
gradients are taken at the output of `get_input_embeddings()`; attention methods read the row that the
prediction reads; layers count from 0 at the input; every token has a score, special ones included.
"""

from collections.abc import Mapping
from inspect import signature
from typing import Any, Literal

import torch
from torch import Tensor

from whence.capture import NEEDS, Trace
from whence.core.errors import BadMethod
from whence.core.registry import Entry, Registry
from whence.view.scale import UNITS, Unit

Scores = Tensor | tuple[Tensor, Mapping[str, Tensor]]

# Which rows of a map speak for the prediction: those it reads, the last token's, the mean of all, or for each
# token the largest of all.
Query = Literal["read", "last", "mean", "max"]
# What becomes of the score that the row which is read gives to its own token.
Own = Literal["keep", "zero", "min"]


def is_reader(entry: Entry) -> bool:
    """Tell a reader, whose first argument is `trace`, from an asker."""
    return next(iter(signature(entry.fn).parameters), "") == "trace"


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


def with_own(scores: Tensor, rows: Tensor, real: Tensor, own: Own) -> Tensor:
    """Return the scores with the entry of the one row that was read kept, set to 0, or to the smallest of all.

    `rows` (batch, tokens) is not zero at the rows that were read. Where there are several of them (mean pooling),
    none of the entries is the row's own, and nothing changes. Axioms are to be measured before this.
    """
    if own == "keep":
        return scores
    place = rows.ne(0)
    place &= place.sum(1, keepdim=True) == 1
    smallest = scores.masked_fill(~real, torch.inf).amin(1, keepdim=True)
    return torch.where(place, smallest if own == "min" else torch.zeros_like(smallest), scores)


def _check(entry: Entry) -> None:
    """Refuse a method that could only fail later, and less clearly."""
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
    if entry.facts.get("unit", "relative") not in UNITS:
        raise BadMethod(
            f"{where} must state a unit out of {', '.join(UNITS)}. It states {entry.facts['unit']!r}."
        )


def unit_of(name: str, parameters: Mapping[str, Any]) -> Unit:
    """Return the unit that a method states of its scores; of one that is not installed here nothing is known."""
    facts = method.get(name).facts if name in method.names() else {}
    try:
        found: Unit = facts["unit_when"](parameters) if "unit_when" in facts else facts["unit"]
    except KeyError:  # a method that states none, or parameters of an older file
        return "relative"
    return found


# needs: what a reader wants traced (whence.capture.NEEDS); signed: can a score be negative; cite: where it comes
# from; formula: what it computes; cost: in passes; misleads_when: how it goes wrong. Optional: presets maps the name
# of a paper's or its code's setting to parameters and their values; settle(parameters, fillers) fills in what depends
# on the model; calls(n, parameters) is the number of extra forward passes an asker makes for an input of n tokens, or
# a little more than that; unsure_in_half says that the scores of a model in half precision are mostly rounding
# (docs/reference/precision.md); signed_when(parameters) says whether scores are signed where that depends on them;
# notice is something that users must know before they use it; words is how the scores of a word's tokens make its
# score: "sum" (default), or "mean" where each is an effect of its own and they do not add up; measure_words(ask,
# batch, scores, parameters) returns, for each input, the scores of its words as measured on whole words, from an
# asker that can be asked about them; of is what a method explains whatever was asked for: "probability" of one that
# measures it; unit is that of the scores, by which colours are scaled (whence.view.scale): "output", that of the
# explained output; "weighted", the same times attention; "share", parts of a whole; or "relative", none (the
# default); unit_when(parameters) says it where it depends on them.
method = Registry(
    kind="method",
    package="whence.methods",
    check=_check,
    required=frozenset({"family", "needs", "signed", "cite", "formula", "cost", "misleads_when"}),
)

__all__ = ["Own", "Query", "Scores", "is_reader", "method", "query_rows", "unit_of", "with_own"]
