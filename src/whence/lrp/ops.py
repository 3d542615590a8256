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
