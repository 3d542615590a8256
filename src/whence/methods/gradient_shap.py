"""Expected gradients (GradientSHAP): mean of (input - baseline) x gradient at random points between the two."""

from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from whence.core.params import Range
from whence.core.seed import build_generator
from whence.data.batches import Batch
from whence.methods import Scores, method, settle_baseline
from whence.tracing.ask import Baseline, ModelQuery, resolve_baseline


@method(
    "gradient_shap",
    family="gradient",
    needs=set(),
    signed=True,
    unit="output",
    settle=settle_baseline,
    calls=lambda _, parameters: parameters["samples"] + 1,
    presets={"captum": {"samples": 5}, "shap": {"samples": 200}},
    cite="Erion et al. 2021, arXiv:1906.10670; Lundberg & Lee 2017, arXiv:1705.07874",
    formula="s_j = mean of Σ_d (x - b)_{j,d} · dy/de_{j,d} at b + α (x - b),  x = e + ε,  α ~ U(0, 1),  "
    "ε ~ N(0, σ²),  σ = noise · (max e - min e)",
    cost="samples + 2 forwards, samples backwards",
    misleads_when="samples are few: completeness says how far the scores are from adding up; else as integrated "
    "gradients, to which it comes near without noise",
)
def gradient_shap(
    ask: ModelQuery,
    batch: Batch,
    *,
    baseline: Baseline | None = None,
    samples: Annotated[int, Range(min=1)] = 50,
    noise: Annotated[float, Range(0, 10)] = 0.0,
    keep_special: bool = False,
    seed: int = 0,
) -> Scores:
    """Average (input - baseline) x gradient over random places between the two, and over noise on the input.

    Baselines as in integrated_gradients, noise as in smoothgrad. Only without noise, which is the default, do the
    scores of many samples add up to the difference of the outputs.
    """
    starts = ask.baselines(resolve_baseline(baseline, ask.fillers), keep_special=keep_special)
    first, last = batch.pad_values(starts), batch.pad_values(ask.embeddings)
    draws = [build_generator("gradient_shap", seed, item.key) for item in batch.items]
    places = torch.tensor(np.array([draw.random(samples) for draw in draws])).to(last)
    spread = noise * torch.stack([own.max() - own.min() for own in ask.embeddings])

    def draw_points(rows: list[int], numbers: list[int]) -> tuple[Tensor, Tensor]:
        ways = last[rows] - first[rows]
        if noise:
            drawn = [draws[row].standard_normal(tuple(ask.embeddings[row].shape)) for row in rows]
            moves = batch.pad_values([torch.as_tensor(own).to(last) for own in drawn], rows)
            ways = ways + spread[rows, None, None] * moves
        return first[rows] + places[rows, numbers, None, None] * ways, ways

    scores = ask.sum_slopes(samples, draw_points).sum(-1) / samples
    rise = ask.base() - ask.at(enumerate(starts))
    return scores, {"completeness": scores.sum(1) - rise}
