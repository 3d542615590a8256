"""Models whose bare forward pass is compiled, where somebody asked for that.

Only what runs by itself is: a trace has hooks inside, and a compiler would run past them. The model stays as it is;
while a compiled pass runs, its `forward` is the compiled one, and hooks on the model itself still see every call.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import torch
from torch import nn

from whence.capture.memory.fitting import lacks_memory
from whence.models.fingerprint import is_altered
from whence.models.parts import parts

_compiled: WeakKeyDictionary[nn.Module, Callable[..., Any]] = WeakKeyDictionary()
# Models of which it turned out that they cannot be.
_plain: WeakSet[nn.Module] = WeakSet()


def compile_forward(model: nn.Module) -> None:
    """Let the bare forward passes of a model be compiled from now on; the first of them takes a while."""
    if model not in _compiled:
        _compiled[model] = _guarded(model)


def is_compiled(model: nn.Module) -> bool:
    """Say whether bare forward passes of a model are compiled, as far as nothing is put on it meanwhile."""
    return model in _compiled and model not in _plain


@contextmanager
def compiled(model: nn.Module) -> Iterator[bool]:
    """Let `model(...)` run the compiled pass until the end of the block, where there is one and nothing forbids it.

    Yields whether it does. What is altered, or has hooks inside, runs as it is: a compiled pass would not notice.
    """
    own = _compiled.get(model)
    if own is None or model in _plain or is_altered(model) or _hooked(model) or _replaced(model):
        yield False
        return
    model.forward = own
    try:
        yield True
    finally:
        del model.forward


def _guarded(model: nn.Module) -> Callable[..., Any]:
    """Return the compiled pass, which falls back to the plain one when it turns out that it cannot be compiled."""
    kept, made = ref(model), torch.compile(type(model).forward, dynamic=True)

    def forward(*args: Any, **kwargs: Any) -> Any:
        own = kept()
        assert own is not None
        if own not in _plain:
            try:
                return made(own, *args, **kwargs)
            except RuntimeError as error:
                if lacks_memory(error):
                    raise
                _plain.add(own)
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                warnings.warn(
                    f"{type(own).__name__} cannot be compiled on this machine ({reason}). It runs as it is: the "
                    "results are the same. Leave compile=True, or --compile, out.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return type(own).forward(own, *args, **kwargs)

    return forward


def _hooked(model: nn.Module) -> bool:
    return any(part._forward_hooks or part._forward_pre_hooks for part in parts(model)[1:])


def _replaced(model: nn.Module) -> bool:
    """Whether somebody gave this very model, and not its class, another forward pass."""
    return "forward" in vars(model)
