"""Gradient checkpointing: a block keeps only its input, and runs again when its gradient is taken.

PyTorch's own checkpointing, from outside: the blocks' forward passes are wrapped for the length of one pass. The
option of transformers' models wants training mode, which switches dropout on in some of them. What the recorder
captured in a block is dropped with the rest, and captured anew when the block runs again.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop

from whence.models.facts import get_facts, get_parts
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.backward import UnsuitableModel
from whence.tracing.recognise import AttentionRecogniser
from whence.tracing.recorder import ForwardRecorder

# Allowed difference of a block's second run, in units of the largest value's rounding.
_MAX_ROUNDINGS = 64


def mark_uncheckpointable(model: Any, error: UnsuitableModel) -> None:
    """Remember that a model's blocks cannot run again, and warn the user."""
    get_facts(model).is_checkpointable = False
    warnings.warn(
        f"{type(model).__name__} is explained without checkpointing: {error}. The result is the same, and takes as "
        "much memory as without the option.",
        stacklevel=2,
    )


@dataclass(eq=False)
class BlockCheckpoints:
    """The checkpointed blocks of one forward pass.

    PyTorch's graph keeps the blocks' runs, and a recorded layer keeps PyTorch's graph. So runs refer to this object
    weakly: whoever takes the backward pass holds it.
    """

    recorder: ForwardRecorder | None = None  # of the pass, if it has one
    recognises: bool = False  # whether the recorder recognises attention
    # Of each block: whether its second run differed.
    differences: list[Tensor] = field(default_factory=list)
    context: Context | None = None  # of a backward pass, which may run blocks in its own threads
    _thread: int = field(default_factory=get_ident)  # another may run the model meanwhile
    _is_inside: bool = False
    _last_layers: list[AttentionLayer] = field(default_factory=list)

    def watch(self, model: nn.Module, stack: ExitStack) -> None:
        """Checkpoint every outermost member of a ModuleList until the stack is closed."""
        for block in get_parts(model).blocks:
            own = vars(block).get("forward")  # of the instance, if it has one
            if own is None:
                stack.callback(delattr, block, "forward")
            else:
                stack.callback(setattr, block, "forward", own)
            block.forward = partial(self._run, block.forward)

    def _run(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._is_inside or get_ident() != self._thread:
            return forward(*args, **kwargs)
        self._is_inside = True
        recorder = self.recorder
        first = 0 if recorder is None else len(recorder.layers)
        try:
            # To the end, so that the outputs can be compared.
            with set_checkpoint_early_stop(False):
                run = _BlockRun(forward, first, ref(self))
                result = checkpoint(run, *args, use_reentrant=False, **kwargs)
        finally:
            self._is_inside = False
        if recorder is not None and len(recorder.layers) > first:
            # The last block's values stay: whether a model is causal may be read from its map.
            for layer in self._last_layers:
                layer.drop_values()
            self._last_layers = recorder.layers[first:]
        return result

    @contextmanager
    def run_again(self) -> Iterator[None]:
        """Let blocks run again in a backward pass inside; raise UnsuitableModel if one does otherwise than before."""
        self.context = copy_context()
        try:
            yield
        except CheckpointError as error:
            raise UnsuitableModel(_OTHER_RESULT) from error
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise UnsuitableModel("a block writes into what it is given") from error
        if self.differences and bool(torch.stack(self.differences).any()):
            raise UnsuitableModel(_OTHER_RESULT)


_OTHER_RESULT = "a block does not give the same when it is run again"


@dataclass(eq=False)
class _BlockRun:
    """The first and the second run of one block."""

    forward: Callable[..., Any]
    first: int  # the number of the first attention layer inside
    owner: ReferenceType[BlockCheckpoints]
    has_run: bool = False
    output: Tensor | None = None  # of the first run, without its graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_run:
            result = self.forward(*args, **kwargs)
            self.has_run, self.output = True, _find_hidden_state(result)
            return result
        owner = self.owner()
        assert owner is not None and owner.context is not None, "a backward pass runs in run_again"
        result = owner.context.copy().run(self._record_again, owner, *args, **kwargs)
        output = _find_hidden_state(result)
        if output is not None and self.output is not None:
            # A tensor, not a bool: reading it here would synchronise the device for each block.
            bound = _MAX_ROUNDINGS * torch.finfo(output.dtype).eps * self.output.abs().amax()
            owner.differences.append((output - self.output).abs().amax() > bound)
        return result

    def _record_again(self, owner: BlockCheckpoints, *args: Any, **kwargs: Any) -> Any:
        recorder = owner.recorder
        if recorder is None:
            return self.forward(*args, **kwargs)
        with ExitStack() as stack:
            stack.enter_context(recorder.record_again(self.first))
            if owner.recognises:
                stack.enter_context(AttentionRecogniser(len(recorder.batch), recorder.record))
            return self.forward(*args, **kwargs)


def _find_hidden_state(result: Any) -> Tensor | None:
    """Return a block's hidden state, its only result or the first one, without its graph."""
    state = result[0] if isinstance(result, tuple | list) and result else result
    return state.detach() if isinstance(state, Tensor) and state.is_floating_point() else None
