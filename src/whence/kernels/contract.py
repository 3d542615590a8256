"""Which implementation contracts: fused kernels where they can and were measured to be faster, tiles elsewhere.

`auto`, the default, decides call by call: the fused kernels of Triton are for tensors on CUDA, for layers whose map
is made of parts and whose mask can be said in a few numbers, and from the size on from which they won (`fused.pays`).
`tiled` is PyTorch and nothing else. `fused` takes Triton wherever it can run, whatever was measured, also in Triton's
interpreter (TRITON_INTERPRET=1), and tiles for what it cannot do. `using` decides for a block of code, the
environment variable WHENCE_KERNELS for a process. Without CUDA and without that interpreter Triton is never imported.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.kernels import tiled
from whence.kernels.maps import Combination, Maps, has_parts, require

Implementation = Literal["auto", "tiled", "fused"]
_VARIABLE = "WHENCE_KERNELS"

_asked: ContextVar[Implementation | None] = ContextVar("whence_kernels", default=None)


@contextmanager
def using(implementation: Implementation) -> Iterator[None]:
    """Let one implementation contract, whatever was measured; "fused" where it can, tiles for the rest."""
    token = _asked.set(_known(implementation))
    try:
        yield
    finally:
        _asked.reset(token)


@torch.no_grad()
def contract(
    layer: Maps,
    row: Tensor,
    combination: Combination = "attention",
    *,
    quotient: Tensor | None = None,
) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries)."""
    require(layer)
    if fuses(layer, row, combination):
        from whence.kernels import fused

        return fused.contract(layer, row, combination, quotient)
    return tiled.contract(layer, row, combination, quotient)


@torch.no_grad()
def contract_normalised(
    layer: Maps,
    row: Tensor,
    combination: Combination,
    *,
    quotient: Tensor | None = None,
) -> Tensor:
    """Return row · M, where M is I + mean over heads of f(A, dL/dA, R), each of its rows divided by its sum."""
    require(layer)
    if fuses(layer, row, combination):
        from whence.kernels import fused

        return fused.contract_normalised(layer, row, combination, quotient)
    return tiled.contract_normalised(layer, row, combination, quotient)


@torch.no_grad()
def gather(
    layer: Maps,
    columns: Tensor,
    combination: Combination,
    *,
    quotient: Tensor | None = None,
) -> Tensor:
    """Return mean over heads of f(A, dL/dA, R) · columns, (batch, queries, n), for columns of (batch, keys, n)."""
    require(layer)
    if fuses(layer, columns, combination):
        from whence.kernels import fused

        return fused.gather(layer, columns, combination, quotient)
    return tiled.gather(layer, columns, combination, quotient)


def fuses(layer: Maps, row: Tensor, combination: Combination) -> bool:
    """Say whether a fused kernel takes this call: asked for or worth it, and able to."""
    if not has_parts(layer) or not may_fuse(row):
        return False
    from whence.kernels import fused

    return fused.takes(layer, row) and (chosen() == "fused" or fused.pays(layer, row, combination))


def may_fuse(like: Tensor) -> bool:
    """Say whether Triton may be imported to compute with such a tensor."""
    asked = chosen()
    if asked == "tiled" or not (like.is_cuda or (asked == "fused" and _interpreted())):
        return False
    return has_triton()


def chosen() -> Implementation:
    """Return what was asked for: in a `with`, or else in the environment."""
    return _asked.get() or _known(os.environ.get(_VARIABLE, "auto"))


def _known(name: str) -> Implementation:
    for one in get_args(Implementation):
        if name == one:
            found: Implementation = one
            return found
    raise BadParameter(
        f"There is no implementation of kernels {name!r}. There are: {', '.join(get_args(Implementation))}. It is "
        f"named in whence.kernels.using(...) or in the environment variable {_VARIABLE}."
    )


@cache
def has_triton() -> bool:
    """Say whether Triton is there, without importing it; one without its `knobs` (before 3.4) is none."""
    found = find_spec("triton")
    places = (found and found.submodule_search_locations) or ()
    return any(Path(place, "knobs.py").is_file() for place in places)


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


"""Whether small kernels of Triton, number by number, can run on some tensors."""

from torch import Tensor

from whence.kernels.choice import chosen, has_triton


def fuses_pointwise(*tensors: Tensor) -> bool:
    """Say whether a kernel takes tensors of one shape: on CUDA, where Triton is, unless tiles were asked for."""
    first = tensors[0]
    return (
        first.is_cuda
        and first.numel() > 0
        and all(one.shape == first.shape for one in tensors[1:])
        and has_triton()
        and chosen() != "tiled"
    )
