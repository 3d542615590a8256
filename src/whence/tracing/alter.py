"""A model changed for the length of a `with` block, and afterwards what it was, bit for bit.

Meanwhile the changed model is a model like any other: every method works on it, and it has a fingerprint of its own.
Other threads that explain it wait; whoever else runs it sees the change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from whence.capture.anatomy.stages import grouped, stages
from whence.capture.changed.dropout import dropped_out
from whence.capture.found import altering
from whence.core.errors import BadParameter, NotCapturable
from whence.core.seed import generator
from whence.models.table import token_table

__all__ = ["dropped_out", "noisy", "randomised", "stages"]


@contextmanager
def noisy(model: nn.Module, ids: Iterable[int], radius: float, seed: int) -> Iterator[None]:
    """Move the embedding of each of some tokens in a random direction, by `radius` times its own length.

    The table itself is changed: a token gets the same noise wherever it stands, so that deletion, padding and
    batches see the same noise. A row of zeros, as padding often is, stays. Give the ids of the input and of all that
    can stand in for its tokens.
    """
    table, moved = _table(model), sorted(set(ids))
    if moved and not 0 <= moved[0] <= moved[-1] < len(table):
        wrong = moved[0] if moved[0] < 0 else moved[-1]
        raise BadParameter(
            f"There is no token {wrong}: the model has embeddings for the ids 0 to {len(table) - 1}."
        )
    with altering(model, f"noise {radius!r} {seed} {moved}") as stack:
        _swap(stack, {table: _moved(table, moved, radius, seed)})
        yield


def _table(model: Any) -> nn.Parameter:
    try:
        table = token_table(model)
    except (NotImplementedError, AttributeError):  # what transformers raises where there is none
        table = None
    weight = getattr(table, "weight", None)
    if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or not weight.is_floating_point():
        raise NotCapturable(
            f"{type(model).__name__} has no table of token embeddings in floating point, so no noise can be added "
            "to it. Load a model of text that is not quantised."
        )
    return weight


# The caller may sit in inference mode, and no gradient flows through a tensor that was made in it.
@torch.inference_mode(False)
def _moved(table: Tensor, ids: Sequence[int], radius: float, seed: int) -> Tensor:
    data = table.detach().clone()
    for identity in ids:
        direction = generator("noise", seed, identity).standard_normal(data.shape[1])
        direction *= radius / np.linalg.norm(direction)
        row = data[identity].double()
        data[identity] = row + torch.from_numpy(direction).to(row.device) * row.norm()
    return data


@contextmanager
def randomised(model: nn.Module, stage: int, seed: int) -> Iterator[None]:
    """Replace the weights of the stages 0 to `stage` by random ones (Adebayo et al. 2018, arXiv:1810.03292).

    Each tensor is drawn from a normal distribution with the mean and the deviation of its own entries, so that what
    the model computes stays of a plausible size. A tensor whose entries are all the same (biases of zero, the ones of
    a norm) has learnt nothing that could be destroyed, and stays. What is shared is drawn once.
    """
    groups = list(grouped(model).values())
    if not 0 <= stage < len(groups):
        raise BadParameter(
            f"There is no stage {stage}: {type(model).__name__} has {len(groups)}, counted from 0 at the output."
        )
    weights = {name: one for group in groups[: stage + 1] for name, one in group.items()}
    for name, weight in weights.items():
        if not weight.is_floating_point():
            kind = str(weight.dtype).removeprefix("torch.")
            raise NotCapturable(
                f"The weights {name!r} of {type(model).__name__} are {kind} and cannot be drawn at random. "
                "Load the model without quantisation."
            )
    with altering(model, f"weights {stage} {seed}") as stack:
        _swap(stack, {one: _drawn(name, one, seed) for name, one in weights.items()})
        yield


@torch.inference_mode(False)
def _drawn(name: str, weight: Tensor, seed: int) -> Tensor:
    own = weight.detach()
    if own.numel() == 0 or bool(own.min() == own.max()):
        return own
    wide = own.to(torch.promote_types(own.dtype, torch.float32))
    deviation, mean = torch.std_mean(wide, correction=0)
    # By numpy and in float32, whatever the model's device and dtype: the same weights everywhere.
    drawn = generator("weights", seed, name).standard_normal(wide.numel(), dtype=np.float32)
    return (torch.from_numpy(drawn).to(wide).view(wide.shape) * deviation + mean).to(own.dtype)


def _swap(stack: ExitStack, changed: Mapping[nn.Parameter, Tensor]) -> None:
    """Let parameters point to other numbers; their own are not written to, and come back as they are."""
    for parameter, data in changed.items():
        stack.callback(_point, parameter, parameter.data)
        _point(parameter, data)


def _point(parameter: nn.Parameter, data: Tensor) -> None:
    parameter.data = data


"""A model changed for the length of a `with` block, and what it says then."""


"""Dropout as in training, but the same one every time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from whence.capture.found import altering
from whence.core.seed import generator


@contextmanager
def dropped_out(model: nn.Module, seed: int) -> Iterator[int]:
    """Drop features out as in training, the same ones in every forward pass; the model stays in evaluation mode.

    Yields how many modules drop something out: with 0 of them nothing is changed. What is dropped depends on the
    module, the place of the token and the feature, not on the batch. Dropout that is no module of its own (of
    attention weights; all of BART's) stays off.
    """
    with altering(model, f"dropout {seed}") as stack:
        calls: dict[str, int] = {}  # of each module, within one forward pass
        begin = model.register_forward_pre_hook(_own_thread(lambda *_: calls.clear()))
        stack.callback(begin.remove)
        active = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, nn.Dropout) and module.p > 0
        }
        for name, module in active.items():
            hook = module.register_forward_hook(_own_thread(_drop(name, seed, calls)))
            stack.callback(hook.remove)
        yield len(active)


def _drop(
    name: str, seed: int, calls: dict[str, int]
) -> Callable[[nn.Dropout, Any, Tensor], Tensor | None]:
    def drop(module: nn.Dropout, _: Any, output: Tensor) -> Tensor | None:
        # (inputs, heads, places, places) are attention weights, which most models do not show to a module.
        if output.dim() > 3:
            return None
        calls[name] = call = calls.get(name, -1) + 1
        shape = output.shape[1:]
        # Numbers are drawn place by place: what is longer, or padded, begins with the same ones.
        drawn = generator("dropout", seed, name, call).random(prod(shape))
        kept = torch.from_numpy(drawn >= module.p).to(output.device).view(shape)
        # A product, because the methods that follow every operation know what to make of one.
        return output * (kept.to(output.dtype) / (1 - module.p if module.p < 1 else 1))

    return drop


def _own_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Hooks are the model's, and another thread may run it meanwhile."""
    owner = get_ident()
    return lambda *args: hook(*args) if get_ident() == owner else None


"""Edges of attention knocked out while a model runs: what it says without them.

An edge is one weight of one map: that of a layer and a head, from the token that attends to the one it attends to.
Layers above compute their own attention from what is left, so the cut is a cut, and not a replay of old weights.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from whence.capture.attention.recognise import Recognise
from whence.capture.attention.seam import attention_seam, editing
from whence.capture.attention.unwatched import offers_seam
from whence.capture.forward import bare
from whence.capture.found import altering
from whence.core.errors import NotCapturable
from whence.data import Batch

# By layer, counted from 0 in the order of the forward pass: true where an edge is cut, (batch, heads, queries, keys).
Cuts = Mapping[int, Tensor]


class _Scissors:
    """Cuts one attention call after another, and counts them."""

    def __init__(self, cuts: Cuts, renormalise: bool) -> None:
        self.calls = 0
        self._cuts = cuts
        self._renormalise = renormalise

    def __call__(self, weights: Callable[[], Tensor]) -> Tensor | None:
        cut = self._cuts.get(self.calls)
        self.calls += 1
        if cut is None:
            return None
        whole = weights()
        if whole.shape != cut.shape:
            raise NotCapturable(
                f"Attention {self.calls - 1} has weights of {tuple(whole.shape)}; edges were to be cut in "
                f"{tuple(cut.shape)}. Only models whose every layer attends from all tokens to all can be cut."
            )
        left = whole.masked_fill(cut, 0)
        if not self._renormalise:
            return left
        # What a row keeps grows to what the row had; a row that keeps nothing attends to nothing.
        kept = left.sum(-1, keepdim=True)
        grown = left * (whole.sum(-1, keepdim=True) / kept.clamp(min=torch.finfo(kept.dtype).tiny))
        return torch.where(kept > 0, grown, torch.zeros_like(left))


@contextmanager
def cut_logits(
    model: Any, batch_size: int, *, renormalise: bool
) -> Iterator[Callable[[Batch, Cuts], Tensor]]:
    """Yield a function that runs a batch with some edges cut, and returns its logits, (batch, labels).

    Without `renormalise` a row loses what its edges moved. With it, the other weights of the row make up for it, as
    if the edges had been masked before the softmax.
    """
    with altering(model, "edges cut") as stack:
        # One of the seams, not both: each counts the calls.
        if not (offers_seam(model) and stack.enter_context(attention_seam(model, None))):
            stack.enter_context(Recognise(batch_size))
        forward = stack.enter_context(bare(model))

        def run(batch: Batch, cuts: Cuts) -> Tensor:
            scissors = _Scissors(cuts, renormalise)
            with editing(scissors):
                logits = forward(batch)
            if cuts and scissors.calls <= max(cuts):
                raise NotCapturable(
                    f"Edges were to be cut in attention {max(cuts)}, and {type(model).__name__} has "
                    f"{scissors.calls} of them that can be seen. Verify another model."
                )
            return logits

        yield run
