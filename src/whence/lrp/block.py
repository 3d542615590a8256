"""The parts of one layer as they stand on the tape: attention, first sum, first norm, second sum, second norm."""

from dataclasses import dataclass

from whence.capture import Trace
from whence.capture.layer import AttentionLayer
from whence.capture.tape import Step, Tape
from whence.core.errors import BadMethod, NotCapturable
from whence.lrp.ops import OF


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


def block(trace: Trace, layer: AttentionLayer) -> Block:
    """Find the parts of a layer by following what its attention gives."""
    if trace.tape is None:
        raise BadMethod("A method follows the forward pass without stating needs={'steps'}.")
    tape, places = trace.tape, layer.places
    if places is None or None in (places.hidden, places.out, places.block):
        raise _shapeless()
    hidden, attention, output = places.hidden, places.out, places.block
    assert hidden is not None and attention is not None and output is not None
    first, made = _joint(tape, attention)
    if first is None:
        raise _shapeless()
    (sent,) = made.intersection(first.inputs)
    mixed = _made(first)
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
    made, same = {start}, {start}
    for step in tape.steps:
        if not made.intersection(step.inputs):
            continue
        op = OF.get(step.func, "") if step.func is not None else ""
        met = set(step.inputs)
        if op == "add" and len(met) == 2:
            if around and met & same and met & (made - same):
                return step, made
            if not around and met - made:
                return step, made
        outputs = {number for number in step.outputs if number is not None}
        made |= outputs
        if op in ("move", "dropout") and met <= same:
            same |= outputs
    return None, made


def _norm_of(tape: Tape, number: int | None) -> Step | None:
    users = [step for step in tape.steps if number in step.inputs]
    func = users[0].func if len(users) == 1 else None
    return users[0] if func is not None and OF.get(func) == "layer_norm" else None


def _made(step: Step) -> int:
    (number,) = step.outputs
    assert number is not None
    return number


def _shapeless() -> NotCapturable:
    return NotCapturable(
        "A layer of this model is not attention plus a skip connection, so that its parts cannot be told apart. "
        "Use decompx or a gradient method."
    )
