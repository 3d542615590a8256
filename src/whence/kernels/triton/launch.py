"""From a layer to a kernel: what is handed over, and what comes back."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from whence.kernels.fused.contract import contract_kernel
from whence.kernels.fused.gather import gather_kernel
from whence.kernels.fused.logsumexp import logsumexp_kernel
from whence.kernels.fused.settings import contracting, gathering
from whence.kernels.fused.starting import start
from whence.kernels.maps import Combination, Maps, Parts, gradient_of

_INTERPRETED = bool(triton.knobs.runtime.interpret)
_LEAST = 16  # features that a matrix unit multiplies at a time


def contract(layer: Maps, row: Tensor, combination: Combination, quotient: Tensor | None) -> Tensor:
    """Return row · mean over heads of f(A, dL/dA, R), (batch, keys), for a row of (batch, queries)."""
    with _on(row.device):
        return _contract(_operands(cast(Parts, layer), combination, quotient), row)


def gather(
    layer: Maps, columns: Tensor, combination: Combination, quotient: Tensor | None
) -> Tensor:
    """Return mean over heads of f(A, dL/dA, R) · columns, (batch, queries, 1), for columns of (batch, keys, 1)."""
    with _on(columns.device):
        return _gather(_operands(cast(Parts, layer), combination, quotient), columns)[:, :, None]


def contract_normalised(
    layer: Maps, row: Tensor, combination: Combination, quotient: Tensor | None
) -> Tensor:
    """Return row · M, where M is I + mean over heads of f(A, dL/dA, R), each of its rows divided by its sum."""
    with _on(row.device):
        one = _operands(cast(Parts, layer), combination, quotient)
        sums = _gather(one, torch.ones_like(row), row)
        shared = torch.where(row != 0, row / (1 + sums), row)
        return shared + _contract(one, shared)


def _contract(one: "_Operands", row: Tensor) -> Tensor:
    batch, heads, queries, keys = one.shape
    block = contracting(one.features, one.size, one.relevance)
    out = torch.empty(batch, heads, keys, dtype=one.work, device=row.device)
    start(
        contract_kernel,
        (batch * heads * triton.cdiv(keys, block.keys), 1, 1),
        (*one.tensors, one.logsumexp, row.contiguous(), one.real, out),
        (*one.strides, queries, keys, queries, keys),
        (*one.constants, block.keys, block.queries),
        num_warps=block.warps,
        num_stages=block.stages,
    )
    return out.sum(1).to(row.dtype)


def _gather(one: "_Operands", columns: Tensor, row: Tensor | None = None) -> Tensor:
    """Gather one column; with a row, no block of queries is worked on in which it is zero."""
    batch, heads, queries, keys = one.shape
    block = gathering(one.features, one.size, one.relevance)
    out = torch.empty(batch, heads, queries, dtype=one.work, device=columns.device)
    start(
        gather_kernel,
        (batch * heads * triton.cdiv(queries, block.queries), 1, 1),
        (*one.tensors, one.logsumexp, columns.contiguous(), one.real,
         None if row is None else row.contiguous(), out),
        (*one.strides, keys, keys, queries, queries, keys),
        (*one.constants, block.keys, block.queries),
        num_warps=block.warps,
        num_stages=block.stages,
    )  # fmt: skip
    return out.sum(1).to(columns.dtype)


class _Operands(NamedTuple):
    """What the kernels need of a layer."""

    tensors: tuple[Tensor | None, ...]  # q, k, v, the gradient, and the quotient in one part or two
    strides: tuple[int, ...]
    constants: tuple[Any, ...]
    logsumexp: Tensor
    real: Tensor | None
    shape: tuple[int, int, int, int]  # batch, heads, queries, keys
    features: int
    size: int  # bytes of a number, of the largest that are multiplied
    relevance: bool
    work: torch.dtype


def _operands(layer: Parts, combination: Combination, quotient: Tensor | None) -> _Operands:
    q, k, v = (_lined(one) for one in (layer.q, layer.k, layer.v))
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    grad = share = rest = None
    if "gradient" in combination:
        grad = _lined(gradient_of(layer).to(v.dtype))
    if "relevance" in combination:
        share = _lined(cast(Tensor, quotient).to(work))
        if v.dtype == torch.bfloat16:
            share, rest = _split(share)
    visible, shape = layer.visible, (*q.shape[:3], k.shape[2])
    real = None if visible.keys is None else visible.keys.contiguous()
    width, value_width = q.shape[3], v.shape[3]
    features, value_features = _block_of(width), _block_of(value_width)
    sums = logsumexp_of(layer)
    main = (q, k, v, grad, share)
    strides = [step for one in main for step in ((0, 0, 0) if one is None else one.stride()[:3])]
    constants = (
        shape[1], shape[1] // k.shape[1], width, features, value_width, value_features,
        _scale(layer), layer.softcap, visible.left, visible.right, combination != "gradient_x_attention",
        _TYPES[work], *_PRECISIONS[q.dtype],
    )  # fmt: skip
    return _Operands(
        (*main, rest),
        (*strides, *sums.stride()[:2]),
        constants,
        sums,
        real,
        shape,
        max(features, value_features),
        q.element_size() if share is None else share.element_size(),
        share is not None,
        work,
    )


def _split(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return two bfloat16 of which the sum is a float32 but for 2^-17 of it."""
    high = values.to(torch.bfloat16)
    return high, torch.empty_like(high).copy_(values - high)  # laid out alike


def logsumexp_of(layer: Parts) -> Tensor:
    """Return what the forward pass left, (batch, heads, queries); else compute it, once."""
    work = torch.float64 if layer.q.dtype == torch.float64 else torch.float32
    found = layer.logsumexp
    if found is None or found.dtype != work or found.stride(2) != 1:
        with _on(layer.q.device):
            layer.logsumexp = found = _logsumexp(layer, work)
    return found


def _logsumexp(layer: Parts, work: torch.dtype) -> Tensor:
    q, k, visible = _lined(layer.q), _lined(layer.k), layer.visible
    (batch, heads, queries, width), keys = q.shape, k.shape[2]
    real = None if visible.keys is None else visible.keys.contiguous()
    block = gathering(_block_of(width), q.element_size(), False)
    found = torch.empty(batch, heads, queries, dtype=work, device=q.device)
    logsumexp_kernel[(batch * heads * triton.cdiv(queries, block.queries),)](
        q, k, real, found, *q.stride()[:3], *k.stride()[:3], keys, queries, keys,
        heads, heads // k.shape[1], width, _block_of(width), _scale(layer), layer.softcap,
        visible.left, visible.right, _TYPES[work], _PRECISIONS[q.dtype][0],
        block.keys, block.queries, num_warps=block.warps, num_stages=block.stages,
    )  # fmt: skip
    if layer.sink is None:
        return found
    return torch.logaddexp(found, layer.sink.reshape(1, -1, 1).to(found))


def _lined(tensor: Tensor) -> Tensor:
    """Return a tensor of which the features of a token lie side by side."""
    if _INTERPRETED and tensor.element_size() == 2:
        tensor = tensor.float()  # Triton's interpreter multiplies the bits of a bfloat16
    return tensor if tensor.stride(3) == 1 else tensor.contiguous()


def _scale(layer: Parts) -> float:
    return float(layer.q.shape[-1] ** -0.5 if layer.scale is None else layer.scale)


def _block_of(width: int) -> int:
    return max(_LEAST, 1 << (width - 1).bit_length())


def _on(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


_TYPES = {torch.float32: tl.float32, torch.float64: tl.float64}

# Of products of q and k and of v and dO, and of v and S. Halves multiply exactly and are added up in float32; a
# float32 is taken apart, so that the matrix units multiply all of it. Beside bfloat16, S is split in two before.
_PRECISIONS = {
    torch.bfloat16: ("ieee", "ieee"),
    torch.float16: ("ieee", "tf32x3"),
    torch.float32: ("tf32x3", "tf32x3"),
    torch.float64: ("ieee", "ieee"),
}
