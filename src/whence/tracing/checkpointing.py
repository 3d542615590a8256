"""Gradient checkpointing from outside the model: blocks run without a graph and once more on the way back.

Chen et al. 2016, arXiv:1604.06174. Hooks switch gradients off while a block runs, so that it leaves no
graph. Code between the blocks (embeddings, norms, the head) keeps its own. On the way back a block is
called again with the same arguments, differentiated, and forgotten before the one below it is.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import get_ident
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from whence.data.batches import Batch
from whence.models.model import list_modules
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.backward import (
    LayerVisitor,
    UnsuitableModel,
    select_grad_tensors,
    store_gradients,
)
from whence.tracing.recorder import ForwardRecorder
from whence.tracing.restore import restore_on_exit
from whence.tracing.structure import build_no_gradient_error

# Allowed difference of a block's second run, in units of the largest value's rounding: PyTorch may
# choose different attention kernels with a graph and without one.
_MAX_ROUNDINGS = 64

# Models that turned out not to be a chain of blocks.
_uncheckpointable_models: WeakSet[Any] = WeakSet()


def can_checkpoint(model: Any) -> bool:
    """Return whether a model may be cut into segments: true unless an earlier pass failed at it."""
    return model not in _uncheckpointable_models


def mark_uncheckpointable(model: Any, error: UnsuitableModel) -> None:
    """Remember that a model cannot be cut into segments, and warn the user."""
    _uncheckpointable_models.add(model)
    warnings.warn(
        f"{type(model).__name__} is explained without checkpointing: {error}. The result is the same, and takes as "
        "much memory as without the option.",
        stacklevel=2,
    )


@dataclass(eq=False)
class Segment:
    """One run of a block: its arguments, and its output as a leaf of the following graph."""

    block: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Tensor
    first: int  # the number of the first attention call inside
    calls: int  # the number of attention calls inside
    versions: list[int]  # of the input tensors before the run; a write in place raises a version

    @property
    def end(self) -> int:
        """The number of the first attention call after the segment."""
        return self.first + self.calls

    def list_inputs(self) -> list[Tensor]:
        """Return the arguments that depend on the model's input, each once."""
        return _select_differentiable((self.args, self.kwargs))

    def differs(self, output: Tensor) -> Tensor:
        """Return whether the second run's output differs by more than rounding, as a bool tensor.

        A tensor, not a Python bool: reading it here would synchronise the device for each segment.
        """
        bound = _MAX_ROUNDINGS * torch.finfo(output.dtype).eps * self.output.detach().abs().amax()
        return (output.detach() - self.output.detach()).abs().amax() > bound

    def rerun(self) -> tuple[Tensor, list[Tensor]]:
        """Run the block again; return its output, and the leaves that replaced its inputs.

        A graph is recorded if gradients are enabled in the caller.
        """
        if self.versions != _list_versions(self.list_inputs()):
            raise UnsuitableModel(f"{type(self.block).__name__} writes into what it is given")
        leaves = {id(tensor): tensor.detach().requires_grad_() for tensor in self.list_inputs()}

        def to_leaf(tensor: Tensor) -> Tensor:
            return leaves.get(id(tensor), tensor)

        result = self.block(*_map_tensors(self.args, to_leaf), **_map_tensors(self.kwargs, to_leaf))
        output = _find_hidden_output(result)
        if output is None or output.shape != self.output.shape:
            raise UnsuitableModel(
                f"{type(self.block).__name__} does not give the same when it is run again"
            )
        others = [x for x in _iterate_tensors(result) if x is not output and x.requires_grad]
        if others:
            raise UnsuitableModel(f"{type(self.block).__name__} hands on more than one result")
        return output, list(leaves.values())


class SegmentRecorder:
    """Hooks that cut a forward pass into segments, and run each segment without a graph."""

    def __init__(self, recorder: ForwardRecorder, *, attends: bool, slopes: bool = True) -> None:
        """Take the recorder of the same pass.

        With `attends`, only blocks in which the recorder saw attention become segments; with
        `slopes`, only blocks whose arguments require a gradient.
        """
        self.segments: list[Segment] = []
        self._recorder = recorder
        self._attends = attends
        self._slopes = slopes
        self._depth = 0
        self._first = 0
        self._versions: list[int] = []
        self._paused = False
        self._thread = get_ident()  # another thread may run the hooked model meanwhile

    def watch(self, model: nn.Module, stack: ExitStack) -> None:
        """Hook every member of a ModuleList; the recorder's own hooks must come after these."""
        lists = [part for part in list_modules(model) if isinstance(part, nn.ModuleList)]
        for block in dict.fromkeys(member for part in lists for member in part):
            pre_hook = block.register_forward_pre_hook(self._enter, with_kwargs=True)
            stack.callback(pre_hook.remove)
            hook = block.register_forward_hook(self._leave, with_kwargs=True)
            stack.callback(hook.remove)

    @property
    def whole(self) -> bool:
        """Whether there are segments, and every recorded attention call happened inside one."""
        return bool(self.segments) and sum(segment.calls for segment in self.segments) == len(
            self._recorder.layers
        )

    def _enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if get_ident() != self._thread or self._paused:
            return
        # A block inside a segment belongs to that segment. A block that does not depend on the input,
        # like those for the texts an image is compared with, starts none.
        counts = not self._slopes or any(
            tensor.requires_grad for tensor in _iterate_tensors((args, kwargs))
        )
        if self._depth or counts:
            self._depth += 1
        if self._depth == 1:
            self._first = len(self._recorder.layers)
            self._versions = _list_versions(_select_differentiable((args, kwargs)))
            torch.set_grad_enabled(False)  # if the block raises, `restore_on_exit` enables it again

    def _leave(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        if get_ident() != self._thread or self._paused or not self._depth:
            return None
        self._depth -= 1
        if self._depth:
            return None
        torch.set_grad_enabled(True)
        own = _find_hidden_output(output)
        calls = len(self._recorder.layers) - self._first
        if own is None or (self._attends and not calls):
            return self._with_graph(block, args, kwargs)
        self.let_go()
        leaf = own.detach().requires_grad_()
        self.segments.append(Segment(block, args, kwargs, leaf, self._first, calls, self._versions))
        return _replace_hidden_output(output, leaf)

    def _with_graph(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a block that turned out to be no segment once more, with its graph."""
        self._paused = True
        try:
            return block(*args, **kwargs)
        finally:
            self._paused = False

    def let_go(self) -> None:
        """Drop the last segment's attention tensors except shapes: the backward pass records them again."""
        if not self.segments:
            return
        segment = self.segments[-1]
        for layer in self._recorder.layers[segment.first : segment.end]:
            layer.forget()


def _find_hidden_output(output: Any) -> Tensor | None:
    """Return a block's hidden state: its only result, or the first one."""
    own = output[0] if isinstance(output, tuple | list) and output else output
    return own if isinstance(own, Tensor) and own.is_floating_point() else None


def _replace_hidden_output(output: Any, leaf: Tensor) -> Any:
    return type(output)((leaf, *output[1:])) if type(output) in (tuple, list) else leaf


def _select_differentiable(tree: Any) -> list[Tensor]:
    """Return the tensors that require a gradient, each once."""
    return list({id(x): x for x in _iterate_tensors(tree) if x.requires_grad}.values())


def _list_versions(tensors: list[Tensor]) -> list[int]:
    return [tensor._version for tensor in tensors]


def _iterate_tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for branch in tree:
            yield from _iterate_tensors(branch)
    elif isinstance(tree, dict):
        yield from _iterate_tensors(list(tree.values()))


def _map_tensors(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return change(tree)
    if type(tree) in (list, tuple):
        return type(tree)(_map_tensors(branch, change) for branch in tree)
    if type(tree) is dict:
        return {key: _map_tensors(branch, change) for key, branch in tree.items()}
    return tree


AttentionWatcher = Callable[[Any, ForwardRecorder, ExitStack], object]


class CheckpointedBackward:
    """The backward pass over segments: each is run again, differentiated and dropped.

    `leaves` are the embeddings that the forward pass started from. `watch` installs the recorder of
    attention for the second run of each block, if the first pass recorded attention.
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
        watch: AttentionWatcher | None = None,
        gradient_scale: Tensor | None = None,
    ) -> None:
        self._model = model
        self._gradient_scale = gradient_scale
        self._segments = segments
        self._layers = layers
        self._leaves = list(leaves) if "embedding_grad" in needs else []
        self._value: Tensor | None = value
        self._needs = needs
        self._recorder = ForwardRecorder(batch, cut=False)
        self._watch = watch
        self._slopes = any(name.endswith("_grad") for name in needs)
        # By identity of a segment's output or a leaf: the gradient accumulated so far.
        self._grads: dict[int, Tensor] = {}
        self._differences: list[Tensor] = []  # of each segment: whether its second run differed

    def run(self, first: int, visit: LayerVisitor | None) -> list[Tensor | None]:
        if self._slopes:
            value, self._value = self._value, None
            assert value is not None
            if not value.requires_grad:
                raise build_no_gradient_error()
            self._propagate_between([value.sum()], [None])
            del value
        with restore_on_exit(self._model) as stack:
            if self._watch is not None:
                self._watch(self._model, self._recorder, stack)
            while self._needs_rerun(first):
                segment = self._segments.pop()
                self._rerun_segment(segment, lower=bool(self._leaves) or self._needs_rerun(first))
                for number in reversed(range(segment.first, segment.end)):
                    if visit is not None and number >= first:
                        visit(self._layers[number])
        if self._differences and bool(torch.stack(self._differences).any()):
            raise UnsuitableModel("a block does not give the same when it is run again")
        grads = [self._grads.get(id(leaf)) for leaf in self._leaves]
        if any(grad is None for grad in grads):
            raise build_no_gradient_error()
        return grads

    def _needs_rerun(self, first: int) -> bool:
        """Return whether any of the remaining segments must be run again."""
        return any(self._leaves or segment.end > first for segment in self._segments)

    def _rerun_segment(self, segment: Segment, lower: bool) -> None:
        """Run one segment again, store its layers' gradients, and pass those of its inputs down."""
        with torch.set_grad_enabled(self._slopes):
            output, leaves = segment.rerun()
        self._differences.append(segment.differs(output))
        rerun_layers, self._recorder.layers = self._recorder.layers, []
        self._recorder.last_output = None
        if len(rerun_layers) != segment.calls:
            raise UnsuitableModel(
                f"{type(segment.block).__name__} attends otherwise when it is run again"
            )
        own = self._layers[segment.first : segment.end]
        parts = [select_grad_tensors(layer, self._needs) for layer in rerun_layers]
        if not self._slopes:
            grads: list[Tensor | None] = []
        else:
            upstream = self._grads.pop(id(segment.output), None)
            inputs = [x for part in parts for x in part.values()] + (leaves if lower else [])
            if upstream is None or not output.requires_grad:
                raise build_no_gradient_error()
            grads = list(torch.autograd.grad(output, inputs, upstream, allow_unused=True))
        rest = iter(grads)
        for layer, new, part in zip(own, rerun_layers, parts, strict=True):
            store_gradients(new, {name: next(rest) for name in part}, self._gradient_scale)
            if "hidden_grad" not in self._needs:
                new.hidden = None
            layer.copy_from(new)
        if lower and self._slopes:
            pairs = zip(segment.list_inputs(), rest, strict=True)
            through = [(x, grad) for x, grad in pairs if grad is not None]
            self._propagate_between([x for x, _ in through], [grad for _, grad in through])

    def _propagate_between(self, tensors: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Propagate gradients between segments, down to the outputs of lower ones and to the leaves."""
        ends = {id(x): x for x in (*(segment.output for segment in self._segments), *self._leaves)}
        direct = [tensor for tensor in tensors if id(tensor) in ends]
        for tensor, grad in zip(tensors, grads, strict=True):
            if id(tensor) in ends and grad is not None:
                self._add(tensor, grad)
        if len(direct) == len(tensors):
            return
        outer = [pair for pair in zip(tensors, grads, strict=True) if id(pair[0]) not in ends]
        end_grads = torch.autograd.grad(
            [x for x, _ in outer],
            list(ends.values()),
            [grad for _, grad in outer],
            allow_unused=True,
            retain_graph=True,
        )
        for end, grad in zip(ends.values(), end_grads, strict=True):
            if grad is not None:
                self._add(end, grad)

    def _add(self, end: Tensor, grad: Tensor) -> None:
        before = self._grads.get(id(end))
        self._grads[id(end)] = grad if before is None else before + grad
