"""One forward and at most one backward pass, and everything that readers may want to know about them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from whence.capture.forward import forward, run
from whence.capture.found import as_found
from whence.capture.layer import AttentionLayer
from whence.capture.lookups import Lookup, no_way_back, own, per_token
from whence.capture.recognise import Recognise
from whence.capture.recorder import Recorder
from whence.capture.seam import attention_seam
from whence.capture.tape import Tape
from whence.capture.target import Targets, TargetSpec
from whence.core.errors import BadMethod, BadParameter, NotCapturable
from whence.core.types import Task
from whence.data import Batch

# What a method may need: attention of the forward pass; gradients, which cost a backward pass; every step of the
# forward pass, to follow it, and relevance, which is those steps walked backwards.
GRADIENTS = frozenset({"attention_grad", "hidden_grad", "embedding_grad"})
_FOLLOWED = frozenset({"steps", "relevance"})
NEEDS = frozenset({"attention"}) | GRADIENTS | _FOLLOWED

# Models that offer the seam and, as one forward pass showed, do not use it.
_unrouted: WeakSet[Any] = WeakSet()


def offers_seam(model: Any) -> bool:
    """Say whether attention may go through the seam: true unless a trace found out that it does not."""
    return model not in _unrouted


@dataclass(eq=False)
class Trace:
    """What happened inside the model, for one batch."""

    batch: Batch
    logits: Tensor  # (batch, labels)
    targets: Targets
    attention: list[AttentionLayer]  # every attention call, in the order of the forward pass
    refusal: NotCapturable | None  # why these calls are not one stack of layers over the tokens
    # Weights of the rows the prediction reads, adding up to 1: (batch, tokens), or (batch, 1) where it pools.
    rows: Tensor
    embedding: Tensor | None  # (batch, tokens, features): output of get_input_embeddings()
    embedding_grad: Tensor | None
    tape: Tape | None = None
    outlet: int | None = None  # the logits on the tape
    lookups: list[Lookup] = field(default_factory=list)
    memo: dict[Any, Any] = field(
        default_factory=dict
    )  # what several readers share beyond the trace itself
    # One attention, with one row, sums the tokens up: an RNN's, not a Transformer's.
    pooled: bool = False

    @property
    def layers(self) -> list[AttentionLayer]:
        """The layers from the input to the output; refused where the model is not one stack of them."""
        if self.refusal is not None:
            raise self.refusal
        return self.attention

    @property
    def read_layers(self) -> list[AttentionLayer]:
        """The layers with the rows that the prediction reads: the stack of them, or the one that pools."""
        return self.attention if self.pooled else self.layers

    def layer(self, index: int) -> AttentionLayer:
        """Return one layer; they count from 0 at the input, negative ones from the output."""
        return _numbered(self.layers, index)

    def read_layer(self, index: int) -> AttentionLayer:
        """Return one of the layers whose rows are read, counted in the same way."""
        return _numbered(self.read_layers, index)

    def from_layer(self, start: int) -> list[AttentionLayer]:
        """Return the layers from `start` to the output."""
        return self.layers[self.layers.index(self.layer(start)) :]

    def embeddings(self) -> tuple[Tensor, Tensor]:
        """Return the token embeddings and their gradients, each (batch, tokens, features)."""
        if self.embedding is None or self.embedding_grad is None:
            raise BadMethod(
                "A method reads embedding gradients without stating needs={'embedding_grad'}."
            )
        return self.embedding, self.embedding_grad

    @property
    def real(self) -> Tensor:
        """False at padding, (batch, tokens)."""
        return self.batch.real


def _numbered(layers: list[AttentionLayer], index: int) -> AttentionLayer:
    if not -len(layers) <= index < len(layers):
        raise BadParameter(
            f"There is no layer {index}: the model has {len(layers)}, counted from 0 at the input "
            f"(or from -1 at the output)."
        )
    return layers[index]


def trace(model: Any, batch: Batch, needs: Iterable[str], spec: TargetSpec, task: Task) -> Trace:
    """Run the model once forward, once backward if a gradient is needed, and keep what `needs` names.

    A model of task "none" has no logits to give. What the last block makes of one token stands for them, the last
    token of a causal model and the first of any other: then `rows` is that token's, and a gradient means nothing.
    """
    needs = frozenset(needs)
    attends = bool(needs - {"embedding_grad"})
    gradients = needs & GRADIENTS
    tape = Tape() if needs & _FOLLOWED else None
    recorder = Recorder(batch, cut=not gradients and tape is None, tape=tape)
    with as_found(model) as stack:
        if tape is not None:
            tape.watch_modules(model, stack)
            stack.enter_context(tape)
        if gradients or tape is not None:
            recorder.watch_embeddings(model, stack)
        if attends:
            recorder.watch_blocks(model, stack)
            routed = offers_seam(model) and stack.enter_context(attention_seam(model, recorder))
            if not routed:
                stack.enter_context(Recognise(len(batch), recorder.attention))
        logits = _headless(model, batch, recorder) if task == "none" else run(model, batch)
        outlet = None if tape is None else tape.finish(logits)
        if attends and routed and not recorder.layers:
            _unrouted.add(model)
            stack.close()
            return trace(model, batch, needs, spec, task)
        targets = Targets(*spec.resolve(logits.detach()), spec, task)
        pooled = attends and _pools(recorder, batch)
        refusal = _refusal(model, recorder, batch, pooled) if attends else None
        rows = batch.real.new_zeros(batch.real.shape, dtype=logits.dtype)
        if pooled:
            rows = torch.ones(len(rows), 1, dtype=_summed(logits), device=rows.device)
        elif attends and refusal is None:
            rows = _rows_read(logits, recorder)
        found = _differentiate(recorder, targets.value(logits), needs)
    lookups, embedding, embedding_grad = recorder.lookups, None, None
    if "embedding_grad" in needs:
        embedding = own(batch, lookups)
        embedding_grad = per_token(batch, lookups, [found.get(id(one.leaf)) for one in lookups])
    return Trace(
        batch,
        logits.detach(),
        targets,
        recorder.layers,
        refusal,
        rows,
        embedding,
        embedding_grad,
        tape,
        outlet,
        lookups,
        pooled=pooled,
    )


def _headless(model: Any, batch: Batch, recorder: Recorder) -> Tensor:
    """Run a model without a classification head, and return what its last block makes of one token."""
    forward(model, batch)
    output = recorder.last_output
    if output is None or not recorder.layers:
        return torch.zeros(len(batch), 1, dtype=next(model.parameters()).dtype)
    return output[torch.arange(len(batch), device=output.device), _default_row(recorder)]


def _default_row(recorder: Recorder) -> Tensor:
    """Return the row that is read if nothing else is known: the last token's of a causal model, else the first's."""
    real = recorder.batch.real
    last = real.sum(1) - 1
    return last if _is_causal(recorder.layers[-1], real) else torch.zeros_like(last)


def _refusal(model: Any, recorder: Recorder, batch: Batch, pooled: bool) -> NotCapturable | None:
    """Say why attention methods cannot work: attention not seen, not in every layer, or not one square map."""
    name = type(model).__name__
    use = "Use gradient, grad_x_input or leave_one_out, which need no attention."
    if getattr(model.config, "is_encoder_decoder", False):
        return NotCapturable(
            f"{name} has an encoder and a decoder; one attention row cannot explain both. {use}"
        )
    if not recorder.layers:
        return NotCapturable(
            f"No attention was seen in {name}: it uses neither transformers' attention interface nor PyTorch's "
            f"attention function, and multiplies no softmax with values. {use}"
        )
    if pooled:
        return NotCapturable(
            f"{name} pools its tokens by one row of attention: there is no stack of maps from tokens to tokens. Use "
            "raw_attention, attention_gradient or attention_gradcam, which read that row, or a method that needs no "
            "attention, like grad_x_input or leave_one_out: --method grad_x_input."
        )
    length = batch.real.shape[1]
    for index, layer in enumerate(recorder.layers):
        shape = (layer.length, layer.v.shape[2])
        if shape != (length, length):
            return NotCapturable(
                f"Layer {index} of {name} attends over {shape[0]} x {shape[1]} places, the input has {length} "
                f"tokens: its attention is not one map over the tokens. {use}"
            )
        if layer.hidden is None:
            return NotCapturable(
                f"Layer {index} of {name} is not a block in a list of layers. {use}"
            )
    expected = getattr(model.config, "num_hidden_layers", None)
    if isinstance(expected, int):
        expected *= getattr(model.config, "inner_group_num", 1)  # ALBERT: blocks within a layer
    if isinstance(expected, int) and expected != len(recorder.layers):
        return NotCapturable(
            f"{name} has {expected} layers, but attention was seen in {len(recorder.layers)}: the others move "
            f"information in another way. {use}"
        )
    return None


def _pools(recorder: Recorder, batch: Batch) -> bool:
    """Say whether the only attention is one row over the tokens, and in no block of its own."""
    shapes = [(layer.length, layer.v.shape[2]) for layer in recorder.layers]
    return shapes == [(1, batch.real.shape[1])] and recorder.layers[0].hidden is None


def _differentiate(
    recorder: Recorder, value: Tensor, needs: frozenset[str]
) -> dict[int, Tensor | None]:
    """Take all gradients in one backward pass; return them by the identity of what they belong to."""
    wanted: list[Tensor] = []
    if "embedding_grad" in needs:
        wanted += [lookup.leaf for lookup in recorder.lookups]
    if "attention_grad" in needs:
        wanted += [layer.out for layer in recorder.layers if layer.out is not None]
    if "hidden_grad" in needs:
        wanted += [layer.hidden for layer in recorder.layers if layer.hidden is not None]
    asked = len(wanted)
    wanted = [tensor for tensor in wanted if tensor.requires_grad and value.requires_grad]
    grads = torch.autograd.grad(value.sum(), wanted, allow_unused=True) if wanted else ()
    found: dict[int, Tensor | None] = {}
    if len(wanted) < asked or any(grad is None for grad in grads):
        raise no_way_back()
    found.update((id(tensor), grad) for tensor, grad in zip(wanted, grads, strict=True))
    for layer in recorder.layers:
        if "attention_grad" in needs:
            layer.take_grad(found.get(id(layer.out)))
        if "hidden_grad" not in needs:
            layer.hidden = None
        elif layer.hidden is not None:
            grad = found.get(id(layer.hidden))
            layer.hidden_grad = torch.zeros_like(layer.hidden) if grad is None else grad
        layer.let_go()
    return found


def _rows_read(logits: Tensor, recorder: Recorder) -> Tensor:
    """Ask the gradient which rows of the last block the head reads: those of the others are exactly zero.

    This runs back through the head and no further. It asks about all logits at once, in unequal proportions so that
    they do not cancel: which rows are read is a matter of the model, not of the target. Where dead units make every
    gradient zero all the same, a causal model counts as reading the last token, any other the first.
    """
    output = recorder.last_output
    grad: Tensor | None = None
    if output is not None and output.requires_grad and logits.requires_grad:
        proportions = 1 / torch.arange(1.5, logits.shape[1] + 1, device=logits.device)
        mixture = (logits * proportions.to(logits.dtype)).sum()
        (grad,) = torch.autograd.grad(mixture, output, retain_graph=True, allow_unused=True)
    real = recorder.batch.real
    read = torch.zeros_like(real) if grad is None else grad.ne(0).any(-1) & real
    blind = ~read.any(1)
    if blind.any():
        default = torch.zeros_like(read)
        default[torch.arange(len(real), device=real.device), _default_row(recorder)] = True
        read = torch.where(blind[:, None], default, read)
    weights = read.to(_summed(logits))
    return weights / weights.sum(1, keepdim=True)


def _summed(logits: Tensor) -> torch.dtype:
    """Sums over many tokens need float32 at least, whatever the model computes in."""
    return torch.promote_types(logits.dtype, torch.float32)


@torch.no_grad()
def _is_causal(layer: AttentionLayer, real: Tensor) -> bool:
    first = torch.zeros(1, dtype=torch.long, device=real.device)
    return real.shape[1] > 1 and bool(layer.weights(first)[..., 1:].eq(0).all())
