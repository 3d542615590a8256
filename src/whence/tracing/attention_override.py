"""Context managers for models in training: attention made uniform, detached from the gradient, or collected.

Unlike a trace they neither freeze the model nor put it into evaluation mode: models are trained inside
them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whence.models.facts import get_facts
from whence.tracing.attention_interface import (
    AttentionOverride,
    attention_override,
    route_attention,
)
from whence.tracing.attention_layer import AttentionLayer, ComputedAttention, find_logsumexp
from whence.tracing.recognise import AttentionRecogniser
from whence.tracing.restore import alter_model, set_variable


@contextmanager
def override_attention(model: Any, override: AttentionOverride) -> Iterator[None]:
    """Override the attention of all layers, heads and rows of a model inside the block.

    "uniform": equal weights for all visible keys. "detached": the model's own weights, as constants
    of the gradient. "own": no change. Dropout of attention weights is off meanwhile.
    """
    if override == "own":
        yield
        return
    # Routing and recognition at once: a model uses one of them, and the other does nothing.
    with alter_model(model, f"attention {override}") as stack:
        stack.enter_context(set_variable(attention_override, override))
        stack.enter_context(route_attention(model, None))
        stack.enter_context(AttentionRecogniser(None))
        yield


@contextmanager
def watch_attention(model: Any, batch_size: int) -> Iterator[list[AttentionLayer]]:
    """Yield a list that collects the layers' attention while the model runs, with autograd's graph."""
    layers: list[AttentionLayer] = []

    def record(layer: AttentionLayer) -> None:
        if isinstance(layer, ComputedAttention):
            layer.logsumexp = find_logsumexp(layer)
        layers.append(layer)

    recognised = AttentionRecogniser(batch_size, record)
    with get_facts(model).lock, route_attention(model, record), recognised:
        yield layers
