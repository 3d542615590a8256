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
