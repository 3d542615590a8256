"""SmoothGrad (Smilkov et al. 2017): norm of the mean gradient over noisy copies of the embeddings."""

from typing import Annotated

import torch
from torch import Tensor

from whence.core.params import Range
from whence.core.seed import build_generator
from whence.data.batches import Batch
from whence.methods import Scores, method
from whence.tracing.ask import ModelQuery


@method(
    "smoothgrad",
    family="gradient",
    needs=set(),
    signed=False,
    signed_when=lambda parameters: parameters["times_input"],
    unit="relative",
    unit_when=lambda parameters: "output" if parameters["times_input"] else "relative",
    calls=lambda _, parameters: parameters["samples"],
    cite="Smilkov et al. 2017, arXiv:1706.03825",
    formula="s_j = ‖ g_j ‖₂ (or Σ_d e_{j,d} · g_{j,d}),  g = mean of dy/de at e + ε,  ε ~ N(0, σ²),  "
    "σ = noise · (max e - min e)",
    cost="samples + 1 forwards, samples backwards",
    misleads_when="the noise is so large that it is another text that is explained; and slope is not contribution",
)
def smoothgrad(
    ask: ModelQuery,
    batch: Batch,
    *,
    samples: Annotated[int, Range(min=1)] = 25,
    noise: Annotated[float, Range(0, 10)] = 0.15,
    times_input: bool = False,
    seed: int = 0,
) -> Scores:
    """Average the gradient over noisy copies of the embeddings, and measure its length at each token.

    `times_input` multiplies the averaged gradient with the embedding instead, which gives it a sign. The noise is
    a share of the spread of the input's own embeddings.
    """
    inputs = batch.pad_values(ask.embeddings)
    draws = [build_generator("smoothgrad", seed, item.key) for item in batch.items]
    spread = noise * torch.stack([own.max() - own.min() for own in ask.embeddings])

    def draw_copies(rows: list[int], _: list[int]) -> tuple[Tensor, Tensor]:
        drawn = [draws[row].standard_normal(tuple(ask.embeddings[row].shape)) for row in rows]
        moves = batch.pad_values([torch.as_tensor(own).to(inputs) for own in drawn], rows)
        return inputs[rows] + spread[rows, None, None] * moves, inputs.new_tensor(1 / samples)

    mean = ask.sum_slopes(samples, draw_copies)
    norm: Tensor = torch.linalg.vector_norm(mean, dim=-1)
    return (inputs * mean).sum(-1) if times_input else norm
