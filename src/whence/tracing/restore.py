"""Locks on models, and context managers for evaluation mode, frozen weights and alterations, undone on exit.

Two threads on one model would undo each other's switches, so each model has a lock.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import torch

from whence.models.fingerprint import override_fingerprint
from whence.models.model import cache_modules, list_parameters

# One lock for each model; see the module docstring.
_model_locks: WeakKeyDictionary[torch.nn.Module, RLock] = WeakKeyDictionary()
_model_locks_guard = Lock()


def get_model_lock(model: torch.nn.Module) -> RLock:
    """Return the model's lock, to be held while the model is changed."""
    with _model_locks_guard:
        return _model_locks.setdefault(model, RLock())


@contextmanager
def restore_on_exit(model: torch.nn.Module) -> Iterator[ExitStack]:
    """Put `model` into evaluation mode with frozen weights; restore everything on exit.

    Yields a stack, on which hooks and other changes of the model register their removal.
    """
    with get_model_lock(model), cache_modules(model) as modules, ExitStack() as stack:
        training = [module for module in modules if module.training]
        attention_types = _save_attention_types(modules)
        frozen, devices = [], set()
        for weight in list_parameters(modules):
            if weight.requires_grad:
                frozen.append(weight)
            if weight.is_cuda:
                devices.add(weight.get_device())
        stack.enter_context(torch.random.fork_rng(devices=sorted(devices)))
        # The caller may be in no_grad or inference_mode; a trace needs gradients.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.callback(_restore_modes, modules, training, frozen)
        stack.callback(_restore_attention_types, attention_types)
        for module in training:
            module.training = False
        for weight in frozen:
            weight.requires_grad_(False)
        yield stack


# A module, its attention type, and its submodules.
_AttentionState = tuple[torch.nn.Module, str, dict[str, torch.nn.Module | None]]


def _save_attention_types(modules: list[torch.nn.Module]) -> list[_AttentionState]:
    """Return the attention types of modules that switch them: BigBird does, for good, on a short text."""
    switchable = [module for module in modules if hasattr(type(module), "set_attention_type")]
    return [(module, str(module.attention_type), dict(module._modules)) for module in switchable]


def _restore_attention_types(states: list[_AttentionState]) -> None:
    for module, kind, parts in states:
        if module.attention_type != kind:
            module.attention_type = kind  # type: ignore[assignment]
            module._modules.update(parts)


@contextmanager
def alter_model(model: torch.nn.Module, alteration: str) -> Iterator[ExitStack]:
    """Lock the model for an alteration, and give it another fingerprint inside the block.

    Yields a stack, on which changes of the model register their removal.
    """
    with get_model_lock(model), override_fingerprint(model, alteration), ExitStack() as stack:
        yield stack


def _restore_modes(
    modules: list[torch.nn.Module],
    training: list[torch.nn.Module],
    frozen: list[torch.nn.Parameter],
) -> None:
    for module in modules:
        if module.training:  # switched inside the block
            module.training = False
    for module in training:
        module.training = True
    for weight in frozen:
        weight.requires_grad_(True)
