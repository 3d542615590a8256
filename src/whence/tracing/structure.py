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


"""Where things are in a model: found out by trying, not by names."""


"""What a model gives before it is read: where relevance starts from.

A reading is whence's, not the model's, and no tape follows it. What a target gives to each of the model's own outputs
is its slope there: one at a token's logit, if that is what is explained.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor

from whence.capture.readout import read
from whence.capture.target import Targets
from whence.data import Batch


@dataclass(frozen=True, eq=False)
class Head:
    """One of the model's own outputs."""

    value: Tensor  # (batch, ...), without its graph
    number: int | None  # on the tape; None where PyTorch does not show what it came out of


def slopes(heads: Mapping[str, Head], batch: Batch, targets: Targets) -> dict[str, Tensor]:
    """Return the derivative of the explained scalar by each of the model's outputs, in float32 at least."""
    with torch.enable_grad():
        wide = {name: _leaf(head.value) for name, head in heads.items()}
        if batch.items and batch.items[0].reading is not None:
            logits = read(SimpleNamespace(**wide), batch, "the model")
        else:
            logits = wide["logits"]
        value = targets.value(logits).sum()
        found = torch.autograd.grad(value, list(wide.values()), allow_unused=True)
    pairs = zip(wide.items(), found, strict=True)
    return {name: torch.zeros_like(one) if part is None else part for (name, one), part in pairs}


def _leaf(value: Tensor) -> Tensor:
    wide = value.detach().to(torch.promote_types(value.dtype, torch.float32))
    return wide.clone().requires_grad_()


"""Where tokens enter a model: looked up once, or twice where there is an encoder and a decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from whence.capture.attention.layer import wide
from whence.core.errors import NotCapturable
from whence.data import Batch
from whence.data.vision.picture import as_patches


@dataclass(frozen=True, eq=False)
class Lookup:
    """One look-up of token ids in the table of embeddings."""

    ids: Tensor
    leaf: Tensor  # the embeddings, as a leaf of the graph
    number: int | None = None  # on the tape, if there is one


# How the ids of a look-up stand to those of the input: the same; tokens first, as in XLNet; or one place later,
# as in the decoder of an encoder-decoder classifier; or the tokens that a decoder is given for its own, which stand
# after the source's. A picture is not looked up: it is its own.
Placement = Literal["same", "turned", "later", "decoder", "picture"]


def placements(batch: Batch, lookups: Sequence[Lookup]) -> list[Placement]:
    """Say how each look-up stands to the input; a source that a decoder repeats is told from it by the order."""
    found: list[Placement] = []
    for lookup in lookups:
        place = placement(batch, lookup.ids)
        repeated = place == "same" and "same" in found and _is_decoders(batch, lookup.ids)
        found.append("decoder" if repeated else place)
    return found


def _is_decoders(batch: Batch, seen: Tensor) -> bool:
    own = batch.inputs.get("decoder_input_ids")
    return own is not None and torch.equal(seen, own)


def placement(batch: Batch, seen: Tensor) -> Placement:
    """Say how what was looked up stands to the input, or refuse what is neither."""
    ids, real = batch.inputs.get("input_ids"), batch.real
    if ids is None:
        return "picture"
    if "decoder_input_ids" in batch.inputs:
        if torch.equal(seen, ids):
            return "same"
        if _is_decoders(batch, seen):
            return "decoder"
        raise _strangers()
    if torch.equal(seen, ids):
        return "same"
    if torch.equal(seen, ids.T):
        return "turned"
    same_shape = seen.shape == ids.shape
    if same_shape and torch.equal(seen[:, 1:][real[:, 1:]], ids[:, :-1][real[:, 1:]]):
        return "later"
    raise _strangers()


def require_one_table(batch: Batch, lookups: Sequence[Lookup]) -> None:
    """Refuse a classifier whose encoder and decoder look the same tokens up in tables of their own, as T5Gemma's."""
    places = placements(batch, lookups)
    first = {place: lookup.leaf.detach() for lookup, place in zip(lookups, places, strict=True)}
    if not {"same", "later"} <= first.keys():
        return
    real = batch.real[:, 1:]
    if not torch.equal(first["later"][:, 1:][real], first["same"][:, :-1][real]):
        raise NotCapturable(
            "The encoder and the decoder have tables of embeddings of their own, and both look the input up: a token "
            "has no one embedding. Use leave_one_out, which needs none."
        )


def own(batch: Batch, lookups: Sequence[Lookup]) -> Tensor:
    """Return the embeddings of the input's tokens, (batch, tokens, features)."""
    require_one_table(batch, lookups)
    found: dict[Placement, Tensor] = {}
    for lookup, place in zip(lookups, placements(batch, lookups), strict=True):
        leaf = lookup.leaf.detach()
        if place == "picture":
            return by_patch(batch, leaf)
        found.setdefault(place, leaf.transpose(0, 1) if place == "turned" else leaf)
    found.pop("later", None)
    if not found:
        raise never()
    return joined(batch, found)


def per_token(batch: Batch, lookups: Sequence[Lookup], parts: Sequence[Tensor | None]) -> Tensor:
    """Add up what belongs to each token over all the places where it enters; a part fits its look-up."""
    found: dict[Placement, Tensor] = {}
    for lookup, place, part in zip(lookups, placements(batch, lookups), parts, strict=True):
        part = torch.zeros_like(lookup.leaf) if part is None else part
        if place == "picture":
            return by_patch(batch, part)
        if place == "turned":
            part = part.transpose(0, 1)
        elif place == "later":
            part = torch.cat([part[:, 1:], torch.zeros_like(part[:, :1])], dim=1)
        side: Placement = "decoder" if place == "decoder" else "same"
        found[side] = wide(found[side]) + part if side in found else part
    if not found:
        raise never()
    return joined(batch, found)


def brought_down(grad: Tensor | None, lift: Tensor | None) -> Tensor | None:
    """Return the gradient of a target from that of the same one lifted by powers of two, (batch,)."""
    if grad is None or lift is None:
        return grad
    return wide(grad) / lift.reshape(-1, *[1] * (grad.dim() - 1))


def by_patch(batch: Batch, pixels: Tensor) -> Tensor:
    """Cut what belongs to pixels, (batch, channels, height, width), into patches, (batch, places, features)."""
    picture = batch.items[0].picture
    assert picture is not None
    return batch.spread(list(as_patches(pixels, picture.grid)))


def joined(batch: Batch, found: Mapping[Placement, Tensor]) -> Tensor:
    """Put a decoder's tokens after those of the source; without a decoder there is one kind of them."""
    if "decoder_input_ids" not in batch.inputs:
        return next(iter(found.values()))
    if set(found) != {"same", "decoder"}:
        raise never()
    return torch.cat([found["same"], found["decoder"]], dim=1)


def _strangers() -> NotCapturable:
    return NotCapturable(
        "The token embeddings are looked up for tokens that are not those of the input. "
        "Use leave_one_out, which needs no embeddings."
    )


def never() -> NotCapturable:
    """Say that no token was looked up where tokens should be."""
    return NotCapturable(
        "The model never looked its input up in get_input_embeddings(). Use leave_one_out."
    )


def no_way_back() -> NotCapturable:
    """Say that the target does not depend on the tokens in a way that can be differentiated."""
    return NotCapturable(
        "There is no gradient from the target back to the token embeddings: something in the model cuts it off "
        "(detach, no_grad, a quantised layer). Use leave_one_out, which needs none."
    )


"""The parts of a model in the order in which a prediction depends on them, from the output down to the input."""

from torch import nn

HEAD, EMBEDDINGS = "head", "embeddings"


def stages(model: nn.Module) -> tuple[str, ...]:
    """Name the stages of a cascade: the head, the layers from the last to the first, the embeddings.

    A layer is a member of a list of modules that lies in no other such list; a decoder's come before its encoder's.
    Tables of embeddings, and what is called after them, are the embeddings; all that is neither is the head.
    """
    return tuple(grouped(model))


def grouped(model: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """Return the parameters of each stage by name; every parameter is in one stage, and no stage is empty."""
    layers, tables = _layers(model), _tables(model)
    order = [HEAD, *reversed(layers), EMBEDDINGS]
    found: dict[nn.Parameter, tuple[int, str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        stage, first = found.get(parameter, (0, name))
        # What several stages share changes with the last of them, so that the ones before stay apart.
        found[parameter] = (max(stage, order.index(_stage(name, layers, tables))), first)
    groups: dict[str, dict[str, nn.Parameter]] = {stage: {} for stage in order}
    for parameter, (stage, name) in found.items():
        groups[order[stage]][name] = parameter
    return {stage: group for stage, group in groups.items() if group}


def _stage(name: str, layers: list[str], tables: set[str]) -> str:
    for layer in layers:
        if name.startswith(layer + "."):
            return layer
    module = name.rpartition(".")[0]
    return EMBEDDINGS if module in tables or "embed" in name.lower() else HEAD


def _layers(model: nn.Module) -> list[str]:
    """Name the members of the outermost lists of modules, from the input to the output."""
    parts = model.named_modules()
    lists = {name: part for name, part in parts if isinstance(part, nn.ModuleList)}
    return [
        f"{name}.{number}"
        for name, part in lists.items()
        if not any(name.startswith(f"{other}.") for other in lists)
        for number in range(len(part))
    ]


def _tables(model: nn.Module) -> set[str]:
    return {name for name, part in model.named_modules() if isinstance(part, nn.Embedding)}
