"""The modules and weights of a model, walked once while it is held and not once for everyone who asks.

PyTorch's own walk takes a generator for every level of every module. On a small input that shows beside the
forward and backward pass.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

# Models that are held now, by identity. Meanwhile nobody adds modules to them or takes any away.
_held: dict[int, list[nn.Module]] = {}


def parts(model: nn.Module) -> list[nn.Module]:
    """Return what `model.modules()` gives, in its order."""
    held = _held.get(id(model))
    return _walked(model) if held is None else held


def weights(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """Return what `parameters()` gives of all these modules, each once."""
    found: dict[int, nn.Parameter] = {}
    for module in modules:
        for one in module._parameters.values():
            if one is not None:
                found[id(one)] = one
    return list(found.values())


@contextmanager
def held(model: nn.Module) -> Iterator[list[nn.Module]]:
    """Walk a model once for everyone who asks for its parts until the end of the block.

    Only who has the model's turn may do so.
    """
    before = _held.get(id(model))
    _held[id(model)] = _walked(model) if before is None else before
    try:
        yield _held[id(model)]
    finally:
        if before is None:
            del _held[id(model)]


def _walked(model: nn.Module) -> list[nn.Module]:
    found: dict[nn.Module, None] = {}
    _walk(model, found)
    return list(found)


def _walk(module: nn.Module, found: dict[nn.Module, None]) -> None:
    found[module] = None
    for child in module._modules.values():
        if child is None or child in found:
            continue
        if child._modules:
            _walk(child, found)
        else:  # most are leaves, and a call takes longer than all the rest
            found[child] = None
