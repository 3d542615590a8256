"""PyTorch's own random numbers (first weights, dropout), from a key of ours and put back afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from whence.core.seed import generator


@contextmanager
def drawing(device: torch.device, *key: str | int) -> Iterator[None]:
    """Let what is drawn by PyTorch depend on `key` alone; the process's generators are left as they were.

    Layers and dropout take no generator of their own, so the state of the global ones is set, not their seed: a
    seed would outlive us.
    """
    seed = int(generator(*key).integers(2**63))
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        for one in cuda:
            torch.cuda.set_rng_state(torch.Generator(one).manual_seed(seed).get_state(), one)
        yield
