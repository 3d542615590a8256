"""The attention seam of transformers: while it is open, a model's attention is computed here and shown to us.

An attention function and its mask are registered under one name; without the mask, causality is silently
lost. The registration is global and inert: nothing changes until a model is switched to the name, and the
switch is undone by `with`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from operator import is_
from threading import Lock
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

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
    AttentionMaskInterface.register(NAME, unwritten(sdpa_mask, bands))


# Of each configuration that is switched, what it was before, and how many have it switched: several models may share
# one, and only those that share a model take turns.
_held: dict[int, tuple[str | None, int]] = {}
_holding = Lock()

# Of each model, its configurations and those of them that change when it is switched to the seam.
_switched: WeakKeyDictionary[Any, tuple[list[Any], list[Any]]] = WeakKeyDictionary()


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


def _allows(model: Any) -> bool:
    can = getattr(model, "_can_set_attn_implementation", None)
    return can is not None and bool(can())


def _switch(model: Any, configs: list[Any]) -> None:
    """Let a model attend through the seam, and remember which of its configurations say so then."""
    known = _switched.get(model)
    if known is None or len(known[0]) != len(configs) or not all(map(is_, known[0], configs)):
        _switch_anew(model)
        switched = [config for config in configs if config._attn_implementation == NAME]
        _switched[model] = (configs, switched)
        return
    for config in known[1]:
        config._attn_implementation_internal = NAME


def _switch_anew(model: Any) -> None:
    """Let transformers switch; a part that the model lacks is no cause for a remark."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        model.set_attn_implementation(NAME)
    finally:
        logging.set_verbosity(verbosity)


@contextmanager
def attention_seam(model: Any, sink: Sink | None) -> Iterator[bool]:
    """Route the model's attention through whence; yields whether the model seems to allow it."""
    if not _allows(model):
        yield False
        return
    _register()
    configs = _configs(model)
    _hold(configs)
    token = _sink.set(sink)
    try:
        _switch(model, configs)
        yield True
    finally:
        _sink.reset(token)
        _release(configs)


def _hold(configs: list[Any]) -> None:
    """Remember how configurations were found, unless somebody has switched them already."""
    with _holding:
        for config in configs:
            name, holders = _held.get(id(config), (config._attn_implementation, 0))
            _held[id(config)] = (name, holders + 1)


def _release(configs: list[Any]) -> None:
    """Leave configurations as they were found, once nobody needs them switched any more."""
    with _holding:
        for config in configs:
            name, holders = _held.pop(id(config))
            if holders > 1:
                _held[id(config)] = (name, holders - 1)
            else:
                config._attn_implementation_internal = name
