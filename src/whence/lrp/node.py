"""RuleNode, an operation as an LRP rule sees it; operation names, undoing of moves, stabilisers, sparse rows.

Operations have one name each: `x + y`, `torch.add(x, y)`, `x.add_(y)` and `x += y` are all "add". Moves
(shapes, orders, slices, concatenations) are linear and need no values, so they are undone by shape alone;
all others are pulled back through the operation's own derivative.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.kernels import share
from whence.kernels.share import LastSplitInput
from whence.tracing.attention_layer import widen, widen_dtype
from whence.tracing.sdpa import attend
from whence.tracing.tape import ModuleCall, Slot, Tape, TapeStep

# Operations that keep the order of elements and change only the shape or dtype.
_RESHAPING_OPS = frozenset(
    {
        "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous",
        "clone", "to", "float", "double", "half", "bfloat16", "type", "type_as",
    }
)  # fmt: skip
_CONCATENATING_OPS = frozenset({"cat", "concat", "concatenate"})


def undo_move(
    step: TapeStep, inputs: Sequence[Tensor], carried: Sequence[Tensor | None]
) -> list[Tensor | None] | None:
    """Return the carried values of a move's inputs from those of its output; None if it is no move."""
    if len(carried) != 1 or carried[0] is None:
        return None
    name = getattr(step.func, "__name__", "")
    if name in _CONCATENATING_OPS:
        return _undo_concatenation(step, inputs, carried[0])
    if name not in _UNDO_BY_NAME or len(inputs) != 1 or not step.args:
        return None
    if not isinstance(step.args[0], Slot):
        return None
    result = _UNDO_BY_NAME[name](step, inputs[0], carried[0])
    return None if result is None else [result]


def _undo_reshape(step: TapeStep, x: Tensor, carried: Tensor) -> Tensor | None:
    retyped = any(isinstance(arg, torch.dtype) for arg in step.args[1:])  # a view as another dtype
    if carried.numel() != x.numel() or (retyped and step.func is Tensor.view):
        return None
    return carried.reshape(x.shape)


def _undo_transpose(step: TapeStep, x: Tensor, carried: Tensor) -> Tensor | None:
    dims = step.args[1:]
    return carried.transpose(*dims) if len(dims) == 2 else None


def _undo_permute(step: TapeStep, x: Tensor, carried: Tensor) -> Tensor | None:
    dims = step.args[1:]
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    if len(dims) != x.dim():
        return None
    order = [dim % x.dim() for dim in dims]
    return carried.permute([order.index(dim) for dim in range(x.dim())])


def is_slicing(step: TapeStep) -> bool:
    """Return whether a step takes a slice of a value, each element at most once."""
    if getattr(step.func, "__name__", "") != "__getitem__":
        return False
    index = step.args[1]
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is ... or type(part) in (int, slice) for part in parts)


def _undo_slicing(step: TapeStep, x: Tensor, carried: Tensor) -> Tensor | None:
    if not is_slicing(step):
        return None
    whole = torch.zeros_like(x, dtype=carried.dtype)  # in the memory layout of the value
    whole[step.args[1]] = carried
    return whole


_UNDO_BY_NAME: dict[str, Callable[[TapeStep, Tensor, Tensor], Tensor | None]] = {
    **dict.fromkeys(_RESHAPING_OPS, _undo_reshape),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _undo_transpose),
    "permute": _undo_permute,
    "t": lambda step, x, carried: carried.t(),
    "__getitem__": _undo_slicing,
}


def _undo_concatenation(
    step: TapeStep, inputs: Sequence[Tensor], carried: Tensor
) -> list[Tensor | None] | None:
    sequence: Any = step.args[0] if step.args else None
    if not isinstance(sequence, list | tuple) or step.kwargs.keys() - {"dim"}:
        return None
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    parts = [inputs[part.index] if isinstance(part, Slot) else part for part in sequence]
    if not all(isinstance(part, Tensor) and part.dim() == carried.dim() for part in parts):
        return None
    pieces = torch.split(carried, [part.shape[dim] for part in parts], dim)
    result: list[Tensor | None] = [None for _ in inputs]
    for place, piece in zip(sequence, pieces, strict=True):
        if isinstance(place, Slot):
            result[place.index] = piece
    return result


StabiliserName = Literal["signed", "paper"]


@dataclass(frozen=True)
class Stabiliser:
    """A stabilised division, and its effect on relevance that passes through copies of a value."""

    divide: Callable[[Tensor, Tensor], Tensor]  # numerator, denominator
    restored: Callable[[Tensor, Tensor], Tensor]  # divide, then multiply by the denominator again
    copied: Callable[[Tensor, Tensor], Tensor]  # relevance of a copy, value
    joined: Callable[[Sequence[Tensor], Tensor], Tensor]  # relevance of several copies, value
    exact: bool  # copies return relevance unchanged


STABILISERS: dict[StabiliserName, Stabiliser] = {
    # Moves the denominator away from zero, to its own side, by the resolution of its dtype.
    "signed": Stabiliser(
        partial(share.divide, signed=True),
        partial(share.divide, signed=True, back=True),
        lambda relevance, value: relevance,
        share.add_parts,
        exact=True,
    ),
    # As Chefer et al.: adds 1e-9 whatever the sign (a denominator of -1e-9 blows up), also for copies.
    "paper": Stabiliser(
        partial(share.divide, signed=False),
        partial(share.divide, signed=False, back=True),
        partial(share.divide, signed=False, back=True),
        share.divide_sum_and_multiply_back,
        exact=False,
    ),
}

CarriedValues = Sequence[Tensor | None]


@dataclass
class SparseRows:
    """Finder of the rows that carry relevance: above the last attention only those the prediction reads.

    One propagation has one finder. Once most rows of a value carry relevance, so do those below it,
    and the search stops.
    """

    _few: bool = True

    def rows(self, carried: Tensor) -> Tensor | None:
        """Return the rows with a non-zero entry, of a tensor flattened to rows; None if most have one."""
        if not self._few or carried.dim() < 2:
            return None
        # This synchronises an accelerator, in the last layer and once more.
        rows = carried.flatten(0, -2).abs().amax(-1).nonzero().squeeze(-1)
        total = carried.numel() // max(1, carried.shape[-1])
        self._few = 2 * len(rows) <= total or total == len(carried)
        return rows if 2 * len(rows) <= total else None


@dataclass(eq=False)
class RuleNode:
    """One operation with its values, as a rule sees it."""

    step: TapeStep | ModuleCall
    given: list[Tensor]  # inputs that depend on the tokens, in the model's dtype
    made: list[Tensor]  # outputs
    live: list[bool]  # false: the input counts as a constant, because a rule cut it off
    gates: list[bool]  # true: the output of an activation
    samples: int  # inputs in the batch
    stabiliser: Stabiliser
    # Of the whole propagation, if there is one.
    sparse: SparseRows = field(default_factory=SparseRows)
    lately: LastSplitInput = field(default_factory=LastSplitInput)

    @classmethod
    def at(
        cls,
        tape: Tape,
        step: TapeStep | ModuleCall,
        *,
        samples: int,
        stabiliser: Stabiliser,
        live: Container[int | None] | None = None,
        gates: Container[int | None] = (),
    ) -> "RuleNode":
        """Build the node of a step from its tape; with `live` None every input is live."""
        return cls(
            step,
            [tape.value(number) for number in step.inputs],
            # No rule reads an output that does not depend on the tokens.
            [torch.empty(0) if n is None else tape.value(n) for n in step.outputs],
            [live is None or number in live for number in step.inputs],
            [number in gates for number in step.inputs],
            samples,
            stabiliser,
        )

    @cached_property
    def x(self) -> list[Tensor]:
        """The inputs in float32 at least; narrower ones are copied on first use."""
        return [widen(value) for value in self.given]

    @cached_property
    def y(self) -> list[Tensor]:
        """The outputs in float32 at least; narrower ones are copied on first use."""
        return [widen(value) for value in self.made]

    def divide(self, numerator: Tensor, denominator: Tensor) -> Tensor:
        """Divide by the stabiliser of this propagation."""
        return self.stabiliser.divide(numerator, denominator)

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """Return an argument of the call, by position or by name."""
        assert isinstance(self.step, TapeStep)
        if index < len(self.step.args):
            return self.step.args[index]
        return self.step.kwargs.get(name, default)

    def constant(self, index: int, name: str) -> Tensor | None:
        """Return a constant tensor argument, such as a weight, in float32 at least."""
        value = self.argument(index, name)
        return value.to(widen_dtype(self.given[0].dtype)) if isinstance(value, Tensor) else None

    def pull(self, carried: CarriedValues) -> list[Tensor | None]:
        """Pull the outputs' carried values back through the operation's own derivative."""
        assert isinstance(self.step, TapeStep)
        moved = undo_move(self.step, self.given, carried)
        if moved is not None:
            return [value if live else None for value, live in zip(moved, self.live, strict=True)]
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in self.x]
            result = self.step.run(leaves)
        outputs = result if isinstance(result, list | tuple) else (result,)
        pairs = [
            (out, value.to(out.dtype))
            for out, value in zip(outputs, carried, strict=True)
            if value is not None
        ]
        pulled = torch.autograd.grad(
            [out for out, _ in pairs], leaves, [value for _, value in pairs], allow_unused=True
        )
        return [value if live else None for value, live in zip(pulled, self.live, strict=True)]

    def sum_per_sample(self, tensor: Tensor) -> Tensor:
        """Return the sum of each sample, in a shape that broadcasts with `tensor`."""
        total = tensor.reshape(self.samples, -1).sum(1)
        rows_per_sample = tensor.shape[0] // self.samples
        return total.repeat_interleave(rows_per_sample).reshape(-1, *[1] * (tensor.dim() - 1))


# All spellings of each operation; each is looked up in all OPERATION_NAMESPACES.
OPERATION_SPELLINGS = {
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
_PROPERTY_SPELLINGS = {"move": ("T", "mT", "H", "mH")}

OPERATION_NAMESPACES: tuple[Any, ...] = (torch, Tensor, F, torch.special, torch.linalg)


def list_spellings(op: str) -> frozenset[Callable[..., Any]]:
    """Return every function of PyTorch for this operation."""
    names = OPERATION_SPELLINGS[op].split()
    functions = {
        getattr(home, name)
        for home in OPERATION_NAMESPACES
        for name in names
        if hasattr(home, name)
    }
    functions |= {getattr(Tensor, name).__get__ for name in _PROPERTY_SPELLINGS.get(op, ())}
    return frozenset(functions)


def find_operation(step: TapeStep) -> str | None:
    """Return a step's operation; a power below 1 and a constant over a value are both "scale"."""
    op = OPERATION_BY_FUNCTION.get(step.func) if step.func is not None else None
    if op == "div" and step.args and not isinstance(step.args[0], Slot):
        return "scale"
    if op != "square":
        return op
    exponent = step.args[1] if len(step.args) > 1 else step.kwargs.get("exponent", 2)
    return "scale" if isinstance(exponent, int | float) and exponent < 1 else "square"


OPERATION_BY_FUNCTION: dict[Callable[..., Any], str] = {
    function: op for op in OPERATION_SPELLINGS for function in list_spellings(op)
} | {attend: "attention"}
