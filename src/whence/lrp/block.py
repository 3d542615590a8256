"""The parts of one layer as they stand on the tape: attention, first sum, first norm, second sum, second norm."""

from dataclasses import dataclass

from whence.capture import Trace
from whence.capture.attention.layer import AttentionLayer
from whence.capture.tape.tape import Step, Tape
from whence.core.errors import BadMethod, NotCapturable
from whence.lrp.ops import operation

# Operations that leave a value what it is.
_SAME = ("move", "dropout")


@dataclass(frozen=True)
class Block:
    """Numbers of values on the tape. A norm is there only where the sum goes into it alone: after, not before."""

    tape: Tape
    hidden: int  # what goes in
    attention: int  # what the heads give
    sent: int  # what the heads give, through the output matrix
    mixed: int  # the same and the skip connection, added up
    norm: Step | None
    second: int | None  # the output of the second sum, where the feed-forward part joins
    second_norm: Step | None
    output: int  # what comes out of the block

    @property
    def mixed_normed(self) -> int:
        """The first sum after its norm, if it has one."""
        return self.mixed if self.norm is None else _made(self.norm)


def inlet(trace: Trace) -> tuple[Tape, int]:
    """Return the tape, and the number of the first layer's input on it."""
    if trace.tape is None:
        raise BadMethod("A method follows the forward pass without stating needs={'steps'}.")
    places = trace.layers[0].places
    if places is None or places.hidden is None:
        raise _shapeless("its first layer does not start from a value of its own")
    return trace.tape, places.hidden


def block(trace: Trace, layer: AttentionLayer) -> Block:
    """Find the parts of a layer by following what its attention gives; what is built otherwise is refused."""
    tape, _ = inlet(trace)
    places = layer.places
    if places is None or None in (places.hidden, places.out, places.block):
        raise _shapeless("its layers do not hand one value on")
    hidden, attention, output = places.hidden, places.out, places.block
    assert hidden is not None and attention is not None and output is not None
    first, made = _joint(tape, attention)
    if first is None or not set(first.inputs) - made <= _handed_on(tape, hidden):
        raise _shapeless("attention is not added to what went into the layer")
    order = [number for step in tape.steps for number in step.outputs]
    mixed = _made(first)
    if order.index(mixed) > order.index(output):
        raise _shapeless("its skip connection lies outside of the layer")
    (sent,) = made.intersection(first.inputs)
    norm = _norm_of(tape, mixed)
    second, _ = _joint(tape, mixed if norm is None else _made(norm), around=True)
    joined = None if second is None else _made(second)
    # A sum that is the block's output goes into a norm of the next block, or of the head: not of this one.
    second_norm = None if joined in (None, output) else _norm_of(tape, joined)
    return Block(tape, hidden, attention, sent, mixed, norm, joined, second_norm, output)


def _joint(tape: Tape, start: int, *, around: bool = False) -> tuple[Step | None, set[int]]:
    """Return the first sum in which something made from `start` meets something that is not, and all that is.

    With `around`, the other way about: in which something made from `start` meets `start` itself, handed around.
    """
    made, same = {start}, _handed_on(tape, start)
    for step in tape.steps:
        if not made.intersection(step.inputs):
            continue
        met = set(step.inputs)
        if operation(step) == "add" and len(met) == 2:
            if around and met & same and met & (made - same):
                return step, made
            if not around and met - made:
                return step, made
        made |= {number for number in step.outputs if number is not None}
    return None, made


def _handed_on(tape: Tape, number: int) -> set[int]:
    """Return the value itself under all its numbers: moved, copied, dropped out by nothing."""
    same = {number}
    for step in tape.steps:
        if step.inputs and set(step.inputs) <= same and operation(step) in _SAME:
            same |= {one for one in step.outputs if one is not None}
    return same


def _norm_of(tape: Tape, number: int | None) -> Step | None:
    """Return the layer norm that a value goes into and nowhere else."""
    while number is not None:
        users = [step for step in tape.steps if number in step.inputs]
        if len(users) == 1 and operation(users[0]) in _SAME and len(users[0].outputs) == 1:
            (number,) = users[0].outputs
            continue
        if len(users) == 1 and operation(users[0]) == "layer_norm":
            return users[0]
        within = [call for call in tape.calls if call.inputs == (number,) and "Norm" in call.kind]
        last = {one for call in within for one in range(call.first, call.last + 1)}
        if within and all(tape.steps.index(user) in last for user in users):
            raise _shapeless(f"{within[0].kind.rsplit('.', 1)[-1]} is not PyTorch's layer norm")
        return None
    return None


def _made(step: Step) -> int:
    (number,) = step.outputs
    assert number is not None
    return number


def _shapeless(why: str) -> NotCapturable:
    return NotCapturable(
        f"The parts of this model's layers cannot be told apart: {why}. Use a gradient method, like grad_x_input."
    )
