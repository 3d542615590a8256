"""The attention seam of transformers: while it is open, a model's attention is computed here and shown to us.

An attention function and its mask are registered under one name; without the mask, causality is silently
lost. The registration is global and inert: nothing changes until a model's configurations answer with the name. They
do so by `with`, and only to who opened the seam: a plain forward pass of another thread finds the model as it is.
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

from whence.capture.attention.layer import Computed, by_head
from whence.capture.attention.logsumexp import logsumexp_of
from whence.capture.attention.masks import Band, Mask, unwritten
from whence.capture.attention.sdpa import attended
from whence.kernels import Visible
from whence.models.parts import parts

NAME = "whence"


class Sink(Protocol):
    """Whoever wants to see attention."""

    def attention(self, layer: Computed) -> None:
        """Take note of one attention call."""


_sink: ContextVar[Sink | None] = ContextVar("whence_sink", default=None)

# How a model attends: as it does; to every key that it may attend to alike; or as it does, but with weights that are
# constants to a gradient.
Manner = Literal["own", "uniform", "detached"]
_manner: ContextVar[Manner] = ContextVar("whence_manner", default="own")

# Takes the weights of one attention call after another, and returns those to attend with; None: its own.
Edit = Callable[[Callable[[], Tensor]], Tensor | None]
_edit: ContextVar[Edit | None] = ContextVar("whence_edit", default=None)


def _attend(
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
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = causal and relies_on_flag(getattr(module, "config", None))
    causal = bool(causal) and attention_mask is None and query.shape[2] > 1
    layer = Computed(
        q=query,
        k=key,
        v=value,
        scale=scaling,
        visible=_visible(attention_mask, causal),
        bias=position_bias,
        softcap=softcap,
        sink=s_aux,
    )
    layer = in_manner(layer)
    layer.out = edited(layer)
    if layer.out is None:
        layer.out = attend(layer.q, layer.k, value, layer)
        layer.logsumexp = logsumexp_of(layer.out)
    sink = _sink.get()
    if sink is not None:
        sink.attention(layer)
    return layer.out.transpose(1, 2).contiguous(), None


def manner() -> Manner:
    """Return the manner in which models attend now."""
    return _manner.get()


@contextmanager
def attending(in_this: Manner) -> Iterator[None]:
    """Let models attend in another manner, as far as their attention is seen at all."""
    token = _manner.set(in_this)
    try:
        yield
    finally:
        _manner.reset(token)


def in_manner(layer: Computed) -> Computed:
    """Return a call that attends in the manner of now to the same values."""
    if manner() == "own":
        return layer
    q, k = layer.q.detach(), layer.k.detach()
    if manner() == "detached":
        return replace(layer, q=q, k=k)
    # Queries of zero are indifferent to keys; of the mask only stays which keys may be seen at all.
    visible, mask = layer.visible, layer.visible.dense
    if mask is not None and mask.dtype != torch.bool:
        visible = replace(visible, dense=mask > torch.finfo(mask.dtype).min / 2)
    return replace(
        layer, q=torch.zeros_like(q), k=k, visible=visible, bias=None, softcap=None, sink=None
    )


@contextmanager
def editing(edit: Edit) -> Iterator[None]:
    """Let models attend with edited weights, as far as their attention is seen at all."""
    token = _edit.set(edit)
    try:
        yield
    finally:
        _edit.reset(token)


@contextmanager
def untouched() -> Iterator[None]:
    """Let a model attend by itself, whatever is done to another one meanwhile."""
    own, unedited = _manner.set("own"), _edit.set(None)
    try:
        yield
    finally:
        _edit.reset(unedited)
        _manner.reset(own)


def runs_plainly() -> bool:
    """Say whether models attend by themselves now: in their own manner, and with weights that nobody edits."""
    return _manner.get() == "own" and _edit.get() is None


def edit_weights(weights: Callable[[], Tensor]) -> Tensor | None:
    """Return the weights to attend with instead of a call's own, if someone wants others."""
    edit = _edit.get()
    return None if edit is None else edit(weights)


def edited(layer: Computed) -> Tensor | None:
    """Return what a call gives with edited weights; None where nobody edits it."""
    weights = edit_weights(layer.weights)
    return None if weights is None else by_head(weights.to(layer.v.dtype), layer.v, torch.matmul)


def attend(query: Tensor, key: Tensor, value: Tensor, layer: Computed) -> Tensor:
    """Compute attention, (batch, heads, queries, width), without its map where that can be.

    To a tape this is one operation, with a rule of its own: what happens inside stays inside.
    """
    if has_torch_function((query, key, value)):
        output: Tensor = handle_torch_function(
            attend, (query, key, value), query, key, value, layer
        )
        return output
    return attended(query, key, value, layer)


def _visible(mask: Tensor | None, causal: bool) -> Visible:
    """Return who sees what, from what transformers hands us in place of a mask."""
    if isinstance(mask, Mask):
        return mask.visible
    return Visible(right=0 if causal else None, dense=mask)


@cache
def _register() -> None:
    from transformers.masking_utils import (
        AttentionMaskInterface,
        bidirectional_mask_function,
        causal_mask_function,
        sdpa_mask,
    )
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    bands: dict[Any, Band] = {
        causal_mask_function: (None, 0),
        bidirectional_mask_function: (None, None),
    }
    AttentionMaskInterface.register(NAME, unwritten(sdpa_mask, bands, relies_on_flag))


# The configurations, by identity, that answer with NAME in this context: where the seam is open.
_routed: ContextVar[frozenset[int]] = ContextVar("whence_routed", default=frozenset())

# Of each configuration that is switched, its own class, and how many have it switched: several models may share one,
# and only those that share a model take turns.
_held: dict[int, tuple[type, int]] = {}
_holding = Lock()


@cache
def _answering(kind: type) -> type:
    """Return a configuration's class whose objects name the seam to who opened it, and to others what they hold."""

    def answer(config: Any) -> Any:
        return NAME if id(config) in _routed.get() else own.__get__(config, kind)

    own: Any = kind._attn_implementation  # type: ignore[attr-defined]
    body = {
        "_attn_implementation": property(answer, getattr(own, "fset", None)),
        "__init__": getattr_static(kind, "__init__"),  # or transformers would wrap it anew
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (kind,), body)


def relies_on_flag(config: Any) -> bool:
    """Say whether a part of a model, left to itself, takes "no mask" for "causal" where its module says so.

    Only kernels that can be told so do. Eager attention adds what mask it gets, and without one attends to all: there
    the masks of decoders are always made, and modules say nothing, or something wrong, about causality.
    """
    return getattr(config, "_attn_implementation_internal", "sdpa") not in _FLAGLESS


_FLAGLESS = frozenset({"eager", "paged|eager", "flex_attention", None})


def _configs(model: Any) -> list[Any]:
    """Every configuration that says which attention a part of the model uses."""
    found: dict[int, Any] = {}
    # Modules look for what they lack in several places, which takes long.
    every = parts(model)
    kinds = {kind for kind in {type(part) for part in every} if hasattr(kind, "config")}
    has: list[Any] = [p for p in every if "config" in p.__dict__ or type(p) in kinds]
    queue: list[Any] = [part.config for part in has]
    while queue:
        config = queue.pop()
        if id(config) not in found and hasattr(config, "_attn_implementation"):
            found[id(config)] = config
            queue += [getattr(config, key, None) for key in getattr(config, "sub_configs", {})]
    return list(found.values())


def implementations(model: Any) -> list[str | None]:
    """Return how the parts of a model that allows the seam attend now; by NAME where it is open."""
    return [config._attn_implementation for config in _configs(model)] if _allows(model) else []


_CAN = "_can_set_attn_implementation"


def _allows(model: Any) -> bool:
    can = getattr(model, _CAN, None)
    return can is not None and bool(can())


def _switching(model: Any) -> list[Any]:
    """Return the configurations to switch: all but those of parts that compute attention in a way of their own."""
    fixed = {
        id(part.config) for part in parts(model) if hasattr(type(part), _CAN) and not _allows(part)
    }
    configs = [config for config in _configs(model) if id(config) not in fixed]
    # What is no configuration of transformers' keeps its answer elsewhere.
    return [one for one in configs if isinstance(_attribute(type(one)), property)]


def _attribute(kind: type) -> Any:
    return getattr(kind, "_attn_implementation", None)


@contextmanager
def attention_seam(model: Any, sink: Sink | None) -> Iterator[bool]:
    """Route the model's attention through whence; yields whether the model seems to allow it."""
    if not _allows(model):
        yield False
        return
    _register()
    configs = _switching(model)
    routed = _routed.get()
    _hold(configs)
    tokens = _sink.set(sink), _routed.set(routed | {id(config) for config in configs})
    try:
        yield True
    finally:
        _sink.reset(tokens[0])
        _routed.reset(tokens[1])
        _release(configs)


@contextmanager
def closed_seam() -> Iterator[None]:
    """Let every model run by itself, also where the seam is open: as it does in another thread."""
    token = _routed.set(frozenset())
    try:
        yield
    finally:
        _routed.reset(token)


def _hold(configs: list[Any]) -> None:
    """Let configurations answer by who asks, unless somebody sees to that already."""
    with _holding:
        for config in configs:
            kind, holders = _held.get(id(config), (type(config), 0))
            _held[id(config)] = (kind, holders + 1)
            if not holders:
                object.__setattr__(config, "__class__", _answering(kind))


def _release(configs: list[Any]) -> None:
    """Leave configurations as they were found, once nobody needs them switched any more."""
    with _holding:
        for config in configs:
            kind, holders = _held.pop(id(config))
            if holders > 1:
                _held[id(config)] = (kind, holders - 1)
            else:
                object.__setattr__(config, "__class__", kind)
