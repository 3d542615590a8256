"""Every operation of one forward pass, in order, so that other calculi than autograd's can run over it.

Autograd's graph can be walked in one way only. The tape keeps what was called, on what, in which module: relevance
walks it backwards, a decomposition walks it forwards, and the gradient stays autograd's own. Only what
depends on the token embeddings is kept; everything else (weights, masks, positions) is a constant.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import get_ident
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from whence.capture.tape.arguments import CASTS, FACTS, HALF, copying, each, filled, in_place, slot
from whence.capture.watching import Place, places, watch
from whence.core.errors import NotCapturable


@dataclass(eq=False, slots=True)
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
        wide = values[0].dtype not in HALF
        args: tuple[Any, ...] = filled(self.args, values, widen=wide)
        kwargs: dict[str, Any] = filled(self.kwargs, values, widen=wide)
        return args, kwargs

    def run(self, values: Sequence[Tensor]) -> Any:
        """Call the operation again, on other values."""
        assert self.func is not None
        args, kwargs = self.filled(values)
        kwargs.pop("inplace", None)
        result = copying(self.func)(*args, **kwargs)
        # A cast to half precision is the model's way to save memory: wide values stay wide, to the last digit.
        if values[0].dtype in HALF or not isinstance(result, Tensor) or result.dtype not in HALF:
            return result
        cast_only = getattr(self.func, "__name__", "") in CASTS
        return args[0] if cast_only else result.to(values[0].dtype)


@dataclass(eq=False, slots=True)
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


@dataclass(eq=False, slots=True)
class _Value:
    tensor: Tensor | None  # without its graph; None: dropped, and made again when somebody asks
    version: int  # of the tensor, when it was noted


class _Entered(NamedTuple):
    path: tuple[str, ...]
    kind: str
    leaf: bool
    first: int
    inputs: tuple[int, ...]


class Tape(TorchFunctionMode):
    """Notes each operation while a model runs; weights are frozen, so what needs a gradient is what counts."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        self._values: list[_Value] = []
        self._dropped: dict[int, int] = {}  # values that were not kept: the steps that make them
        # By identity. The tensors are kept alive while the tape runs, so that no identity is used twice.
        self._numbers: dict[int, int] = {}
        self._alive: list[Tensor] = []
        self._open: list[_Entered] = []
        self._places: dict[int, Place] = {}  # of modules, by identity
        self._running = True
        self._thread = get_ident()  # hooks are the model's, and another thread may use it meanwhile

    def value(self, number: int) -> Tensor:
        """Return a value as it was when it was noted."""
        value = self._values[number]
        if value.tensor is None:
            return self._made_again(number)
        if value.tensor._version != value.version:
            raise NotCapturable(
                "The model overwrote a value in place after using it, through a view. Methods that follow every "
                "operation (relevance, decompositions) do not work on it; gradient and attention methods do."
            )
        return value.tensor

    def _made_again(self, number: int) -> Tensor:
        """Run the step again that made a value which was not kept; nothing of that is kept either."""
        step = self.steps[self._dropped[number]]
        assert step.func is not None
        values = [self.value(one) for one in step.inputs]
        args, kwargs = (filled(tree, values, widen=False) for tree in (step.args, step.kwargs))
        with torch.no_grad():
            made = each(step.func(*args, **kwargs))
        found = made[step.outputs.index(number)]
        assert isinstance(found, Tensor)
        return found

    def leaf(self, tensor: Tensor) -> int:
        """Note where the input enters."""
        return self._note(tensor)

    def number(self, tensor: Tensor | None) -> int | None:
        """Return the number of a value, or None if it does not depend on the input."""
        return None if tensor is None else self._numbers.get(id(tensor))

    def watch_modules(self, model: nn.Module, stack: ExitStack) -> None:
        """Hook every module, so that each step knows where it was called."""
        found = places(model)
        self._places = {id(module): place for module, place in found}
        watch([module for module, _ in found], self._enter, self._leave, stack)

    def finish(self, output: Tensor) -> int | None:
        """Stop, let go of the graph, and return the number of the model's output."""
        number = self.number(output)
        self._running = False
        self._numbers.clear()
        self._alive.clear()
        return number

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if get_ident() != self._thread:
            return
        known = self._numbers
        given = (*args, *kwargs.values()) if kwargs else args
        numbers = tuple([known[id(x)] for x in given if id(x) in known])
        self._open.append(_Entered(*self._places[id(module)], len(self.steps), numbers))

    def _leave(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if get_ident() != self._thread:
            return
        # What came out of something that PyTorch does not show is noted here, where it was made.
        running = self._running and torch.is_grad_enabled()
        made = [x for x in each(output) if isinstance(x, Tensor)]
        outputs = tuple([self._came_out(x) if running else None for x in made])
        path, kind, leaf, first, inputs = self._open.pop()
        last = len(self.steps) - 1
        if leaf and running and last > first:
            self._drop_inside(first, last, outputs)
        self.calls.append(Call(path, kind, first, last, inputs, outputs, leaf))

    def _came_out(self, tensor: Tensor) -> int | None:
        number = self._numbers.get(id(tensor))
        if number is not None:
            return number
        with torch._C.DisableTorchFunctionSubclass(), torch._C.DisableTorchFunction():
            return self._known(tensor) if tensor.requires_grad else None

    def _drop_inside(self, first: int, last: int, outputs: Sequence[int | None]) -> None:
        """Drop what a module without parts made on its way: a norm that is written out keeps five values of its own.

        Most rules take such a module as one operation. For the others, its few steps run again.
        """
        inside = range(first, last + 1)
        if any(in_place(self.steps[at].func) or self.steps[at].func is None for at in inside):
            return
        for at in inside:
            for number in self.steps[at].outputs:
                if number is not None and number not in outputs:
                    self._values[number].tensor = None
                    self._dropped[number] = at

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
        if func in FACTS or not self._running:
            return func(*args, **kwargs)
        before = None
        if args and (in_place(func) or kwargs.get("inplace")):
            before = args[0].detach().clone()
        result = func(*args, **kwargs)
        if before is None and args and result is args[0]:
            return result  # dropout that does nothing, a cast to what it is already
        outputs = each(result)
        depends = [isinstance(one, Tensor) and one.requires_grad for one in outputs]
        if True not in depends:
            return result
        numbers: list[int] = []
        overwritten = None if before is None else self.number(args[0])
        if overwritten is not None and before is not None:
            self._values[overwritten] = _Value(before, before._version)
        elif before is not None:  # a constant until now
            args = (before, *args[1:])
        slotted_args = tuple([self._slotted(one, numbers) for one in args])
        slotted_kwargs = {key: self._slotted(one, numbers) for key, one in kwargs.items()}
        pairs = zip(outputs, depends, strict=True)
        noted = tuple([self._note(one) if counts else None for one, counts in pairs])
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
            return slot(len(numbers) - 1)
        kind = type(tree)
        if kind is tuple or kind is list:
            return kind([self._slotted(one, numbers) for one in tree])
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


"""Every operation of a forward pass, noted in order."""


"""The arguments of operations, with slots in the place of values, and the forms that an operation has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor


@dataclass(frozen=True)
class Slot:
    """The place of a value in the arguments of a step."""

    index: int


@cache
def slot(index: int) -> Slot:
    """Return the slot of that number; there are few of them, and very many steps."""
    return Slot(index)


# What is asked about a tensor: no value comes out of it.
FACTS = frozenset(
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "requires_grad", "is_cuda", "ndim", "layout", "grad_fn", "_version")
) | {
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.is_contiguous, Tensor.is_floating_point,
    Tensor.__len__, torch.is_floating_point,
}  # fmt: skip


def each(result: Any) -> Sequence[Any]:
    """Return what a call gave as a sequence, also where it is one thing."""
    return result if isinstance(result, list | tuple) else (result,)


@cache
def in_place(func: Any) -> bool:
    """Say whether an operation writes into its argument."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name.startswith("__i") and name not in {"__index__", "__invert__", "__int__"}
    return name.endswith("_")


HALF = (torch.float16, torch.bfloat16)
CASTS = {"to", "type", "type_as", "half", "bfloat16"}


@cache
def copying(func: Any) -> Callable[..., Any]:
    """Return the form of an operation that leaves its argument as it is."""
    if not in_place(func):
        return cast(Callable[..., Any], func)
    name = func.__name__
    plain = getattr(Tensor, name.replace("__i", "__") if name.startswith("__") else name[:-1], None)
    return plain or (lambda first, *args, **kwargs: func(first.clone(), *args, **kwargs))


def filled(tree: Any, values: Sequence[Tensor], *, widen: bool) -> Any:
    """Return arguments with values in their slots; constants of half precision as wide as these, if `widen`."""
    if isinstance(tree, Slot):
        return values[tree.index]
    if isinstance(tree, Tensor):
        return tree.to(values[0].dtype) if widen and tree.dtype in HALF else tree
    if isinstance(tree, list | tuple) and type(tree) in (list, tuple):
        return type(tree)(filled(one, values, widen=widen) for one in tree)
    if isinstance(tree, dict):
        return {key: filled(one, values, widen=widen) for key, one in tree.items()}
    return tree


"""Steps of a tape for a few tokens instead of all of them.

Between the attention of a Transformer's last layer and the end of that layer every token is for itself, and the
prediction reads one or a few of them. Whether that is so of a model is not known but tried: who narrows compares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from whence.capture.tape.tape import Step

_SHAPES = {"view", "reshape", "expand", "unflatten", "flatten"}


def narrowed(steps: Sequence[Step], tokens: int, kept: int) -> list[Step]:
    """Return the same steps for `kept` tokens in each input: shapes that are spelt out change with them."""
    return [_narrowed(step, tokens, kept) for step in steps]


def narrow_values(values: Mapping[int, Tensor], places: Tensor, tokens: int) -> dict[int, Tensor]:
    """Keep some tokens, (batch, kept), of every value that has them: (batch, tokens, ...)."""
    return {number: chosen(value, places, tokens) for number, value in values.items()}


def chosen(value: Tensor, places: Tensor, tokens: int) -> Tensor:
    """Return the rows of a value at some places, if it has a row for each token."""
    if value.dim() < 2 or value.shape[1] != tokens or value.shape[0] != len(places):
        return value
    at = places.reshape(*places.shape, *[1] * (value.dim() - 2))
    return value.gather(1, at.expand(-1, -1, *value.shape[2:]))


def _narrowed(step: Step, tokens: int, kept: int) -> Step:
    if getattr(step.func, "__name__", "") not in _SHAPES:
        return step
    return replace(
        step, args=_renamed(step.args, tokens, kept), kwargs=_renamed(step.kwargs, tokens, kept)
    )


def _renamed(tree: Any, tokens: int, kept: int) -> Any:
    if isinstance(tree, tuple | list):
        return tuple(_renamed(one, tokens, kept) for one in tree)
    if isinstance(tree, dict):
        return {key: _renamed(one, tokens, kept) for key, one in tree.items()}
    is_length = isinstance(tree, int) and not isinstance(tree, bool) and tree == tokens
    return kept if is_length else tree


"""Watching every module of a model at once: where each of them stands, and a hook before and after it."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NamedTuple

from torch import nn
from torch.utils.hooks import RemovableHandle


class Place(NamedTuple):
    """Where a module stands in its model, and what it is."""

    path: tuple[str, ...]
    kind: str  # the class's full name
    leaf: bool  # a module without modules inside


def places(model: nn.Module) -> list[tuple[nn.Module, Place]]:
    """Return every module with its place, in the order of `named_modules`, and each once."""
    found: dict[nn.Module, Place] = {}
    _walk(model, (), found)
    return list(found.items())


def _walk(module: nn.Module, path: tuple[str, ...], found: dict[nn.Module, Place]) -> None:
    inside = [pair for pair in module._modules.items() if pair[1] is not None]
    found[module] = Place(
        path, f"{type(module).__module__}.{type(module).__qualname__}", not inside
    )
    for name, child in inside:
        if child is not None and child not in found:
            _walk(child, (*path, *name.split(".")), found)


def watch(
    modules: Iterable[nn.Module],
    enter: Callable[..., None],
    leave: Callable[..., None],
    stack: ExitStack,
) -> None:
    """Call `enter(module, args, kwargs)` before each of the modules and `leave(module, args, output)` after it.

    PyTorch's own way makes a handle with three references for every hook of every module. On a small input
    that shows; all hooks here are taken off together and share one number.
    """
    number = RemovableHandle(OrderedDict()).id
    watched = list(modules)

    def remove() -> None:
        for module in watched:
            module._forward_pre_hooks.pop(number, None)
            module._forward_pre_hooks_with_kwargs.pop(number, None)
            module._forward_hooks.pop(number, None)

    stack.callback(remove)
    for module in watched:
        module._forward_pre_hooks[number] = enter
        module._forward_pre_hooks_with_kwargs[number] = True
        module._forward_hooks[number] = leave
