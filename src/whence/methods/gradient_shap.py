"""Expected gradients (GradientSHAP): mean of (input - baseline) x gradient at random points between the two."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import torch
from torch import Tensor

from whence.core.params import Range
from whence.core.seed import build_generator
from whence.data.batches import Batch
from whence.methods import Scores, method
from whence.tracing.ask import Baseline, ModelQuery, resolve_baseline


def _resolve_parameters(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "baseline": resolve_baseline(parameters["baseline"], fillers)}


@method(
    "gradient_shap",
    family="gradient",
    needs=set(),
    signed=True,
    unit="output",
    settle=_resolve_parameters,
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
    inputs = ask.embeddings
    starts = ask.baselines(resolve_baseline(baseline, ask.fillers), keep_special=keep_special)
    parts = [own.new_zeros(len(own)) for own in inputs]
    ways: deque[Tensor] = deque()  # differences input - baseline that wait for their gradient

    def draw_points() -> Iterator[tuple[int, Tensor]]:
        for row, (item, own) in enumerate(zip(batch.items, inputs, strict=True)):
            draw = build_generator("gradient_shap", seed, item.key)
            width = noise * (own.max() - own.min())
            for place in draw.random(samples).tolist():
                way = own - starts[row]
                if noise:
                    drawn = draw.standard_normal(tuple(own.shape))
                    way = way + width * torch.as_tensor(drawn).to(own)
                ways.append(way)
                yield row, starts[row] + place * way

    for number, slope in enumerate(ask.slopes(draw_points())):
        parts[number // samples] += (ways.popleft() * slope).sum(-1) / samples
    scores = batch.pad_values(parts)
    rise = ask.base() - ask.at(enumerate(starts))
    return scores, {"completeness": scores.sum(1) - rise}
