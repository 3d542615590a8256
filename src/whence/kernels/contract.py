"""Contractions of attention maps with a row or columns, and the choice of PyTorch tiles or Triton kernels.

`auto`, the default, decides call by call: the fused kernels of Triton are for tensors on CUDA, for layers
whose q, k and v are known and whose mask is a band with padding, and from the size on from which they won
(`is_faster`). `tiled` is PyTorch and nothing else. `fused` takes Triton wherever it can run, also in
Triton's interpreter (TRITON_INTERPRET=1), and tiles for the rest. `use_implementation` decides for a block
of code, the environment variable WHENCE_KERNELS for a process. Without CUDA and without that interpreter
Triton is never imported.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.kernels import tiled
from whence.kernels.maps import AttentionMaps, Combination, check_available, has_factors


def can_fuse_pointwise(*tensors: Tensor) -> bool:
    """Return whether a Triton kernel takes these tensors: equal shapes on CUDA, tiles not requested."""
    first = tensors[0]
    return (
        first.is_cuda
        and first.numel() > 0
        and all(tensor.shape == first.shape for tensor in tensors[1:])
        and has_triton()
        and get_implementation() != "tiled"
    )


Implementation = Literal["auto", "tiled", "fused"]
_KERNELS_VARIABLE = "WHENCE_KERNELS"

_requested_implementation: ContextVar[Implementation | None] = ContextVar(
    "whence_kernels", default=None
)


@contextmanager
def use_implementation(implementation: Implementation) -> Iterator[None]:
    """Use one implementation inside the block; "fused" falls back to tiles where it cannot run."""
    token = _requested_implementation.set(_check_implementation(implementation))
    try:
        yield
    finally:
        _requested_implementation.reset(token)


@torch.no_grad()
def contract(
    layer: AttentionMaps,
    row: Tensor,
    combination: Combination = "attention",
    *,
    quotient: Tensor | None = None,
    normalised: bool = False,
) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries).

    With `normalised`, I is added to the mean, and each row of the sum divided by its own sum.
    """
    kernels = _choose_kernels(layer, row, combination)
    found: Tensor = kernels.contract(layer, row, combination, quotient, normalised=normalised)
    return found


def contract_normalised(
    layer: AttentionMaps, row: Tensor, combination: Combination, *, quotient: Tensor | None = None
) -> Tensor:
    """Return row · M with M = I + mean over heads of f(A, dL/dA, R), each row divided by its sum."""
    return contract(layer, row, combination, quotient=quotient, normalised=True)


@torch.no_grad()
def gather(
    layer: AttentionMaps,
    columns: Tensor,
    combination: Combination,
    *,
    quotient: Tensor | None = None,
) -> Tensor:
    """Return mean over heads of f(A, dL/dA, R) · columns, (batch, queries, n), for (batch, keys, n)."""
    kernels = _choose_kernels(layer, columns, combination)
    found: Tensor = kernels.gather(layer, columns, combination, quotient)
    return found


def _choose_kernels(layer: AttentionMaps, row: Tensor, combination: Combination) -> ModuleType:
    """Return the fused kernels if they can run, and are requested or measured to be faster; else tiles."""
    check_available(layer)
    if may_fuse(row) and has_factors(layer):
        from whence.kernels.triton import launch

        if launch.can_contract(layer, row) and (
            launch.is_faster(layer, row, combination) or get_implementation() == "fused"
        ):
            return launch
    return tiled


def may_fuse(like: Tensor) -> bool:
    """Return whether Triton may be imported to compute with such a tensor."""
    choice = get_implementation()
    interpreted = choice == "fused" and os.environ.get("TRITON_INTERPRET") == "1"
    return choice != "tiled" and (like.is_cuda or interpreted) and has_triton()


def get_implementation() -> Implementation:
    """Return the requested implementation: of a `with` block, or else of the environment."""
    chosen, named = _requested_implementation.get(), os.environ.get(_KERNELS_VARIABLE)
    return chosen or ("auto" if named is None else _check_implementation(named))


def _check_implementation(name: str) -> Implementation:
    for choice in get_args(Implementation):
        if name == choice:
            implementation: Implementation = choice
            return implementation
    raise BadParameter(
        f"There is no implementation of kernels {name!r}. There are: {', '.join(get_args(Implementation))}. It is "
        f"named in whence.kernels.contract.use_implementation(...) or in the environment variable {_KERNELS_VARIABLE}."
    )


@cache
def has_triton() -> bool:
    """Return whether Triton 3.4 or later (with `knobs`) is installed, without importing it."""
    spec = find_spec("triton")
    folders = (spec and spec.submodule_search_locations) or ()
    return any(Path(folder, "knobs.py").is_file() for folder in folders)
