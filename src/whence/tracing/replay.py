"""Replay of a batch from its attention on, with other weights in the rows that the prediction reads.

Values before the first replaced attention stay and are not computed again: in the models of Jain & Wallace
that leaves the decoder, in a Transformer the layers from there on. The tape of one forward pass gives the
dependencies; gradients flow back to the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.core.errors import NotCapturable
from whence.core.types import Task
from whence.data.batches import Batch
from whence.kernels.maps import multiply_by_head
from whence.tracing.attention_layer import AttentionLayer, ComputedAttention
from whence.tracing.sdpa import attend
from whence.tracing.tape import Slot, Tape, TapeStep, narrow_steps, narrow_values, run_steps
from whence.tracing.target import TargetSpec, check_finite
from whence.tracing.trace import Trace, run_traced


@dataclass(frozen=True, eq=False)
class ReadRows:
    """The rows of the maps that the prediction reads, padded by repeats of the last with share 0."""

    places: Tensor  # (batch, reads)
    shares: Tensor  # (batch, reads), adding up to 1

    @classmethod
    def of(cls, read: Tensor) -> "ReadRows":
        """Build read rows from the weights of all rows, (batch, rows), zero at rows that are not read."""
        most = int(read.ne(0).sum(1).max())
        shares, places = read.topk(most, dim=1)
        order = places.masked_fill(shares == 0, read.shape[1]).argsort(dim=1)
        shares, places = shares.gather(1, order), places.gather(1, order)
        last = places.gather(1, shares.ne(0).sum(1, keepdim=True) - 1)
        return cls(torch.where(shares > 0, places, last), shares)

    @property
    def is_read(self) -> Tensor:
        """Which entries are rows and not repeats, (batch, reads)."""
        return self.shares > 0

    @torch.no_grad()
    def weights(self, layer: AttentionLayer) -> Tensor:
        """Return a layer's weights in these rows, (batch, heads, reads, keys)."""
        places, where = self._find_unique_positions()
        weights = layer.weights(places)
        at = where[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3])
        return weights.gather(2, at).detach()

    @torch.no_grad()
    def reach(self, layer: AttentionLayer) -> Tensor:
        """Return which keys these rows may attend to, (batch, reads, keys); all for a stored map."""
        batch, reads = self.places.shape
        full = torch.ones(batch, reads, layer.v.shape[2], dtype=torch.bool, device=layer.v.device)
        if not isinstance(layer, ComputedAttention):
            return full
        places, where = self._find_unique_positions()
        additive = replace(layer, bias=None).additive(places)
        if additive is None:
            return full
        # A causal call without a mask has one mask for all inputs and heads, without their dimensions.
        additive = additive if additive.dim() == 4 else additive[None, None]
        visible = additive.gt(torch.finfo(additive.dtype).min / 2).any(1).expand(batch, -1, -1)
        if visible.shape[1] == 1:
            return visible.expand(-1, reads, -1)
        return visible.gather(1, where[:, :, None].expand(-1, -1, visible.shape[2]))

    def _find_unique_positions(self) -> tuple[Tensor, Tensor]:
        """Return the distinct positions, and the index of each row's position, (batch, reads)."""
        places: Tensor
        where: Tensor
        places, where = torch.unique(self.places, return_inverse=True)
        return places, where


@dataclass(frozen=True, eq=False)
class AttentionReplacement:
    """Replacement weights for one layer, for some inputs of the batch."""

    inputs: Tensor  # (some,): their numbers
    weights: Tensor  # (some, heads, reads, keys)


ReplayRun = Callable[[Mapping[int, AttentionReplacement]], Tensor]


class AttentionReplay:
    """A recorded batch that can be replayed with replaced attention, any number of times."""

    def __init__(self, model: Any, batch: Batch, layers: Sequence[int], task: Task) -> None:
        """Run and record the model; `layers`, counted from 0, are those whose attention is replaced."""
        trace = run_traced(model, batch, {"steps"}, TargetSpec("predicted", None, "logit"), task)
        assert trace.tape is not None and trace.outlet is not None
        read_layers = trace.read_layers
        self.logits = trace.logits  # (batch, labels)
        self.rows = ReadRows.of(trace.rows)
        self.own = {at: self.rows.weights(read_layers[at]) for at in layers}
        self.reach = {at: self.rows.reach(read_layers[at]) for at in layers}
        self._layers = {_find_output_number(read_layers[at]): read_layers[at] for at in layers}
        self._place = {at: _find_output_number(read_layers[at]) for at in layers}
        self._outlet = trace.outlet
        self._steps = _select_steps(trace, set(self._layers))
        # The recorded values that the steps need but do not compute.
        outputs = {number for step in self._steps for number in step.outputs}
        needed = {number for step in self._steps for number in step.inputs} - outputs
        self._constants = {number: trace.tape.value(number) for number in needed}
        # The inputs of the first replaced attention never change, so its recorded output is reused.
        self._outputs = {
            number: trace.tape.value(number)
            for step in self._steps
            for number in self._layers.keys() & set(step.outputs)
            if self._constants.keys() >= set(step.inputs)
        }
        for layer in self._layers.values():
            layer.let_go()
        self._short = self._build_narrow_run(trace.tape)

    def __call__(self, swaps: Mapping[int, AttentionReplacement]) -> Tensor:
        """Return the logits, (batch, labels), with the weights of some layers replaced."""
        by_place = {self._place[at]: swap for at, swap in swaps.items()}
        everywhere = all(len(swap.inputs) == len(self.logits) for swap in swaps.values())
        if self._short is not None and everywhere:
            return check_finite(self._short(by_place), "logits")
        return check_finite(
            self._run(self._steps, self._constants, by_place)[self._outlet], "logits"
        )

    def _run(
        self,
        steps: Sequence[TapeStep],
        known: Mapping[int, Tensor],
        swaps: Mapping[int, AttentionReplacement],
    ) -> dict[int, Tensor]:
        def run(step: TapeStep, inputs: list[Tensor]) -> Any:
            place = next((out for out in step.outputs if out in swaps), None)
            if place is None:
                return step.run(inputs)
            return self._replace_attention(step, inputs, place, swaps[place])

        return run_steps(steps, known, known.__getitem__, run)

    def _replace_attention(
        self, step: TapeStep, inputs: Sequence[Tensor], place: int, swap: AttentionReplacement
    ) -> Tensor:
        """Compute the attention output with replacement weights in the read rows of some inputs."""
        layer, rows, some = self._layers[place], self.rows, swap.inputs
        out: Tensor = self._outputs[place] if place in self._outputs else step.run(inputs)
        value = _find_attention_values(step, inputs, layer)
        value = value if len(some) == len(value) else value[some]
        outputs = multiply_by_head(swap.weights.to(value.dtype), value)
        by_token = layer.heads_first(out).transpose(1, 2).clone()
        mask = rows.is_read[some]
        owners = some[:, None].expand_as(mask)[mask]
        by_token[owners, rows.places[some][mask]] = outputs.transpose(1, 2)[mask].to(out.dtype)
        return by_token.transpose(1, 2).reshape(out.shape)

    def _build_narrow_run(self, tape: Tape) -> ReplayRun | None:
        """Return a run that finishes the layer for the read rows alone, or None if that is not exact.

        That is much less work than finishing it for all tokens.
        """
        if len(self._layers) != 1:
            return None
        ((place, layer),) = self._layers.items()
        block = None if layer.places is None else layer.places.block
        tokens, reads = layer.length, self.rows.places.shape[1]
        ends = [at for at, step in enumerate(self._steps) if block in step.outputs]
        if block is None or not ends or tokens <= reads or layer.v.dim() != 4:
            return None
        inside, outside = self._steps[1 : ends[0] + 1], self._steps[ends[0] + 1 :]
        inner = {number for step in self._steps[: ends[0] + 1] for number in step.outputs} - {block}
        if inner.intersection(number for step in outside for number in step.inputs):
            return None
        first, whole = self._steps[0], tape.value(block)
        short = narrow_steps(inside, tokens, reads)
        known = narrow_values(self._constants, self.rows.places, tokens)
        inputs = [self._constants[number] for number in first.inputs]

        def run(swaps: Mapping[int, AttentionReplacement]) -> Tensor:
            (swap,) = swaps.values()
            value = _find_attention_values(first, inputs, layer)
            rows = multiply_by_head(swap.weights.to(value.dtype), value)
            block_rows = self._run(short, {**known, place: rows.to(whole.dtype)}, {})[block]
            return self._run(
                outside, {**self._constants, block: self._insert_rows(whole, block_rows)}, {}
            )[self._outlet]

        return run if self._is_narrow_run_exact(run, place, layer) else None

    def _insert_rows(self, whole: Tensor, rows: Tensor) -> Tensor:
        """Insert the read rows into the values of all tokens, (batch, tokens, features)."""
        mask = self.rows.is_read
        owners = torch.arange(len(mask), device=mask.device)[:, None].expand_as(mask)[mask]
        result = whole.clone()
        result[owners, self.rows.places[mask]] = rows[mask]
        return result

    @torch.no_grad()
    def _is_narrow_run_exact(self, short: ReplayRun, place: int, layer: AttentionLayer) -> bool:
        """Return whether the narrow run agrees with the full one, on weights far from the model's own."""
        (own,) = self.own.values()
        weights = own.flip(-1) / own.flip(-1).sum(-1, keepdim=True).clamp(min=1e-6)
        swap = {place: AttentionReplacement(torch.arange(len(own), device=own.device), weights)}
        whole = self._run(self._steps, self._constants, swap)[self._outlet]
        try:
            result = short(swap)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return False  # a shape that did not change with the number of tokens
        # Above the rounding of float32, and far below the effect of a wrong row.
        bound = 1e-4 * float(whole.abs().max()) + 1e-7
        return result.shape == whole.shape and bool((result - whole).abs().max() <= bound)


def _find_output_number(layer: AttentionLayer) -> int:
    place = None if layer.places is None else layer.places.out
    if place is None:
        raise NotCapturable(
            "The output of the attention cannot be followed to the prediction, so nothing can be put in its place. "
            "Audit another model, or ask for the experiments that replace no attention: correlation."
        )
    return place


def _select_steps(trace: Trace, replaced: set[int]) -> list[TapeStep]:
    """Return the steps that lead from the replaced attention to the logits, in order."""
    assert trace.tape is not None
    live: set[int] = set()
    after: list[TapeStep] = []
    for step in trace.tape.steps:
        outputs = {number for number in step.outputs if number is not None}
        if outputs & replaced or live.intersection(step.inputs):
            after.append(step)
            live |= outputs
        elif live and step.func is None:
            raise NotCapturable(
                f"Something in {'.'.join(step.module) or 'the model'} after the attention is hidden from PyTorch: "
                "what follows from other attention cannot be told. Audit another model."
            )
    needed: set[int | None] = {trace.outlet}
    steps: list[TapeStep] = []
    for step in reversed(after):
        if needed.intersection(step.outputs) - {None}:
            steps.append(step)
            needed |= set(step.inputs)
    return steps[::-1]


def _find_attention_values(
    step: TapeStep, inputs: Sequence[Tensor], layer: AttentionLayer
) -> Tensor:
    """Return the values that are attended to, (batch, key heads, keys, width)."""
    place, name = (
        (2, "value") if step.func in (attend, F.scaled_dot_product_attention) else (1, "other")
    )
    slot = step.args[place] if len(step.args) > place else step.kwargs[name]
    value: Tensor = inputs[slot.index] if isinstance(slot, Slot) else slot
    return value.reshape(layer.v.shape)
