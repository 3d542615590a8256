"""The check that a model says the same by itself as while whence runs it: once for a model and a way of running it.

A model that branches on the name of its attention, or relies on a mask that another kernel does without, may compute
something else once its attention goes through whence, and nothing would show it. So the first pass in each way costs
one more forward pass, of the same inputs, with the model untouched: its own attention, its own masks, nobody's hooks
of ours. Only where the two differ by more than rounding are there two more, to see how much the model differs from
itself: by its own chance (Reformer draws its hashes), or by what one rounding of its embeddings grows into, which no
bound for a dtype could foresee of a deep model in half precision or one that chooses experts.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from whence.capture.attention.seam import attention_seam, closed_seam, runs_plainly
from whence.capture.found import as_found
from whence.capture.memory.fitting import lacks_memory
from whence.data import Batch
from whence.models.fingerprint import is_altered
from whence.models.table import token_table

# Attention through the seam; recognised in the model's own code; every step on a tape; blocks without their graph.
Way = Literal["seam", "recognised", "tape", "segments"]

# Of each model, the ways that were found to say what it says, and by which attention of its own.
_agreed: WeakKeyDictionary[Any, set[tuple[Way, str | None]]] = WeakKeyDictionary()
_checking: ContextVar[bool] = ContextVar("whence_checking", default=False)

_READ = ("logits", "start_logits", "end_logits", "logits_per_image", "logits_per_text")
# Batch x tokens x tokens up to which a model's own pass is affordable, whatever it writes out: one text of 2,048
# tokens takes 16 MiB for a mask and, by eager attention in float32, 16 MiB for every head of one layer. Longer ones
# are cut to a few tokens, run in both ways.
_CELLS, _TOKENS = 1 << 22, 256
# What rounding does to logits, as a part of the largest: several models compute norms or a softmax in float32
# whatever their dtype, and sum in another order; half precision rounds each of its few digits in every layer.
_FLOAT32, _ROUNDINGS = 1e-4, 4
# Two passes that differ in rounding differ by about this much at most of what a model differs from itself by: noise
# enters at the embeddings there, and in every layer here.
_NOISE = 8


def is_checking() -> bool:
    """Say whether this thread runs a model only to compare: nobody asked for that pass, and nobody counts it."""
    return _checking.get()


def shown(output: Any) -> dict[str, Tensor]:
    """Return what is read of a model's output, or the first numbers in it where that has another name."""
    named = {name: getattr(output, name, None) for name in _READ}
    found = {name: one.detach() for name, one in named.items() if isinstance(one, Tensor)}
    if found:
        return found
    parts = output.values() if isinstance(output, Mapping) else output
    parts = (
        parts
        if isinstance(parts, tuple | list)
        else [parts]
        if isinstance(parts, Tensor)
        else list(parts)
    )
    floats = (one for one in parts if isinstance(one, Tensor) and one.is_floating_point())
    first = next(floats, None)
    return {} if first is None else {"first": first.detach()}


def agrees(
    model: Any, way: Way, batch: Batch, found: Mapping[str, Tensor], run: Callable[[], Any]
) -> bool:
    """Say whether a model by itself gives what was found when it ran in a way of ours; known after the first time.

    `run` runs it on the batch. A model that is altered on purpose, now, is not compared.
    """
    if is_known(model, way) or not found or not runs_plainly() or is_altered(model):
        return True
    try:
        small = len(batch) * batch.real.shape[1] ** 2 <= _CELLS
        same = _same(model, batch.inputs, found, run) if small else None
    except (RuntimeError, MemoryError) as error:
        if not lacks_memory(error):
            raise
        same = None
    if same is None and way != "seam":  # a shorter input will tell
        return True
    if same is None:
        same = _same_when_cut(model, batch.inputs)
    if same:
        _agreed.setdefault(model, set()).add((way, _own(model)))
    return same


def is_known(model: Any, way: Way) -> bool:
    """Say whether a model was found to say in a way of ours what it says by itself."""
    return (way, _own(model)) in _agreed.get(model, ())


def _own(model: Any) -> str | None:
    """Return how a model attends by itself; somebody may change that."""
    config = getattr(model, "config", None)
    return getattr(config, "_attn_implementation_internal", None)


def _same_when_cut(model: Any, inputs: Mapping[str, Any]) -> bool:
    """Compare both ways of running a model on the first tokens of the first input, and its last."""
    few = {
        name: torch.cat([one[:1, : _TOKENS - 1], one[:1, _TOKENS - 1 :][:, -1:]], 1)
        if isinstance(one, Tensor) and one.dim() > 1
        else one
        for name, one in inputs.items()
    }
    try:
        with _unchecked(model), attention_seam(model, None):
            found = shown(model(**few))
    except (RuntimeError, ValueError, IndexError, TypeError):  # it bears no cut
        return True
    return _same(model, few, found, lambda: model(**few))


def _same(
    model: Any, inputs: Mapping[str, Any], found: Mapping[str, Tensor], run: Callable[[], Any]
) -> bool:
    with _unchecked(model), closed_seam():
        wanted = shown(run())
        off = _difference(found, wanted, inputs)
        digits = _precision(model)
        if off <= max(_FLOAT32, _ROUNDINGS * digits):
            return True
        noise = 0.0
        for turn in (0, 1):
            with ExitStack() as stack:
                torch.rand(
                    1 + turn
                )  # as_found gives every pass the same chance; this one gets another
                _round(model, digits, turn, stack)
                noise = max(noise, _difference(shown(run()), wanted, inputs))
    return off <= _NOISE * noise


@contextmanager
def _unchecked(model: Any) -> Iterator[None]:
    """Run a model for a comparison alone."""
    token = _checking.set(True)
    try:
        with as_found(model), torch.no_grad():
            yield
    finally:
        _checking.reset(token)


def _difference(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], inputs: Mapping[str, Any]
) -> float:
    """Return the largest difference at real tokens as a part of the largest number, 0 where there is nothing."""
    worst = 0.0
    for name, one in found.items():
        other = wanted.get(name)
        if other is None or other.shape != one.shape:
            return float("inf")
        one, other = one.double(), other.double()
        for mask in ("attention_mask", "decoder_attention_mask"):
            real = inputs.get(mask)
            if real is not None and real.dim() == 2 and one.shape[:2] == real.shape:
                one, other = one[real.bool()], other[real.bool()]
        # By itself a model may give NaN where ours does not: Gemma 2 in float64, padded.
        fine = other.isfinite()
        if not bool(fine.any()):
            continue
        off = (one - other)[fine].abs().max() / (other[fine].abs().max() + 1e-7)
        worst = max(worst, float(off) if bool(off.isfinite()) else float("inf"))
    return worst


def _precision(model: Any) -> float:
    """Return the step of the coarsest floating point that a model's weights are in."""
    kinds = {one.dtype for one in model.parameters() if one.dtype.is_floating_point}
    return max(torch.finfo(kind).eps for kind in {*kinds, torch.float64})


def _round(model: Any, digits: float, turn: int, stack: ExitStack) -> None:
    """Move each number of the token embeddings by about one rounding, up and down in turns."""
    try:
        table = token_table(model)
    except (NotImplementedError, AttributeError):  # pictures have none
        return
    step = max(digits, torch.finfo(torch.float32).eps)

    def move(_: Any, __: Any, output: Any) -> Any:
        if not (isinstance(output, Tensor) and output.is_floating_point()):
            return None
        signs = (torch.arange(output.shape[-1], device=output.device) + turn) % 2 * 2 - 1
        return output * (1 + step * signs.to(output.dtype))

    if isinstance(table, torch.nn.Module):
        stack.callback(table.register_forward_hook(move).remove)
