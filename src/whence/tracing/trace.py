"""`Trace` of a batch for methods to read (layers, gradients): one forward and at most one backward pass."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from whence.core.errors import BadMethod, NotCapturable
from whence.core.types import Task
from whence.data.batches import Batch
from whence.data.readout import SimilarityReadout
from whence.kernels.contract import contract
from whence.kernels.maps import Combination
from whence.models.facts import get_facts
from whence.tracing.attention_interface import route_attention
from whence.tracing.attention_layer import AttentionLayer, select_layer, widen
from whence.tracing.backward import BackwardPass, LayerVisitor, UnsuitableModel
from whence.tracing.checkpointing import BlockCheckpoints, mark_uncheckpointable
from whence.tracing.forward import (
    CaptureRoute,
    build_route_key,
    is_faithful,
    list_replaceable_implementations,
    route_unobserved,
    run_forward,
    run_without_dense_masks,
    select_output_tensors,
)
from whence.tracing.recorder import (
    AttentionStructure,
    ForwardRecorder,
    compute_row_weights,
    find_attention_structure,
    find_default_row,
    is_causal_layer,
)
from whence.tracing.restore import restore_on_exit
from whence.tracing.structure import (
    EmbeddingLookup,
    EncoderDecoder,
    LayerStack,
    OutputHead,
    select_token_embeddings,
    sum_per_token,
    undo_gradient_scale,
)
from whence.tracing.tape import Tape
from whence.tracing.target import ResolvedTargets, TargetSpec, read_logits, select_model_outputs

# Values for `needs` of a method: attention of the forward pass; gradients, which cost a backward pass;
# "steps", every operation of the forward pass, and "relevance", LRP backwards over these steps.
GRADIENTS = frozenset({"attention_grad", "hidden_grad", "embedding_grad"})
TAPE_NEEDS = frozenset({"steps", "relevance"})
NEEDS = frozenset({"attention"}) | GRADIENTS | TAPE_NEEDS

State = TypeVar("State")


@dataclass(eq=False)
class Trace:
    """The record of one forward pass and at most one backward pass over a batch, for methods to read."""

    batch: Batch
    logits: Tensor  # (batch, labels)
    targets: ResolvedTargets
    attention: list[AttentionLayer]  # every attention call, in the order of the forward pass
    refusal: NotCapturable | None  # why these calls are not one stack of layers over the tokens
    # Weights of the rows the prediction reads, adding up to 1: (batch, tokens), or (batch, 1) where it pools.
    rows: Tensor
    embedding: Tensor | None  # (batch, tokens, features): output of get_input_embeddings()
    embedding_grad: Tensor | None
    tape: Tape | None = None
    outlet: int | None = None  # the logits on the tape
    lookups: list[EmbeddingLookup] = field(default_factory=list)
    # results that several methods share beyond the trace itself
    memo: dict[Any, Any] = field(default_factory=dict)
    # By method: scores of an image's pixels, (batch, height, width), if it has them.
    fine: dict[str, Tensor] = field(default_factory=dict)
    # The only attention is one row that pools the tokens: an RNN's, not a Transformer's.
    pooled: bool = False
    # encoder and decoder, if that is why the layers are not one stack
    sides: EncoderDecoder | None = None
    heads: dict[str, OutputHead] = field(default_factory=dict)  # with a tape: the read outputs
    readers: int | None = None  # methods that have yet to read the trace; None: unknown
    pending: BackwardPass | None = None  # a backward pass that waits for the first read
    # takes the trace again with all layers at once, if the pending pass fails
    again: "Callable[[UnsuitableModel], Trace] | None" = None
    lift: Tensor | None = None  # the gradient scale of the target, (batch,)

    @property
    def layers(self) -> list[AttentionLayer]:
        """The layers from the input to the output; raises the refusal where they are not one stack."""
        if self.refusal is not None:
            raise self.refusal
        self.run_pending_backward()
        return self.attention

    @property
    def read_layers(self) -> list[AttentionLayer]:
        """The layers with the rows that the prediction reads: the stack, or the single layer that pools."""
        if not self.pooled:
            return self.layers
        self.run_pending_backward()
        return self.attention

    @property
    def stacks(self) -> list[LayerStack]:
        """The stacks of layers in which tokens attend to each other: one, or an encoder's and a decoder's."""
        return self.sides.stacks if self.sides else [LayerStack(self.layers, slice(None))]

    def layer(self, index: int) -> AttentionLayer:
        """Return one layer; they count from 0 at the input, negative ones from the output."""
        return select_layer(self.layers, index)

    def read_layer(self, index: int) -> AttentionLayer:
        """Return one of `read_layers`, counted in the same way."""
        return select_layer(self.read_layers, index)

    def read(
        self, rows: Sequence[Tensor], layer: int | None, combination: Combination = "attention"
    ) -> list[Tensor]:
        """Return the contractions of rows with one of `read_layers`, or with each, (rows, batch, tokens)."""

        def read_rows(one: AttentionLayer) -> Tensor:
            return torch.stack([contract(one, row, combination) for row in rows])

        if self.sides is None and layer is not None:
            return [self.at(layer, read_rows)]
        if self.sides is None:
            empty: list[Tensor] = []
            return self.descend(0, empty, lambda one, rest: [read_rows(one), *rest], pooled=True)
        sides = self.sides
        both = sides.decoder if layer is None else [select_layer(sides.decoder, layer)]
        return [torch.stack([sides.read(one, row, combination) for row in rows]) for one in both]

    def from_layer(self, start: int) -> list[AttentionLayer]:
        """Return the layers from `start` to the output."""
        layers = self.layers
        return layers[layers.index(select_layer(layers, start)) :]

    def descend(
        self,
        start: int,
        state: State,
        step: Callable[[AttentionLayer, State], State],
        *,
        pooled: bool = False,
    ) -> State:
        """Carry a state from the last layer down to `start`, and return it: each step gets a layer and the state.

        If this is the only reader, a layer is dropped after its step, and a pending backward pass runs meanwhile, no
        further down than to `start`. With `pooled`, a single layer that pools counts as a stack.
        """
        if self.refusal is not None and not (pooled and self.pooled):
            raise self.refusal
        first, current = self.attention.index(select_layer(self.attention, start)), state

        def visit(layer: AttentionLayer) -> None:
            nonlocal current
            current = step(layer, current)
            layer.forget()

        if (
            self.readers == 1
            and self.pending is not None
            and self.run_pending_backward(first, visit)
        ):
            return current
        self.run_pending_backward()
        for layer in reversed(self.attention[first:]):
            state = step(layer, state)
            if self.readers == 1:
                layer.forget()
        return state

    def at(self, index: int, read: Callable[[AttentionLayer], State]) -> State:
        """Return `read` of one of `read_layers`; no gradient is computed below it."""

        def read_selected(layer: AttentionLayer, _: list[State]) -> list[State]:
            return [read(layer)] if layer is select_layer(self.attention, index) else []

        results: list[State] = []
        return self.descend(index, results, read_selected, pooled=True)[0]

    def sum_layers(
        self, layer: int | None, part: Callable[[AttentionLayer, slice], Tensor]
    ) -> Tensor:
        """Add up `part` of every layer, or of one; its second argument is the slice of the layer's tokens.

        Each side of an encoder-decoder has its own layers.
        """
        if self.sides is not None:
            sums = [
                torch.stack([part(one, stack.places) for one in stack.select(layer)]).sum(0)
                for stack in self.sides.stacks
            ]
            return torch.cat(sums, dim=1)
        if layer is not None:
            return self.at(layer, lambda one: part(one, slice(None)))
        empty: list[Tensor] = []
        parts = self.descend(0, empty, lambda one, terms: [part(one, slice(None)), *terms])
        return torch.stack(parts).sum(0)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count one reader less on exit, and drop all tensors after the last one."""
        try:
            yield
        finally:
            if self.readers is not None:
                self.readers -= 1
                if not self.readers:
                    for layer in self.attention:
                        layer.forget()
                    self.pending = self.again = self.tape = None
                    self.embedding = self.embedding_grad = None
                    self.lookups = []
                    self.memo.clear()

    def run_pending_backward(self, first: int = 0, visit: LayerVisitor | None = None) -> bool:
        """Run the pending backward pass, if there is one: for all layers at once, or as they are visited down to `first`.

        Returns False if layers could not be visited one by one: then all were traced again at once.
        """
        pending, self.pending = self.pending, None
        if pending is None:
            return True
        try:
            grads = pending.run(first, visit)
        except UnsuitableModel as error:
            assert self.again is not None
            whole = self.again(error)
            whole.run_pending_backward()  # the new trace may have a pending pass, too
            for layer, same in zip(self.attention, whole.attention, strict=True):
                layer.copy_from(same)
            self.embedding_grad = whole.embedding_grad
            return False
        if grads:
            self.embedding_grad = self._sum_embedding_grads(grads)
        return True

    def _sum_embedding_grads(self, grads: list[Tensor]) -> Tensor:
        """Return the gradient of each token's embedding from those of the look-ups, without their scale."""
        grad = sum_per_token(self.batch, self.lookups, grads)
        return grad if self.lift is None else undo_gradient_scale(grad, self.lift)

    def embeddings(self) -> tuple[Tensor, Tensor]:
        """Return the token embeddings and their gradients, in float32 at least, each (batch, tokens, features)."""
        self.run_pending_backward()
        if self.embedding is None or self.embedding_grad is None:
            raise BadMethod(
                "A method reads embedding gradients without stating needs={'embedding_grad'}."
            )
        return widen(self.embedding), widen(self.embedding_grad)

    @torch.no_grad()
    def is_causal(self) -> bool:
        """Return whether no token attends to later ones: in all layers the first token sees itself alone."""
        if self.sides is not None or len(self.real[0]) < 2:
            return False
        layers = self.layers
        return bool(layers) and all(is_causal_layer(layer, self.real) for layer in layers)

    @property
    def real(self) -> Tensor:
        """False at padding, (batch, tokens)."""
        return self.batch.real

    @property
    def queries(self) -> Tensor:
        """The tokens with a row in the last layer, (batch, tokens): all, or those of the decoder."""
        if self.sides is None:
            return self.real
        queries = self.real.clone()
        queries[:, : self.sides.sources] = False
        return queries


_STREAMED_NEEDS = frozenset({"attention_grad", "hidden_grad"})


def run_traced(
    model: Any,
    batch: Batch,
    needs: Iterable[str],
    spec: TargetSpec,
    task: Task,
    *,
    readers: int | None = None,
    checkpoint: bool = False,
) -> Trace:
    """Run the model once forward, once backward if a gradient is needed, and record `needs`.

    `readers` is the number of methods that will read the trace; tensors are dropped after the last.
    For a single one the backward pass waits until it reads, and goes layer by layer: the model must
    not change until then (`models.facts.ModelFacts.lock`).

    `checkpoint` runs the model's blocks without their graph, and each of them once more in the
    backward pass: a second forward pass for much less memory. A trace with a tape keeps every step
    and ignores it.

    A model of task "none" has no logits. The last block's output at one token stands for them, the
    last token of a causal model and the first of any other: `rows` is that token's, and a gradient
    has no meaning.
    """
    needs = frozenset(needs)
    facts, attends = get_facts(model), bool(needs - {"embedding_grad"})
    route: CaptureRoute = (
        "segments" if checkpoint else "seam" if facts.is_routable else "recognised"
    )
    route = "tape" if needs & TAPE_NEEDS else route
    outputs: dict[str, Tensor] | None = {}
    if build_route_key(model, route) in facts.verified_routes:
        outputs = None
    again = partial(
        run_traced, model, batch, needs, spec, task, readers=readers, checkpoint=checkpoint
    )
    checkpoint = checkpoint and route != "tape" and facts.is_checkpointable
    checkpoint = checkpoint and bool(needs & GRADIENTS)

    def retake(error: UnsuitableModel) -> Trace:
        if checkpoint:
            mark_uncheckpointable(model, error)
        else:
            facts.is_sequential = False
        return again()

    run = partial(
        _run_and_record, model, batch, needs, spec, task, readers, checkpoint, outputs, retake
    )
    trace = run() if attends else run_without_dense_masks(model, run)
    if trace is None:  # the model bypassed the routing
        facts.is_routable = False
        return again()
    # Nothing is to be compared where nothing was routed.
    if not outputs or not (attends or list_replaceable_implementations(model)):
        return trace
    if is_faithful(model, route, batch, outputs, partial(run_forward, model, batch)):
        return trace
    if facts.is_routable:
        facts.is_routable = False
        return again()
    raise NotCapturable(
        f"{type(model).__name__} gives other logits while whence watches it than by itself: what was seen inside it "
        "would explain another model. Use leave_one_out, which only runs it: --method leave_one_out."
    )


def _run_and_record(
    model: Any,
    batch: Batch,
    needs: frozenset[str],
    spec: TargetSpec,
    task: Task,
    readers: int | None,
    checkpoint: bool,
    outputs: dict[str, Tensor] | None,
    retake: "Callable[[UnsuitableModel], Trace]",
) -> Trace | None:
    """Run the model and build the trace, or return None if it bypassed the routing; `outputs` receives its outputs."""
    attends, gradients = bool(needs - {"embedding_grad"}), needs & GRADIENTS
    tape = Tape() if needs & TAPE_NEEDS else None
    recorder = ForwardRecorder(
        batch, cut=not gradients and tape is None, tape=tape, is_checkpointed=checkpoint
    )
    with restore_on_exit(model) as stack:
        if tape is not None:
            tape.watch_modules(model, stack)
            stack.enter_context(tape)
        compares = isinstance(batch.items[0].reading, SimilarityReadout)
        if gradients or tape is not None or compares:
            recorder.watch_embeddings(model, stack)
        routed = attends and recorder.watch_attention(model, stack)
        checkpoints = None
        if checkpoint:
            checkpoints = BlockCheckpoints(recorder, recognises=attends and not routed)
            checkpoints.watch(model, stack)
        run_batch = recorder.batch  # with images, the pixels are a leaf
        output = run_forward(model, run_batch)
        layers, lookups = recorder.layers, recorder.lookups
        if routed and not layers:
            return None
        logits = (
            _read_hidden_state(model, recorder)
            if task == "none"
            else read_logits(output, run_batch, type(model).__name__)
        )
        outlet, heads = None, {}
        if tape is not None:
            values = (
                {"logits": logits} if task == "none" else select_model_outputs(output, run_batch)
            )
            heads = {name: OutputHead(x.detach(), tape.number(x)) for name, x in values.items()}
            outlet = tape.finish(logits)
        if outputs is not None:
            outputs |= select_output_tensors(output)
        targets = ResolvedTargets(*spec.resolve(logits.detach()), spec, task)
        structure = AttentionStructure()
        if attends:
            structure = find_attention_structure(model, recorder, logits)
        value, scale = targets.value(logits), targets.compute_gradient_scale(logits)
        value = value if scale is None else value * scale
        resume: Callable[[], AbstractContextManager[Any]] = nullcontext
        if checkpoints is not None:
            resume = partial(_resume, model, checkpoints, recorder if attends else None)
        backward = BackwardPass(layers, lookups, value, needs, scale, resume)
        # Layer by layer, where somebody reads them so.
        streams = readers == 1 and needs & _STREAMED_NEEDS and get_facts(model).is_sequential
        waits = checkpoints is not None or bool(streams)
        grads = [] if waits else backward.run()
        # This waits for the device, after all work is queued.
        rows = compute_row_weights(logits, structure, recorder, is_checked=task != "none")
    embedding = select_token_embeddings(batch, lookups) if "embedding_grad" in needs else None
    trace = Trace(
        batch,
        logits.detach(),
        targets,
        layers,
        structure.refusal,
        rows,
        embedding,
        None,
        tape,
        outlet,
        lookups,
        pooled=structure.pooled,
        sides=structure.sides,
        heads=heads,
        readers=readers,
        pending=backward if waits else None,
        again=retake if waits else None,
        lift=scale,
    )
    if grads:
        trace.embedding_grad = trace._sum_embedding_grads(grads)
    # An encoder-decoder is not read layer by layer.
    if readers is None or structure.sides is not None:
        trace.run_pending_backward()
    return trace


@contextmanager
def _resume(
    model: Any, checkpoints: BlockCheckpoints, recorder: ForwardRecorder | None
) -> Iterator[None]:
    """Prepare the model for second runs of its blocks, as for their first; with a recorder if they attend."""
    with restore_on_exit(model) as stack:
        if recorder is None:
            stack.enter_context(route_unobserved(model))
        elif get_facts(model).is_routable:
            stack.enter_context(route_attention(model, recorder.record))
        with checkpoints.run_again():
            yield


def _read_hidden_state(model: Any, recorder: ForwardRecorder) -> Tensor:
    """Return the last block's output at the default token, for a model without a head."""
    output, inputs = recorder.last_output, len(recorder.batch)
    if output is None or not recorder.layers:
        return torch.zeros(inputs, 1, dtype=next(model.parameters()).dtype)
    return output[torch.arange(inputs, device=output.device), find_default_row(recorder)]
