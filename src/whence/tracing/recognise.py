"""Attention of models without a seam, recognised as it happens.

DeBERTa-v2, MPNet and others compute attention in code of their own. Under a `TorchFunctionMode` every call of
PyTorch is seen: PyTorch's own attention function, and the softmax whose output goes, through the few operations
that leave it what it is (dropout, a change of shape or type), into a product with values.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from whence.capture.attention.layer import AttentionLayer, Computed, Stored
from whence.capture.attention.seam import attend, edit_weights, edited, in_manner, manner
from whence.kernels import Visible

_SOFTMAX = {torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax}
_SAME = {
    F.dropout,
    torch.dropout,
    torch.reshape,
    Tensor.reshape,
    Tensor.view,
    Tensor.contiguous,
    Tensor.to,
    Tensor.type_as,
    Tensor.masked_fill,
    torch.masked_fill,
}
_PRODUCT = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}


class Recognise(TorchFunctionMode):
    """Report each attention call as a layer."""

    def __init__(
        self,
        batch: int | None,
        report: Callable[[AttentionLayer], None] | None = None,
    ) -> None:
        """`batch` is the number of inputs; nobody need know it who wants no report."""
        super().__init__()
        self._batch = batch
        self._report = report
        # Keyed by identity; holding the tensor keeps the identity from being used again.
        self._weights: dict[int, Tensor] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            return self._attended(func, args, kwargs or {})
        if func in _PRODUCT and args and id(args[0]) in self._weights:
            args = (self._edited(_in_manner(args[0])), *args[1:])
            self._weights[id(args[0])] = args[0]
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or not args:
            return result
        first = args[0]
        if (func in _SOFTMAX and result.dim() >= 3) or (
            func in _SAME and id(first) in self._weights
        ):
            self._weights[id(result)] = result
        elif func in _PRODUCT and id(first) in self._weights and len(args) > 1:
            if self._report is not None:
                self._report(self._layer(first, args[1], result))
            self._weights.clear()
        return result

    def _attended(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        """Call PyTorch's attention function, and report it."""
        layer = in_manner(computed(*args, **kwargs))
        own = manner() == "own"
        layer.out = edited(layer)
        if layer.out is None:
            layer.out = func(*args, **kwargs) if own else attend(layer.q, layer.k, layer.v, layer)
        if self._report is not None:
            self._report(layer)
        return layer.out

    def _edited(self, weights: Tensor) -> Tensor:
        """Return the weights, or what someone wants in their place; there, they have room for the inputs."""
        shape = weights.shape
        found = edit_weights(
            lambda: weights.reshape(self._batch or shape[0], -1, *shape[-2:]),
        )
        return weights if found is None else found.reshape(shape).to(weights)

    def _layer(self, weights: Tensor, value: Tensor, output: Tensor) -> Stored:
        assert self._batch is not None, "a report needs the number of inputs"
        queries, keys = weights.shape[-2:]
        return Stored(
            probabilities=weights.reshape(self._batch, -1, queries, keys),
            v=value.reshape(self._batch, -1, keys, value.shape[-1]),
            out=output,
        )


def _in_manner(weights: Tensor) -> Tensor:
    """Return the weights of a model that attends in the manner of now."""
    if manner() == "own":
        return weights
    own = weights.detach()
    # What is masked has no weight at all. What is not may have lost its own to rounding, which is rare.
    seen = own.gt(0).to(own)
    return own if manner() == "detached" else seen / seen.sum(-1, keepdim=True)


def computed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Computed:
    """Return a call of PyTorch's attention function, with its own signature, as a layer."""
    visible = Visible(right=0 if is_causal else None, dense=attn_mask)
    return Computed(q=query, k=key, v=value, scale=scale, visible=visible)
