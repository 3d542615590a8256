"""NumPy random generators seeded by a key: the same key gives the same numbers anywhere."""

from collections.abc import Iterable
from hashlib import sha256

import numpy as np


def build_generator(*key: str | int | Iterable[int]) -> np.random.Generator:
    """Return a generator that depends on `key` alone, not on order, batch or process."""
    parts = [part if isinstance(part, str | int) else list(part) for part in key]
    digest = sha256(repr(parts).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint64))
