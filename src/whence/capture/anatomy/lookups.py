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
