"""Agreement of two sets of scores: largest difference, rank correlation, top overlap; scores by method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import build_batch, build_reading
from torch import Tensor

from whence.data.batches import Batch
from whence.kernels.contract import Implementation
from whence.stats.rank import spearman, top_k_overlap

TOP = 10


def compute_agreement(
    found: Mapping[str, Tensor], reference: Mapping[str, Tensor], batch: Batch, row: int
) -> dict[str, dict[str, float]]:
    """Return, by method, the worst difference, rank correlation and top overlap over the inputs.

    The token whose row is read (the first or the last) is left out: rolled-out rows keep a 1 of their own there,
    beside which every error is small.
    """
    told = {}
    for name in found:
        scores = reference[name]
        each = [
            _compare_row(_drop_read_row(mine, real, row), _drop_read_row(true, real, row))
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


def compute_scores(
    setting: Setting,
    model: Any,
    given: Any,
    methods: Sequence[str],
    about: Mapping[str, Any],
    implementation: Implementation = "auto",
) -> dict[str, Tensor]:
    """Return the scores of some trace methods, each from its own trace, so that one failure spares the others."""
    batch = build_batch(model, given)
    found: dict[str, Tensor] = {}
    for name in methods:
        with setting.guard(name, **about):
            found |= build_reading(model, batch, name, implementation)()
    return found


def _drop_read_row(scores: Tensor, real: Tensor, row: int) -> np.ndarray:
    own = scores.detach().double().cpu()[real.cpu()].numpy()
    return own[1:] if row == 0 else own[:-1]


def _compare_row(mine: np.ndarray, true: np.ndarray) -> tuple[float, float, float]:
    largest = np.abs(true).max()
    off = float(np.abs(mine - true).max() / (largest or 1.0))
    off = off if np.isfinite(off) else float("inf")
    alike, top = spearman(mine, true)[0], top_k_overlap(mine, true, min(TOP, len(true)))[0]
    # Constant scores have no ranks: they agree only if both are constant.
    same = 1.0 if np.ptp(mine) == np.ptp(true) == 0 else 0.0
    return (
        off,
        float(alike) if np.isfinite(alike) else same,
        float(top) if np.isfinite(top) else same,
    )
