"""Watching one forward pass: the embeddings, the blocks, and the attention inside them."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Any, Literal

from torch import Tensor, nn

from whence.capture.anatomy.lookups import Lookup
from whence.capture.attention.layer import AttentionLayer, Places
from whence.capture.tape.tape import Tape
from whence.capture.watching import watch
from whence.core.errors import NotCapturable
from whence.data import Batch
from whence.data.reading import Similarity
from whence.models.parts import parts
from whence.models.table import token_table


@dataclass(eq=False)
class _Frame:
    """One run of a block: a member of a ModuleList that may have attention inside."""

    hidden: Tensor | None
    beside: bool = False  # it works on what the input is held against, not on the input
    attends: bool = False
    layers: list[AttentionLayer] = field(default_factory=list)  # those directly inside


class Recorder:
    """Watches one forward pass."""

    def __init__(self, batch: Batch, *, cut: bool, tape: Tape | None = None) -> None:
        self.batch = batch
        self.tape = tape
        self._thread = get_ident()  # hooks are the model's, and another thread may use it meanwhile
        self.layers: list[AttentionLayer] = []
        self.lookups: list[Lookup] = []
        self.last_output: Tensor | None = None  # of the last block that attends
        # Without gradients to take, cut the graph after every block: only the head's is left in the end, which
        # is enough to find the rows that the prediction reads.
        self._cut = cut
        self._open: list[_Frame] = []
        # A model that holds the input against something else runs that through blocks of its own.
        self._compares = isinstance(batch.items[0].reading, Similarity)

    def attention(self, layer: AttentionLayer) -> None:
        """Take note of an attention call and of the block it happens in."""
        if self._compares and any(frame.beside for frame in self._open):
            return
        if self._open:
            layer.hidden = self._open[-1].hidden
            self._open[-1].layers.append(layer)
            for frame in self._open:
                frame.attends = True
        if self.tape is not None:
            layer.places = Places(self.tape.number(layer.hidden), self.tape.number(layer.out))
        self.layers.append(layer)

    def watch_blocks(self, model: nn.Module, stack: ExitStack) -> None:
        """Hook every member of a ModuleList: those that turn out to attend are the model's layers."""
        lists = [part for part in parts(model) if isinstance(part, nn.ModuleList)]
        blocks = dict.fromkeys(member for part in lists for member in part)
        watch(blocks, self._enter, self._leave, stack)

    def _enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if get_ident() != self._thread:
            return
        hidden = args[0] if args else None
        if not _is_hidden(hidden):
            candidates = [*args, kwargs.get("hidden_states")]
            hidden = next((x for x in candidates if _is_hidden(x)), None)
        beside = self._compares and hidden is not None and not hidden.requires_grad
        self._open.append(_Frame(hidden, beside))

    def _leave(self, _: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        if get_ident() != self._thread:
            return None
        frame = self._open.pop()
        several = isinstance(output, tuple | list) and bool(output)
        first = output[0] if several else output
        if not (frame.attends and _is_hidden(first)):
            return None
        for layer in frame.layers:
            if layer.places is not None and self.tape is not None:
                layer.places.block = self.tape.number(first)
            if self._cut:
                layer.let_go()
        if not self._cut:
            self.last_output = first
            return None
        self.last_output = first.detach().requires_grad_()
        return (self.last_output, *output[1:]) if several else self.last_output

    def watch_embeddings(self, model: Any, stack: ExitStack) -> None:
        """Make the token embeddings the leaves of the graph: everything before them is a lookup.

        Of pictures it is the pixels: run the model on `self.batch` then, which has them.
        """
        if self.batch.pictures:
            self._look()
            return
        try:
            table = token_table(model)
        except NotImplementedError:
            raise NotCapturable(
                f"{type(model).__name__} does not say where its token embeddings are: give it a method "
                "get_input_embeddings(). leave_one_out works without."
            ) from None
        tables = [table, side_table(model, "encoder"), side_table(model, "decoder")]
        # BART and T5 keep one table and several modules around it.
        weights = [getattr(one, "weight", None) for one in tables]
        named = {id(one) for one in tables}
        same = [
            part
            for part in parts(model)
            if (isinstance(part, nn.Embedding) and any(part.weight is one for one in weights))
            or id(part) in named
        ]
        for part in same:
            stack.callback(part.register_forward_hook(self._embed).remove)

    def _look(self) -> None:
        pixels = self.batch.inputs["pixel_values"]
        leaf = pixels.detach().clone().requires_grad_()
        number = None if self.tape is None else self.tape.leaf(leaf)
        self.lookups.append(Lookup(pixels, leaf, number))
        self.batch = replace(self.batch, inputs={**self.batch.inputs, "pixel_values": leaf})

    def _embed(self, _: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        if get_ident() != self._thread:
            return output
        if not isinstance(output, Tensor):
            raise NotCapturable(
                f"The token embeddings are a {type(output).__name__}, not a tensor: no gradient can be taken. "
                "Use leave_one_out, which needs no gradient."
            )
        leaf = output.detach().requires_grad_()
        number = None if self.tape is None else self.tape.leaf(leaf)
        self.lookups.append(Lookup(args[0], leaf, number))
        return leaf.clone()  # some models write into it, which a leaf does not allow


def side_table(model: Any, side: Literal["encoder", "decoder"]) -> Any:
    """Return where one side of an encoder-decoder looks its tokens up: most share one table, some do not."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return None
    try:
        return getattr(model, f"get_{side}")().get_input_embeddings()
    except (AttributeError, NotImplementedError):  # what transformers raises where there is none
        return None


def _is_hidden(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 3 and value.is_floating_point()
