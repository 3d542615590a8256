"""The slow twins of the methods that ask the model again: one call at a time, sets in full, loops."""

import itertools
import math
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import Ridge

from tests.reference.twins import Eager, twin

# The draws belong to the definition of the methods that sample; nothing else is shared with whence.
from whence.core.seed import build_generator


def slope_at(run: Eager, vectors: torch.Tensor) -> torch.Tensor:
    leaf = vectors.detach().clone().requires_grad_()
    run.model(inputs_embeds=leaf[None]).logits[0, run.target].backward()
    run.model.zero_grad()
    return leaf.grad


def baseline_of(run: Eager, kind: str) -> torch.Tensor:
    table = run.model.get_input_embeddings()
    pad = table(torch.tensor(run.model.config.pad_token_id)).detach()
    if kind == "mean":
        return sum(table(torch.tensor(i)).detach() for i in range(64)) / 64
    return 0 * pad if kind == "zero" else pad


def dot(one: torch.Tensor, other: torch.Tensor) -> float:
    return sum(a.item() * b.item() for a, b in zip(one, other, strict=True))


def nodes_of(rule: str, steps: int) -> list[tuple[float, float]]:
    if rule == "gauss_legendre":
        pairs = zip(*np.polynomial.legendre.leggauss(steps), strict=True)
        return [((1 + node) / 2, weight / 2) for node, weight in pairs]
    if rule == "midpoint":
        return [((2 * k - 1) / (2 * steps), 1 / steps) for k in range(1, steps + 1)]
    if rule == "right":
        return [(k / steps, 1 / steps) for k in range(1, steps + 1)]
    cells = steps - 1  # the trapezoid over each cell: half of its width to either end
    halves = [(k / cells, 0.5 / cells) for k in range(cells)]
    return halves + [(k / cells, 0.5 / cells) for k in range(1, cells + 1)]


@twin("integrated_gradients")
def integrated_gradients(
    run: Eager, row: int, baseline: str = "pad", steps: int = 50, rule: str = "gauss_legendre"
) -> list[float]:
    start = baseline_of(run, baseline)
    scores = [0.0] * len(run.ids)
    for place, weight in nodes_of(rule, steps):
        slope = slope_at(run, torch.stack([start + place * (e - start) for e in run.embedded]))
        for j in run.tokens:
            scores[j] += weight * dot(run.embedded[j] - start, slope[j])
    return scores


def spread_of(run: Eager) -> float:
    values = run.embedded.flatten().tolist()
    return max(values) - min(values)


@twin("smoothgrad")
def smoothgrad(
    run: Eager, row: int, samples: int = 25, noise: float = 0.15, times_input: bool = False, seed: int = 0
) -> list[float]:  # fmt: skip
    draw = build_generator("smoothgrad", seed, run.ids)
    slopes = []
    for _ in range(samples):
        drawn = torch.tensor(draw.standard_normal(tuple(run.embedded.shape)))
        slopes.append(slope_at(run, run.embedded + noise * spread_of(run) * drawn))
    mean = sum(slopes) / samples
    if times_input:
        return [dot(mean[j], run.embedded[j]) for j in run.tokens]
    return [math.sqrt(dot(mean[j], mean[j])) for j in run.tokens]


@twin("gradient_shap")
def gradient_shap(
    run: Eager, row: int, baseline: str = "pad", samples: int = 50, noise: float = 0.0, seed: int = 0
) -> list[float]:  # fmt: skip
    start = baseline_of(run, baseline)
    draw = build_generator("gradient_shap", seed, run.ids)
    scores = [0.0] * len(run.ids)
    for place in draw.random(samples):
        end = run.embedded
        if noise:
            drawn = torch.tensor(draw.standard_normal(tuple(end.shape)))
            end = end + noise * spread_of(run) * drawn
        slope = slope_at(run, torch.stack([start + place * (e - start) for e in end]))
        for j in run.tokens:
            scores[j] += dot(end[j] - start, slope[j]) / samples
    return scores


def probability(run: Eager, ids: list[int]) -> float:
    with torch.no_grad():
        logits = run.model(input_ids=torch.tensor([ids])).logits[0]
    return logits.softmax(-1)[run.target].item()


def padded(run: Eager, present: Any) -> list[int]:
    pad = run.model.config.pad_token_id
    return [run.ids[j] if j in present else pad for j in run.tokens]


@twin("occlusion")
def occlusion(run: Eager, row: int, window: int = 3, remove: str = "delete") -> list[float]:
    falls: list[list[float]] = [[] for _ in run.ids]
    for first in range(len(run.ids) - window + 1):
        hole = range(first, first + window)
        rest = [j for j in run.tokens if j not in hole]
        ids = padded(run, rest) if remove == "pad" else [run.ids[j] for j in rest]
        for j in hole:
            falls[j].append(run.probability - probability(run, ids))
    return [sum(own) / len(own) for own in falls]


@twin("lime")
def lime(
    run: Eager, row: int, samples: int = 1000, kernel_width: float = 25, ridge: float = 1
) -> list[float]:
    """Every text with tokens removed, as often as so many draws would give it, in scikit-learn's regression."""
    n = len(run.ids)
    kept, values, weights = [[1] * n], [run.probability], [1.0]
    for size in range(1, n + 1):
        for gone in itertools.combinations(run.tokens, size):
            present = [j for j in run.tokens if j not in gone]
            cosine = len(present) / math.sqrt(len(present) * n) if present else 0.0
            kernel = math.sqrt(math.exp(-((100 * (1 - cosine)) ** 2) / kernel_width**2))
            kept.append([int(j in present) for j in run.tokens])
            values.append(probability(run, padded(run, present)))
            weights.append((samples - 1) / n / math.comb(n, size) * kernel)
    fitted = Ridge(alpha=ridge).fit(np.array(kept), np.array(values), sample_weight=weights)
    return list(fitted.coef_)


@twin("kernel_shap")
def kernel_shap(run: Eager, row: int) -> list[float]:
    """Shapley's own formula over all coalitions: no regression."""
    n = len(run.ids)
    value = {
        frozenset(present): probability(run, padded(run, present))
        for size in range(n + 1)
        for present in itertools.combinations(run.tokens, size)
    }
    scores = []
    for j in run.tokens:
        total = 0.0
        for present in value:
            if j not in present:
                others = math.factorial(len(present)) * math.factorial(n - len(present) - 1)
                total += others / math.factorial(n) * (value[present | {j}] - value[present])
        scores.append(total)
    return scores


VARIANTS: list[tuple[str, Any, dict[str, Any]]] = [
    ("integrated_gradients", integrated_gradients, {"baseline": "zero", "steps": 7}),
    ("integrated_gradients", integrated_gradients, {"baseline": "mean", "steps": 7}),
    ("integrated_gradients", integrated_gradients, {"steps": 5, "rule": "midpoint"}),
    ("integrated_gradients", integrated_gradients, {"steps": 5, "rule": "right"}),
    ("integrated_gradients", integrated_gradients, {"steps": 5, "rule": "trapezoid"}),
    ("smoothgrad", smoothgrad, {"samples": 3, "noise": 0.05, "times_input": True, "seed": 4}),
    ("gradient_shap", gradient_shap, {"baseline": "zero", "samples": 4, "noise": 0.1, "seed": 2}),
    ("occlusion", occlusion, {"window": 2, "remove": "pad"}),
    ("occlusion", occlusion, {"window": 8, "remove": "pad"}),
    ("lime", lime, {"samples": 300, "kernel_width": 60, "ridge": 0.1}),
]
