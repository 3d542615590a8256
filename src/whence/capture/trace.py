"""One forward and at most one backward pass, and everything that readers may want to know about them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from whence.capture.forward import forward
from whence.capture.found import as_found
from whence.capture.heads import Head
from whence.capture.layer import AttentionLayer, Combination, contract
from whence.capture.lookups import Lookup, no_way_back, own, per_token
from whence.capture.readout import outputs, read
from whence.capture.recognise import Recognise
from whence.capture.recorder import Recorder
from whence.capture.refusal import pools, sides_of, why_not
from whence.capture.rows import default_row, rows_read, summed
from whence.capture.seam import attention_seam
from whence.capture.sides import Sides, Stack, numbered
from whence.capture.tape import Tape
from whence.capture.target import Targets, TargetSpec, finite
from whence.core.errors import BadMethod, NotCapturable
from whence.core.types import Task
from whence.data import Batch
from whence.data.reading import Similarity

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
    # By method: scores of a picture's pixels, (batch, height, width), where it has them.
    fine: dict[str, Tensor] = field(default_factory=dict)
    # One attention, with one row, sums the tokens up: an RNN's, not a Transformer's.
    pooled: bool = False
    sides: Sides | None = None  # an encoder and a decoder, where that is why they are not one stack
    heads: dict[str, Head] = field(default_factory=dict)  # beside a tape: what was read

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

    @property
    def stacks(self) -> list[Stack]:
        """The stacks of layers in which tokens attend to each other: one, or an encoder's and a decoder's."""
        return self.sides.stacks if self.sides else [Stack(self.layers, slice(None))]

    def layer(self, index: int) -> AttentionLayer:
        """Return one layer; they count from 0 at the input, negative ones from the output."""
        return numbered(self.layers, index)

    def read_layer(self, index: int) -> AttentionLayer:
        """Return one of the layers whose rows are read, counted in the same way."""
        return numbered(self.read_layers, index)

    def read(
        self, row: Tensor, layer: int | None, combination: Combination = "attention"
    ) -> list[Tensor]:
        """Return what a row gives to every token in one of the layers whose rows are read, or in each of them."""
        if self.sides is None:
            layers = self.read_layers if layer is None else [self.read_layer(layer)]
            return [contract(one, row, combination) for one in layers]
        both = self.sides.decoder if layer is None else [numbered(self.sides.decoder, layer)]
        return [self.sides.read(one, row, combination) for one in both]

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

    @property
    def queries(self) -> Tensor:
        """The tokens of which the last layer has a row, (batch, tokens): all, or those of the decoder."""
        if self.sides is None:
            return self.real
        queries = self.real.clone()
        queries[:, : self.sides.sources] = False
        return queries


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
        compares = isinstance(batch.items[0].reading, Similarity)
        if gradients or tape is not None or compares:
            recorder.watch_embeddings(model, stack)
        if attends:
            recorder.watch_blocks(model, stack)
            routed = offers_seam(model) and stack.enter_context(attention_seam(model, recorder))
            if not routed:
                stack.enter_context(Recognise(len(batch), recorder.attention))
        given = recorder.batch  # with the pixels of pictures as a leaf
        if task == "none":
            logits = _headless(model, given, recorder)
            made = {"logits": logits}
        else:
            output = forward(model, given)
            logits = finite(read(output, given, type(model).__name__), "logits")
            made = outputs(output, given)
        outlet, heads = None, {}
        if tape is not None:
            heads = {name: Head(one.detach(), tape.number(one)) for name, one in made.items()}
            outlet = tape.finish(logits)
        if attends and routed and not recorder.layers:
            _unrouted.add(model)
            stack.close()
            return trace(model, batch, needs, spec, task)
        targets = Targets(*spec.resolve(logits.detach()), spec, task)
        pooled = attends and pools(recorder, batch)
        sides = sides_of(model, recorder, batch) if attends else None
        if isinstance(sides, NotCapturable):
            sides, refusal = None, sides
        else:
            refusal = why_not(model, recorder, batch, pooled, sides) if attends else None
        rows = batch.real.new_zeros(batch.real.shape, dtype=logits.dtype)
        if pooled:
            rows = torch.ones(len(rows), 1, dtype=summed(logits), device=rows.device)
        elif sides is not None:
            rows = rows_read(logits, recorder, sides.sources)
        elif attends and refusal is None:
            rows = rows_read(logits, recorder)
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
        sides=sides,
        heads=heads,
    )


def _headless(model: Any, batch: Batch, recorder: Recorder) -> Tensor:
    """Run a model without a classification head, and return what its last block makes of one token."""
    forward(model, batch)
    output = recorder.last_output
    if output is None or not recorder.layers:
        return torch.zeros(len(batch), 1, dtype=next(model.parameters()).dtype)
    return output[torch.arange(len(batch), device=output.device), default_row(recorder)]


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
