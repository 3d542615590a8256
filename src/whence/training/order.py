"""Which examples share a batch, and which batch comes when."""

from collections.abc import Sequence

import numpy as np

from whence.core.seed import generator

_NOISE = 0.1  # of the length, either way


def ordered(lengths: Sequence[int], size: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the batches of an epoch: like lengths together, give or take a tenth, and the batches shuffled."""
    rng = generator("batches", seed, epoch)
    noisy = np.asarray(lengths) * (1 + rng.uniform(-_NOISE, _NOISE, len(lengths)))
    by_length = [int(i) for i in np.argsort(noisy, kind="stable")]
    batches = [by_length[start : start + size] for start in range(0, len(by_length), size)]
    return [batches[int(i)] for i in rng.permutation(len(batches))]
