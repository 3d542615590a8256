"""LIME (Ribeiro et al. 2016): weighted ridge regression on the probabilities of inputs with tokens removed."""

from functools import partial
from typing import Annotated, Any

import numpy as np
import torch

from whence.core.params import Range
from whence.core.seed import build_generator
from whence.data.batches import Batch
from whence.data.removal import (
    BULK_REMOVALS,
    CoalitionStratum,
    Removal,
    build_presence_matrix,
    list_players,
    resolve_removal,
    sample_coalitions,
)
from whence.methods import Scores, method, settle_removal
from whence.tracing.ask import ModelQuery


@method(
    "lime",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=partial(settle_removal, prefer=BULK_REMOVALS),
    of="probability",
    words="sum",  # coefficients of a linear model: those of a word's tokens add up
    calls=lambda tokens, parameters: min(parameters["samples"], 2**tokens) - 1,
    presets={"lime_text": {"samples": 5000}},
    cite="Ribeiro, Singh & Guestrin 2016, arXiv:1602.04938; kernel and ridge as in the authors' lime-text",
    formula="s = argmin_s Σ_z π(z) (p(y | x without what z lacks) - s·z - c)² + ridge · ‖s‖²,  "
    "π(z) = √exp(-d²/width²),  d = 100 (1 - √(|z|/n))",
    cost="up to `samples` forwards; 2ⁿ for n tokens if that is less",
    misleads_when="tokens act together, which a sum of single effects cannot say; or samples are few, and "
    "another seed gives another answer",
)
def lime(
    ask: ModelQuery,
    batch: Batch,
    *,
    samples: Annotated[int, Range(min=2)] = 1000,
    remove: Removal | None = None,
    kernel_width: Annotated[float, Range(min=1)] = 25.0,
    ridge: Annotated[float, Range(min=0)] = 1.0,
    seed: int = 0,
) -> Scores:
    """Fit a linear model to the probability of texts with tokens removed, near ones first.

    How many tokens go is uniform from 1 to all; the whole text is among the samples. Where independent draws would
    repeat themselves, each set of tokens comes once and weighs for all of them. Special tokens, and those without
    which the model is undefined, always stay and score 0.
    """
    how = resolve_removal(remove, ask.fillers, BULK_REMOVALS)
    places = [list_players(item, ask.anchors) for item in batch.items]
    drawn = [
        sample_coalitions(
            [CoalitionStratum(len(own), size, 1 / len(own)) for size in range(1, len(own) + 1)],
            samples - 1,
            build_generator("lime", seed, item.key),
        )
        for item, own in zip(batch.items, places, strict=True)
    ]
    masked = [
        [[own[player] for player in gone] for gone, _ in sets]
        for own, sets in zip(places, drawn, strict=True)
    ]
    after = ask.without(masked, how)
    base = ask.base("probability")
    exact = torch.promote_types(base.dtype, torch.float32)
    parts = [base.new_zeros(len(item), dtype=exact) for item in batch.items]
    for row, (own, sets) in enumerate(zip(places, drawn, strict=True)):
        if not own:
            continue
        present = build_presence_matrix(len(own), [(), *(gone for gone, _ in sets)])
        often = np.array([1, *((samples - 1) * share for _, share in sets)])
        distance = 100 * (1 - np.sqrt(present.mean(1)))
        weights = often * np.sqrt(np.exp(-((distance / kernel_width) ** 2)))
        values = np.array([base[row].item(), *after[row].tolist()])
        parts[row][own] = torch.as_tensor(_fit(present, values, weights, ridge)).to(parts[row])
    return batch.pad_values(parts)


def _fit(present: Any, values: Any, weights: Any, ridge: float) -> Any:
    """Return the slopes of a weighted ridge regression; the intercept is not penalised."""
    share = weights / weights.sum()
    rows = present - share @ present
    rest = values - share @ values
    weighted = rows * weights[:, None]
    squares = weighted.T @ rows + ridge * np.eye(rows.shape[1])
    # Least squares instead of a plain solve: without a ridge the samples may leave some directions undetermined.
    return np.linalg.lstsq(squares, weighted.T @ rest, rcond=1e-10)[0]
