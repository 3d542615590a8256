"""Watching every module of a model at once: where each of them stands, and a hook before and after it."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NamedTuple

from torch import nn
from torch.utils.hooks import RemovableHandle


class Place(NamedTuple):
    """Where a module stands in its model, and what it is."""

    path: tuple[str, ...]
    kind: str  # the class's full name
    leaf: bool  # a module without modules inside


def places(model: nn.Module) -> list[tuple[nn.Module, Place]]:
    """Return every module with its place, in the order of `named_modules`, and each once."""
    found: dict[nn.Module, Place] = {}
    _walk(model, (), found)
    return list(found.items())


def _walk(module: nn.Module, path: tuple[str, ...], found: dict[nn.Module, Place]) -> None:
    inside = [pair for pair in module._modules.items() if pair[1] is not None]
    found[module] = Place(
        path, f"{type(module).__module__}.{type(module).__qualname__}", not inside
    )
    for name, child in inside:
        if child is not None and child not in found:
            _walk(child, (*path, *name.split(".")), found)


def watch(
    modules: Iterable[nn.Module],
    enter: Callable[..., None],
    leave: Callable[..., None],
    stack: ExitStack,
) -> None:
    """Call `enter(module, args, kwargs)` before each of the modules and `leave(module, args, output)` after it.

    PyTorch's own way makes a handle with three references for every hook of every module. On a small input
    that shows; all hooks here are taken off together and share one number.
    """
    number = RemovableHandle(OrderedDict()).id
    watched = list(modules)

    def remove() -> None:
        for module in watched:
            module._forward_pre_hooks.pop(number, None)
            module._forward_pre_hooks_with_kwargs.pop(number, None)
            module._forward_hooks.pop(number, None)

    stack.callback(remove)
    for module in watched:
        module._forward_pre_hooks[number] = enter
        module._forward_pre_hooks_with_kwargs[number] = True
        module._forward_hooks[number] = leave
