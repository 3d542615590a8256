"""Integrated gradients (Sundararajan et al. 2017): gradients summed by quadrature from a baseline to the input."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import torch

from whence.core.errors import BadParameter
from whence.core.params import Range
from whence.data.batches import Batch
from whence.methods import Scores, method, settle_baseline
from whence.tracing.ask import Baseline, ModelQuery, resolve_baseline

Rule = Literal["gauss_legendre", "midpoint", "right", "trapezoid"]


def _resolve_parameters(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    _compute_nodes(parameters["rule"], parameters["steps"])
    return settle_baseline(parameters, fillers)


def _compute_nodes(rule: Rule, steps: int) -> tuple[list[float], list[float]]:
    """Return the quadrature nodes from 0 to 1 and their weights, which add up to 1."""
    if rule == "gauss_legendre":
        places, weights = np.polynomial.legendre.leggauss(steps)
        return ((places + 1) / 2).tolist(), (weights / 2).tolist()
    if rule == "trapezoid":
        if steps < 2:
            raise BadParameter(f"rule='trapezoid' needs steps >= 2, for both ends. Got {steps}.")
        inner = 1 / (steps - 1)
        weights = np.array([inner / 2, *[inner] * (steps - 2), inner / 2])
        return np.linspace(0, 1, steps).tolist(), weights.tolist()
    shift = 1.0 if rule == "right" else 0.5
    return [(step + shift) / steps for step in range(steps)], [1 / steps] * steps


@method(
    "integrated_gradients",
    family="gradient",
    needs=set(),
    signed=True,
    unit="output",
    settle=_resolve_parameters,
    calls=lambda _, parameters: parameters["steps"] + 1,
    cite="Sundararajan, Taly & Yan 2017, arXiv:1703.01365",
    formula="s_j = Σ_d (e - b)_{j,d} · ∫₀¹ dy/de_{j,d} at b + α (e - b) dα,  b the baseline",
    cost="steps + 2 forwards, steps backwards",
    misleads_when="the model was never made for what lies between text and baseline, and every score depends on that "
    "baseline; where completeness is not near 0, take more steps",
)
def integrated_gradients(
    ask: ModelQuery,
    batch: Batch,
    *,
    baseline: Baseline | None = None,
    steps: Annotated[int, Range(1, 1000)] = 50,
    rule: Rule = "gauss_legendre",
    keep_special: bool = False,
) -> Scores:
    """Add up the gradients on the straight way from a baseline to the input; the scores sum to the difference.

    Every token becomes the baseline's vector: that of the padding or mask token, zero, or the mean of the vocabulary
    (by default padding, or zero where there is none). `keep_special` leaves special tokens as they are, on
    both ends; their score is then 0.
    """
    starts = ask.baselines(resolve_baseline(baseline, ask.fillers), keep_special=keep_special)
    first, last = batch.pad_values(starts), batch.pad_values(ask.embeddings)
    nodes = torch.tensor(_compute_nodes(rule, steps), dtype=last.dtype, device=last.device)
    places, weights = nodes[:, :, None, None]
    slopes = ask.sum_slopes(
        steps,
        lambda rows, step: (torch.lerp(first[rows], last[rows], places[step]), weights[step]),
    )
    scores = ((last - first) * slopes).sum(-1)
    rise = ask.base() - ask.at(enumerate(starts))
    return scores, {"completeness": scores.sum(1) - rise}
