"""Recognition of attention in models that bypass transformers' interface, from their PyTorch calls.

DeBERTa-v2, MPNet and others bypass transformers' attention interface. Under a `TorchFunctionMode` every
call of PyTorch is seen: PyTorch's own attention function, and the softmax whose output goes, through the
few operations that preserve it (dropout, a change of shape or dtype), into a product with values.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from whence.kernels.maps import VisibleKeys
from whence.tracing.attention_interface import (
    apply_attention_override,
    attend_with_edit,
    attention_override,
    edit_weights,
)
from whence.tracing.attention_layer import AttentionLayer, ComputedAttention, StoredAttention
from whence.tracing.sdpa import attend

_SOFTMAX_OPS = {torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax}
_WEIGHT_PRESERVING_OPS = {
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
_PRODUCT_OPS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}


class AttentionRecogniser(TorchFunctionMode):
    """A mode that recognises attention calls of PyTorch operations, and reports each as a layer."""

    def __init__(
        self,
        batch: int | None,
        report: Callable[[AttentionLayer], None] | None = None,
    ) -> None:
        """Take the number of inputs, `batch`; it may be None if there is no `report`."""
        super().__init__()
        self._batch = batch
        self._report = report
        # Keyed by identity; the reference keeps the identity from being reused.
        self._weights: dict[int, Tensor] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            return self._call_sdpa(func, args, kwargs or {})
        if func in _PRODUCT_OPS and args and id(args[0]) in self._weights:
            args = (self._replace_weights(args[0]), *args[1:])
            self._weights[id(args[0])] = args[0]
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or not args:
            return result
        first = args[0]
        if (func in _SOFTMAX_OPS and result.dim() >= 3) or (
            func in _WEIGHT_PRESERVING_OPS and id(first) in self._weights
        ):
            self._weights[id(result)] = result
        elif func in _PRODUCT_OPS and id(first) in self._weights and len(args) > 1:
            if self._report is not None:
                self._report(self._build_layer(first, args[1], result))
            self._weights.clear()
        return result

    def _call_sdpa(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        """Call PyTorch's attention function under the active override and edit, and report the call."""
        layer = apply_attention_override(build_sdpa_layer(*args, **kwargs))
        own = attention_override.get() == "own"
        layer.out = attend_with_edit(layer)
        if layer.out is None:
            layer.out = func(*args, **kwargs) if own else attend(layer.q, layer.k, layer.v, layer)
        if self._report is not None:
            self._report(layer)
        return layer.out

    def _replace_weights(self, weights: Tensor) -> Tensor:
        """Return weights after their softmax by the active override and edit."""
        if attention_override.get() != "own":
            weights = weights.detach()
        if attention_override.get() == "uniform":
            # A masked key has weight 0. A visible key may be rounded to 0 as well, which is rare.
            mask = weights.gt(0).to(weights)
            weights = mask / mask.sum(-1, keepdim=True)
        shape = weights.shape  # an edit gets (inputs, heads, queries, keys)
        edited = edit_weights(
            lambda: weights.reshape(self._batch or shape[0], -1, *shape[-2:]),
        )
        return weights if edited is None else edited.reshape(shape).to(weights)

    def _build_layer(self, weights: Tensor, value: Tensor, output: Tensor) -> StoredAttention:
        assert self._batch is not None, "a report needs the number of inputs"
        queries, keys = weights.shape[-2:]
        return StoredAttention(
            probabilities=weights.reshape(self._batch, -1, queries, keys),
            v=value.reshape(self._batch, -1, keys, value.shape[-1]),
            out=output,
        )


def build_sdpa_layer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ComputedAttention:
    """Return a call of `scaled_dot_product_attention` as a layer; the arguments are the same."""
    visible = VisibleKeys(right=0 if is_causal else None, dense=attn_mask)
    return ComputedAttention(q=query, k=key, v=value, scale=scale, visible=visible)
