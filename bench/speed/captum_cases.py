"""Captum's version of what whence asks a model again and again for, as fast as Captum can be had to do it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from bench.speed.measuring import Case, Clock
from torch import Tensor

Given = Mapping[str, Any]


def ablation(model: Any, given: Given, filler: int, at_once: int) -> Callable[[], Tensor]:
    """Return FeatureAblation of single tokens of one input, so many variants in a batch."""
    from captum.attr import FeatureAblation

    ids, mask = (torch.tensor(given[name]) for name in ("input_ids", "attention_mask"))

    def shares(some: Tensor) -> Tensor:
        logits: Tensor = model(input_ids=some, attention_mask=mask.expand_as(some)).logits
        return logits.softmax(-1)

    def run() -> Tensor:
        with torch.inference_mode():
            target = shares(ids).argmax(-1)
            found: Tensor = FeatureAblation(shares).attribute(
                ids, baselines=filler, target=target, perturbations_per_eval=at_once
            )
        return found[0]

    return run


def integrated(
    model: Any, given: Given, filler: int, steps: int, at_once: int
) -> Callable[[], Tensor]:
    """Return IntegratedGradients of one input, by the same rule as ours, so many points in a batch.

    With its convergence delta: ours comes with its completeness, too.
    """
    from captum.attr import IntegratedGradients

    ids, mask = (torch.tensor(given[name]) for name in ("input_ids", "attention_mask"))
    table = model.get_input_embeddings()

    def logits(some: Tensor) -> Tensor:
        found: Tensor = model(inputs_embeds=some, attention_mask=mask.expand(len(some), -1)).logits
        return found

    def run() -> Tensor:
        inputs, start = table(ids).detach(), table(torch.full_like(ids, filler)).detach()
        with torch.inference_mode():
            target = logits(inputs).argmax(-1)
        found, _ = IntegratedGradients(logits).attribute(
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


def best(one_batch: Callable[[int], Case], sizes: Sequence[int], clock: Clock) -> int:
    """Return the size of a batch with which one input of it takes the least here: a method runs batch upon batch."""
    cases = {str(size): one_batch(size) for size in sizes}
    taken = replace(clock, repeats=3).medians(cases, warm=1)
    return min(sizes, key=lambda size: taken[str(size)].seconds / size)
