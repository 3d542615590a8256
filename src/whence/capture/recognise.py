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

from whence.capture.layer import AttentionLayer, Computed, Stored

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

    def __init__(self, batch: int, report: Callable[[AttentionLayer], None]) -> None:
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
        result = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention:
            layer = computed(*args, **(kwargs or {}))
            layer.out = result
            self._report(layer)
            return result
        if not isinstance(result, Tensor) or not args:
            return result
        first = args[0]
        if (func in _SOFTMAX and result.dim() >= 3) or (
            func in _SAME and id(first) in self._weights
        ):
            self._weights[id(result)] = result
        elif func in _PRODUCT and id(first) in self._weights and len(args) > 1:
            self._report(self._layer(first, args[1], result))
            self._weights.clear()
        return result

    def _layer(self, weights: Tensor, value: Tensor, output: Tensor) -> Stored:
        queries, keys = weights.shape[-2:]
        return Stored(
            probabilities=weights.reshape(self._batch, -1, queries, keys),
            v=value.reshape(self._batch, -1, keys, value.shape[-1]),
            out=output,
        )


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
    return Computed(q=query, k=key, v=value, scale=scale, mask=attn_mask, causal=is_causal)
