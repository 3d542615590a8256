"""One forward pass, as every part of whence runs it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from whence.capture.found import as_found
from whence.capture.target import finite
from whence.core.errors import NoHead
from whence.data import Batch


def forward(model: Any, batch: Batch) -> Any:
    """Run the model and return whatever it gives."""
    return model(**batch.inputs, **_uncached(model.__class__.forward))


def run(model: Any, batch: Batch) -> Tensor:
    """Run the model and return its logits, (batch, labels); hooks and modes are the caller's business."""
    logits = getattr(forward(model, batch), "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise NoHead(
            f"{type(model).__name__} has no classification head: it gives no logits of (inputs, labels). "
            "Load a model ...ForSequenceClassification."
        )
    return finite(logits, "logits")


@contextmanager
def bare(model: Any) -> Iterator[Callable[[Batch], Tensor]]:
    """Yield a function that runs the model forward on a batch, and nothing else, (batch, labels)."""
    with as_found(model), torch.inference_mode():
        yield partial(run, model)


def bare_logits(model: Any, batch: Batch) -> Tensor:
    """Run the model forward on one batch, and nothing else, (batch, labels)."""
    with bare(model) as logits_of:
        return logits_of(batch)


@cache
def _uncached(forward: Callable[..., Any]) -> dict[str, bool]:
    """Ask a decoder not to keep keys and values: there is no next token, and the copies would be followed."""
    return {"use_cache": False} if "use_cache" in signature(forward).parameters else {}
