"""Whence's attention function, registered with transformers: routing of models, overrides and weight edits.

An attention function and its mask function are registered under one name; without the mask, causality is
silently lost. The registration is global and inert: nothing changes until a model's configurations answer
with the name. They do so inside a `with` block, and only in the context that opened it: a plain forward
pass of another thread finds the model as it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from inspect import getattr_static
from threading import Lock
from typing import Any, Literal

import torch
from torch import Tensor

from whence.kernels.maps import VisibleKeys, multiply_by_head
from whence.models.facts import get_parts
from whence.tracing.attention_layer import ComputedAttention
from whence.tracing.masks import (
    WITHOUT_CAUSAL_FLAG,
    AttentionBand,
    LazyMask,
    build_lazy_mask_function,
)
from whence.tracing.restore import set_variable
from whence.tracing.sdpa import attend

IMPLEMENTATION_NAME = "whence"

AttentionListener = Callable[[ComputedAttention], None]  # called with every routed attention call
_listener: ContextVar[AttentionListener | None] = ContextVar("whence_sink", default=None)

# How a model attends: by its own weights, by equal weights for all visible keys, or by its own
# weights as constants of the gradient. Only observed attention calls follow it.
AttentionOverride = Literal["own", "uniform", "detached"]
attention_override: ContextVar[AttentionOverride] = ContextVar("whence_manner", default="own")

# Maps the weights of one attention call after another to the weights to use; None: its own weights.
# Only observed attention calls follow it.
WeightEdit = Callable[[Callable[[], Tensor]], Tensor | None]
weight_edit: ContextVar[WeightEdit | None] = ContextVar("whence_edit", default=None)


def _attend_and_report(
    module: torch.nn.Module,
    query: Tensor,  # (batch, heads, queries, width)
    key: Tensor,  # (batch, key heads, keys, width)
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    if isinstance(attention_mask, LazyMask):
        visible = attention_mask.visible
    else:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(causal) and attention_mask is None and query.shape[2] > 1
        if causal:
            config = getattr(module, "config", None)
            own = getattr(config, "_attn_implementation_internal", "sdpa")
            causal = own not in WITHOUT_CAUSAL_FLAG
        visible = VisibleKeys(right=0 if causal else None, dense=attention_mask)
    layer = ComputedAttention(
        q=query,
        k=key,
        v=value,
        scale=scaling,
        visible=visible,
        bias=position_bias,
        softcap=softcap,
        sink=s_aux,
    )
    if attention_override.get() != "own":
        layer = apply_attention_override(layer)
    if weight_edit.get() is not None:
        layer.out = attend_with_edit(layer)
    if layer.out is None:
        layer.out = attend(layer.q, layer.k, value, layer)
    listener = _listener.get()
    if listener is not None:
        listener(layer)
    return layer.out.transpose(1, 2).contiguous(), None


def apply_attention_override(layer: ComputedAttention) -> ComputedAttention:
    """Apply the active attention override (own, uniform, detached) to this call."""
    override = attention_override.get()
    if override == "own":
        return layer
    q, k = layer.q.detach(), layer.k.detach()
    if override == "detached":
        return replace(layer, q=q, k=k)
    # Zero queries give every key the same score; of an additive mask only visibility is kept.
    visible, mask = layer.visible, layer.visible.dense
    if mask is not None and mask.dtype != torch.bool:
        visible = replace(visible, dense=mask > torch.finfo(mask.dtype).min / 2)
    return replace(
        layer, q=torch.zeros_like(q), k=k, visible=visible, bias=None, softcap=None, sink=None
    )


def edit_weights(weights: Callable[[], Tensor]) -> Tensor | None:
    """Return the edited weights of a call; None where no edit is active or it leaves the call alone."""
    edit = weight_edit.get()
    return None if edit is None else edit(weights)


def attend_with_edit(layer: ComputedAttention) -> Tensor | None:
    """Return the output of a call with edited weights; None where its weights are not edited."""
    weights = edit_weights(layer.weights)
    if weights is None:
        return None
    return multiply_by_head(weights.to(layer.v.dtype), layer.v)


@cache
def _register() -> None:
    from transformers.masking_utils import (
        AttentionMaskInterface,
        bidirectional_mask_function,
        causal_mask_function,
        sdpa_mask,
    )
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(IMPLEMENTATION_NAME, _attend_and_report)
    bands: dict[Any, AttentionBand] = {
        causal_mask_function: (None, 0),
        bidirectional_mask_function: (None, None),
    }
    AttentionMaskInterface.register(IMPLEMENTATION_NAME, build_lazy_mask_function(sdpa_mask, bands))


# Identities of the configurations that answer IMPLEMENTATION_NAME in this context: routed models.
routed_configs: ContextVar[frozenset[int]] = ContextVar("whence_routed", default=frozenset())

# Of each switched configuration, its own class and its number of users: several models may share a
# configuration, and the model lock only covers one model.
_switched_configs: dict[int, tuple[type, int]] = {}
_switch_lock = Lock()


@cache
def _build_config_class(kind: type) -> type:
    """Return a subclass of a configuration class that names whence's attention in routed contexts.

    In all other contexts and threads its objects answer with their own attention implementation.
    """

    def answer(config: Any) -> Any:
        return (
            IMPLEMENTATION_NAME if id(config) in routed_configs.get() else own.__get__(config, kind)
        )

    own: Any = kind._attn_implementation  # type: ignore[attr-defined]
    body = {
        "_attn_implementation": property(answer, getattr(own, "fset", None)),
        "__init__": getattr_static(kind, "__init__"),  # else transformers wraps it again
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (kind,), body)


def list_attention_configs(model: Any, *, switchable: bool = False) -> list[Any] | None:
    """Return every configuration that names the attention implementation of a part; None if it cannot be set.

    Only transformers' own are `switchable`, and of these not those of parts with hard-coded attention.
    """
    can_set = getattr(model, "_can_set_attn_implementation", None)
    if can_set is None or not can_set():
        return None
    owners = get_parts(model).config_owners
    configs: dict[int, Any] = {}
    queue = [part.config for part in owners]
    while queue:
        config = queue.pop()
        if id(config) not in configs and hasattr(config, "_attn_implementation"):
            configs[id(config)] = config
            queue += [getattr(config, key, None) for key in getattr(config, "sub_configs", {})]
    if not switchable:
        return list(configs.values())
    fixed = {
        id(part.config)
        for part in owners
        if hasattr(type(part), "_can_set_attn_implementation")
        and not part._can_set_attn_implementation()
    }
    return [
        config
        for key, config in configs.items()
        if key not in fixed
        and isinstance(getattr(type(config), "_attn_implementation", None), property)
    ]


@contextmanager
def route_attention(model: Any, listener: AttentionListener | None) -> Iterator[bool]:
    """Route the model's attention through whence; yields whether the model seems to allow it."""
    configs = list_attention_configs(model, switchable=True)
    if configs is None:
        yield False
        return
    _register()
    with _switch_lock:
        for config in configs:
            kind, users = _switched_configs.get(id(config), (type(config), 0))
            _switched_configs[id(config)] = (kind, users + 1)
            if not users:
                object.__setattr__(config, "__class__", _build_config_class(kind))
    ids = routed_configs.get() | {id(config) for config in configs}
    try:
        with set_variable(_listener, listener), set_variable(routed_configs, ids):
            yield True
    finally:
        with _switch_lock:
            for config in configs:
                kind, users = _switched_configs.pop(id(config))
                if users > 1:
                    _switched_configs[id(config)] = (kind, users - 1)
                else:
                    object.__setattr__(config, "__class__", kind)
