"""Context managers that undo on exit what is put on a model: evaluation mode, hooks, alterations, variables."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from whence.models.facts import get_facts, hold_parts
from whence.models.fingerprint import override_fingerprint

Value = TypeVar("Value")


@contextmanager
def restore_on_exit(model: nn.Module) -> Iterator[ExitStack]:
    """Put `model` into evaluation mode with frozen weights; restore everything on exit.

    Yields a stack, on which hooks and other changes of the model register their removal.
    """
    with hold_parts(model) as parts, ExitStack() as outer:
        training = [module for module in parts.modules if module.training]
        weights = [
            weight
            for module in parts.modules
            if module._parameters
            for weight in module._parameters.values()
            if weight is not None
        ]
        frozen = [weight for weight in weights if weight.requires_grad]
        devices = {weight.get_device() for weight in weights if weight.is_cuda}
        switches = [
            (module, module.attention_type, dict(module._modules))
            for module in parts.attention_switches
        ]
        outer.enter_context(torch.random.fork_rng(devices=sorted(devices)))
        # The caller may be in no_grad or inference_mode; a trace needs gradients.
        outer.enter_context(torch.inference_mode(False))
        outer.enter_context(torch.enable_grad())
        try:
            for module in training:
                module.training = False
            for weight in frozen:
                weight.requires_grad_(False)
            with ExitStack() as stack:
                yield stack
        finally:
            for module, kind, children in switches:
                if module.attention_type != kind:
                    module.attention_type = kind
                    module._modules.update(children)
            for module in parts.modules:
                if module.training:  # switched inside the block
                    module.training = False
            for module in training:
                module.training = True
            for weight in frozen:
                weight.requires_grad_(True)


@contextmanager
def hook_modules(
    modules: Iterable[nn.Module], enter: Callable[..., None], leave: Callable[..., Any]
) -> Iterator[None]:
    """Call `enter(module, args, kwargs)` before each of the modules and `leave(module, args, output)` after it.

    PyTorch's `register_forward_hook` makes a handle with three references for every hook of every
    module, which is measurable on a small input. All hooks here share one number and are removed
    together.
    """
    number = RemovableHandle(OrderedDict()).id
    module_list = list(modules)
    try:
        for module in module_list:
            module._forward_pre_hooks[number] = enter
            module._forward_pre_hooks_with_kwargs[number] = True
            module._forward_hooks[number] = leave
        yield
    finally:
        for module in module_list:
            module._forward_pre_hooks.pop(number, None)
            module._forward_pre_hooks_with_kwargs.pop(number, None)
            module._forward_hooks.pop(number, None)


@contextmanager
def set_variable(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Give a context variable another value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def alter_model(model: nn.Module, alteration: str) -> Iterator[ExitStack]:
    """Lock the model for an alteration, and give it another fingerprint inside the block.

    Yields a stack, on which changes of the model register their removal.
    """
    with get_facts(model).lock, override_fingerprint(model, alteration), ExitStack() as stack:
        yield stack
