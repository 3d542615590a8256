"""Blocks of a model that keep nothing but their input, and are run again one at a time, from the last to the first.

Gradient checkpointing (Chen et al. 2016, arXiv:1604.06174) from outside: hooks switch gradients off while a block
runs, so that it leaves no graph. What stands between the blocks (embeddings, norms, the head) keeps its own. On the
way back a block is called again with what it was given, differentiated, and forgotten before the one below it is.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from threading import get_ident
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from whence.capture.backward import Unsuited
from whence.capture.recorder import Recorder
from whence.models.parts import parts

# How far a block that is run again may be off, in units of the largest value's rounding: with a graph and without one
# PyTorch may take different kernels for attention.
_ROUNDING = 64

# Models that were found to be no chain of blocks.
_uncut: WeakSet[Any] = WeakSet()


def cuts(model: Any) -> bool:
    """Say whether a model may be cut into segments: true unless one pass found out that it cannot."""
    return model not in _uncut


def leave_uncut(model: Any, error: Unsuited) -> None:
    """Remember that a model cannot be cut, and tell who asked for it."""
    _uncut.add(model)
    warnings.warn(
        f"{type(model).__name__} is explained without checkpointing: {error}. The result is the same, and takes as "
        "much memory as without the option.",
        stacklevel=2,
    )


@dataclass(eq=False)
class Segment:
    """One run of a block: what it was given, and what it gave, a leaf to all that comes after."""

    block: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Tensor
    first: int  # the number of the first attention call inside
    calls: int  # how many there are
    versions: list[
        int
    ]  # of what was `given`, before it ran: who writes into a tensor raises its own

    @property
    def end(self) -> int:
        """The number of the first attention call after it."""
        return self.first + self.calls

    def given(self) -> list[Tensor]:
        """Return what of the arguments depends on the input, each once."""
        return _depending((self.args, self.kwargs))

    def differs(self, output: Tensor) -> Tensor:
        """Say whether the block, run again, gave something else than it did, by more than rounding: one bool."""
        most = _ROUNDING * torch.finfo(output.dtype).eps * self.output.detach().abs().amax()
        return (output.detach() - self.output.detach()).abs().amax() > most

    def again(self) -> tuple[Tensor, list[Tensor]]:
        """Run the block again; return its output, and leaves in the place of what was `given`.

        Gradients are followed if they are switched on where this is called.
        """
        if self.versions != _versions(self.given()):
            raise Unsuited(f"{type(self.block).__name__} writes into what it is given")
        leaves = {id(one): one.detach().requires_grad_() for one in self.given()}

        def fresh(one: Tensor) -> Tensor:
            return leaves.get(id(one), one)

        made = self.block(*_mapped(self.args, fresh), **_mapped(self.kwargs, fresh))
        output = _first(made)
        if output is None or output.shape != self.output.shape:
            raise Unsuited(
                f"{type(self.block).__name__} does not give the same when it is run again"
            )
        others = [one for one in _tensors(made) if one is not output and one.requires_grad]
        if others:
            raise Unsuited(f"{type(self.block).__name__} hands on more than one result")
        return output, list(leaves.values())


class Segments:
    """Watches a forward pass, and cuts it into blocks that leave no graph."""

    def __init__(self, recorder: Recorder, *, attends: bool, slopes: bool = True) -> None:
        """With `attends`, only blocks with attention inside, which `recorder` sees, are cut out.

        With `slopes`, only those that depend on the input in a way that can be differentiated.
        """
        self.found: list[Segment] = []
        self._recorder = recorder
        self._attends = attends
        self._slopes = slopes
        self._depth = 0
        self._first = 0
        self._versions: list[int] = []
        self._paused = False
        self._thread = get_ident()  # hooks are the model's, and another thread may use it meanwhile

    def watch(self, model: nn.Module, stack: ExitStack) -> None:
        """Hook every member of a ModuleList; the recorder's own hooks must come after these."""
        lists = [part for part in parts(model) if isinstance(part, nn.ModuleList)]
        for block in dict.fromkeys(member for part in lists for member in part):
            entered = block.register_forward_pre_hook(self._enter, with_kwargs=True)
            stack.callback(entered.remove)
            left = block.register_forward_hook(self._leave, with_kwargs=True)
            stack.callback(left.remove)

    @property
    def whole(self) -> bool:
        """Whether there are segments, and every attention call that was seen happened in one of them."""
        return bool(self.found) and sum(one.calls for one in self.found) == len(
            self._recorder.layers
        )

    def _enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if get_ident() != self._thread or self._paused:
            return
        # Blocks within a block belong to it, and so does what depends on no input: a picture's texts.
        counts = not self._slopes or any(one.requires_grad for one in _tensors((args, kwargs)))
        if self._depth or counts:
            self._depth += 1
        if self._depth == 1:
            self._first = len(self._recorder.layers)
            self._versions = _versions(_depending((args, kwargs)))
            torch.set_grad_enabled(False)  # `as_found` switches it back on, should the block raise

    def _leave(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        if get_ident() != self._thread or self._paused or not self._depth:
            return None
        self._depth -= 1
        if self._depth:
            return None
        torch.set_grad_enabled(True)
        own = _first(output)
        calls = len(self._recorder.layers) - self._first
        if own is None or (self._attends and not calls):
            return self._with_graph(block, args, kwargs)
        self.let_go()
        leaf = own.detach().requires_grad_()
        self.found.append(Segment(block, args, kwargs, leaf, self._first, calls, self._versions))
        return _replaced(output, leaf)

    def _with_graph(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run what turned out to be no segment once more, with its graph."""
        self._paused = True
        try:
            return block(*args, **kwargs)
        finally:
            self._paused = False

    def let_go(self) -> None:
        """Forget what the last segment attended to but for its shape: it is seen once more on the way back."""
        if not self.found:
            return
        segment = self.found[-1]
        for layer in self._recorder.layers[segment.first : segment.end]:
            layer.forget()


def _first(output: Any) -> Tensor | None:
    """Return what a block hands on to the next one: its only result, or the first."""
    own = output[0] if isinstance(output, tuple | list) and output else output
    return own if isinstance(own, Tensor) and own.is_floating_point() else None


def _replaced(output: Any, leaf: Tensor) -> Any:
    return type(output)((leaf, *output[1:])) if type(output) in (tuple, list) else leaf


def _depending(tree: Any) -> list[Tensor]:
    """Return the tensors that depend on the input, each once."""
    return list({id(one): one for one in _tensors(tree) if one.requires_grad}.values())


def _versions(tensors: list[Tensor]) -> list[int]:
    return [one._version for one in tensors]


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for one in tree:
            yield from _tensors(one)
    elif isinstance(tree, dict):
        yield from _tensors(list(tree.values()))


def _mapped(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return change(tree)
    if type(tree) in (list, tuple):
        return type(tree)(_mapped(one, change) for one in tree)
    if type(tree) is dict:
        return {key: _mapped(one, change) for key, one in tree.items()}
    return tree


"""The backward pass of a model that ran without a graph: its segments run again, one at a time."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from whence.capture.anatomy.lookups import no_way_back
from whence.capture.attention.layer import AttentionLayer
from whence.capture.backward import Unsuited, Visit, take, wanted
from whence.capture.found import as_found
from whence.capture.memory.segments import Segment
from whence.capture.recorder import Recorder
from whence.data import Batch

Watch = Callable[[Any, Recorder, ExitStack], object]


class Rerun:
    """The gradients, and the attention, of segments.

    `leaves` are what the forward pass started from, and `watch` makes a recorder see attention as it did then, if it
    did.
    """

    def __init__(
        self,
        model: Any,
        batch: Batch,
        segments: list[Segment],
        layers: Sequence[AttentionLayer],
        leaves: Sequence[Tensor],
        value: Tensor,
        needs: frozenset[str],
        watch: Watch | None = None,
        lift: Tensor | None = None,
    ) -> None:
        self._model = model
        self._lift = lift
        self._segments = segments
        self._layers = layers
        self._leaves = list(leaves) if "embedding_grad" in needs else []
        self._value: Tensor | None = value
        self._needs = needs
        self._recorder = Recorder(batch, cut=False)
        self._watch = watch
        self._slopes = any(name.endswith("_grad") for name in needs)
        # By identity of a segment's output or a leaf: what arrived there so far.
        self._arrived: dict[int, Tensor] = {}
        self._differ: list[Tensor] = []  # of each segment: whether it gave something else this time

    def run(self, first: int, visit: Visit | None) -> list[Tensor | None]:
        if self._slopes:
            value, self._value = self._value, None
            assert value is not None
            if not value.requires_grad:
                raise no_way_back()
            self._spread([value.sum()], [None])
            del value
        with as_found(self._model) as stack:
            if self._watch is not None:
                self._watch(self._model, self._recorder, stack)
            while self._wanted_from(first):
                segment = self._segments.pop()
                self._back(segment, lower=bool(self._leaves) or self._wanted_from(first))
                for number in reversed(range(segment.first, segment.end)):
                    if visit is not None and number >= first:
                        visit(self._layers[number])
        if self._differ and bool(torch.stack(self._differ).any()):
            raise Unsuited("a block does not give the same when it is run again")
        found = [self._arrived.get(id(leaf)) for leaf in self._leaves]
        if any(one is None for one in found):
            raise no_way_back()
        return found

    def _wanted_from(self, first: int) -> bool:
        """Say whether any of the segments that are left must be run again."""
        return any(self._leaves or segment.end > first for segment in self._segments)

    def _back(self, segment: Segment, lower: bool) -> None:
        """Run one segment again, take its gradients, and hand on what belongs to what it was given."""
        with torch.set_grad_enabled(self._slopes):
            output, leaves = segment.again()
        self._differ.append(segment.differs(output))
        seen, self._recorder.layers = self._recorder.layers, []
        self._recorder.last_output = None
        if len(seen) != segment.calls:
            raise Unsuited(f"{type(segment.block).__name__} attends otherwise when it is run again")
        own = self._layers[segment.first : segment.end]
        parts = [wanted(layer, self._needs) for layer in seen]
        if not self._slopes:
            grads: list[Tensor | None] = []
        else:
            upstream = self._arrived.pop(id(segment.output), None)
            inputs = [one for part in parts for one in part.values()] + (leaves if lower else [])
            if upstream is None or not output.requires_grad:
                raise no_way_back()
            grads = list(torch.autograd.grad(output, inputs, upstream, allow_unused=True))
        rest = iter(grads)
        for layer, new, part in zip(own, seen, parts, strict=True):
            take(new, {name: next(rest) for name in part}, self._lift)
            if "hidden_grad" not in self._needs:
                new.hidden = None
            layer.become(new)
        if lower and self._slopes:
            pairs = zip(segment.given(), rest, strict=True)
            through = [(one, grad) for one, grad in pairs if grad is not None]
            self._spread([one for one, _ in through], [grad for _, grad in through])

    def _spread(self, tensors: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Bring gradients of what stands between segments down to the outputs of lower ones, and to the leaves."""
        ends = {id(one): one for one in (*(one.output for one in self._segments), *self._leaves)}
        direct = [tensor for tensor in tensors if id(tensor) in ends]
        for tensor, grad in zip(tensors, grads, strict=True):
            if id(tensor) in ends and grad is not None:
                self._add(tensor, grad)
        if len(direct) == len(tensors):
            return
        outer = [pair for pair in zip(tensors, grads, strict=True) if id(pair[0]) not in ends]
        found = torch.autograd.grad(
            [one for one, _ in outer],
            list(ends.values()),
            [grad for _, grad in outer],
            allow_unused=True,
            retain_graph=True,
        )
        for end, grad in zip(ends.values(), found, strict=True):
            if grad is not None:
                self._add(end, grad)

    def _add(self, end: Tensor, grad: Tensor) -> None:
        before = self._arrived.get(id(end))
        self._arrived[id(end)] = grad if before is None else before + grad
