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


"""Which rows of the last block's output the prediction reads: found by the gradient, not by names."""

import torch
from torch import Tensor

from whence.capture.anatomy.sides import UNATTENDING
from whence.capture.attention.layer import AttentionLayer
from whence.capture.recorder import Recorder
from whence.core.errors import NotCapturable


def rows_read(logits: Tensor, recorder: Recorder, sources: int = 0) -> Tensor | NotCapturable:
    """Ask the gradient which rows of the last block the head reads, (batch, rows): those of the others are zero.

    This runs back through the head and no further. It asks about all logits at once, in unequal proportions so that
    they do not cancel: which rows are read is a matter of the model, not of the target. The rows of a decoder stand
    after the `sources`, which have none. Blocks that put tokens before inputs are refused.
    """
    output = recorder.last_output
    grad: Tensor | None = None
    if output is not None and output.requires_grad and logits.requires_grad:
        # What is left over of an answer in a text stands everywhere else in it.
        named = logits[:, :-1] if recorder.batch.items[0].rest else logits
        parts = torch.arange(1.5, named.shape[1] + 1, device=logits.device).reciprocal_()
        parts = parts.to(logits.dtype).expand_as(named)
        (grad,) = torch.autograd.grad(named, output, parts, retain_graph=True, allow_unused=True)
    real = recorder.batch.real[:, sources:]
    if grad is None or output is None:
        return torch.zeros_like(real)
    if _is_swapped(named, output, real):
        return NotCapturable(
            "The blocks of the model put tokens before inputs, so that its rows cannot be told apart by input. "
            f"{UNATTENDING}"
        )
    return grad.ne(0).any(-1) & real


def _is_swapped(logits: Tensor, output: Tensor, real: Tensor) -> bool:
    """Say whether blocks put tokens before inputs, as FSMT's do: a row would be taken for another input's.

    As many inputs as tokens have the same shape both ways. Then the gradient of one input's logits tells: it is
    zero at all other inputs. Two inputs are asked, as one may be read at the place that means the same both ways.
    """
    inputs, tokens = real.shape
    if inputs != tokens or inputs == 1:
        return tuple(output.shape[:2]) == (tokens, inputs) and inputs != tokens
    for number in (0, 1):
        (grad,) = torch.autograd.grad(logits[number].sum(), output, retain_graph=True)
        first, second = grad.ne(0).any(-1).nonzero().unbind(1)
        if bool((first != number).any()) and bool((second == number).all()):
            return True
    return False


def row_weights(
    read: Tensor, dtype: torch.dtype, recorder: Recorder, sources: int = 0, *, blind: bool
) -> Tensor:
    """Return the weights of the rows that are read, (batch, tokens), adding up to 1.

    Where dead units make every gradient zero all the same, the model is `blind` to what it reads: a causal model
    counts as reading the last token, any other the first.
    """
    if blind:
        real = recorder.batch.real[:, sources:]
        default = torch.zeros_like(read)
        default[torch.arange(len(real), device=real.device), default_row(recorder, sources)] = True
        read = torch.where(read.any(1, keepdim=True), read, default)
    weights = read.to(dtype)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.nn.functional.pad(weights, (sources, 0)) if sources else weights


def default_row(recorder: Recorder, sources: int = 0) -> Tensor:
    """Return the row that is read if nothing else is known: the last token's of a causal model, else the first's."""
    real = recorder.batch.real[:, sources:]
    last = real.sum(1) - 1
    return last if sources or _is_causal(recorder.layers[-1], real) else torch.zeros_like(last)


def waited_for(logits: Tensor, read: Tensor | None) -> tuple[bool, bool]:
    """Say whether all logits are finite, and whether some input has no row that is read: one wait for the device."""
    logits = logits.detach()
    facts = [(logits - logits).eq(0).all()]  # half the work of isfinite(), which is four operations
    if read is not None:
        facts.append(read.any(1).all())
    fine, *seeing = torch.stack(facts).tolist()
    return bool(fine), not all(seeing)


def summed(logits: Tensor) -> torch.dtype:
    """Sums over many tokens need float32 at least, whatever the model computes in."""
    return torch.promote_types(logits.dtype, torch.float32)


@torch.no_grad()
def _is_causal(layer: AttentionLayer, real: Tensor) -> bool:
    first = torch.zeros(1, dtype=torch.long, device=real.device)
    return real.shape[1] > 1 and bool(layer.weights(first)[..., 1:].eq(0).all())


"""Why attention methods cannot work on a model, told before any of them reads it."""

from typing import Any

from whence.capture.anatomy.sides import UNATTENDING, Sides, two_sides
from whence.capture.recorder import Recorder
from whence.core.errors import NotCapturable
from whence.data import Batch


def sides_of(model: Any, recorder: Recorder, batch: Batch) -> Sides | NotCapturable | None:
    """Return an encoder and a decoder that were each given tokens of their own."""
    given = batch.inputs.get("decoder_input_ids")
    if given is None:
        return None
    targets = given.shape[1]
    return two_sides(model, recorder.layers, batch.real.shape[1] - targets, targets)


def why_not(
    model: Any, recorder: Recorder, batch: Batch, pooled: bool, sides: Sides | None
) -> NotCapturable | None:
    """Say why attention methods cannot work: attention not seen, not in every layer, or not one square map."""
    name = type(model).__name__
    if sides is not None:
        return sides.refusal(name)
    if getattr(model.config, "is_encoder_decoder", False):
        return NotCapturable(
            f"{name} has an encoder and a decoder; one attention row cannot explain both. {UNATTENDING}"
        )
    if not recorder.layers:
        return NotCapturable(
            f"No attention was seen in {name}: it uses neither transformers' attention interface nor PyTorch's "
            f"attention function, and multiplies no softmax with values. {UNATTENDING}"
        )
    if pooled:
        return NotCapturable(
            f"{name} pools its tokens by one row of attention: there is no stack of maps from tokens to tokens. Use "
            "raw_attention, attention_gradient or attention_gradcam, which read that row, or a method that needs no "
            "attention, like grad_x_input or leave_one_out: --method grad_x_input."
        )
    picture = batch.items[0].picture
    if picture is not None and not picture.tokens:
        return NotCapturable(
            f"{name} does not keep one token for each patch from the first layer to the last (it attends within "
            f"windows, or merges patches): there is no one map over its patches. {UNATTENDING}"
        )
    length = batch.real.shape[1]
    for index, layer in enumerate(recorder.layers):
        shape = (layer.length, layer.v.shape[2])
        if shape != (length, length):
            return NotCapturable(
                f"Layer {index} of {name} attends over {shape[0]} x {shape[1]} places, the input has {length} "
                f"tokens: its attention is not one map over the tokens. {UNATTENDING}"
            )
        if layer.hidden is None:
            return NotCapturable(
                f"Layer {index} of {name} is not a block in a list of layers. {UNATTENDING}"
            )
    expected = getattr(model.config, "num_hidden_layers", None)
    if isinstance(expected, int):
        expected *= getattr(model.config, "inner_group_num", 1)  # ALBERT: blocks within a layer
    if isinstance(expected, int) and expected != len(recorder.layers):
        return NotCapturable(
            f"{name} has {expected} layers, but attention was seen in {len(recorder.layers)}: the others move "
            f"information in another way. {UNATTENDING}"
        )
    return None


def pools(recorder: Recorder, batch: Batch) -> bool:
    """Say whether the only attention is one row over the tokens, and in no block of its own."""
    shapes = [(layer.length, layer.v.shape[2]) for layer in recorder.layers]
    return shapes == [(1, batch.real.shape[1])] and recorder.layers[0].hidden is None
