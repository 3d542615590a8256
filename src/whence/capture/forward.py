"""One forward pass, as every part of whence runs it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from inspect import signature
from threading import Thread
from typing import Any

import torch
from torch import Tensor

from whence.capture.attention.unwatched import unmasked, unwatched
from whence.capture.fidelity import agrees, shown
from whence.capture.found import as_found
from whence.capture.memory.compiled import compiled
from whence.capture.memory.fitting import device_lost, lacks_memory
from whence.capture.readout import beside, read, tail
from whence.capture.target import finite
from whence.core.errors import ModelFailed, WhenceError
from whence.core.failure import is_failure
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
    try:
        return model(**inputs, **beside(batch), **settings)
    except BaseException as error:  # a model is foreign code, and may raise anything
        if isinstance(error, WhenceError) or lacks_memory(error) or not is_failure(error):
            raise
        if device_lost(error):  # no result of this input: whatever is asked next fails as well
            raise
        if not _fails_alone(partial(model, **batch.inputs, **beside(batch), **settings)):
            raise
        raise _failure(model, error) from error


def _fails_alone(run: Callable[[], Any]) -> bool:
    """Say whether a model fails by itself: in another thread, where hooks, modes and seams of ours do nothing."""
    failed: list[bool] = []

    def work() -> None:
        try:
            with torch.no_grad():
                run()
            failed.append(False)
        except BaseException:  # whatever it is, it is the model's own
            failed.append(True)

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    return failed == [True]


def _failure(model: Any, error: BaseException) -> ModelFailed:
    said = " ".join(str(error).split())
    said = f"{type(error).__name__}: {said if len(said) <= _MOST else said[:_MOST] + '...'}"
    kinds = {one.dtype for one in model.parameters() if one.is_floating_point()}
    kind = ", ".join(sorted(str(one).removeprefix("torch.") for one in kinds))
    by_type = kinds - {torch.float32} and any(word in said.lower() for word in _TYPES)
    advice = (
        f"Its weights are {kind}: load it with dtype='float32' (--dtype float32)."
        if by_type
        else "Look at its configuration, and at what its forward takes beside the text."
    )
    return ModelFailed(
        f"{type(model).__name__} fails on this input also by itself, without whence ({said}). {advice}"
    )


# What PyTorch says where a kernel does not take a type of numbers, or a number does not fit into one.
_TYPES = ("float", "double", "half", "dtype", "overflow", "scalar type")
_MOST = 300  # characters of what a model says: some print a whole page


def run(model: Any, batch: Batch) -> Tensor:
    """Run the model and return its logits, (batch, labels); hooks and modes are the caller's business."""
    return _logits(model, batch, forward(model, batch))


def _logits(model: Any, batch: Batch, output: Any) -> Tensor:
    return finite(read(output, batch, type(model).__name__), "logits")


def run_alone(model: Any, batch: Batch) -> Any:
    """Run the model with nobody watching, and return whatever it gives: what it gives by itself."""
    return unmasked(model, partial(forward, model, batch), _sure(model, batch))


def _sure(model: Any, batch: Batch) -> Callable[[Any], bool]:
    run = partial(forward, model, batch)
    return lambda output: agrees(model, "seam", batch, shown(output), run)


@contextmanager
def bare(model: Any) -> Iterator[Callable[[Batch], Tensor]]:
    """Yield a function that runs the model forward on a batch, and nothing else, (batch, labels)."""
    with as_found(model), torch.inference_mode(), compiled(model) as fast:
        if fast:  # a compiler would stumble over the seam, and makes its own of masks
            yield partial(run, model)
            return
        devices = {one.get_device() for one in model.parameters() if one.is_cuda}
        with unwatched(model) as do:

            def logits_of(batch: Batch) -> Tensor:
                # Every pass with the same chance, whatever ran before: Reformer draws its hashes.
                with torch.random.fork_rng(devices=sorted(devices)):
                    output = do(partial(forward, model, batch), _sure(model, batch))
                return _logits(model, batch, output)

            yield logits_of


def bare_logits(model: Any, batch: Batch) -> Tensor:
    """Run the model forward on one batch, and nothing else, (batch, labels)."""
    with bare(model) as logits_of:
        return logits_of(batch)


@cache
def _parameters(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(forward).parameters)
