"""Propagation of relevance backwards along a tape by a rule table, its output seeds, and `Relevance` of values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from whence.core.errors import BadMethod, NotCapturable
from whence.data.batches import Batch
from whence.kernels.share import LastSplitInput
from whence.lrp.attention_rules import (
    attention_normalised_rule,
    attention_rule,
    attention_unmasked_rule,
)
from whence.lrp.node import (
    STABILISERS,
    CarriedValues,
    RuleNode,
    SparseRows,
    Stabiliser,
    StabiliserName,
)
from whence.lrp.rules import Rule, activation_gradient_rule, with_position_share
from whence.lrp.tables import RELEVANCE_TABLES, RuleTable
from whence.tracing.attention_layer import AttentionLayer, widen_dtype
from whence.tracing.structure import (
    EmbeddingLookup,
    compute_output_gradients,
    find_placements,
    sum_per_token,
)
from whence.tracing.tape import ModuleCall, Tape, TapeStep
from whence.tracing.trace import Trace

NodeObserver = Callable[[RuleNode, CarriedValues, CarriedValues], None]
_ValueUse = tuple[tuple[str, ...], Tensor]  # the module that used a value, and its carried value


def _find_live_values(
    rows: list[tuple[TapeStep | ModuleCall, Rule | None]],
    table: RuleTable[Rule],
    leaves: Iterable[int],
) -> tuple[set[int | None], set[int | None]]:
    """Return the values that may take relevance, and those of them that are outputs of activations."""
    live, gates = set[int | None](leaves), set[int | None]()
    for step, rule in rows:
        if rule is not table.cut and (not step.inputs or not live.isdisjoint(step.inputs)):
            live.update(step.outputs)
        if rule is activation_gradient_rule:
            gates.update(step.outputs)
    return live, gates


@torch.no_grad()
def propagate_tape(
    tape: Tape,
    table: RuleTable[Rule],
    stabiliser: Stabiliser,
    *,
    seeds: dict[int, Tensor],
    leaves: Iterable[int],
    requested: Iterable[int],
    watch: NodeObserver | None = None,
) -> dict[int, Tensor]:
    """Propagate seeds from the output to the leaves; return the carried values at `requested`.

    `watch` is called for every node, with the carried values of its outputs and of its inputs.
    """
    rows = table.rows(tape)
    live, gates = _find_live_values(rows, table, leaves)
    requested = set(requested)
    samples = len(next(iter(seeds.values())))
    waiting: dict[int, list[_ValueUse]] = {number: [((), seed)] for number, seed in seeds.items()}
    arrived: dict[int, Tensor] = {}
    sparse, lately = SparseRows(), LastSplitInput()

    def take(number: int) -> Tensor | None:
        uses = waiting.pop(number, None)
        if uses is None:
            return None
        total = _join_uses(uses, 0, stabiliser, tape.value(number)) if len(uses) > 1 else uses[0][1]
        if number in requested:
            arrived[number] = total
        return total

    for step, rule in reversed(rows):
        carried = [None if number is None else take(number) for number in step.outputs]
        if rule is table.cut or all(part is None for part in carried):
            continue
        if rule is None:
            raise table.build_no_rule_error(step)
        node = RuleNode.at(
            tape, step, samples=samples, stabiliser=stabiliser, live=live, gates=gates
        )
        node.sparse, node.lately = sparse, lately
        input_values = rule(node, carried)
        if watch is not None:
            watch(node, carried, input_values)
        for number, value, part in zip(step.inputs, node.given, input_values, strict=True):
            if part is not None and number in live:
                carries = widen_dtype(value.dtype)
                if part.dtype != carries:  # the model casts its values here
                    part = part.to(carries)
                waiting.setdefault(number, []).append((step.module, part))
    for number in list(waiting):
        take(number)
    return arrived


def _join_uses(uses: list[_ValueUse], depth: int, stabiliser: Stabiliser, value: Tensor) -> Tensor:
    """Add up the carried values of several uses of one value, module by module.

    A copy is made for the uses inside a module, and one more outside if there are others. With exact
    copies the result is a plain sum; with the authors' epsilon the nesting of copies makes a
    difference.
    """
    shortest = min([len(path) for path, _ in uses])
    first = uses[0][0]
    while depth < shortest and all(path[depth] == first[depth] for path, _ in uses):
        depth += 1
    groups: dict[str | int, list[_ValueUse]] = {}
    for place, (path, part) in enumerate(uses):
        key: str | int = path[depth] if depth < len(path) else place
        groups.setdefault(key, []).append((path, part))
    parts = [
        _join_uses(group, depth + 1, stabiliser, value) if len(group) > 1 else group[0][1]
        for group in groups.values()
    ]
    return stabiliser.joined(parts, value)


@dataclass(eq=False)
class Relevance:
    """The relevance of values on a tape: the carried value, times the value for quotient tables.

    It refers to the parts of a trace, not to the trace, which holds it: a cycle would be freed late.
    """

    tape: Tape
    batch: Batch
    lookups: list[EmbeddingLookup]
    layers: list[AttentionLayer]  # empty where the model is not one stack of layers
    table: RuleTable[Rule]
    stabiliser: Stabiliser
    arrived: dict[int, Tensor]
    seeded: Tensor  # (batch,): the total relevance given to the logits

    def of(self, number: int | None) -> Tensor:
        """Return the relevance of a value on the tape; zeros if none arrived."""
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
        return sum_per_token(self.batch, self.lookups, parts).sum(-1)

    def of_pixels(self) -> Tensor:
        """Return the relevance of each pixel, summed over channels, (batch, height, width)."""
        (lookup,) = self.lookups
        return self.of(lookup.number).sum(1)

    def quotient(self, layer: AttentionLayer) -> Tensor:
        """Return relevance over value at the attention's output, heads first, as contractions need it."""
        assert layer.places is not None and layer.places.out is not None
        carried = self.arrived.get(layer.places.out)
        value = self.tape.value(layer.places.out)
        if carried is None:
            carried = torch.zeros_like(value)
        elif self.table.carries == "relevance":
            carried = self.stabiliser.divide(carried, value.to(carried.dtype))
        return layer.heads_first(carried)

    def conservation(self) -> dict[str, Tensor]:
        """Return, for each layer, the relevance at its input minus the relevance given to the logits."""
        return {
            f"conservation.layer{index}": self.of_layer_input(layer).sum(1) - self.seeded
            for index, layer in enumerate(self.layers)
        }


def compute_relevance(
    trace: Trace,
    table: str,
    stabiliser: StabiliserName,
    *,
    positions: bool = False,
    unsigned: bool = False,
) -> Relevance:
    """Return the relevance of a trace by a table, computed once for all methods with the same one.

    `positions` lets position embeddings take their share. `unsigned` gives evidence against the
    target (the second class of a contrast) positive relevance: for methods that take the sign from
    the gradient, which would otherwise count twice and cancel.
    """
    # Without a negative seed `unsigned` makes no difference, so both cases share one propagation.
    unsigned = unsigned and any(
        bool((seed < 0).any()) for seed in find_output_seeds(trace).values()
    )
    key = (table, stabiliser, positions, unsigned)
    if key not in trace.memo:
        rules = RELEVANCE_TABLES[table]
        ops = dict(rules.ops)
        if positions:
            ops["add"] = with_position_share(ops["add"])
        if trace.batch.has_images and ops["attention"] in (
            attention_rule,
            attention_normalised_rule,
        ):
            ops["attention"] = attention_unmasked_rule
        rules = replace(rules, ops=ops)
        trace.memo[key] = propagate_trace(trace, rules, STABILISERS[stabiliser], unsigned=unsigned)
    relevance: Relevance = trace.memo[key]
    return relevance


def find_output_seeds(trace: Trace) -> dict[int, Tensor]:
    """Return the gradient of the target at each of the model's outputs, by number on the tape."""
    seeds: dict[int, Tensor] = {}
    for name, slope in compute_output_gradients(trace.heads, trace.batch, trace.targets).items():
        number = trace.heads[name].number
        if number is None:
            raise NotCapturable(
                "The logits do not come out of an operation that PyTorch shows, so that they cannot be followed "
                "back. Use grad_x_input, which follows no operation, or leave_one_out."
            )
        seeds[number] = slope
    return seeds


def propagate_trace(
    trace: Trace,
    table: RuleTable[Rule],
    stabiliser: Stabiliser,
    *,
    watch: NodeObserver | None = None,
    unsigned: bool = False,
) -> Relevance:
    """Give relevance to the target and propagate it along the trace's tape to the embeddings."""
    if trace.tape is None:
        raise BadMethod("A method reads relevance without stating needs={'relevance'}.")
    ends = find_output_seeds(trace)
    if "turned" in find_placements(trace.batch, trace.lookups):
        raise NotCapturable(
            "The model does not keep its values as (inputs, tokens, features); relevance needs that. "
            "Use grad_x_input, which follows no operation, or leave_one_out."
        )
    leaves = [lookup.number for lookup in trace.lookups if lookup.number is not None]
    places = [layer.places for layer in trace.attention if layer.places is not None]
    inside = [number for place in places for number in (place.hidden, place.out)]
    # Stabilisers are absolute: seeds are scaled to 1, so that small ones do not drown in epsilon.
    size = torch.stack([_sum_per_input(seed.abs()) for seed in ends.values()]).sum(0)
    size = torch.where(size > 0, size, torch.ones_like(size))
    seeds = {number: seed / _broadcast_per_input(size, seed) for number, seed in ends.items()}
    arrived: dict[int, Tensor] = {}
    for part in _split_seeds_by_sign(seeds, table, unsigned):
        carried = propagate_tape(
            trace.tape,
            table,
            stabiliser,
            seeds=part,
            leaves=leaves,
            requested=[*leaves, *(number for number in inside if number is not None)],
            watch=watch,
        )
        for number, value in carried.items():
            arrived[number] = arrived[number] + value if number in arrived else value
    factors: dict[tuple[int, torch.dtype], Tensor] = {}
    for number, value in arrived.items():
        like = (len(value), value.dtype)
        if like not in factors:
            factors[like] = size.to(value).repeat_interleave(len(value) // len(size))
        arrived[number] = value * _broadcast_per_input(factors[like], value)
    is_quotient = table.carries == "quotient"
    seeds = {number: seed.abs() if unsigned else seed for number, seed in ends.items()}
    seeded = [
        _sum_per_input(seed * trace.tape.value(number) if is_quotient else seed)
        for number, seed in seeds.items()
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


def _sum_per_input(values: Tensor) -> Tensor:
    """Return the sum of the values of each input, (batch,)."""
    return values.flatten(1).sum(1)


def _broadcast_per_input(sizes: Tensor, values: Tensor) -> Tensor:
    """Return one number for each input, in a shape that broadcasts with its values."""
    return sizes.reshape(-1, *[1] * (values.dim() - 1))


def _split_seeds_by_sign(
    seeds: dict[int, Tensor], table: RuleTable[Rule], unsigned: bool
) -> list[dict[int, Tensor]]:
    """Split the seeds into evidence for the target and evidence against it.

    Rules normalise relevance to its total, and the total of a contrast or a probability is zero:
    nothing would be left. Quotients are a gradient, and are not split.
    """
    pro = {number: seed.clamp(min=0) for number, seed in seeds.items()}
    con = {number: seed.clamp(max=0) for number, seed in seeds.items()}
    con = {number: seed.abs() for number, seed in con.items()} if unsigned else con
    mixed = all(any(seed.any() for seed in part.values()) for part in (pro, con))
    return [pro, con] if table.carries == "relevance" and mixed else [seeds]
