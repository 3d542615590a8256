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
