"""One step as a rule sees it: values in, values out, and which of the inputs may take relevance."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from whence.capture.tape import Call, Step, Tape
from whence.lrp.stabiliser import Stabiliser

Carried = Sequence[Tensor | None]


@dataclass(frozen=True, eq=False)
class Node:
    """What a rule may know of the operation it redistributes."""

    step: Step | Call
    x: list[Tensor]  # inputs that depend on the tokens, in float32 or wider
    y: list[Tensor]  # outputs
    live: list[bool]  # false: a value that counts as a constant, because it was cut off
    gates: list[bool]  # true: the output of an activation
    samples: int  # inputs in the batch
    stabiliser: Stabiliser

    @classmethod
    def at(
        cls,
        tape: Tape,
        step: Step | Call,
        *,
        samples: int,
        stabiliser: Stabiliser,
        live: Container[int] | None = None,
        gates: Container[int] = (),
    ) -> "Node":
        """Look a step's values up on its tape; `live` None takes every input as live."""
        return cls(
            step,
            x=[wide(tape.value(number)) for number in step.inputs],
            # An output that does not depend on the tokens has no value that a rule would look at.
            y=[torch.empty(0) if n is None else wide(tape.value(n)) for n in step.outputs],
            live=[live is None or number in live for number in step.inputs],
            gates=[number in gates for number in step.inputs],
            samples=samples,
            stabiliser=stabiliser,
        )

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
        return value.to(self.x[0].dtype) if isinstance(value, Tensor) else None

    def pull(self, carried: Carried) -> list[Tensor | None]:
        """Pull what the outputs carry back through the operation's own derivative."""
        assert isinstance(self.step, Step)
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


def wide(value: Tensor) -> Tensor:
    """Return a value in float32 at least: sums of many small shares need it."""
    return value.to(torch.promote_types(value.dtype, torch.float32))
