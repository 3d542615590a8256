"""Where tokens enter a model: looked up once, or twice in an encoder-decoder classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from whence.core.errors import NotCapturable
from whence.data import Batch


@dataclass(frozen=True, eq=False)
class Lookup:
    """One look-up of token ids in the table of embeddings."""

    ids: Tensor
    leaf: Tensor  # the embeddings, as a leaf of the graph
    number: int | None = None  # on the tape, if there is one


# How the ids of a look-up stand to those of the input: the same; tokens first, as in XLNet; or one place later,
# as in the decoder of an encoder-decoder classifier. A picture is not looked up: it is its own.
Placement = Literal["same", "turned", "later", "picture"]


def placement(batch: Batch, seen: Tensor) -> Placement:
    """Say how what was looked up stands to the input, or refuse what is neither."""
    ids, real = batch.inputs.get("input_ids"), batch.real
    if ids is None:
        return "picture"
    if torch.equal(seen, ids):
        return "same"
    if torch.equal(seen, ids.T):
        return "turned"
    same_shape = seen.shape == ids.shape
    if same_shape and torch.equal(seen[:, 1:][real[:, 1:]], ids[:, :-1][real[:, 1:]]):
        return "later"
    raise NotCapturable(
        "The token embeddings are looked up for tokens that are not those of the input. "
        "Use leave_one_out, which needs no embeddings."
    )


def own(batch: Batch, lookups: Sequence[Lookup]) -> Tensor:
    """Return the embeddings of the input's tokens, (batch, tokens, features)."""
    for lookup in lookups:
        place = placement(batch, lookup.ids)
        if place != "later":
            leaf = lookup.leaf.detach()
            return leaf.transpose(0, 1) if place == "turned" else leaf
    raise never()


def per_token(batch: Batch, lookups: Sequence[Lookup], parts: Sequence[Tensor | None]) -> Tensor:
    """Add up what belongs to each token over all the places where it enters; a part fits its look-up."""
    total: Tensor | None = None
    for lookup, part in zip(lookups, parts, strict=True):
        part = torch.zeros_like(lookup.leaf) if part is None else part
        place = placement(batch, lookup.ids)
        if place == "turned":
            part = part.transpose(0, 1)
        elif place == "later":
            part = torch.cat([part[:, 1:], torch.zeros_like(part[:, :1])], dim=1)
        total = part if total is None else total + part
    if total is None:
        raise never()
    return total


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
