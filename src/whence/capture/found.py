"""A model is left as it was found, also when something raises in between."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch

from whence.models.fingerprint import altered_by

# Two threads on one model would undo each other's switches, so they take turns.
_turns: WeakKeyDictionary[torch.nn.Module, RLock] = WeakKeyDictionary()
_turns_guard = Lock()


def turn(model: torch.nn.Module) -> RLock:
    """Return the lock that whoever changes this model holds meanwhile."""
    with _turns_guard:
        return _turns.setdefault(model, RLock())


@contextmanager
def as_found(model: torch.nn.Module) -> Iterator[ExitStack]:
    """Put `model` into evaluation mode with frozen weights; undo everything on the way out.

    Yields a stack: whatever else is put on the model registers its removal there.
    """
    with turn(model), ExitStack() as stack:
        modes = [(module, module.training) for module in model.modules()]
        frozen = [weight for weight in model.parameters() if weight.requires_grad]
        devices = sorted({w.device.index for w in model.parameters() if w.device.type == "cuda"})
        stack.enter_context(torch.random.fork_rng(devices=devices))
        # The caller may sit in no_grad or inference_mode; a trace needs gradients all the same.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.callback(_restore, modes, frozen)
        for module, training in modes:
            if training:
                module.training = False
        for weight in frozen:
            weight.requires_grad_(False)
        yield stack


@contextmanager
def altering(model: torch.nn.Module, what: str) -> Iterator[ExitStack]:
    """Take the model's turn to change what it computes; meanwhile it has a fingerprint of its own.

    Yields a stack: whatever is put on the model registers its removal there.
    """
    with turn(model), altered_by(model, what), ExitStack() as stack:
        yield stack


def _restore(modes: list[tuple[Any, bool]], frozen: list[torch.nn.Parameter]) -> None:
    for module, training in modes:
        if module.training is not training:
            module.training = training
    for weight in frozen:
        weight.requires_grad_(True)
