"""The stacks of layers that tokens go through: one, or two in an encoder-decoder, with cross attention between them.

An encoder-decoder has no single map over its tokens. The source's tokens attend to each other, the decoder's tokens
to each other and, layer by layer, to what the encoder made of the source. All of them stand on one axis: the source,
its padding, the decoder's tokens, their padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from whence.capture.attention.layer import AttentionLayer
from whence.core.errors import BadParameter, NotCapturable
from whence.kernels import Combination, contract

_Layer = TypeVar("_Layer")

# What works on both sides, for the errors of what does not.
_BOTH = (
    "generic_attention, raw_attention, rollout, attention_gradient, attcat, cat and full_lrp follow both sides; "
    "attn_lrp, cp_lrp, gradient methods, leave_one_out and the like need no maps."
)
# What works without a map, for the errors where there is none.
UNATTENDING = "Use leave_one_out, which works wherever the model runs, or try grad_x_input: neither needs attention."
# How configurations call the number of layers: of the encoder, of the decoder.
_NAMES = (
    ("encoder_layers", "decoder_layers"),
    ("num_encoder_layers", "num_decoder_layers"),
    ("num_layers", "num_decoder_layers"),
)


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers in which tokens attend to each other, and where these tokens stand on the axis of all tokens."""

    layers: list[AttentionLayer]
    places: slice

    def chosen(self, index: int | None) -> list[AttentionLayer]:
        """Return one layer, or all of them."""
        return self.layers if index is None else [numbered(self.layers, index)]


@dataclass(frozen=True, eq=False)
class DecoderLayer:
    """What a decoder's layer attends to: the decoder's own tokens, then the source."""

    own: AttentionLayer
    cross: AttentionLayer


@dataclass(frozen=True, eq=False)
class Sides:
    """An encoder's layers, and a decoder's."""

    encoder: list[AttentionLayer]
    decoder: list[DecoderLayer]
    sources: int  # places of the source; those of the decoder come after them

    @property
    def stacks(self) -> list[Stack]:
        """The two stacks of self-attention."""
        own = [layer.own for layer in self.decoder]
        return [
            Stack(self.encoder, slice(self.sources)),
            Stack(own, slice(self.sources, None)),
        ]

    def split(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Cut what belongs to all places, (batch, places, ...), into the source's part and the decoder's."""
        return row[:, : self.sources], row[:, self.sources :]

    def from_layer(self, start: int) -> "Sides":
        """Return both sides without the layers below `start`, which counts in each of them."""
        encoder = self.encoder[self.encoder.index(numbered(self.encoder, start)) :]
        decoder = self.decoder[self.decoder.index(numbered(self.decoder, start)) :]
        return Sides(encoder, decoder, self.sources)

    def read(self, layer: DecoderLayer, row: Tensor, combination: Combination) -> Tensor:
        """Return what a row of the decoder gives to the source and to the decoder's tokens, (batch, places)."""
        _, row = self.split(row)
        both = [contract(one, row, combination) for one in (layer.cross, layer.own)]
        return torch.cat(both, dim=1)

    def refusal(self, model: str) -> NotCapturable:
        """Say why methods that need one stack of maps do not work."""
        return NotCapturable(
            f"{model} has an encoder and a decoder: its attention is not one stack of maps. {_BOTH}"
        )


def two_sides(
    model: Any, layers: Sequence[AttentionLayer], sources: int, targets: int
) -> Sides | NotCapturable:
    """Tell an encoder's attention from a decoder's by order and shape, or say why that cannot be done."""
    name = type(model).__name__
    counts = _counts(model.config)
    if counts is None:
        return NotCapturable(
            f"The configuration of {name} does not say how many layers its encoder and its decoder have. "
            f"{UNATTENDING}"
        )
    encoders, decoders = counts
    expected = [(sources, sources)] * encoders + [(targets, targets), (targets, sources)] * decoders
    shapes = [(layer.length, layer.v.shape[2]) for layer in layers]
    if shapes != expected:
        return NotCapturable(
            f"{name} has {encoders} encoder and {decoders} decoder layers. The {len(shapes)} attention calls that "
            "were seen are not one for each of the former and, for each of the latter, one over the decoder's tokens "
            f"and one over the source. {UNATTENDING}"
        )
    if any(layer.hidden is None for layer in layers):
        return NotCapturable(
            f"The layers of {name} are not blocks in a list of layers. {UNATTENDING}"
        )
    rest = layers[encoders:]
    pairs = [DecoderLayer(*pair) for pair in zip(rest[::2], rest[1::2], strict=True)]
    return Sides(list(layers[:encoders]), pairs, sources)


def _counts(config: Any) -> tuple[int, int] | None:
    parts = [getattr(config, side, None) for side in ("encoder", "decoder")]
    stated = [[getattr(config, name, None) for name in names] for names in _NAMES]
    for found in [*stated, [getattr(part, "num_hidden_layers", None) for part in parts]]:
        encoders, decoders = found
        if isinstance(encoders, int) and isinstance(decoders, int):
            return encoders, decoders
    return None


def numbered(layers: list[_Layer], index: int) -> _Layer:
    """Return one layer; they count from 0 at the input, negative ones from the output."""
    if not -len(layers) <= index < len(layers):
        raise BadParameter(
            f"There is no layer {index}: the model has {len(layers)}, counted from 0 at the input "
            "(or from -1 at the output)."
        )
    return layers[index]
