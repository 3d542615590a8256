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


"""Putting back what was moved: shapes, orders, parts and joints, without running the operation again.

Moving is linear and needs no values, so that what comes back depends on shapes alone. What is not said here is pulled
back through the operation's own derivative.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whence.capture.tape.arguments import Slot
from whence.capture.tape.tape import Step

# Operations that leave numbers in the order in which they are, whatever the shape.
_IN_ORDER = frozenset(
    {
        "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous",
        "clone", "to", "float", "double", "half", "bfloat16", "type", "type_as",
    }
)  # fmt: skip
_SWAPS = frozenset({"transpose", "swapaxes", "swapdims"})
_JOINTS = frozenset({"cat", "concat", "concatenate"})


def put_back(
    step: Step, given: Sequence[Tensor], carried: Sequence[Tensor | None]
) -> list[Tensor | None] | None:
    """Return what each of the inputs gets of what the output carries; None where it is another operation."""
    if len(carried) != 1 or carried[0] is None:
        return None
    name = getattr(step.func, "__name__", "")
    if name in _JOINTS:
        return _taken_apart(step, given, carried[0])
    if len(given) != 1 or not step.args or not isinstance(step.args[0], Slot):
        return None
    back: Callable[[Step, Tensor, Tensor], Tensor | None] | None = (
        _reshaped if name in _IN_ORDER else _swapped if name in _SWAPS else _OTHERS.get(name)
    )
    found = None if back is None else back(step, given[0], carried[0])
    return None if found is None else [found]


def _reshaped(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    seen_as = any(isinstance(one, torch.dtype) for one in step.args[1:])  # a view of other numbers
    if carried.numel() != x.numel() or (seen_as and step.func is Tensor.view):
        return None
    return carried.reshape(x.shape)


def _swapped(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    dims = step.args[1:]
    return carried.transpose(*dims) if len(dims) == 2 else None


def _permuted(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    dims = step.args[1:]
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    if len(dims) != x.dim():
        return None
    order = [dim % x.dim() for dim in dims]
    return carried.permute([order.index(dim) for dim in range(x.dim())])


def _turned(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    return carried.t()


def is_part(step: Step) -> bool:
    """Say whether a step takes a part of a value out of it, each number once at most."""
    if getattr(step.func, "__name__", "") != "__getitem__":
        return False
    index = step.args[1]
    parts = index if isinstance(index, tuple) else (index,)
    return all(one is None or one is ... or type(one) in (int, slice) for one in parts)


def _filled_in(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    if not is_part(step):
        return None
    whole = torch.zeros_like(x, dtype=carried.dtype)  # laid out like what it is added to
    whole[step.args[1]] = carried
    return whole


_OTHERS: dict[str, Callable[[Step, Tensor, Tensor], Tensor | None]] = {
    "permute": _permuted,
    "t": _turned,
    "__getitem__": _filled_in,
}


def _taken_apart(
    step: Step, given: Sequence[Tensor], carried: Tensor
) -> list[Tensor | None] | None:
    joined: Any = step.args[0] if step.args else None
    if not isinstance(joined, list | tuple) or step.kwargs.keys() - {"dim"}:
        return None
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    parts = [given[one.index] if isinstance(one, Slot) else one for one in joined]
    if not all(isinstance(one, Tensor) and one.dim() == carried.dim() for one in parts):
        return None
    pieces = torch.split(carried, [one.shape[dim] for one in parts], dim)
    found: list[Tensor | None] = [None for _ in given]
    for place, piece in zip(joined, pieces, strict=True):
        if isinstance(place, Slot):
            found[place.index] = piece
    return found


"""Operations by one name each: `x + y`, `torch.add(x, y)`, `x.add_(y)` and `x += y` are all "add"."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.capture.attention.seam import attend
from whence.capture.tape.arguments import Slot
from whence.capture.tape.tape import Step

# Every spelling of an operation; each is looked up in every one of the homes below.
SPELLINGS = {
    "add": "add add_ __add__ __radd__ __iadd__",
    "sub": "sub sub_ subtract subtract_ __sub__ __isub__",
    "rsub": "rsub __rsub__",
    "mul": "mul mul_ multiply multiply_ __mul__ __rmul__ __imul__",
    "div": "div div_ divide divide_ true_divide true_divide_ __truediv__ __itruediv__ __div__ __idiv__",
    "neg": "neg neg_ negative negative_ __neg__",
    "matmul": "matmul mm bmm __matmul__",
    "einsum": "einsum",
    "linear": "linear",
    "addmm": "addmm",
    "conv2d": "conv2d",
    "attention": "scaled_dot_product_attention",
    "softmax": "softmax",
    "activation": "gelu relu relu_ silu tanh tanh_ mish elu leaky_relu hardswish hardtanh relu6 clamp clamp_",
    "gate": "sigmoid sigmoid_ logsigmoid softplus",
    "layer_norm": "layer_norm",
    "rms_norm": "rms_norm",
    "scale": "rsqrt rsqrt_ sqrt sqrt_ reciprocal norm vector_norm var std",
    "square": "pow pow_ __pow__ __ipow__ square square_",
    "sum": "sum mean adaptive_avg_pool1d adaptive_avg_pool2d avg_pool1d avg_pool2d",
    "dropout": "dropout dropout_ alpha_dropout",
    "pick": "__getitem__ select index_select narrow gather take_along_dim",
    "join": "cat concat concatenate stack",
    "move": "view view_as reshape reshape_as flatten unflatten transpose transpose_ t swapaxes swapdims permute "
    "movedim moveaxis contiguous clone expand expand_as broadcast_to squeeze squeeze_ unsqueeze unsqueeze_ chunk "
    "split split_with_sizes tensor_split unbind repeat repeat_interleave tile roll flip pad to float double half "
    "bfloat16 type type_as masked_fill masked_fill_ where",
}  # fmt: skip
_PROPERTIES = {"move": ("T", "mT", "H", "mH")}

HOMES: tuple[Any, ...] = (torch, Tensor, F, torch.special, torch.linalg)


def spellings(op: str) -> frozenset[Callable[..., Any]]:
    """Return every function that is this operation."""
    names = SPELLINGS[op].split()
    found = {getattr(home, name) for home in HOMES for name in names if hasattr(home, name)}
    found |= {getattr(Tensor, name).__get__ for name in _PROPERTIES.get(op, ())}
    return frozenset(found)


def operation(step: Step) -> str | None:
    """Return the operation of a step. A power below one scales, and so does a constant over a value."""
    op = OF.get(step.func) if step.func is not None else None
    if op == "div" and step.args and not isinstance(step.args[0], Slot):
        return "scale"
    if op != "square":
        return op
    exponent = step.args[1] if len(step.args) > 1 else step.kwargs.get("exponent", 2)
    return "scale" if isinstance(exponent, int | float) and exponent < 1 else "square"


OF: dict[Callable[..., Any], str] = {
    function: op for op in SPELLINGS for function in spellings(op)
} | {attend: "attention"}


"""Division that does not blow up: relevance divides by sums that may be close to zero."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from whence.kernels import pointwise

Choice = Literal["signed", "paper"]


@dataclass(frozen=True)
class Stabiliser:
    """A way to divide, and what it makes of relevance that goes through a copy of a value and back."""

    divide: Callable[[Tensor, Tensor], Tensor]  # numerator, denominator
    restored: Callable[
        [Tensor, Tensor], Tensor
    ]  # the same, and multiplied with the denominator again
    copied: Callable[[Tensor, Tensor], Tensor]  # relevance of a copy, value
    joined: Callable[[Sequence[Tensor], Tensor], Tensor]  # relevance of several copies, value
    exact: bool  # copies hand back just what they were given


STABILISERS: dict[Choice, Stabiliser] = {
    # Away from zero on the side where the denominator is, by as much as its dtype resolves; copies are exact.
    "signed": Stabiliser(
        pointwise.signed,
        pointwise.signed_restored,
        lambda relevance, value: relevance,
        pointwise.plain_sum,
        exact=True,
    ),
    # What Chefer et al. compute: 1e-9 whatever the sign (a denominator of -1e-9 blows up), also for copies.
    "paper": Stabiliser(
        pointwise.unsigned,
        pointwise.restored,
        pointwise.restored,
        pointwise.restored_sum,
        exact=False,
    ),
}
