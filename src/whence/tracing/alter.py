"""Alterations of a model inside a `with` block: embedding noise, random weights, dropout, cut attention edges.

Afterwards the model is what it was, bit for bit. Meanwhile every method works on it, and it has a
fingerprint of its own. Other threads that explain it wait; code that runs the model itself sees the change.
Weights are randomised from the output downwards (Adebayo et al. 2018, arXiv:1810.03292). Dropout is drawn
from a key, so that it is the same in every pass. A cut edge is one weight of one map: layers above compute
their attention from what is left, so the cut is not a replay of old weights.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.errors import BadParameter, NotCapturable
from whence.core.seed import build_generator
from whence.data.batches import Batch
from whence.models.facts import find_token_embeddings, get_facts
from whence.tracing.attention_interface import route_attention, weight_edit
from whence.tracing.forward import open_plain_forward
from whence.tracing.recognise import AttentionRecogniser
from whence.tracing.restore import alter_model, set_variable
from whence.tracing.structure import group_parameters_by_stage


@contextmanager
def add_embedding_noise(
    model: nn.Module,
    ids: Iterable[int],
    radius: float,
    seed: int,
    drawn: dict[str, Tensor] | None = None,
) -> Iterator[None]:
    """Move the embeddings of some tokens, each in a random direction by `radius` times its length.

    The table itself is changed: a token gets the same noise at every position, so deletion, padding
    and batches see the same noise. A row of zeros, as padding often is, stays. `ids` must hold the
    ids of the input and of all its replacement tokens. With `drawn`, the copy of the table is kept there
    for the next noise on the same ids.
    """
    table, token_ids = _find_embedding_weight(model), sorted(set(ids))
    if token_ids and not 0 <= token_ids[0] <= token_ids[-1] < len(table):
        bad_id = token_ids[0] if token_ids[0] < 0 else token_ids[-1]
        raise BadParameter(
            f"There is no token {bad_id}: the model has embeddings for the ids 0 to {len(table) - 1}."
        )
    with alter_model(model, f"noise {radius!r} {seed} {token_ids}") as stack:
        copies = {} if drawn is None else drawn
        # The caller may be in inference mode, and no gradient flows through a tensor made in that mode.
        with torch.inference_mode(False):
            if repr(token_ids) not in copies:
                copies.clear()
                copies[repr(token_ids)] = table.detach().clone()
            copy = copies[repr(token_ids)]
            for identity in token_ids:
                direction = build_generator("noise", seed, identity).standard_normal(table.shape[1])
                direction *= radius / np.linalg.norm(direction)
                row = table.detach()[identity].double()
                copy[identity] = row + torch.from_numpy(direction).to(row.device) * row.norm()
        _replace_parameters(stack, {table: copy})
        yield


def _find_embedding_weight(model: Any) -> nn.Parameter:
    try:
        weight = getattr(find_token_embeddings(model), "weight", None)
    except (NotImplementedError, AttributeError):  # by transformers, for a model without a table
        weight = None
    if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or not weight.is_floating_point():
        raise NotCapturable(
            f"{type(model).__name__} has no table of token embeddings in floating point, so no noise can be added "
            "to it. Load a model of text that is not quantised."
        )
    return weight


@contextmanager
def randomise_weights(
    model: nn.Module, stage: int, seed: int, drawn: dict[str, Tensor] | None = None
) -> Iterator[None]:
    """Replace the weights of stages 0 to `stage` by random ones (Adebayo et al. 2018, arXiv:1810.03292).

    Each tensor is drawn from a normal distribution with the mean and the deviation of its own
    entries, so activations stay of a plausible size. A tensor whose entries are all equal (biases of
    zero, the ones of a norm) has learnt nothing that could be destroyed, and stays. A shared tensor is
    drawn once. With `drawn`, weights that an earlier stage drew with this seed are taken from there.
    """
    groups = list(group_parameters_by_stage(model).values())
    if not 0 <= stage < len(groups):
        raise BadParameter(
            f"There is no stage {stage}: {type(model).__name__} has {len(groups)}, counted from 0 at the output."
        )
    weights = {name: weight for group in groups[: stage + 1] for name, weight in group.items()}
    for name, weight in weights.items():
        if not weight.is_floating_point():
            kind = str(weight.dtype).removeprefix("torch.")
            raise NotCapturable(
                f"The weights {name!r} of {type(model).__name__} are {kind} and cannot be drawn at random. "
                "Load the model without quantisation."
            )
    drawn = {} if drawn is None else drawn
    with alter_model(model, f"weights {stage} {seed}") as stack:
        for name in weights.keys() - drawn.keys():
            drawn[name] = _draw_weights(name, weights[name], seed)
        _replace_parameters(stack, {weight: drawn[name] for name, weight in weights.items()})
        yield


@torch.inference_mode(False)
def _draw_weights(name: str, weight: Tensor, seed: int) -> Tensor:
    data = weight.detach()
    if data.numel() == 0 or bool(data.min() == data.max()):
        return data
    wide = data.to(torch.promote_types(data.dtype, torch.float32))
    deviation, mean = torch.std_mean(wide, correction=0)
    # Drawn by numpy in float32, so that the weights are the same on every device and in every dtype.
    noise = build_generator("weights", seed, name).standard_normal(wide.numel(), dtype=np.float32)
    return (torch.from_numpy(noise).to(wide).view(wide.shape) * deviation + mean).to(data.dtype)


def _replace_parameters(stack: ExitStack, replacements: Mapping[nn.Parameter, Tensor]) -> None:
    """Point parameters to other tensors; the stack restores their own, which are never written to."""
    for parameter, data in replacements.items():
        stack.callback(setattr, parameter, "data", parameter.data)
        parameter.data = data


@contextmanager
def apply_dropout(model: nn.Module, seed: int) -> Iterator[int]:
    """Apply dropout in evaluation mode, with the same dropped features in every forward pass.

    Yields the number of active dropout modules: with 0 of them nothing is changed. The dropped
    features depend on the module, the position of the token and the feature, not on the batch.
    Dropout that is no module of its own (of attention weights; all of BART's) stays off.
    """
    with alter_model(model, f"dropout {seed}") as stack:
        calls: dict[str, int] = {}  # by module name: its calls within one forward pass
        begin = model.register_forward_pre_hook(_limit_to_thread(lambda *_: calls.clear()))
        stack.callback(begin.remove)
        active = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, nn.Dropout) and module.p > 0
        }
        for name, module in active.items():
            hook = module.register_forward_hook(
                _limit_to_thread(_build_dropout_hook(name, seed, calls))
            )
            stack.callback(hook.remove)
        yield len(active)


def _build_dropout_hook(
    name: str, seed: int, calls: dict[str, int]
) -> Callable[[nn.Dropout, Any, Tensor], Tensor | None]:
    def drop(module: nn.Dropout, _: Any, output: Tensor) -> Tensor | None:
        # Four dimensions are attention weights, for which most models have no dropout module.
        if output.dim() > 3:
            return None
        calls[name] = call = calls.get(name, -1) + 1
        shape = output.shape[1:]
        # Drawn position by position, so that a longer or padded input begins with the same numbers.
        numbers = build_generator("dropout", seed, name, call).random(prod(shape))
        keep_mask = torch.from_numpy(numbers >= module.p).to(output.device).view(shape)
        # A product, because LRP and decomposition methods have a rule for it.
        return output * (keep_mask.to(output.dtype) / (1 - module.p if module.p < 1 else 1))

    return drop


def _limit_to_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return the hook, limited to this thread: another thread may run the same model meanwhile."""
    owner = get_ident()
    return lambda *args: hook(*args) if get_ident() == owner else None


# By layer, counted from 0 in the order of the forward pass: a bool tensor, true where an edge is cut,
# (batch, heads, queries, keys).
EdgeCuts = Mapping[int, Tensor]


class _EdgeCutter:
    """A weight edit that cuts edges of one attention call after another, and counts the calls."""

    def __init__(self, cuts: EdgeCuts, renormalise: bool) -> None:
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
        rest = whole.masked_fill(cut, 0)
        if not self._renormalise:
            return rest
        # The remaining weights of a row are scaled to its former sum; a row without any stays zero.
        sums = rest.sum(-1, keepdim=True)
        result = rest * (whole.sum(-1, keepdim=True) / sums.clamp(min=torch.finfo(sums.dtype).tiny))
        return torch.where(sums > 0, result, torch.zeros_like(rest))


@contextmanager
def cut_edges(
    model: Any, batch_size: int, *, renormalise: bool
) -> Iterator[Callable[[Batch, EdgeCuts], Tensor]]:
    """Yield a function that runs a batch with some edges cut and returns its logits, (batch, labels).

    Without `renormalise` a row loses the weight of its cut edges. With it, the other weights of the
    row are scaled up, as if the edges had been masked before the softmax.
    """
    with alter_model(model, "edges cut") as stack:
        # Either routing or recognition, not both: each of them would count the calls.
        if not (get_facts(model).is_routable and stack.enter_context(route_attention(model, None))):
            stack.enter_context(AttentionRecogniser(batch_size))
        forward = stack.enter_context(open_plain_forward(model))

        def run(batch: Batch, cuts: EdgeCuts) -> Tensor:
            cutter = _EdgeCutter(cuts, renormalise)
            with set_variable(weight_edit, cutter):
                logits = forward(batch)
            if cuts and cutter.calls <= max(cuts):
                raise NotCapturable(
                    f"Edges were to be cut in attention {max(cuts)}, and {type(model).__name__} has "
                    f"{cutter.calls} of them that can be seen. Verify another model."
                )
            return logits

        yield run
