"""Where tokens enter a model: looked up once, or twice in an encoder-decoder classifier."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def own(batch: Batch, lookups: Sequence[Lookup]) -> Tensor:
    """Return the embeddings of the input's tokens, (batch, tokens, features)."""
    ids = batch.inputs.get("input_ids")
    for lookup in lookups:
        if ids is None:  # pixels: what is looked up is the picture itself
            return lookup.leaf.detach()
        seen, leaf = _tokens_second(lookup.ids, lookup.leaf, ids)
        if seen.shape == ids.shape and torch.equal(seen, ids):
            return leaf.detach()
    raise NotCapturable(
        "The model never looked its input up in get_input_embeddings(). Use leave_one_out."
    )


def per_token(batch: Batch, lookups: Sequence[Lookup], parts: Sequence[Tensor | None]) -> Tensor:
    """Add up what belongs to each token over all the places where it enters; a part fits its look-up.

    An encoder-decoder classifier reads its input twice: in the encoder, and one place later in the decoder.
    """
    ids, real = batch.inputs.get("input_ids"), batch.real
    total: Tensor | None = None
    for lookup, part in zip(lookups, parts, strict=True):
        part = torch.zeros_like(lookup.leaf) if part is None else part
        if ids is None:
            return part
        seen, part = _tokens_second(lookup.ids, part, ids)
        if seen.shape != ids.shape:
            raise _foreign()
        if not torch.equal(seen, ids):
            if not torch.equal(seen[:, 1:][real[:, 1:]], ids[:, :-1][real[:, 1:]]):
                raise _foreign()
            part = torch.cat([part[:, 1:], torch.zeros_like(part[:, :1])], dim=1)
        total = part if total is None else total + part
    if total is None:
        raise _foreign()
    return total


def _tokens_second(seen: Tensor, part: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    if seen.shape != ids.shape and seen.shape == ids.T.shape:  # XLNet puts the tokens first
        return seen.T, part.transpose(0, 1)
    return seen, part


def _foreign() -> NotCapturable:
    return NotCapturable(
        "The token embeddings are looked up for tokens that are not those of the input. "
        "Use leave_one_out, which needs no embeddings."
    )
