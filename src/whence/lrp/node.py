"""One step as a rule sees it: values in, values out, and which of the inputs may take relevance."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from whence.capture.attention.layer import wide, widened
from whence.capture.tape.tape import Call, Step, Tape
from whence.kernels.products import Lately
from whence.lrp.moves import put_back
from whence.lrp.stabiliser import Stabiliser

Carried = Sequence[Tensor | None]


class Sparse:
    """Which rows of a value carry anything: above the last attention, those that the prediction reads and no more.

    One walk has one of these. Once a value carries something in most rows, so do those below it.
    """

    def __init__(self) -> None:
        """Expect few rows at first."""
        self._few = True

    def rows(self, carried: Tensor) -> Tensor | None:
        """Return the rows that carry anything, of a tensor flattened to rows; None where they are not few."""
        if not self._few or carried.dim() < 2:
            return None
        # An accelerator is waited for here, in the last layer and once more.
        rows = carried.flatten(0, -2).abs().amax(-1).nonzero().squeeze(-1)
        total = carried.numel() // max(1, carried.shape[-1])
        self._few = 2 * len(rows) <= total or total == len(carried)
        return rows if 2 * len(rows) <= total else None


@dataclass(eq=False)
class Node:
    """What a rule may know of the operation it redistributes."""

    step: Step | Call
    given: list[Tensor]  # inputs that depend on the tokens, as the model made them
    made: list[Tensor]  # outputs
    live: list[bool]  # false: a value that counts as a constant, because it was cut off
    gates: list[bool]  # true: the output of an activation
    samples: int  # inputs in the batch
    stabiliser: Stabiliser
    sparse: Sparse = field(default_factory=Sparse)
    lately: Lately = field(default_factory=Lately)

    @classmethod
    def at(
        cls,
        tape: Tape,
        step: Step | Call,
        *,
        samples: int,
        stabiliser: Stabiliser,
        live: Container[int | None] | None = None,
        gates: Container[int | None] = (),
        sparse: Sparse | None = None,
        lately: Lately | None = None,
    ) -> "Node":
        """Look a step's values up on its tape; `live` None takes every input as live."""
        return cls(
            step,
            [tape.value(number) for number in step.inputs],
            # An output that does not depend on the tokens has no value that a rule would look at.
            [torch.empty(0) if n is None else tape.value(n) for n in step.outputs],
            [live is None or number in live for number in step.inputs],
            [number in gates for number in step.inputs],
            samples,
            stabiliser,
            sparse or Sparse(),
            lately or Lately(),
        )

    @cached_property
    def x(self) -> list[Tensor]:
        """The inputs in float32 or wider: a copy of what is narrower, made for a rule that looks at it."""
        return [wide(one) for one in self.given]

    @cached_property
    def y(self) -> list[Tensor]:
        """The outputs, likewise."""
        return [wide(one) for one in self.made]

    def divide(self, numerator: Tensor, denominator: Tensor) -> Tensor:
        """Divide as the table's stabiliser does."""
        return self.stabiliser.divide(numerator, denominator)

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """Return an argument of the call, by place or by name."""
        assert isinstance(self.step, Step)
        if index < len(self.step.args):
            return self.step.args[index]
        return self.step.kwargs.get(name, default)

    def constant(self, index: int, name: str) -> Tensor | None:
        """Return a weight, as wide as the values are."""
        value = self.argument(index, name)
        return value.to(widened(self.given[0].dtype)) if isinstance(value, Tensor) else None

    def pull(self, carried: Carried) -> list[Tensor | None]:
        """Pull what the outputs carry back through the operation's own derivative."""
        assert isinstance(self.step, Step)
        moved = put_back(self.step, self.given, carried)
        if moved is not None:
            return [one if live else None for one, live in zip(moved, self.live, strict=True)]
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in self.x]
            result = self.step.run(leaves)
        outputs = result if isinstance(result, list | tuple) else (result,)
        pairs = [
            (out, one.to(out.dtype))
            for out, one in zip(outputs, carried, strict=True)
            if one is not None
        ]
        pulled = torch.autograd.grad(
            [out for out, _ in pairs], leaves, [one for _, one in pairs], allow_unused=True
        )
        return [one if live else None for one, live in zip(pulled, self.live, strict=True)]

    def per_sample(self, tensor: Tensor) -> Tensor:
        """Sum over everything but the batch; the result multiplies `tensor` again."""
        total = tensor.reshape(self.samples, -1).sum(1)
        each = tensor.shape[0] // self.samples
        return total.repeat_interleave(each).reshape(-1, *[1] * (tensor.dim() - 1))
