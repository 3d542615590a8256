"""Tape of a forward pass: operations in order, for LRP and decompositions; narrowing to tokens.

Autograd's graph can be walked in one way only. The tape keeps each call, its arguments and its module:
relevance walks it backwards, a decomposition walks it forwards, and the gradient stays autograd's own. Only
values that depend on the token embeddings are kept; weights, masks and positions are constants.

Steps can be narrowed to a few tokens: between the attention of a Transformer's last layer and the end of
that layer every token is for itself, and the prediction reads one or a few of them. Callers compare the
result before they rely on it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from threading import get_ident
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from whence.core.errors import NotCapturable
from whence.tracing.restore import hook_modules


@dataclass(frozen=True)
class Slot:
    """A placeholder for a value in the arguments of a step."""

    index: int


get_slot = cache(Slot)  # there are few slots and very many steps


# Queries of a tensor's properties: they return no value.
TENSOR_QUERIES = frozenset(
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "requires_grad", "is_cuda", "ndim", "layout", "grad_fn", "_version")
) | {
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.is_contiguous, Tensor.is_floating_point,
    Tensor.__len__, torch.is_floating_point,
}  # fmt: skip


def to_sequence(result: Any) -> Sequence[Any]:
    """Return the results of a call as a sequence, also a single one."""
    return result if isinstance(result, list | tuple) else (result,)


@cache
def is_in_place(func: Any) -> bool:
    """Return whether an operation writes into its argument."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name.startswith("__i") and name not in {"__index__", "__invert__", "__int__"}
    return name.endswith("_")


HALF_DTYPES = (torch.float16, torch.bfloat16)
CAST_NAMES = {"to", "type", "type_as", "half", "bfloat16"}


@cache
def find_copying_form(func: Any) -> Callable[..., Any]:
    """Return the out-of-place form of an operation."""
    if not is_in_place(func):
        return cast(Callable[..., Any], func)
    name = func.__name__
    plain = getattr(Tensor, name.replace("__i", "__") if name.startswith("__") else name[:-1], None)
    return plain or (lambda first, *args, **kwargs: func(first.clone(), *args, **kwargs))


def fill_slots(tree: Any, values: Sequence[Tensor], *, widen: bool) -> Any:
    """Return arguments with values in their slots; `widen` casts half-precision constants to them."""
    if isinstance(tree, Slot):
        return values[tree.index]
    if isinstance(tree, Tensor):
        return tree.to(values[0].dtype) if widen and tree.dtype in HALF_DTYPES else tree
    if isinstance(tree, list | tuple) and type(tree) in (list, tuple):
        return type(tree)(fill_slots(part, values, widen=widen) for part in tree)
    if isinstance(tree, dict):
        return {key: fill_slots(part, values, widen=widen) for key, part in tree.items()}
    return tree


@dataclass(eq=False, slots=True)
class TapeStep:
    """One operation: its arguments, with slots for the values that depend on the input."""

    # None: the value came from an operation that is hidden from PyTorch's function mode.
    func: Callable[..., Any] | None
    args: Any
    kwargs: Any
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]  # None: an output that does not depend on the input
    module: tuple[str, ...]  # the path of the module that called it

    @property
    def name(self) -> str:
        """The name of the called operation or module, for messages."""
        if self.func is None:
            return "an operation that PyTorch does not show"
        return str(resolve_name(self.func) or getattr(self.func, "__name__", repr(self.func)))

    def fill_arguments(self, values: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with other values; half-precision constants are cast to their dtype."""
        wide = values[0].dtype not in HALF_DTYPES
        args: tuple[Any, ...] = fill_slots(self.args, values, widen=wide)
        kwargs: dict[str, Any] = fill_slots(self.kwargs, values, widen=wide)
        return args, kwargs

    def run(self, values: Sequence[Tensor]) -> Any:
        """Call the operation again on other values."""
        assert self.func is not None
        args, kwargs = self.fill_arguments(values)
        kwargs.pop("inplace", None)
        result = find_copying_form(self.func)(*args, **kwargs)
        # The model casts to half precision to save memory; wide values stay wide and exact here.
        if (
            values[0].dtype in HALF_DTYPES
            or not isinstance(result, Tensor)
            or result.dtype not in HALF_DTYPES
        ):
            return result
        cast_only = getattr(self.func, "__name__", "") in CAST_NAMES
        return args[0] if cast_only else result.to(values[0].dtype)


@dataclass(eq=False, slots=True)
class ModuleCall:
    """One call of a module: the range of its steps, and the numbers of its inputs and outputs."""

    module: tuple[str, ...]
    kind: str  # the class's full name
    first: int
    last: int
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]
    leaf: bool  # a module without modules inside

    @property
    def name(self) -> str:
        """The name of the called operation or module, for messages."""
        return self.kind


@dataclass(eq=False, slots=True)
class _TapeValue:
    tensor: Tensor | None  # detached; None: dropped, and computed again on request
    version: int  # of the tensor when it was recorded


class Tape(TorchFunctionMode):
    """A mode that records each operation that depends on the input while a model runs.

    Weights are frozen, so the tensors that depend on the input are those that require a gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[TapeStep] = []
        self.calls: list[ModuleCall] = []
        self._values: list[_TapeValue] = []
        self._dropped: dict[int, int] = {}  # by number of a dropped value: the step that makes it
        # By identity; the tensors stay alive while the tape runs, so that no identity is reused.
        self._numbers: dict[int, int] = {}
        self._alive: list[Tensor] = []
        # Of the open calls of modules: where the module is, its first step, and its inputs.
        self._open: list[tuple[ModuleLocation, int, tuple[int, ...]]] = []
        self._places: dict[int, ModuleLocation] = {}  # of modules, by identity
        self._running = True
        self._thread = get_ident()  # another thread may run the hooked model meanwhile

    def value(self, number: int) -> Tensor:
        """Return a value as it was when it was recorded."""
        value = self._values[number]
        if value.tensor is None:
            return self._recompute_value(number)
        if value.tensor._version != value.version:
            raise NotCapturable(
                "The model overwrote a value in place after using it, through a view. Methods that follow every "
                "operation (relevance, decompositions) do not work on it; gradient and attention methods do."
            )
        return value.tensor

    def _recompute_value(self, number: int) -> Tensor:
        """Compute a dropped value by running its step again; the result is not stored."""
        step = self.steps[self._dropped[number]]
        assert step.func is not None
        values = [self.value(source) for source in step.inputs]
        args, kwargs = (fill_slots(tree, values, widen=False) for tree in (step.args, step.kwargs))
        with torch.no_grad():
            results = to_sequence(step.func(*args, **kwargs))
        value = results[step.outputs.index(number)]
        assert isinstance(value, Tensor)
        return value

    def number(self, tensor: Tensor | None) -> int | None:
        """Return the number of a value, or None if it does not depend on the input."""
        return None if tensor is None else self._numbers.get(id(tensor))

    def watch_modules(self, model: nn.Module, stack: ExitStack) -> None:
        """Hook every module, so that each step records the module that called it."""
        locations = locate_modules(model)
        self._places = {id(module): place for module, place in locations}
        modules = [module for module, _ in locations]
        stack.enter_context(hook_modules(modules, self._enter, self._leave))

    def finish(self, output: Tensor) -> int | None:
        """Stop recording, release the graph, and return the number of the model's output."""
        number = self.number(output)
        self._running = False
        self._numbers.clear()
        self._alive.clear()
        return number

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if get_ident() != self._thread:
            return
        known = self._numbers
        values = (*args, *kwargs.values()) if kwargs else args
        numbers = tuple([known[id(x)] for x in values if id(x) in known])
        self._open.append((self._places[id(module)], len(self.steps), numbers))

    def _leave(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if get_ident() != self._thread:
            return
        # The output of an operation hidden from PyTorch is recorded here, at its module.
        running = self._running and torch.is_grad_enabled()
        tensors = [x for x in to_sequence(output) if isinstance(x, Tensor)]
        outputs = tuple([self._number_output(x) if running else None for x in tensors])
        place, first, inputs = self._open.pop()
        last = len(self.steps) - 1
        if place.leaf and running and last > first:
            self._drop_inside(first, last, outputs)
        self.calls.append(
            ModuleCall(place.path, place.kind, first, last, inputs, outputs, place.leaf)
        )

    def _number_output(self, tensor: Tensor) -> int | None:
        if id(tensor) in self._numbers:
            return self._numbers[id(tensor)]
        with torch._C.DisableTorchFunctionSubclass(), torch._C.DisableTorchFunction():
            return self._find_or_note(tensor) if tensor.requires_grad else None

    def _drop_inside(self, first: int, last: int, outputs: Sequence[int | None]) -> None:
        """Drop the inner values of a module without submodules: a written-out norm has five of them.

        Most rules treat such a module as one operation. For the others, its few steps run again.
        """
        inside = range(first, last + 1)
        if any(is_in_place(self.steps[at].func) or self.steps[at].func is None for at in inside):
            return
        for at in inside:
            for number in self.steps[at].outputs:
                if number is not None and number not in outputs:
                    self._values[number].tensor = None
                    self._dropped[number] = at

    def note(self, tensor: Tensor) -> int:
        """Record a value, such as a leaf, where the input enters, and return its number."""
        number = len(self._values)
        detached = tensor.detach()
        self._values.append(_TapeValue(detached, detached._version))
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
        if func in TENSOR_QUERIES or not self._running:
            return func(*args, **kwargs)
        before = None
        if args and (is_in_place(func) or kwargs.get("inplace")):
            before = args[0].detach().clone()
        result = func(*args, **kwargs)
        if before is None and args and result is args[0]:
            return result  # dropout in evaluation mode, a cast to the same dtype
        outputs = to_sequence(result)
        depends = [isinstance(output, Tensor) and output.requires_grad for output in outputs]
        if True not in depends:
            return result
        numbers: list[int] = []
        if before is not None and id(args[0]) in self._numbers:
            self._values[self._numbers[id(args[0])]] = _TapeValue(before, before._version)
        elif before is not None:  # it was a constant before this write
            args = (before, *args[1:])
        slotted_args = tuple([self._put_slots(part, numbers) for part in args])
        slotted_kwargs = {key: self._put_slots(part, numbers) for key, part in kwargs.items()}
        pairs = zip(outputs, depends, strict=True)
        out_ids = tuple([self.note(output) if counts else None for output, counts in pairs])
        self.steps.append(
            TapeStep(func, slotted_args, slotted_kwargs, tuple(numbers), out_ids, self._path())
        )
        return result

    def _path(self) -> tuple[str, ...]:
        return self._open[-1][0].path if self._open else ()

    def _put_slots(self, tree: Any, numbers: list[int]) -> Any:
        """Replace every recorded value by a slot, and collect the values' numbers."""
        if isinstance(tree, Tensor):
            if not tree.requires_grad:
                return tree
            numbers.append(self._find_or_note(tree))
            return get_slot(len(numbers) - 1)
        kind = type(tree)
        if kind is tuple or kind is list:
            return kind([self._put_slots(part, numbers) for part in tree])
        if isinstance(tree, dict):
            return {key: self._put_slots(part, numbers) for key, part in tree.items()}
        return tree

    def _find_or_note(self, tensor: Tensor) -> int:
        number = self._numbers.get(id(tensor))
        if number is not None:
            return number
        number = self.note(tensor)
        self.steps.append(TapeStep(None, (), {}, (), (number,), self._path()))
        return number


def run_steps(
    steps: Sequence[TapeStep],
    known: Mapping[int, Tensor],
    find: Callable[[int], Tensor],
    run: Callable[[TapeStep, list[Tensor]], Any] = TapeStep.run,
) -> dict[int, Tensor]:
    """Run steps again in their order from known values; `find` returns those neither known nor computed."""
    values = dict(known)
    for step in steps:
        result = run(step, [values[n] if n in values else find(n) for n in step.inputs])
        for number, value in zip(step.outputs, to_sequence(result), strict=True):
            if number is not None:
                values[number] = value
    return values


_SHAPE_OPS = {"view", "reshape", "expand", "unflatten", "flatten"}


def narrow_steps(steps: Sequence[TapeStep], tokens: int, count: int) -> list[TapeStep]:
    """Return the same steps for `count` tokens per input; literal shapes are changed to fit."""

    def replace_length(tree: Any) -> Any:
        if isinstance(tree, tuple | list):
            return tuple(replace_length(part) for part in tree)
        if isinstance(tree, dict):
            return {key: replace_length(part) for key, part in tree.items()}
        is_length = isinstance(tree, int) and not isinstance(tree, bool) and tree == tokens
        return count if is_length else tree

    return [
        replace(step, args=replace_length(step.args), kwargs=replace_length(step.kwargs))
        if getattr(step.func, "__name__", "") in _SHAPE_OPS
        else step
        for step in steps
    ]


def narrow_values(values: Mapping[int, Tensor], places: Tensor, tokens: int) -> dict[int, Tensor]:
    """Return the values at some token positions, (batch, count), where they have a row for each token."""
    narrowed = dict(values)
    for number, value in values.items():
        if value.dim() >= 2 and value.shape[:2] == (len(places), tokens):
            at = places.reshape(*places.shape, *[1] * (value.dim() - 2))
            narrowed[number] = value.gather(1, at.expand(-1, -1, *value.shape[2:]))
    return narrowed


class ModuleLocation(NamedTuple):
    """The path and the class of a module in its model."""

    path: tuple[str, ...]
    kind: str  # the class's full name
    leaf: bool  # a module without modules inside


def locate_modules(model: nn.Module) -> list[tuple[nn.Module, ModuleLocation]]:
    """Return every module with its location, in the order of `named_modules`, each once."""
    locations: dict[nn.Module, ModuleLocation] = {}
    _collect_modules(model, (), locations)
    return list(locations.items())


def _collect_modules(
    module: nn.Module, path: tuple[str, ...], locations: dict[nn.Module, ModuleLocation]
) -> None:
    inside = [pair for pair in module._modules.items() if pair[1] is not None]
    kind = f"{type(module).__module__}.{type(module).__qualname__}"
    locations[module] = ModuleLocation(path, kind, not inside)
    for name, child in inside:
        if child is not None and child not in locations:
            _collect_modules(child, (*path, *name.split(".")), locations)
