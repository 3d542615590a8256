"""The relevance of everything in a trace, by one table: walked once, shared by all readers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.capture import Trace
from whence.capture.layer import AttentionLayer
from whence.capture.lookups import Lookup, per_token, placement
from whence.capture.tape import Tape
from whence.core.errors import BadMethod, NotCapturable
from whence.data import Batch
from whence.lrp.rules import Rule
from whence.lrp.stabiliser import STABILISERS, Choice, Stabiliser
from whence.lrp.tables import RELEVANCE, Table
from whence.lrp.walk import Watch, walk


@dataclass(eq=False)
class Relevance:
    """What arrived where. Relevance of a value is what it carries, times the value for tables of quotients.

    It knows the parts of a trace, not the trace, which keeps it: a circle would be freed late.
    """

    tape: Tape
    batch: Batch
    lookups: list[Lookup]
    layers: list[AttentionLayer]  # none where the model is not one stack of them
    table: Table[Rule]
    stabiliser: Stabiliser
    arrived: dict[int, Tensor]
    seeded: Tensor  # (batch,): what was given to the logits in all

    def of(self, number: int | None) -> Tensor:
        """Return the relevance of a value on the tape; zero where none arrived."""
        assert number is not None
        value = self.tape.value(number)
        carried = self.arrived.get(number)
        if carried is None:
            return torch.zeros_like(value)
        return carried * value if self.table.carries == "quotient" else carried

    def of_layer_input(self, layer: AttentionLayer) -> Tensor:
        """Return the relevance of each token at the input of a layer, (batch, tokens)."""
        assert layer.places is not None
        return self.of(layer.places.hidden).sum(-1)

    def of_tokens(self) -> Tensor:
        """Return the relevance of each token's embedding, (batch, tokens)."""
        parts = [self.of(lookup.number).sum(-1) for lookup in self.lookups]
        return per_token(self.batch, self.lookups, parts)

    def quotient(self, layer: AttentionLayer) -> Tensor:
        """Return relevance over value at the attention's output, heads first: what a contraction needs."""
        assert layer.places is not None and layer.places.out is not None
        carried = self.arrived.get(layer.places.out)
        value = self.tape.value(layer.places.out)
        if carried is None:
            carried = torch.zeros_like(value)
        elif self.table.carries == "relevance":
            carried = self.stabiliser.divide(carried, value.to(carried.dtype))
        return layer.heads_first(carried)

    def conservation(self) -> dict[str, Tensor]:
        """Return, for each layer, how far the relevance at its input is from what was given to the logits."""
        return {
            f"conservation.layer{index}": self.of_layer_input(layer).sum(1) - self.seeded
            for index, layer in enumerate(self.layers)
        }


def relevance(trace: Trace, table: str, stabiliser: Choice) -> Relevance:
    """Walk the trace's tape by a table, or return what an earlier reader found with the same one."""
    key = (table, stabiliser)
    if key not in trace.memo:
        trace.memo[key] = walk_trace(trace, RELEVANCE[table], STABILISERS[stabiliser])
    found: Relevance = trace.memo[key]
    return found


def outlet(trace: Trace) -> int:
    """Return the number of the logits on the tape."""
    if trace.outlet is None:
        raise NotCapturable(
            "The logits do not come out of an operation that PyTorch shows, so that they cannot be followed back. "
            "Use attcat or another gradient method."
        )
    return trace.outlet


def walk_trace(
    trace: Trace, table: Table[Rule], stabiliser: Stabiliser, *, watch: Watch | None = None
) -> Relevance:
    """Give relevance to the target and walk the trace's tape back to the embeddings."""
    if trace.tape is None:
        raise BadMethod("A method reads relevance without stating needs={'relevance'}.")
    end = outlet(trace)
    if any(placement(trace.batch, lookup.ids) == "turned" for lookup in trace.lookups):
        raise NotCapturable(
            "The model does not keep its values as (inputs, tokens, features); relevance needs that. "
            "Use attcat or another gradient method."
        )
    leaves = [lookup.number for lookup in trace.lookups if lookup.number is not None]
    places = [layer.places for layer in trace.attention if layer.places is not None]
    inside = [number for place in places for number in (place.hidden, place.out)]
    seed = trace.targets.slope(trace.logits)
    # Stabilisers are absolute: what is given is brought to one, so that little is not taken for nothing.
    size = seed.abs().sum(1)
    size = torch.where(size > 0, size, torch.ones_like(size))
    arrived: dict[int, Tensor] = {}
    for part in _seeds(seed / size[:, None], table):
        found = walk(
            trace.tape,
            table,
            stabiliser,
            seeds={end: part},
            leaves=leaves,
            wanted=[*leaves, *(number for number in inside if number is not None)],
            watch=watch,
        )
        for number, one in found.items():
            arrived[number] = arrived[number] + one if number in arrived else one
    for number, one in arrived.items():
        each = size.to(one).repeat_interleave(len(one) // len(size))
        arrived[number] = one * each.reshape(-1, *[1] * (one.dim() - 1))
    return Relevance(
        trace.tape,
        trace.batch,
        trace.lookups,
        trace.attention if trace.refusal is None else [],
        table,
        stabiliser,
        arrived,
        (seed * trace.logits if table.carries == "quotient" else seed).sum(1),
    )


def _seeds(seed: Tensor, table: Table[Rule]) -> list[Tensor]:
    """Split what is given to the logits into what speaks for the target and what speaks against it.

    Relevance is normalised to its total on the way, and that of a contrast or a probability is zero: there would be
    nothing left. Quotients are a gradient, and need no such care.
    """
    parts = [seed.clamp(min=0), seed.clamp(max=0)]
    mixed = table.carries == "relevance" and all(part.any() for part in parts)
    return parts if mixed else [seed]
