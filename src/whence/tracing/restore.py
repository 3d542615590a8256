"""A model is left as it was found, also when something raises in between."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import torch

from whence.models.fingerprint import altered_by
from whence.models.parts import held, weights

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
    with turn(model), held(model) as modules, ExitStack() as stack:
        training = [module for module in modules if module.training]
        switched = _attention_types(modules)
        frozen, devices = [], set()
        for weight in weights(modules):
            if weight.requires_grad:
                frozen.append(weight)
            if weight.is_cuda:
                devices.add(weight.get_device())
        stack.enter_context(torch.random.fork_rng(devices=sorted(devices)))
        # The caller may sit in no_grad or inference_mode; a trace needs gradients all the same.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.callback(_restore, modules, training, frozen)
        stack.callback(_switch_back, switched)
        for module in training:
            module.training = False
        for weight in frozen:
            weight.requires_grad_(False)
        yield stack


# A module, the attention it has, and what it is made of.
_Attending = tuple[torch.nn.Module, str, dict[str, torch.nn.Module | None]]


def _attention_types(modules: list[torch.nn.Module]) -> list[_Attending]:
    """Note the attention of models that give themselves another: BigBird does, for good, on the first short text."""
    own = [one for one in modules if hasattr(type(one), "set_attention_type")]
    return [(one, str(one.attention_type), dict(one._modules)) for one in own]


def _switch_back(noted: list[_Attending]) -> None:
    for module, kind, parts in noted:
        if module.attention_type != kind:
            module.attention_type = kind  # type: ignore[assignment]
            module._modules.update(parts)


@contextmanager
def altering(model: torch.nn.Module, what: str) -> Iterator[ExitStack]:
    """Take the model's turn to change what it computes; meanwhile it has a fingerprint of its own.

    Yields a stack: whatever is put on the model registers its removal there.
    """
    with turn(model), altered_by(model, what), ExitStack() as stack:
        yield stack


def _restore(
    modules: list[torch.nn.Module],
    training: list[torch.nn.Module],
    frozen: list[torch.nn.Parameter],
) -> None:
    for module in modules:
        if module.training:  # somebody switched it meanwhile
            module.training = False
    for module in training:
        module.training = True
    for weight in frozen:
        weight.requires_grad_(True)
