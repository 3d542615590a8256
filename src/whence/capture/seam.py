"""The attention seam of transformers: while it is open, a model's attention is computed here and shown to us.

An attention function and its mask are registered under one name; without the mask, causality is silently
lost. The registration is global and inert: nothing changes until a model is switched to the name, and the
switch is undone by `with`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function

from whence.capture.layer import Computed, by_head

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
        mask=attention_mask,
        causal=causal,
        bias=position_bias,
        softcap=softcap,
        sink=s_aux,
    )
    layer = in_manner(layer)
    layer.out = edited(layer)
    if layer.out is None:
        layer.out = attend(layer.q, layer.k, value, layer)
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
    mask = layer.mask
    if mask is not None and mask.dtype != torch.bool:
        mask = mask > torch.finfo(mask.dtype).min / 2
    return replace(layer, q=torch.zeros_like(q), k=k, mask=mask, bias=None, softcap=None, sink=None)


@contextmanager
def editing(edit: Edit) -> Iterator[None]:
    """Let models attend with edited weights, as far as their attention is seen at all."""
    token = _edit.set(edit)
    try:
        yield
    finally:
        _edit.reset(token)


def edit_weights(weights: Callable[[], Tensor]) -> Tensor | None:
    """Return the weights to attend with instead of a call's own, if someone wants others."""
    edit = _edit.get()
    return None if edit is None else edit(weights)


def edited(layer: Computed) -> Tensor | None:
    """Return what a call gives with edited weights; None where nobody edits it."""
    weights = edit_weights(layer.weights)
    return None if weights is None else by_head(weights, layer.v, torch.matmul)


def attend(query: Tensor, key: Tensor, value: Tensor, layer: Computed) -> Tensor:
    """Compute attention, (batch, heads, queries, width), without its map where that can be.

    To a tape this is one operation, with a rule of its own: what happens inside stays inside.
    """
    if has_torch_function((query, key, value)):
        output: Tensor = handle_torch_function(
            attend, (query, key, value), query, key, value, layer
        )
        return output
    groups = query.shape[1] // key.shape[1]
    if layer.softcap is not None or layer.sink is not None:
        weights = replace(layer, q=query, k=key).weights()
        return weights @ value.repeat_interleave(groups, dim=1)
    mask = layer.mask
    causal = layer.causal
    if layer.bias is not None:
        mask, causal = layer.additive(slice(None)), False
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        scale=layer.scale,
        enable_gqa=groups > 1,
    )


def _register() -> None:
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def _configs(model: Any) -> list[Any]:
    """Every configuration that says which attention a part of the model uses."""
    found: dict[int, Any] = {}
    queue = [part.config for part in model.modules() if hasattr(part, "config")]
    while queue:
        config = queue.pop()
        if id(config) not in found and hasattr(config, "_attn_implementation"):
            found[id(config)] = config
            queue += [getattr(config, key, None) for key in getattr(config, "sub_configs", {})]
    return list(found.values())


def _switch(model: Any) -> None:
    """Let a model attend through the seam; a part that it lacks is no cause for a remark of transformers."""
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
    can = getattr(model, "_can_set_attn_implementation", None)
    if can is None or not can():
        yield False
        return
    _register()
    before = [(config, config._attn_implementation) for config in _configs(model)]
    token = _sink.set(sink)
    try:
        _switch(model)
        yield True
    finally:
        _sink.reset(token)
        for config, name in before:
            config._attn_implementation_internal = name
