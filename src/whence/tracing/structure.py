"""Structure of a model, found by running it: embedding look-ups, encoder and decoder, stages, output heads.

An encoder-decoder has no single map over its tokens. Source tokens attend to each other, decoder tokens to
each other and, layer by layer, to the encoder's output. All stand on one axis: the source, its padding, the
decoder's tokens, their padding. Stages run from the output down to the input, for cascading randomisation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from whence.core.errors import NotCapturable
from whence.data.batches import Batch
from whence.data.images import split_patches
from whence.kernels.contract import contract
from whence.kernels.maps import Combination
from whence.tracing.attention_layer import AttentionLayer, select_layer, widen
from whence.tracing.target import ResolvedTargets, read_logits


@dataclass(frozen=True, eq=False)
class OutputHead:
    """One of the model's own outputs."""

    value: Tensor  # (batch, ...), without its graph
    number: int | None  # on the tape; None if the operation that made it is hidden from PyTorch


def compute_output_gradients(
    heads: Mapping[str, OutputHead], batch: Batch, targets: ResolvedTargets
) -> dict[str, Tensor]:
    """Return the derivative of the explained scalar by each of the model's outputs, in float32 at least."""
    with torch.enable_grad():
        wide = {
            name: widen(head.value.detach()).clone().requires_grad_()
            for name, head in heads.items()
        }
        if batch.items and batch.items[0].reading is not None:
            logits = read_logits(SimpleNamespace(**wide), batch, "the model")
        else:
            logits = wide["logits"]
        value = targets.value(logits).sum()
        grads = torch.autograd.grad(value, list(wide.values()), allow_unused=True)
    pairs = zip(wide.items(), grads, strict=True)
    return {name: torch.zeros_like(leaf) if part is None else part for (name, leaf), part in pairs}


@dataclass(frozen=True, eq=False)
class EmbeddingLookup:
    """One look-up of token ids in the embedding table."""

    ids: Tensor
    leaf: Tensor  # the embeddings, as a leaf of the graph
    number: int | None = None  # on the tape, if there is one


# How the ids of a look-up correspond to the input: "same"; "turned", (tokens, inputs), as in XLNet;
# "later", shifted by one position, as in the decoder of an encoder-decoder classifier; "decoder", the
# decoder's own tokens, which come after the source's; "picture", pixels without a look-up.
LookupPlacement = Literal["same", "turned", "later", "decoder", "picture"]


def find_placements(batch: Batch, lookups: Sequence[EmbeddingLookup]) -> list[LookupPlacement]:
    """Return the placement of each look-up; raise NotCapturable if it does not correspond to the input.

    A decoder input equal to the source is the second one.
    """
    ids, own = batch.inputs.get("input_ids"), batch.inputs.get("decoder_input_ids")
    later = batch.real[:, 1:]
    placements: list[LookupPlacement] = []
    for seen in (lookup.ids for lookup in lookups):
        if ids is None:
            placements.append("picture")
        elif torch.equal(seen, ids):
            repeated = "same" in placements and own is not None and torch.equal(seen, own)
            placements.append("decoder" if repeated else "same")
        elif own is not None and torch.equal(seen, own):
            placements.append("decoder")
        elif own is None and torch.equal(seen, ids.T):
            placements.append("turned")
        elif (
            own is None
            and seen.shape == ids.shape
            and torch.equal(seen[:, 1:][later], ids[:, :-1][later])
        ):
            placements.append("later")
        else:
            raise NotCapturable(
                "The token embeddings are looked up for tokens that are not those of the input. "
                "Use leave_one_out, which needs no embeddings."
            )
    return placements


def check_one_embedding_table(batch: Batch, lookups: Sequence[EmbeddingLookup]) -> None:
    """Refuse a classifier whose encoder and decoder embed the input by separate tables (T5Gemma)."""
    places = find_placements(batch, lookups)
    first = {place: lookup.leaf.detach() for lookup, place in zip(lookups, places, strict=True)}
    if not {"same", "later"} <= first.keys():
        return
    real = batch.real[:, 1:]
    if not torch.equal(first["later"][:, 1:][real], first["same"][:, :-1][real]):
        raise NotCapturable(
            "The encoder and the decoder have tables of embeddings of their own, and both look the input up: a token "
            "has no one embedding. Use leave_one_out, which needs none."
        )


def select_token_embeddings(batch: Batch, lookups: Sequence[EmbeddingLookup]) -> Tensor:
    """Return the embeddings of the input's tokens, (batch, tokens, features)."""
    check_one_embedding_table(batch, lookups)
    embeddings: dict[LookupPlacement, Tensor] = {}
    for lookup, place in zip(lookups, find_placements(batch, lookups), strict=True):
        leaf = lookup.leaf.detach()
        if place == "picture":
            return split_into_patches(batch, leaf)
        embeddings.setdefault(place, leaf.transpose(0, 1) if place == "turned" else leaf)
    embeddings.pop("later", None)
    if not embeddings:
        raise build_no_lookup_error()
    return join_source_and_decoder(batch, embeddings)


def sum_per_token(
    batch: Batch, lookups: Sequence[EmbeddingLookup], parts: Sequence[Tensor | None]
) -> Tensor:
    """Add up the parts of each token over all look-ups; a part has the shape of its look-up."""
    sums: dict[LookupPlacement, Tensor] = {}
    for lookup, place, part in zip(lookups, find_placements(batch, lookups), parts, strict=True):
        part = torch.zeros_like(lookup.leaf) if part is None else part
        if place == "picture":
            return split_into_patches(batch, part)
        if place == "turned":
            part = part.transpose(0, 1)
        elif place == "later":
            part = torch.cat([part[:, 1:], torch.zeros_like(part[:, :1])], dim=1)
        side: LookupPlacement = "decoder" if place == "decoder" else "same"
        sums[side] = widen(sums[side]) + part if side in sums else part
    if not sums:
        raise build_no_lookup_error()
    return join_source_and_decoder(batch, sums)


def undo_gradient_scale(grad: Tensor, scale: Tensor) -> Tensor:
    """Divide a gradient by the gradient scale of its target, powers of two, (batch,)."""
    return widen(grad) / scale.reshape(-1, *[1] * (grad.dim() - 1))


def split_into_patches(batch: Batch, pixels: Tensor) -> Tensor:
    """Cut pixel values, (batch, channels, height, width), into patches, (batch, tokens, features)."""
    picture = batch.items[0].picture
    assert picture is not None
    return batch.pad_values(list(split_patches(pixels, picture.grid)))


def join_source_and_decoder(batch: Batch, parts: Mapping[LookupPlacement, Tensor]) -> Tensor:
    """Concatenate the tokens of source and decoder; without a decoder return the only tensor."""
    if "decoder_input_ids" not in batch.inputs:
        return next(iter(parts.values()))
    if set(parts) != {"same", "decoder"}:
        raise build_no_lookup_error()
    return torch.cat([parts["same"], parts["decoder"]], dim=1)


def build_no_lookup_error() -> NotCapturable:
    """Return the error for a model that never looked up its input's embeddings."""
    return NotCapturable(
        "The model never looked its input up in get_input_embeddings(). Use leave_one_out."
    )


def build_no_gradient_error() -> NotCapturable:
    """Return the error for a target without a gradient to the token embeddings."""
    return NotCapturable(
        "There is no gradient from the target back to the token embeddings: something in the model cuts it off "
        "(detach, no_grad, a quantised layer). Use leave_one_out, which needs none."
    )


# Methods for encoder-decoders, named in the errors of other methods.
_ENCODER_DECODER_METHODS = (
    "generic_attention, raw_attention, rollout, attention_gradient, attcat, cat and full_lrp follow both sides; "
    "attn_lrp, cp_lrp, gradient methods, leave_one_out and the like need no maps."
)
# Methods without attention maps, named in errors about missing maps.
METHODS_WITHOUT_ATTENTION = "Use leave_one_out, which works wherever the model runs, or try grad_x_input: neither needs attention."
# Names in configurations for the numbers of encoder and decoder layers.
_LAYER_COUNT_NAMES = (
    ("encoder_layers", "decoder_layers"),
    ("num_encoder_layers", "num_decoder_layers"),
    ("num_layers", "num_decoder_layers"),
)


@dataclass(frozen=True, eq=False)
class LayerStack:
    """Layers of self-attention, and the slice of their tokens on the axis of all tokens."""

    layers: list[AttentionLayer]
    places: slice

    def select(self, index: int | None) -> list[AttentionLayer]:
        """Return one layer, or all of them."""
        return self.layers if index is None else [select_layer(self.layers, index)]


@dataclass(frozen=True, eq=False)
class DecoderLayer:
    """The two attention calls of a decoder layer: to the decoder's own tokens and to the source."""

    own: AttentionLayer
    cross: AttentionLayer


@dataclass(frozen=True, eq=False)
class EncoderDecoder:
    """The attention layers of an encoder and a decoder."""

    encoder: list[AttentionLayer]
    decoder: list[DecoderLayer]
    sources: int  # source tokens; those of the decoder come after them

    @property
    def stacks(self) -> list[LayerStack]:
        """The two stacks of self-attention."""
        own = [layer.own for layer in self.decoder]
        return [
            LayerStack(self.encoder, slice(self.sources)),
            LayerStack(own, slice(self.sources, None)),
        ]

    def split(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Cut values of all tokens, (batch, tokens, ...), into the source's and the decoder's part."""
        return row[:, : self.sources], row[:, self.sources :]

    def from_layer(self, start: int) -> "EncoderDecoder":
        """Return both sides without the layers below `start`, counted in each side."""
        encoder = self.encoder[self.encoder.index(select_layer(self.encoder, start)) :]
        decoder = self.decoder[self.decoder.index(select_layer(self.decoder, start)) :]
        return EncoderDecoder(encoder, decoder, self.sources)

    def read(self, layer: DecoderLayer, row: Tensor, combination: Combination) -> Tensor:
        """Contract a decoder row with cross- and self-attention, to source and decoder, (batch, tokens)."""
        _, row = self.split(row)
        both = [contract(attention, row, combination) for attention in (layer.cross, layer.own)]
        return torch.cat(both, dim=1)

    def refusal(self, model: str) -> NotCapturable:
        """Return the error for methods that need one stack of maps."""
        return NotCapturable(
            f"{model} has an encoder and a decoder: its attention is not one stack of maps. {_ENCODER_DECODER_METHODS}"
        )


def split_encoder_decoder(
    model: Any, layers: Sequence[AttentionLayer], sources: int, targets: int
) -> EncoderDecoder | NotCapturable:
    """Split attention calls into encoder and decoder by order and shape, or return why that fails."""
    name = type(model).__name__
    counts = _count_layers(model.config)
    if counts is None:
        return NotCapturable(
            f"The configuration of {name} does not say how many layers its encoder and its decoder have. "
            f"{METHODS_WITHOUT_ATTENTION}"
        )
    encoders, decoders = counts
    expected = [(sources, sources)] * encoders + [(targets, targets), (targets, sources)] * decoders
    shapes = [(layer.length, layer.v.shape[2]) for layer in layers]
    if shapes != expected:
        return NotCapturable(
            f"{name} has {encoders} encoder and {decoders} decoder layers. The {len(shapes)} attention calls that "
            "were seen are not one for each of the former and, for each of the latter, one over the decoder's tokens "
            f"and one over the source. {METHODS_WITHOUT_ATTENTION}"
        )
    if any(layer.hidden is None for layer in layers):
        return NotCapturable(
            f"The layers of {name} are not blocks in a list of layers. {METHODS_WITHOUT_ATTENTION}"
        )
    rest = layers[encoders:]
    pairs = [DecoderLayer(*pair) for pair in zip(rest[::2], rest[1::2], strict=True)]
    return EncoderDecoder(list(layers[:encoders]), pairs, sources)


def _count_layers(config: Any) -> tuple[int, int] | None:
    parts = [getattr(config, side, None) for side in ("encoder", "decoder")]
    stated = [[getattr(config, name, None) for name in names] for names in _LAYER_COUNT_NAMES]
    for counts in [*stated, [getattr(part, "num_hidden_layers", None) for part in parts]]:
        encoders, decoders = counts
        if isinstance(encoders, int) and isinstance(decoders, int):
            return encoders, decoders
    return None


HEAD, EMBEDDINGS = "head", "embeddings"


def list_stages(model: nn.Module) -> tuple[str, ...]:
    """Return the stages of a cascade: the head, the layers from last to first, the embeddings.

    A layer is a member of an outermost ModuleList; a decoder's layers come before its encoder's.
    Embedding tables, and parameters with "embed" in their name, are the embeddings; all other
    parameters outside layers are the head.
    """
    return tuple(group_parameters_by_stage(model))


def group_parameters_by_stage(model: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """Return the parameters of each stage by name; each is in one stage, and no stage is empty."""
    parts = dict(model.named_modules())
    lists = {name: part for name, part in parts.items() if isinstance(part, nn.ModuleList)}
    layers = [
        f"{name}.{number}"
        for name, part in lists.items()
        if not any(name.startswith(f"{other}.") for other in lists)
        for number in range(len(part))
    ]
    order = [HEAD, *reversed(layers), EMBEDDINGS]
    stages: dict[nn.Parameter, tuple[int, str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        own = next((layer for layer in layers if name.startswith(layer + ".")), HEAD)
        is_table = isinstance(parts.get(name.rpartition(".")[0]), nn.Embedding)
        if own == HEAD and (is_table or "embed" in name.lower()):
            own = EMBEDDINGS
        stage, first = stages.get(parameter, (0, name))
        # A parameter shared by stages belongs to the last of them, so that earlier stages do not
        # change it.
        stages[parameter] = (max(stage, order.index(own)), first)
    groups: dict[str, dict[str, nn.Parameter]] = {stage: {} for stage in order}
    for parameter, (number, name) in stages.items():
        groups[order[number]][name] = parameter
    return {stage: group for stage, group in groups.items() if group}
