"""How far two sets of scores agree: by size, and by rank."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import batch_of, reading
from torch import Tensor

from whence.data import Batch
from whence.kernels import Implementation
from whence.stats import spearman, top_k_overlap

TOP = 10


def agreement(
    found: Mapping[str, Tensor], reference: Mapping[str, Tensor], batch: Batch, row: int
) -> dict[str, dict[str, float]]:
    """Return, by method, the worst over the inputs of how far scores are off, and of how alike their ranks are.

    The token whose row is read (the first or the last) is left out: rolled-out rows keep a 1 of their own there,
    beside which every error is small.
    """
    told = {}
    for name in found:
        scores = reference[name]
        each = [
            _one(_kept(mine, real, row), _kept(true, real, row))
            for mine, true, real in zip(found[name], scores, batch.real, strict=True)
        ]
        off, alike, top = zip(*each, strict=True)
        told[name] = {
            "off": max(off),
            "spearman": min(alike),
            "top": min(top),
            "top_k": TOP,
            "inputs_compared": len(each),
        }
    return told


def scores_of(
    setting: Setting,
    model: Any,
    given: Any,
    methods: Sequence[str],
    about: Mapping[str, Any],
    implementation: Implementation = "auto",
) -> dict[str, Tensor]:
    """Return the scores of some readers, each of a trace of its own: where one fails, the others do not."""
    batch = batch_of(model, given)
    found: dict[str, Tensor] = {}
    for name in methods:
        with setting.guarded(name, **about):
            found |= reading(model, batch, name, implementation)()
    return found


def _kept(scores: Tensor, real: Tensor, row: int) -> np.ndarray:
    own = scores.detach().double().cpu()[real.cpu()].numpy()
    return own[1:] if row == 0 else own[:-1]


def _one(mine: np.ndarray, true: np.ndarray) -> tuple[float, float, float]:
    largest = np.abs(true).max()
    off = float(np.abs(mine - true).max() / (largest or 1.0))
    off = off if np.isfinite(off) else float("inf")
    alike, top = spearman(mine, true)[0], top_k_overlap(mine, true, min(TOP, len(true)))[0]
    # What is constant has no ranks: then both must be.
    same = 1.0 if np.ptp(mine) == np.ptp(true) == 0 else 0.0
    return (
        off,
        float(alike) if np.isfinite(alike) else same,
        float(top) if np.isfinite(top) else same,
    )
