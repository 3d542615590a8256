"""A batch run once, and then again from its attention on, with other weights in the rows that the prediction reads.

Everything before the first attention that is replaced stays what it was and is not computed again: of the models of
Jain & Wallace that leaves the decoder, of a Transformer the layers from there on. The tape of one forward pass says
what follows from what; gradients flow back to the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.capture.attention.layer import AttentionLayer, Computed, by_head
from whence.capture.attention.seam import attend
from whence.capture.tape.arguments import Slot
from whence.capture.tape.narrow import narrow_values, narrowed
from whence.capture.tape.tape import Step, Tape
from whence.capture.target import TargetSpec, finite
from whence.capture.trace import Trace
from whence.capture.tracing import trace
from whence.core.errors import NotCapturable
from whence.core.types import Task
from whence.data import Batch


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of the maps that the prediction reads; an input that has fewer repeats its last one, with no share."""

    places: Tensor  # (batch, reads)
    shares: Tensor  # (batch, reads), adding up to 1

    @classmethod
    def of(cls, read: Tensor) -> "Rows":
        """Take the weights of all rows, (batch, rows), zero where none is read."""
        most = int(read.ne(0).sum(1).max())
        shares, places = read.topk(most, dim=1)
        order = places.masked_fill(shares == 0, read.shape[1]).argsort(dim=1)
        shares, places = shares.gather(1, order), places.gather(1, order)
        last = places.gather(1, shares.ne(0).sum(1, keepdim=True) - 1)
        return cls(torch.where(shares > 0, places, last), shares)

    @property
    def are_read(self) -> Tensor:
        """Which are rows, and not repetitions, (batch, reads)."""
        return self.shares > 0

    @torch.no_grad()
    def weights(self, layer: AttentionLayer) -> Tensor:
        """Return a layer's weights in these rows, (batch, heads, reads, keys)."""
        places, where = self._different()
        weights = layer.weights(places)
        at = where[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3])
        return weights.gather(2, at).detach()

    @torch.no_grad()
    def reach(self, layer: AttentionLayer) -> Tensor:
        """Say which keys these rows may attend to, (batch, reads, keys); of a stored map nobody knows."""
        batch, reads = self.places.shape
        free = torch.ones(batch, reads, layer.v.shape[2], dtype=torch.bool, device=layer.v.device)
        if not isinstance(layer, Computed):
            return free
        places, where = self._different()
        additive = replace(layer, bias=None).additive(places)
        if additive is None:
            return free
        # Of a causal call without a mask it is the same for all inputs and heads, and has no room for them.
        additive = additive if additive.dim() == 4 else additive[None, None]
        seen = additive.gt(torch.finfo(additive.dtype).min / 2).any(1).expand(batch, -1, -1)
        if seen.shape[1] == 1:
            return seen.expand(-1, reads, -1)
        return seen.gather(1, where[:, :, None].expand(-1, -1, seen.shape[2]))

    def _different(self) -> tuple[Tensor, Tensor]:
        """Return the different places, and where among them each one is, (batch, reads)."""
        places: Tensor
        where: Tensor
        places, where = torch.unique(self.places, return_inverse=True)
        return places, where


@dataclass(frozen=True, eq=False)
class Swap:
    """Weights for one layer, in some inputs of the batch."""

    inputs: Tensor  # (some,): their numbers
    weights: Tensor  # (some, heads, reads, keys)


Course = Callable[[Mapping[int, Swap]], Tensor]


class Replay:
    """One batch whose attention can be replaced, again and again."""

    def __init__(self, model: Any, batch: Batch, layers: Sequence[int], task: Task) -> None:
        """Run the model; `layers` are those whose attention will be replaced, counted from 0."""
        seen = trace(model, batch, {"steps"}, TargetSpec("predicted", None, "logit"), task)
        assert seen.tape is not None and seen.outlet is not None
        every = seen.read_layers
        self.logits = seen.logits  # (batch, labels)
        self.rows = Rows.of(seen.rows)
        self.own = {at: self.rows.weights(every[at]) for at in layers}
        self.reach = {at: self.rows.reach(every[at]) for at in layers}
        self._layers = {_place(every[at]): every[at] for at in layers}
        self._place = {at: _place(every[at]) for at in layers}
        self._outlet = seen.outlet
        self._steps = _steps(seen, set(self._layers))
        self._constants = _constants(seen.tape, self._steps)
        # Of the first attention that is replaced everything that goes in is known, and so is what came out.
        self._outputs = {
            number: seen.tape.value(number)
            for step in self._steps
            for number in self._layers.keys() & set(step.outputs)
            if self._constants.keys() >= set(step.inputs)
        }
        for layer in self._layers.values():
            layer.let_go()
        self._short = self._shortcut(seen.tape)

    def __call__(self, swaps: Mapping[int, Swap]) -> Tensor:
        """Return the logits, (batch, labels), with the weights of some layers replaced."""
        by_place = {self._place[at]: swap for at, swap in swaps.items()}
        everywhere = all(len(swap.inputs) == len(self.logits) for swap in swaps.values())
        if self._short is not None and everywhere:
            return finite(self._short(by_place), "logits")
        return finite(self._run(self._steps, self._constants, by_place)[self._outlet], "logits")

    def _run(
        self, steps: Sequence[Step], known: Mapping[int, Tensor], swaps: Mapping[int, Swap]
    ) -> dict[int, Tensor]:
        values = dict(known)
        for step in steps:
            given = [values[number] for number in step.inputs]
            place = next((out for out in step.outputs if out in swaps), None)
            if place is not None:
                values[place] = self._replaced(step, given, place, swaps[place])
                continue
            result = step.run(given)
            results = result if isinstance(result, list | tuple) else (result,)
            for number, value in zip(step.outputs, results, strict=True):
                if number is not None:
                    values[number] = value
        return values

    def _replaced(self, step: Step, given: Sequence[Tensor], place: int, swap: Swap) -> Tensor:
        """Compute attention as ever, and put the rows that are read, of some inputs, in its place."""
        layer, rows, some = self._layers[place], self.rows, swap.inputs
        out: Tensor = self._outputs[place] if place in self._outputs else step.run(given)
        value = _value(step, given, layer)
        value = value if len(some) == len(value) else value[some]
        made = by_head(swap.weights.to(value.dtype), value, torch.matmul)
        by_token = layer.heads_first(out).transpose(1, 2).clone()
        are = rows.are_read[some]
        owners = some[:, None].expand_as(are)[are]
        by_token[owners, rows.places[some][are]] = made.transpose(1, 2)[are].to(out.dtype)
        return by_token.transpose(1, 2).reshape(out.shape)

    def _shortcut(self, tape: Tape) -> Course | None:
        """Find out whether the layer can be finished for the rows that are read alone, which is much less work."""
        if len(self._layers) != 1:
            return None
        ((place, layer),) = self._layers.items()
        block = None if layer.places is None else layer.places.block
        tokens, reads = layer.length, self.rows.places.shape[1]
        ends = [at for at, step in enumerate(self._steps) if block in step.outputs]
        if block is None or not ends or tokens <= reads or layer.v.dim() != 4:
            return None
        inside, outside = self._steps[1 : ends[0] + 1], self._steps[ends[0] + 1 :]
        made = {number for step in self._steps[: ends[0] + 1] for number in step.outputs} - {block}
        if made.intersection(number for step in outside for number in step.inputs):
            return None
        first, whole = self._steps[0], tape.value(block)
        short = narrowed(inside, tokens, reads)
        known = narrow_values(self._constants, self.rows.places, tokens)
        inputs = [self._constants[number] for number in first.inputs]

        def run(swaps: Mapping[int, Swap]) -> Tensor:
            (swap,) = swaps.values()
            value = _value(first, inputs, layer)
            rows = by_head(swap.weights.to(value.dtype), value, torch.matmul)
            ended = self._run(short, {**known, place: rows.to(whole.dtype)}, {})[block]
            return self._run(outside, {**self._constants, block: self._among(whole, ended)}, {})[
                self._outlet
            ]

        return run if self._agrees(run, place, layer) else None

    def _among(self, whole: Tensor, rows: Tensor) -> Tensor:
        """Put the rows that are read among all others, (batch, tokens, features)."""
        are = self.rows.are_read
        owners = torch.arange(len(are), device=are.device)[:, None].expand_as(are)[are]
        result = whole.clone()
        result[owners, self.rows.places[are]] = rows[are]
        return result

    @torch.no_grad()
    def _agrees(self, short: Course, place: int, layer: AttentionLayer) -> bool:
        """Try the short way on weights that are far from the model's own."""
        (own,) = self.own.values()
        weights = own.flip(-1) / own.flip(-1).sum(-1, keepdim=True).clamp(min=1e-6)
        swap = {place: Swap(torch.arange(len(own), device=own.device), weights)}
        whole = self._run(self._steps, self._constants, swap)[self._outlet]
        try:
            found = short(swap)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return False  # a shape that did not change with the number of tokens
        # Above the noise of float32, and far below what a wrong row would do.
        bound = 1e-4 * float(whole.abs().max()) + 1e-7
        return found.shape == whole.shape and bool((found - whole).abs().max() <= bound)


def _place(layer: AttentionLayer) -> int:
    place = None if layer.places is None else layer.places.out
    if place is None:
        raise NotCapturable(
            "The output of the attention cannot be followed to the prediction, so nothing can be put in its place. "
            "Audit another model, or ask for the experiments that replace no attention: correlation."
        )
    return place


def _steps(seen: Trace, replaced: set[int]) -> list[Step]:
    """Return the steps that lead from the replaced attention to the logits, in order."""
    assert seen.tape is not None
    live: set[int] = set()
    after: list[Step] = []
    for step in seen.tape.steps:
        outputs = {number for number in step.outputs if number is not None}
        if outputs & replaced or live.intersection(step.inputs):
            after.append(step)
            live |= outputs
        elif live and step.func is None:
            raise NotCapturable(
                f"Something in {'.'.join(step.module) or 'the model'} after the attention is hidden from PyTorch: "
                "what follows from other attention cannot be told. Audit another model."
            )
    wanted: set[int | None] = {seen.outlet}
    found: list[Step] = []
    for step in reversed(after):
        if wanted.intersection(step.outputs) - {None}:
            found.append(step)
            wanted |= set(step.inputs)
    return found[::-1]


def _constants(tape: Tape, steps: Sequence[Step]) -> dict[int, Tensor]:
    """Return the values that the steps need and do not make."""
    made = {number for step in steps for number in step.outputs}
    needed = {number for step in steps for number in step.inputs} - made
    return {number: tape.value(number) for number in needed}


def _value(step: Step, given: Sequence[Tensor], layer: AttentionLayer) -> Tensor:
    """Return the values that are attended to, (batch, key heads, keys, width)."""
    place, name = (
        (2, "value") if step.func in (attend, F.scaled_dot_product_attention) else (1, "other")
    )
    slot = step.args[place] if len(step.args) > place else step.kwargs[name]
    value: Tensor = given[slot.index] if isinstance(slot, Slot) else slot
    return value.reshape(layer.v.shape)
