"""One forward and at most one backward pass, and everything that readers may want to know about them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from whence.capture.anatomy.heads import Head
from whence.capture.anatomy.lookups import Lookup, brought_down, per_token
from whence.capture.anatomy.sides import Sides, Stack, numbered
from whence.capture.attention.layer import AttentionLayer, wide
from whence.capture.backward import Backward, Unsuited, Visit
from whence.capture.tape.tape import Tape
from whence.capture.target import Targets
from whence.core.errors import BadMethod, NotCapturable
from whence.data import Batch
from whence.kernels import Combination, contract

# What a method may need: attention of the forward pass; gradients, which cost a backward pass; every step of the
# forward pass, to follow it, and relevance, which is those steps walked backwards.
GRADIENTS = frozenset({"attention_grad", "hidden_grad", "embedding_grad"})
FOLLOWED = frozenset({"steps", "relevance"})
NEEDS = frozenset({"attention"}) | GRADIENTS | FOLLOWED

State = TypeVar("State")


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
    readers: int | None = None  # who will still read it; None: nobody knows
    pending: Backward | None = None  # the backward pass, if it is not run before somebody reads
    again: "Callable[[Unsuited], Trace] | None" = None  # takes everything at once, if it cannot be
    lift: Tensor | None = None  # by which the target was multiplied on the way back, (batch,)

    @property
    def layers(self) -> list[AttentionLayer]:
        """The layers from the input to the output; refused where the model is not one stack of them."""
        if self.refusal is not None:
            raise self.refusal
        self.settle()
        return self.attention

    @property
    def read_layers(self) -> list[AttentionLayer]:
        """The layers with the rows that the prediction reads: the stack of them, or the one that pools."""
        if not self.pooled:
            return self.layers
        self.settle()
        return self.attention

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
        self, rows: Sequence[Tensor], layer: int | None, combination: Combination = "attention"
    ) -> list[Tensor]:
        """Return what each row gives to every token, (rows, batch, tokens).

        That is in one of the layers whose rows are read, or in each of them: a layer is there once, for all rows.
        """

        def every(one: AttentionLayer) -> Tensor:
            return torch.stack([contract(one, row, combination) for row in rows])

        if self.sides is None and layer is not None:
            return [self.at(layer, every)]
        if self.sides is None:
            none: list[Tensor] = []
            return self.descend(0, none, lambda one, found: [every(one), *found], pooled=True)
        sides = self.sides
        both = sides.decoder if layer is None else [numbered(sides.decoder, layer)]
        return [torch.stack([sides.read(one, row, combination) for row in rows]) for one in both]

    def from_layer(self, start: int) -> list[AttentionLayer]:
        """Return the layers from `start` to the output."""
        return self.layers[self._number(start) :]

    def descend(
        self,
        start: int,
        state: State,
        step: Callable[[AttentionLayer, State], State],
        *,
        pooled: bool = False,
    ) -> State:
        """Carry a state from the last layer down to `start`, and return it: each step gets a layer and the state.

        Where nobody else will read the trace, a layer is let go of after its step. If the backward pass was not run
        yet, it is run meanwhile, and no further down than to `start`. A single layer that pools is taken for a
        stack if `pooled` says so.
        """
        first, done = self._number(start, pooled=pooled), state

        def visit(layer: AttentionLayer) -> None:
            nonlocal done
            done = step(layer, done)
            layer.forget()

        if self.readers == 1 and self.pending is not None and self._run(first, visit):
            return done
        self.settle()
        for layer in reversed(self.attention[first:]):
            state = step(layer, state)
            if self.readers == 1:
                layer.forget()
        return state

    def at(self, index: int, read: Callable[[AttentionLayer], State]) -> State:
        """Return what is read of one of the layers whose rows are read; no gradient is taken below it."""
        one = self.attention[self._number(index, pooled=True)]
        found: list[State] = []
        found = self.descend(
            index, found, lambda layer, _: [read(layer)] if layer is one else [], pooled=True
        )
        return found[0]

    def summed(self, layer: int | None, part: Callable[[AttentionLayer, slice], Tensor]) -> Tensor:
        """Add up what is read of every layer, or of one; `part` is given the places of the layer's tokens, too.

        Each side of an encoder-decoder has its own layers.
        """
        if self.sides is not None:
            sums = [
                torch.stack([part(one, stack.places) for one in stack.chosen(layer)]).sum(0)
                for stack in self.sides.stacks
            ]
            return torch.cat(sums, dim=1)
        if layer is not None:
            return self.at(layer, lambda one: part(one, slice(None)))
        none: list[Tensor] = []
        parts = self.descend(0, none, lambda one, found: [part(one, slice(None)), *found])
        return torch.stack(parts).sum(0)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let one of the readers read; after the last one there is nothing left to read."""
        try:
            yield
        finally:
            if self.readers is not None:
                self.readers -= 1
                if not self.readers:
                    self._let_go()

    def _let_go(self) -> None:
        for layer in self.attention:
            layer.forget()
        self.pending = self.again = self.tape = self.embedding = self.embedding_grad = None
        self.lookups = []
        self.memo.clear()

    def _number(self, index: int, *, pooled: bool = False) -> int:
        """Return a layer's number from the input; refuse where there is no stack of them, or none of that number."""
        if self.refusal is not None and not (pooled and self.pooled):
            raise self.refusal
        return self.attention.index(numbered(self.attention, index))

    def settle(self) -> None:
        """Take what is still to be taken, for all layers at once."""
        if self.pending is not None:
            self._run(0, None)

    def _run(self, first: int, visit: Visit | None) -> bool:
        """Run the backward pass; say whether it went as it should, or took everything at once after all."""
        pending, self.pending = self.pending, None
        assert pending is not None
        try:
            grads = pending.run(first, visit)
        except Unsuited as error:
            assert self.again is not None
            whole = self.again(error)
            whole.settle()  # that one may wait for who reads it, too
            for layer, same in zip(self.attention, whole.attention, strict=True):
                layer.become(same)
            self.embedding_grad = whole.embedding_grad
            return False
        if grads:
            grad = per_token(self.batch, self.lookups, grads)
            self.embedding_grad = brought_down(grad, self.lift)
        return True

    def embeddings(self) -> tuple[Tensor, Tensor]:
        """Return the token embeddings and their gradients, in float32 at least, each (batch, tokens, features)."""
        self.settle()
        if self.embedding is None or self.embedding_grad is None:
            raise BadMethod(
                "A method reads embedding gradients without stating needs={'embedding_grad'}."
            )
        return wide(self.embedding), wide(self.embedding_grad)

    @torch.no_grad()
    def is_causal(self) -> bool:
        """Say whether no token of the input sees what follows it: the first one sees itself alone, in all layers."""
        if self.sides is not None or len(self.real[0]) < 2:
            return False
        first = torch.zeros(1, dtype=torch.long, device=self.real.device)
        layers = self.layers
        return bool(layers) and all(
            bool(layer.weights(first)[..., 1:].eq(0).all()) for layer in layers
        )

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


"""Taking a trace: the model is run, watched, and left as it was found."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from whence.capture.anatomy.heads import Head
from whence.capture.anatomy.lookups import brought_down, own, per_token
from whence.capture.anatomy.rows import default_row, row_weights, rows_read, summed, waited_for
from whence.capture.attention.recognise import Recognise
from whence.capture.attention.seam import attention_seam
from whence.capture.attention.unwatched import (
    is_routed,
    leave_unrouted,
    offers_seam,
    unmasked,
    unwatched,
)
from whence.capture.backward import Backward, Unsuited, Whole
from whence.capture.fidelity import Way, agrees, is_known, shown
from whence.capture.forward import forward
from whence.capture.found import as_found
from whence.capture.memory.rerun import Rerun
from whence.capture.memory.segments import Segments, cuts, leave_uncut
from whence.capture.readout import outputs, read
from whence.capture.recorder import Recorder
from whence.capture.refusal import pools, sides_of, why_not
from whence.capture.tape.tape import Tape
from whence.capture.target import Targets, TargetSpec, finite
from whence.capture.trace import FOLLOWED, GRADIENTS, Trace
from whence.core.errors import NotCapturable
from whence.core.types import Task
from whence.data import Batch
from whence.data.reading import Similarity

# Models whose layers, as one backward pass showed, do not follow each other.
_disordered: WeakSet[Any] = WeakSet()
_BY_LAYER = frozenset({"attention_grad", "hidden_grad"})


def trace(
    model: Any,
    batch: Batch,
    needs: Iterable[str],
    spec: TargetSpec,
    task: Task,
    *,
    readers: int | None = None,
    checkpoint: bool = False,
) -> Trace:
    """Run the model once forward, once backward if a gradient is needed, and keep what `needs` names.

    With so many `readers` and no more, nothing is kept longer than they need it. For a single one the backward pass
    waits until it reads, and goes layer by layer: the model must stay as it is until then (`found.turn`).

    `checkpoint` runs the model's blocks without their graph, and on the way back each of them once more: a second
    forward pass for much less memory. A trace that follows every step keeps them all, and pays no attention to it.

    A model of task "none" has no logits to give. What the last block makes of one token stands for them, the last
    token of a causal model and the first of any other: then `rows` is that token's, and a gradient means nothing.
    """
    needs = frozenset(needs)
    attends = bool(needs - {"embedding_grad"})
    said: dict[str, Tensor] = {}
    take = partial(_take, model, batch, needs, spec, task, attends, readers, checkpoint, said)
    found = take() if attends else unmasked(model, take)
    way: Way = "segments" if checkpoint else "seam" if offers_seam(model) else "recognised"
    way = "tape" if needs & FOLLOWED else way
    alone = not attends and (is_known(model, way) or not is_routed(model))  # as nobody watched it
    if alone or agrees(model, way, batch, said, partial(forward, model, batch)):
        return found
    if offers_seam(model):
        leave_unrouted(model)
        return trace(model, batch, needs, spec, task, readers=readers, checkpoint=checkpoint)
    raise NotCapturable(
        f"{type(model).__name__} gives other logits while whence watches it than by itself: what was seen inside it "
        "would explain another model. Use leave_one_out, which only runs it: --method leave_one_out."
    )


def _take(
    model: Any,
    batch: Batch,
    needs: frozenset[str],
    spec: TargetSpec,
    task: Task,
    attends: bool,
    readers: int | None,
    checkpoint: bool,
    said: dict[str, Tensor],
) -> Trace:
    """Take a trace; `said` is filled with what the model gave, unless somebody took the trace again."""
    gradients = needs & GRADIENTS
    tape = Tape() if needs & FOLLOWED else None
    recorder = Recorder(batch, cut=not gradients and tape is None, tape=tape)
    segments = None
    with as_found(model) as stack:
        if tape is not None:
            tape.watch_modules(model, stack)
            stack.enter_context(tape)
        compares = isinstance(batch.items[0].reading, Similarity)
        if gradients or tape is not None or compares:
            recorder.watch_embeddings(model, stack)
        if checkpoint and needs and tape is None and cuts(model):
            segments = Segments(recorder, attends=attends, slopes=bool(gradients))
            segments.watch(model, stack)
        routed = attends and _watch(model, recorder, stack)
        given = recorder.batch  # with the pixels of pictures as a leaf
        if task == "none":
            output = forward(model, given)
            logits = _headless(model, given, recorder)
            made = {"logits": logits}
        else:
            output = forward(model, given)
            logits = read(output, given, type(model).__name__)
            made = outputs(output, given)
        outlet, heads = None, {}
        if tape is not None:
            heads = {name: Head(one.detach(), tape.number(one)) for name, one in made.items()}
            outlet = tape.finish(logits)

        def again(error: Unsuited | None = None) -> Trace:
            if error is not None and segments is None:
                _disordered.add(model)
            elif error is not None:
                leave_uncut(model, error)
            return trace(model, batch, needs, spec, task, readers=readers, checkpoint=checkpoint)

        if routed and not recorder.layers:
            leave_unrouted(model)
            stack.close()
            return again()
        if segments is not None and not segments.whole:
            stack.close()
            return again(Unsuited("not all that it does happens in blocks of one list"))
        said |= shown(output)
        targets = Targets(*spec.resolve(logits.detach()), spec, task)
        pooled = attends and pools(recorder, batch)
        sides = sides_of(model, recorder, batch) if attends else None
        if isinstance(sides, NotCapturable):
            sides, refusal = None, sides
        else:
            refusal = why_not(model, recorder, batch, pooled, sides) if attends else None
        reads, sources = None, sides.sources if sides is not None else 0
        if attends and not pooled and (sides is not None or refusal is None):
            which = rows_read(logits, recorder, sources)
            if isinstance(which, NotCapturable):
                sides, sources, refusal = None, 0, which
            else:
                reads = which
        value, lift = targets.value(logits), targets.lift(logits)
        value = value if lift is None else value * lift
        backward: Backward
        if segments is None:
            backward = Whole(recorder.layers, recorder.lookups, value, needs, lift)
        else:
            leaves = [lookup.leaf for lookup in recorder.lookups]
            backward = Rerun(
                model,
                batch,
                segments.found,
                recorder.layers,
                leaves,
                value,
                needs,
                _watch if attends else _unwatched,
                lift,
            )
        waits = segments is not None or (readers == 1 and _streams(model, needs))
        grads = [] if waits else backward.run(0, None)
        # What must be known before going on is asked when all the work is queued on the device, and at once.
        fine, blind = waited_for(logits, reads)
        if not fine and task != "none":
            finite(logits, "logits")
        if reads is not None:
            rows = row_weights(reads, summed(logits), recorder, sources, blind=blind)
        elif pooled:
            rows = torch.ones(len(batch), 1, dtype=summed(logits), device=batch.device)
        else:
            rows = batch.real.new_zeros(batch.real.shape, dtype=logits.dtype)
        if segments is not None:
            segments.let_go()
    lookups, embedding = recorder.lookups, None
    if "embedding_grad" in needs:
        embedding = own(batch, lookups)
    found = Trace(
        batch,
        logits.detach(),
        targets,
        recorder.layers,
        refusal,
        rows,
        embedding,
        brought_down(per_token(batch, lookups, grads), lift) if grads else None,
        tape,
        outlet,
        lookups,
        pooled=pooled,
        sides=sides,
        heads=heads,
        readers=readers,
        pending=backward if waits else None,
        again=again if waits else None,
        lift=lift,
    )
    if readers is None or sides is not None:  # who reads two sides goes back and forth
        found.settle()
    return found


def _watch(model: Any, recorder: Recorder, stack: ExitStack) -> bool:
    """Let a recorder see the model's blocks and their attention; say whether that goes through the seam."""
    recorder.watch_blocks(model, stack)
    routed = offers_seam(model) and stack.enter_context(attention_seam(model, recorder))
    if not routed:
        stack.enter_context(Recognise(len(recorder.batch), recorder.attention))
    return routed


def _unwatched(model: Any, _: Recorder, stack: ExitStack) -> None:
    stack.enter_context(unwatched(model))


def _streams(model: Any, needs: frozenset[str]) -> bool:
    """Say whether gradients are to be taken layer by layer."""
    return bool(needs & _BY_LAYER) and model not in _disordered


def _headless(model: Any, batch: Batch, recorder: Recorder) -> Tensor:
    """Return what the last block of a model without a classification head made of one token."""
    output = recorder.last_output
    if output is None or not recorder.layers:
        return torch.zeros(len(batch), 1, dtype=next(model.parameters()).dtype)
    return output[torch.arange(len(batch), device=output.device), default_row(recorder)]
