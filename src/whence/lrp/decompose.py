"""Walking a tape forwards with every value as a sum over the tokens it came from.

A part has one more dimension than its value, in front: the source token, and behind those a last source for
what comes out of biases. Attention weights, gates and deviations are taken as they are. What biases added is shared
out between the tokens where a value is next used in a way that is not linear, so that parts add up to values.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from whence.capture.attention.layer import wide
from whence.capture.tape.arguments import Slot
from whence.capture.tape.tape import Call, Step, Tape
from whence.kernels import row_tiles
from whence.lrp.attention import attention_of, per_query_head, widened
from whence.lrp.linear import bias_of, weights
from whence.lrp.node import Node
from whence.lrp.stabiliser import STABILISERS
from whence.lrp.tables import ACTIVATIONS, Table

# How biases are shared: by the size of their dot product or cosine with what each token says, by how much it says,
# equally between those that say anything, or not at all.
Bias = Literal["absdot", "abssim", "norm", "equal", "none"]

Parts = list[Tensor | None]
_Rule = Callable[["_Walk", Node, Parts], list[Tensor]]


@dataclass(frozen=True, eq=False)
class _Walk:
    bias: Bias
    sources: Tensor  # (tokens, batch): sources that are not padding

    def settled(self, parts: Tensor) -> Tensor:
        """Share what biases added so far, the last source, out between the others."""
        said, added = parts[:-1], parts[-1]
        if self.bias == "none" or not added.any():
            return parts
        weight = self._weights(said, added)
        # Where all weights are zero, by how much is said; where nothing is said, equally.
        if not (weight.sum(0) > 0).all():
            size = said.norm(dim=-1, keepdim=True)
            folded = size.shape[1] // self.sources.shape[1]  # places or heads folded into the batch
            everyone = self.sources.repeat_interleave(folded, dim=1)
            everyone = everyone.reshape(*everyone.shape, *[1] * (size.dim() - 2))
            for instead in (size, everyone.to(size).expand_as(size)):
                weight = torch.where(weight.sum(0, keepdim=True) > 0, weight, instead)
        shared = torch.addcmul(said, added[None], weight / weight.sum(0, keepdim=True))
        return torch.cat([shared, torch.zeros_like(parts[-1:])])

    def _weights(self, said: Tensor, added: Tensor) -> Tensor:
        dot: Tensor = torch.einsum("k...d,...d->k...", said, added).abs()[..., None]
        if self.bias == "absdot":
            return dot
        size: Tensor = said.norm(dim=-1, keepdim=True)
        if self.bias == "abssim":
            return torch.where(size > 0, dot / size, torch.zeros_like(size))
        return (size > 0).to(size) if self.bias == "equal" else size


def _linear(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Run a linear operation on each part; what it adds by itself goes to the last source."""
    step = node.step
    assert isinstance(step, Step)
    given = [part for part in parts if part is not None]

    def run(*live: Tensor) -> Any:
        rest = iter(live)
        return step.run(
            [x if part is None else next(rest) for x, part in zip(node.x, parts, strict=True)]
        )

    constants = _each(run(*(torch.zeros_like(part[0]) for part in given)))
    wholes = _each(torch.func.vmap(run)(*given))
    made = []
    for constant, whole in zip(constants, wholes, strict=True):
        if constant.any():
            whole = whole - constant
            whole[-1] += constant
        made.append(whole)
    return made


def _weighted(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Multiply with a matrix of weights; the bias goes to the last source."""
    (part,) = parts
    assert part is not None
    made = part @ weights(node)
    added = bias_of(node)
    if added is not None:
        made[-1] += added
    return [made]


def _sum(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Add two values that are settled, or a constant."""
    if sum(part is not None for part in parts) > 1:
        parts = [None if part is None else walk.settled(part) for part in parts]
    return _linear(walk, node, parts)


def _product(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Give both factors of a product half of it each; with one that is a constant it is linear."""
    if sum(part is not None for part in parts) < 2:
        return _linear(walk, node, parts)
    parts = [None if part is None else walk.settled(part) for part in parts]
    one, other = (
        _linear(walk, node, [part if place == i else None for i, part in enumerate(parts)])[0]
        for place in range(2)
    )
    return [(one + other) / 2]


def _slope(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Replace an activation by the line through zero that meets it at its input."""
    (part,), (x,), (y,) = parts, node.x, node.y
    assert part is not None
    return [walk.settled(part) * torch.where(x == 0, torch.zeros_like(x), y / x)]


def _layer_norm(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Centre and scale with the deviation of the whole value; the shift is a bias."""
    (part,), (x,) = parts, node.x
    assert part is not None
    normed = normalised(node, walk.settled(part), x)
    shift = node.constant(3, "bias")
    if shift is not None:
        normed[-1] += shift
    return [walk.settled(normed)]


def normalised(node: Node, parts: Tensor, value: Tensor) -> Tensor:
    """Apply a layer norm to parts, with the deviation of `value` and without the shift."""
    dims = tuple(range(-len(node.argument(1, "normalized_shape")), 0))
    eps = node.argument(4, "eps", 1e-5)
    deviation = torch.sqrt(value.var(dims, unbiased=False, keepdim=True) + eps)
    normed = (parts - parts.mean(dims, keepdim=True)) / deviation
    weight = node.constant(2, "weight")
    return normed if weight is None else normed * weight


def _attention(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Mix the values' parts by the attention weights."""
    slot = node.argument(2, "value")
    layer = widened(attention_of(node))
    values = parts[slot.index] if isinstance(slot, Slot) else None
    assert values is not None
    output = values.new_zeros(len(values), *node.y[0].shape)
    for rows in row_tiles(layer, node.x[0]):
        tile = layer.weights(rows).to(values.dtype)
        output[:, :, :, rows] = tile @ per_query_head(values, tile.shape[1])
    return [output]


def _fraction(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Divide the parts of what is divided by the whole of what it is divided by."""
    return _linear(walk, node, [*parts[:1], *(None for _ in parts[1:])])


def _constant(walk: _Walk, node: Node, parts: Parts) -> list[Tensor]:
    """Stand for an operation whose result is taken as it is: it is never called."""
    raise AssertionError(f"{node.step.name} is taken as it is")


DECOMPOSE: Table[_Rule] = Table(
    "decompose",
    "parts",
    {
        **dict.fromkeys(("linear", "addmm"), _weighted),
        **dict.fromkeys(("conv2d", "neg", "dropout"), _linear),
        **dict.fromkeys(("sum", "pick", "join", "move"), _linear),
        **dict.fromkeys(("add", "sub", "rsub"), _sum),
        **dict.fromkeys(("matmul", "einsum", "mul"), _product),
        **dict.fromkeys(("activation", "square", "rms_norm"), _slope),
        **dict.fromkeys(("softmax", "scale", "gate"), _constant),
        "div": _fraction,
        "layer_norm": _layer_norm,
        "attention": _attention,
    },
    {ACTIVATIONS: _slope},
    cut=_constant,
)


@torch.no_grad()
def decompose(
    tape: Tape, parts: dict[int, Tensor], wanted: int, *, real: Tensor, bias: Bias
) -> Tensor:
    """Carry parts forwards from where they are given to a value that is wanted; (sources, *value).

    `real` (batch, tokens) is false at padding. What is given needs no last source.
    """
    walk = _Walk(bias, real.T)
    rows = DECOMPOSE.rows(tape)
    made = {number: place for place, (one, _) in enumerate(rows) for number in one.outputs}
    last = {number: place for place, (one, _) in enumerate(rows) for number in one.inputs}
    first = min(made.get(number, -1) for number in parts) + 1
    needed = _needed(rows, wanted, parts)
    held = {n: torch.cat([part, torch.zeros_like(part[:1])]) for n, part in parts.items()}
    for place, (one, rule) in enumerate(rows[first:], first):
        if wanted in held:
            break
        given = [held.get(number) for number in one.inputs]
        counts = rule is not _constant and any(n in needed and n not in held for n in one.outputs)
        if counts and (not one.inputs or any(part is not None for part in given)):
            if rule is None:
                raise DECOMPOSE.no_rule(one)
            node = Node.at(tape, one, samples=len(real), stabiliser=STABILISERS["signed"])
            parts_made = zip(one.outputs, rule(walk, node, given), strict=True)
            held |= {number: part for number, part in parts_made if number is not None}
        for number in one.inputs:
            if last[number] == place:
                held.pop(number, None)
    return walk.settled(held[wanted])[:-1]


def _needed(
    rows: Sequence[tuple[Step | Call, _Rule | None]], wanted: int, given: Container[int]
) -> set[int]:
    """Return the values whose parts are to be made: not those of queries and keys, nor what they are given for."""
    needed = {wanted}
    for one, rule in reversed(rows):
        made = [number for number in one.outputs if number in needed and number not in given]
        if rule is not _constant and made:
            needed.update(_values_of(one) if rule is _attention else one.inputs)
    return needed


def _values_of(one: Step | Call) -> tuple[int, ...]:
    assert isinstance(one, Step)
    slot = one.args[2] if len(one.args) > 2 else one.kwargs.get("value")
    return (one.inputs[slot.index],) if isinstance(slot, Slot) else ()


def by_token(value: Tensor) -> Tensor:
    """Split (batch, tokens, features) into parts that are one token each, (sources, batch, tokens, features)."""
    return torch.diag_embed(wide(value).movedim(1, -1)).movedim(-1, 0).movedim(-1, 2)


def _each(result: Any) -> Sequence[Tensor]:
    return result if isinstance(result, list | tuple) else (result,)


"""The parts of one layer as they stand on the tape: attention, first sum, first norm, second sum, second norm."""

from dataclasses import dataclass

from whence.capture import Trace
from whence.capture.attention.layer import AttentionLayer
from whence.capture.tape.tape import Step, Tape
from whence.core.errors import BadMethod, NotCapturable
from whence.lrp.ops import operation

# Operations that leave a value what it is.
_SAME = ("move", "dropout")


@dataclass(frozen=True)
class Block:
    """Numbers of values on the tape. A norm is there only where the sum goes into it alone: after, not before."""

    tape: Tape
    hidden: int  # what goes in
    attention: int  # what the heads give
    sent: int  # what the heads give, through the output matrix
    mixed: int  # the same and the skip connection, added up
    norm: Step | None
    second: int | None  # the output of the second sum, where the feed-forward part joins
    second_norm: Step | None
    output: int  # what comes out of the block

    @property
    def mixed_normed(self) -> int:
        """The first sum after its norm, if it has one."""
        return self.mixed if self.norm is None else _made(self.norm)


def inlet(trace: Trace) -> tuple[Tape, int]:
    """Return the tape, and the number of the first layer's input on it."""
    if trace.tape is None:
        raise BadMethod("A method follows the forward pass without stating needs={'steps'}.")
    places = trace.layers[0].places
    if places is None or places.hidden is None:
        raise _shapeless("its first layer does not start from a value of its own")
    return trace.tape, places.hidden


def block(trace: Trace, layer: AttentionLayer) -> Block:
    """Find the parts of a layer by following what its attention gives; what is built otherwise is refused."""
    tape, _ = inlet(trace)
    places = layer.places
    if places is None or None in (places.hidden, places.out, places.block):
        raise _shapeless("its layers do not hand one value on")
    hidden, attention, output = places.hidden, places.out, places.block
    assert hidden is not None and attention is not None and output is not None
    first, made = _joint(tape, attention)
    if first is None or not set(first.inputs) - made <= _handed_on(tape, hidden):
        raise _shapeless("attention is not added to what went into the layer")
    order = [number for step in tape.steps for number in step.outputs]
    mixed = _made(first)
    if order.index(mixed) > order.index(output):
        raise _shapeless("its skip connection lies outside of the layer")
    (sent,) = made.intersection(first.inputs)
    norm = _norm_of(tape, mixed)
    second, _ = _joint(tape, mixed if norm is None else _made(norm), around=True)
    joined = None if second is None else _made(second)
    # A sum that is the block's output goes into a norm of the next block, or of the head: not of this one.
    second_norm = None if joined in (None, output) else _norm_of(tape, joined)
    return Block(tape, hidden, attention, sent, mixed, norm, joined, second_norm, output)


def _joint(tape: Tape, start: int, *, around: bool = False) -> tuple[Step | None, set[int]]:
    """Return the first sum in which something made from `start` meets something that is not, and all that is.

    With `around`, the other way about: in which something made from `start` meets `start` itself, handed around.
    """
    made, same = {start}, _handed_on(tape, start)
    for step in tape.steps:
        if not made.intersection(step.inputs):
            continue
        met = set(step.inputs)
        if operation(step) == "add" and len(met) == 2:
            if around and met & same and met & (made - same):
                return step, made
            if not around and met - made:
                return step, made
        made |= {number for number in step.outputs if number is not None}
    return None, made


def _handed_on(tape: Tape, number: int) -> set[int]:
    """Return the value itself under all its numbers: moved, copied, dropped out by nothing."""
    same = {number}
    for step in tape.steps:
        if step.inputs and set(step.inputs) <= same and operation(step) in _SAME:
            same |= {one for one in step.outputs if one is not None}
    return same


def _norm_of(tape: Tape, number: int | None) -> Step | None:
    """Return the layer norm that a value goes into and nowhere else."""
    while number is not None:
        users = [step for step in tape.steps if number in step.inputs]
        if len(users) == 1 and operation(users[0]) in _SAME and len(users[0].outputs) == 1:
            (number,) = users[0].outputs
            continue
        if len(users) == 1 and operation(users[0]) == "layer_norm":
            return users[0]
        within = [call for call in tape.calls if call.inputs == (number,) and "Norm" in call.kind]
        last = {one for call in within for one in range(call.first, call.last + 1)}
        if within and all(tape.steps.index(user) in last for user in users):
            raise _shapeless(f"{within[0].kind.rsplit('.', 1)[-1]} is not PyTorch's layer norm")
        return None
    return None


def _made(step: Step) -> int:
    (number,) = step.outputs
    assert number is not None
    return number


def _shapeless(why: str) -> NotCapturable:
    return NotCapturable(
        f"The parts of this model's layers cannot be told apart: {why}. Use a gradient method, like grad_x_input."
    )


"""Vectors that tokens send to each other within one layer, and what the layer gives without one of them."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from whence.capture.attention.layer import AttentionLayer, wide
from whence.capture.tape.tape import Step
from whence.core.errors import NotCapturable
from whence.lrp.attention import per_query_head
from whence.lrp.block import Block
from whence.lrp.decompose import DECOMPOSE, by_token, decompose, normalised
from whence.lrp.node import Node
from whence.lrp.stabiliser import STABILISERS

# How far vectors are followed: through the output matrix, then the skip connection and the norm after it, then the
# second skip connection and norm, past the feed-forward part.
To = Literal["sent", "mixed", "block"]

# Numbers held at a time while a block is run again without one token after another.
_AT_A_TIME = 1 << 24


@torch.no_grad()
def vectors(block: Block, layer: AttentionLayer, real: Tensor, to: To) -> Tensor:
    """Return what each token sends to each place, (sources, batch, places, features), without later biases."""
    tape, end = block.tape, block.sent if to == "sent" else block.mixed_normed
    given = {
        block.attention: wide(_terms(block, layer, slice(None))),
        block.hidden: by_token(tape.value(block.hidden)),
    }
    parts = decompose(tape, given, end, real=real, bias="none")
    if to == "block" and block.second is not None and block.second_norm is not None:
        value, signed = wide(tape.value(block.second)), STABILISERS["signed"]
        node = Node.at(tape, block.second_norm, samples=len(value), stabiliser=signed)
        # Some models (OPT) fold the tokens into the batch there.
        folded = parts.reshape(len(parts), *value.shape)
        parts = normalised(node, folded, value).reshape(parts.shape)
    return parts


@torch.no_grad()
def without_values(block: Block, layer: AttentionLayer) -> Iterator[Tensor]:
    """Yield, for each source, the block's output if its value vectors were zero: (batch, places, features).

    Attention stays as it is, so that the heads' output loses the one term that the token adds to it, and
    what comes after it is run again.
    """
    whole, steps = block.tape.value(block.attention), _between(block)

    def rerun(output: Tensor) -> Tensor:
        changed = {block.attention: output}
        for step in steps:
            result = step.run(
                [changed[n] if n in changed else block.tape.value(n) for n in step.inputs]
            )
            outputs = result if isinstance(result, list | tuple) else (result,)
            changed |= {
                n: one for n, one in zip(step.outputs, outputs, strict=True) if n is not None
            }
        return changed[block.output]

    # The feed-forward part is wider than the block's output.
    size = max(1, _AT_A_TIME // (8 * block.tape.value(block.output).numel()))
    for start in range(0, layer.v.shape[2], size):
        terms = _terms(block, layer, slice(start, start + size))
        yield from torch.func.vmap(rerun)(whole - terms)


@torch.no_grad()
def turned(block: Block, layer: AttentionLayer, real: Tensor) -> Tensor:
    """Return how far a layer's output turns without the values of each source, (batch, places, sources).

    1 - cos, as half the squared distance of unit vectors: that does not drown in rounding where they are close.
    """
    whole = _direction(block.tape.value(block.output))
    far = [(whole - _direction(one)).square().sum(-1) / 2 for one in without_values(block, layer)]
    return torch.stack(far, dim=-1) * real[:, None, :].to(whole)


def _direction(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(wide(vectors), dim=-1)


def _terms(block: Block, layer: AttentionLayer, sources: slice) -> Tensor:
    """Return what each source adds to the heads' output, A[i,j] v_j, as the model lays it out."""
    weights = layer.weights()[..., sources].movedim(-1, 0)[..., None]
    values = per_query_head(layer.v, layer.heads)[:, :, sources].movedim(2, 0)[:, :, :, None]
    return (weights * values).reshape(-1, *block.tape.value(block.attention).shape)


def _between(block: Block) -> list[Step]:
    """Return the steps that lead from the attention's output to the block's."""
    made, steps = {block.attention}, []
    started = False
    for step in block.tape.steps:
        if block.output in made:
            break
        started = started or block.attention in step.outputs
        if step.func is None and started:
            raise DECOMPOSE.no_rule(step)
        if not made.intersection(step.inputs):
            continue
        if None in step.outputs:
            # Places of the largest values, for instance: they would have to be chosen again.
            raise NotCapturable(
                f"{'.'.join(step.module)} chooses by value where tokens go ({step.name}), so that a layer cannot be "
                "run again from its middle. Use a gradient method, like grad_x_input, or leave_one_out."
            )
        steps.append(step)
        made |= {number for number in step.outputs if number is not None}
    return steps


def rolled_out(rows: Tensor, maps: list[Tensor], *, row_normalise: bool) -> Tensor:
    """Return rows · the product of the maps, last one first; a row of zeros stays where it is."""
    for one in reversed(maps):
        if row_normalise:
            total = one.sum(-1, keepdim=True)
            own = torch.eye(one.shape[-1], dtype=one.dtype, device=one.device).expand_as(one)
            one = torch.where(total > 0, one / total, own)
        rows = torch.einsum("bi,bij->bj", rows.to(one.dtype), one)
    return rows
