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
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from whence.kernels.maps import VisibleKeys
from whence.models.facts import get_parts
from whence.tracing.attention_layer import ComputedAttention, multiply_by_head
from whence.tracing.masks import AttentionBand, LazyMask, build_lazy_mask_function
from whence.tracing.sdpa import compute_attention

IMPLEMENTATION_NAME = "whence"


class AttentionListener(Protocol):
    """An observer that is called with every routed attention call."""

    def attention(self, layer: ComputedAttention) -> None:
        """Record one attention call."""


_listener: ContextVar[AttentionListener | None] = ContextVar("whence_sink", default=None)

# How a model attends: by its own weights, by equal weights for all visible keys, or by its own
# weights as constants of the gradient.
AttentionOverride = Literal["own", "uniform", "detached"]
_override: ContextVar[AttentionOverride] = ContextVar("whence_manner", default="own")

# Maps the weights of one attention call after another to the weights to use; None: its own weights.
WeightEdit = Callable[[Callable[[], Tensor]], Tensor | None]
_edit: ContextVar[WeightEdit | None] = ContextVar("whence_edit", default=None)


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
        causal = causal and needs_causal_flag(getattr(module, "config", None))
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
    if _override.get() != "own":
        layer = apply_attention_override(layer)
    if _edit.get() is not None:
        layer.out = attend_with_edit(layer)
    if layer.out is None:
        layer.out = attend(layer.q, layer.k, value, layer)
    listener = _listener.get()
    if listener is not None:
        listener.attention(layer)
    return layer.out.transpose(1, 2).contiguous(), None


def get_attention_override() -> AttentionOverride:
    """Return the active attention override."""
    return _override.get()


@contextmanager
def set_attention_override(override: AttentionOverride) -> Iterator[None]:
    """Set the attention override inside the block; only observed attention calls follow it."""
    token = _override.set(override)
    try:
        yield
    finally:
        _override.reset(token)


def apply_attention_override(layer: ComputedAttention) -> ComputedAttention:
    """Apply the active attention override (own, uniform, detached) to this call."""
    override = _override.get()
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


@contextmanager
def set_weight_edit(edit: WeightEdit) -> Iterator[None]:
    """Set a weight edit inside the block; only observed attention calls follow it."""
    token = _edit.set(edit)
    try:
        yield
    finally:
        _edit.reset(token)


@contextmanager
def clear_attention_overrides() -> Iterator[None]:
    """Suspend attention override and weight edit inside the block, for a second model's own pass."""
    override_token, edit_token = _override.set("own"), _edit.set(None)
    try:
        yield
    finally:
        _edit.reset(edit_token)
        _override.reset(override_token)


def is_attention_unmodified() -> bool:
    """Return whether neither an attention override nor a weight edit is active."""
    return _override.get() == "own" and _edit.get() is None


def edit_weights(weights: Callable[[], Tensor]) -> Tensor | None:
    """Return the edited weights of a call; None where no edit is active or it leaves the call alone."""
    edit = _edit.get()
    return None if edit is None else edit(weights)


def attend_with_edit(layer: ComputedAttention) -> Tensor | None:
    """Return the output of a call with edited weights; None where its weights are not edited."""
    edit = _edit.get()
    weights = None if edit is None else edit(layer.weights)
    if weights is None:
        return None
    return multiply_by_head(weights.to(layer.v.dtype), layer.v, torch.matmul)


def attend(query: Tensor, key: Tensor, value: Tensor, layer: ComputedAttention) -> Tensor:
    """Compute attention, (batch, heads, queries, width), without its map where that is possible.

    On a tape this is one operation with a rule of its own; the steps inside are not recorded.
    """
    if has_torch_function((query, key, value)):
        output: Tensor = handle_torch_function(
            attend, (query, key, value), query, key, value, layer
        )
        return output
    return compute_attention(query, key, value, layer)


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
    AttentionMaskInterface.register(
        IMPLEMENTATION_NAME, build_lazy_mask_function(sdpa_mask, bands, needs_causal_flag)
    )


# Identities of the configurations that answer IMPLEMENTATION_NAME in this context: routed models.
_routed_configs: ContextVar[frozenset[int]] = ContextVar("whence_routed", default=frozenset())

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
            IMPLEMENTATION_NAME
            if id(config) in _routed_configs.get()
            else own.__get__(config, kind)
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


def needs_causal_flag(config: Any) -> bool:
    """Return whether a model's own attention takes "no mask" plus `is_causal` for causal attention.

    Only kernels with a causal flag do. Eager attention adds the mask it gets, and without one attends
    to all keys: there decoders always make masks, and `is_causal` of modules is missing or wrong.
    """
    return getattr(config, "_attn_implementation_internal", "sdpa") not in _WITHOUT_CAUSAL_FLAG


_WITHOUT_CAUSAL_FLAG = frozenset({"eager", "paged|eager", "flex_attention", None})


def _list_configs(model: Any) -> list[Any]:
    """Return every configuration that names the attention implementation of a part of the model."""
    configs: dict[int, Any] = {}
    queue = [part.config for part in get_parts(model).config_owners]
    while queue:
        config = queue.pop()
        if id(config) not in configs and hasattr(config, "_attn_implementation"):
            configs[id(config)] = config
            queue += [getattr(config, key, None) for key in getattr(config, "sub_configs", {})]
    return list(configs.values())


def list_attention_implementations(model: Any) -> list[str | None]:
    """Return the current attention implementations of a routable model's parts; else nothing."""
    return (
        [config._attn_implementation for config in _list_configs(model)]
        if _can_route(model)
        else []
    )


_CAN_SET_ATTENTION = "_can_set_attn_implementation"


def _can_route(model: Any) -> bool:
    can = getattr(model, _CAN_SET_ATTENTION, None)
    return can is not None and bool(can())


def _select_routable_configs(model: Any) -> list[Any]:
    """Return the configurations to switch: all but those of parts with hard-coded attention."""
    fixed = {
        id(part.config)
        for part in get_parts(model).config_owners
        if hasattr(type(part), _CAN_SET_ATTENTION) and not _can_route(part)
    }
    # Only transformers' own configurations have the property that is overridden.
    return [
        config
        for config in _list_configs(model)
        if id(config) not in fixed
        and isinstance(getattr(type(config), "_attn_implementation", None), property)
    ]


@contextmanager
def route_attention(model: Any, listener: AttentionListener | None) -> Iterator[bool]:
    """Route the model's attention through whence; yields whether the model seems to allow it."""
    if not _can_route(model):
        yield False
        return
    _register()
    configs = _select_routable_configs(model)
    with _switch_lock:
        for config in configs:
            kind, users = _switched_configs.get(id(config), (type(config), 0))
            _switched_configs[id(config)] = (kind, users + 1)
            if not users:
                object.__setattr__(config, "__class__", _build_config_class(kind))
    ids = _routed_configs.get() | {id(config) for config in configs}
    tokens = _listener.set(listener), _routed_configs.set(ids)
    try:
        yield True
    finally:
        _listener.reset(tokens[0])
        _routed_configs.reset(tokens[1])
        with _switch_lock:
            for config in configs:
                kind, users = _switched_configs.pop(id(config))
                if users > 1:
                    _switched_configs[id(config)] = (kind, users - 1)
                else:
                    object.__setattr__(config, "__class__", kind)


@contextmanager
def bypass_routing() -> Iterator[None]:
    """Run every model with its own attention inside the block, also where routing is active."""
    token = _routed_configs.set(frozenset())
    try:
        yield
    finally:
        _routed_configs.reset(token)
