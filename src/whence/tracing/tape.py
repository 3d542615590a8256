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
