"""Captum's leave-one-out and integrated gradients, with the batch size that is fastest for Captum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from bench.speed.measuring import Case, Clock
from torch import Tensor

Given = Mapping[str, Any]


def build_ablation(model: Any, given: Given, filler: int, at_once: int) -> Callable[[], Tensor]:
    """Return FeatureAblation of single tokens of one input, so many variants in a batch."""
    from captum.attr import FeatureAblation

    ids, mask = (torch.tensor(given[name]) for name in ("input_ids", "attention_mask"))

    def compute_probabilities(some: Tensor) -> Tensor:
        logits: Tensor = model(input_ids=some, attention_mask=mask.expand_as(some)).logits
        return logits.softmax(-1)

    def run() -> Tensor:
        with torch.inference_mode():
            target = compute_probabilities(ids).argmax(-1)
            found: Tensor = FeatureAblation(compute_probabilities).attribute(
                ids, baselines=filler, target=target, perturbations_per_eval=at_once
            )
        return found[0]

    return run


def build_integrated_gradients(
    model: Any, given: Given, filler: int, steps: int, at_once: int
) -> Callable[[], Tensor]:
    """Return IntegratedGradients of one input, by the same rule as ours, so many points in a batch.

    With its convergence delta: ours comes with its completeness, too.
    """
    from captum.attr import IntegratedGradients

    ids, mask = (torch.tensor(given[name]) for name in ("input_ids", "attention_mask"))
    table = model.get_input_embeddings()

    def compute_logits(some: Tensor) -> Tensor:
        found: Tensor = model(inputs_embeds=some, attention_mask=mask.expand(len(some), -1)).logits
        return found

    def run() -> Tensor:
        inputs, start = table(ids).detach(), table(torch.full_like(ids, filler)).detach()
        with torch.inference_mode():
            target = compute_logits(inputs).argmax(-1)
        found, _ = IntegratedGradients(compute_logits).attribute(
            inputs,
            start,
            target=target.clone(),
            n_steps=steps,
            method="gausslegendre",
            internal_batch_size=at_once,
            return_convergence_delta=True,
        )
        scores: Tensor = found.sum(-1)[0].detach()
        return scores

    return run


def find_best_size(one_batch: Callable[[int], Case], sizes: Sequence[int], clock: Clock) -> int:
    """Return the batch size that takes the least time per input here."""
    cases = {str(size): one_batch(size) for size in sizes}
    taken = replace(clock, repeats=3).measure_medians(cases, warm=1)
    return min(sizes, key=lambda size: taken[str(size)].seconds / size)
