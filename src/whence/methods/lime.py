"""LIME for text (Ribeiro, Singh & Guestrin 2016)."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch

from whence.capture import Ask
from whence.core.params import Range
from whence.core.seed import generator
from whence.data import Batch
from whence.data.coalitions import Stratum, presence, spread
from whence.data.removal import MANY, Removal, players, resolve
from whence.methods import Scores, method


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "remove": resolve(parameters["remove"], fillers, MANY)}


@method(
    "lime",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=_settle,
    of="probability",
    words="sum",  # coefficients of one sum: what tokens count for together is theirs added up
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
    ask: Ask,
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
    how = resolve(remove, ask.fillers, MANY)
    places = [players(item, ask.anchors) for item in batch.items]
    drawn = [
        spread(
            [Stratum(len(own), size, 1 / len(own)) for size in range(1, len(own) + 1)],
            samples - 1,
            generator("lime", seed, item.key),
        )
        for item, own in zip(batch.items, places, strict=True)
    ]
    holes = [
        [[own[player] for player in gone] for gone, _ in sets]
        for own, sets in zip(places, drawn, strict=True)
    ]
    after = ask.without(holes, how)
    base = ask.base("probability")
    exact = torch.promote_types(base.dtype, torch.float32)
    parts = [base.new_zeros(len(item), dtype=exact) for item in batch.items]
    for row, (own, sets) in enumerate(zip(places, drawn, strict=True)):
        if not own:
            continue
        present = presence(len(own), [(), *(gone for gone, _ in sets)])
        often = np.array([1, *((samples - 1) * share for _, share in sets)])
        distance = 100 * (1 - np.sqrt(present.mean(1)))
        weights = often * np.sqrt(np.exp(-((distance / kernel_width) ** 2)))
        values = np.array([base[row].item(), *after[row].tolist()])
        parts[row][own] = torch.as_tensor(_fit(present, values, weights, ridge)).to(parts[row])
    return batch.spread(parts)


def _fit(present: Any, values: Any, weights: Any, ridge: float) -> Any:
    """Return the slopes of a weighted ridge regression; the intercept is not held back."""
    share = weights / weights.sum()
    rows = present - share @ present
    rest = values - share @ values
    weighted = rows * weights[:, None]
    squares = weighted.T @ rows + ridge * np.eye(rows.shape[1])
    # Least squares once more: without a ridge there may be directions in which the samples say nothing.
    return np.linalg.lstsq(squares, weighted.T @ rest, rcond=1e-10)[0]
