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

from torch import Tensor

from whence.capture import NEEDS
from whence.core.errors import BadMethod
from whence.core.registry import Entry, Registry

Scores = Tensor | tuple[Tensor, Mapping[str, Tensor]]


def is_reader(entry: Entry) -> bool:
    """Tell a reader, whose first argument is `trace`, from an asker."""
    return next(iter(signature(entry.fn).parameters), "") == "trace"


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


# needs: what a reader wants traced (whence.capture.NEEDS); signed: can a score be negative;
# cite: where it comes from; formula: what it computes; cost: in passes; misleads_when: how it goes wrong.
# Optional: settle(parameters, fillers) fills in what depends on the model; calls(n) is the number of extra
# forward passes an asker makes for an input of n tokens.
method = Registry(
    kind="method",
    package="whence.methods",
    check=_check,
    required=frozenset({"family", "needs", "signed", "cite", "formula", "cost", "misleads_when"}),
)

__all__ = ["Scores", "is_reader", "method"]
