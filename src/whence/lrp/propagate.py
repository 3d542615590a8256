"""The relevance of everything in a trace, by one table: walked once, shared by all readers."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from whence.capture import Trace
from whence.capture.anatomy.heads import slopes
from whence.capture.anatomy.lookups import Lookup, per_token, placements
from whence.capture.attention.layer import AttentionLayer
from whence.capture.tape.tape import Tape
from whence.core.errors import BadMethod, NotCapturable
from whence.data import Batch
from whence.lrp.attention import shared, shared_normalised, shared_unmasked
from whence.lrp.rules import Rule, with_positions
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
        parts = [self.of(lookup.number) for lookup in self.lookups]
        return per_token(self.batch, self.lookups, parts).sum(-1)

    def of_pixels(self) -> Tensor:
        """Return the relevance of each pixel of pictures, its colours added up, (batch, height, width)."""
        (lookup,) = self.lookups
        return self.of(lookup.number).sum(1)

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


def relevance(
    trace: Trace,
    table: str,
    stabiliser: Choice,
    *,
    positions: bool = False,
    unsigned: bool = False,
) -> Relevance:
    """Walk the trace's tape by a table, or return what an earlier reader found with the same one.

    `positions` lets what is added to tokens for their place take its share. `unsigned` gives what speaks against the
    target (the second class of a contrast) relevance of its own, not negative relevance: for methods that take the
    sign from the gradient, which would otherwise count twice and cancel.
    """
    # Where nothing speaks against the target, there is no sign to drop: both ways are one walk.
    unsigned = unsigned and any(bool((seed < 0).any()) for seed in outlets(trace).values())
    key = (table, stabiliser, positions, unsigned)
    if key not in trace.memo:
        rules = RELEVANCE[table]
        ops = dict(rules.ops)
        if positions:
            ops["add"] = with_positions(ops["add"])
        if trace.batch.pictures and ops["attention"] in (shared, shared_normalised):
            ops["attention"] = shared_unmasked
        rules = replace(rules, ops=ops)
        trace.memo[key] = walk_trace(trace, rules, STABILISERS[stabiliser], unsigned=unsigned)
    found: Relevance = trace.memo[key]
    return found


def outlets(trace: Trace) -> dict[int, Tensor]:
    """Return the model's outputs by their numbers on the tape, each with the slope of the target there."""
    found: dict[int, Tensor] = {}
    for name, slope in slopes(trace.heads, trace.batch, trace.targets).items():
        number = trace.heads[name].number
        if number is None:
            raise NotCapturable(
                "The logits do not come out of an operation that PyTorch shows, so that they cannot be followed "
                "back. Use grad_x_input, which follows no operation, or leave_one_out."
            )
        found[number] = slope
    return found


def walk_trace(
    trace: Trace,
    table: Table[Rule],
    stabiliser: Stabiliser,
    *,
    watch: Watch | None = None,
    unsigned: bool = False,
) -> Relevance:
    """Give relevance to the target and walk the trace's tape back to the embeddings."""
    if trace.tape is None:
        raise BadMethod("A method reads relevance without stating needs={'relevance'}.")
    ends = outlets(trace)
    if "turned" in placements(trace.batch, trace.lookups):
        raise NotCapturable(
            "The model does not keep its values as (inputs, tokens, features); relevance needs that. "
            "Use grad_x_input, which follows no operation, or leave_one_out."
        )
    leaves = [lookup.number for lookup in trace.lookups if lookup.number is not None]
    places = [layer.places for layer in trace.attention if layer.places is not None]
    inside = [number for place in places for number in (place.hidden, place.out)]
    # Stabilisers are absolute: what is given is brought to one, so that little is not taken for nothing.
    size = torch.stack([_whole(seed.abs()) for seed in ends.values()]).sum(0)
    size = torch.where(size > 0, size, torch.ones_like(size))
    given = {number: seed / _beside(size, seed) for number, seed in ends.items()}
    arrived: dict[int, Tensor] = {}
    for part in _seeds(given, table, unsigned):
        found = walk(
            trace.tape,
            table,
            stabiliser,
            seeds=part,
            leaves=leaves,
            wanted=[*leaves, *(number for number in inside if number is not None)],
            watch=watch,
        )
        for number, one in found.items():
            arrived[number] = arrived[number] + one if number in arrived else one
    each: dict[tuple[int, torch.dtype], Tensor] = {}
    for number, one in arrived.items():
        like = (len(one), one.dtype)
        if like not in each:
            each[like] = size.to(one).repeat_interleave(len(one) // len(size))
        arrived[number] = one * _beside(each[like], one)
    kept = table.carries == "quotient"
    given = {number: seed.abs() if unsigned else seed for number, seed in ends.items()}
    seeded = [
        _whole(seed * trace.tape.value(number) if kept else seed) for number, seed in given.items()
    ]
    return Relevance(
        trace.tape,
        trace.batch,
        trace.lookups,
        trace.attention if trace.refusal is None else [],
        table,
        stabiliser,
        arrived,
        torch.stack(seeded).sum(0),
    )


def _whole(values: Tensor) -> Tensor:
    """Return the sum over all that belongs to an input, (batch,)."""
    return values.flatten(1).sum(1)


def _beside(sizes: Tensor, values: Tensor) -> Tensor:
    """Return one number for each input in a shape to multiply its values with."""
    return sizes.reshape(-1, *[1] * (values.dim() - 1))


def _seeds(seeds: dict[int, Tensor], table: Table[Rule], unsigned: bool) -> list[dict[int, Tensor]]:
    """Split what is given to the logits into what speaks for the target and what speaks against it.

    Relevance is normalised to its total on the way, and that of a contrast or a probability is zero: there would be
    nothing left. Quotients are a gradient, and need no such care.
    """
    pro = {number: seed.clamp(min=0) for number, seed in seeds.items()}
    con = {number: seed.clamp(max=0) for number, seed in seeds.items()}
    con = {number: seed.abs() for number, seed in con.items()} if unsigned else con
    mixed = all(any(one.any() for one in part.values()) for part in (pro, con))
    return [pro, con] if table.carries == "relevance" and mixed else [seeds]


"""Walking a tape backwards by a table of rules."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from whence.capture.attention.layer import widened
from whence.capture.tape.tape import Call, Step, Tape
from whence.kernels.products import Lately
from whence.lrp.node import Carried, Node, Sparse
from whence.lrp.rules import Rule, slope
from whence.lrp.stabiliser import Stabiliser
from whence.lrp.tables import Table

Watch = Callable[[Node, Carried, Carried], None]
_Use = tuple[tuple[str, ...], Tensor]  # the module that used a value, and what it hands back


def _live(
    rows: list[tuple[Step | Call, Rule | None]], table: Table[Rule], leaves: Iterable[int]
) -> tuple[set[int | None], set[int | None]]:
    """Return the values that may take relevance, and those of them that came out of an activation."""
    live, gates = set[int | None](leaves), set[int | None]()
    for one, rule in rows:
        if rule is not table.cut and (not one.inputs or not live.isdisjoint(one.inputs)):
            live.update(one.outputs)
        if rule is slope:
            gates.update(one.outputs)
    return live, gates


@torch.no_grad()
def walk(
    tape: Tape,
    table: Table[Rule],
    stabiliser: Stabiliser,
    *,
    seeds: dict[int, Tensor],
    leaves: Iterable[int],
    wanted: Iterable[int],
    watch: Watch | None = None,
) -> dict[int, Tensor]:
    """Carry the seeds from the output to the leaves; return what arrives at the wanted values.

    `watch` is shown every node, with what its outputs carried and what was handed to its inputs.
    """
    rows = table.rows(tape)
    live, gates = _live(rows, table, leaves)
    wanted = set(wanted)
    samples = len(next(iter(seeds.values())))
    waiting: dict[int, list[_Use]] = {number: [((), seed)] for number, seed in seeds.items()}
    arrived: dict[int, Tensor] = {}
    sparse, lately = Sparse(), Lately()

    def take(number: int) -> Tensor | None:
        uses = waiting.pop(number, None)
        if uses is None:
            return None
        total = _joined(uses, 0, stabiliser, tape.value(number)) if len(uses) > 1 else uses[0][1]
        if number in wanted:
            arrived[number] = total
        return total

    for one, rule in reversed(rows):
        carried = [None if number is None else take(number) for number in one.outputs]
        if rule is table.cut or all(part is None for part in carried):
            continue
        if rule is None:
            raise table.no_rule(one)
        node = Node.at(
            tape,
            one,
            samples=samples,
            stabiliser=stabiliser,
            live=live,
            gates=gates,
            sparse=sparse,
            lately=lately,
        )
        handed = rule(node, carried)
        if watch is not None:
            watch(node, carried, handed)
        for number, value, part in zip(one.inputs, node.given, handed, strict=True):
            if part is not None and number in live:
                carries = widened(value.dtype)
                if part.dtype != carries:  # where the model casts its values
                    part = part.to(carries)
                waiting.setdefault(number, []).append((one.module, part))
    for number in list(waiting):
        take(number)
    return arrived


def _joined(uses: list[_Use], depth: int, stabiliser: Stabiliser, value: Tensor) -> Tensor:
    """Add up what several uses of one value hand back, module by module.

    A copy is made where the ways part: once inside a module for its own uses, and once more outside if there are
    others. With exact copies that is a plain sum; with the authors' epsilon the order of copies shows.
    """
    shortest = min([len(path) for path, _ in uses])
    first = uses[0][0]
    while depth < shortest and all(path[depth] == first[depth] for path, _ in uses):
        depth += 1
    groups: dict[str | int, list[_Use]] = {}
    for place, (path, part) in enumerate(uses):
        key: str | int = path[depth] if depth < len(path) else place
        groups.setdefault(key, []).append((path, part))
    parts = [
        _joined(group, depth + 1, stabiliser, value) if len(group) > 1 else group[0][1]
        for group in groups.values()
    ]
    return stabiliser.joined(parts, value)
