"""Contributions of tokens to values: decomposed along a tape or in a Transformer block, and by value zeroing.

A part has one more dimension than its value, in front: the source token, and behind those a last source for
biases. Attention weights, gates and deviations are taken as they are. The share of biases is divided
between the tokens where a value is next used in a way that is not linear, so that parts add up to values.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from whence.core.errors import BadMethod, NotCapturable
from whence.kernels.tiled import iterate_row_tiles
from whence.lrp.attention_rules import build_attention_layer, repeat_for_query_heads, widen_layer
from whence.lrp.linear import find_bias, find_wide_weight_matrix
from whence.lrp.node import STABILISERS, RuleNode, find_operation
from whence.lrp.tables import ACTIVATION_MODULES, RuleTable
from whence.tracing.attention_layer import AttentionLayer, widen
from whence.tracing.tape import ModuleCall, Slot, Tape, TapeStep, run_steps, to_sequence
from whence.tracing.trace import Trace

# Operations that do not change a value.
_IDENTITY_OPS = ("move", "dropout")


@dataclass(frozen=True)
class TransformerBlock:
    """The parts of one Transformer block, as numbers of values on the tape.

    `norm` is a layer norm after the sum (post-norm), not one before the attention (pre-norm).
    """

    tape: Tape
    hidden: int  # the input of the block
    attention: int  # the output of the heads
    sent: int  # the output of the heads after the output matrix
    mixed: int  # the sum of `sent` and the skip connection
    norm: TapeStep | None
    second: int | None  # the output of the second sum, where the feed-forward part joins
    second_norm: TapeStep | None
    output: int  # the output of the block

    @property
    def first_sum_output(self) -> int:
        """The number of the first sum, after its norm if it has one."""
        return self.mixed if self.norm is None else _find_output(self.norm)


def find_first_input(trace: Trace) -> tuple[Tape, int]:
    """Return the tape of a trace, and the number of the first layer's input on it."""
    if trace.tape is None:
        raise BadMethod("A method follows the forward pass without stating needs={'steps'}.")
    places = trace.layers[0].places
    if places is None or places.hidden is None:
        raise _build_block_error("its first layer does not start from a value of its own")
    return trace.tape, places.hidden


def find_transformer_block(trace: Trace, layer: AttentionLayer) -> TransformerBlock:
    """Find the parts of a layer by following its attention output; refuse any other structure."""
    tape, _ = find_first_input(trace)
    places = layer.places
    if places is None or None in (places.hidden, places.out, places.block):
        raise _build_block_error("its layers do not hand one value on")
    hidden, attention, output = places.hidden, places.out, places.block
    assert hidden is not None and attention is not None and output is not None
    first, derived = _find_residual_sum(tape, attention)
    if first is None or not set(first.inputs) - derived <= _find_aliases(tape, hidden):
        raise _build_block_error("attention is not added to what went into the layer")
    order = [number for step in tape.steps for number in step.outputs]
    mixed = _find_output(first)
    if order.index(mixed) > order.index(output):
        raise _build_block_error("its skip connection lies outside of the layer")
    (sent,) = derived.intersection(first.inputs)
    norm = _find_norm(tape, mixed)
    second, _ = _find_residual_sum(tape, mixed if norm is None else _find_output(norm), around=True)
    joined = None if second is None else _find_output(second)
    # If the second sum is the block's output, a norm after it belongs to the next block or the head.
    second_norm = None if joined in (None, output) else _find_norm(tape, joined)
    return TransformerBlock(tape, hidden, attention, sent, mixed, norm, joined, second_norm, output)


def _find_residual_sum(
    tape: Tape, start: int, *, around: bool = False
) -> tuple[TapeStep | None, set[int]]:
    """Return the first sum of a value derived from `start` and one that is not, and all derived values.

    With `around`, return the first sum of a value derived from `start` and `start` itself.
    """
    derived, same = {start}, _find_aliases(tape, start)
    for step in tape.steps:
        if not derived.intersection(step.inputs):
            continue
        inputs = set(step.inputs)
        if find_operation(step) == "add" and len(inputs) == 2:
            if around and inputs & same and inputs & (derived - same):
                return step, derived
            if not around and inputs - derived:
                return step, derived
        derived |= {number for number in step.outputs if number is not None}
    return None, derived


def _find_aliases(tape: Tape, number: int) -> set[int]:
    """Return all numbers of a value: its own, and those of its moves, copies and inactive dropout."""
    same = {number}
    for step in tape.steps:
        if step.inputs and set(step.inputs) <= same and find_operation(step) in _IDENTITY_OPS:
            same |= {output for output in step.outputs if output is not None}
    return same


def _find_norm(tape: Tape, number: int | None) -> TapeStep | None:
    """Return the layer norm that is the only user of a value; None if there is none."""
    while number is not None:
        users = [step for step in tape.steps if number in step.inputs]
        if (
            len(users) == 1
            and find_operation(users[0]) in _IDENTITY_OPS
            and len(users[0].outputs) == 1
        ):
            (number,) = users[0].outputs
            continue
        if len(users) == 1 and find_operation(users[0]) == "layer_norm":
            return users[0]
        within = [call for call in tape.calls if call.inputs == (number,) and "Norm" in call.kind]
        last = {index for call in within for index in range(call.first, call.last + 1)}
        if within and all(tape.steps.index(user) in last for user in users):
            raise _build_block_error(
                f"{within[0].kind.rsplit('.', 1)[-1]} is not PyTorch's layer norm"
            )
        return None
    return None


def _find_output(step: TapeStep) -> int:
    (number,) = step.outputs
    assert number is not None
    return number


def _build_block_error(why: str) -> NotCapturable:
    return NotCapturable(
        f"The parts of this model's layers cannot be told apart: {why}. Use a gradient method, like grad_x_input."
    )


# How biases are shared among the tokens' parts: by the absolute dot product or cosine with a part, by
# the norm of a part, equally among parts that are not zero, or not at all.
BiasSharing = Literal["absdot", "abssim", "norm", "equal", "none"]

TokenParts = list[Tensor | None]
_DecompositionRule = Callable[["_Decomposition", RuleNode, TokenParts], list[Tensor]]


@dataclass(frozen=True, eq=False)
class _Decomposition:
    bias: BiasSharing
    sources: Tensor  # (tokens, batch): sources that are not padding

    def share_out_bias(self, parts: Tensor) -> Tensor:
        """Distribute the bias part, the last source, among the other parts."""
        token_parts, bias_part = parts[:-1], parts[-1]
        if self.bias == "none" or not bias_part.any():
            return parts
        weight = self._compute_bias_weights(token_parts, bias_part)
        # If all weights are zero, share by the parts' norms; if these are zero, equally.
        if not (weight.sum(0) > 0).all():
            size = token_parts.norm(dim=-1, keepdim=True)
            folded = (
                size.shape[1] // self.sources.shape[1]
            )  # positions or heads folded into the batch
            sources = self.sources.repeat_interleave(folded, dim=1)
            sources = sources.reshape(*sources.shape, *[1] * (size.dim() - 2))
            for instead in (size, sources.to(size).expand_as(size)):
                weight = torch.where(weight.sum(0, keepdim=True) > 0, weight, instead)
        shared = torch.addcmul(token_parts, bias_part[None], weight / weight.sum(0, keepdim=True))
        return torch.cat([shared, torch.zeros_like(parts[-1:])])

    def _compute_bias_weights(self, token_parts: Tensor, bias_part: Tensor) -> Tensor:
        dot: Tensor = torch.einsum("k...d,...d->k...", token_parts, bias_part).abs()[..., None]
        if self.bias == "absdot":
            return dot
        size: Tensor = token_parts.norm(dim=-1, keepdim=True)
        if self.bias == "abssim":
            return torch.where(size > 0, dot / size, torch.zeros_like(size))
        return (size > 0).to(size) if self.bias == "equal" else size


def _apply_linear(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Run a linear operation on each part; the constant that it adds goes to the last source."""
    step = node.step
    assert isinstance(step, TapeStep)
    live_parts = [part for part in parts if part is not None]

    def run(*live: Tensor) -> Any:
        rest = iter(live)
        return step.run(
            [x if part is None else next(rest) for x, part in zip(node.x, parts, strict=True)]
        )

    constants = to_sequence(run(*(torch.zeros_like(part[0]) for part in live_parts)))
    wholes = to_sequence(torch.func.vmap(run)(*live_parts))
    results = []
    for constant, whole in zip(constants, wholes, strict=True):
        if constant.any():
            whole = whole - constant
            whole[-1] += constant
        results.append(whole)
    return results


def _apply_weight_matrix(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Multiply each part with a weight matrix; the bias goes to the last source."""
    (part,) = parts
    assert part is not None
    result = part @ find_wide_weight_matrix(node)
    bias = find_bias(node)
    if bias is not None:
        result[-1] += bias
    return [result]


def _apply_sum(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Add two values after their biases are distributed, or a value and a constant."""
    if sum(part is not None for part in parts) > 1:
        parts = [None if part is None else walk.share_out_bias(part) for part in parts]
    return _apply_linear(walk, node, parts)


def _apply_product(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Give each factor of a product half of it; a product with a constant is linear."""
    if sum(part is not None for part in parts) < 2:
        return _apply_linear(walk, node, parts)
    parts = [None if part is None else walk.share_out_bias(part) for part in parts]
    first, second = (
        _apply_linear(walk, node, [part if place == i else None for i, part in enumerate(parts)])[0]
        for place in range(2)
    )
    return [(first + second) / 2]


def _apply_secant(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Replace an activation by the line through zero and its value at the input."""
    (part,), (x,), (y,) = parts, node.x, node.y
    assert part is not None
    return [walk.share_out_bias(part) * torch.where(x == 0, torch.zeros_like(x), y / x)]


def _apply_layer_norm(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Centre and scale each part with the deviation of the whole value; the shift is a bias."""
    (part,), (x,) = parts, node.x
    assert part is not None
    normed = normalise_parts(node, walk.share_out_bias(part), x)
    shift = node.constant(3, "bias")
    if shift is not None:
        normed[-1] += shift
    return [walk.share_out_bias(normed)]


def normalise_parts(node: RuleNode, parts: Tensor, value: Tensor) -> Tensor:
    """Apply a layer norm to parts, with the deviation of `value` and without the shift."""
    dims = tuple(range(-len(node.argument(1, "normalized_shape")), 0))
    eps = node.argument(4, "eps", 1e-5)
    deviation = torch.sqrt(value.var(dims, unbiased=False, keepdim=True) + eps)
    normed = (parts - parts.mean(dims, keepdim=True)) / deviation
    weight = node.constant(2, "weight")
    return normed if weight is None else normed * weight


def _apply_attention(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Mix the values' parts by the attention weights."""
    slot = node.argument(2, "value")
    layer = widen_layer(build_attention_layer(node))
    values = parts[slot.index] if isinstance(slot, Slot) else None
    assert values is not None
    output = values.new_zeros(len(values), *node.y[0].shape)
    for rows in iterate_row_tiles(layer, node.x[0]):
        tile = layer.weights(rows).to(values.dtype)
        output[:, :, :, rows] = tile @ repeat_for_query_heads(values, tile.shape[1])
    return [output]


def _apply_division(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Divide the parts of the numerator by the whole denominator."""
    return _apply_linear(walk, node, [*parts[:1], *(None for _ in parts[1:])])


def _treat_as_constant(walk: _Decomposition, node: RuleNode, parts: TokenParts) -> list[Tensor]:
    """Mark an operation whose result counts as a constant; this function is never called."""
    raise AssertionError(f"{node.step.name} is taken as it is")


DECOMPOSE: RuleTable[_DecompositionRule] = RuleTable(
    "decompose",
    "parts",
    {
        **dict.fromkeys(("linear", "addmm"), _apply_weight_matrix),
        **dict.fromkeys(("conv2d", "neg", "dropout"), _apply_linear),
        **dict.fromkeys(("sum", "pick", "join", "move"), _apply_linear),
        **dict.fromkeys(("add", "sub", "rsub"), _apply_sum),
        **dict.fromkeys(("matmul", "einsum", "mul"), _apply_product),
        **dict.fromkeys(("activation", "square", "rms_norm"), _apply_secant),
        **dict.fromkeys(("softmax", "scale", "gate"), _treat_as_constant),
        "div": _apply_division,
        "layer_norm": _apply_layer_norm,
        "attention": _apply_attention,
    },
    {ACTIVATION_MODULES: _apply_secant},
    cut=_treat_as_constant,
)


@torch.no_grad()
def decompose(
    tape: Tape, parts: dict[int, Tensor], end: int, *, real: Tensor, bias: BiasSharing
) -> Tensor:
    """Return the parts of the value `end`, (sources, *value), computed forwards from `parts`.

    `real` (batch, tokens) is false at padding. `parts` need no last source for biases.
    """
    walk = _Decomposition(bias, real.T)
    rows = DECOMPOSE.rows(tape)
    producers = {number: place for place, (step, _) in enumerate(rows) for number in step.outputs}
    last = {number: place for place, (step, _) in enumerate(rows) for number in step.inputs}
    first = min(producers.get(number, -1) for number in parts) + 1
    needed = _find_needed_values(rows, end, parts)
    held = {n: torch.cat([part, torch.zeros_like(part[:1])]) for n, part in parts.items()}
    for place, (step, rule) in enumerate(rows[first:], first):
        if end in held:
            break
        input_parts = [held.get(number) for number in step.inputs]
        counts = rule is not _treat_as_constant and any(
            n in needed and n not in held for n in step.outputs
        )
        if counts and (not step.inputs or any(part is not None for part in input_parts)):
            if rule is None:
                raise DECOMPOSE.build_no_rule_error(step)
            node = RuleNode.at(tape, step, samples=len(real), stabiliser=STABILISERS["signed"])
            parts_made = zip(step.outputs, rule(walk, node, input_parts), strict=True)
            held |= {number: part for number, part in parts_made if number is not None}
        for number in step.inputs:
            if last[number] == place:
                held.pop(number, None)
    return walk.share_out_bias(held[end])[:-1]


def _find_needed_values(
    rows: Sequence[tuple[TapeStep | ModuleCall, _DecompositionRule | None]],
    end: int,
    known: Container[int],
) -> set[int]:
    """Return the values whose parts must be computed: not the known ones, nor queries and keys."""
    needed = {end}
    for step, rule in reversed(rows):
        outputs = [number for number in step.outputs if number in needed and number not in known]
        if rule is not _treat_as_constant and outputs:
            needed.update(_find_value_inputs(step) if rule is _apply_attention else step.inputs)
    return needed


def _find_value_inputs(step: TapeStep | ModuleCall) -> tuple[int, ...]:
    assert isinstance(step, TapeStep)
    slot = step.args[2] if len(step.args) > 2 else step.kwargs.get("value")
    return (step.inputs[slot.index],) if isinstance(slot, Slot) else ()


def split_by_token(value: Tensor) -> Tensor:
    """Split (batch, tokens, features) into one part per token, (sources, batch, tokens, features)."""
    return torch.diag_embed(widen(value).movedim(1, -1)).movedim(-1, 0).movedim(-1, 2)


# Where vectors end: after the output matrix; after the first skip connection and its norm; after the
# second skip connection and its norm, without the feed-forward part.
VectorEnd = Literal["sent", "mixed", "block"]

# Elements in memory at a time while a block is run again without each token's values.
_MAX_NUMBERS = 1 << 24


@torch.no_grad()
def compute_token_vectors(
    block: TransformerBlock, layer: AttentionLayer, real: Tensor, to: VectorEnd
) -> Tensor:
    """Return the vector that each token sends to each position, (sources, batch, tokens, features).

    Biases after the attention are left out.
    """
    tape, end = block.tape, block.sent if to == "sent" else block.first_sum_output
    starts = {
        block.attention: widen(_compute_attention_terms(block, layer, slice(None))),
        block.hidden: split_by_token(tape.value(block.hidden)),
    }
    parts = decompose(tape, starts, end, real=real, bias="none")
    if to == "block" and block.second is not None and block.second_norm is not None:
        value, signed = widen(tape.value(block.second)), STABILISERS["signed"]
        node = RuleNode.at(tape, block.second_norm, samples=len(value), stabiliser=signed)
        # Some models (OPT) fold the tokens into the batch there.
        folded = parts.reshape(len(parts), *value.shape)
        parts = normalise_parts(node, folded, value).reshape(parts.shape)
    return parts


@torch.no_grad()
def iterate_value_zeroed_outputs(
    block: TransformerBlock, layer: AttentionLayer
) -> Iterator[Tensor]:
    """Yield, for each source, the block's output with its value vectors zero, (batch, tokens, features).

    Attention weights stay as they are, so the heads' output loses the one term of that token, and the
    steps after it are run again.
    """
    whole, steps = block.tape.value(block.attention), _select_steps_after_attention(block)

    def rerun(output: Tensor) -> Tensor:
        return run_steps(steps, {block.attention: output}, block.tape.value)[block.output]

    # The feed-forward part is wider than the block's output.
    size = max(1, _MAX_NUMBERS // (8 * block.tape.value(block.output).numel()))
    for start in range(0, layer.v.shape[2], size):
        terms = _compute_attention_terms(block, layer, slice(start, start + size))
        yield from torch.func.vmap(rerun)(whole - terms)


@torch.no_grad()
def compute_value_zeroing(block: TransformerBlock, layer: AttentionLayer, real: Tensor) -> Tensor:
    """Return 1 - cos of a layer's output with and without each source's values.

    The result is (batch, tokens, sources). 1 - cos is computed as half the squared distance of unit
    vectors, which keeps its digits where the vectors are close.
    """
    whole = _normalise_vectors(block.tape.value(block.output))
    distances = [
        (whole - _normalise_vectors(output)).square().sum(-1) / 2
        for output in iterate_value_zeroed_outputs(block, layer)
    ]
    return torch.stack(distances, dim=-1) * real[:, None, :].to(whole)


def _normalise_vectors(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(widen(vectors), dim=-1)


def _compute_attention_terms(
    block: TransformerBlock, layer: AttentionLayer, sources: slice
) -> Tensor:
    """Return each source's term of the heads' output, A[i,j] v_j, in the model's own shape."""
    weights = layer.weights()[..., sources].movedim(-1, 0)[..., None]
    values = repeat_for_query_heads(layer.v, layer.heads)[:, :, sources].movedim(2, 0)[
        :, :, :, None
    ]
    return (weights * values).reshape(-1, *block.tape.value(block.attention).shape)


def _select_steps_after_attention(block: TransformerBlock) -> list[TapeStep]:
    """Return the steps that lead from the attention's output to the block's."""
    derived, steps = {block.attention}, []
    started = False
    for step in block.tape.steps:
        if block.output in derived:
            break
        started = started or block.attention in step.outputs
        if step.func is None and started:
            raise DECOMPOSE.build_no_rule_error(step)
        if not derived.intersection(step.inputs):
            continue
        if None in step.outputs:
            # Indices, of the largest values for instance, would have to be computed again.
            raise NotCapturable(
                f"{'.'.join(step.module)} chooses by value where tokens go ({step.name}), so that a layer cannot be "
                "run again from its middle. Use a gradient method, like grad_x_input, or leave_one_out."
            )
        steps.append(step)
        derived |= {number for number in step.outputs if number is not None}
    return steps


def roll_out(rows: Tensor, maps: list[Tensor], *, row_normalise: bool) -> Tensor:
    """Return rows times the product of the maps, last map first; a zero row of a map is the identity."""
    for one in reversed(maps):
        if row_normalise:
            total = one.sum(-1, keepdim=True)
            own = torch.eye(one.shape[-1], dtype=one.dtype, device=one.device).expand_as(one)
            one = torch.where(total > 0, one / total, own)
        rows = torch.einsum("bi,bij->bj", rows.to(one.dtype), one)
    return rows
