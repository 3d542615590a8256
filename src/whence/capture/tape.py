"""Every operation of one forward pass, in order, so that other calculi than autograd's can run over it.

Autograd's graph can be walked in one way only. The tape keeps what was called, on what, in which module: relevance
walks it backwards, a decomposition walks it forwards, and the gradient stays autograd's own. Only what
depends on the token embeddings is kept; everything else (weights, masks, positions) is a constant.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from threading import get_ident
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from whence.core.errors import NotCapturable


@dataclass(frozen=True)
class Slot:
    """The place of a value in the arguments of a step."""

    index: int


@dataclass(frozen=True, eq=False)
class Step:
    """One operation: arguments with slots for the values that depend on the input, and their numbers."""

    # None: the value came out of something that PyTorch does not show.
    func: Callable[..., Any] | None
    args: Any
    kwargs: Any
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]  # None: an output that does not depend on the input
    module: tuple[str, ...]  # the path of the module that called it

    @property
    def name(self) -> str:
        """What was called, for people."""
        if self.func is None:
            return "an operation that PyTorch does not show"
        return str(resolve_name(self.func) or getattr(self.func, "__name__", repr(self.func)))

    def filled(self, values: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with other values; constants of half precision are widened to theirs."""
        wide = values[0].dtype not in _HALF
        args: tuple[Any, ...] = _filled(self.args, values, widen=wide)
        kwargs: dict[str, Any] = _filled(self.kwargs, values, widen=wide)
        return args, kwargs

    def run(self, values: Sequence[Tensor]) -> Any:
        """Call the operation again, on other values."""
        assert self.func is not None
        args, kwargs = self.filled(values)
        kwargs.pop("inplace", None)
        result = _copying(self.func)(*args, **kwargs)
        # A cast to half precision is the model's way to save memory: wide values stay wide, to the last digit.
        if values[0].dtype in _HALF or not isinstance(result, Tensor) or result.dtype not in _HALF:
            return result
        cast_only = getattr(self.func, "__name__", "") in _CASTS
        return args[0] if cast_only else result.to(values[0].dtype)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module: the steps inside it, and what went in and came out."""

    module: tuple[str, ...]
    kind: str  # the class's full name
    first: int
    last: int
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]
    leaf: bool  # a module without modules inside

    @property
    def name(self) -> str:
        """What was called, for people."""
        return self.kind


@dataclass(eq=False)
class _Value:
    tensor: Tensor  # without its graph
    version: int  # of the tensor, when it was noted


@dataclass(eq=False)
class _Entered:
    path: tuple[str, ...]
    first: int
    inputs: tuple[int, ...] = field(default=())


class Tape(TorchFunctionMode):
    """Notes each operation while a model runs; weights are frozen, so what needs a gradient is what counts."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        self._values: list[_Value] = []
        # By identity. The tensors are kept alive while the tape runs, so that no identity is used twice.
        self._numbers: dict[int, int] = {}
        self._alive: list[Tensor] = []
        self._open: list[_Entered] = []
        self._running = True
        self._thread = get_ident()  # hooks are the model's, and another thread may use it meanwhile

    def value(self, number: int) -> Tensor:
        """Return a value as it was when it was noted."""
        value = self._values[number]
        if value.tensor._version != value.version:
            raise NotCapturable(
                "The model overwrote a value in place after using it, through a view. Methods that follow every "
                "operation (relevance, decompositions) do not work on it; gradient and attention methods do."
            )
        return value.tensor

    def leaf(self, tensor: Tensor) -> int:
        """Note where the input enters."""
        return self._note(tensor)

    def number(self, tensor: Tensor | None) -> int | None:
        """Return the number of a value, or None if it does not depend on the input."""
        return None if tensor is None else self._numbers.get(id(tensor))

    def watch_modules(self, model: nn.Module, stack: ExitStack) -> None:
        """Hook every module, so that each step knows where it was called."""
        for name, module in model.named_modules():
            path = tuple(name.split(".")) if name else ()
            entered = module.register_forward_pre_hook(self._enter(path), with_kwargs=True)
            stack.callback(entered.remove)
            stack.callback(module.register_forward_hook(self._leave).remove)

    def finish(self, output: Tensor) -> int | None:
        """Stop, let go of the graph, and return the number of the model's output."""
        number = self.number(output)
        self._running = False
        self._numbers.clear()
        self._alive.clear()
        return number

    def _enter(self, path: tuple[str, ...]) -> Callable[..., None]:
        def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if get_ident() != self._thread:
                return
            given = [self.number(x) for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            numbers = tuple(number for number in given if number is not None)
            self._open.append(_Entered(path, len(self.steps), numbers))

        return enter

    def _leave(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if get_ident() != self._thread:
            return
        # What came out of something that PyTorch does not show is noted here, where it was made.
        made = [x for x in _each(output) if isinstance(x, Tensor)]
        running = self._running and torch.is_grad_enabled()
        outputs = tuple(self._known(x) if running and x.requires_grad else None for x in made)
        entered = self._open.pop()
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        last = len(self.steps) - 1
        leaf = next(module.children(), None) is None
        self.calls.append(
            Call(entered.path, kind, entered.first, last, entered.inputs, outputs, leaf)
        )

    def _note(self, tensor: Tensor) -> int:
        number = len(self._values)
        detached = tensor.detach()
        self._values.append(_Value(detached, detached._version))
        self._numbers[id(tensor)] = number
        self._alive.append(tensor)
        return number

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not self._running:
            return func(*args, **kwargs)
        before = None
        if args and (_in_place(func) or kwargs.get("inplace")):
            before = args[0].detach().clone()
        result = func(*args, **kwargs)
        if before is None and args and result is args[0]:
            return result  # dropout that does nothing, a cast to what it is already
        outputs = _each(result)
        if not any(isinstance(one, Tensor) and one.requires_grad for one in outputs):
            return result
        numbers: list[int] = []
        overwritten = None if before is None else self.number(args[0])
        if overwritten is not None and before is not None:
            self._values[overwritten] = _Value(before, before._version)
        elif before is not None:  # a constant until now
            args = (before, *args[1:])
        slotted_args = self._slotted(tuple(args), numbers)
        slotted_kwargs = self._slotted(dict(kwargs), numbers)
        noted = tuple(
            self._note(one) if isinstance(one, Tensor) and one.requires_grad else None
            for one in outputs
        )
        self.steps.append(
            Step(func, slotted_args, slotted_kwargs, tuple(numbers), noted, self._path())
        )
        return result

    def _path(self) -> tuple[str, ...]:
        return self._open[-1].path if self._open else ()

    def _slotted(self, tree: Any, numbers: list[int]) -> Any:
        """Put a slot in the place of every value, and collect the values' numbers."""
        if isinstance(tree, Tensor):
            if not tree.requires_grad:
                return tree
            numbers.append(self._known(tree))
            return Slot(len(numbers) - 1)
        if isinstance(tree, list | tuple) and type(tree) in (list, tuple):
            return type(tree)(self._slotted(one, numbers) for one in tree)
        if isinstance(tree, dict):
            return {key: self._slotted(one, numbers) for key, one in tree.items()}
        return tree

    def _known(self, tensor: Tensor) -> int:
        number = self._numbers.get(id(tensor))
        if number is not None:
            return number
        number = self._note(tensor)
        self.steps.append(Step(None, (), {}, (), (number,), self._path()))
        return number


def _each(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list | tuple) else (result,)


@cache
def _in_place(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name.startswith("__i") and name not in {"__index__", "__invert__", "__int__"}
    return name.endswith("_")


_HALF = (torch.float16, torch.bfloat16)
_CASTS = {"to", "type", "type_as", "half", "bfloat16"}


@cache
def _copying(func: Any) -> Callable[..., Any]:
    """Return the form of an operation that leaves its argument as it is."""
    if not _in_place(func):
        return cast(Callable[..., Any], func)
    name = func.__name__
    plain = getattr(Tensor, name.replace("__i", "__") if name.startswith("__") else name[:-1], None)
    return plain or (lambda first, *args, **kwargs: func(first.clone(), *args, **kwargs))


def _filled(tree: Any, values: Sequence[Tensor], *, widen: bool) -> Any:
    if isinstance(tree, Slot):
        return values[tree.index]
    if isinstance(tree, Tensor):
        return tree.to(values[0].dtype) if widen and tree.dtype in _HALF else tree
    if isinstance(tree, list | tuple) and type(tree) in (list, tuple):
        return type(tree)(_filled(one, values, widen=widen) for one in tree)
    if isinstance(tree, dict):
        return {key: _filled(one, values, widen=widen) for key, one in tree.items()}
    return tree
