"""Recorder of a forward pass (embeddings, blocks, attention); rows the prediction reads; reasons for refusal.

The rows are found by the gradient of the logits at the last block's output, not by names. The file also
holds the reasons why attention methods cannot work on a model, stated before any of them runs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Any, Literal

import torch
from torch import Tensor, nn

from whence.core.errors import NotCapturable
from whence.data.batches import Batch
from whence.data.readout import SimilarityReadout
from whence.models.facts import find_token_embeddings, get_facts, get_parts
from whence.tracing.attention_interface import route_attention
from whence.tracing.attention_layer import (
    AttentionLayer,
    ComputedAttention,
    TapePositions,
    find_logsumexp,
    widen_dtype,
)
from whence.tracing.backward import UnsuitableModel
from whence.tracing.recognise import AttentionRecogniser
from whence.tracing.restore import hook_modules
from whence.tracing.structure import (
    METHODS_WITHOUT_ATTENTION,
    EmbeddingLookup,
    EncoderDecoder,
    split_encoder_decoder,
)
from whence.tracing.tape import Tape
from whence.tracing.target import check_finite


@dataclass(eq=False)
class _BlockCall:
    """One call of a block, a member of a ModuleList that may have attention inside."""

    hidden: Tensor | None
    beside: bool = False  # its input is the text an image is compared with, not the explained input
    attends: bool = False
    layers: list[AttentionLayer] = field(default_factory=list)  # attention directly inside


@dataclass(eq=False)
class ForwardRecorder:
    """Hooks that record the embeddings, blocks and attention layers of one forward pass."""

    batch: Batch
    # If no gradients are needed, the graph is cut after every block: the head's graph remains,
    # which is enough to find the rows that the prediction reads.
    cut: bool
    tape: Tape | None = None
    is_checkpointed: bool = False  # then PyTorch's nodes hold no values to read
    layers: list[AttentionLayer] = field(default_factory=list)
    lookups: list[EmbeddingLookup] = field(default_factory=list)
    last_output: Tensor | None = None  # output of the last block with attention
    _refilled: Iterator[AttentionLayer] | None = None  # layers of a block that runs again
    _thread: int = field(default_factory=get_ident)  # another may run the hooked model meanwhile
    _open: list[_BlockCall] = field(default_factory=list)

    @contextmanager
    def record_again(self, first: int) -> Iterator[None]:
        """Fill the layers from number `first` on again from the attention calls of a block's second run."""
        self._refilled = iter(self.layers[first:])
        try:
            yield
        finally:
            self._refilled = None

    def record(self, layer: AttentionLayer) -> None:
        """Record an attention call with the hidden state of its block."""
        if isinstance(layer, ComputedAttention) and not (
            self.is_checkpointed and self._refilled is None
        ):
            layer.logsumexp = find_logsumexp(layer)
        if self._refilled is not None:
            own = next(self._refilled, None)
            if own is None:
                raise UnsuitableModel("a block attends otherwise when it is run again")
            own.refill(layer)
            return
        if self._open:
            if any(frame.beside for frame in self._open):
                return
            layer.hidden = self._open[-1].hidden
            self._open[-1].layers.append(layer)
            for frame in self._open:
                frame.attends = True
        if self.tape is not None:
            layer.places = TapePositions(
                self.tape.number(layer.hidden), self.tape.number(layer.out)
            )
        self.layers.append(layer)

    def watch_attention(self, model: nn.Module, stack: ExitStack) -> bool:
        """Hook the model's blocks (the members of ModuleLists) and its attention; return whether this is routed."""
        stack.enter_context(hook_modules(get_parts(model).blocks, self._enter, self._leave))
        if get_facts(model).is_routable and stack.enter_context(
            route_attention(model, self.record)
        ):
            return True
        stack.enter_context(AttentionRecogniser(len(self.batch), self.record))
        return False

    def _enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if get_ident() != self._thread:
            return
        hidden = next(filter(_is_hidden_state, (*args, kwargs.get("hidden_states"))), None)
        # A similarity model runs the other side of the comparison through blocks of its own.
        compares = isinstance(self.batch.items[0].reading, SimilarityReadout)
        beside = compares and hidden is not None and not hidden.requires_grad
        self._open.append(_BlockCall(hidden, beside))

    def _leave(self, _: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        if get_ident() != self._thread:
            return None
        frame = self._open.pop()
        several = isinstance(output, tuple | list) and bool(output)
        first = output[0] if several else output
        if not (frame.attends and _is_hidden_state(first)):
            return None
        for layer in frame.layers:
            if layer.places is not None and self.tape is not None:
                layer.places.block = self.tape.number(first)
            if self.cut:
                layer.let_go()
        if not self.cut:
            self.last_output = first
            return None
        self.last_output = first.detach().requires_grad_()
        return (self.last_output, *output[1:]) if several else self.last_output

    def watch_embeddings(self, model: Any, stack: ExitStack) -> None:
        """Make the token embeddings, or an image's pixels, the leaves of the graph.

        With images, run the model on `self.batch`, which then holds a copy of that leaf.
        """
        if self.batch.has_images:
            pixels = self.batch.inputs["pixel_values"]
            values = self._embed(model, (pixels,), pixels)
            self.batch = replace(self.batch, inputs={**self.batch.inputs, "pixel_values": values})
            return
        try:
            table = find_token_embeddings(model)
        except NotImplementedError:
            raise NotCapturable(
                f"{type(model).__name__} does not say where its token embeddings are: give it a method "
                "get_input_embeddings(). leave_one_out works without."
            ) from None
        tables = [table]
        if getattr(model.config, "is_encoder_decoder", False):
            tables += [find_side_embeddings(model, side) for side in ("encoder", "decoder")]
        # BART and T5 have several modules that share one table.
        weights = [getattr(table, "weight", None) for table in tables]
        same = dict.fromkeys(table for table in tables if isinstance(table, nn.Module))
        for part in get_parts(model).embeddings:
            if any(part.weight is weight for weight in weights):
                same[part] = None
        for part in same:
            stack.callback(part.register_forward_hook(self._embed).remove)

    def _embed(self, _: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        if get_ident() != self._thread:
            return output
        if not isinstance(output, Tensor):
            raise NotCapturable(
                f"The token embeddings are a {type(output).__name__}, not a tensor: no gradient can be taken. "
                "Use leave_one_out, which needs no gradient."
            )
        leaf = output.detach().requires_grad_()
        number = None if self.tape is None else self.tape.note(leaf)
        self.lookups.append(EmbeddingLookup(args[0], leaf, number))
        return leaf.clone()  # some models write into the embeddings, which a leaf does not allow


def find_side_embeddings(model: Any, side: Literal["encoder", "decoder"]) -> Any:
    """Return the embedding module of one side of an encoder-decoder; None if it has no own one."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return None
    try:
        return getattr(model, f"get_{side}")().get_input_embeddings()
    except (AttributeError, NotImplementedError):  # raised by transformers if there is none
        return None


def _is_hidden_state(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 3 and value.is_floating_point()


def find_read_rows(
    logits: Tensor, recorder: ForwardRecorder, sources: int = 0
) -> Tensor | NotCapturable:
    """Return which rows of the last block the head reads, (batch, rows): those with a gradient.

    The gradient runs back through the head and no further, from all logits at once, in unequal
    proportions so that they do not cancel: the rows depend on the model, not on the target. The rows
    of a decoder come after the `sources`, which have none. Blocks whose values are (tokens, inputs,
    features) are refused.
    """
    output = recorder.last_output
    grad: Tensor | None = None
    if output is not None and output.requires_grad and logits.requires_grad:
        # The rest column, "any other answer", reads every position of a text, so it is left out.
        named = logits[:, :-1] if recorder.batch.items[0].rest else logits
        parts = torch.arange(1.5, named.shape[1] + 1, device=logits.device).reciprocal_()
        parts = parts.to(logits.dtype).expand_as(named)
        (grad,) = torch.autograd.grad(named, output, parts, retain_graph=True, allow_unused=True)
    real = recorder.batch.real[:, sources:]
    if grad is None or output is None:
        return torch.zeros_like(real)
    inputs, tokens = real.shape
    ambiguous = inputs == tokens and inputs > 1
    turned = inputs != tokens and tuple(output.shape[:2]) == (tokens, inputs)
    if turned or (ambiguous and _is_token_first(named, output)):
        return NotCapturable(
            "The blocks of the model put tokens before inputs, so that its rows cannot be told apart by input. "
            f"{METHODS_WITHOUT_ATTENTION}"
        )
    return grad.ne(0).any(-1) & real


def _is_token_first(logits: Tensor, output: Tensor) -> bool:
    """Return whether block outputs are (tokens, inputs, features), as FSMT's are, of as many inputs as tokens.

    Where the shape does not decide, the gradient of one input's logits does: it is zero at all other
    inputs. Two inputs are tested, because the row of one may lie on the diagonal, which is the same
    both ways.
    """
    for number in (0, 1):
        (grad,) = torch.autograd.grad(logits[number].sum(), output, retain_graph=True)
        first, second = grad.ne(0).any(-1).nonzero().unbind(1)
        if bool((first != number).any()) and bool((second == number).all()):
            return True
    return False


def compute_row_weights(
    logits: Tensor, structure: "AttentionStructure", recorder: ForwardRecorder, *, is_checked: bool
) -> Tensor:
    """Return the weights of the rows that the prediction reads, adding up to 1: (batch, tokens), or (batch, 1).

    Raises NotFinite if the logits are not and are to be checked. An input may have no row with a gradient,
    because of dead units. Then a causal model counts as reading the last token, any other model the first.
    """
    logits, read = logits.detach(), structure.read
    sources = 0 if structure.sides is None else structure.sides.sources
    # Half the work of isfinite(), which takes four operations.
    facts = [(logits - logits).eq(0).all()]
    if read is not None:
        facts.append(read.any(1).all())
    fine, *seeing = torch.stack(facts).tolist()  # one device sync for both
    if is_checked and not fine:
        check_finite(logits, "logits")
    real, dtype = recorder.batch.real, widen_dtype(logits.dtype)
    if read is None:
        if structure.pooled:
            return torch.ones(len(real), 1, dtype=dtype, device=real.device)
        return real.new_zeros(real.shape, dtype=logits.dtype)
    if not all(seeing):
        default = torch.zeros_like(read)
        inputs = torch.arange(len(read), device=read.device)
        default[inputs, find_default_row(recorder, sources)] = True
        read = torch.where(read.any(1, keepdim=True), read, default)
    weights = read.to(dtype)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.nn.functional.pad(weights, (sources, 0)) if sources else weights


def find_default_row(recorder: ForwardRecorder, sources: int = 0) -> Tensor:
    """Return the default row of each input: the last token of a causal model, else the first."""
    real = recorder.batch.real[:, sources:]
    last = real.sum(1) - 1
    return last if sources or is_causal_layer(recorder.layers[-1], real) else torch.zeros_like(last)


@torch.no_grad()
def is_causal_layer(layer: AttentionLayer, real: Tensor) -> bool:
    """Return whether the first token of several sees itself alone."""
    first = torch.zeros(1, dtype=torch.long, device=real.device)
    return real.shape[1] > 1 and bool(layer.weights(first)[..., 1:].eq(0).all())


@dataclass(frozen=True, eq=False)
class AttentionStructure:
    """How the recorded attention makes one model: a stack of layers, one row that pools, or an encoder and a decoder."""

    refusal: NotCapturable | None = None  # why it is not one stack of layers over the tokens
    pooled: bool = False
    sides: EncoderDecoder | None = None
    read: Tensor | None = None  # which rows of the last block the prediction reads, (batch, rows)


def find_attention_structure(
    model: Any, recorder: ForwardRecorder, logits: Tensor
) -> AttentionStructure:
    """Return the structure of the recorded attention, or why methods cannot work on it."""
    layers, inputs, width = recorder.layers, recorder.batch.inputs, recorder.batch.real.shape[1]
    # Whether the only attention is one row over the tokens, outside any block.
    pooled = len(layers) == 1 and layers[0].hidden is None
    pooled = pooled and (layers[0].length, layers[0].v.shape[2]) == (1, width)
    sides: EncoderDecoder | NotCapturable | None = None
    if "decoder_input_ids" in inputs:
        targets = inputs["decoder_input_ids"].shape[1]
        sides = split_encoder_decoder(model, layers, width - targets, targets)
    if isinstance(sides, NotCapturable):
        return AttentionStructure(sides, pooled)
    refusal = explain_refusal(model, recorder, pooled, sides)
    if pooled or (sides is None and refusal is not None):
        return AttentionStructure(refusal, pooled)
    read = find_read_rows(logits, recorder, 0 if sides is None else sides.sources)
    if isinstance(read, NotCapturable):
        return AttentionStructure(read)
    return AttentionStructure(refusal, sides=sides, read=read)


def explain_refusal(
    model: Any, recorder: ForwardRecorder, pooled: bool, sides: EncoderDecoder | None
) -> NotCapturable | None:
    """Return why attention methods cannot work: no attention seen, not in every layer, no square map."""
    name, batch = type(model).__name__, recorder.batch
    if sides is not None:
        return sides.refusal(name)
    if getattr(model.config, "is_encoder_decoder", False):
        return NotCapturable(
            f"{name} has an encoder and a decoder; one attention row cannot explain both. {METHODS_WITHOUT_ATTENTION}"
        )
    if not recorder.layers:
        return NotCapturable(
            f"No attention was seen in {name}: it uses neither transformers' attention interface nor PyTorch's "
            f"attention function, and multiplies no softmax with values. {METHODS_WITHOUT_ATTENTION}"
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
            f"windows, or merges patches): there is no one map over its patches. {METHODS_WITHOUT_ATTENTION}"
        )
    length = batch.real.shape[1]
    for index, layer in enumerate(recorder.layers):
        shape = (layer.length, layer.v.shape[2])
        if shape != (length, length):
            return NotCapturable(
                f"Layer {index} of {name} attends over {shape[0]} x {shape[1]} places, the input has {length} "
                f"tokens: its attention is not one map over the tokens. {METHODS_WITHOUT_ATTENTION}"
            )
        if layer.hidden is None:
            return NotCapturable(
                f"Layer {index} of {name} is not a block in a list of layers. {METHODS_WITHOUT_ATTENTION}"
            )
    expected = getattr(model.config, "num_hidden_layers", None)
    if isinstance(expected, int):
        expected *= getattr(model.config, "inner_group_num", 1)  # ALBERT: blocks within a layer
    if isinstance(expected, int) and expected != len(recorder.layers):
        return NotCapturable(
            f"{name} has {expected} layers, but attention was seen in {len(recorder.layers)}: the others move "
            f"information in another way. {METHODS_WITHOUT_ATTENTION}"
        )
    return None
