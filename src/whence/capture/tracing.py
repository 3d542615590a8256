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
