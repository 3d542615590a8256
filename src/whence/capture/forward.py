"""One forward pass, as every part of whence runs it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from whence.capture.attention.unwatched import unwatched
from whence.capture.found import as_found
from whence.capture.memory.compiled import compiled
from whence.capture.readout import beside, read, tail
from whence.capture.target import finite
from whence.data import Batch


def forward(model: Any, batch: Batch) -> Any:
    """Run the model and return whatever it gives."""
    inputs = batch.inputs
    if batch.pictures:  # kept wider than a model in half precision takes them
        inputs = {**inputs, "pixel_values": inputs["pixel_values"].to(model.dtype)}
    known = _parameters(model.__class__.forward)
    # There is no next token to keep keys and values for, and the copies would be followed.
    settings: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
    if "logits_to_keep" in known and (kept := tail(batch)):
        settings["logits_to_keep"] = kept
    return model(**inputs, **beside(batch), **settings)


def run(model: Any, batch: Batch) -> Tensor:
    """Run the model and return its logits, (batch, labels); hooks and modes are the caller's business."""
    return finite(read(forward(model, batch), batch, type(model).__name__), "logits")


@contextmanager
def bare(model: Any) -> Iterator[Callable[[Batch], Tensor]]:
    """Yield a function that runs the model forward on a batch, and nothing else, (batch, labels)."""
    with as_found(model), torch.inference_mode(), compiled(model) as fast:
        if fast:  # a compiler would stumble over the seam, and makes its own of masks
            yield partial(run, model)
            return
        with unwatched(model) as do:
            yield lambda batch: do(partial(run, model, batch))


def bare_logits(model: Any, batch: Batch) -> Tensor:
    """Run the model forward on one batch, and nothing else, (batch, labels)."""
    with bare(model) as logits_of:
        return logits_of(batch)


@cache
def _parameters(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(forward).parameters)
